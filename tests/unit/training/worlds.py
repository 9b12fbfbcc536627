"""Small datasets with splits, for tests that train."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from kbbench_hf.cli.verbs import kbbench

Asked = tuple[str, Sequence[str], str]
"""A question, the ids of its answers, its split."""


def build_world(
    folder: Path, name: str, nodes: Sequence[Sequence[str]], edges: Sequence[Sequence[str]], asked: Sequence[Asked]
) -> None:
    """Build a dataset in a folder: nodes are (id, type, name), edges (head, relation, tail)."""
    questions = [
        (f"q{n}", question, json.dumps([*answers]), split) for n, (question, answers, split) in enumerate(asked)
    ]
    _write(folder / "nodes.csv", ["id", "type", "name", "text"], [(*each, "") for each in nodes])
    _write(folder / "edges.csv", ["head", "relation", "tail"], edges)
    _write(folder / "queries.csv", ["id", "query", "answer_ids", "split"], questions)
    tables = [f"--{table}={folder / table}.csv" for table in ("nodes", "edges", "queries")]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        kbbench.main(["build", name, *tables], standalone_mode=False)


def _write(file: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    with file.open("w", newline="", encoding="utf-8") as sink:
        csv.writer(sink).writerows([header, *rows])


def weights(folder: Path) -> bytes:
    """Return the weights of all that was trained below a folder."""
    return b"".join(file.read_bytes() for file in sorted(folder.rglob("*.safetensors")))
