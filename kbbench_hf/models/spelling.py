"""Misspelt words: the known word that differs by one slip of a finger."""

from collections.abc import Iterable, Iterator

SHORTEST = 5
"""Letters below which a slip turns one word into another."""


class Spelling:
    """Known words, found by what is left of them without one letter.

    >>> Spelling(["cellular", "drug", "medication"]).corrected("medicatoin")
    'medication'
    """

    def __init__(self, known: Iterable[str]) -> None:
        self._known = {word for word in known if len(word) >= SHORTEST}
        self._shortened: dict[str, str] = {}
        for word in sorted(self._known):
            for short in _without_one(word):
                self._shortened.setdefault(short, word)

    def corrected(self, word: str) -> str:
        """Return the known word from which one letter was dropped, added, changed or swapped, or the word itself."""
        if len(word) < SHORTEST - 1 or word in self._known:
            return word
        if word in self._shortened:  # a letter was dropped
            return self._shortened[word]
        for short in _without_one(word):
            if short in self._known:  # a letter was added
                return short
        for short in _without_one(word):
            if short in self._shortened:  # a letter was changed, or two were swapped
                return self._shortened[short]
        return word


def _without_one(word: str) -> Iterator[str]:
    return (word[:place] + word[place + 1 :] for place in range(len(word)))
