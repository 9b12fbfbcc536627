from collections import defaultdict
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kbbench_hf.knowledge_base import Graph
from kbbench_hf.knowledge_base.graph import official_graph

Edge = tuple[int, int, int]
RELATIONS = ("also_buy", "also_view", "has_brand")


def official(n: int, edges: list[Edge]) -> tuple[Graph, Graph]:
    columns = np.array(edges, np.int64).reshape(-1, 3).T
    graph = Graph.from_edges(("thing",), RELATIONS, np.zeros(n, np.uint8), *columns)
    return graph, official_graph(graph, *columns)


def listed(graph: Graph) -> list[Edge]:
    return [
        (node, number, neighbor)
        for node in range(graph.n_nodes)
        for number, relation in enumerate(RELATIONS)
        for neighbor in graph.neighbors(node, relation).tolist()
    ]


@st.composite
def edge_lists(draw: st.DrawFn) -> tuple[int, list[Edge]]:
    n = draw(st.integers(1, 7))
    node = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(node, st.integers(0, 2), node), max_size=30))
    reverse = [(tail, draw(st.integers(0, 2)), head) for head, _, tail in edges] if draw(st.booleans()) else []
    return n, edges + reverse


@given(edge_lists())
@settings(max_examples=300)
def test_relations_are_the_mean_over_each_pair_rounded_down(drawn: tuple[int, list[Edge]]) -> None:
    n, edges = drawn
    graph, merged = official(n, edges)
    if sorted((h, t) for h, _, t in edges) == sorted((t, h) for h, _, t in edges):
        assert merged is graph
        return
    numbers = defaultdict(list)
    for head, relation, tail in edges:
        numbers[head, tail].append(relation)
        numbers[tail, head].append(relation)
    assert listed(merged) == sorted((h, int(Fraction(sum(each), len(each))), t) for (h, t), each in numbers.items())
    assert merged.symmetric


def test_bought_wins_over_viewed() -> None:
    # (0 + 1) / 2 = 0.5 and (1 + 1 + 0) / 3 = 0.67 both become 0, which is also_buy; two views stay views.
    assert listed(official(2, [(0, 0, 1), (0, 1, 1)])[1]) == [(0, 0, 1), (1, 0, 0)]
    assert listed(official(2, [(0, 1, 1), (0, 1, 1), (0, 0, 1)])[1]) == [(0, 0, 1), (1, 0, 0)]
    assert listed(official(2, [(0, 1, 1), (0, 1, 1)])[1]) == [(0, 1, 1), (1, 1, 0)]


def test_mutual_citations_are_one_and_edges_both_ways_stay_as_they_are() -> None:
    assert listed(official(3, [(0, 0, 1), (1, 0, 0), (1, 0, 2)])[1]) == [(0, 0, 1), (1, 0, 0), (1, 0, 2), (2, 0, 1)]
    graph, same = official(2, [(0, 0, 1), (1, 0, 0), (0, 1, 1), (1, 1, 0)])
    assert same is graph
    assert listed(same) == [(0, 0, 1), (0, 1, 1), (1, 0, 0), (1, 1, 0)]
