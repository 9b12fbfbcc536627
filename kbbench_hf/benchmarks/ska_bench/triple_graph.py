"""A graph of triples as arrays: hops, and the triples of an entity."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.ska_bench.token_counts import Tokenizer
from kbbench_hf.benchmarks.ska_bench.unit_arrays import measure
from kbbench_hf.benchmarks.ska_bench.units import Cells, write_triple

UNREACHED = 255
"""The hop of a unit that no path joins to the topic."""


class Graph:
    """One group of triples as arrays."""

    def __init__(self, triples: Sequence[Cells], tokenizer: Tokenizer) -> None:
        self.triples = triples
        self.units = measure([write_triple(triple) for triple in triples], tokenizer, in_text=False)
        self._entities: dict[str, int] = {}
        ends = [[self._entities.setdefault(e, len(self._entities)) for e in (head, tail)] for head, _, tail in triples]
        self._ends = np.array(ends, dtype=np.int64).reshape(-1, 2)
        touching = np.argsort(self._ends.T.ravel(), kind="stable")
        self._touching = touching % max(1, len(triples))
        self._starts = np.searchsorted(self._ends.T.ravel()[touching], np.arange(len(self._entities) + 1))

    def touching(self, entity: str) -> NDArray[np.int64]:
        """Return the numbers of the triples that an entity is an end of; none where it is unknown."""
        place = self._entities.get(entity, -1)
        last = self._starts[place + 1] if place >= 0 else 0
        return np.unique(self._touching[self._starts[max(0, place)] : last])

    def hops(self, topics: Sequence[str]) -> NDArray[np.int64]:
        """Return the hop of every triple: 1 + the distance of its nearer end from the nearest topic.

        Edges are walked both ways; `UNREACHED` where there is no path.
        """
        distance = np.full(len(self._entities), UNREACHED - 1)
        distance[[self._entities[topic] for topic in topics if topic in self._entities]] = 0
        head, tail = self._ends.T
        for step in range(UNREACHED - 1):
            frontier = distance == step
            reached = np.concatenate([tail[frontier[head]], head[frontier[tail]]])
            reached = reached[distance[reached] > step]
            if not len(reached):
                break
            distance[reached] = np.minimum(distance[reached], step + 1)
        nearest: NDArray[np.int64] = 1 + np.minimum(distance[head], distance[tail])
        return nearest
