"""Comparison of two systems in a terminal, with the paired test of each metric."""

import math
from collections.abc import Iterable, Sequence

from rich.markup import escape

from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.metrics.significance import minimum_detectable_effect
from kbbench_hf.reports import terminal
from kbbench_hf.reports.tables import (
    chosen_slices,
    interval,
    label,
    metric_legend,
    number,
    place_words,
    print_warnings,
    words,
)
from kbbench_hf.scoring.comparison import Comparison, ShownTest

TEST_HEADS = ("95 % interval", "p", "win/tie/loss")
"""The headings after a difference."""


def print_comparison(
    comparison: Comparison,
    names: tuple[str, str],
    benchmark: Benchmark,
    slices: str | None = None,
    metrics: Sequence[str] | None = None,
    *,
    notes: bool = False,
) -> None:
    """Print both systems side by side with the paired test of each metric, then the slices asked for.

    Args:
        comparison: the two systems and their tests.
        names: what A and B are called.
        benchmark: the benchmark of both.
        slices: the slices to print, or `all`.
        metrics: the metrics to print; the headline metrics where None.
        notes: whether all warnings and notes are printed, not only the most important three.
    """
    first, second = comparison.a, comparison.b
    console, chosen = terminal.console(), chosen_slices(slices, first.example_slices)
    console.print(f"[bold]{escape(benchmark.title)}[/bold] · {place_words(first)}")
    for letter, name, each in zip("AB", names, (first, second), strict=True):
        n_repeats = len(next(iter(each.repeats.values()), ()))
        console.print(f"{letter} {escape(name)}{f' (mean of {n_repeats} repeats)' if n_repeats else ''}")
    tests = comparison.shown(metrics)
    rows = [
        [
            label(benchmark, metric),
            *(number(each.scores[metric].value) if metric in each.scores else "" for each in (first, second)),
            *cells,
        ]
        for metric, cells in zip(tests, test_cells(tests.values()), strict=True)
    ]
    terminal.print_table(console, ["metric", "A", "B", "A - B", *TEST_HEADS], rows)
    console.print(f"[dim]{escape(metric_legend(benchmark, tests))}[/dim]")
    console.print(f"[dim]{escape(test_legend(tests, benchmark))}[/dim]")
    headline = benchmark.headline
    if headline in tests:
        differences = first.compared[headline] - second.compared[headline]
        groups = first.example_slices.get(first.group_by) if first.group_by else None
        smallest = minimum_detectable_effect(differences, clusters=first.clusters, groups=groups)
        if smallest > 0:
            name = label(benchmark, headline)
            console.print(f"[dim]Minimum detectable difference in {name} (80 % power): {number(smallest)}.[/dim]")
    print_warnings(console, comparison.warnings, headline, all_notes=notes)
    for name in chosen:
        of_keys = comparison.shown_in_slice(name, headline)
        rows = [[key, *cells] for key, cells in zip(of_keys, test_cells(of_keys.values()), strict=True)]
        console.print()
        terminal.print_table(console, [words(name), f"{label(benchmark, headline)}: A - B", *TEST_HEADS], rows)
        if len(of_keys) > 1:
            console.print(f"[dim]p-values and intervals are Holm-adjusted over the {len(of_keys)} rows.[/dim]")


def test_legend(tests: dict[str, ShownTest], benchmark: Benchmark) -> str:
    """Return what the stars and p-values of a table of tests mean.

    >>> from kbbench_hf.benchmarks import benchmark, shipped_answers
    >>> from kbbench_hf.scoring.comparison import compare
    >>> copy, pattern = shipped_answers("mini-text2kg")
    >>> print(test_legend(compare(pattern, copy, "mini-text2kg").shown(), benchmark("mini-text2kg")))
    Paired over the examples scored for both. * significant at 5 %. p of F1 is unadjusted; the 6 others and their intervals are Holm-adjusted.
    """  # noqa: E501
    said = "Paired over the examples scored for both. * significant at 5 %."
    others = [test for metric, test in tests.items() if metric != benchmark.headline]
    if benchmark.headline in tests and len(others) > 1:
        name = benchmark.metrics[benchmark.headline]
        return f"{said} p of {name} is unadjusted; the {len(others)} others and their intervals are Holm-adjusted."
    if len(others) > 1:
        return f"{said} p-values and intervals are Holm-adjusted over the {len(others)} metrics."
    return f"{said} p is unadjusted."


def test_cells(tests: Iterable[ShownTest]) -> list[list[str]]:
    """Return the cells of each test under `A - B` and `TEST_HEADS`."""
    return [
        [
            f"{test.difference:+z.4f}" if math.isfinite(test.difference) else "-",
            interval(test.ci95),
            f"{shown.p:.4f} {'*' if shown.significant else ' '}",
            f"{test.wins:,}/{test.ties:,}/{test.losses:,}",
        ]
        for shown in tests
        for test in [shown.test]
    ]
