"""Two systems side by side in a terminal, with the paired test of each metric."""

import math

from rich.console import Console
from rich.markup import escape

from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.metrics.significance import PairedTest, minimum_detectable_effect
from kbbench_hf.reports.tables import (
    chosen_slices,
    empty_table,
    interval,
    label,
    number,
    place_words,
    print_warnings,
    words,
)
from kbbench_hf.scoring.comparison import Comparison


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
    first, second = comparison.a, comparison.b
    console, chosen = Console(), chosen_slices(slices, first.example_slices)
    console.print(f"[bold]{escape(benchmark.title)}[/bold] · {place_words(first)}", highlight=False)
    console.print(f"A {escape(names[0])}\nB {escape(names[1])}", highlight=False)
    print_warnings(console, comparison.warnings)
    table = empty_table("metric", "A", "B", "A - B", "95 % interval", "p", "win/tie/loss")
    for metric, test in list(comparison.tests.items())[:metrics]:
        figures = [number(result.scores[metric].value) if metric in result.scores else "" for result in (first, second)]
        table.add_row(label(benchmark, metric), *figures, *_test_cells(test))
    console.print(table)
    headline = benchmark.headline
    smallest = minimum_detectable_effect(first.compared[headline] - second.compared[headline])
    console.print(
        f"[dim]* p < 0.05. A - B is over the examples that both have scored. With {len(first.ids):,} examples a "
        f"difference in {label(benchmark, headline)} of {number(smallest)} would be found 4 times in 5.[/dim]",
        highlight=False,
    )
    for name in chosen:
        table = empty_table(words(name), f"{label(benchmark, headline)}: A - B", "95 % interval", "p", "win/tie/loss")
        for key, tests in comparison.in_slice(name).items():
            table.add_row(escape(key), *_test_cells(tests[headline]))
        console.print()
        console.print(table)


def _test_cells(test: PairedTest) -> list[str]:
    mark = "*" if test.p_value < 0.05 else " "
    return [
        f"{test.difference:+.4f}" if math.isfinite(test.difference) else "-",
        interval(test.ci95),
        f"{test.p_value:.4f} {mark}",
        f"{test.wins:,}/{test.ties:,}/{test.losses:,}",
    ]
