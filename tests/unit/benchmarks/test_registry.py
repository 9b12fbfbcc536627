"""Benchmarks by name, and datasets by the folder that holds them."""

from pathlib import Path

import pyarrow as pa
import pytest

from kbbench_hf.benchmarks.load import load
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import write_dataset
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
