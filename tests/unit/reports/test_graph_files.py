"""A knowledge base as plain files: nothing is lost, gold answers are apart, and a failed export leaves no folder."""

import json
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.benchmarks import find_dataset
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.reports import graph_files
from kbbench_hf.scoring.eval_task import load_examples
from tests.unit.training.worlds import build_world


def json_lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_files_hold_the_whole_graph_and_keep_gold_answers_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_files, "SHARD", 100)
    graph_files.write_graph_files("mini-stark", tmp_path / "out")
    kb, corpus = KnowledgeBase.open(find_dataset("mini-stark").path), tmp_path / "out/corpus/mini-stark"
    shards = [json_lines(corpus / f"nodes/{number:04}.jsonl") for number in range(3)]
    assert [len(shard) for shard in shards] == [100, 100, 81]
    nodes = [node for shard in shards for node in shard]
    assert [node["node_id"] for node in nodes] == kb.ids()
    assert [node["node_type"] for node in nodes] == kb.types()
    assert [node["text"] for node in nodes] == kb.texts()
    graph_files._write_nodes(kb, {150}, tmp_path)
    assert [node["node_id"] for node in json_lines(tmp_path / "0001.jsonl") if node["is_candidate"]] == [kb.ids()[150]]
    schema = json.loads((corpus / "schema.json").read_text(encoding="utf-8"))
    found = []
    for each in schema["relations"]:
        head, *lines = (corpus / each["file"]).read_text(encoding="utf-8").splitlines()
        assert (head, len(lines)) == ("source_id\ttarget_id", each["n"])
        found += [(int(line.split("\t")[0]), each["relation"], int(line.split("\t")[1])) for line in lines]
    numbered = zip(*(kb.edges[name].to_pylist() for name in ("head", "relation", "tail")), strict=True)
    assert sorted(found) == sorted((h, kb.graph.relations[r], t) for h, r, t in numbered)
    rows = load_examples("mini-stark").examples.rows
    public, private = (json_lines(tmp_path / f"out/{part}/mini-stark/test.jsonl") for part in ("public", "private"))
    assert [{*row} for row in public] == [{"query_id", "query", "corpus_dir"}] * len(rows)
    assert [(row["query_id"], row["answer_ids"]) for row in private] == [(row["id"], row["answer_ids"]) for row in rows]


def test_attributes_and_records_are_whole_and_nan_is_null(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    build_world(tmp_path, "own", [("a", "x", "Ada"), ("b", "y", "Bo")], [("a", "r", "b")], [("who", ["a"], "test")])
    kb = KnowledgeBase.open(tmp_path / "kbbench/own")
    details = '{"year": NaN, "name": "other", "odd": "\\ud83d"}'
    table = kb.nodes.append_column("details", [[details, None]]).append_column("height", [[3.5, None]])
    own = KnowledgeBase(table.combine_chunks(), kb.edges, kb.graph)
    graph_files._write_nodes(own, {1}, tmp_path)
    ada, bo = json_lines(tmp_path / "0000.jsonl")
    assert (ada["name"], ada["height"], ada["odd"], ada["is_candidate"]) == ("Ada", 3.5, "\ud83d", False)
    assert "height" not in bo
    assert bo["is_candidate"]
    table = kb.nodes.append_column("details", [['{"year": NaN}', None]])
    graph_files._write_nodes(KnowledgeBase(table.combine_chunks(), kb.edges, kb.graph), {1}, tmp_path)
    assert json_lines(tmp_path / "0000.jsonl")[0]["year"] is None


@pytest.mark.parametrize(("n", "first", "last"), [(100, "00", "99"), (101, "000", "100")])
def test_files_of_relations_have_numbers_of_one_width(
    n: int, first: str, last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    edges = [("a", f"r{number:03}", "b") for number in range(n)]
    build_world(tmp_path, "own", [("a", "x", "Ada"), ("b", "y", "Bo")], edges, [("who", ["a"], "test")])
    graph_files.write_graph_files("own", tmp_path / "out")
    names = sorted(file.name for file in (tmp_path / "out/corpus/own/edges").iterdir())
    assert (len(names), names[0], names[-1]) == (n, f"{first}.tsv", f"{last}.tsv")
    relations = json.loads((tmp_path / "out/corpus/own/schema.json").read_text())["relations"]
    assert [each["file"] for each in relations] == [f"edges/{name}" for name in names]
    assert [each["relation"] for each in relations] == [relation for _, relation, _ in edges]


def test_a_failed_export_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    nodes = [("a\tb", "x", "Ada"), ("c", "y", "Bo")]
    build_world(tmp_path, "own", nodes, [("a\tb", "r", "c")], [("who", ["c"], "test")])
    before = sorted(tmp_path.iterdir())
    with pytest.raises(DataError, match="without tabs"):
        graph_files.write_graph_files("own", tmp_path / "out")
    assert sorted(tmp_path.iterdir()) == before
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine").touch()
    with pytest.raises(UsageError, match="has content"):
        graph_files.write_graph_files("mini-stark", tmp_path / "out")
    with pytest.raises(UsageError, match="no knowledge base"):
        graph_files.write_graph_files("mini-ska", tmp_path / "new")
