"""BM25 over node names and texts, without relations: how well words alone match a question.

A word counts once for a node, however often the node has it.
"""

from collections import defaultdict
from collections.abc import Sequence
from math import log

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.text.words import list_words

_K1, _B = 1.2, 0.75
_CHUNK = 20_000


class NodeWords:
    """Inverted index of nodes by the words of their names and texts, for the words of given questions."""

    def __init__(self, kb: KnowledgeBase, nodes: NDArray[np.int64], wanted: set[str]) -> None:
        """Index the names and texts of `nodes`, row numbers, by the words in `wanted`."""
        self._postings: dict[str, list[int]] = defaultdict(list)
        lengths = np.zeros(len(nodes))
        for start in range(0, len(nodes), _CHUNK):
            chunk = nodes[start : start + _CHUNK]
            names_and_texts = zip(kb.names(chunk), kb.texts(chunk), strict=True)
            for place, (name, text) in enumerate(names_and_texts, start=start):
                words = list_words(f"{name} {text}")
                lengths[place] = len(words)
                for word in wanted.intersection(words):
                    self._postings[word].append(place)
        mean = max(1.0, float(lengths.mean())) if len(nodes) else 1.0
        self._norm = (_K1 + 1) / (1 + _K1 * (1 - _B + _B * lengths / mean))

    def scores(self, question: set[str]) -> NDArray[np.float64]:
        """Return the score of each node, in the order of `nodes`."""
        scores = np.zeros(len(self._norm))
        for word in sorted(question & self._postings.keys()):
            places = self._postings[word]
            idf = log(1 + (len(scores) - len(places) + 0.5) / (len(places) + 0.5))
            scores[places] += idf * self._norm[places]
        return scores


def ranks_by_words(kb: KnowledgeBase, questions: Sequence[set[str]], answers: Sequence[Sequence[int]]) -> list[int]:
    """Return the rank of each question's best answer among all nodes, 1 the first; of ties the earlier row leads."""
    nodes = np.arange(len(kb))
    index = NodeWords(kb, nodes, {word for question in questions for word in question})
    ranks = []
    for question, right in zip(questions, answers, strict=True):
        scores = index.scores(question)
        rows = np.array(sorted(right))
        best = rows[np.argmax(scores[rows])]
        ranks.append(1 + int((scores > scores[best]).sum() + (scores[:best] == scores[best]).sum()))
    return ranks
