"""Matching names and words: normal forms, whole-word mentions, word weights, rows found by a question's cells.

All makers of instances, the noise, the twins and the audit compare texts by these functions. There are two normal
forms: `normalize_cell` for cells and table programs, `normal_name` for names and words of texts. A change of either
alters the built datasets.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

from kbbench_hf.benchmarks.ska_bench.units import Cells
from kbbench_hf.metrics.answers import wtq_normal
from kbbench_hf.text.folding import strip_accents
from kbbench_hf.text.words import WORD

_APOSTROPHES = re.compile("['’‘ʼ]+")
_BREAKS = re.compile(r"(?:[^\w+#&$]|_)+")
_FUNCTION_WORDS = frozenset(
    "a an the of in on at by for to from with and or is are was were be been did do does has have had what which who "
    "whom whose when where how many much that this these those it its he his her she they their there as than into "
    "also name named called known would can could".split()
)


normalize_cell = lru_cache(maxsize=1 << 18)(wtq_normal)
"""Return the normal form of a cell; cached, because every program reads the same cells."""


@lru_cache(maxsize=1 << 20)
def normal_name(text: str) -> str:
    """Return a name or a text as words in lower case, without marks and punctuation, except `+`, `#`, `&` and `$`.

    >>> normal_name("Amélie (2001)"), normal_name("C++"), normal_name("O'Brien")
    ('amelie 2001', 'c++', 'obrien')
    """
    return " ".join(_BREAKS.sub(" ", _APOSTROPHES.sub("", strip_accents(text).casefold())).split())


def mentions(text: str, literal: str) -> bool:
    """Return whether a text in normal form holds the literal as whole words.

    The empty literal is mentioned by the empty text alone.

    >>> mentions("1 may 1993", "1993"), mentions("21", "1")
    (True, False)
    """
    if not literal:
        return not text
    start = text.find(literal)
    while start >= 0:
        end = start + len(literal)
        before, after = text[start - 1 : start], text[end : end + 1]
        if not (before.isalnum() and literal[0].isalnum()) and not (after.isalnum() and literal[-1].isalnum()):
            return True
        start = text.find(literal, start + 1)
    return False


def mentions_name(text: str, name: str) -> bool:
    """Return whether a text mentions a name as whole words, whatever its case, marks and punctuation.

    >>> mentions_name("Born in Zürich, he left.", "zurich")
    True
    """
    return mentions(f" {normal_name(text)} ", normal_name(name))


def content_words(text: str) -> frozenset[str]:
    """Return the stems of a text's words without function words; an empty set for a text without others.

    >>> sorted(content_words("Which bridges are red?"))
    ['bridg', 'red']
    """
    return frozenset(_stem(word) for word in normal_name(text).split() if word not in _FUNCTION_WORDS)


def capitalized_words(text: str) -> frozenset[str]:
    """Return the stems of the words that are written as names or numbers; the first word of the text does not count.

    >>> sorted(capitalized_words("Where was Ann of Oslo born in 1970?"))
    ['1970', 'ann', 'oslo']
    """
    tokens = WORD.findall(text)[1:]
    return content_words(" ".join(token for token in tokens if token[0].isupper() or token[0].isdigit()))


class WordWeights:
    """Inverse document frequencies of stems over some passages.

    >>> weights = WordWeights(["a red bridge", "a blue bridge"])
    >>> weights.sum({"red"}) > weights.sum({"bridg"})
    True
    """

    def __init__(self, passages: Iterable[str]) -> None:
        stems = [content_words(passage) for passage in passages]
        self._n_passages = len(stems)
        self._frequency = Counter(word for words in stems for word in words)

    def sum(self, words: Iterable[str]) -> float:
        """Return the sum of the words' weights, log((1 + passages) / (1 + passages with the word)); 0 for no words."""
        # exact, because words come in sets: another order would round otherwise, and decide ties otherwise
        return math.fsum(math.log((1 + self._n_passages) / (1 + self._frequency[word])) for word in words)


def _stem(word: str) -> str:
    """Return a word without its ending, cruder than `text.porter`, which would merge other words."""
    for ending in ("ing", "ies", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def is_found_by_cells(question: str, positives: Sequence[Cells], noise: Iterable[Cells]) -> bool:
    """Return whether the rows whose quoted cells weigh most, rare cells more, are exactly the positive ones.

    A search for the question's words alone finds these rows, so the question tests no knowledge of the table. The
    weight of a row is the sum of its cells' weights or the largest of them; one of the two is enough.

    >>> is_found_by_cells("how old is ann?", [("Ann", "12")], [("Bo", "11"), ("Cy", "10")])
    True
    >>> is_found_by_cells("how many are over 10?", [("Ann", "12"), ("Bo", "11")], [("Cy", "10")])
    False
    """
    text = normalize_cell(question)
    rows = [*dict.fromkeys(positives), *dict.fromkeys(row for row in noise if row not in positives)]
    quoted = [{cell for cell in map(normalize_cell, row) if len(cell) > 1 and mentions(text, cell)} for row in rows]
    frequency = Counter(cell for cells in quoted for cell in cells)
    weights = {cell: math.log((1 + len(rows)) / n) for cell, n in frequency.items()}
    for combine in (sum, max):
        scores = [combine([weights[cell] for cell in cells] or [0.0]) for cells in quoted]
        best = {n for n, score in enumerate(scores) if score >= max(scores) - 1e-9}
        if max(scores) > 0 and best == set(range(len(positives))):
            return True
    return False
