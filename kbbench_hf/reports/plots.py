"""Figures as pictures: readable without colour, intervals always drawn."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.benchmarks.figures import Panel, Panels, Point
from kbbench_hf.errors import UsageError
from kbbench_hf.reports.tables import label
from kbbench_hf.scoring.result import PlainFigure, Result
from kbbench_hf.scoring.results_table import Block

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURES = (".png", ".svg", ".pdf")
COLUMN, PAGE = 3.35, 6.9
"""The width of a column of a paper, and of its page, in inches."""
MARKERS = "osD^vP*X"
COLOURS = ("#0b5394", "#c2571a", "#38761d", "#741b47", "#7f6000", "#444444", "#3d85c6", "#cc0000")
"""Distinguishable in the common forms of colour blindness; the markers distinguish without colour."""


def plot_scores(
    panels: Sequence[tuple[Benchmark, Mapping[str, Result]]], file: Path, metrics: int | None = None
) -> None:
    """Draw one panel per benchmark: a row per metric, a marker per system, its 95 % interval as a line; write a PNG.

    With `metrics`, only so many rows, the headline ones.
    """
    figure, columns = blank(6.2 * len(panels), 4.2, len(panels))
    for axes, (benchmark, results) in zip(columns, panels, strict=True):
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
        _in_rows(axes)
        axes.set_title(f"{benchmark.title} (n = {len(first.ids):,})", loc="left", fontsize=11)
        axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=len(results))
    figure.savefig(file, dpi=150)


def plot_results(block: Block, file: Path) -> None:
    """Draw a panel per metric and a line per system: its figure with its 95 % interval; published ones hollow.

    One metric is as wide as a column of a paper (3.35 inches), several as a page (6.9 inches); PNG, SVG or PDF, by the
    file's name.

    Raises:
        UsageError: another ending.
    """
    check_picture(file)
    from matplotlib import rc_context

    metrics, names = list(block.metrics), [each.name for each in block.systems]
    with rc_context({"font.size": 8, "svg.fonttype": "none", "pdf.fonttype": 42, "svg.hashsalt": "kbbench"}):
        figure, columns = blank(COLUMN if len(metrics) == 1 else PAGE, 0.7 + 0.22 * len(names), len(metrics))
        for axes, metric in zip(columns, metrics, strict=True):
            for line, system in enumerate(block.systems):
                if (shown := system.figure(metric)) is None:
                    continue
                colour, hollow = COLOURS[0] if system.result else COLOURS[5], system.result is None
                if shown.ci95 is not None:
                    axes.hlines(line, *shown.ci95, color=colour, linewidth=1.2)
                filled = "white" if hollow else colour
                axes.plot(shown.value, line, "D" if hollow else "o", color=colour, markerfacecolor=filled, markersize=4)
            axes.set_yticks(range(len(names)), names if axes is columns[0] else [""] * len(names))
            axes.set_ylim(len(names) - 0.5, -0.5)
            axes.set_title(_with_direction(block.benchmark, metric), loc="left", fontsize=8)
            axes.margins(x=0.08)
            _in_rows(axes)
        metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(file.suffix.lower())
        figure.savefig(file, dpi=300, metadata=metadata)


def plot_slice(figures: Mapping[str, PlainFigure], label: str, name: str) -> "Figure":
    """Return the picture of one metric in every key of a slice; keys hold what `result.json` does."""
    drawn = plot_figures({f"{key} (n = {each['n_scored']:,})": each for key, each in figures.items()})
    drawn.axes[0].set_title(f"{label} by {name.replace('_', ' ')}", loc="left", fontsize=11)
    return drawn


def plot_figures(figures: Mapping[str, PlainFigure]) -> "Figure":
    """Return a picture with a row per figure, its 95 % interval as a line; figures as in `result.json`."""
    drawn, (axes,) = blank(7, 1.2 + 0.3 * len(figures))
    for position, each in enumerate(figures.values()):
        if each["value"] is None:
            continue
        low, high = each["ci95"]
        if low is not None and high is not None:
            axes.hlines(position, low, high, color=COLOURS[0])
        axes.plot(each["value"], position, "o", color=COLOURS[0])
    axes.set_yticks(range(len(figures)), list(figures))
    axes.set_ylim(len(figures) - 0.5, -0.5)
    if all(each["value"] is None or 0 <= each["value"] <= 1 for each in figures.values()):
        axes.set_xlim(-0.02, 1.02)
    _in_rows(axes)
    return drawn


def plot_panels(drawn: Panels, systems: Sequence[str] = (), *, legend: bool = True) -> "Figure":
    """Return small pictures beside each other: a colour and marker per system, 95 % intervals as bands or lines.

    Args:
        drawn: what to draw.
        systems: all systems of a report, so that each looks the same in all of its pictures; else those drawn.
        legend: whether a line below says which is which.

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
    """Return the colour and marker of each system: 64 can be told apart."""
    return {
        name: {"color": COLOURS[n % 8], "marker": MARKERS[(n + n // 8) % 8], "markersize": 5}
        for n, name in enumerate(systems)
    }


def _draw_points(axes: "Axes", points: Sequence[Point], style: dict[str, Any], offset: float, joined: bool) -> None:
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


def _finish_panel(axes: "Axes", panel: Panel, drawn: Panels) -> None:
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
    """Refuse a file whose ending names no kind of picture that is drawn.

    Raises:
        UsageError: another ending than `PICTURES`.
    """
    if file.suffix.lower() not in PICTURES:
        raise UsageError(f"{file} ends in {file.suffix!r}; expected {', '.join(PICTURES)}. Name it so.")


def plot_lengths(lengths: Mapping[str, Sequence[int]], title: str, file: Path) -> None:
    """Draw a histogram for each thing that is counted, words of questions say; PNG, SVG or PDF."""
    check_picture(file)
    from matplotlib.ticker import MaxNLocator

    figure, columns = blank(10, 3.6, len(lengths))
    for axes, (counted, values) in zip(columns, lengths.items(), strict=True):
        most = max(values, default=1)
        width = max(1, -(-most // 50))
        axes.hist(values, bins=[edge - 0.5 for edge in range(0, most + 2 * width, width)], color=COLOURS[0])
        axes.set_xlabel(counted)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylabel("queries")
        axes.spines[["top", "right"]].set_visible(False)
        if axes is columns[0]:
            axes.set_title(title, loc="left", fontsize=11)
    figure.savefig(file, dpi=150)


def blank(width: float, height: float, n: int = 1) -> tuple["Figure", list["Axes"]]:
    """Return an empty picture, its size in inches, with so many panels beside each other."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, [figure.add_subplot(1, n, column) for column in range(1, n + 1)]


def quiet(axes: "Axes", lines: Literal["both", "x", "y"] = "both") -> None:
    """Draw pale lines behind the figures, and no frame above or to the right of them."""
    axes.grid(axis=lines, color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _in_rows(axes: "Axes") -> None:
    quiet(axes, "x")
    axes.spines["left"].set_visible(False)
    axes.tick_params(left=False)


def _with_direction(benchmark: Benchmark, metric: str) -> str:
    return label(benchmark, metric) if metric in benchmark.scoring.lower_is_better else f"{label(benchmark, metric)} ↑"
