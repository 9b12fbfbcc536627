"""Tables of scores with their intervals, in a terminal, as LaTeX and as CSV, and the results of a testbed."""

import math
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from rich.markup import escape

from kbbench_hf.benchmarks.base import Benchmark, ConfigScores
from kbbench_hf.benchmarks.charts import ScoreTable, ShownScore
from kbbench_hf.reports import terminal
from kbbench_hf.reports.latex import bold, latex, tabular
from kbbench_hf.reports.plots import plot_panels
from kbbench_hf.reports.tables import interval, interval_text, number, value_text
from kbbench_hf.scoring.result import PlainResult
from kbbench_hf.scoring.stored_runs import read_runs, warnings_together

DIGITS = 3
WEAK = "*"
"""Marks a figure that a warning of its run weakens."""
WIDE = 7
"""A table of more columns than this is set as wide as the page."""
CSV_HEADS = ("section", "table", "system", "over", "column", "value", "low", "high", "n_scored", "weakened")


class Cell(NamedTuple):
    """A figure as it is written."""

    value: str
    interval: str = ""
    best: bool = False
    shade: float = 0.0
    """How much of its colour a cell has, from 0 to 1."""


def heads_of(table: ScoreTable) -> list[tuple[str, int]]:
    """Return the headings above those of the columns, and how many columns each spans; none where all are empty."""
    spans = [(over, len(list(columns))) for over, columns in groupby(over for over, _ in table.columns)]
    return spans if any(over for over, _ in spans) else []


def cells(table: ScoreTable) -> dict[str, list[Cell]]:
    """Return the cells of each row; one without a figure holds a dash."""
    best = [_best(table, column) for column in range(len(table.columns))]
    return {
        name: [_cell(shown, shown is not None and shown.value == best[n], table) for n, shown in enumerate(row)]
        for name, row in table.rows.items()
    }


def _best(table: ScoreTable, column: int) -> float:
    values = [shown.value for row in table.rows.values() if (shown := row[column])]
    if table.best is None or len(set(values)) < 2:
        return math.nan
    return max(values) if table.best == "highest" else min(values)


def _cell(shown: ShownScore | None, best: bool, table: ScoreTable) -> Cell:
    if shown is None:
        return Cell("-")
    digits = DIGITS if shown.digits is None else shown.digits
    ends = "" if shown.ci95 is None else f"[{shown.ci95[0]:,.{digits}f}, {shown.ci95[1]:,.{digits}f}]"
    shade = max(0.0, shown.value) if table.shaded else 0.0
    return Cell(f"{shown.value:,.{digits}f}{WEAK if shown.weak else ''}", ends, best, shade)


def as_latex(table: ScoreTable) -> str:
    """Return a `table` with its caption and notes; it needs booktabs, and graphicx where it is wide."""
    over, n_columns = heads_of(table), len(table.columns)
    heads = [[("", 1), *((latex(words), span) for words, span in over)]] if over else []
    heads.append([(latex(table.corner), 1), *((latex(words.strip()), 1) for _, words in table.columns)])
    rows: list[list[str]] = []
    spaced: set[int] = set()
    for name, row in cells(table).items():
        spaced.add(len(rows))
        rows.append([latex(name), *(bold(latex(c.value)) if c.best else latex(c.value) for c in row)])
        if any(cell.interval for cell in row):
            rows.append(["", *(f"{{\\scriptsize {latex(cell.interval)}}}" if cell.interval else "" for cell in row)])
    made = tabular(heads, rows, spaced - {0})
    if n_columns > WIDE:
        made = f"\\resizebox{{\\linewidth}}{{!}}{{%\n{made.rstrip()}}}\n"
    weak = any(shown and shown.weak for row in table.rows.values() for shown in row)
    notes = [*table.notes, *([f"{WEAK} weakened by a warning of its run."] if weak else [])]
    small = "".join(f"\\par\\smallskip{{\\footnotesize {latex(note)}}}\n" for note in notes)
    caption = f"\\caption{{{latex(table.title)}}}\\label{{{table.name}}}"
    return f"\\begin{{table}}[htbp]\n\\centering\n{caption}\n{made}{small}\\end{{table}}\n"


def csv_lines(section: str, table: ScoreTable) -> Iterator[list[object]]:
    """Yield a line per figure at full precision, under `CSV_HEADS`."""
    for name, row in table.rows.items():
        for (over, column), shown in zip(table.columns, row, strict=True):
            if shown is not None:
                low, high = shown.ci95 or ("", "")
                yield [section, table.name, name, over.strip(), column.strip(), shown.value, low, high,
                       shown.n_scored or "", "yes" if shown.weak else ""]  # fmt: skip


def table_to_json(table: ScoreTable) -> Mapping[str, object]:
    """Return row -> column -> figure as plain values, for --json."""
    return {
        name: {column: shown._asdict() for (_, column), shown in zip(table.columns, row, strict=True) if shown}
        for name, row in table.rows.items()
    }


def print_table(table: ScoreTable) -> None:
    """Print a line per figure, with its interval."""
    over = next((words for words, _ in table.columns if words), "")
    rows = [
        [name, column, f"{shown.n_scored:,}", number(shown.value), interval(shown.ci95) if shown.ci95 else "-"]
        for name, row in table.rows.items()
        for (_, column), shown in zip(table.columns, row, strict=True)
        if shown
    ]
    terminal.print_table(terminal.console(), [table.corner, over, "n", "value", "95 % interval"], rows, n_words=2)


def print_testbed(bench: Benchmark, model: str, testbed: str, results: Mapping[str, PlainResult], folder: Path) -> None:
    """Print the results of a testbed's configs and what they say together; write its picture, if any, to the folder."""
    console, rows = terminal.console(), []
    figures_of = {config: result["scores"] for config, result in results.items()}
    first, *others = [
        each for each in bench.metrics if any(of[each]["value"] is not None for of in figures_of.values())
    ]
    for config, result in results.items():
        scores = figures_of[config]
        cells = [value_text(scores[each]) for each in (first, *others)]
        n = f"{result['counters']['n_examples']:,}"
        rows.append([config, n, cells[0], interval_text(scores[first]), *cells[1:]])
    names = [bench.metrics[each] for each in (first, *others)]
    terminal.print_table(console, ["config", "n", names[0], "95 % interval", *names[1:]], rows)
    for warning in warnings_together(results):
        console.print(f"[yellow]![/yellow] {escape(str(warning))}")
    rules = bench.asking.testbeds[testbed]
    for sentence in rules.summary(figures_of) if rules.summary else ():
        console.print(escape(sentence))
    if rules.panels:
        file = folder / f"{testbed}.png"
        plot_panels(rules.panels(_with_others(folder, model, figures_of, results))).savefig(file, dpi=150)
        terminal.echo(str(file))


def _with_others(
    folder: Path, model: str, scores: ConfigScores, results: Mapping[str, PlainResult]
) -> Mapping[str, ConfigScores]:
    """Return the figures of all systems in the folder, where this one is among them; else its own alone."""
    first = next(iter(results.values()))
    runs = read_runs(folder, first["split"])
    if (runs.mode, runs.revision) != (first["mode"], first["dataset_revision"]):
        return {model: scores}
    systems = {
        name: {config: each.result["scores"] for config, each in of.items()} for name, of in runs.systems.items()
    }
    return systems if any(scores.items() <= each.items() for each in systems.values()) else {model: scores}
