"""The rows of the board: published and stored results in one order, with what can be said of the differences."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

from kbbench_hf.benchmarks import benchmark
from kbbench_hf.leaderboard.index import Index, Place
from kbbench_hf.metrics.significance import PairedTest, paired_test, rank_groups
from kbbench_hf.published import PublishedRow, published_rows

Badge = Literal["re-scored", "own run", "published"]


@dataclass(frozen=True)
class Figure:
    """A value with its interval; the interval is NaN where only the value was published."""

    value: float
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True)
class Row:
    """One line of the board."""

    id: str
    """The submission's id, or `published-<n>`."""
    system: str
    figures: Mapping[str, Figure]
    badge: Badge
    group: int = 0
    """Systems of one group cannot be told from its first one."""
    above: PairedTest | None = None
    """The paired test against the row above; None where one of the two has no scores per example."""
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
    stored: str = ""
    notes: str = ""


def board(index: Index, place: Place) -> list[Row]:
    """Return the rows of a place, best first by the headline metric; rows without a finite headline come last."""
    index.update()
    found = benchmark(place.benchmark)
    rows = [_stored(each, found.headline) for each in index.rows(place)]
    rows += [_published(number, each) for number, each in enumerate(published_rows(*place))]
    sign = 1 if found.headline in found.lower_is_better else -1
    rows.sort(key=lambda row: (_order(row, found.headline, sign), row.system, row.id))
    return _with_tests(rows, index, found.headline)


def _with_tests(rows: Sequence[Row], index: Index, metric: str) -> list[Row]:
    """Add the rank groups and the tests against the row above."""
    by_id = {row.id: row for row in rows}

    def test(better: str, worse: str) -> PairedTest | None:
        if "published" in (by_id[better].badge, by_id[worse].badge):
            return None
        return index.test(better, worse, metric, lambda: _paired(index, better, worse, metric))

    def p_value(better: str, worse: str) -> float:
        found = test(better, worse)
        return math.nan if found is None else found.p_value

    groups = rank_groups([row.id for row in rows], p_value)
    above = [None, *(test(upper.id, lower.id) for upper, lower in pairwise(rows))][: len(rows)]
    return [replace(row, group=group, above=found) for row, group, found in zip(rows, groups, above, strict=True)]


def _paired(index: Index, better: str, worse: str, metric: str) -> PairedTest:
    return paired_test(index.store.values(better, metric), index.store.values(worse, metric))


def _order(row: Row, metric: str, sign: int) -> float:
    figure = row.figures.get(metric)
    return math.inf if figure is None or math.isnan(figure.value) else sign * figure.value


def _published(number: int, row: PublishedRow) -> Row:
    figures = {metric: Figure(value) for metric, value in row.scores.items()}
    return Row(f"published-{number}", row.system, figures, "published", link=row.source, notes=row.note)


def _stored(row: Mapping[str, Any], headline: str) -> Row:
    counters = row["counters"]
    n = counters["n_examples"] or 1
    figures = {
        metric: Figure(*(math.nan if each is None else each for each in (figure["value"], *figure["ci95"])))
        for metric, figure in row["scores"].items()
    }
    seen = {key: figure[headline]["value"] for key, figure in row["seen"].items()}
    gap = None if None in (seen.get("true"), seen.get("false")) else seen["true"] - seen["false"]
    return Row(
        id=row["id"],
        system=row["system"]["name"],
        figures=figures,
        badge="own run" if row["origin"] == "own" else "re-scored",
        parse_failure_rate=counters.get("n_parse_failures", 0) / n,
        coverage=1 - counters.get("n_missing", 0) / n,
        seen_gap=gap,
        submitter=row["submitter"],
        stored=row["stored"],
        **{key: value for key, value in row["system"].items() if key != "name"},
    )
