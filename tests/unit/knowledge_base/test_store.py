import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import kbbench_hf
from kbbench_hf.benchmarks import shipped_dataset
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.datasets import DatasetFolder, write_dataset
from kbbench_hf.knowledge_base import KnowledgeBase
from kbbench_hf.knowledge_base.documents import CLEAN, render
from kbbench_hf.knowledge_base.tables import schema_table

NODES = pa.table(
    {
        "id": ["n1", "n2", "n3"],
        "type": ["b", "a", "b"],
        "name": ["Ümit", "Two", "TWO"],
        "text": ["", "text", ""],
        "details": ['{"source": {"id": 7}}', None, '{"source": {"id": 8}}'],
        "extra": [1, 2, 3],
    }
)
EDGES = pa.table(
    {"head": ["n1", "n1", "n2"], "relation": ["r", "r", "q"], "tail": ["n2", "n2", "n3"], "weight": [0.5, 1.0, 2.0]}
)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_store_opens_as_what_was_built(tmp_path: Path) -> None:
    built = KnowledgeBase.from_arrow(NODES, EDGES)
    opened = KnowledgeBase.build(NODES, EDGES, None, tmp_path / "kb")
    assert opened.nodes.equals(built.nodes)
    assert opened.edges.equals(built.edges)
    assert opened.hash == built.hash
    assert opened.neighbors(0, "r").tolist() == [1]
    assert opened.neighbors(2, "q", "in").tolist() == [1]
    assert opened.edges["weight"].to_pylist() == [0.5, 1.0, 2.0]
    assert opened.nodes["extra"].to_pylist() == [1, 2, 3]
    assert opened.tuples() == [("a", "q", "b", 1), ("b", "r", "a", 2)]
    assert render(opened, CLEAN).to_pylist() == render(built, CLEAN).to_pylist()


def test_the_same_tables_give_the_same_bytes_and_another_name_another_hash(tmp_path: Path) -> None:
    one, two = (KnowledgeBase.build(NODES, EDGES, None, tmp_path / name) for name in ("one", "two"))
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    changed = NODES.set_column(2, "name", pa.array(["Ümit", "Two", "Twö"]))
    assert KnowledgeBase.from_arrow(changed, EDGES).hash != one.hash == two.hash
    chunked = pa.concat_tables([NODES.slice(0, 1), NODES.slice(1)])
    assert KnowledgeBase.from_arrow(chunked, EDGES).hash == one.hash


def test_mapped_arrays_cannot_be_written_to(tmp_path: Path) -> None:
    kb = KnowledgeBase.build(NODES, EDGES, None, tmp_path / "kb")
    assert type(kb.graph.out.indices) is np.ndarray
    with pytest.raises(ValueError, match="read-only"):
        kb.neighbors(0, "r")[0] = 2


def test_nodes_are_found_by_id_name_type_and_value() -> None:
    kb = KnowledgeBase.from_arrow(NODES, EDGES)
    assert kb.rows(["n3", "n1"]).tolist() == [2, 0]
    assert kb.ids([2, 0]) == ["n3", "n1"]
    assert (kb.names([1]), kb.types([1, 0])) == (["Two"], ["a", "b"])
    assert kb.named("Two").tolist() == [1]
    assert kb.named("two", fold_case=True).tolist() == [1, 2]
    assert kb.named("ümit", fold_case=True).tolist() == [0]
    assert kb.named("nobody").tolist() == []
    assert kb.of_type("b").tolist() == [0, 2]
    assert kb.with_value("b", "source.id", 8).tolist() == [2]
    assert kb.with_value("b", "source.id.of", 8).tolist() == []
    assert kb.with_value("b", "extra", 1).tolist() == [0]
    assert kb.with_value("a", "source", None).tolist() == []
    assert kb.with_value("b", "name", "Ümit").tolist() == [0]
    assert kb.details(1) == {}
    assert KnowledgeBase.from_arrow(NODES.drop_columns("details"), EDGES).details(0) == {}
    with pytest.raises(DataError, match=r"1 ids are not in the knowledge base: 'n9'. Expected ids such as 'n1'"):
        kb.rows(["n1", "n9"])


def test_dense_integer_ids_are_rows() -> None:
    nodes = NODES.set_column(0, "id", pa.array([0, 1, 2]))
    edges = EDGES.set_column(0, "head", pa.array([0, 0, 1])).set_column(2, "tail", pa.array([1, 1, 2]))
    kb = KnowledgeBase.from_arrow(nodes, edges)
    assert kb.rows(np.array([2, 0])).tolist() == [2, 0]
    for stranger in (-1, 3, "1", 1.5):
        with pytest.raises(DataError, match="are not in the knowledge base"):
            kb.rows([stranger])


def schema(kind: str, names: list[str]) -> list[dict[str, Any]]:
    return [{"kind": kind, "id": i, "name": name} for i, name in enumerate(names)]


