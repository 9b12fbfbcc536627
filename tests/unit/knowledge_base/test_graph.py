import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.errors import UsageError
from kbbench_hf.knowledge_base import Graph

RELATIONS = ("likes", "owns", "sees")
Edge = tuple[int, int, int]


def graph(n: int, edges: list[Edge]) -> Graph:
    heads, relations, tails = np.array(edges, np.int64).reshape(-1, 3).T
    return Graph.from_edges(("thing",), RELATIONS, np.zeros(n, np.uint8), heads, relations, tails)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[Edge]]:
    n = draw(st.integers(1, 9))
    node = st.integers(0, n - 1)
    return n, draw(st.lists(st.tuples(node, st.integers(0, 2), node), max_size=40))


def found(edges: list[Edge], node: int, relation: int | None, direction: str) -> list[int]:
    out = {t for h, r, t in edges if h == node and relation in (None, r)}
    into = {h for h, r, t in edges if t == node and relation in (None, r)}
    return sorted({"out": out, "in": into, "both": out | into}[direction])


@given(graphs())
def test_neighbours_are_those_of_the_edges_ascending_and_once(drawn: tuple[int, list[Edge]]) -> None:
    n, edges = drawn
    built = graph(n, edges)
    for direction in ("out", "in", "both"):
        for number, relation in [*enumerate(RELATIONS), (None, None)]:
            expected = [found(edges, node, number, direction) for node in range(n)]
            assert [built.neighbors(node, relation, direction).tolist() for node in range(n)] == expected
            order = [*reversed(range(n)), 0, 0]
            offsets, rows = built.neighbors_of(order, relation, direction)
            assert [rows[offsets[i] : offsets[i + 1]].tolist() for i in range(n + 2)] == [expected[i] for i in order]
            assert built.degrees(relation, direction).sum() >= sum(map(len, expected))
            if relation and direction != "both":
                matrix = built.matrix(relation, direction).toarray()
                assert [np.flatnonzero(row).tolist() for row in matrix] == expected


@given(graphs(), st.integers(0, 4))
def test_k_hops_are_those_of_a_walk_by_hand(drawn: tuple[int, list[Edge]], k: int) -> None:
    n, edges = drawn
    distance = {0: 0}
    for hop in range(1, k + 1):
        for node in [one for one, at in distance.items() if at == hop - 1]:
            for neighbor in found(edges, node, None, "both"):
                distance.setdefault(neighbor, hop)
    rows, hops = graph(n, edges).k_hop([0], k)
    assert dict(zip(rows.tolist(), hops.tolist(), strict=True)) == distance
    assert rows.tolist() == sorted(rows.tolist())


@given(graphs(), st.randoms())
def test_the_order_of_the_edges_changes_nothing(drawn: tuple[int, list[Edge]], random: st.randoms) -> None:
    n, edges = drawn
    one = graph(n, edges)
    random.shuffle(edges)
    other = graph(n, edges)
    for side in ("out", "into"):
        assert np.array_equal(getattr(one, side).indptr, getattr(other, side).indptr)
        assert np.array_equal(getattr(one, side).indices, getattr(other, side).indices)


def test_a_graph_without_edges_answers_nothing() -> None:
    empty = Graph.from_edges(("a",), (), np.zeros(3, np.uint8), *np.zeros((3, 0), np.int64))
    assert empty.neighbors(2).tolist() == []
    assert empty.k_hop([1], 3)[0].tolist() == [1]
    assert empty.symmetric
    assert empty.neighbors_of([], None).rows.tolist() == []


def test_what_is_not_there_is_named() -> None:
    built = graph(3, [(0, 0, 1)])
    with pytest.raises(UsageError, match="Did you mean 'likes'"):
        built.neighbors(0, "like")
    with pytest.raises(UsageError, match="Unknown direction 'up'"):
        built.neighbors(0, "likes", "up")  # type: ignore[arg-type]
    for node in (-1, 3):
        with pytest.raises(UsageError, match=f"Row {node} is not in the knowledge base"):
            built.neighbors(node, "likes")
    with pytest.raises(UsageError, match="expected integers"):
        built.neighbors_of(["a"], "likes")
    with pytest.raises(UsageError, match="k = -1"):
        built.k_hop([0], -1)
    with pytest.raises(UsageError, match="Unknown node type"):
        built.of_type("thong")
