"""A run as one page: complete, offline, and deaf to whatever a model, a file or a user wrote into it."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kbbench_hf.benchmarks import shipped_answers
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.building.own_kb import build_own_knowledge_base
from kbbench_hf.errors import UsageError
from kbbench_hf.reports.run_page import run_page
from kbbench_hf.runners.run import run
from kbbench_hf.scoring.eval_task import load_examples
from kbbench_hf.scoring.result import write_result
from kbbench_hf.scoring.score import score
from tests.end_to_end.browser.chromium import chromium

COPY = next(file for file in shipped_answers("mini-text2kg") if file.stem == "copy")
HOSTILE = "<script>document.title='owned'</script><img src=http://127.0.0.1:9/x onerror=alert(1)>\"'&</pre></details>"


class Page(HTMLParser):
    """The tags of a page, and every attribute through which it could load something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.outside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name.startswith("on") or (name in ("src", "href") and not (value or "").startswith("data:image/png;")):
                self.outside.append(f"{tag} {name}={value}")


def scored(folder: Path, rows: list[dict[str, object]], **run: object) -> Path:
    folder.mkdir()
    file = folder / "predictions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    write_result(score(file, "mini-text2kg"), folder)
    if run:
        (folder / "run.json").write_text(json.dumps(run), encoding="utf-8")
    return folder


def copied() -> list[dict[str, object]]:
    return [json.loads(line) for line in COPY.read_text(encoding="utf-8").splitlines()]


def hostile_run(folder: Path) -> Path:
    rows = [{**row, "triples": [[HOSTILE] * 3], "response": HOSTILE} for row in copied()]
    return scored(folder, rows, settings={"model": HOSTILE}, model=HOSTILE, summary={"errors": {HOSTILE: 2}})


def test_a_page_holds_figures_counts_slices_examples_and_provenance(tmp_path):
    summary = {"model": "m", "n_answered": 48, "latency_p50_s": 0.5, "cost": 0.25, "errors": {"timeout": 2}}
    text = run_page(scored(tmp_path / "run", copied(), settings={"model": "my-model", "seed": 7}, summary=summary))
    page = Page(text)
    assert page.outside == []
    assert "<h1>Text2KGBench, mini: my-model</h1>" in text
    for expected in (
        "<td>0.4028</td>",
        "SH ↓",
        "<td>median latency, s</td><td>0.5</td>",
        "timeout 2",
        "&quot;seed&quot;: 7",
    ):
        assert expected in text
    n_folded = page.tags.count("details") - 30  # 30 of the 48 examples
    assert n_folded == 3  # other metrics, zero counts, provenance
    first, others = text.split("more metrics</summary>")
    assert first.index("class=bar") < first.index("<td>0.4028</td>") and ">DC<" not in first and ">DC<" in others
    zeros = others.split("counts are zero</summary>")[1].split("</details>")[0]
    assert re.findall(r"<td>([^<]+)</td><td>0</td>", zeros) and "<td>0</td>" not in others.split("counts are zero")[0]


def test_each_bar_of_a_slice_is_at_the_score_of_its_row(tmp_path):
    result = score(shipped_answers("mini-genres")[0], "mini-genres")
    write_result(result, tmp_path)
    of_slice = next(text for text in run_page(tmp_path).split("<details") if ">gold triples<" in text)
    bar = r"<tr><td>([^<]+)</td><td class=drawn><span [^>]*--value:([\d.]+)%[^>]*></span>\s*</td><td>([\d.]+)</td>"
    rows = re.findall(bar, of_slice)
    assert [key for key, *_ in rows] == sorted(result.slices["gold_triples"]) != [*result.slices["gold_triples"]]
    assert len({value for *_, value in rows}) == 3
    assert [float(place) / 100 for _, place, _ in rows] == pytest.approx([float(value) for *_, value in rows], abs=1e-4)


def test_examples_show_what_was_right_wrong_or_made_up_and_the_raw_answer(tmp_path):
    gold = load_examples("mini-text2kg").examples.rows[0]
    (right,) = [[t["sub"], t["rel"], t["obj"]] for t in gold["triples"]]
    answer = [right, [right[0], right[1], "Atlantis"], [right[2], right[1], right[0]]]
    rows = [{"id": gold["id"], "triples": answer, "response": "It seems to me: ..."}]
    text = run_page(scored(tmp_path / "run", rows))
    one, two, three = (" | ".join(each) for each in answer)
    assert f"<li class=right>✓ {one}</li><li class=hallucinated>⚠ {two}</li><li class=wrong>✗ {three}</li>" in text
    assert "<b>response</b><pre>It seems to me: ...</pre>" in text
    assert text.count("<p>No prediction.</p>") == 29


