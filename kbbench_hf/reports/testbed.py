"""Results of a testbed in a terminal: scores by config, their summary and a plot."""

from collections.abc import Mapping
from pathlib import Path

from rich.markup import escape

from kbbench_hf.benchmarks.base import Benchmark, ConfigScores
from kbbench_hf.reports import terminal
from kbbench_hf.reports.plots import plot_panels
from kbbench_hf.reports.tables import interval_text, value_text
from kbbench_hf.scoring.result import PlainResult
from kbbench_hf.scoring.stored_runs import read_runs, warnings_together


def print_testbed(found: Benchmark, model: str, testbed: str, results: Mapping[str, PlainResult], folder: Path) -> None:
    """Print the results of a testbed's configs and what they say together; write its picture, if any, to the folder."""
    console, rows = terminal.console(), []
    figures_of = {config: result["scores"] for config, result in results.items()}
    first, *others = [
        each for each in found.metrics if any(of[each]["value"] is not None for of in figures_of.values())
    ]
    for config, result in results.items():
        figures = figures_of[config]
        cells = [value_text(figures[each]) for each in (first, *others)]
        n = f"{result['counters']['n_examples']:,}"
        rows.append([config, n, cells[0], interval_text(figures[first]), *cells[1:]])
    names = [found.metrics[each] for each in (first, *others)]
    terminal.print_table(console, ["config", "n", names[0], "95 % interval", *names[1:]], rows)
    for warning in warnings_together(results):
        console.print(f"[yellow]![/yellow] {escape(str(warning))}")
    rules = found.asking.testbeds[testbed]
    for sentence in rules.summary(figures_of) if rules.summary else ():
        console.print(escape(sentence))
    if rules.panels:
        file = folder / f"{testbed}.png"
        plot_panels(rules.panels(_with_others(folder, model, figures_of, results))).savefig(file, dpi=150)
        terminal.echo(str(file))


def _with_others(
    folder: Path, model: str, figures: ConfigScores, results: Mapping[str, PlainResult]
) -> Mapping[str, ConfigScores]:
    """Return the figures of all systems in the folder, where this one is among them; else its own alone."""
    first = next(iter(results.values()))
    runs = read_runs(folder, first["split"])
    if (runs.mode, runs.revision) != (first["mode"], first["dataset_revision"]):
        return {model: figures}
    systems = {
        name: {config: each.result["scores"] for config, each in of.items()} for name, of in runs.systems.items()
    }
    return systems if any(figures.items() <= each.items() for each in systems.values()) else {model: figures}
