"""Topic entities for a template: the first by chance, less often the busier it is, the others so that they meet it."""

from itertools import accumulate
from random import Random

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.knowledge_base.graph import Direction, Graph
from kbbench_hf.knowledge_base.metapaths import Hop, Metapath, Walk
from kbbench_hf.knowledge_base.store import KnowledgeBase

_BACK: dict[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}


def degrees_of(graph: Graph) -> NDArray[np.int64]:
    """Return the number of edges at each node, shape (n_nodes,); one that has its reverse counts as two.

    Counted, not listed, so that forty million edges need no memory.
    """
    degrees = graph.degrees(direction="out")
    return degrees if graph.symmetric else degrees + graph.degrees(direction="in")


class TopicDraws:
    """Draws topics from one knowledge base; the same random numbers give the same topics."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self.graph = kb.graph
        self._starts: dict[tuple[str, str, Direction], tuple[list[int], list[float]]] = {}

    def draw(self, path: Metapath, rng: Random) -> tuple[list[int], list[int]] | None:
        """Return a row for each topic of a template, and the rows of its answers; None where chance led nowhere.

        The first topic is drawn by the inverse square root of its degree. Another one is found by walking back from an
        answer that the walks so far have in common; where its walk is negated, this takes that answer away.
        """
        drawn: dict[str, int] = {}
        met: NDArray[np.int64] | None = None
        for walk in sorted(path.walks, key=lambda each: any(hop.negated for hop in each.hops)):
            if walk.topic is not None and walk.topic not in drawn:
                topic = self._first(walk, rng) if met is None else self._meeting(walk, met, set(drawn.values()), rng)
                if topic is None:
                    return None
                drawn[walk.topic] = topic
            start = self.graph.of_type(walk.start_type) if walk.topic is None else np.array([drawn[walk.topic]])
            reached = walk.reached(self.graph, start)
            met = reached if met is None else np.intersect1d(met, reached)
            if not len(met):
                return None
        topics = [drawn[topic] for topic in path.topics]
        return topics, [] if met is None else np.setdiff1d(met, topics).tolist()

    def _first(self, walk: Walk, rng: Random) -> int | None:
        hop = walk.hops[0]
        key = (walk.start_type, hop.relation, hop.direction)
        if key not in self._starts:
            rows = self.graph.of_type(walk.start_type)
            rows = rows[self.graph.degrees(hop.relation, hop.direction)[rows] > 0]
            self._starts[key] = rows.tolist(), list(accumulate((1 / np.sqrt(degrees_of(self.graph)[rows])).tolist()))
        rows_of, weights = self._starts[key]
        return rng.choices(rows_of, cum_weights=weights)[0] if rows_of else None

    def _meeting(self, walk: Walk, met: NDArray[np.int64], drawn: set[int], rng: Random) -> int | None:
        answer = int(met[rng.randrange(len(met))])
        types = [walk.start_type, *(hop.node_type for hop in walk.hops[:-1])]
        hops = tuple(
            Hop(hop.relation, before, _BACK[hop.direction])
            for hop, before in zip(walk.hops[::-1], types[::-1], strict=True)
        )
        back = Walk(None, walk.hops[-1].node_type, hops)
        found = [row for row in back.reached(self.graph, np.array([answer])).tolist() if row not in drawn]
        return found[rng.randrange(len(found))] if found else None
