"""What nodes pass on along edges to those joined to them, at the cost of the edges that are followed."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.knowledge_base.graph import Graph
from kbbench_hf.retrieval.top_k import best

Rows = NDArray[np.int64]
Vector = NDArray[np.float64]

FRONTIER = 20_000
"""Edges that are followed in a second step, from the nodes that the first reached best."""


class Sparse(NamedTuple):
    """A number for some nodes, each named once; 0 for the others."""

    rows: Rows
    values: Vector


NOTHING = Sparse(np.zeros(0, np.int64), np.zeros(0))


class Spreading:
    """The edges of a graph between different nodes, followed both ways."""

    def __init__(self, graph: Graph) -> None:
        graph = graph.without_loops
        self._n = graph.n_nodes
        self._sides = [graph.out] if graph.symmetric else [graph.out, graph.into]
        self.degrees = graph.degrees() + (0 if graph.symmetric else graph.degrees(direction="in"))
        """The number of edges of each node, out and in."""
        self._passing = 1 / np.log2(2 + self.degrees)

    @property
    def n_ways(self) -> int:
        """How many ways there are: from head to tail and back, or one where every edge has its reverse."""
        return len(self._sides)

    def step(self, nodes: tuple[Rows, Vector], relations: Sequence[Vector]) -> Sparse:
        """Return what nodes pass on to those joined to them, at most 1: less where they are joined to many.

        `relations` is what each relation passes on, for each way.
        """
        rows, values = nodes
        strength = values * self._passing[rows]
        found = [side.edges(rows) for side in self._sides]
        passed = [
            strength[each.places] * weights[each.relations] for each, weights in zip(found, relations, strict=True)
        ]
        joined = _summed(np.concatenate([each.rows for each in found]), np.concatenate(passed), self._n)
        return Sparse(joined.rows, joined.values / joined.values.max(initial=1e-12))

    def nearest(self, reached: Sparse) -> Sparse:
        """Return the nodes that are reached best, as many as have `FRONTIER` edges."""
        order = best(reached.values, len(reached.values))
        near = order[np.cumsum(self.degrees[reached.rows[order]]) <= FRONTIER]
        return Sparse(reached.rows[near], reached.values[near])


def distinct(parts: Sequence[Rows], kept: NDArray[np.bool_]) -> tuple[Rows, list[Rows]]:
    """Return the rows of all parts, each once and only those to be kept, and where the rows of each part stand there.

    Those that are not kept stand behind the last.
    """
    rows = np.concatenate(parts)
    owner, is_owner = _owners(rows, len(kept))
    is_owner &= kept[rows]
    number = np.where(is_owner, np.cumsum(is_owner) - 1, np.count_nonzero(is_owner))
    return rows[is_owner], np.split(number[owner], np.cumsum([len(part) for part in parts[:-1]]))


def _summed(rows: Rows, values: Vector, n: int) -> Sparse:
    """Return the sum of the values of each row."""
    owner, is_owner = _owners(rows, n)
    sums = np.bincount(owner, values, len(rows)).astype(np.float64, copy=False)
    return Sparse(rows[is_owner].astype(np.int64), sums[is_owner])


def _owners(rows: Rows, n: int) -> tuple[Rows, NDArray[np.bool_]]:
    """Return the last place at which each row, of `n` there are, stands among these, and whether it is this one.

    No more than these rows are looked at, however many there are.
    """
    places = np.arange(len(rows))
    last = np.empty(n, dtype=np.int64)
    last[rows] = places
    owner = last[rows]
    return owner, owner == places
