"""Invented words in place of those of names: a bijection that a key decides, pronounceable, and like nothing before."""

import hashlib
import hmac
import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from kbbench_hf.benchmarks.ska_bench.units import Instance, Pool
from kbbench_hf.text.folding import strip_accents

WORD = re.compile(r"(?<![^\W\d_]['’])[^\W\d_]+|(?<=['’])(?!(?:s|t|re|ll|ve|d|m)\b)[^\W\d_]+", re.I)
"""A word of a name: letters alone, so that `O'Brien` has two; what an apostrophe cuts off a verb is none."""
_ONSETS = "b d f g h j k l m n p r s t v w z br dr gr kr pl pr st tr".split()
_VOWELS = "aeiou"
_CODAS = "lmnrs"


@lru_cache(maxsize=1 << 20)
def key_of(word: str) -> str:
    """Return what is the same for all writings of a word: without marks and case.

    >>> key_of("Müller"), key_of("MULLER")
    ('muller', 'muller')
    """
    return strip_accents(word).casefold()


class Renamed(NamedTuple):
    """A subset with invented names, and why some of its instances were left out."""

    instances: list[Instance]
    pool: Pool
    left_out: dict[str, str]


def invent(words: Iterable[str], seed: str, avoid: Collection[str]) -> dict[str, str]:
    """Return an invented word for each of these keys, in lower case; every one another, in any order of the words.

    None begins with the letter of the word that it stands for, none is among `avoid`; of a word, its length alone is
    kept, roughly. Who does not know the seed cannot say which word stands for which.

    >>> made = invent(["robson", "keane"], "secret", avoid={"robson"})
    >>> len(set(made.values())), made == invent(["keane", "robson"], "secret", avoid={"robson"})
    (2, True)
    """
    made: dict[str, str] = {}
    taken = set(avoid)
    for word in sorted(set(words)):
        attempt = 0
        while True:
            found = _spoken(hmac.new(seed.encode(), f"{word}|{attempt}".encode(), hashlib.sha256).digest(), len(word))
            if found not in taken and found[0] != word[:1]:
                break
            attempt += 1
        made[word] = found
        taken.add(found)
    return made


def years_later(seed: str) -> int:
    """Return the constant, from 3 to 9, by which years are shifted."""
    return 3 + hmac.new(seed.encode(), b"years", hashlib.sha256).digest()[0] % 7


def _spoken(digest: bytes, length: int) -> str:
    """Return syllables that a digest chooses: two for a short word, three for a long one."""
    syllables = 2 if length < 7 else 3
    draws = iter(digest)
    parts = [_ONSETS[next(draws) % len(_ONSETS)] + _VOWELS[next(draws) % 5] for _ in range(syllables)]
    return "".join(parts) + ("" if (coda := next(draws) % 8) >= len(_CODAS) else _CODAS[coda])


def in_its_case(word: str, invented: str) -> str:
    """Return an invented word written as the other one is: in capitals, with one, or without.

    >>> in_its_case("USA", "velon"), in_its_case("Usa", "velon"), in_its_case("usa", "velon"), in_its_case("O", "velon")
    ('VELON', 'Velon', 'velon', 'Velon')
    """
    if word.isupper() and len(word) > 1:
        return invented.upper()
    return invented.capitalize() if word[:1].isupper() else invented


def replaced(text: str, words: Mapping[str, str], only: Collection[str] | None = None) -> str:
    """Return a text with the words replaced that have an invented one, all or those whose keys are among `only`.

    >>> replaced("Robson's goals", {"robson": "velon"})
    "Velon's goals"
    """

    def one(found: re.Match[str]) -> str:
        key = key_of(found[0])
        if key not in words or (only is not None and key not in only):
            return found[0]
        return in_its_case(found[0], words[key])

    return WORD.sub(one, text)
