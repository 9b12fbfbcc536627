"""The rows of the board: published and stored results in one order, with what can be said of the differences."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import pairwise
from typing import Literal

from kbbench_hf.benchmarks import Place, benchmark, importable_names
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.benchmarks.baselines import published_places, published_systems
from kbbench_hf.benchmarks.published import PublishedFigure, PublishedRow
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.files import datasets
from kbbench_hf.leaderboard.flags import Flag, flags
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.metrics.significance import PairedTest, paired_test, rank_groups
from kbbench_hf.scoring.result import PlainFigure

TESTED = 100
"""So many of a board's best stored rows are tested and grouped: the work of a board is bounded."""

Badge = Literal["re-scored", "own run", "published"]


@dataclass(frozen=True)
class Figure:
    """A value with its interval; the interval is NaN where only the value was published."""

    value: float
    low: float = math.nan
    high: float = math.nan
    digits: int = 4
    """To how many digits after the point it is known: those that were printed, where it was published."""

    @classmethod
    def of(cls, plain: PlainFigure) -> "Figure":
        """Return the figure that stands in a `result.json`."""
        low, high = plain["ci95"]
        return cls(_number(plain["value"]), _number(low), _number(high))

    def text(self, most: int = 4) -> str:
        """Return the value with the digits that are known of it, at most so many.

        >>> Figure(0.35, digits=2).text(), Figure(0.347581).text(most=3)
        ('0.35', '0.348')
        """
        return f"{self.value:.{min(most, self.digits)}f}"

    def interval(self, digits: int = 3) -> str:
        """Return the ends of the interval; nothing where there is none.

        >>> Figure(1.0, 0.926, 1.0).interval(), Figure(0.35).interval()
        ('0.926–1.000', '')
        """
        return f"{self.low:.{digits}f}–{self.high:.{digits}f}" if math.isfinite(self.high - self.low) else ""


@dataclass(frozen=True)
class Row:
    """One line of the board."""

    id: str
    """The submission's id, or that of the published row."""
    system: str
    figures: Mapping[str, Figure]
    badge: Badge
    group: int | None = None
    """Systems of one group cannot be told from its first one; None where there is nothing to test, or too far down."""
    gap: float | None = None
    """The headline figure minus that of the row above, in whatever order rows stand; see `with_differences`."""
    above: PairedTest | None = None
    """The paired test behind `gap`; None where one of the two has no scores per example."""
    link: str = ""
    licence: str = ""
    parameters_b: float | None = None
    latency_p50_s: float | None = None
    latency_p95_s: float | None = None
    cost_per_1000_usd: float | None = None
    parse_failure_rate: float | None = None
    coverage: float | None = None
    """The share of examples that have a prediction."""
    seen_gap: float | None = None
    """The headline figure on examples whose answer was seen in training minus the figure on the others."""
    submitter: str = ""
    """The Hub's user name of whoever sent it; empty for published rows."""
    flags: tuple[Flag, ...] = ()
    """What is doubtful about its name or its answers; empty for nearly every row."""
    stored: str = ""
    notes: str = ""
    slices: Mapping[str, Mapping[str, Mapping[str, Figure]]] = field(default_factory=dict)
    """What was published of parts of the examples: slice -> key -> metric -> figure."""

    sources: Sequence[tuple[str, str]] = ()
    """Where published figures stand, and the address of it."""
    warnings: Sequence[ScoreWarning] = ()
    """What weakens the figures."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """What the annotations were made with that the figures need, by kind; whoever submitted the row made them."""

    @cached_property
    def searched(self) -> str:
        """What a search looks at, without case; made once, because a board may have thousands of rows."""
        return f"{self.system} {self.licence} {self.submitter} {self.notes}".casefold()

    @cached_property
    def annotators(self) -> str:
        """The judges and embedders of the annotations, without their revisions."""
        made_with = map(json.loads, self.annotations.values())
        named = [str(each[what]) for each in made_with for what in ("judge", "embedder") if each.get(what)]
        return ", ".join(sorted({name.partition("@")[0] for name in named}))


def board(index: Index, place: Place) -> list[Row]:
    """Return the rows of a place, best first by the headline metric; rows without a finite headline come last."""
    index.update()
    found = benchmark(place.benchmark)
    stored = index.rows(place)
    flagged = flags(index.names(), index.rows(place, any_mode=True))
    rows = [_stored(each, found, flagged.get(each["id"], ())) for each in stored]
    rows += [_published(each) for each in published_systems(place)]
    metric = headline(found, rows)
    sign = 1 if metric in found.scoring.lower_is_better else -1
    rows.sort(key=lambda row: (_order(row, metric, sign), row.system, row.id))
    return _with_groups(rows, index, found, metric)


def with_differences(rows: Sequence[Row], place: Place, metric: str, index: Index, most: int = TESTED) -> list[Row]:
    """Return rows with the difference of each to the one above it, in the order in which they are given.

    The first `most` are tested too, where both have scores per example and annotations that were made alike.
    """
    of = benchmark(place.benchmark)
    pairs = list(pairwise(rows))
    tests = _tests(
        [(upper.id, lower.id) for upper, lower in pairs[: most - 1] if _testable(upper, lower, metric)],
        index,
        of,
        metric,
    )
    found = list(rows[:1])
    for upper, lower in pairs:
        both = _has(upper, metric) and _has(lower, metric)
        gap = lower.figures[metric].value - upper.figures[metric].value if both else None
        found.append(replace(lower, gap=gap, above=tests.get((upper.id, lower.id))))
    return found


def places(index: Index) -> list[Place]:
    """Return every place that has rows, stored or published: benchmarks and their configs in their own order."""
    known = {name: benchmark(name) for name in importable_names()}
    found = set(index.places())
    for name, config, split, mode in published_places():
        if name in known and config in known[name].data.configs:
            place = Place(name, config, split, mode or known[name].scoring.modes[0])
            found.update([place] if published_systems(place) else [])
    names = list(known)

    def order(place: Place) -> tuple[int, ...]:
        of = known[place.benchmark]
        return (
            names.index(place.benchmark),
            of.data.configs.index(place.config),
            -1 if place.split == of.data.default_split else of.data.splits.index(place.split),
            of.scoring.modes.index(place.mode),
        )

    return sorted((place for place in found if place.benchmark in known), key=order)


def headline(of: Benchmark, rows: Sequence[Row]) -> str:
    """Return the metric by which a board is ordered: the first of the benchmark's table that a row has."""
    return next((metric for metric in of.metrics if any(_has(row, metric) for row in rows)), of.headline)


