"""Entity linking: the nodes whose names a text spells out, by the words that they share.

The graph ranker, the plan generator and QA-GNN link the entities of queries with it. Trained planners and networks
have learned from its links, and published scores depend on them: what is linked, and how strongly, stays.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.knowledge_base.graph import spans
from kbbench_hf.retrieval.context import PART
from kbbench_hf.retrieval.graph_ranker.query_words import FUNCTION, WITHIN, stem, words
from kbbench_hf.text.words import WORD, break_words

COVERAGE = 0.8
"""The share of a name's information that a mention has: one common word may be missing or misspelt."""
MISSING_FUNCTION_WORD = 1.0
"""The information of a name's function word that the text lacks: "film" does not mention "This Is Not a Film"."""
_NUMBER = {word: number for number, word in enumerate(sorted(FUNCTION))}
_HYPHENATED = re.compile(rf"{WORD.pattern}(?:-{WORD.pattern})+")
Rows = NDArray[np.int64]


class LinkedEntities(NamedTuple):
    """The linked nodes, ascending, and the confidence of each link, at most 1."""

    rows: Rows
    strength: NDArray[np.float64]

    @property
    def surest(self) -> float:
        """The highest confidence; 0 without a link."""
        return float(self.strength.max(initial=0.0))


class EntityLinker:
    """An index of names by their rarest word. The cost of a text is that of the names whose rarest word it has.

    >>> linker = EntityLinker(["Salt Kiln", "Salt Mine", "Mill"])
    >>> linker.link("the salt kilns of the north").rows.tolist(), linker.link("salt").rows.tolist()
    ([0], [])

    A name that is mentioned only within a longer one counts less. Hyphenated words are matched as one word too.

    >>> linker = EntityLinker(["Salt Mine", "Old Salt Mine", "MMP9"])
    >>> linker.link("near the old salt mine").strength.round(1).tolist()
    [0.2, 1.0]
    >>> linker.link("inhibitors of MMP-9").rows.tolist()
    [2]
    """

    def __init__(self, names: Sequence[str]) -> None:
        vocabulary: dict[str, int] = {}

        @cache  # each word is stemmed once
        def number(word: str) -> int | None:
            return None if word in FUNCTION else vocabulary.setdefault(stem(word), len(vocabulary))

        in_names = (map(number, WORD.findall(break_words(name).lower())) for name in names)
        spelled = ({stem_number for stem_number in each if stem_number is not None} for each in in_names)
        self._function, self._function_offsets = _flatten(map(_function_words, names), np.uint8)
        self._words, self._offsets = _flatten(spelled, np.int64)
        self._vocabulary, self._stems = vocabulary, list(vocabulary)
        counts = np.bincount(self._words, minlength=len(vocabulary))
        self._enough = np.log(max(len(names), 2))
        self._information = self._enough - np.log(np.maximum(counts, 1))
        owners = np.repeat(np.arange(len(names)), np.diff(self._offsets))
        self._total = np.bincount(owners, self._information[self._words], len(names))
        has_words = np.flatnonzero(np.diff(self._offsets))
        keys = counts[self._words] * len(vocabulary) + self._words  # by count, then by number
        rarest = np.minimum.reduceat(keys, self._offsets[has_words]) % max(len(vocabulary), 1)
        order = np.argsort(rarest, kind="stable")
        self._by_rarest = has_words[order]
        self._starts = np.searchsorted(rarest[order], np.arange(len(vocabulary) + 1))

    def knows(self, word: str) -> bool:
        """Whether a stem occurs in a name."""
        return word in self._vocabulary

    def link(self, text: str) -> LinkedEntities:
        """Return the mentioned nodes, rows ascending; empty where the text spells no name.

        The strength is the coverage of the name, less for common words and for names within longer ones.
        """
        hyphenated = " ".join(each.replace("-", "") for each in _HYPHENATED.findall(text))  # "MMP-9" is "MMP9"
        stems = (*words(text), *words(hyphenated))
        times = Counter(self._vocabulary[word] for word in stems if word in self._vocabulary)
        if not times:
            return LinkedEntities(np.zeros(0, np.int64), np.zeros(0))
        known = np.array(sorted(times), np.int64)
        rows = np.sort(self._by_rarest[spans(self._starts[known], self._starts[known + 1])[0]])
        places, offsets = spans(self._offsets[rows], self._offsets[rows + 1])
        spelled = self._words[places]
        word = np.searchsorted(known[:-1], spelled)  # the last place holds all words beyond it
        shared = known[word] == spelled
        owners = np.repeat(np.arange(len(rows)), np.diff(offsets))
        covered = np.bincount(owners, shared * self._information[spelled], len(rows))
        linked = (covered > 0) & (covered >= COVERAGE * self._total[rows])
        near = rows[linked]
        missing = MISSING_FUNCTION_WORD * self._n_missing(near, text)
        linked[linked] = covered[linked] >= COVERAGE * (self._total[near] + missing)
        shared &= linked[owners]
        once = np.array([times[each] == 1 for each in known.tolist()])
        own = _has_own_word(owners[shared], word[shared], once, len(rows))
        total = self._total[rows[linked]]
        strength = covered[linked] / total * np.minimum(total / self._enough, 1) * np.where(own[linked], 1, WITHIN)
        return LinkedEntities(rows[linked], strength)

    def _n_missing(self, rows: Rows, text: str) -> NDArray[np.float64]:
        """Return how many function words of each name a text lacks."""
        missing = np.ones(len(_NUMBER))
        missing[list(_function_words(text))] = 0
        places, offsets = spans(self._function_offsets[rows], self._function_offsets[rows + 1])
        owners = np.repeat(np.arange(len(rows)), np.diff(offsets))
        return np.bincount(owners, missing[self._function[places]], len(rows)).astype(np.float64, copy=False)

    def stems(self, rows: Rows) -> set[str]:
        """Return the stems of the words in the names of these nodes."""
        places, _ = spans(self._offsets[rows], self._offsets[rows + 1])
        return {self._stems[word] for word in self._words[places].tolist()}


def _flatten(parts: Iterable[Collection[int]], kind: type[np.integer]) -> tuple[NDArray[np.integer], Rows]:
    """Return collections of numbers end to end, and the offset of each; few of them are in memory at a time."""
    each, flat, sizes = iter(parts), [np.zeros(0, kind)], [np.zeros(1, np.int64)]
    while some := list(islice(each, PART)):
        flat.append(np.fromiter(chain.from_iterable(some), kind))
        sizes.append(np.array(list(map(len, some)), np.int64))
    return np.concatenate(flat), np.cumsum(np.concatenate(sizes))


def _function_words(text: str) -> set[int]:
    """Return the numbers of the function words of a text."""
    return {_NUMBER[word] for word in FUNCTION.intersection(WORD.findall(text.lower()))}


def _has_own_word(names: Rows, words: Rows, once: NDArray[np.bool_], n_names: int) -> NDArray[np.bool_]:
    """Return which names have a word that no longer name has too; a word that occurs twice is there for both.

    `names` and `words` are the places of each name and each of its words in the text; `once` says which words occur a
    single time.
    """
    size = np.bincount(names, minlength=n_names)
    longest = np.zeros(len(once), np.int64)
    np.maximum.at(longest, words, size[names])
    own = (size[names] == longest[words]) | ~once[words]
    has_own: NDArray[np.bool_] = np.bincount(names[own], minlength=n_names) > 0
    return has_own
