"""Benchmarks by name, and datasets by the folder that holds them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kbbench_hf.benchmarks import base, benchmark
from kbbench_hf.benchmarks.base import Metric
from kbbench_hf.benchmarks.load import load
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import write_dataset
from kbbench_hf.scoring.eval_task import load_examples
from kbbench_hf.scoring.score import score


def test_a_dataset_is_found_by_the_path_of_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = pa.table({"id": ["a", "b"], "type": ["x", "x"], "name": ["A", "B"], "text": ["", ""]})
    edges = pa.table({"head": ["a"], "relation": ["r"], "tail": ["b"]})
    queries = pa.table({"id": ["q"], "query": ["A?"], "answer_ids": [["a"]]})
    tables = {"queries": {"test": queries}, "nodes": {"full": nodes}, "edges": {"full": edges}}
    write_dataset(tmp_path / "far" / "kb-by-path", tables, "---\n{}\n---\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load("./far/kb-by-path").num_rows == 1 and load("~/far/kb-by-path/nodes").num_rows == 2
    assert score([{"id": "q", "ids": ["a"]}], "$HOME/far/kb-by-path").scores["hit_at_1"].value == 1
    with pytest.raises(UsageError, match=r"holds no manifest.json"):
        load("./far")
    write_dataset(tmp_path / "kbbench" / "kb-by-path", tables, "---\n{}\n---\n")
    with pytest.raises(UsageError, match="both datasets called kb-by-path"):
        load("./far/kb-by-path")


def test_a_metric_of_another_package_is_scored_and_summarized_with_the_benchmarks_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lengths(examples: Any, answers: Any, mode: str) -> list[float]:
        return [float("nan") if each is None else len(each) for each in answers]

    found = {"n": Metric("triples", frozenset({"mini-text2kg"}), lengths, lower_is_better=True, unbounded=True)}
    found |= {"f1": found["n"], "other": replace(found["n"], datasets=frozenset({"mini-ska"}))}
    plain, examples = benchmark("mini-text2kg"), load_examples("mini-text2kg").examples
    monkeypatch.setattr(base, "plug_ins", lambda group: {**dict.fromkeys(found, "m:f"), "none": "m:g"})
    monkeypatch.setattr(base, "plugged", lambda kind, key, address: found.get(key, "text"))
    with pytest.warns(UserWarning, match="has a metric 'f1' of its own|'none' of another package, is a str"):
        scoring = base.with_plugged_metrics(plain).scoring
    assert scoring.metrics == {**plain.scoring.metrics, "n": "triples"}
    assert "n" in scoring.lower_is_better and "n" in scoring.unbounded
    assert scoring.metrics_in is not None and list(scoring.metrics_in(""))[-1] == "n"
    answers: list[Any] = [[["a", "b", "c"]] * 3, None, *([[]] * (len(examples.rows) - 2))]
    scores = scoring.score(examples, answers, "reference")
    assert scores.values["n"][[0, 2]].tolist() == [3.0, 0.0]
    summary, own = scoring.summarise(scores, "reference"), plain.scoring.score(examples, answers, "reference")
    assert summary["n"].value == pytest.approx(3 / (len(examples.rows) - 1))
    assert {name: each for name, each in summary.items() if name != "n"} == plain.scoring.summarise(own, "reference")
    found["n"] = replace(found["n"], score=lambda examples, answers, mode: [1.0])
    with pytest.warns(UserWarning), pytest.raises(UsageError, match=r"shape \(1,\); expected one value per example"):
        base.with_plugged_metrics(plain).scoring.score(examples, answers, "reference")
