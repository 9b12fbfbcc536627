"""Propagation of scores from nodes to their neighbors along edges, at the cost of the edges followed.

The graph ranker adds the results as signals; QA-GNN chooses the nodes of its graphs by `passing`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.knowledge_base.graph import Graph
from kbbench_hf.retrieval.top_k import best

Rows = NDArray[np.int64]
Vector = NDArray[np.float64]

FRONTIER = 20_000
"""Edges followed in a second step, from the best nodes of the first."""


class SparseScores(NamedTuple):
    """Scores of some nodes, each listed once; 0 for the others."""

    rows: Rows
    values: Vector


NO_SCORES = SparseScores(np.zeros(0, np.int64), np.zeros(0))


class Propagation:
    """The edges of a graph without self-loops, followed in both directions."""

    def __init__(self, graph: Graph) -> None:
        graph = graph.without_loops
        self._n, self.sides, self.degrees = graph.n_nodes, graph.sides, graph.total_degrees
        self.passing = 1 / np.log2(2 + self.degrees)
        """The share of a node's score that each of its neighbors gets."""

    def step(self, nodes: tuple[Rows, Vector], weights: Sequence[Vector]) -> SparseScores:
        """Return the scores that nodes pass on to their neighbors, the highest scaled to 1; by high degrees less.

        `weights` are those of each relation, for each of `sides`. The rows are in no order, each once; none without an
        edge.
        """
        rows, values = nodes
        strength = values * self.passing[rows]
        edges = [side.edges(rows) for side in self.sides]
        passed = [strength[each.places] * weight[each.relations] for each, weight in zip(edges, weights, strict=True)]
        reached = np.concatenate([each.rows for each in edges])
        owner, is_owner = _last_places(reached, self._n)
        sums = np.bincount(owner, np.concatenate(passed), len(reached)).astype(np.float64, copy=False)[is_owner]
        return SparseScores(reached[is_owner].astype(np.int64), sums / sums.max(initial=1e-12))

    def nearest(self, reached: SparseScores) -> SparseScores:
        """Return the nodes with the best scores, best first: as many as have at most `FRONTIER` edges together."""
        order = best(reached.values, len(reached.values))
        near = order[np.cumsum(self.degrees[reached.rows[order]]) <= FRONTIER]
        return SparseScores(reached.rows[near], reached.values[near])


def distinct(parts: Sequence[Rows], allowed: NDArray[np.bool_]) -> tuple[Rows, list[Rows]]:
    """Return the allowed rows of all parts, each once, and the place of each part's rows among them.

    The place of a row that is not allowed is one behind the last.
    """
    rows = np.concatenate(parts)
    owner, is_owner = _last_places(rows, len(allowed))
    is_owner &= allowed[rows]
    number = np.where(is_owner, np.cumsum(is_owner) - 1, np.count_nonzero(is_owner))
    return rows[is_owner], np.split(number[owner], np.cumsum([len(part) for part in parts[:-1]]))


def _last_places(rows: Rows, n: int) -> tuple[Rows, NDArray[np.bool_]]:
    """Return the last place of each row (of `n`) among `rows`, and whether it is this one."""
    places = np.arange(len(rows))
    last = np.empty(n, dtype=np.int64)  # not filled: the cost is that of `rows`
    last[rows] = places
    owner = last[rows]
    return owner, owner == places
