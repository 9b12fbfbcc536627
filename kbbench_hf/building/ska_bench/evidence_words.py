"""Words of questions and evidence: which ones are shared, which ones are names, and how much each one weighs."""

import math
from collections import Counter
from collections.abc import Iterable

from kbbench_hf.benchmarks.ska_bench.mentions import mentions, normal_name
from kbbench_hf.text.words import WORD

_FUNCTION_WORDS = frozenset(
    "a an the of in on at by for to from with and or is are was were be been did do does has have had what which who "
    "whom whose when where how many much that this these those it its he his her she they their there as than into "
    "also name named called known would can could".split()
)


def says(text: str, name: str) -> bool:
    """Say whether a text mentions a name as whole words, whatever its case, marks and punctuation.

    >>> says("Born in Zürich, he left.", "zurich")
    True
    """
    return mentions(f" {normal_name(text)} ", normal_name(name))


class Words:
    """Words without their endings, weighed by how few of some passages hold them.

    >>> words = Words(["a red bridge", "a blue bridge"])
    >>> sorted(words.of("Which bridges are red?"))
    ['bridg', 'red']
    >>> words.weight({"red"}) > words.weight({"bridg"})
    True
    """

    def __init__(self, passages: Iterable[str]) -> None:
        held = [self.of(passage) for passage in passages]
        self._passages = len(held)
        self._holding = Counter(word for words in held for word in words)

    def of(self, text: str) -> frozenset[str]:
        """Return the words of a text that carry meaning."""
        return frozenset(_stem(word) for word in normal_name(text).split() if word not in _FUNCTION_WORDS)

    def named(self, text: str) -> frozenset[str]:
        """Return the words that are written as names or numbers; the first word of the text does not count.

        >>> sorted(Words([]).named("Where was Ann of Oslo born in 1970?"))
        ['1970', 'ann', 'oslo']
        """
        tokens = WORD.findall(text)[1:]
        names = [token for token in tokens if token[0].isupper() or token[0].isdigit()]
        return self.of(" ".join(names))

    def weight(self, words: Iterable[str]) -> float:
        """Return the sum of the words' weights: the logarithm of how rare each one is."""
        return sum(math.log((1 + self._passages) / (1 + self._holding[word])) for word in words)


def _stem(word: str) -> str:
    for ending in ("ing", "ies", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word
