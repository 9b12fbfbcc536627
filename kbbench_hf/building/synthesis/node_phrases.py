"""Phrase search in node texts: normalized texts, and document frequencies of words and phrases per node type."""

from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from itertools import accumulate

import numpy as np

from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.text.folding import strip_accents
from kbbench_hf.text.words import list_words


def padded(text: str) -> str:
    """Return the words of a text with spaces between and around them, so that phrases match whole words."""
    return f" {' '.join(list_words(text))} "


def folded(text: str) -> str:
    """Return a text without accents, widths and case.

    >>> folded("Élan ＩＬ-10") == folded("E\u0301lan il-10") == "elan il-10"
    True
    """
    return strip_accents(text).casefold()


def is_named(name: str, text: str) -> bool:
    """Return whether a text contains a name as whole words, whatever separates their letters.

    A name without letters and digits must occur verbatim.

    >>> [is_named(name, "What acts on the IL 10 receptor?") for name in ("il-10", "IL10", "Receptor", "cept", "?")]
    [True, True, True, False, True]
    >>> is_named("", "Anything")
    False
    """
    wanted = "".join(list_words(folded(name)))
    if not wanted:
        return bool(name.strip()) and name.strip() in text
    # Words begin and end at bounds, so that the text between two bounds is a sequence of whole words.
    words = list_words(folded(text))
    joined, bounds = "".join(words), set(accumulate(map(len, words), initial=0))
    return any(joined.startswith(wanted, start) and start + len(wanted) in bounds for start in bounds)


class NodeTexts:
    """The texts of a knowledge base, loaded on first use."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self._kb = kb
        self._padded: dict[int, str] = {}
        self.of = cache(self._of_type)

    def padded(self, rows: Sequence[int]) -> list[str]:
        """Return the padded text of each row."""
        missing = [row for row in rows if row not in self._padded]
        self._padded |= dict(zip(missing, map(padded, self._kb.texts(missing)), strict=True)) if missing else {}
        return [self._padded[row] for row in rows]

    def _of_type(self, kind: str) -> "PhraseIndex":
        return PhraseIndex(self.padded(self._kb.of_type(kind).tolist()))


class PhraseIndex:
    """Document frequencies of words and phrases in the texts of a type."""

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
        """Return the number of texts that contain these words in sequence."""
        phrase = list(words)
        rarest = min((self._places.get(word, []) for word in phrase), key=len)
        if len(phrase) == 1:
            return len(rarest)
        whole = f" {' '.join(phrase)} "
        return sum(whole in self._texts[place] for place in rarest)

    def idf(self, word: str) -> float:
        """Return the inverse document frequency of a word: the logarithm of texts over texts that have it."""
        return float(np.log(len(self._texts) / max(1, len(self._places.get(word, [])))))
