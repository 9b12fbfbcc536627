"""Whether a word is one of names, seen from how often it is written with a capital: the vocabulary of GPT-4o knows.

Its tokens are numbered by frequency, so of ` London` and ` london` the name comes first, of ` stage` and ` Stage` the
ordinary word.
"""

from functools import cache, lru_cache

from kbbench_hf.benchmarks.ska_bench.construction.tokens import vocabulary

CALENDAR = frozenset(
    "january february march april may june july august september october november december jan feb mar apr jun jul aug "
    "sep sept oct nov dec monday tuesday wednesday thursday friday saturday sunday mon tue wed thu fri sat sun".split()
)
CODES = frozenset("am bc ad dnf dnq dns dsq dq fc kg km ko na nc ot pm pts tba tbd tko u v vs wd".split())
"""Abbreviations of tables that name nobody."""
RATIO = 2
"""So many times more frequent is the capital in a word of names."""
_ENDINGS = ("s", "es", "ed", "ing", "er", "ers", "ly")
_ABSENT = 1 << 30


def is_name(word: str) -> bool | None:
    """Return whether a word, in any case, is one of names; None where the vocabulary does not know.

    >>> [is_name(word) for word in ("london", "Stage", "May", "haemerlinck", "bombers")]
    [True, False, False, None, False]
    """
    folded = word.casefold()
    if folded in CALENDAR or folded in CODES or len(folded) == 1:
        return False
    found = _is_name(folded)
    if found is None and any(_is_name(folded.removesuffix(end)) is False for end in _ENDINGS if folded.endswith(end)):
        return False
    return found


@lru_cache(maxsize=1 << 18)
def _is_name(folded: str) -> bool | None:
    plain = _rank(folded)
    named = min(_rank(folded.capitalize()), _rank(folded.upper()))
    if plain == named == _ABSENT:
        return None
    return RATIO * named < plain


@cache
def _ranks() -> dict[bytes, int]:
    return {token: rank for rank, token in enumerate(vocabulary())}


def _rank(word: str) -> int:
    return _ranks().get(f" {word}".encode(), _ABSENT)
