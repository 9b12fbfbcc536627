import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.knowledge_base import KnowledgeBase
from kbbench_hf.knowledge_base.tables import _rows_of_ends, read_dataset_table, without_dangling

NODES = "id,type,name,text\n7,a,Seven,\n9,b,Nine,two\n"
EDGES = "head,relation,tail\n7,r,9\n"


def load(folder: Path, nodes: str = NODES, edges: str = EDGES) -> KnowledgeBase:
    (folder / "n.csv").write_text(nodes, encoding="utf-8")
    (folder / "e.csv").write_text(edges, encoding="utf-8")
    return KnowledgeBase.from_tables(folder / "n.csv", folder / "e.csv")


def test_decimal_ids_are_integers_and_all_others_stay_text(tmp_path: Path) -> None:
    assert load(tmp_path).ids() == [7, 9]
    texts = load(tmp_path, NODES.replace("7", "007"), EDGES.replace("7", "007"))
    assert texts.ids() == ["007", "9"]
    assert texts.neighbors(0, "r").tolist() == [1]
    mixed = load(tmp_path, NODES.replace("7,", "x:7,"), EDGES.replace("7", "x:7"))
    assert mixed.ids() == ["x:7", "9"]


def test_text_is_read_as_it_stands(tmp_path: Path) -> None:
    nodes = 'id,type,name,text,note\n1,a,nan,"two\nlines, ""quoted""",x\n2,a,NULL,,\n'
    kb = load(tmp_path, nodes, "head,relation,tail,since\n1,NA,2,1999\n")
    assert kb.names() == ["nan", "NULL"]
    assert kb.nodes["text"].to_pylist() == ['two\nlines, "quoted"', ""]
    assert kb.graph.relations == ("NA",)
    assert kb.nodes["note"].to_pylist() == ["x", ""]
    assert kb.edges["since"].to_pylist() == [1999]


