"""The pictures of the pages, as places in per cent for the templates: they follow the page's colours and width.

An interval is a line with a dot in a table's cell, beside the figures that it shows; a scatter is an SVG whose points
are links. Nothing is said by a picture alone.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kbbench_hf.leaderboard.table import Figure

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
        return f"{self.low:g} to {self.high:g}"

    def bar(self, figure: Figure) -> "Bar | None":
        """Return a figure as it is drawn; None where it has no value. Without an interval it is a hollow dot."""
        if not math.isfinite(figure.value):
            return None
        known = math.isfinite(figure.high - figure.low)
        ends = (figure.low, figure.high) if known else (figure.value, figure.value)
        zero = self.at(0) if self.low < 0 < self.high else ""
        return Bar(self.at(ends[0]), self.at(figure.value), self.at(ends[1]), known, zero)


class Bar(NamedTuple):
    """A figure and its interval on an axis, from the left."""

    low: str
    value: str
    high: str
    known: bool
    """Whether the interval is known."""
    zero: str
    """Where 0 stands, where the axis goes beyond it on both sides."""


def axis_of(figures: Iterable[Figure]) -> Axis | None:
    """Return an axis on which all figures and intervals have room, with round ends; None where there are no figures.

    >>> axis_of([Figure(0.63, 0.49, 0.75), Figure(0.4, 0.27, 0.55)])
    Axis(low=0.2, high=0.8)
    """
    ends = [each for figure in figures for each in (figure.value, figure.low, figure.high) if math.isfinite(each)]
    if not ends:
        return None
    low, high = min(ends), max(ends)
    step = _step(high - low or abs(high) or 1.0)
    bounds = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    first, last = (round(each, 10) for each in bounds)
    return Axis(first, last if last > first else round(first + step, 10))


def around_zero(differences: Sequence[Figure]) -> Axis | None:
    """Return an axis with 0 in its middle, on which all differences have room; None where there are none.

    >>> around_zero([Figure(-0.15, -0.28, -0.01)])
    Axis(low=-0.3, high=0.3)
    """
    both = [Figure(sign * end) for each in differences for end in (each.value, each.low, each.high) for sign in (1, -1)]
    return axis_of(both)


def _step(width: float) -> float:
    """Return the round number of which about five make the width."""
    size: float = 10.0 ** math.floor(math.log10(width / 5))
    return next(size * each for each in (1, 2, 5, 10) if size * each * 7 >= width)


class Dot(NamedTuple):
    """A system of a scatter: what it costs, how good it is, and where it leads."""

    x: float
    figure: Figure
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
    """Whether nothing beats it in both."""
    label: bool


@dataclass(frozen=True)
class Scatter:
    """Quality against what it costs, as the template draws it."""

    title: str
    x_label: str
    y_label: str
    marks: Sequence[Mark]
    front: str
    """The points that none beats, joined."""
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]


def pareto_front(points: Sequence[tuple[float, float]], lower_is_better: bool = False) -> list[int]:
    """Return the positions of the points (cost, quality) that no other one beats in both, cheapest first.

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


def scatter(dots: Sequence[Dot], x_label: str, y_label: str, lower_is_better: bool) -> Scatter:
    """Return quality against cost on a logarithmic axis, with intervals; those that none beats joined and named."""
    across = Axis(math.floor(min(math.log10(dot.x) for dot in dots)), math.ceil(max(math.log10(dot.x) for dot in dots)))
    if across.low == across.high:
        across = Axis(across.low, across.high + 1)
    up = axis_of(dot.figure for dot in dots) or Axis(0, 1)
    front = pareto_front([(dot.x, dot.figure.value) for dot in dots], lower_is_better)

    def x(value: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (math.log10(value) - across.low) / (across.high - across.low), 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - up.low) / (up.high - up.low), 1)

    named: list[int] = []
    for n in reversed(front):  # the best first; a name that would stand on another is left to the pointer
        here = x(dots[n].x), y(dots[n].figure.value)
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
            f"{dot.name}: {y_label} {dot.figure.text()} {dot.figure.interval()}, {x_label} {dot.x:g}",
            n in front,
            n in named,
        )
        for n, dot in enumerate(dots)
    ]
    step = _step(up.high - up.low)
    return Scatter(
        f"{y_label} against {x_label}; {len(front)} of {len(dots)} are beaten by none in both",
        x_label,
        y_label,
        marks,
        " ".join(f"{marks[n].x},{marks[n].y}" for n in front),
        [(x(10.0**n), f"{10.0**n:g}") for n in range(int(across.low), int(across.high) + 1)],
        [(y(up.low + n * step), f"{up.low + n * step:.3g}") for n in range(round((up.high - up.low) / step) + 1)],
    )
