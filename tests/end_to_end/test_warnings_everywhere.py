"""Three comparisons that mislead, and all the places that show their figures: each refuses, or carries the warning."""

import json
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

from kbbench_hf import cli
from kbbench_hf.benchmarks import shipped_answers
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import KBBenchError
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.store import Store, System
from kbbench_hf.leaderboard.submissions import preview, store_preview
from kbbench_hf.leaderboard.table import board
from kbbench_hf.scoring.comparison import compare
from kbbench_hf.scoring.eval_task import load_examples
from kbbench_hf.scoring.score import score

ROOT = Path(__file__).resolve().parents[2]
NAME = "mini-text2kg"
WHOLE = shipped_answers(NAME)[1]


def spaced(lines: list[str]) -> list[str]:
    """Write relations with spaces for underscores."""
    rows = [json.loads(line) for line in lines]
    return [
        json.dumps({**row, "triples": [[s, r.replace("_", " "), o] for s, r, o in row["triples"]]}) + "\n"
        for row in rows
    ]


def gold(lines: list[str]) -> list[str]:
    """Return the gold in the place of a system's answers."""
    rows = load_examples(NAME).examples.rows
    golds = [[[each["sub"], each["rel"], each["obj"]] for each in row["triples"]] for row in rows]
    return [json.dumps({"id": row["id"], "triples": each}) + "\n" for row, each in zip(rows, golds, strict=True)]


SPOILED: dict[str, tuple[Callable[[list[str]], list[str]], str]] = {
    "relations with spaces": (spaced, "from the ontology only in case, spaces or underscores|near.miss"),
    "the gold itself": (gold, "equal the gold|equals.gold"),
    "half a file": (lambda lines: lines[:24], "24 of 48|no prediction|missing|empty"),
    "an empty file": (lambda lines: [], "empty|no prediction|missing|0 predictions|nothing"),
}


def command(*arguments: str) -> Callable[[Path, pytest.MonkeyPatch, pytest.CaptureFixture[str]], str]:
    def call(file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
        monkeypatch.setattr("sys.argv", ["kbbench", *(each.format(file=file, out=file.parent) for each in arguments)])
        with pytest.raises(SystemExit):
            cli.main()
        return " ".join(capsys.readouterr())

    return call


def in_result_json(file: Path, *capture: object) -> str:
    said = command("score", "{file}", "--benchmark", NAME, "--out", "{out}/result")(file, *capture)  # type: ignore[arg-type]
    written = file.parent / "result" / "result.json"
    return str(json.loads(written.read_text())["warnings"]) if written.exists() else said


def in_report(file: Path, *capture: object) -> str:
    folder = file.parent / "run"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"settings": {**load_examples(NAME).settings(), "model": "m"}}))
    (folder / "predictions.jsonl").write_bytes(file.read_bytes())
    said = command("score", str(folder), "--out", str(folder))(file, *capture)  # type: ignore[arg-type]
    if not (folder / "result.json").exists():
        return said
    command("report", str(folder))(file, *capture)  # type: ignore[arg-type]
    return unescape((folder / "report.html").read_text(encoding="utf-8"))


def on_the_board(file: Path, *capture: object) -> str:
    from kbbench_hf.app.row_page import head_html
    from kbbench_hf.app.submit_page import preview_text

    try:
        read = preview(file, NAME)
    except KBBenchError as error:
        return str(error)
    store = Store(file.parent / "store")
    store_preview(store, read, System("a system"), "somebody")
    place = read.result.task_key
    row = next(row for row in board(Index(store), place) if row.badge != "published")
    shown = preview_text(read).replace("\\", ""), unescape(head_html(row, place))
    assert all("near" in each or "only in case" in each or "equal the gold" in each for each in shown)
    return " ".join(shown)


def in_python(file: Path, *capture: object) -> str:
    try:
        return f"{score(file, NAME).warnings} {compare(WHOLE, file, NAME).warnings}"
    except KBBenchError as error:
        return str(error)


