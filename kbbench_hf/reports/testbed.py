"""A testbed's results in a terminal: figures by config, what they say together, and a picture."""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from rich.markup import escape

from kbbench_hf.benchmarks.base import Benchmark, TestbedTable
from kbbench_hf.reports import terminal
from kbbench_hf.reports.plots import plot_panels
from kbbench_hf.reports.tables import plain_interval, plain_value, words
from kbbench_hf.scoring.result import PlainFigure, PlainResult


def print_testbed(found: Benchmark, model: str, testbed: str, results: Mapping[str, PlainResult], folder: Path) -> None:
    """Print the results of a testbed's configs and what they say together; write its picture, if any, to the folder."""
    console, rows = terminal.console(), []
    figures_of = {config: result["scores"] for config, result in results.items()}
    first, *others = [
        each for each in found.metrics if any(of[each]["value"] is not None for of in figures_of.values())
    ]
    for config, result in results.items():
        figures = figures_of[config]
        cells = [plain_value(figures[each]) for each in (first, *others)]
        n = f"{result['counters']['n_examples']:,}"
        rows.append([config, n, cells[0], plain_interval(figures[first]), *cells[1:]])
    names = [found.metrics[each] for each in (first, *others)]
    terminal.print_table(console, ["config", "n", names[0], "95 % interval", *names[1:]], rows)
    for sentence in _warnings(results):
        console.print(f"[yellow]![/yellow] {escape(sentence)}")
    rules = found.asking.testbeds[testbed]
    for sentence in rules.summary(figures_of) if rules.summary else ():
        console.print(escape(sentence))
    if rules.panels:
        file = folder / f"{testbed}.png"
        plot_panels(rules.panels({model: figures_of})).savefig(file, dpi=150)
        terminal.echo(str(file))


def _warnings(results: Mapping[str, PlainResult]) -> list[str]:
    """Return what weakens the figures: each kind of warning once, with its configs and how many examples it touches."""
    touched: dict[str, list[str]] = {}
    for config, result in results.items():
        for warning in result.get("warnings", []):
            if warning["severity"] == "warning":
                of_all = f"{warning['n_examples']:,} of {result['counters']['n_examples']:,} examples"
                touched.setdefault(warning["code"], []).append(f"{config} ({of_all})")
    return [f"{words(code)}: {', '.join(configs)}" for code, configs in touched.items()]


def print_table(found: TestbedTable) -> None:
    """Print a table of figures with their intervals."""
    rows = []
    for names, row in found.rows:
        figure = cast(PlainFigure, row)
        rows.append([*names, f"{figure['n_scored']:,}", plain_value(figure), plain_interval(figure)])
    headings = [*found.headings, "n", found.metric, "95 % interval"]
    terminal.print_table(terminal.console(), headings, rows, n_words=len(found.headings))
