"""Misspelt words: the common word that differs by one slip of a finger."""

import re
from collections.abc import Callable, Iterable, Iterator

from kbbench_hf.models.english import EXCLUDED_WITH, FUNCTION, REQUESTS, VERB_FORMS, stem

SHORTEST = 5
"""Letters below which a slip turns one word into another."""
_LOWER_CASE = re.compile(rf"(?<![^\W_])(?<![-'’])[^\W\dA-Z_]{{{SHORTEST},}}(?![-'’]?[^\W_])")
"""Words of which no letter is a capital, as those of names often are, and which are no part of a compound."""
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_ENGLISH = FUNCTION | REQUESTS | VERB_FORMS | EXCLUDED_WITH


class Spelling:
    """The spelling of questions to a knowledge base.

    Args:
        common: stems of words that are commonly used there: these and the words of asking are what a slip may mean.
        known: whether a stem is used there at all. Such a word stays, as do words that are no slip of one of those.

    >>> Spelling(["cellular", "medication"], {"meditation"}.__contains__).corrected("whihc medicatoins, a meditation")
    'which medications, a meditation'
    """

    def __init__(self, common: Iterable[str], known: Callable[[str], bool]) -> None:
        self._known = known
        self._common = {word for word in (*common, *_ENGLISH) if len(word) >= SHORTEST}
        self._shortened: dict[str, list[str]] = {}
        for word in sorted(self._common):
            for short in _without_one(word):
                self._shortened.setdefault(short, []).append(word)

    def corrected(self, text: str) -> str:
        """Return the text in which misspelt words are those that they were meant to be; names are not corrected."""
        return _LOWER_CASE.sub(lambda found: self._word(found[0]), text)

    def _word(self, word: str) -> str:
        singular = stem(word)
        if word in _ENGLISH or singular in self._common or self._known(singular):
            return word
        meant = self._meant(singular)
        if meant is None:
            return self._meant(word) or word
        return f"{meant}s" if word == f"{singular}s" and not meant.endswith("s") else meant

    def _meant(self, word: str) -> str | None:
        """Return the first common word of which this is a slip."""
        shortened = list(_without_one(word))
        dropped = self._shortened.get(word, [])
        added = [short for short in shortened if short in self._common]
        changed = [meant for short in shortened for meant in self._shortened.get(short, [])]
        return next((meant for meant in (*dropped, *added, *changed) if _is_slip(word, meant)), None)


def _without_one(word: str) -> Iterator[str]:
    return (word[:place] + word[place + 1 :] for place in range(len(word)))


def _is_slip(written: str, meant: str) -> bool:
    """Whether a finger that means one word may write the other.

    Two letters change places; or, within the word, one is left out, hit twice, hit along with a key beside its own, or
    missed for it. Words that differ otherwise ("mouth" and "month", "shelf" and "shell") are two words.
    """
    same = 0
    while same < min(len(written), len(meant)) and written[same] == meant[same]:
        same += 1
    rest = 0
    while rest < min(len(written), len(meant)) - same and written[-1 - rest] == meant[-1 - rest]:
        rest += 1
    wrong, right = written[same : len(written) - rest], meant[same : len(meant) - rest]
    if len(wrong) == len(right) == 2:
        return wrong == right[::-1]
    if not same or not rest:
        return False
    if not right:
        return any(_are_beside(wrong, letter) for letter in (written[same - 1], written[-rest]))
    return not wrong or _are_beside(wrong, right)


def _are_beside(one: str, other: str) -> bool:
    """Whether two letters are one key or two that touch in a row of the keyboard."""
    return one == other or any(f"{one}{other}" in row or f"{other}{one}" in row for row in _KEYS)
