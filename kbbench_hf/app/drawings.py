"""Interval bars and scatter plots of the pages, as positions in percent for the templates.

They follow the page's colors and width. A bar is in the table cell of the score that it shows; a scatter plot is an SVG
whose points are links. Each value of a plot is in a table too.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kbbench_hf.leaderboard.table import BoardScore

WIDTH, HEIGHT = 420, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 96, 12, 40


@dataclass(frozen=True)
class Axis:
    """A line of numbers from one end to the other, on which things are placed in per cent."""

    low: float
    high: float

    def at(self, value: float) -> str:
        """Return where a value stands, from the left.

        >>> Axis(0.0, 2.0).at(0.5), Axis(0.0, 2.0).at(3.0)
        ('25.0%', '100.0%')
        """
        share = (value - self.low) / (self.high - self.low)
        return f"{100 * min(1.0, max(0.0, share)):.1f}%"

    @property
    def ends(self) -> str:
        """Both ends, as they are read."""
        return f"{self.low:g}–{self.high:g}"

    def bar(self, score: BoardScore) -> "ChartBar | None":
        """Return a figure as it is drawn; None where it has no value. Without an interval it is a hollow dot."""
        if not math.isfinite(score.value):
            return None
        known = math.isfinite(score.high - score.low)
        ends = (score.low, score.high) if known else (score.value, score.value)
        zero = self.at(0) if self.low < 0 < self.high else ""
        return ChartBar(self.at(ends[0]), self.at(score.value), self.at(ends[1]), known, zero)


class ChartBar(NamedTuple):
    """A figure and its interval on an axis, from the left."""

    low: str
    value: str
    high: str
    known: bool
    """Whether the interval is known."""
    zero: str
    """Where 0 stands, where the axis goes beyond it on both sides."""


def axis_of(scores: Iterable[BoardScore]) -> Axis | None:
    """Return an axis on which all figures and intervals have room, with round ends; None where there are no figures.

    >>> axis_of([BoardScore(0.63, 0.49, 0.75), BoardScore(0.4, 0.27, 0.55)])
    Axis(low=0.2, high=0.8)
    """
    ends = [each for score in scores for each in (score.value, score.low, score.high) if math.isfinite(each)]
    if not ends:
        return None
    low, high = min(ends), max(ends)
    step = _step(high - low or abs(high) or 1.0)
    bounds = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    first, last = (round(each, 10) for each in bounds)
    return Axis(first, last if last > first else round(first + step, 10))


def around_zero(differences: Sequence[BoardScore]) -> Axis | None:
    """Return an axis with 0 in its middle, on which all differences have room; None where there are none.

    >>> around_zero([BoardScore(-0.15, -0.28, -0.01)])
    Axis(low=-0.3, high=0.3)
    """
    both = [
        BoardScore(sign * end) for each in differences for end in (each.value, each.low, each.high) for sign in (1, -1)
    ]
    return axis_of(both)


def _step(width: float) -> float:
    """Return the round number of which about five make the width."""
    size: float = 10.0 ** math.floor(math.log10(width / 5))
    return next(size * each for each in (1, 2, 5, 10) if size * each * 7 >= width)


class Dot(NamedTuple):
    """A system of a scatter plot: its value on the x axis, its score on the y axis, and its page."""

    x: float
    figure: BoardScore
    name: str
    href: str


class Mark(NamedTuple):
    """A dot as it is drawn, in the units of the picture."""

    x: float
    y: float
    low: float
    high: float
    name: str
    href: str
    says: str
    best: bool
    """Whether it is on the Pareto front."""
    label: bool


@dataclass(frozen=True)
class Scatter:
    """A scatter plot as the template draws it."""

    title: str
    x_label: str
    y_label: str
    marks: Sequence[Mark]
    front: str
    """The points of the Pareto front, as a line."""
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]


def pareto_front(points: Sequence[tuple[float, float]], lower_is_better: bool = False) -> list[int]:
    """Return the positions of the points (cost, score) that no other one is better than in both, lowest cost first.

    >>> pareto_front([(1, 0.5), (2, 0.4), (3, 0.9)])
    [0, 2]
    """
    sign = -1 if lower_is_better else 1
    front: list[int] = []
    best = -math.inf
    for position in sorted(range(len(points)), key=lambda n: (points[n][0], -sign * points[n][1])):
        if sign * points[position][1] > best:
            best = sign * points[position][1]
            front.append(position)
    return front


def scatter(dots: Sequence[Dot], x_axis: tuple[str, bool], y_axis: tuple[str, bool], logarithmic: bool) -> Scatter:
    """Return a scatter plot with intervals on the y axis; the systems of the Pareto front are joined and named.

    Args:
        dots: at least one; on a logarithmic x axis their values are positive.
        x_axis: label, and whether lower is better.
        y_axis: the same of the y axis.
        logarithmic: whether the x axis is.
    """
    (x_label, x_lower), (y_label, y_lower) = x_axis, y_axis
    scale = math.log10 if logarithmic else float
    across = _decades([dot.x for dot in dots]) if logarithmic else axis_of(BoardScore(dot.x) for dot in dots)
    across, up = across or Axis(0, 1), axis_of(dot.figure for dot in dots) or Axis(0, 1)
    front = pareto_front([(dot.x if x_lower else -dot.x, dot.figure.value) for dot in dots], y_lower)

    def x(value: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (scale(value) - across.low) / (across.high - across.low), 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - up.low) / (up.high - up.low), 1)

    named: list[int] = []
    for n in sorted(front, key=lambda n: dots[n].figure.value, reverse=not y_lower):
        here = x(dots[n].x), y(dots[n].figure.value)  # a name that would cover another one is in the title only
        taken = [(x(dots[k].x), y(dots[k].figure.value)) for k in named]
        if all(abs(here[0] - there[0]) > 80 or abs(here[1] - there[1]) > 14 for there in taken):
            named.append(n)
    marks = [
        Mark(
            x(dot.x),
            y(dot.figure.value),
            y(dot.figure.low if math.isfinite(dot.figure.low) else dot.figure.value),
            y(dot.figure.high if math.isfinite(dot.figure.high) else dot.figure.value),
            dot.name[:22],
            dot.href,
            " ".join(
                f"{dot.name}: {y_label} {dot.figure.text()} {dot.figure.interval()}, {x_label} {dot.x:.4g}".split()
            ),
            n in front,
            n in named,
        )
        for n, dot in enumerate(dots)
    ]
    return Scatter(
        f"{y_label} by {x_label}. Filled: systems on the Pareto front, {len(front)} of {len(dots)}",
        x_label,
        y_label,
        marks,
        " ".join(f"{marks[n].x},{marks[n].y}" for n in front),
        [(x(value), f"{value:g}") for value in (_powers(across) if logarithmic else _ticks(across))],
        [(y(value), f"{value:.3g}") for value in _ticks(up)],
    )


def _decades(values: Sequence[float]) -> Axis:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return Axis(low, max(high, low + 1))


def _powers(axis: Axis) -> list[float]:
    """Return the ticks of a logarithmic axis: powers of ten, with 2 and 5 between them where there is room."""
    between = (1, 2, 5) if axis.high - axis.low < 3 else (1,)
    marks = [each * 10.0**n for n in range(int(axis.low), int(axis.high)) for each in between]
    return [*marks, 10.0**axis.high]


def _ticks(axis: Axis) -> list[float]:
    step = _step(axis.high - axis.low)
    return [axis.low + n * step for n in range(round((axis.high - axis.low) / step) + 1)]
