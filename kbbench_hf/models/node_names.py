"""Which nodes a text names: those whose names it spells out, by the words they have in common."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.knowledge_base.graph import spans
from kbbench_hf.models.question import words

COVERAGE = 0.8
"""How much of a name's information a text must spell out to name it: one common word may be missing or misspelt."""


class Named(NamedTuple):
    """The nodes that a text names, ascending, and how surely each is meant, at most 1."""

    rows: NDArray[np.int64]
    strength: NDArray[np.float64]


NOTHING_NAMED = Named(np.zeros(0, np.int64), np.zeros(0))


class NodeNames:
    """An index of names. A look-up costs what the names hold whose rarest word the text has, however many there are.

    >>> names = NodeNames(["Salt Kiln", "Salt Mine", "Mill"])
    >>> names.find("the salt kilns of the north").rows.tolist(), names.find("salt").rows.tolist()
    ([0], [])
    """

    def __init__(self, names: Sequence[str]) -> None:
        vocabulary: dict[str, int] = {}
        spelled = [{vocabulary.setdefault(word, len(vocabulary)) for word in words(name)} for name in names]
        self._vocabulary, self._stems = vocabulary, list(vocabulary)
        self._offsets = np.concatenate([[0], np.cumsum([len(each) for each in spelled])]).astype(np.int64)
        self._words = np.fromiter((word for each in spelled for word in each), np.int64, self._offsets[-1])
        counts = np.bincount(self._words, minlength=len(vocabulary))
        self._enough = np.log(max(len(names), 2))
        self._information = self._enough - np.log(np.maximum(counts, 1))
        owners = np.repeat(np.arange(len(names)), np.diff(self._offsets))
        self._total = np.bincount(owners, self._information[self._words], len(names))
        rarest = sorted(
            (min(each, key=lambda word: (counts[word], word)), row) for row, each in enumerate(spelled) if each
        )
        self._by_rarest = np.array([row for _, row in rarest], dtype=np.int64)
        posted = Counter(word for word, _ in rarest)
        self._posted = np.concatenate([[0], np.cumsum([posted[word] for word in range(len(vocabulary))])]).astype(int)

    def find(self, text: str) -> Named:
        """Return the named nodes; a name's strength is its coverage, less where its words are common."""
        known = np.array(sorted({self._vocabulary[word] for word in words(text) if word in self._vocabulary}), np.int64)
        if not len(known):
            return NOTHING_NAMED
        places, _ = spans(self._posted[known], self._posted[known + 1])
        rows = np.sort(self._by_rarest[places])
        places, offsets = spans(self._offsets[rows], self._offsets[rows + 1])
        spelled = self._words[places]
        spoken = known[np.searchsorted(known[:-1], spelled)] == spelled  # the last one stands for all beyond
        owners = np.repeat(np.arange(len(rows)), np.diff(offsets))
        covered = np.bincount(owners, spoken * self._information[spelled], len(rows))
        kept = (covered > 0) & (covered >= COVERAGE * self._total[rows])
        rows, covered = rows[kept], covered[kept]
        return Named(rows, covered / self._total[rows] * np.minimum(self._total[rows] / self._enough, 1))

    def stems(self, rows: NDArray[np.int64]) -> set[str]:
        """Return the stems of the words in the names of these nodes."""
        places, _ = spans(self._offsets[rows], self._offsets[rows + 1])
        return {self._stems[word] for word in self._words[places].tolist()}
