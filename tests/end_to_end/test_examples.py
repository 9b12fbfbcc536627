"""The examples run offline as they stand, and show what they say that they show."""

import json
import re
import runpy
import sys
from pathlib import Path

import pytest

import kbbench_hf
from kbbench_hf.files.datasets import Row
from tests.servers.scripted import ScriptedServer

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(name: str, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")


def figures(text: str) -> list[float]:
    return [float(line.split()[0]) for line in text.splitlines() if re.match(r"[+-]?\d\.\d{3} \[", line)]


def test_two_retrievers_are_compared_on_csv_files_of_ones_own_or_the_example_that_is_written(
    in_tmp: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run("compare_retrievers.py", monkeypatch=monkeypatch)
    words, graph, difference = figures(capsys.readouterr().out)
    (stored,) = in_tmp.glob("kbbench-runs/my-kb/*test-bm25*")
    assert words == pytest.approx(kbbench_hf.score(stored).scores["mrr"].value, abs=5e-4)
    assert difference == pytest.approx(graph - words, abs=2e-3) and difference > 0.2
    for table in ("nodes", "edges", "queries"):
        (in_tmp / f"{table}.csv").rename(in_tmp / f"own-{table}.csv")
    tables = ("own-nodes.csv", "own-edges.csv", "own-queries.csv")
    run("compare_retrievers.py", *tables, "graph:bm25", "bm25", monkeypatch=monkeypatch)
    assert figures(capsys.readouterr().out) == [graph, words, -difference]


def test_a_served_model_is_asked_scored_and_reported_and_the_same_line_asks_nothing_again(
    in_tmp: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    gold = {row["sentence"]: row["triples"] for row in kbbench_hf.load("mini-text2kg", split="test").to_list()}

    def answer(payload: Row) -> str:
        asked = payload["messages"][-1]["content"]
        rows = [
            {"subject": each["sub"], "relation": each["rel"].replace(" ", "_"), "object": each["obj"]}
            for each in gold[max(gold, key=asked.rfind)]
        ]
        return json.dumps({"triples": rows})

    with ScriptedServer(answer=answer) as server:
        run("served_model.py", server.url, "scripted-model", monkeypatch=monkeypatch)
        asked = len(server.payloads)
        run("served_model.py", server.url, "scripted-model", monkeypatch=monkeypatch)
        assert len(server.payloads) == asked >= 48
    printed = capfd.readouterr().out
    assert "1.000 [0.926, 1.000]  f1, 48 examples" in printed and "Against pattern: <Comparison" in printed
    assert list(in_tmp.glob("kbbench-runs/mini-text2kg/*/report.html"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the kernel's making
def test_the_notebook_runs_from_top_to_bottom_and_ends_with_a_picture(in_tmp: Path) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = nbformat.read(EXAMPLES / "score_compare_plot.ipynb", 4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "it is stored without what it gives"
    nbclient.NotebookClient(notebook, timeout=120).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    text = "".join(output.get("text", "") for output in outputs)
    assert re.search(r"^f1 +\+0\.224 \[\+0\.111, \+0\.338\], p = 0\.000", text, re.MULTILINE)
    assert "image/png" in outputs[-1]["data"]


def test_every_example_is_listed_and_short() -> None:
    listed = re.findall(r"^\| \[(.*?)\]", (EXAMPLES / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(
        file.name for file in EXAMPLES.iterdir() if file.name not in ("README.md", "__pycache__")
    )
    scripts = {file.name: len(file.read_text(encoding="utf-8").splitlines()) for file in EXAMPLES.glob("*.py")}
    assert [name for name, lines in scripts.items() if lines >= 60] == ["smolagents_agent.py"]


def test_what_training_bought_is_compared_on_the_test_questions(
    in_tmp: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sentence_transformers")
    from tests.tiny_encoder import tiny_encoder

    questions = kbbench_hf.load("mini-stark", split="test").select(range(45))
    tables = {
        "nodes": kbbench_hf.load("mini-stark/nodes", split="full"),
        "edges": kbbench_hf.load("mini-stark/edges", split="full"),
        "stark_qa_covered": questions.map(lambda row: {"answer_ids": json.dumps(row["answer_ids"])}),
    }
    for folder in ("ibd_subgraph", "split"):
        (in_tmp / folder).mkdir()
    for name, table in tables.items():
        table.to_csv(in_tmp / "ibd_subgraph" / f"{name}.csv")
    for part, rows in (("train", range(20)), ("val", range(20, 30)), ("test", range(30, 45))):
        (in_tmp / "split" / f"{part}.index").write_text("\n".join(str(questions[row]["id"]) for row in rows))
    model = tiny_encoder(in_tmp / "tiny", [*tables["nodes"]["text"], *questions["query"]])
    run("trained_against_untrained.py", ".", str(model), "1", monkeypatch=monkeypatch)
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if re.match(r" *0\.\d{3} ", line)]
    assert len(lines) == 6
    own = float(lines[0][0])
    assert all(float(line[1]) == pytest.approx(own - float(line[0]), abs=2e-3) for line in lines)
