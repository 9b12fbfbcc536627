import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.errors import UsageError
from kbbench_hf.knowledge_base import Graph, KnowledgeBase
from kbbench_hf.knowledge_base.metapaths import Metapath

NODES = [
    ("drug", "d0"), ("drug", "d1"),
    ("gene", "g0"), ("gene", "g1"), ("gene", "g2"),
    ("disease", "x0"), ("disease", "x1"),
]  # fmt: skip
TARGETS = [("d0", "g0"), ("d0", "g1"), ("d1", "g1")]
CAUSES = [("g0", "x0"), ("g1", "x0"), ("g1", "x1"), ("g2", "x1")]


def base(edges: list[tuple[str, str, str]]) -> KnowledgeBase:
    columns = {"type": [t for t, _ in NODES], "name": [n for _, n in NODES], "text": [""] * len(NODES)}
    heads, relations, tails = zip(*edges, strict=True)
    return KnowledgeBase.from_arrow(
        pa.table({"id": [n for _, n in NODES], **columns}),
        pa.table({"head": heads, "relation": relations, "tail": tails}),
    )


KB = base([(h, "target", t) for h, t in TARGETS] + [(h, "causes", t) for h, t in CAUSES])


def ask(text: str, *topics: str) -> list[str]:
    return KB.ids(Metapath.parse(text).answers(KB.graph, *KB.rows(topics).tolist()))


def test_a_chain_is_followed_to_its_end() -> None:
    assert ask("drug -[target]-> gene", "d0") == ["g0", "g1"]
    assert ask("drug -[target]-> gene -[causes]-> disease", "d1") == ["x0", "x1"]
    assert ask("disease <-[causes]- gene", "g0") == ["x0"]


def test_a_caret_follows_edges_backwards() -> None:
    assert ask("disease -[^causes]-> gene -[^target]-> drug", "x1") == ["d0", "d1"]


def test_what_meets_is_intersected() -> None:
    assert ask("drug -[target]-> gene <-[^causes]- disease", "d0", "x1") == ["g1"]
    assert ask("drug -[target]-> gene & disease -[^causes]-> gene", "d0", "x1") == ["g1"]


def test_an_exclamation_mark_takes_what_is_not_reached() -> None:
    assert ask("disease -[^causes]-> gene <-[!target]- drug", "x0", "d1") == ["g0"]
    # No drug at all targets g2.
    assert ask("disease -[^causes]-> gene <-[!target]- any drug", "x1") == ["g2"]


def test_a_topic_is_never_its_own_answer() -> None:
    assert ask("gene -[^target]-> drug -[target]-> gene", "g0") == ["g1"]


def test_topics_of_one_type_carry_numbers_and_the_same_topic_may_stand_twice() -> None:
    two = Metapath.parse("drug:1 -[target]-> gene <-[target]- drug:2")
    assert two.topics == ("drug:1", "drug:2")
    assert KB.ids(two.answers(KB.graph, 0, 1)) == ["g1"]
    same = Metapath.parse("gene -[causes]-> disease -[^causes]-> gene & gene -[^target]-> drug -[target]-> gene")
    assert same.topics == ("gene",)
    assert KB.ids(same.answers(KB.graph, 2)) == ["g1"]


@pytest.mark.parametrize(
    "text", ["drug", "drug -[target]-> ", "drug <-[a]- gene -[b]-> disease", "-[target]-> gene", ""]
)
def test_what_is_no_metapath_is_quoted(text: str) -> None:
    with pytest.raises(UsageError, match="is not a metapath"):
        Metapath.parse(text)


def test_impossible_questions_are_refused() -> None:
    with pytest.raises(UsageError, match="expected walks that end in one type"):
        Metapath.parse("drug -[target]-> gene & gene -[causes]-> disease")
    chain = Metapath.parse("drug -[target]-> gene")
    with pytest.raises(UsageError, match=r"2 topics for .* expected 1: drug"):
        chain.answers(KB.graph, 0, 1)
    with pytest.raises(UsageError, match="Row 2 is a gene; expected a drug"):
        chain.answers(KB.graph, 2)
    with pytest.raises(UsageError, match="Unknown relation 'targets'"):
        Metapath.parse("drug -[targets]-> gene").answers(KB.graph, 0)


edges = st.lists(
    st.sampled_from([(d, "target", g) for d, g in itertools.product(("d0", "d1"), ("g0", "g1", "g2"))])
    | st.sampled_from([(g, "causes", x) for g, x in itertools.product(("g0", "g1", "g2"), ("x0", "x1"))]),
    min_size=1,
    unique=True,
)


@given(edges, st.sampled_from(["d0", "d1"]), st.sampled_from(["x0", "x1"]))
def test_answers_are_those_of_nested_loops(drawn: list[tuple[str, str, str]], drug: str, disease: str) -> None:
    kb = base([*drawn, ("d0", "target", "g0"), ("g0", "causes", "x0")])
    stands = {*drawn, ("d0", "target", "g0"), ("g0", "causes", "x0")}
    genes, diseases = ("g0", "g1", "g2"), ("x0", "x1")

    def ask(text: str, *topics: str) -> list[str]:
        return kb.ids(Metapath.parse(text).answers(kb.graph, *kb.rows(topics).tolist()))

    reached = [x for x in diseases if any({(drug, "target", g), (g, "causes", x)} <= stands for g in genes)]
    assert ask("drug -[target]-> gene -[causes]-> disease", drug) == reached
    both = [g for g in genes if (drug, "target", g) in stands and (g, "causes", disease) in stands]
    assert ask("drug -[target]-> gene <-[^causes]- disease", drug, disease) == both
    without = [g for g in genes if (drug, "target", g) in stands and (g, "causes", disease) not in stands]
    assert ask("drug -[target]-> gene <-[!^causes]- disease", drug, disease) == without


@pytest.mark.parametrize(
    ("node_types", "relations", "is_within"),
    [
        ("abc", "rs", True),
        ("abcd", "rst", True),
        ("bc", "rs", False),  # no start type
        ("ac", "rs", False),  # no type of a hop in between
        ("ab", "rs", False),  # no answer type
        ("abc", "r", False),
    ],
)
def test_a_template_is_within_a_graph_with_all_of_its_types_and_relations(
    node_types: str, relations: str, is_within: bool
) -> None:
    nothing = np.zeros(0, np.int64)
    graph = Graph.from_edges([*node_types], [*relations], np.zeros(0, np.uint8), nothing, nothing, nothing)
    assert Metapath.parse("a -[r]-> b -[s]-> c").is_within(graph) == is_within
