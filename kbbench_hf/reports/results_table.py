"""Results of several systems as a table: terminal, LaTeX, Markdown, CSV, HTML; best scores in bold."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from rich.markup import escape

from kbbench_hf.benchmarks.charts import ShownScore
from kbbench_hf.metrics.significance import ALPHA
from kbbench_hf.reports import terminal
from kbbench_hf.reports.html import templates
from kbbench_hf.reports.latex import bold, latex, tabular
from kbbench_hf.reports.tables import (
    clusters_text,
    csv_text,
    directed_label,
    interval,
    label,
    metric_legend,
    ordered_warnings,
    print_warnings,
)
from kbbench_hf.scoring.results_table import Block, HeadToHead, SystemScore

DAGGER = "†"
DIGITS = 3


class ResultCell(NamedTuple):
    """A cell as it is shown."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class Sheet:
    """Blocks side by side, a row per system: cells that only need to be written in some language."""

    title: str
    blocks: Sequence[tuple[str, Sequence[str]]]
    """Each block's name, and its headings; the first is `#` where rank groups are known."""
    rows: Sequence[tuple[str, Sequence[ResultCell]]]
    """Each system's name, with its mark, and its cells."""
    spaced: frozenset[int]
    """The rows that begin another rank group, where there is one block."""
    notes: Sequence[str]


def sheet(blocks: Sequence[Block], *, percent: bool = False, warnings: bool = True) -> Sheet:
    """Lay the blocks side by side: scores with three decimals, published ones with the digits that were printed."""
    names = list(dict.fromkeys(each.name for block in blocks for each in block.systems))
    columns = [_columns(block) for block in blocks]
    rows = [
        (
            f"{name}{_mark(name, blocks)}",
            [
                cell
                for block, heads in zip(blocks, columns, strict=True)
                for cell in _cells(block, heads, name, percent)
            ],
        )
        for name in names
    ]
    spaced: list[int] = []
    if len(blocks) == 1:
        groups = [blocks[0].groups.get(name) for name in names]
        known = [(row, group) for row, group in enumerate(groups) if group is not None]
        spaced = [row for (_, before), (row, group) in pairwise(known) if group != before]
    titles = [_title(block, blocks) for block in blocks]
    heads = [
        (title, [each if each == "#" else directed_label(block.benchmark, each) for each in chosen])
        for title, block, chosen in zip(titles, blocks, columns, strict=True)
    ]
    legends = dict.fromkeys(metric_legend(block.benchmark, block.metrics) for block in blocks)
    notes = [*filter(None, legends), *_notes(blocks, percent), *(_caveats(blocks) if warnings else ())]
    return Sheet(caption(blocks), heads, rows, frozenset(spaced), notes)


def _caveats(blocks: Sequence[Block]) -> list[str]:
    """Return the warnings of a table in one line each, without what to type, those of the largest effect first."""
    return [
        f"{each.system}: {each.message}" if each.system else each.message
        for block in blocks
        for each in ordered_warnings(block.warnings, block.metrics[0])
        if each.inseparable
    ]


def as_latex(blocks: Sequence[Block], *, percent: bool = False) -> str:
    """Return a `table` with caption and notes; it needs booktabs and nothing else."""
    made = sheet(blocks, percent=percent)
    second = [("System", 1), *((latex(head), 1) for _, heads in made.blocks for head in heads)]
    first = [("", 1), *((latex(title), len(heads)) for title, heads in made.blocks)]
    rows = [
        [latex(name), *(bold(latex(cell.text)) if cell.best else latex(cell.text) or "--" for cell in cells)]
        for name, cells in made.rows
    ]
    table = tabular([first, second] if len(made.blocks) > 1 else [second], rows, made.spaced)
    notes = "".join(f"\\par {latex(note)}\n" for note in made.notes)
    small = f"\\par\\medskip\\begin{{minipage}}{{\\linewidth}}\\footnotesize\\raggedright\n{notes}\\end{{minipage}}\n"
    return (
        f"\\begin{{table}}\n\\centering\n\\caption{{{latex(made.title)}}}\n{table}{small if notes else ''}"
        "\\end{table}\n"
    )


def as_markdown(blocks: Sequence[Block], *, percent: bool = False) -> str:
    """Return a table in GitHub's Markdown, with the notes under it."""
    made = sheet(blocks, percent=percent)
    several = len(made.blocks) > 1
    heads = ["System", *(f"{title} {head}" if several else head for title, heads in made.blocks for head in heads)]
    lines = [heads, ["---", *(["---:"] * (len(heads) - 1))]]
    lines += [
        [
            _escape_markdown(name),
            *map(_markdown_cell, cells),
        ]
        for name, cells in made.rows
    ]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return f"**{_escape_markdown(made.title)}**\n\n{table}\n" + "".join(
        f"{_escape_markdown(note)}\n\n" for note in made.notes
    )


def as_csv(blocks: Sequence[Block], *, percent: bool = False) -> str:
    """Return a line per place, system and metric at full precision: for spreadsheets and programs, never in percent."""
    heads = "benchmark config split mode system metric value low high group origin warnings".split()
    lines = [
        [
            *block.task_key,
            system.name,
            metric,
            shown.value,
            *(end if math.isfinite(end) else "" for end in shown.ci95 or (math.nan, math.nan)),
            block.groups.get(system.name, ""),
            "scored here" if system.result else "published",
            " ".join(dict.fromkeys(each.code for each in block.warnings if each.system in ("", system.name))),
        ]
        for block in blocks
        for system in block.systems
        for metric in block.metrics
        if (shown := system.figure(metric))
    ]
    return csv_text(heads, lines)


