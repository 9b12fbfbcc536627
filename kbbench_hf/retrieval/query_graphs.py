"""The part of a knowledge base that a question is about: what it names, what a first stage finds, what joins them.

Source: Yasunaga et al., NAACL 2021 (QA-GNN), section 3: the question is a node of its own, joined to what it names and
to the candidates. Differs from upstream: what stands between is chosen by how well it is joined, not by a language
model; a node carries the first stage's score in the place of that model's.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.protocols import Ranking
from kbbench_hf.retrieval.fusion import min_max
from kbbench_hf.retrieval.graph_ranker.entity_linking import EntityLinker
from kbbench_hf.retrieval.graph_ranker.propagation import Propagation
from kbbench_hf.retrieval.top_k import best, row_mask

Rows = NDArray[np.int64]

QUESTION, NAMED, FOUND, BETWEEN = range(4)
"""What a node is in the graph: the question itself, named by it, found by the first stage, or joined to these."""
N_KINDS = 4
N_NAMED = 10
"""Nodes that a question names, the surest first."""
N_NUMBERS = 4
"""Numbers of a node: the first stage's score, how surely it is named, its degree, its likeness to the question."""
OWN_RELATIONS = 3
"""Relations beside the knowledge base's: a node to itself, the question to what it names, the question to the found."""


class QuestionGraph(NamedTuple):
    """A question and nodes of the knowledge base, the question first; edges join places in `rows`."""

    rows: Rows
    """-1 for the question, then the nodes, ascending."""
    kinds: Rows
    numbers: NDArray[np.float32]
    """Shape (nodes, N_NUMBERS); the last column is filled in by who has the vectors."""
    sources: Rows
    targets: Rows
    relations: Rows
    scored: Rows
    """The places whose nodes may be answers."""


class QuestionGraphs:
    """Builds the graphs of questions over one knowledge base.

    Args:
        kb: the knowledge base.
        depth: how many of the first stage's nodes are taken.
        size: nodes of a graph, the question's among them.
        candidates: the rows that may be answers, ascending; all where None.
    """

    def __init__(self, kb: KnowledgeBase, depth: int, size: int, candidates: Rows | None = None) -> None:
        self.depth, self._size = depth, size
        self._edges_of = Propagation(kb.graph)
        self._n_relations = len(kb.graph.relations)
        self.n_relations = OWN_RELATIONS + 2 * self._n_relations
        """Numbers of relations that an edge may have: each of the knowledge base's in both directions, and own ones."""
        degrees = self._edges_of.degrees
        self._degree = (np.log1p(degrees) / max(np.log1p(degrees.max(initial=0)), 1e-12)).astype(np.float32)
        self._linker = EntityLinker(kb.names())
        self._may_answer = row_mask(len(kb), candidates)

    def of(self, questions: Sequence[str], found: Ranking) -> list[QuestionGraph]:
        """Return the graph of each question; `found` is the first stage's ranking, `depth` deep or deeper."""
        scores = min_max(found)
        return [
            self._of(question, rows[rows >= 0][: self.depth], score[rows >= 0][: self.depth])
            for question, rows, score in zip(questions, found.ids, scores, strict=True)
        ]

    def _of(self, question: str, found: Rows, scores: NDArray[np.float64]) -> QuestionGraph:
        named = self._linker.link(question)
        surest = np.sort(best(named.strength, N_NAMED))
        strength = dict(zip(named.rows[surest].tolist(), named.strength[surest].tolist(), strict=True))
        score = dict(zip(found.tolist(), scores.tolist(), strict=True))
        core = np.array(sorted({*strength, *score}), np.int64)
        weight = np.array([strength.get(row, 0.0) + score.get(row, 0.0) ** 2 for row in core.tolist()])
        nodes = np.union1d(core, self._between(core, weight, self._size - 1 - len(core)))
        sources, targets, relations = self._edges(nodes)
        kinds = np.array([NAMED if n in strength else FOUND if n in score else BETWEEN for n in nodes.tolist()], int)
        numbers = np.zeros((1 + len(nodes), N_NUMBERS), np.float32)
        numbers[1:, 0] = [score.get(row, 0.0) for row in nodes.tolist()]
        numbers[1:, 1] = [strength.get(row, 0.0) for row in nodes.tolist()]
        numbers[1:, 2] = self._degree[nodes]
        own = np.arange(1 + len(nodes))
        asked = 1 + np.flatnonzero(kinds != BETWEEN)
        kind = kinds[asked - 1]  # to what is named by relation 1, to what is found by relation 2
        zero = np.zeros_like(asked)
        return QuestionGraph(
            np.concatenate([[-1], nodes]),
            np.concatenate([[QUESTION], kinds]),
            numbers,
            np.concatenate([own, zero, asked, sources + 1]),
            np.concatenate([own, asked, zero, targets + 1]),
            np.concatenate([np.zeros_like(own), kind, kind, relations]),
            1 + np.flatnonzero(self._may_answer[nodes]),
        )

    def _between(self, core: Rows, weight: NDArray[np.float64], n: int) -> Rows:
        """Return the `n` nodes that are joined best to the core: to much of it, and not through what joins anything."""
        if n <= 0:
            return np.zeros(0, np.int64)
        passed = weight * self._edges_of.passing[core]
        edges = [side.edges(core) for side in self._edges_of.sides]
        rows, place = np.unique(np.concatenate([each.rows for each in edges]), return_inverse=True)
        total = np.bincount(place, np.concatenate([passed[each.places] for each in edges]), len(rows)).astype(float)
        total[np.isin(rows, core)] = 0
        chosen = best(total, n)
        return rows[chosen[total[chosen] > 0]].astype(np.int64)

    def _edges(self, nodes: Rows) -> tuple[Rows, Rows, Rows]:
        """Return the edges among nodes as places and relations, each in both directions."""
        places, relations, rows = self._edges_of.sides[0].edges(nodes)
        to = np.minimum(np.searchsorted(nodes, rows), len(nodes) - 1)
        kept = nodes[to] == rows
        heads, tails, relation = places[kept], to[kept], relations[kept] + OWN_RELATIONS
        if len(self._edges_of.sides) == 1:  # every edge is there in both directions
            return heads, tails, relation
        return (
            np.concatenate([heads, tails]),
            np.concatenate([tails, heads]),
            np.concatenate([relation, relation + self._n_relations]),
        )


def choices(graph: QuestionGraph) -> list[QuestionGraph]:
    """Return a graph for each node that may be an answer: the question, what it names, that node, what is next to it.

    They are parts of the one graph of the question; each scores its one node.
    """
    low, high = np.minimum(graph.sources, graph.targets), np.maximum(graph.sources, graph.targets)
    of_question = (low == 0) & (high > 0)
    found = []
    for place in graph.scored.tolist():
        kept = graph.kinds <= NAMED
        kept[place] = True
        kept[graph.targets[(low > 0) & (graph.sources == place)]] = True
        new = np.cumsum(kept) - 1
        asked = (graph.kinds[high] == NAMED) | (high == place)  # what else was found is no candidate here
        edges = kept[low] & kept[high] & (asked | ~of_question)
        found.append(
            QuestionGraph(
                graph.rows[kept],
                graph.kinds[kept],
                graph.numbers[kept],
                new[graph.sources[edges]],
                new[graph.targets[edges]],
                graph.relations[edges],
                new[[place]],
            )
        )
    return found
