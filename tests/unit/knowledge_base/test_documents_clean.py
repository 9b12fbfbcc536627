import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.knowledge_base import KnowledgeBase
from kbbench_hf.knowledge_base.documents import CLEAN, render


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows)


def test_everything_known_about_a_node_is_there() -> None:
    nodes = table(
        [
            {"id": "a", "type": "author", "name": "Ada", "text": "", "details": None, "orcid": "0-1"},
            {
                "id": "p", "type": "paper", "name": "On P", "text": "Prose.\nMore.", "orcid": None,
                "details": json.dumps(
                    {"title": "On P", "year": 2019, "venue": {"short": "VLDB", "empty": ""}, "keywords": ["x", "y"],
                     "reviews": [{"by": "B", "stars": 0}, {"by": "C"}], "open": False}
                ),
            },
            {"id": "q", "type": "paper", "name": "", "text": "", "details": None, "orcid": None},
        ]
    )  # fmt: skip
    edges = table(
        [
            {"head": "a", "relation": "writes", "tail": "p"},
            {"head": "a", "relation": "writes", "tail": "q"},
            {"head": "p", "relation": "cites", "tail": "q"},
        ]
    )
    kb = KnowledgeBase.from_arrow(nodes, edges)
    assert render(kb, CLEAN).to_pylist() == [
        "Ada\ntype: author\norcid: 0-1\nwrites: On P; q",
        "On P\ntype: paper\nProse.\nMore.\nyear: 2019\nshort: VLDB\nkeywords: x; y\nby: B\nstars: 0\nby: C\nopen: False"
        "\ncites: q\ninverse writes: Ada",
        "type: paper\ninverse cites: On P\ninverse writes: Ada",
    ]
    assert render(kb, CLEAN, [0], compact=True)[0].as_py() == "Ada type: author orcid: 0-1 writes: On P; q"
    assert render(kb, CLEAN, [0], relations=False)[0].as_py() == "Ada\ntype: author\norcid: 0-1"


words = st.text(alphabet="abc -\n:;.ü", min_size=1, max_size=8)
values = st.recursive(
    words | st.integers(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3)
)


def leaves(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [leaf for one in value.values() for leaf in leaves(one)]
    if isinstance(value, list):
        return [leaf for one in value for leaf in leaves(one)]
    return [str(value)]


@st.composite
def bases(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[tuple[int, str, int]]]:
    n = draw(st.integers(1, 8))
    nodes = [
        {
            "id": i,
            "type": draw(st.sampled_from(["x", "y"])),
            "name": draw(words),
            "text": draw(st.just("") | words),
            "details": draw(st.dictionaries(words, values, max_size=3)),
        }
        for i in range(n)
    ]
    ends = st.integers(0, n - 1)
    return nodes, draw(st.lists(st.tuples(ends, st.sampled_from(["r", "s"]), ends), max_size=20))


@given(bases())
def test_no_text_is_ever_dropped(base: tuple[list[dict[str, Any]], list[tuple[int, str, int]]]) -> None:
    nodes, edges = base
    kb = KnowledgeBase.from_arrow(
        table([node | {"details": json.dumps(node["details"])} for node in nodes]),
        pa.table(
            {
                "head": pa.array([edge[0] for edge in edges], pa.int64()),
                "relation": pa.array([edge[1] for edge in edges], pa.string()),
                "tail": pa.array([edge[2] for edge in edges], pa.int64()),
            }
        ),
    )
    documents = render(kb, CLEAN).to_pylist()
    for i, (node, document) in enumerate(zip(nodes, documents, strict=True)):
        expected = [node["name"], node["text"], node["type"], *leaves(node["details"])]
        expected += [nodes[tail]["name"] for head, _, tail in edges if head == i]
        expected += [nodes[head]["name"] for head, _, tail in edges if tail == i]
        assert all(text in document for text in expected)
        assert render(kb, CLEAN, [i])[0].as_py() == document


@given(st.integers() | st.floats() | st.text())
def test_values_are_written_as_python_reads_them(value: int | float | str) -> None:
    kb = KnowledgeBase.from_arrow(
        table([{"id": 0, "type": "x", "name": "a", "text": "", "details": json.dumps({"v": [value, {"k": 1}]})}]),
        table([{"head": 0, "relation": "r", "tail": 0}]),
    )
    written = "" if value == "" or value != value else f"v: {value}\n"
    assert render(kb, CLEAN, relations=False)[0].as_py() == f"a\ntype: x\n{written}k: 1"


def test_details_that_are_no_record_stand_under_their_column() -> None:
    texts = ["", "no json", "[1]", '{"v": 1} more', "7"]
    kb = KnowledgeBase.from_arrow(
        table([{"id": i, "type": "x", "name": "a", "text": "", "details": text} for i, text in enumerate(texts)]),
        table([{"head": 0, "relation": "r", "tail": 0}]),
    )
    documents = render(kb, CLEAN, relations=False).to_pylist()
    assert documents == ["a\ntype: x", *(f"a\ntype: x\ndetails: {text}" for text in texts[1:])]


def test_the_real_slice_is_rendered_whole(shared: Path) -> None:
    folder = shared / "data/stark/prime/ibd_subgraph"
    kb = KnowledgeBase.from_tables(folder / "nodes.csv", folder / "edges.csv")
    documents = render(kb, CLEAN).to_pylist()
    assert len(documents) == 3426
    texts = kb.nodes["text"].to_pylist()
    assert all(text in document for text, document in zip(texts, documents, strict=True))
    named = sum(
        len(line.split(": ", 1)[1].split("; ")) for d in documents for line in d.split("\n") if is_relation(kb, line)
    )
    assert named >= 12_752  # some names contain "; "


def is_relation(kb: KnowledgeBase, line: str) -> bool:
    return line.split(": ")[0] in kb.graph.relations and ": " in line


def test_a_sample_is_that_of_earlier_versions_and_in_the_order_of_the_rows() -> None:
    nodes = table([{"id": str(n), "type": "a", "name": name, "text": ""} for n, name in enumerate("hubcdefgi")])
    edges = table([{"head": "0", "relation": "joins", "tail": str(n)} for n in range(1, 9)])
    kb = KnowledgeBase.from_arrow(nodes, edges)

    def sample(**how: int) -> str:
        return str(render(kb, rows=[0], **how)[0].as_py().rpartition(": ")[2])

    assert sample() == "u; b; c; d; e; f; g; i"
    assert sample(n_rel=3) == sample(n_rel=3, seed=0) == "u; e; g"
    assert sample(n_rel=3, seed=1) == sample(n_rel=3, seed=2**64 + 1) == "f; g; i"
    assert sample(n_rel=20, seed=5) == sample()
