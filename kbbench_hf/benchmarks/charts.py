"""Tables, plots and statistics of datasets and results, as values that reports render.

Benchmarks return these from `Showing` and `Scoring`; `reports` makes text, Markdown, HTML and pictures of them. The
names of tables and panels are those of files that users keep.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple


class Statistics(NamedTuple):
    """Statistics of a dataset: tables of (name, value, ...) rows by title, and lengths for histograms."""

    tables: Mapping[str, Sequence[tuple[str, ...]]]
    lengths: Mapping[str, list[int]]
    """What is measured, "words per query" say -> its values, a histogram each."""
    columns: Mapping[str, Sequence[str]] = {}
    """Title -> the headings of its values, where a row has several."""
    unit: str = "examples"
    """What is counted: queries, sentences, documents."""


class ShownScore(NamedTuple):
    """One score of a table, with interval, digits and number of examples."""

    value: float
    ci95: tuple[float, float] | None = None
    """None where the score was published without one, or is a count."""
    digits: int | None = None
    """With how many digits it was published, or is to be read; None for the table's usual ones."""
    n_scored: int = 0
    """How many examples stand behind it; 0 where that is not known."""
    weak: bool = False
    """Whether a warning of its run weakens it."""


@dataclass(frozen=True)
class ScoreTable:
    """A table of scores, as in a paper; `reports.score_table` renders it."""

    name: str
    """What files call it, `table-3` say."""
    title: str
    columns: Sequence[tuple[str, str]]
    """Of each column, the heading over it that it shares with its neighbours, and its own."""
    rows: Mapping[str, Sequence[ShownScore | None]]
    corner: str = "system"
    """What the rows are."""
    best: Literal["highest", "lowest"] | None = None
    """Which score of a column is printed bold."""
    shaded: bool = False
    """Whether the scores, from -1 to 1, also shade their cells."""
    notes: Sequence[str] = ()


class Point(NamedTuple):
    """One value of a plot with its 95 % interval, and the interval of `x` where `x` is a score too."""

    x: float
    y: float
    y_interval: tuple[float, float]
    x_interval: tuple[float, float] | None = None


class ChartPanel(NamedTuple):
    """One of several small plots."""

    title: str
    series: Mapping[str, Sequence[Point]]
    """System, or whatever is told apart -> its points."""


@dataclass(frozen=True)
class Panels:
    """Small plots with shared axes; `reports.plots.plot_panels` renders them."""

    panels: Sequence[ChartPanel]
    x_label: str
    y_label: str
    ticks: Mapping[float, str] | None = None
    title: str = ""
    joined: bool = False
    """Whether a system's points are a curve, with its intervals as a band."""
    logarithmic: bool = False
    side_by_side: bool = False
    """Whether systems stand beside each other at each tick."""
    bars: bool = False
    """Whether points are counts, drawn as bars, without intervals."""
    top: float | None = 1.0
    """Upper end of the y axis, which starts at 0; None to fit the points."""
    against_chance: bool = False
    """Whether both axes are rates, and a dashed line from (0, 1) to (1, 0) shows choices at random."""


@dataclass(frozen=True)
class Section:
    """A section of an evaluation: tables, plots and notes on one question."""

    title: str
    tables: Sequence[ScoreTable] = ()
    pictures: Mapping[str, Panels] = field(default_factory=dict)
    """By the name that files give them."""
    notes: Sequence[str] = ()