def test_edges_to_unknown_nodes_are_refused_and_listed(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"2 edges have a tail that is not a node id: 8, 10. Add these nodes or remove"):
        load(tmp_path, edges=EDGES + "7,r,8\n9,r,10\n")
    with pytest.raises(DataError, match="1 edges have a head that is not a node id: 'seven'"):
        load(tmp_path, edges=EDGES + "seven,r,9\n")
    many = "".join(f"7,r,{i}\n" for i in range(100, 120))
    with pytest.raises(DataError, match=r"20 edges .* 108, 109 \.\.\."):
        load(tmp_path, edges=EDGES + many)
    dense = "id,type,name,text\n0,a,A,\n1,a,B,\n"
    with pytest.raises(DataError, match=r"head that is not a node id: -1"):
        load(tmp_path, dense, "head,relation,tail\n-1,r,0\n")


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        ("id,type,name,text\n", EDGES, "table of nodes is empty"),
        (NODES + "7,a,Again,\n", EDGES, "1 node ids occur more than once: 7"),
        (NODES + "8,,No type,\n", EDGES, r"n\.csv, row 3: no type; expected a value in every row"),
        (NODES, EDGES + "7,,9\n", r"e\.csv, row \d: no relation"),
        (NODES.replace("text", "body"), EDGES, "has no column 'text'; it has id, type, name, body"),
        (NODES, "a,b\n1,2\n", "has no column 'head', 'relation', 'tail'"),
        (NODES + "1\n", EDGES, r"n\.csv: cannot be read as a table: .*Expected 4 columns"),
    ],
)
def test_malformed_tables_are_refused(tmp_path: Path, nodes: str, edges: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(tmp_path, nodes, edges)


def test_nulls_in_ids_and_a_partial_schema_are_refused() -> None:
    nodes = pa.table({"id": pa.array([1, None]), "type": ["a", "a"], "name": [None, "x"], "text": ["", None]})
    edges = pa.table({"head": [1], "relation": ["r"], "tail": [1]})
    with pytest.raises(DataError, match="1 nodes have no id, the first in row 2"):
        KnowledgeBase.from_arrow(nodes, edges)
    fixed = nodes.set_column(0, "id", pa.array([1, 2]))
    assert KnowledgeBase.from_arrow(fixed, edges).names() == ["", "x"]
    with pytest.raises(DataError, match="The table of nodes has no column 'text'"):
        KnowledgeBase.from_arrow(fixed.drop_columns("text"), edges)
    partial = pa.table({"kind": ["node_type"], "id": [0], "name": ["a"]})
    with pytest.raises(DataError, match="schema does not list the relation 'r'"):
        KnowledgeBase.from_arrow(fixed, edges, partial)
    unnamed = edges.set_column(1, "relation", pa.array([""]))
    with pytest.raises(DataError, match="A row has no relation"):
        KnowledgeBase.from_arrow(fixed, unnamed)
    gap = pa.table({"kind": ["node_type", "relation"], "id": [1, 0], "name": ["a", "r"]})
    with pytest.raises(DataError, match="The schema numbers its node types"):
        KnowledgeBase.from_arrow(fixed, edges, gap)


def test_a_file_that_is_not_there_or_of_another_kind_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"There is no file .*n\.csv"):
        KnowledgeBase.from_tables(tmp_path / "n.csv", tmp_path / "e.csv")
    (tmp_path / "n.json").write_text('{"id": 1')
    with pytest.raises(DataError, match=r"n\.json, line 1: not JSON.* Expected csv, Parquet or JSON Lines"):
        KnowledgeBase.from_tables(tmp_path / "n.json", tmp_path / "e.csv")
    (tmp_path / "n.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(DataError, match="cannot be read"):
        KnowledgeBase.from_tables(tmp_path / "n.parquet", tmp_path / "e.csv")


def test_ids_below_zero_are_strings_which_rankings_can_hold(tmp_path: Path) -> None:
    kb = load(tmp_path, nodes="id,type,name,text\n-7,a,A,\n7,a,B,\n", edges="head,relation,tail\n7,r,-7\n")
    assert kb.ids() == ["-7", "7"] and kb.ids(kb.neighbors(1, "r")) == ["-7"]
    numbers = pa.table({"id": [-7, 7], "type": ["a", "a"], "name": ["A", "B"], "text": ["", ""]})
    edges = pa.table({"head": [7], "relation": ["r"], "tail": [-7]})
    assert KnowledgeBase.from_arrow(numbers, edges).ids() == ["-7", "7"]


def test_of_a_datasets_table_one_column_at_most_stands_in_memory_twice(tmp_path: Path) -> None:
    texts = {f"text{number}": [f"{number} {row} {'word ' * 50}" for row in range(4000)] for number in range(8)}
    pq.write_table(pa.table({"id": range(4000), **texts}), tmp_path / "nodes.parquet", row_group_size=500)
    table = read_dataset_table(tmp_path / "nodes.parquet", ("id",))
    assert table["text3"].num_chunks == 1
    assert table["text3"][7].as_py() == texts["text3"][7]
    alone = (  # in a process of its own, whose most is nobody else's
        "import sys, pathlib, pyarrow; from kbbench_hf.knowledge_base.tables import read_dataset_table as read; "
        "read(pathlib.Path(sys.argv[1]), ['id']); print(pyarrow.default_memory_pool().max_memory())"
    )
    run = [sys.executable, "-c", alone, str(tmp_path / "nodes.parquet")]
    most = int(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
    assert most < 1.6 * table.nbytes


def test_a_datasets_damaged_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "nodes.parquet").write_bytes(b"PAR1 and nothing of it")
    with pytest.raises(DataError, match=r"nodes\.parquet cannot be read as a table: .*build it again"):
        read_dataset_table(tmp_path / "nodes.parquet", ("id",))


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_dangling_edges_are_left_out_counted_and_the_first_ten_listed(kind: pa.DataType) -> None:
    def edges(heads: list[str], tails: list[str]) -> pa.Table:
        return pa.table({"head": pa.array(heads).cast(kind), "relation": ["r"] * len(heads), "tail": tails})

    nodes = pa.table({"id": ["a", "b"]})
    whole = edges(["a", "b"], ["b", "a"])
    assert without_dangling(nodes, whole) == (whole, 0, "")
    left, n, shown = without_dangling(nodes, edges(["a", "x", "y", "b"], ["b", "a", "z", "b"]))
    assert (left["head"].to_pylist(), left["tail"].to_pylist(), n) == (["a", "b"], ["b", "b"], 2)
    assert shown == "'x' (head, row 2), 'y' (head, row 3), 'z' (tail, row 3)"
    for count, end in ((10, "'x' (head, row 10)"), (11, "'x' (head, row 10) ...")):
        left, n, shown = without_dangling(nodes, edges(["x"] * count, ["a"] * count))
        assert (len(left), n) == (0, count) and shown.endswith(end)


@pytest.mark.parametrize(
    "ids",
    [
        ["Q1", "Q7", "Q12", "Q3"],
        ["Q10", "Q11"],
        ["Q01", "Q1", "Q2"],
        ["Q1", "P1", "Q2"],
        ["Q1", "Q900719925474099312345"],
        ["ä-5", "ä5", "ä0"],
        [3, 5, 4],
        [0, 1, 2],
        [7, 1 << 62],
        [(1 << 63) - 1],
        ["x"],
    ],
)
def test_an_edge_leads_to_the_row_with_its_id_and_to_none_where_there_is_none(ids: list[Any]) -> None:
    known = pa.array(ids, pa.int64() if isinstance(ids[0], int) else pa.large_string())
    near = [*ids, *(each + n for each in ids if isinstance(each, int) for n in (-1, 1) if each + n < 1 << 63)]
    near += ["Q", "Q2", "Q13", "Q02", "q1", "", "ä", "ä-6", "Q-1"] if isinstance(ids[0], str) else [-1 << 63]
    for ends in (ids, near, ids[:0], ["q1", "q7"] if isinstance(ids[0], str) else []):
        rows, _ = _rows_of_ends(pa.chunked_array([pa.array(ends, known.type)]), known)
        assert rows.tolist() == [ids.index(each) if each in ids else -1 for each in ends]