def as_html(blocks: Sequence[Block], *, percent: bool = False) -> str:
    """Return a `table` element with its caption and notes, for a page of one's own."""
    template = templates(Path(__file__).parent / "templates").get_template("results_table.html.jinja")
    return template.render(sheet=sheet(blocks, percent=percent))


FORMATS: Mapping[str, Callable[..., str]] = {
    "latex": as_latex,
    "markdown": as_markdown,
    "csv": as_csv,
    "html": as_html,
}
"""Name of a format -> (blocks, percent=...) -> the text of the table."""


def print_results_table(blocks: Sequence[Block], *, percent: bool = False, notes: bool = False) -> None:
    """Print each block, its tests, and what weakens them."""
    console = terminal.console()
    for number, block in enumerate(blocks):
        made = sheet([block], percent=percent)
        if number:
            console.print()
        console.print(f"[bold]{escape(made.title)}[/bold]")
        rows = [
            [name, *(terminal.Best(cell.text) if cell.best else cell.text for cell in cells)]
            for name, cells in made.rows
        ]
        heads = [each.removesuffix(" ↑") for each in made.blocks[0][1]]
        terminal.print_table(console, ["system", *heads], rows)
        if block.tests:
            console.print()
            p = "p (Holm)" if len(block.tests) > 1 else "p"
            heads = [f"A - B in {label(block.benchmark, block.metrics[0])}", "difference", "95 % interval", p]
            terminal.print_table(console, heads, [_test_cells(each) for each in block.tests])
        for note in (metric_legend(block.benchmark, block.metrics), *_notes([block], percent)):
            console.print(f"[dim]{escape(note)}[/dim]")
        print_warnings(console, block.warnings, block.metrics[0], all_notes=notes)


def _test_cells(each: HeadToHead) -> list[str]:
    mark = "*" if each.p_holm < ALPHA else " "
    return [
        f"{each.a} - {each.b}", f"{each.test.difference:+z.4f}", interval(each.test.ci95), f"{each.p_holm:.4f} {mark}",
    ]  # fmt: skip


def _columns(block: Block) -> list[str]:
    return ["#", *block.metrics] if len(block.groups) > 1 else [*block.metrics]


def _cells(block: Block, columns: Sequence[str], name: str, percent: bool) -> list[ResultCell]:
    system = next((each for each in block.systems if each.name == name), SystemScore(name))
    cells = []
    for column in columns:
        if column == "#":
            cells.append(ResultCell(str(block.groups.get(name, ""))))
            continue
        shown = system.figure(column)
        best = shown is not None and shown.value == block.best(column) and len(block.systems) > 1
        cells.append(ResultCell(_number(shown, percent), best))
    return cells


def _number(shown: ShownScore | None, percent: bool) -> str:
    if shown is None or not math.isfinite(shown.value):
        return ""
    digits = DIGITS if shown.digits is None else shown.digits
    return f"{100 * shown.value:.{max(0, digits - 2)}f}" if percent else f"{shown.value:.{digits}f}"


def _mark(name: str, blocks: Sequence[Block]) -> str:
    """Return the mark of a system whose figures others published."""
    rows = [each.published for block in blocks for each in block.systems if each.name == name and each.result is None]
    return DAGGER if any(rows) else ""


def _title(block: Block, blocks: Sequence[Block]) -> str:
    """Return a short title of a block, for headings: without what follows a colon, and without a shared family."""
    shared = {each.benchmark.title.partition(", ")[0] for each in blocks}
    _, _, rest = block.benchmark.title.partition(", ")
    title = (rest if rest and len(shared) == 1 else block.benchmark.title).partition(":")[0]
    datasets = {each.task_key.benchmark for each in blocks}
    return title if len(datasets) == len(blocks) else f"{title} {block.task_key.config}"


def caption(blocks: Sequence[Block]) -> str:
    """Return what tables and plots are about: benchmark, split, mode and the number of examples."""

    def words(block: Block) -> str:
        if log := next((each.result for each in block.systems if each.result and each.result.log), None):
            return f"{block.benchmark.title}, n = {len(log.ids):,}{clusters_text(log)}"
        task_key = block.task_key
        config = "" if task_key.config in ("default", block.benchmark.data.configs[0]) else f", {task_key.config}"
        scored = next((each.result for each in block.systems if each.result), None)
        n = f", n = {len(scored.ids):,}" if scored else ""
        return f"{block.benchmark.title}{config}: {task_key.split} split, mode {task_key.mode}{n}"

    return "; ".join(map(words, blocks))


def _notes(blocks: Sequence[Block], percent: bool) -> list[str]:
    notes = ["Values in percent."] if percent else []
    rows = [each.published for block in blocks for each in block.systems if each.published and not each.result]
    if sources := dict.fromkeys(str(source) for row in rows for source in row.sources):
        notes.append(f"{DAGGER} published: {'; '.join(sources)}.")
    for block in blocks:
        if len(block.groups) > 1:
            metric = label(block.benchmark, block.metrics[0])
            heading = "#" if len(blocks) == 1 else f"{block.benchmark.title} #"
            notes.append(
                f"{heading}: rank group. Systems in one group are not significantly different from its best in "
                f"{metric} (paired randomization test, Holm-adjusted, 5 %)."
            )
    return notes


def _markdown_cell(cell: ResultCell) -> str:
    return f"**{_escape_markdown(cell.text)}**" if cell.best else _escape_markdown(cell.text)


def _escape_markdown(text: str) -> str:
    """Return text as Markdown that shows it."""
    return "".join(f"\\{each}" if each in "\\|*_`<>[]#" else each for each in text)
