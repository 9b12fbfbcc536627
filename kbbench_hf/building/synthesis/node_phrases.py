"""The nodes' texts as runs of letters and digits, and how often words stand in those of a type."""

from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from itertools import accumulate

import numpy as np

from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.text.folding import strip_accents
from kbbench_hf.text.words import list_words


def padded(text: str) -> str:
    """Return the tokens of a text with blanks between and around them, so that phrases are found whole."""
    return f" {' '.join(list_words(text))} "


def says(text: str, phrase: str) -> bool:
    """Say whether the tokens of a phrase stand one after the other in a text.

    >>> says("A harbour town.", "Harbour Town"), says("harbour; old town", "harbour town")
    (True, False)
    """
    return padded(phrase) in padded(text)


def folded(text: str) -> str:
    """Return a text without accents, widths and case: what is left when a name is written in another form.

    >>> folded("Élan ＩＬ-10") == folded("E\u0301lan il-10") == "elan il-10"
    True
    """
    return strip_accents(text).casefold()


def is_named(name: str, text: str) -> bool:
    """Say whether a name stands in a text in any written form: whole words, whatever stands between their letters.

    A name without letters and digits is looked for as it is.

    >>> [is_named(name, "What acts on the IL 10 receptor?") for name in ("il-10", "IL10", "Receptor", "cept", "?")]
    [True, True, True, False, True]
    >>> is_named("", "Anything")
    False
    """
    wanted = "".join(list_words(folded(name)))
    if not wanted:
        return bool(name.strip()) and name.strip() in text
    # A bound stands where a word begins or ends; what lies between two bounds is a run of whole words.
    words = list_words(folded(text))
    bounds = set(accumulate(map(len, words), initial=0))
    joined, start = "".join(words), 0
    while (start := joined.find(wanted, start)) >= 0:
        if start in bounds and start + len(wanted) in bounds:
            return True
        start += 1
    return False


class Texts:
    """The texts of a knowledge base, read when they are needed."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self._kb = kb
        self._padded: dict[int, str] = {}
        self.of = cache(self._of_type)

    def padded(self, rows: Sequence[int]) -> list[str]:
        """Return the padded text of each row."""
        missing = [row for row in rows if row not in self._padded]
        self._padded |= dict(zip(missing, map(padded, self._kb.texts(missing)), strict=True)) if missing else {}
        return [self._padded[row] for row in rows]

    def _of_type(self, kind: str) -> "Index":
        return Index(self.padded(self._kb.of_type(kind).tolist()))


class Index:
    """How many texts of a type have a word, or a phrase."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self._texts)

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        places: dict[str, list[int]] = {}
        for place, text in enumerate(self._texts):
            for token in dict.fromkeys(text.split()):
                places.setdefault(token, []).append(place)
        return places

    def count(self, words: Iterable[str]) -> int:
        """Return the number of texts in which these words stand one after the other."""
        phrase = list(words)
        rarest = min((self._places.get(word, []) for word in phrase), key=len)
        if len(phrase) == 1:
            return len(rarest)
        whole = f" {' '.join(phrase)} "
        return sum(whole in self._texts[place] for place in rarest)

    def idf(self, word: str) -> float:
        """Return the logarithm of one over the share of the texts that have a word."""
        return float(np.log(len(self._texts) / max(1, len(self._places.get(word, [])))))
