"""The pictures of the pages: readable without colour, intervals always drawn."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kbbench_hf.leaderboard.table import Figure, Row
from kbbench_hf.metrics.aggregate import Estimate
from kbbench_hf.reports.plots import COLOURS, MARKERS, blank, quiet

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

N_LABELS = 12


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


def pareto_plot(rows: Sequence[Row], metric: str, label: str, lower_is_better: bool) -> "Picture | None":
    """Return quality against cost and against latency, a panel each, those that none beats joined; None without any."""
    panels = {"cost of 1,000 examples, US dollars": "cost_per_1000_usd", "latency p95, seconds": "latency_p95_s"}
    scored = [row for row in rows if metric in row.figures and math.isfinite(row.figures[metric].value)]
    found = {}
    for words, attribute in panels.items():
        if having := [row for row in scored if getattr(row, attribute)]:
            found[words] = [(getattr(row, attribute), row.figures[metric].value, row.system) for row in having]
    if not found:
        return None
    picture, columns = blank(6 * len(found), 4, len(found))
    for axes, (words, points) in zip(columns, found.items(), strict=True):
        front = pareto_front([(cost, quality) for cost, quality, _ in points], lower_is_better)
        axes.plot([p[0] for p in points], [p[1] for p in points], "o", mfc="white", color=COLOURS[0])
        axes.plot([points[n][0] for n in front], [points[n][1] for n in front], "o-", color=COLOURS[0])
        for n in front[:N_LABELS]:
            axes.annotate(_plain(points[n][2]), points[n][:2], xytext=(4, 5), textcoords="offset points", fontsize=8)
        axes.set_xscale("log")
        axes.set_xlabel(words)
        axes.set_ylabel(label)
        quiet(axes)
    return picture


def curve_plot(points: Mapping[str, Figure], label: str, name: str) -> "Picture":
    """Return one system's figure over a testbed's settings, in their order, with intervals where they are known."""
    picture, (axes,) = blank(7, 3.2)
    axes.plot(range(len(points)), [figure.value for figure in points.values()], "o-", color=COLOURS[0])
    for position, figure in enumerate(points.values()):
        if math.isfinite(figure.high - figure.low):
            axes.vlines(position, figure.low, figure.high, color=COLOURS[0])
    axes.set_xticks(range(len(points)), list(points))
    axes.set_ylim(0, 1)
    axes.set_xlabel(name)
    axes.set_ylabel(label)
    quiet(axes)
    return picture


def forest_plot(differences: Mapping[str, Mapping[str, Estimate]], label: str) -> "Picture":
    """Return the differences A - B in each key of a slice with 95 % intervals: pair -> key -> estimate."""
    keys = list(next(iter(differences.values())))
    picture, (axes,) = blank(7, 1.6 + 0.35 * len(keys) * max(1, len(differences) / 2))
    for number, (pair, by_key) in enumerate(differences.items()):
        colour, marker = COLOURS[number % 8], MARKERS[number % 8]
        offset = (number - (len(differences) - 1) / 2) * 0.7 / len(differences)
        heights = [position + offset for position in range(len(keys))]
        figures = [by_key[key] for key in keys]
        axes.hlines(heights, [f.ci95[0] for f in figures], [f.ci95[1] for f in figures], color=colour)
        axes.plot([f.value for f in figures], heights, marker, color=colour, label=_plain(pair))
    axes.axvline(0, color="#444444", linewidth=1)
    axes.set_yticks(range(len(keys)), [_plain(key) for key in keys])
    axes.invert_yaxis()
    axes.set_xlabel(f"difference in {label}")
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.18), fontsize=8)
    quiet(axes)
    return picture


def _plain(text: str) -> str:
    """Return text in which matplotlib sees no formula."""
    return text.replace("$", "\\$")[:60]