def test_the_schema_gives_the_numbers(tmp_path: Path) -> None:
    table = schema_table(NODES, EDGES, ["b", "a", "unused"], ["r", "q"])
    assert table.to_pylist()[1] == {
        "kind": "node_type",
        "id": 1,
        "name": "a",
        "head_type": None,
        "tail_type": None,
        "n": 1,
    }
    assert table.to_pylist()[-1] == {"kind": "tuple", "id": 1, "name": "q", "head_type": "a", "tail_type": "b", "n": 1}
    assert [row["n"] for row in table.to_pylist()] == [2, 1, 0, 2, 1, 2, 1]
    kb = KnowledgeBase.from_arrow(NODES, EDGES, table)
    assert (kb.graph.node_types, kb.graph.relations) == (("b", "a", "unused"), ("r", "q"))
    assert KnowledgeBase.from_arrow(NODES, EDGES).graph.relations == ("q", "r")


def test_the_official_view_joins_both_directions_under_one_relation() -> None:
    table = schema_table(NODES, EDGES, ["a", "b"], ["r", "q"])
    kb = KnowledgeBase.from_arrow(NODES, EDGES, table)
    assert kb.official.symmetric
    assert kb.official.neighbors(1, "r").tolist() == [0]
    both = pa.concat_tables(
        [EDGES, EDGES.rename_columns(["tail", "relation", "head", "weight"]).select(EDGES.column_names)]
    )
    parallel = KnowledgeBase.from_arrow(NODES, both, table)
    assert parallel.graph.symmetric
    assert parallel.official.neighbors(1).tolist() == [0, 2]


def test_a_dataset_folder_opens_and_keeps_its_store(tmp_path: Path) -> None:
    tables = {
        "nodes": {"full": NODES},
        "edges": {"full": EDGES},
        "schema": {"full": schema_table(NODES, EDGES, ["b", "a"], ["r", "q"])},
    }
    folder = write_dataset(tmp_path / "my-kb", tables, "---\nlicense: mit\n---\n# My KB\n")
    kb = KnowledgeBase.open(folder.path)
    store = folder.path / ".knowledge_base" / folder.revision
    assert (store / "knowledge_base.json").is_file()
    before = contents(store)
    assert KnowledgeBase.open(folder.path).hash == kb.hash == KnowledgeBase.open(store).hash
    assert contents(store) == before
    assert kb.graph.node_types == ("b", "a")


def write_kb(folder: Path) -> DatasetFolder:
    return write_dataset(folder, {"nodes": {"full": NODES}, "edges": {"full": EDGES}}, "---\n---\n# KB\n")


def test_the_store_of_a_dataset_in_a_package_is_kept_in_the_users_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = write_kb(tmp_path / "package" / "data" / "kb")
    (tmp_path / "package" / "__init__.py").touch()
    before = sorted(folder.path.rglob("*"))
    made = KnowledgeBase.open(folder.path)
    store = tmp_path / "cache" / "kbbench-hf" / "knowledge_base" / f"{folder.revision}-1"
    assert KnowledgeBase.open(store).hash == made.hash
    with monkeypatch.context() as patch:
        patch.setattr(KnowledgeBase, "from_arrow", None)
        assert KnowledgeBase.open(folder.path).names() == made.names()
    assert sorted(folder.path.rglob("*")) == before
    shutil.rmtree(tmp_path / "cache")
    (tmp_path / "cache").touch()
    assert KnowledgeBase.open(folder.path).hash == made.hash


def test_a_user_without_a_home_opens_it_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> None:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    folder = write_kb(tmp_path / "package" / "kb")
    (tmp_path / "package" / "__init__.py").touch()
    assert len(KnowledgeBase.open(folder.path)) == 3


def test_the_shipped_knowledge_base_is_opened_without_a_change_to_it() -> None:
    folder = shipped_dataset("mini-stark")
    before = sorted(folder.path.rglob("*"))
    assert len(KnowledgeBase.open(folder.path)) == 281
    assert sorted(folder.path.rglob("*")) == before
    assert not (folder.path / ".knowledge_base").exists()


def test_a_folder_without_a_manifest_is_known_by_its_files(tmp_path: Path) -> None:
    for name, table in (("nodes", NODES), ("edges", EDGES)):
        (tmp_path / "data" / name).mkdir(parents=True)
        pq.write_table(table, tmp_path / "data" / name / "part.parquet")
    first = KnowledgeBase.open(tmp_path)
    pq.write_table(
        NODES.set_column(2, "name", pa.array(["a", "b", "a longer name"])), tmp_path / "data/nodes/part.parquet"
    )
    assert KnowledgeBase.open(tmp_path).names() == ["a", "b", "a longer name"]
    assert first.names() == ["Ümit", "Two", "TWO"]


