"""Two systems side by side in a terminal, with the paired test of each metric."""

import math

from rich.markup import escape

from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.metrics.significance import PairedTest, minimum_detectable_effect
from kbbench_hf.reports import terminal
from kbbench_hf.reports.tables import (
    chosen_slices,
    interval,
    label,
    number,
    place_words,
    print_warnings,
    words,
)
from kbbench_hf.scoring.comparison import Comparison

TESTED = ("95 % interval", "p", "win/tie/loss")
"""What stands beside a difference."""


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
    console, chosen = terminal.console(), chosen_slices(slices, first.example_slices)
    console.print(f"[bold]{escape(benchmark.title)}[/bold] · {place_words(first)}")
    console.print(f"A {escape(names[0])}\nB {escape(names[1])}")
    print_warnings(console, comparison.warnings)
    rows = []
    for metric, test in list(comparison.tests.items())[:metrics]:
        figures = [number(result.scores[metric].value) if metric in result.scores else "" for result in (first, second)]
        rows.append([label(benchmark, metric), *figures, *_test_cells(test)])
    terminal.print_table(console, ["metric", "A", "B", "A - B", *TESTED], rows)
    headline = benchmark.headline
    smallest = minimum_detectable_effect(first.compared[headline] - second.compared[headline])
    console.print(
        f"[dim]* p < 0.05. A - B is over the examples that both have scored. With {len(first.ids):,} examples a "
        f"difference in {label(benchmark, headline)} of {number(smallest)} would be found 4 times in 5.[/dim]"
    )
    for name in chosen:
        rows = [[key, *_test_cells(tests[headline])] for key, tests in comparison.in_slice(name).items()]
        console.print()
        terminal.print_table(console, [words(name), f"{label(benchmark, headline)}: A - B", *TESTED], rows)


def _test_cells(test: PairedTest) -> list[str]:
    mark = "*" if test.p_value < 0.05 else " "
    return [
        f"{test.difference:+.4f}" if math.isfinite(test.difference) else "-",
        interval(test.ci95),
        f"{test.p_value:.4f} {mark}",
        f"{test.wins:,}/{test.ties:,}/{test.losses:,}",
    ]
