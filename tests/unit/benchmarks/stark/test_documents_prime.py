import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbbench_hf.benchmarks.stark.documents import DOCUMENTS
from kbbench_hf.benchmarks.stark.documents.prime import RENDERING
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.knowledge_base import KnowledgeBase
from kbbench_hf.knowledge_base.documents import compact_text, render
from kbbench_hf.retrieval.context import Forms
from kbbench_hf.retrieval.context import render as render_named
from tests.unit.knowledge_base.slow_stark import SlowSTaRK, on_one_line

TYPES = [
    "disease", "gene/protein", "molecular_function", "drug", "pathway",
    "anatomy", "effect/phenotype", "biological_process", "cellular_component", "exposure",
]  # fmt: skip
RELATIONS = ["ppi", "associated with", "interacts with", "side effect"]


def prime(types: list[int], edges: list[tuple[int, int, int]], details: list[dict[str, object] | None]) -> SlowSTaRK:
    records = []
    for i, number in enumerate(types):
        record: dict[str, object] = {"id": i, "type": TYPES[number], "name": f"N{i}", "source": "NCBI"}
        records.append(record | ({} if details[i] is None else {"details": details[i]}))
    both = edges + [(tail, relation, head) for head, relation, tail in edges]
    return SlowSTaRK(records, types, TYPES, RELATIONS, both)


def names(slow: SlowSTaRK) -> list[str]:
    return [record["name"] for record in slow.records]


def test_a_gene_is_written_as_stark_writes_it() -> None:
    details = {
        "_id": "7", "query": "IL10", "alias": ["IL-10", "CSIF"], "type_of_gene": "protein-coding", "summary": "",
        "interpro": {"desc": "Interleukin", "id": "IPR1"}, "generif": [{"text": "one fact"}, {"text": "another"}],
        "genomic_pos": [{"chr": "1", "start": 5}, {"chr": "X"}], "mim_id": 12, "score": float("nan"),
    }  # fmt: skip
    slow = prime([1, 0, 1, 8], [(0, 1, 1), (0, 0, 2), (0, 2, 3)], [details, None, None, None])
    expected = (
        "- name: N0\n- type: gene/protein\n- source: NCBI\n- details:\n"
        "  - query: IL10\n"
        "  - alias (other gene names): ['IL-10', 'CSIF']\n"
        "  - type_of_gene (gene types): protein-coding\n"
        "  - interpro (protein family and classification information): ['Interleukin']\n"
        "  - generif (PubMed text): one fact; another\n"
        "  - genomic_pos (genomic position): {'chr': '1', 'start': 5}\n"
    )
    related = (
        "- relations:\n  ppi: {gene/protein: (N2),}\n  associated_with: {disease: (N1),}"
        "\n  interacts_with: {cellular_component: (N3),}"
    )
    kb = slow.knowledge_base(names(slow))
    assert render(kb, RENDERING, [0])[0].as_py() == expected + related
    assert render(kb, RENDERING, [0], relations=False)[0].as_py() == expected
    assert slow.prime(0, relations=True) == expected + related


def test_a_node_without_details_or_neighbours_is_three_lines() -> None:
    slow = prime([3], [], [{"empty": "", "also": "nan", "mesh_id": 4}])
    assert render(slow.knowledge_base(["N0"]), RENDERING).to_pylist() == ["- name: N0\n- type: drug\n- source: NCBI\n"]


def test_types_from_number_eight_on_come_first_among_up_to_four() -> None:
    # A set of four has eight slots: 8 lies in slot 0 and 9 in slot 1, before 2 and 7; five grow it to 32 slots.
    few = prime([1, 2, 7, 8, 9], [(0, 2, i) for i in (1, 2, 3, 4)], [None] * 5)
    line = "{cellular_component: (N3),exposure: (N4),molecular_function: (N1),biological_process: (N2),}"
    assert line in render(few.knowledge_base(names(few)), RENDERING, [0])[0].as_py()
    many = prime([1, 2, 7, 8, 9, 4], [(0, 2, i) for i in (1, 2, 3, 4, 5)], [None] * 6)
    assert (
        "{molecular_function: (N1),pathway: (N5),biological"
        in render(many.knowledge_base(names(many)), RENDERING, [0])[0].as_py()
    )


