"""Plots of scores, differences, slices and dataset statistics (matplotlib): readable without color.

`kbbench report`, `compare`, `demo` and reports of testbeds use it. SVG and PDF files of results have no dates: the
same results give the same bytes. matplotlib is imported only when something is drawn.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.benchmarks.charts import ChartPanel, Panels, Point, Statistics
from kbbench_hf.errors import UsageError
from kbbench_hf.reports.results_table import caption
from kbbench_hf.reports.tables import directed_label
from kbbench_hf.scoring.comparison import Comparison
from kbbench_hf.scoring.result import Result
from kbbench_hf.scoring.results_table import Block

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURES = (".png", ".svg", ".pdf")
"""Endings of files that can be written."""
COLUMN, PAGE = 3.35, 6.9
"""The width of a column of a paper, and of its page, in inches."""
MARKERS = "osD^vP*X"
"""One for each color; `score_table` has a sign for each."""
COLOURS = ("#0b5394", "#c2571a", "#38761d", "#741b47", "#7f6000", "#444444", "#3d85c6", "#cc0000")
"""Distinguishable in the common forms of color blindness; the markers distinguish without color."""


def plot_scores(
    panels: Sequence[tuple[Benchmark, Mapping[str, Result]]], file: Path, metrics: int | None = None
) -> None:
    """Write a PNG with a panel per benchmark: a row per metric, a marker per system, its 95 % interval as a line.

    `metrics` is the maximum number of rows, the first metrics of the benchmark; None for all.
    """
    figure, columns = blank(6.2 * len(panels), 4.2, len(panels))
    for axes, (benchmark, results) in zip(columns, panels, strict=True):
        first = next(iter(results.values()))
        shown = [metric for metric in benchmark.metrics if metric in first.scores][:metrics]
        for position, (name, result) in enumerate(results.items()):
            offset = (position - (len(results) - 1) / 2) * 0.22
            heights = [row + offset for row in range(len(shown))]
            scores = [result.scores[metric] for metric in shown]
            colour, marker = COLOURS[position % 8], MARKERS[position % 8]
            axes.hlines(heights, [f.ci95[0] for f in scores], [f.ci95[1] for f in scores], color=colour)
            axes.plot([f.value for f in scores], heights, marker, color=colour, label=name)
        axes.set_yticks(range(len(shown)), [directed_label(benchmark, metric) for metric in shown])
        axes.invert_yaxis()
        axes.set_xlim(-0.02, 1.02)
        _in_rows(axes)
        axes.set_title(f"{benchmark.title} (n = {len(first.ids):,})", loc="left", fontsize=11)
        axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=len(results))
    figure.savefig(file, dpi=150)


def plot_results(block: Block, file: Path, comparison: Comparison | None = None) -> None:
    """Write a picture of systems' scores with 95 % intervals, and of two systems' differences; PNG, SVG or PDF.

    Up to eight systems fit a column of a paper (3.35 inches, 7 points): a row per metric and system. More fill its page
    (6.9 inches): a panel per metric and a row per system. Metrics of one family share their scale. Published scores are
    hollow.

    Args:
        block: the systems and the metrics to draw.
        file: the file to write; its name chooses the format.
        comparison: the tests of the two systems, if there are two with predictions.

    Raises:
        UsageError: another ending.
    """
    check_picture(file)
    from matplotlib import rc_context

    with rc_context({"font.size": 7, "svg.fonttype": "none", "pdf.fonttype": 42, "svg.hashsalt": "kbbench"}):
        drawn = _by_metric(block, comparison) if len(block.systems) <= len(MARKERS) else _by_system(block)
        drawn.suptitle(caption([block]), x=0.01, ha="left", fontsize=7, wrap=True)
        metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(file.suffix.lower())
        drawn.savefig(file, dpi=300, metadata=metadata)


def metric_families(benchmark: Benchmark, metrics: Sequence[str]) -> list[list[str]]:
    """Return the metrics that share a scale: those of which more is better, of which less is, each unbounded one.

    >>> from kbbench_hf.benchmarks import benchmark
    >>> metric_families(benchmark("mini-text2kg"), ["f1", "subject_hallucination", "recall"])
    [['f1', 'recall'], ['subject_hallucination']]
    """
    families: dict[object, list[str]] = {}
    for metric in metrics:
        own = metric if metric in benchmark.scoring.unbounded else metric in benchmark.scoring.lower_is_better
        families.setdefault(own, []).append(metric)
    return list(families.values())


def _by_metric(block: Block, comparison: Comparison | None) -> "Figure":
    """Return a picture with a group of rows per metric, a row per system, and a forest plot of differences."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    families, n = metric_families(block.benchmark, block.metrics), len(block.systems)
    shares = [len(family) * max(n, 1.6) + 1.5 for family in families]
    drawn = Figure(figsize=(COLUMN, 0.75 + 0.115 * sum(shares) + 0.3 * len(families)), layout="constrained")
    n_columns = 2 if comparison else 1
    grid = drawn.add_gridspec(len(families), n_columns, height_ratios=shares, width_ratios=[1.25, 1][:n_columns])
    styles = {
        each.name: {"color": COLOURS[at], "marker": MARKERS[at], "markersize": 3.5, "linestyle": "none",
                    "markerfacecolor": COLOURS[at] if each.result else "white"}
        for at, each in enumerate(block.systems)
    }  # fmt: skip
    for row, family in enumerate(families):
        axes = drawn.add_subplot(grid[row, 0])
        for at, system in enumerate(block.systems):
            for line, metric in enumerate(family):
                if shown := system.figure(metric):
                    height = line + (at - (n - 1) / 2) * 0.8 / n
                    if shown.ci95 is not None:
                        axes.hlines(height, *shown.ci95, color=COLOURS[at], linewidth=1)
                    axes.plot(shown.value, height, **styles[system.name])  # type: ignore[arg-type]
        _finish_rows(axes, [directed_label(block.benchmark, metric) for metric in family])
        if row == 0:
            axes.set_title("score, 95 % interval", loc="left", fontsize=7)
        if comparison:
            beside = drawn.add_subplot(grid[row, 1])
            _draw_differences(beside, family, comparison, block, last=row == len(families) - 1)
            if row == 0:
                pair = " - ".join(styles)
                beside.set_title(pair if len(pair) < 28 else "first - second", loc="left", fontsize=7)
    keys = [Line2D([], [], label=name, **style) for name, style in styles.items()]  # type: ignore[arg-type]
    longest = max(map(len, styles), default=1)
    drawn.legend(handles=keys, frameon=False, loc="outside lower center", ncols=max(1, min(n, 48 // (longest + 4))))
    return drawn


def _draw_differences(axes: "Axes", family: Sequence[str], comparison: Comparison, block: Block, *, last: bool) -> None:
    """Draw the paired differences of a family of metrics: filled where significant, with p to the right."""
    tests = comparison.shown(block.metrics)
    axes.axvline(0, color="black", linewidth=0.8)
    for line, metric in enumerate(family):
        if metric in tests and math.isfinite((test := tests[metric].test).difference):
            axes.hlines(line, *test.ci95, color="black", linewidth=1)
            filled = "black" if tests[metric].significant else "white"
            axes.plot(test.difference, line, "D", color="black", markerfacecolor=filled, markersize=3.5)
            p = "p < 0.001" if tests[metric].p < 0.001 else f"p = {tests[metric].p:.3f}"
            axes.text(1.04, line, p, transform=axes.get_yaxis_transform(), va="center", fontsize=6)
    _finish_rows(axes, [""] * len(family))
    most = max(map(abs, axes.get_xlim()))
    axes.set_xlim(-most, most)
    if last:
        headline = block.benchmark.metrics[block.benchmark.headline]
        n_adjusted = max(each.n_adjusted for each in tests.values())
        holm = f"; Holm-adjusted\nexcept {headline}" if n_adjusted > 1 else ""
        axes.set_xlabel(f"filled: p ≤ 0.05{holm}", fontsize=6)


def _finish_rows(axes: "Axes", names: Sequence[str]) -> None:
    """Set the names of the rows of a panel, from top to bottom, and its style."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.margins(x=0.08)
    axes.locator_params(axis="x", nbins=4, steps=[1, 2, 2.5, 5, 10])
    _in_rows(axes)


def _by_system(block: Block) -> "Figure":
    """Return a picture with a panel per metric and a row per system."""
    metrics, names = list(block.metrics), [each.name for each in block.systems]
    drawn, columns = blank(COLUMN if len(metrics) == 1 else PAGE, 0.9 + 0.17 * len(names), len(metrics))
    panels = dict(zip(metrics, columns, strict=True))
    for metric, axes in panels.items():
        for line, system in enumerate(block.systems):
            if (shown := system.figure(metric)) is None:
                continue
            colour, hollow = COLOURS[0] if system.result else COLOURS[5], system.result is None
            if shown.ci95 is not None:
                axes.hlines(line, *shown.ci95, color=colour, linewidth=1.2)
            filled = "white" if hollow else colour
            axes.plot(shown.value, line, "D" if hollow else "o", color=colour, markerfacecolor=filled, markersize=4)
        _finish_rows(axes, names if axes is columns[0] else [""] * len(names))
        axes.set_title(directed_label(block.benchmark, metric), loc="left", fontsize=7)
    for family in metric_families(block.benchmark, metrics):
        low, high = zip(*(panels[metric].get_xlim() for metric in family), strict=True)
        for metric in family:
            panels[metric].set_xlim(min(low), max(high))
    return drawn


def plot_panels(drawn: Panels, systems: Sequence[str] = (), *, legend: bool = True) -> "Figure":
    """Return small pictures next to each other: a color and marker per system, 95 % intervals as bands or lines.

    Args:
        drawn: the panels.
        systems: all systems of a report, so that each looks the same in all of its pictures; else those drawn.
        legend: whether a legend is below.

    Raises:
        UsageError: there is nothing to draw.
    """
    from matplotlib.lines import Line2D

    if not drawn.panels:
        raise UsageError("There is nothing to draw: expected results of this testbed. Score a run of it first.")
    there = list(dict.fromkeys(name for panel in drawn.panels for name in panel.series))
    styles = {name: style for name, style in styles_of(systems or there).items() if name in there}
    styles |= {name: style for name, style in styles_of(there).items() if name not in styles}
    figure, columns = blank(4.4 * len(drawn.panels), 3.8 if legend else 3.2, len(drawn.panels))
    for axes, panel in zip(columns, drawn.panels, strict=True):
        beside = [name for name in styles if name in panel.series or not drawn.bars]
        apart = 0.7 / max(3, len(beside)) if drawn.side_by_side else 0.0
        for number, name in enumerate(beside):
            points, offset = panel.series.get(name, ()), (number - (len(beside) - 1) / 2) * apart
            if points and drawn.bars:
                places = [point.x + offset for point in points]
                axes.bar(places, [point.y for point in points], apart, color=styles[name]["color"])
            elif points:
                _draw_points(axes, points, styles[name], offset, drawn.joined)
        _finish_panel(axes, panel, drawn)
    if legend:
        lines = [Line2D([], [], label=name, **style) for name, style in styles.items()]
        figure.legend(handles=lines, frameon=False, loc="outside lower center", ncols=max(1, len(columns) * 2))
    return figure


def styles_of(systems: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return system -> its color and marker; the first 64 differ."""
    return {
        name: {"color": COLOURS[n % 8], "marker": MARKERS[(n + n // 8) % 8], "markersize": 5}
        for n, name in enumerate(systems)
    }


def _draw_points(axes: "Axes", points: Sequence[Point], style: dict[str, Any], offset: float, joined: bool) -> None:
    """Draw the points of a system: joined with a band of intervals, or single ones with lines."""
    if joined:
        low, high = zip(*(point.y_interval for point in points), strict=True)
        places = [point.x for point in points]
        axes.fill_between(places, low, high, color=style["color"], alpha=0.15, linewidth=0)
        axes.plot(places, [point.y for point in points], **style)
        return
    for point in points:
        x = point.x + offset
        axes.vlines(x, *point.y_interval, color=style["color"])
        if point.x_interval:
            axes.hlines(point.y, *point.x_interval, color=style["color"])
        axes.plot(x, point.y, **style)


def _finish_panel(axes: "Axes", panel: ChartPanel, drawn: Panels) -> None:
    """Set scales, ticks, title and labels of a panel."""
    if drawn.top is not None and not drawn.bars:
        axes.set_ylim(-0.02 * drawn.top, 1.02 * drawn.top)
    else:
        axes.set_ylim(bottom=0)
    axes.set_title(panel.title, loc="left", fontsize=11)
    quiet(axes, "y")
    if drawn.logarithmic:
        axes.set_xscale("log", base=2)
    if drawn.ticks:
        axes.set_xticks(list(drawn.ticks), list(drawn.ticks.values()), minor=False)
        if drawn.side_by_side:
            axes.set_xlim(min(drawn.ticks) - 0.5, max(drawn.ticks) + 0.5)
    if drawn.against_chance:
        axes.plot([0, 1], [1, 0], linestyle="--", color="#999999", linewidth=0.8)
        axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel(drawn.x_label)
    axes.set_ylabel(drawn.y_label)


def check_picture(file: Path) -> None:
    """Check the ending of the file of a picture.

    Raises:
        UsageError: it is not one of `PICTURES`.
    """
    if file.suffix.lower() not in PICTURES:
        raise UsageError(f"{file} ends in {file.suffix!r}; expected {', '.join(PICTURES)}. Name it so.")


def plot_lengths(statistics: Statistics, title: str, file: Path) -> None:
    """Write a histogram of each count of a dataset's statistics; PNG, SVG or PDF."""
    check_picture(file)
    from matplotlib.ticker import MaxNLocator

    drawn, columns = blank(max(4.0, 2.9 * len(statistics.lengths)), 3.2, len(statistics.lengths))
    for axes, (counted, values) in zip(columns, statistics.lengths.items(), strict=True):
        low, high = min(values, default=0), max(values, default=0)
        axes.set_xlabel(counted)
        axes.set_ylabel(statistics.unit)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10], integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10], integer=True))
        axes.spines[["top", "right"]].set_visible(False)
        if not values:
            axes.set_xticks([])
            axes.set_yticks([])
            axes.text(0.5, 0.5, f"no {statistics.unit}", transform=axes.transAxes, ha="center")
        elif low == high:
            axes.bar([low], [len(values)], color=COLOURS[0])
            axes.set_xlim(low - 3, low + 3)
            axes.set_xticks([low])
            axes.set_title(f"{low:,} for all", fontsize=9)
        else:
            start = 0 if low <= high - low else low
            width = max(1, -(-(high - start + 1) // 50))
            axes.hist(values, bins=[edge - 0.5 for edge in range(start, high + width + 1, width)], color=COLOURS[0])
    drawn.suptitle(title, x=0.01, ha="left", fontsize=11)
    drawn.savefig(file, dpi=150)


def blank(width: float, height: float, n: int = 1) -> tuple["Figure", list["Axes"]]:
    """Return an empty picture of a size in inches, and its `n` panels, from left to right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, [figure.add_subplot(1, n, column) for column in range(1, n + 1)]


def quiet(axes: "Axes", lines: Literal["both", "x", "y"] = "both") -> None:
    """Draw pale grid lines behind the values, and no frame above and on the right."""
    axes.grid(axis=lines, color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _in_rows(axes: "Axes") -> None:
    """Set the style of a panel whose rows are named on the left."""
    quiet(axes, "x")
    axes.spines["left"].set_visible(False)
    axes.tick_params(left=False)
