"""Results as tables in a terminal: figures rounded for eyes, every one with its interval."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import unknown_name
from kbbench_hf.metrics.aggregate import Estimate
from kbbench_hf.reports import terminal
from kbbench_hf.scoring.result import PlainFigure, Result

if TYPE_CHECKING:
    from rich.console import Console


def print_result(result: Result, benchmark: Benchmark, slices: str | None = None, metrics: int | None = None) -> None:
    """Print a result's figures with their intervals, then the counters that are not zero, then the slices asked for.

    With `metrics`, only so many figures, the headline ones.
    """
    console, chosen = terminal.console(), chosen_slices(slices, result.slices)
    console.print(f"[bold]{escape(benchmark.title)}[/bold] · {place_words(result)}")
    scored = {metric: figure for metric, figure in result.scores.items() if figure.n_scored} or dict(result.scores)
    figures = dict(list(scored.items())[:metrics])
    others = [name for name in ("n_unscored", "n_missing") if any(getattr(f, name) for f in figures.values())]
    counts = ["n_scored", *others]
    repeats = result.repeats
    rows = [
        [
            label(benchmark, metric),
            number(f.value),
            interval(f.ci95),
            *([mean_and_deviation(repeats[metric])] if repeats else []),
            *(f"{getattr(f, name):,}" for name in counts),
        ]
        for metric, f in figures.items()
    ]
    of_repeats = [f"mean ± sd of {len(next(iter(repeats.values())))} runs"] if repeats else []
    terminal.print_table(console, ["metric", "value", "95 % interval", *of_repeats, *map(words, counts)], rows)
    counters = ", ".join(f"{words(name)} {count:,}" for name, count in result.counters.items() if count)
    console.print(f"[dim]{counters}[/dim]")
    annotated = benchmark.scoring.annotations.metrics if benchmark.scoring.annotations else ()
    left_out = [label(benchmark, metric) for metric in result.scores if metric not in (*scored, *annotated)]
    if left_out:
        console.print(f"[dim]not scored here: {', '.join(left_out)}[/dim]")
    print_warnings(console, result.warnings)
    for name in chosen:
        console.print()
        _print_slice(console, name, result.slices[name], benchmark)


def mean_and_deviation(values: Sequence[float]) -> str:
    """Return the mean of the values of several runs and their sample standard deviation.

    >>> mean_and_deviation([0.25, 0.35]), mean_and_deviation([])
    ('0.3000 ± 0.0707', '-')
    """
    if len(values) < 2:
        return number(values[0]) if values else "-"
    return f"{number(statistics.fmean(values))} ± {number(statistics.stdev(values))}"


def number(value: float) -> str:
    """Return a figure as tables show it: four decimals, or a dash where nothing was scored.

    >>> number(0.34758), number(float("nan"))
    ('0.3476', '-')
    """
    return f"{value:.4f}" if math.isfinite(value) else "-"


def label(benchmark: Benchmark, metric: str) -> str:
    """Return what tables call a metric, with an arrow where less of it is better."""
    name = benchmark.metrics.get(metric, words(metric))
    return f"{name} ↓" if metric in benchmark.scoring.lower_is_better else name


def plain_value(figure: PlainFigure) -> str:
    """Return a figure of a `result.json` as tables show it."""
    return "-" if figure["value"] is None else number(figure["value"])


def plain_interval(figure: PlainFigure) -> str:
    """Return the interval of a figure of a `result.json` as tables show it."""
    low, high = figure["ci95"]
    return "-" if low is None or high is None else interval((low, high))


def words(name: str) -> str:
    """Return a key of a result as words.

    >>> words("n_parse_failures")
    'parse failures'
    """
    return name.removeprefix("n_").replace("_", " ")


def interval(bounds: tuple[float, float]) -> str:
    """Return an interval as tables show it.

    >>> interval((0.1, 0.25))
    '[0.100, 0.250]'
    """
    return f"[{', '.join(f'{bound:.3f}' if math.isfinite(bound) else '-' for bound in bounds)}]"


def print_warnings(console: "Console", warnings: Iterable[ScoreWarning]) -> None:
    """Print what a reader should know before believing the figures, a paragraph each; notes are dim."""
    for warning in warnings:
        mark = "[yellow]![/yellow] " if warning.severity == "warning" else "[dim]i[/dim] "
        console.print(f"{mark}{escape(str(warning))}")


def _print_slice(
    console: "Console", name: str, keys: Mapping[str, Mapping[str, Estimate]], benchmark: Benchmark
) -> None:
    rows = []
    for key, figures in keys.items():
        count = next(iter(figures.values()))
        values = (number(figure.value) for figure in figures.values())
        rows.append([key, f"{count.n_scored + count.n_unscored:,}", *values])
    metrics = next(iter(keys.values()))
    terminal.print_table(console, [words(name), "n", *(label(benchmark, metric) for metric in metrics)], rows)


def chosen_slices(slices: str | None, known: Iterable[str]) -> list[str]:
    """Return the slices to print: those of a comma-separated list, or `all` that are known."""
    names = list(known)
    if slices is None:
        return []
    if slices == "all":
        return names
    chosen = slices.split(",")
    for name in chosen:
        if name not in names:
            raise unknown_name("slice", name, names)
    return chosen


def place_words(result: Result) -> str:
    """Return where a result was scored: config, split, mode and data, for a table's head."""
    config = "" if result.config == "default" else f"{result.config}, "
    return f"[dim]{config}{result.split}, mode {result.mode}, data {result.dataset_revision[:8]}[/dim]"