def test_the_one_line_form_deletes_dashes_inside_prose_as_well() -> None:
    assert compact_text("- name: IL-2 - alpha\n- type: gene") == "name: IL-2 alpha. type: gene"
    assert compact_text("a:\n\nb.\n c\r\n\u00a0\u2003d") == "a: . b. c. d"


@given(st.text(alphabet="ab-.: \n\r\t\u00a0\u2003", max_size=40))
def test_the_one_line_form_is_that_of_the_reference(text: str) -> None:
    assert compact_text(text) == on_one_line(text)


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.sampled_from(["", "nan"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=5,
)
keys = st.one_of(st.sampled_from(["_score", "mondo_id", "name", "alias", "definition", ""]), st.text(max_size=4))


@st.composite
def bases(draw: st.DrawFn) -> SlowSTaRK:
    types = draw(st.lists(st.integers(0, 9), min_size=1, max_size=14))
    nodes = st.integers(0, len(types) - 1)
    edges = draw(st.lists(st.tuples(nodes, st.integers(0, 3), nodes), max_size=50))
    details = draw(
        st.lists(st.none() | st.dictionaries(keys, values, max_size=4), min_size=len(types), max_size=len(types))
    )
    return prime(types, edges, details)


@given(bases())
def test_every_document_is_that_of_the_slow_reference(slow: SlowSTaRK) -> None:
    kb = slow.knowledge_base(names(slow))
    for relations in (True, False):
        expected = [slow.prime(i, relations) for i in range(len(slow.types))]
        assert render(kb, RENDERING, relations=relations).to_pylist() == expected
        assert render(kb, RENDERING, relations=relations, compact=True).to_pylist() == list(map(on_one_line, expected))


@given(bases(), st.integers(1, 3), st.integers(0, 2**64))
@settings(max_examples=60)
def test_a_sample_names_so_many_neighbours_of_each_kind_and_never_changes(slow: SlowSTaRK, n: int, seed: int) -> None:
    kb = slow.knowledge_base(names(slow))
    every = render(kb, RENDERING, n_rel=n, seed=seed).to_pylist()
    for i, document in enumerate(every):
        assert render(kb, RENDERING, [i], n_rel=n, seed=seed)[0].as_py() == document
        for relation in RELATIONS:
            for number, node_type in enumerate(TYPES):
                group = [j for j in slow.of(i, relation) if slow.types[j] == number]
                label = "\n  " + relation.replace(" ", "_") + ": {"
                line = document.partition(label)[2].partition("}")[0]
                found = line.partition(node_type + ": (")[2].partition(")")[0]
                drawn = [int(name[1:]) for name in found.split(", ") if name]
                assert len(drawn) == min(n, len(group))
                assert set(drawn) <= set(group)


def test_rows_may_be_asked_for_in_any_order_and_more_than_once() -> None:
    slow = prime([1, 0, 3], [(0, 1, 1), (2, 3, 1)], [None] * 3)
    kb = slow.knowledge_base(names(slow))
    expected = [slow.prime(i, relations=True) for i in (2, 0, 2)]
    assert render(kb, RENDERING, [2, 0, 2]).to_pylist() == expected
    assert render(kb, RENDERING, []).to_pylist() == []


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = prime([0, 1, 2, 3] * 5, [(i, i % 4, (3 * i) % 20) for i in range(20)], [None] * 20)
    kb = slow.knowledge_base(names(slow))
    whole = render(kb, RENDERING).to_pylist()
    monkeypatch.setattr("kbbench_hf.knowledge_base.documents.BLOCK", 3)
    assert render(kb, RENDERING).to_pylist() == whole == [slow.prime(i, relations=True) for i in range(20)]


def test_details_of_another_knowledge_base_are_refused_with_the_node() -> None:
    nodes = pa.table({"id": ["x"], "type": ["drug"], "name": ["X"], "text": [""], "details": [json.dumps({"a": 1})]})
    edges = pa.table({name: pa.array([], pa.string()) for name in ("head", "relation", "tail")})
    with pytest.raises(DataError, match="node 'x' cannot be rendered"):
        render(KnowledgeBase.from_arrow(nodes, edges), RENDERING)


def test_impossible_options_are_refused() -> None:
    kb = prime([0], [], [None]).knowledge_base(["N0"])
    with pytest.raises(UsageError, match="n_rel = 0"):
        render(kb, RENDERING, n_rel=0)
    with pytest.raises(UsageError, match="Did you mean 'prime'"):
        render_named(kb, "prim", forms=Forms(DOCUMENTS))