def in_evaluate(file: Path, *capture: object) -> str:
    import evaluate

    examples = load_examples(NAME).examples
    given = {row["id"]: row["triples"] for row in map(json.loads, file.read_text().splitlines())}
    ontologies = examples.context.released
    references = [
        {
            "sentence": row["sentence"],
            "triples": [[each["sub"], each["rel"], each["obj"]] for each in row["triples"]],
            "ontology": {
                "concepts": ontologies[row["ontology_id"]].concepts,
                "relations": ontologies[row["ontology_id"]].relations,
            },
        }
        for row in examples.rows
    ]
    module = evaluate.load(str(ROOT / "metrics" / "text2kg"))
    predictions = [given.get(row["id"], []) for row in examples.rows]
    return str(module.compute(predictions=predictions, references=references, return_warnings=True)["warnings"])


TABLES = {
    "metrics": command("compare", str(WHOLE), "{file}", "--benchmark", NAME, "--metrics", "f1"),
    "json of metrics": command("compare", str(WHOLE), "{file}", "--benchmark", NAME, "--metrics", "f1", "--json"),
    "markdown": command("compare", str(WHOLE), "{file}", "--benchmark", NAME, "--table", "markdown"),
    "html": command("compare", str(WHOLE), "{file}", "--benchmark", NAME, "--table", "html"),
    "csv": command("compare", str(WHOLE), "{file}", "--benchmark", NAME, "--table", "csv"),
}
PLACES = {
    "terminal of score": command("score", "{file}", "--benchmark", NAME),
    "terminal of compare": command("compare", str(WHOLE), "{file}", "--benchmark", NAME),
    "--json of score": command("score", "{file}", "--benchmark", NAME, "--json"),
    "--json of compare": command("compare", str(WHOLE), "{file}", "--benchmark", NAME, "--json"),
    "result.json": in_result_json,
    "report.html": in_report,
    "board": on_the_board,
    "evaluate": in_evaluate,
    "Python": in_python,
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("spoiled", SPOILED)
def test_every_place_says_what_spoils_the_figures(
    spoiled: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil, words = SPOILED[spoiled]
    file = tmp_path / "answers.jsonl"
    file.write_text("".join(spoil(WHOLE.read_text(encoding="utf-8").splitlines(keepends=True))), encoding="utf-8")
    said = PLACES[place](file, monkeypatch, capsys)
    assert re.search(words, " ".join(said.split()), re.IGNORECASE), said[:2000]


@pytest.mark.parametrize("place", [*(each for each in PLACES if each != "evaluate"), *TABLES])
def test_any_warning_of_a_result_reaches_every_place(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A warning with a code that nothing knows: no place may choose among warnings."""
    probe = ScoreWarning("probe", "Never seen before, near", "Look here.")
    monkeypatch.setattr("kbbench_hf.scoring.warnings.completeness_warnings", lambda *_: [probe])
    file = tmp_path / "answers.jsonl"
    file.write_bytes(WHOLE.read_bytes())
    said = " ".join({**PLACES, **TABLES}[place](file, monkeypatch, capsys).split())
    assert ("probe" if place == "csv" else probe.message) in said


@pytest.mark.parametrize("place", TABLES)
def test_a_table_of_two_systems_warns_of_what_their_comparison_warns_of(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [json.loads(line) for line in WHOLE.read_text(encoding="utf-8").splitlines()]
    answers = [row["triples"] for row in rows]
    file = tmp_path / "answers.jsonl"
    moved = [{**row, "triples": each} for row, each in zip(rows, answers[1:] + answers[:1], strict=True)]
    file.write_text("".join(json.dumps(row) + "\n" for row in moved), encoding="utf-8")
    said = " ".join(TABLES[place](file, monkeypatch, capsys).split())
    words = "moved_answers" if place == "csv" else "those of (pattern|A) for other examples"
    assert re.search(words, said), said[:2000]


def test_whole_answers_are_warned_of_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert score(WHOLE, NAME).warnings == [] and tuple(compare(WHOLE, WHOLE, NAME).warnings) == ()
    assert "!" not in command("compare", str(WHOLE), str(WHOLE), "--benchmark", NAME)(tmp_path, monkeypatch, capsys)


NODES = "id,type,name,text\n" + "".join(
    f"{number},town,Town {number},A place with {each} wells.\n" for number, each in enumerate("ash elm oak fir".split())
)
QUERIES = "id,query,answer_ids\n1,zebra,[0]\n2,wells,[1]\n3,Where is the giraffe?,[2]\n4,fir places,[3]\n"
UNMATCHED = r"3 of 4 queries match no text of a node, or all nodes equally"
"""Two queries have no word of any text; the second has one that stands in all alike."""
DIFFERENT = r"different texts of the nodes \(A: text; B: clean\)"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "queries.csv").write_text(QUERIES)
    command("build", "towns", "--nodes", "nodes.csv", "--queries", "queries.csv")(tmp_path, monkeypatch, capsys)
    for model, out in (("bm25", "run"), ("bm25@text=clean", "clean")):
        said = command("run", "towns", "--model", model, "--out", out)(tmp_path, monkeypatch, capsys)
        assert out == "clean" or re.search(UNMATCHED, " ".join(said.split())), said
    return tmp_path / "run"


def test_every_place_says_how_many_queries_a_retriever_matched_with_nothing(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def page(file: Path, *_: object) -> str:
        command("report", "{file}")(file, monkeypatch, capsys)
        return unescape((file / "report.html").read_text(encoding="utf-8"))

    def board_page(file: Path, *_: object) -> str:
        from kbbench_hf.app.row_page import head_html

        command("submit", "{file}", "--name", "a system", "--store", "store")(file, monkeypatch, capsys)
        place = load_examples("towns").task_key
        return unescape(head_html(board(Index(Store(Path("store"))), place)[0], place))

    places = {
        "run.json": lambda file, *_: str(json.loads((file / "run.json").read_text())["warnings"]),
        "result.json": lambda file, *_: str(json.loads((file / "result.json").read_text())["warnings"]),
        "terminal of score": command("score", "{file}"),
        "--json of score": command("score", "{file}", "--json"),
        "terminal of compare": command("compare", "{file}", "clean"),
        "--json of compare": command("compare", "{file}", "clean", "--json"),
        "a table": command("compare", "{file}", "clean", "--table", "markdown"),
        "report": page,
        "board": board_page,
        "Python": lambda file, *_: str(score(file).warnings),
    }
    for place, show in places.items():
        said = " ".join(show(runs, monkeypatch, capsys).split())
        assert re.search(UNMATCHED, said), (place, said[:2000])
        assert "compare" not in place or re.search(DIFFERENT, said), (place, said[:2000])
    texts = json.loads((runs / "run.json").read_text())["texts"]
    assert texts == {"bm25": {"rendering": "text", "relations": False, "fields": ["text", "name where text is empty"]}}
    assert not any(each.code == "different_texts" for each in compare(runs, runs).warnings)


RUN_CODES = ("truncated", "refused", "equal_replies", "timeouts", "context_overflow", "prompts_cut")
IN_PLACES = {
    "terminal of score": ("score", "{run}", "--notes"),
    "--json of score": ("score", "{run}", "--json"),
    "terminal of compare": ("compare", "{run}", str(WHOLE), "--notes"),
    "--json of compare": ("compare", "{run}", str(WHOLE), "--json"),
    "result.json": ("score", "{run}", "--out", "{run}"),
    "report.html": ("report", "{run}"),
    "board": ("submit", "{run}/predictions.jsonl", "--benchmark", NAME, "--name", "m", "--store", "{run}/store"),
}


@pytest.mark.parametrize("place", IN_PLACES)
def test_a_warning_of_a_run_is_shown_in_every_place(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    warnings = [ScoreWarning(code, f"Found: {code}.", f"Mend {code}.", 3).to_dict() for code in RUN_CODES]
    settings = {**load_examples(NAME).settings(), "model": "m"}
    (tmp_path / "run.json").write_text(json.dumps({"settings": settings, "warnings": warnings}))
    (tmp_path / "predictions.jsonl").write_bytes(WHOLE.read_bytes())
    if place == "report.html":
        command("score", str(tmp_path), "--out", str(tmp_path))(tmp_path, monkeypatch, capsys)
    shown = command(*(each.replace("{run}", str(tmp_path)) for each in IN_PLACES[place]))(tmp_path, monkeypatch, capsys)
    if place == "board":
        rows = board(Index(Store(tmp_path / "store")), score(tmp_path).task_key)
        shown = " ".join(str(warning) for row in rows for warning in row.warnings)
    elif "." in place:
        shown = unescape((tmp_path / place).read_text(encoding="utf-8"))
    words = " ".join(shown.split())
    assert [each for each in RUN_CODES if f"Found: {each}." not in words or f"Mend {each}." not in words] == []