def test_a_store_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kb = KnowledgeBase.from_arrow(NODES, EDGES)

    def fails(*_: object) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(np, "save", fails)
        with pytest.raises(OSError, match="no space"):
            kb.save(tmp_path / "kb")
    assert list(tmp_path.iterdir()) == []
    kb.save(tmp_path / "kb")
    kb.save(tmp_path / "kb")  # the same store is there already
    with pytest.raises(UsageError, match="is in the way"):  # another one is
        KnowledgeBase.build(NODES, EDGES.slice(1), None, tmp_path / "kb")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(UsageError, match="is in the way"):
        kb.save(tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kb", "other"]


def test_a_knowledge_base_without_edges_is_stored_as_well(tmp_path: Path) -> None:
    kb = KnowledgeBase.build(NODES, EDGES.slice(0, 0), None, tmp_path / "kb")
    assert (len(kb.edges), kb.graph.relations, kb.neighbors(0).tolist()) == (0, (), [])
    assert kb.official is kb.graph
    assert render(kb, CLEAN, [1])[0].as_py() == "Two\ntype: a\ntext\nextra: 2"


def test_a_dataset_folder_that_cannot_be_written_to_is_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder, save = write_kb(tmp_path / "kb"), KnowledgeBase.save

    def refuses(kb: KnowledgeBase, out: Path) -> None:
        if out.is_relative_to(folder.path):
            raise PermissionError("read-only")
        save(kb, out)

    monkeypatch.setattr(KnowledgeBase, "save", refuses)
    assert len(KnowledgeBase.open(folder.path)) == 3
    assert (tmp_path / "cache" / "kbbench-hf" / "knowledge_base" / f"{folder.revision}-1").is_dir()
    (folder.path / "manifest.json").unlink()  # the name that the shared folder needs
    assert len(KnowledgeBase.open(folder.path)) == 3
    assert len(list((tmp_path / "cache" / "kbbench-hf" / "knowledge_base").iterdir())) == 1


@pytest.mark.parametrize("packaged", [False, True])
def test_two_who_open_at_once_both_get_it(packaged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = write_kb(tmp_path / "place" / "kb")
    if packaged:
        (tmp_path / "place" / "__init__.py").touch()
    code = f"from kbbench_hf.knowledge_base import KnowledgeBase; print(KnowledgeBase.open({str(folder.path)!r}).hash)"
    runs = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert len({run.communicate(timeout=600)[0] for run in runs}) == 1
    assert [run.returncode for run in runs] == [0, 0, 0]
    stores = tmp_path / "cache/kbbench-hf/knowledge_base" if packaged else folder.path / ".knowledge_base"
    assert [path.name for path in stores.iterdir()] == [f"{folder.revision}-1" if packaged else folder.revision]


def test_what_holds_no_knowledge_base_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no knowledge base"):
        KnowledgeBase.open(tmp_path)
    KnowledgeBase.build(NODES, EDGES, None, tmp_path / "kb")
    facts = json.loads((tmp_path / "kb/knowledge_base.json").read_text())
    (tmp_path / "kb/knowledge_base.json").write_text(json.dumps(facts | {"format": 0}))
    with pytest.raises(DataError, match="has format 0; expected 1"):
        KnowledgeBase.open(tmp_path / "kb")


def test_the_real_slice_is_a_users_own_knowledge_base(shared: Path, tmp_path: Path) -> None:
    folder = shared / "data/stark/prime/ibd_subgraph"
    kb = KnowledgeBase.from_tables(folder / "nodes.csv", folder / "edges.csv")
    # Counts of shared/data/README.md: 3,426 nodes, 12,752 directed edges, 6 relations, 7 node types.
    assert (len(kb), len(kb.edges), kb.graph.n_edges) == (3426, 12_752, 12_752)
    assert (len(kb.graph.relations), len(kb.graph.node_types)) == (6, 7)
    assert kb.graph.symmetric
    assert kb.official is kb.graph
    assert kb.ids([0]) == [144]
    # The lines of edges.csv that start "144,gene/protein,associated with".
    assert sorted(kb.ids(kb.neighbors(0, "associated with"))) == [28158, 35814, 37784, 83770]
    for name in ("nodes", "edges"):
        pq.write_table(csv.read_csv(folder / f"{name}.csv"), tmp_path / f"{name}.parquet")
    again = KnowledgeBase.from_tables(tmp_path / "nodes.parquet", tmp_path / "edges.parquet")
    assert again.hash == kb.hash


def test_a_knowledge_base_is_opened_by_the_name_of_its_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert kbbench_hf.KnowledgeBase.open("kbbench/mini-stark").hash == KnowledgeBase.open("mini-stark").hash
    KnowledgeBase.build(NODES, EDGES, None, tmp_path / "mini-stark")  # a folder of this name comes first
    assert len(KnowledgeBase.open("mini-stark")) == 3
    with pytest.raises(UsageError, match=r"Unknown dataset 'mini-starc'. Did you mean 'mini-stark'\?"):
        KnowledgeBase.open("mini-starc")
