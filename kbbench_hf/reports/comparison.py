"""Two systems side by side in a terminal, with the paired test of each metric."""

import math
from collections.abc import Iterable

from rich.markup import escape

from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.metrics.significance import ALPHA, PairedTest, holm, minimum_detectable_effect
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

TESTED = ("95 % interval", "p (Holm)", "win/tie/loss")
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
    tests = dict(list(comparison.tests.items())[:metrics])
    rows = [
        [
            label(benchmark, metric),
            *(number(each.scores[metric].value) if metric in each.scores else "" for each in (first, second)),
            *cells,
        ]
        for metric, cells in zip(tests, _test_cells(tests.values()), strict=True)
    ]
    terminal.print_table(console, ["metric", "A", "B", "A - B", *TESTED], rows)
    headline = benchmark.headline
    smallest = minimum_detectable_effect(first.compared[headline] - second.compared[headline])
    power = (
        f" With {len(first.ids):,} examples a difference in {label(benchmark, headline)} of {number(smallest)} would "
        "be found 4 times in 5."
    )
    console.print(
        "[dim]* p < 0.05, corrected for the tests shown. A - B is over the examples that both have scored."
        f"{power if smallest > 0 else ''}[/dim]"
    )
    for name in chosen:
        of_keys = {key: tests[headline] for key, tests in comparison.in_slice(name).items()}
        rows = [[key, *cells] for key, cells in zip(of_keys, _test_cells(of_keys.values()), strict=True)]
        console.print()
        terminal.print_table(console, [words(name), f"{label(benchmark, headline)}: A - B", *TESTED], rows)


def _test_cells(tests: Iterable[PairedTest]) -> list[list[str]]:
    """Return the cells of tests that are shown together, their p-values corrected for each other."""
    shown = list(tests)
    return [
        [
            f"{test.difference:+z.4f}" if math.isfinite(test.difference) else "-",
            interval(test.ci95),
            f"{p:.4f} {'*' if p < ALPHA else ' '}",
            f"{test.wins:,}/{test.ties:,}/{test.losses:,}",
        ]
        for test, p in zip(shown, holm([each.p_value for each in shown]), strict=True)
    ]