def test_an_example_that_failed_says_why(tmp_path):
    first, second, *_ = copied()
    text = run_page(scored(tmp_path / "run", [{"id": first["id"], "error": "timeout"}, second]))
    assert "<p>No prediction.</p><b>response</b><pre>timeout</pre>" in text


def test_nothing_that_was_written_into_a_run_becomes_part_of_the_page(tmp_path):
    page = Page(run_page(hostile_run(tmp_path / "run")))
    assert page.outside == []
    assert "script" not in page.tags
    assert page.tags.count("details") == 33


def test_a_page_stays_under_five_megabytes_whatever_a_model_writes(tmp_path):
    long = [
        {**row, "triples": [["a" * 300, "b" * 300, f"{n}"] for n in range(400)], "response": "x" * 200_000}
        for row in copied()
    ]
    text = run_page(scored(tmp_path / "run", long))
    assert len(text.encode()) < 5_000_000
    assert "... and 350 more" in text
    assert "... (200,000 characters)" in text


def test_ranked_candidates_are_shown_by_name_and_hostile_names_as_text(in_tmp):
    nodes = [(1, "Leek soup"), (2, HOSTILE.replace('"', "'")), (3, "Cold soup")]
    Path("n.csv").write_text("id,type,name,text\n" + "".join(f'{n},dish,"{name}",soup\n' for n, name in nodes))
    Path("e.csv").write_text("head,relation,tail\n1,resembles,3\n")
    Path("q.csv").write_text('id,query,answer_ids\n1,leek soup <b>,"[1, 2]"\n')
    build_own_knowledge_base("my-kb", Path("n.csv"), Path("e.csv"), Path("q.csv"), Path("kbbench/my-kb"))
    run("my-kb", "bm25", out=Path("run"), show=False)
    text = run_page(Path("run"))
    assert "<li class=right>✓ 1. Leek soup (1)</li>" in text
    assert "leek soup &lt;b&gt;" in text
    page = Page(text)
    assert page.outside == []
    assert "script" not in page.tags


def test_a_run_scored_on_other_data_shows_no_examples(tmp_path):
    folder = scored(tmp_path / "run", copied())
    result = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**result, "dataset_revision": "0" * 40}))
    assert "The installed dataset is not the revision that was scored" in run_page(folder)


def test_a_folder_of_figures_without_predictions_shows_no_examples(tmp_path):
    folder = scored(tmp_path / "run", copied())
    (folder / "predictions.jsonl").unlink()
    text = run_page(folder)
    assert "The run has no predictions.jsonl; no examples are shown." in text
    assert "<td>0.4028</td>" in text


def test_a_folder_without_a_result_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"holds no result\.json; expected the folder of a finished run"):
        run_page(tmp_path)


def test_the_note_of_the_largest_effect_comes_first_and_the_fourth_is_folded(tmp_path):
    folder = scored(tmp_path / "run", copied())
    result = json.loads((folder / "result.json").read_text())
    effects = {"small": 0.01, "none": 0.0, "large": -0.3, "middle": 0.1}
    warnings = [ScoreWarning(name, f"Note {name}.", effect={"f1": each}) for name, each in effects.items()]
    result["warnings"] = [each.to_dict() for each in [ScoreWarning("n", "A note.", severity="note"), *warnings]]
    (folder / "result.json").write_text(json.dumps(result))
    text = run_page(folder)
    order = [text.index(each) for each in ("Note large.", "Note middle.", "Note small.", "Note none.", "A note.")]
    assert order == sorted(order)
    assert "2 more notes</summary>" in text[order[2] : order[3]]


@pytest.mark.browser
def test_a_browser_shows_the_page_at_both_widths_without_any_request_or_script(tmp_path):
    file = tmp_path / "page.html"
    file.write_text(run_page(hostile_run(tmp_path / "run")), encoding="utf-8")
    with chromium() as browser:
        for width in (1000, 360):
            page = browser.new_page(viewport={"width": width, "height": 900})
            wrong: list[str] = []
            page.on("request", lambda request, wrong=wrong: wrong.append(request.url))
            page.on("pageerror", lambda error, wrong=wrong: wrong.append(str(error)))
            page.on("dialog", lambda dialog, wrong=wrong: wrong.append(dialog.message))
            page.goto(file.as_uri())
            page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
            assert [each for each in wrong if not each.startswith(("file:", "data:"))] == []
            assert page.title().startswith("Text2KGBench, mini: <script>")
            assert page.evaluate("document.documentElement.scrollWidth") == width
            page.close()
