"""Parts that all pages share: HTML templates that escape all values, bars of scores, shortened texts, ordered keys.

Reports and the board's pages use it. Texts come from models, uploads and datasets: no value may reach a page without
`_escaped`, which also escapes what Gradio's JavaScript templates would run.
"""

import html
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from kbbench_hf.benchmarks.base import Mark

_SCRIPTS = str.maketrans({each: f"&#{ord(each)};" for each in "{}$`\\"})
"""Characters with a meaning in the JavaScript templates through which Gradio passes HTML -> their entities."""


def templates(folder: Path) -> Environment:
    """Return the templates of a folder, each compiled at its first use and cached; all values are escaped.

    >>> templates(Path()).from_string("<p>{{ text }}</p>").render(text="<b> ${x} {{y}}")
    '<p>&lt;b&gt; &#36;&#123;x&#125; &#123;&#123;y&#125;&#125;</p>'
    """
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        finalize=_escaped,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _escaped(text: object) -> Markup:
    """Return a value as HTML that only shows it; the output of a template is unchanged."""
    return Markup(text if hasattr(text, "__html__") else html.escape(str(text)).translate(_SCRIPTS))  # noqa: S704


MOST_CHARACTERS = 4000
"""Longer texts are shortened; their length follows."""
MOST_ITEMS = 50
"""Longer lists of triples or answers are shortened, too: a page stays under 5 MB whatever a model writes."""
MARKS: Mapping[Mark, str] = {"right": "✓", "wrong": "✗", "not counted": "○", "hallucinated": "⚠"}
TEMPLATES = templates(Path(__file__).parent / "templates")


class ScoreBar(NamedTuple):
    """A value and its interval as positions on a scale, in percent of its length."""

    low: float
    value: float
    high: float
    zero: float = 0.0
    """The position of 0: the left end for scores, the middle for differences."""
    scale: str = ""
    """The ends of the scale, if the rows of a chart have different ones; else empty."""


class Chart(NamedTuple):
    """A table whose rows are also drawn: each value as a point with its interval as a line."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    bars: Sequence[ScoreBar | None]
    scale: str
    """The ends of the scale that all rows share; empty where each row has its own."""
    n_narrow: int = 3
    """How many columns a phone shows; `parts.html.jinja` hides the others there."""


Drawable = tuple[float | None, float | None, float | None]
"""A value and the ends of its interval."""


def score_bars(scores: Sequence[Drawable], *, unbounded: bool = False) -> tuple[list[ScoreBar | None], str]:
    """Return the bars of scores on one scale and the ends of this scale: 0 to 1, or for unbounded metrics a round end.

    >>> score_bars([(0.5, 0.25, 0.75), (None, None, None)])
    ([ScoreBar(low=25.0, value=50.0, high=75.0, zero=0.0, scale=''), None], '0 to 1')
    >>> score_bars([(6.8, 6.0, 7.5), (12, None, None)], unbounded=True)[1]
    '0 to 20'
    """
    top = _round_end(scores) if unbounded else 1.0
    return [_bar(each, 0.0, top) for each in scores], f"0 to {top:g}"


def difference_bars(differences: Sequence[Drawable]) -> tuple[list[ScoreBar | None], str]:
    """Return the bars of differences on one scale with 0 in the middle, and the ends of this scale.

    >>> difference_bars([(-0.1, -0.2, 0.0)])
    ([ScoreBar(low=0.0, value=25.0, high=50.0, zero=50.0, scale='')], '-0.2 to +0.2')
    """
    end = _round_end(differences)
    return [_bar(each, -end, end) for each in differences], f"-{end:g} to +{end:g}"


def _round_end(shown: Sequence[Drawable]) -> float:
    """Return the smallest 1, 2 or 5 times a power of ten that no value or end of an interval exceeds; 1 for only 0."""
    ends = (end for each in shown for end in each if end is not None and math.isfinite(end))
    most = max(map(abs, ends), default=0) or 1.0
    magnitude = 10.0 ** math.floor(math.log10(max(most, 1e-9)))
    return next(each * magnitude for each in (1, 2, 5, 10) if most <= each * magnitude * (1 + 1e-9))


def _bar(shown: Drawable, start: float, end: float) -> ScoreBar | None:
    """Return the bar of a value on a scale, its ends cut to it; None without a value."""
    value, low, high = shown
    if value is None or not math.isfinite(value):
        return None
    ends = (each if each is not None and math.isfinite(each) else value for each in (low, value, high))
    low, value, high, zero = (
        round(100 * min(max((each - start) / (end - start), 0.0), 1.0), 2) for each in (*ends, 0.0)
    )
    return ScoreBar(low, value, high, zero)


def sort_slice_keys(keys: Iterable[str]) -> list[str]:
    """Return the keys of a slice in order: bins by their first number, then the others in the given order.

    >>> sort_slice_keys(["2-5", "21+", "0", "6-20", "unknown", "1"])
    ['0', '1', '2-5', '6-20', '21+', 'unknown']
    """

    def number(key: str) -> float:
        found = re.match(r"-?\d+(\.\d+)?", key)
        return float(found[0]) if found else math.inf

    listed = list(keys)
    are_bins = sum(number(key) < math.inf for key in listed) > len(listed) / 2
    return sorted(listed, key=number) if are_bins else listed


def sample_positions(order: Sequence[int], n: int) -> list[int]:
    """Return n of the positions: all of a short list, else the first n / 3, then evenly spaced ones to the last."""
    if len(order) <= n:
        return list(order)
    rest, last = order[n // 3 :], n - n // 3 - 1
    return [*order[: n // 3], *(rest[k * (len(rest) - 1) // last] for k in range(last + 1))]


def marks_in(explained: Iterable[Mapping[str, Sequence[tuple[str, str]]] | None]) -> dict[Mark, str]:
    """Return the marks that occur in lists of (part of a prediction, its mark), for the legend."""
    there = {mark for lists in explained if lists for listed in lists.values() if listed for _, mark in listed}
    return {mark: sign for mark, sign in MARKS.items() if mark in there}


def truncate_text(text: str) -> str:
    """Return a text; of a long one its beginning and its length."""
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} ... ({len(text):,} characters)"


TEMPLATES.globals |= {"all_marks": MARKS, "most_items": MOST_ITEMS, "cut": truncate_text}
