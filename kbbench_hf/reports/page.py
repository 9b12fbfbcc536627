"""What the pages share: their templates, a bar for a figure, texts that are cut and said to be, keys in order."""

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from kbbench_hf.reports.html import templates

MOST_CHARACTERS = 4000
"""Longer texts are cut, and their length is said."""
MOST_ITEMS = 50
"""Longer lists of triples or answers likewise: a page stays under 5 MB whatever a model writes."""
MARKS = {"right": "✓", "wrong": "✗", "hallucinated": "☁"}
TEMPLATES = templates(Path(__file__).parent / "templates")


class Bar(NamedTuple):
    """A figure and its interval as places on a scale that begins at 0, in per cent of its length."""

    low: float
    value: float
    high: float
    top: str
    """Where the scale ends."""


def bar(value: float | None, low: float | None, high: float | None, *, unbounded: bool = False) -> Bar | None:
    """Return the bar of a figure: on the scale from 0 to 1, or for an unbounded one on a scale of its own.

    >>> bar(0.5, 0.25, 0.75)
    Bar(low=25.0, value=50.0, high=75.0, top='1')
    >>> bar(6.8, 6.0, 7.5, unbounded=True).top
    '10'
    """
    if value is None:
        return None
    low, high = value if low is None else low, value if high is None else high
    top = 1.0
    if unbounded:
        magnitude = 10.0 ** math.floor(math.log10(max(high, 1e-9)))
        top = next(each * magnitude for each in (1, 2, 5, 10) if high <= each * magnitude)
    low, value, high = (round(100 * min(max(each / top, 0.0), 1.0), 2) for each in (low, value, high))
    return Bar(low, value, high, f"{top:g}")


def in_order(keys: Iterable[str]) -> list[str]:
    """Return the keys of a slice in order: bins by their first number, the others after them as they came.

    >>> in_order(["2-5", "21+", "0", "6-20", "unknown", "1"])
    ['0', '1', '2-5', '6-20', '21+', 'unknown']
    """

    def number(key: str) -> float:
        found = re.match(r"-?\d+(\.\d+)?", key)
        return float(found[0]) if found else math.inf

    listed = list(keys)
    return sorted(listed, key=number) if sum(number(key) < math.inf for key in listed) > len(listed) / 2 else listed


def spread(order: Sequence[int], n: int) -> list[int]:
    """Return n of the positions: all of a short list, else the first third of n, and then evenly to the very last."""
    if len(order) <= n:
        return list(order)
    rest, last = order[n // 3 :], n - n // 3 - 1
    return [*order[: n // 3], *(rest[k * (len(rest) - 1) // last] for k in range(last + 1))]


def cut(text: str) -> str:
    """Return a text, or its beginning with how long it is."""
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} ... ({len(text):,} characters)"
