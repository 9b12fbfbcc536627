"""Which nodes a text names: those whose names it spells out, by the words they have in common."""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.knowledge_base.graph import spans
from kbbench_hf.retrieval.graph_ranker.query_words import FUNCTION, words
from kbbench_hf.retrieval.graph_ranker.schema_labels import WITHIN
from kbbench_hf.text.words import WORD

COVERAGE = 0.8
"""How much of a name's information a text must spell out to name it: one common word may be missing or misspelt."""
UNSAID = 1.0
"""What a name's function word counts that a text does not have: "film" alone does not name "This Is Not a Film"."""
_NUMBER = {word: number for number, word in enumerate(sorted(FUNCTION))}
_HYPHENATED = re.compile(rf"{WORD.pattern}(?:-{WORD.pattern})+")


class Named(NamedTuple):
    """The nodes that a text names, ascending, and how surely each is meant, at most 1."""

    rows: NDArray[np.int64]
    strength: NDArray[np.float64]

    @property
    def surest(self) -> float:
        """The strength of the surest; 0 where none is named."""
        return float(self.strength.max(initial=0.0))


NOTHING_NAMED = Named(np.zeros(0, np.int64), np.zeros(0))


class NodeNames:
    """An index of names. A look-up costs what the names hold whose rarest word the text has, however many there are.

    >>> names = NodeNames(["Salt Kiln", "Salt Mine", "Mill"])
    >>> names.find("the salt kilns of the north").rows.tolist(), names.find("salt").rows.tolist()
    ([0], [])

    Where a text says the words of a name only as part of a longer one, the longer one is meant. What it hyphenates is
    read as one word too.

    >>> names = NodeNames(["Salt Mine", "Old Salt Mine", "MMP9"])
    >>> names.find("near the old salt mine").strength.round(1).tolist()
    [0.2, 1.0]
    >>> names.find("inhibitors of MMP-9").rows.tolist()
    [2]
    """

    def __init__(self, names: Sequence[str]) -> None:
        vocabulary: dict[str, int] = {}
        self._function, self._function_offsets = _end_to_end([_function_words(name) for name in names], np.uint8)
        spelled = [{vocabulary.setdefault(word, len(vocabulary)) for word in words(name)} for name in names]
        self._vocabulary, self._stems = vocabulary, list(vocabulary)
        self._words, self._offsets = _end_to_end(spelled, np.int64)
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

    def knows(self, word: str) -> bool:
        """Whether a stem stands in a name."""
        return word in self._vocabulary

    def find(self, text: str) -> Named:
        """Return the named nodes; a name's strength is its coverage, less where its words are common or another's."""
        said = Counter(self._vocabulary[word] for word in _spellings(text) if word in self._vocabulary)
        if not said:
            return NOTHING_NAMED
        known = np.array(sorted(said), np.int64)
        places, _ = spans(self._posted[known], self._posted[known + 1])
        rows = np.sort(self._by_rarest[places])
        places, offsets = spans(self._offsets[rows], self._offsets[rows + 1])
        spelled = self._words[places]
        word = np.searchsorted(known[:-1], spelled)  # the last one stands for all beyond
        spoken = known[word] == spelled
        owners = np.repeat(np.arange(len(rows)), np.diff(offsets))
        covered = np.bincount(owners, spoken * self._information[spelled], len(rows))
        kept = (covered > 0) & (covered >= COVERAGE * self._total[rows])
        near = rows[kept]
        kept[kept] = covered[kept] >= COVERAGE * (self._total[near] + UNSAID * self._unsaid(near, text))
        spoken &= kept[owners]
        once = np.array([said[each] == 1 for each in known.tolist()])
        alone = _alone(owners[spoken], word[spoken], once, len(rows))
        total = self._total[rows[kept]]
        strength = covered[kept] / total * np.minimum(total / self._enough, 1) * np.where(alone[kept], 1, WITHIN)
        return Named(rows[kept], strength)

    def _unsaid(self, rows: NDArray[np.int64], text: str) -> NDArray[np.float64]:
        """Return how many function words of each name a text does not have."""
        unsaid = np.ones(len(_NUMBER))
        unsaid[list(_function_words(text))] = 0
        places, offsets = spans(self._function_offsets[rows], self._function_offsets[rows + 1])
        owners = np.repeat(np.arange(len(rows)), np.diff(offsets))
        return np.bincount(owners, unsaid[self._function[places]], len(rows)).astype(np.float64, copy=False)

    def stems(self, rows: NDArray[np.int64]) -> set[str]:
        """Return the stems of the words in the names of these nodes."""
        places, _ = spans(self._offsets[rows], self._offsets[rows + 1])
        return {self._stems[word] for word in self._words[places].tolist()}


def _end_to_end(
    parts: Sequence[Collection[int]], kind: type[np.integer]
) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
    """Return collections of numbers laid end to end, and the offsets at which each begins."""
    offsets = np.concatenate([[0], np.cumsum([len(each) for each in parts])]).astype(np.int64)
    return np.fromiter((number for each in parts for number in each), kind, offsets[-1]), offsets


def _function_words(text: str) -> set[int]:
    """Return the numbers of the function words of a text."""
    return {_NUMBER[word] for word in FUNCTION.intersection(WORD.findall(text.lower()))}


def _spellings(text: str) -> list[str]:
    """Return the stems of a text's words, and of those that it hyphenates as one word: "MMP-9" is "MMP9"."""
    joined = " ".join(each.replace("-", "") for each in _HYPHENATED.findall(text))
    return [*words(text), *words(joined)]


def _alone(
    names: NDArray[np.int64], words: NDArray[np.int64], once: NDArray[np.bool_], n_names: int
) -> NDArray[np.bool_]:
    """Return which names have a word that no longer name takes: one that is said twice is there for both.

    `names` and `words` are the places of each name and each of its words that the text says, `once` whether it says
    the word a single time.
    """
    size = np.bincount(names, minlength=n_names)
    longest = np.zeros(len(once), np.int64)
    np.maximum.at(longest, words, size[names])
    own = (size[names] == longest[words]) | ~once[words]
    alone: NDArray[np.bool_] = np.bincount(names[own], minlength=n_names) > 0
    return alone
