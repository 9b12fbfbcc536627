"""Figures as pictures: readable without colour, intervals always drawn."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.reports.tables import label
from kbbench_hf.scoring import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKERS = "osD^vP*X"
COLOURS = ("#0b5394", "#c2571a", "#38761d", "#741b47", "#7f6000", "#444444", "#3d85c6", "#cc0000")
"""Distinguishable in the common forms of colour blindness; the markers distinguish without colour."""


def plot_scores(
    panels: Sequence[tuple[Benchmark, Mapping[str, Result]]], file: Path, metrics: int | None = None
) -> None:
    """Draw one panel per benchmark: a row per metric, a marker per system, its 95 % interval as a line; write a PNG.

    With `metrics`, only so many rows, the headline ones.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.2 * len(panels), 4.2), layout="constrained")
    for column, (benchmark, results) in enumerate(panels, start=1):
        axes = figure.add_subplot(1, len(panels), column)
        first = next(iter(results.values()))
        shown = [metric for metric in benchmark.metrics if metric in first.scores][:metrics]
        for position, (name, result) in enumerate(results.items()):
            offset = (position - (len(results) - 1) / 2) * 0.22
            heights = [row + offset for row in range(len(shown))]
            figures = [result.scores[metric] for metric in shown]
            colour, marker = COLOURS[position % 8], MARKERS[position % 8]
            axes.hlines(heights, [f.ci95[0] for f in figures], [f.ci95[1] for f in figures], color=colour)
            axes.plot([f.value for f in figures], heights, marker, color=colour, label=name)
        axes.set_yticks(range(len(shown)), [_with_direction(benchmark, metric) for metric in shown])
        axes.invert_yaxis()
        axes.set_xlim(-0.02, 1.02)
        axes.grid(axis="x", color="#dddddd", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(left=False)
        axes.set_title(f"{benchmark.title} (n = {len(first.ids):,})", loc="left", fontsize=11)
        axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=len(results))
    figure.savefig(file, dpi=150)


def plot_slice(figures: Mapping[str, Mapping[str, Any]], label: str, name: str) -> "Figure":
    """Return the picture of one metric in every key of a slice; keys hold what `result.json` does."""
    counted = {f"{key} (n = {each['n_scored']:,})": each for key, each in figures.items()}
    drawn = plot_figures(counted)
    drawn.axes[0].set_title(f"{label} by {name.replace('_', ' ')}", loc="left", fontsize=11)
    return drawn


def plot_figures(figures: Mapping[str, Mapping[str, Any]]) -> "Figure":
    """Return a picture with a row per figure, its 95 % interval as a line; figures as in `result.json`."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(7, 1.2 + 0.3 * len(figures)), layout="constrained")
    axes = drawn.add_subplot()
    for position, each in enumerate(figures.values()):
        if each["value"] is None:
            continue
        if None not in each["ci95"]:
            axes.hlines(position, *each["ci95"], color=COLOURS[0])
        axes.plot(each["value"], position, "o", color=COLOURS[0])
    axes.set_yticks(range(len(figures)), list(figures))
    axes.set_ylim(len(figures) - 0.5, -0.5)
    if all(each["value"] is None or 0 <= each["value"] <= 1 for each in figures.values()):
        axes.set_xlim(-0.02, 1.02)
    axes.grid(axis="x", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False)
    return drawn


def _with_direction(benchmark: Benchmark, metric: str) -> str:
    return label(benchmark, metric) if metric in benchmark.lower_is_better else f"{label(benchmark, metric)} ↑"
