from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.benchmarks.stark.documents.mag import RENDERING
from kbbench_hf.knowledge_base.documents import render
from tests.unit.knowledge_base.slow_stark import SlowSTaRK, on_one_line

TYPES = ["author", "institution", "field_of_study", "paper"]
RELATIONS = [
    "author___affiliated_with___institution",
    "paper___cites___paper",
    "paper___has_topic___field_of_study",
    "author___writes___paper",
]
ENDS = [(0, 1), (3, 3), (3, 2), (0, 3)]


def named(name: str | int, papers: int = -1, citations: int = -1) -> dict[str, Any]:
    return {"DisplayName": name, "PaperCount": papers, "CitationCount": citations}


def paper(title: Any, **fields: Any) -> dict[str, Any]:
    missing = dict.fromkeys(
        [
            "Date",
            "OriginalVenue",
            "JournalDisplayName",
            "ConferenceSeriesDisplayName",
            "ConferenceInstancesDisplayName",
        ],
        -1,
    )
    return {"title": title, "abstract": "About.\r\n"} | missing | fields


def mag(records: list[dict[str, Any]], types: list[int], edges: list[tuple[int, int, int]]) -> SlowSTaRK:
    return SlowSTaRK(records, types, TYPES, RELATIONS, edges)


def names(slow: SlowSTaRK) -> list[str]:
    found = [record.get("title", record.get("DisplayName")) for record in slow.records]
    return [name if isinstance(name, str) else "" for name in found]


def small() -> SlowSTaRK:
    records = [
        named("Ada", 3, 50), named(-1), named("MIT-1", 9), named(-1), named("Graphs"),
        paper("On P", Date="2019-01-02", OriginalVenue="VLDB", JournalDisplayName="J"),
        paper("On Q", JournalDisplayName="J"),
        paper(float("nan"), ConferenceInstancesDisplayName="KDD 2019"),
    ]  # fmt: skip
    edges = [(0, 0, 2), (0, 0, 3), (0, 3, 5), (1, 3, 5), (1, 3, 6), (5, 2, 4), (5, 1, 6), (6, 1, 5), (7, 1, 5)]
    return mag(records, [0, 0, 1, 1, 2, 3, 3, 3], edges)


def test_a_paper_is_written_with_its_authors_and_their_institutions() -> None:
    slow = small()
    expected = (
        " - paper title: On P\n - abstract: About.\n - publication date: 2019-01-02\n - venue: VLDB\n"
        "- relations:\n"
        '\npaper cites paper: ("On Q", "nan"),'
        "\npaper has_topic field_of_study: (Graphs),"
        "\nauthor writes paper: (Ada (MIT-1)),"
    )
    documents = render(slow.knowledge_base(names(slow)), RENDERING).to_pylist()
    assert documents[5] == expected == slow.mag(5, relations=True)
    # The only author of Q has no name, so that the relation stands empty.
    assert documents[6].endswith('- relations:\n\npaper cites paper: ("On P"),\nauthor writes paper: (),')


def test_a_dash_one_in_a_name_becomes_unknown_as_upstream() -> None:
    documents = render(small().knowledge_base(names(small())), RENDERING).to_pylist()
    assert documents[0] == "- author name: Ada\n- author paper count: 3\n- author citation count: 50\n"
    assert documents[1] == "- author name: Unknown\n"
    assert documents[2] == " - institution: MITUnknown\n- institution paper count: 9\n"
    assert documents[4] == " - field of study: Graphs\n"


def test_a_sample_is_taken_of_citations_alone() -> None:
    papers = [paper(f"P{i}") for i in range(6)]
    authors = [named(f"A{i}") for i in range(4)]
    edges = [(0, 1, i) for i in range(1, 6)] + [(6 + i, 3, 0) for i in range(4)]
    slow = mag(papers + authors, [3] * 6 + [0] * 4, edges)
    document = render(slow.knowledge_base(names(slow)), RENDERING, [0], n_rel=2)[0].as_py()
    citations, written = document.split("- relations:\n")[1].strip().split("\n")
    assert citations.count('"P') == 2
    assert written == "author writes paper: (A0, A1, A2, A3),"


def test_a_paper_without_abstract_has_an_empty_one() -> None:
    slow = mag([paper("P", abstract=float("nan"))], [3], [])
    assert render(slow.knowledge_base(["P"]), RENDERING).to_pylist() == [" - paper title: P\n - abstract: \n"]


words = st.sampled_from(["Ada", "B-1", "x - y", "-1", "ü: .", ""])
counts = st.integers(-1, 3)


@st.composite
def bases(draw: st.DrawFn) -> SlowSTaRK:
    types = sorted(draw(st.lists(st.integers(0, 3), min_size=1, max_size=12)))
    records: list[dict[str, Any]] = []
    for kind in types:
        if kind == 3:
            venues = draw(st.fixed_dictionaries({"OriginalVenue": words | st.just(-1), "Date": words | st.just(-1)}))
            records.append(paper(draw(words) or "T", abstract=draw(words) + "\n", **venues))
        else:
            name: str | int = draw(words)
            records.append(named(-1 if name in ("", "-1") else name, draw(counts), draw(counts)))
    edges = []
    for relation, (left, right) in enumerate(ENDS):
        heads, tails = ([i for i, kind in enumerate(types) if kind == end] for end in (left, right))
        if heads and tails:
            pairs = st.tuples(st.sampled_from(heads), st.just(relation), st.sampled_from(tails))
            edges += draw(st.lists(pairs, max_size=8))
    return mag(records, types, edges)


@given(bases())
def test_every_document_is_that_of_the_slow_reference(slow: SlowSTaRK) -> None:
    kb = slow.knowledge_base(names(slow))
    for relations in (True, False):
        expected = [slow.mag(i, relations) for i in range(len(slow.types))]
        assert render(kb, RENDERING, relations=relations).to_pylist() == expected
        assert render(kb, RENDERING, relations=relations, compact=True).to_pylist() == list(map(on_one_line, expected))
    assert [render(kb, RENDERING, [i])[0].as_py() for i in range(len(kb))] == [
        slow.mag(i, True) for i in range(len(kb))
    ]