def _has(row: Row, metric: str) -> bool:
    return metric in row.figures and math.isfinite(row.figures[metric].value)


def _with_groups(rows: Sequence[Row], index: Index, of: Benchmark, metric: str) -> list[Row]:
    """Add the rank groups of the best stored rows, as far as they can be tested against the best of all."""
    stored = [row for row in rows if row.badge != "published" and _has(row, metric)]
    tested = [row.id for row in stored if _testable(stored[0], row, metric)][:TESTED]

    @cache
    def p_value(better: str, worse: str) -> float:
        return _tests([(better, worse)], index, of, metric)[better, worse].p_value

    groups = dict(zip(tested, rank_groups(tested, p_value), strict=True))
    return [replace(row, group=groups.get(row.id)) for row in rows]


def _testable(one: Row, other: Row, metric: str) -> bool:
    """Say whether both have scores per example, and none their own judges or embedders."""
    stored = "published" not in (one.badge, other.badge) and one.annotations == other.annotations
    return stored and _has(one, metric) and _has(other, metric)


def _tests(
    pairs: Sequence[tuple[str, str]], index: Index, of: Benchmark, metric: str
) -> dict[tuple[str, str], PairedTest]:
    """Return the paired test of each pair of stored systems; a pair is tested once and for all.

    Where the figure is a mean over groups, so is the statistic.
    """
    known = index.tests(metric, pairs)
    for a, b in pairs:
        if (a, b) not in known:
            groups = index.store.slices(a).get(of.scoring.group_by) if of.scoring.group_by else None
            known[a, b] = paired_test(index.store.values(a, metric), index.store.values(b, metric), groups)
            index.keep_test(a, b, metric, known[a, b])
    return known


def _order(row: Row, metric: str, sign: int) -> float:
    return sign * row.figures[metric].value if _has(row, metric) else math.inf


def _published(row: PublishedRow) -> Row:
    slices = {name: {key: _figures(part) for key, part in keys.items()} for name, keys in row.slices.items()}
    sources = [(f"{each} ({each.kind})", each.url) for each in row.sources]
    return Row(row.id, row.system, _figures(row.figures), "published", sources=sources, notes=row.note, slices=slices)


def _figures(published: Mapping[str, PublishedFigure]) -> dict[str, Figure]:
    return {metric: Figure(each.value, digits=each.digits) for metric, each in published.items()}


def _stored(row: datasets.Row, of: Benchmark, flagged: tuple[Flag, ...]) -> Row:
    counters = row["counters"]
    n = counters["n_examples"] or 1
    figures = {metric: Figure.of(figure) for metric, figure in row["scores"].items()}
    seen = [row["seen"].get(key, {}).get(of.headline, {}).get("value") for key in ("true", "false")]
    return Row(
        id=row["id"],
        system=row["system"]["name"],
        figures=figures,
        badge="own run" if row["origin"] == "own" else "re-scored",
        parse_failure_rate=counters.get("n_parse_failures", 0) / n,
        coverage=1 - counters.get("n_missing", 0) / n,
        seen_gap=None if None in seen else seen[0] - seen[1],
        submitter=row["submitter"],
        flags=flagged,
        stored=row["stored"],
        warnings=[ScoreWarning.of(each) for each in row.get("warnings", [])],
        annotations=row.get("annotations", {}),
        **{key: value for key, value in row["system"].items() if key != "name"},
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else value
