"""Triples as a graph in arrays: hops from the topics, and the triples of an entity."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.ska_bench.units import Cells

UNREACHED = 255
"""The hop of a unit that no path connects to the topic."""


class TripleGraph:
    """One group of triples, its entities numbered."""

    def __init__(self, triples: Sequence[Cells]) -> None:
        self._entities: dict[str, int] = {}
        ends = [[self._entities.setdefault(e, len(self._entities)) for e in (head, tail)] for head, _, tail in triples]
        self._ends = np.array(ends, dtype=np.int64).reshape(-1, 2).T

    def touching(self, entity: str) -> NDArray[np.int64]:
        """Return the numbers of the triples that an entity is an end of; none where it is unknown."""
        return np.flatnonzero((self._ends == self._entities.get(entity, -1)).any(axis=0))

    def hops(self, topics: Sequence[str]) -> NDArray[np.int64]:
        """Return the hop of every triple: 1 + the distance of its nearer end from the nearest topic.

        Edges are walked in both directions; `UNREACHED` where there is no path.
        """
        distance = np.full(len(self._entities), UNREACHED - 1)
        distance[[self._entities[topic] for topic in topics if topic in self._entities]] = 0
        head, tail = self._ends
        for step in range(UNREACHED - 1):
            frontier = distance == step
            reached = np.concatenate([tail[frontier[head]], head[frontier[tail]]])
            reached = reached[distance[reached] > step]
            if not len(reached):
                break
            distance[reached] = np.minimum(distance[reached], step + 1)
        nearest: NDArray[np.int64] = 1 + np.minimum(distance[head], distance[tail])
        return nearest
