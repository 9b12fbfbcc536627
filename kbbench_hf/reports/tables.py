"""Results as tables in a terminal: figures rounded for eyes, every one with its interval."""

import math
from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.table import Table

from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.comparison import Comparison
from kbbench_hf.errors import unknown_name
from kbbench_hf.metrics.aggregate import Estimate
from kbbench_hf.metrics.significance import PairedTest, minimum_detectable_effect
from kbbench_hf.scoring import Result


def print_result(result: Result, benchmark: Benchmark, slices: str | None = None, metrics: int | None = None) -> None:
    """Print a result's figures with their intervals, then the counters that are not zero, then the slices asked for.

    With `metrics`, only so many figures, the headline ones.
    """
    console = Console()
    console.print(f"[bold]{benchmark.title}[/bold] {_place(result)}", highlight=False)
    table = Table("metric", "value", "95 % interval", "scored", box=None, header_style="bold")
    for metric, figure in list(result.scores.items())[:metrics]:
        table.add_row(_label(benchmark, metric), number(figure.value), interval(figure.ci95), f"{figure.n_scored:,}")
    console.print(table)
    counters = ", ".join(f"{name.removeprefix('n_')} {count:,}" for name, count in result.counters.items() if count)
    console.print(f"[dim]{counters}[/dim]", highlight=False)
    for warning in result.warnings:
        console.print(f"[yellow]![/yellow] {warning}", highlight=False)
    for name in _chosen(slices, result.slices):
        console.print(_slice_table(name, result.slices[name], benchmark))


def print_comparison(
    comparison: Comparison,
    names: tuple[str, str],
    benchmark: Benchmark,
    slices: str | None = None,
    metrics: int | None = None,
) -> None:
    """Print both systems side by side with the paired test of each metric, then the slices asked for.

    With `metrics`, only so many tests, the headline ones.
    """
    console = Console()
    first, second = comparison.a, comparison.b
    console.print(f"[bold]{benchmark.title}[/bold] {_place(first)}\nA {names[0]}\nB {names[1]}", highlight=False)
    table = Table("metric", "A", "B", "A - B", "95 % interval", "p", "wins/ties/losses", box=None, header_style="bold")
    for metric, test in list(comparison.tests.items())[:metrics]:
        figures = [number(result.scores[metric].value) if metric in result.scores else "" for result in (first, second)]
        table.add_row(_label(benchmark, metric), *figures, *_test_cells(test))
    console.print(table)
    headline = benchmark.headline
    smallest = minimum_detectable_effect(first.compared[headline] - second.compared[headline])
    console.print(
        f"[dim]* p < 0.05. With {len(first.ids):,} examples a difference in {_label(benchmark, headline)} of "
        f"{number(smallest)} would be found 4 times in 5.[/dim]",
        highlight=False,
    )
    for name in _chosen(slices, first.example_slices):
        table = Table(name, f"{_label(benchmark, headline)}: A - B", "95 % interval", "p", "wins/ties/losses", box=None)
        for key, tests in comparison.in_slice(name).items():
            table.add_row(key, *_test_cells(tests[headline]))
        console.print(table)


def number(value: float) -> str:
    """Return a figure as tables show it: four decimals, or a dash where nothing was scored.

    >>> number(0.34758), number(float("nan"))
    ('0.3476', '-')
    """
    return f"{value:.4f}" if math.isfinite(value) else "-"


def interval(bounds: tuple[float, float]) -> str:
    """Return an interval as tables show it.

    >>> interval((0.1, 0.25))
    '[0.100, 0.250]'
    """
    return f"[{', '.join(f'{bound:.3f}' if math.isfinite(bound) else '-' for bound in bounds)}]"


def _test_cells(test: PairedTest) -> list[str]:
    mark = " *" if test.p_value < 0.05 else ""
    return [
        f"{test.difference:+.4f}" if math.isfinite(test.difference) else "-",
        interval(test.ci95),
        f"{test.p_value:.4f}{mark}",
        f"{test.wins:,}/{test.ties:,}/{test.losses:,}",
    ]


def _slice_table(name: str, keys: Mapping[str, Mapping[str, Estimate]], benchmark: Benchmark) -> Table:
    metrics = list(next(iter(keys.values())))
    table = Table(name, "n", *(_label(benchmark, metric) for metric in metrics), box=None, header_style="bold")
    for key, figures in keys.items():
        count = next(iter(figures.values()))
        table.add_row(
            key, f"{count.n_scored + count.n_unscored:,}", *(number(figures[metric].value) for metric in metrics)
        )
    return table


def _chosen(slices: str | None, known: Iterable[str]) -> list[str]:
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


def _label(benchmark: Benchmark, metric: str) -> str:
    return benchmark.metrics.get(metric, metric.replace("_", " "))


def _place(result: Result) -> str:
    config = "" if result.config == "default" else f"{result.config}, "
    return f"[dim]{config}{result.split}, mode {result.mode}, data {result.dataset_revision[:12]}[/dim]"
