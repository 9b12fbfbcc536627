"""Results of several systems as a table (terminal, LaTeX, Markdown, CSV, HTML), and of two with their paired tests.

`kbbench report` and `compare` use it. Each format is made from one `Sheet`, so that all have the same cells; texts are
escaped for their language. The heads of CSV are read by programs.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from rich.markup import escape

from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.benchmarks.charts import ShownScore
from kbbench_hf.metrics.significance import minimum_detectable_effect
from kbbench_hf.reports import tables, terminal
from kbbench_hf.reports.tables import bold, latex, tabular
from kbbench_hf.scoring.comparison import Comparison, ShownTest
from kbbench_hf.scoring.results_table import Block, SystemScore

DAGGER = "†"
DIGITS = 3


class ResultCell(NamedTuple):
    """A cell as it is shown."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class Sheet:
    """Blocks side by side, a row per system: the cells as texts, not yet in any language."""

    title: str
    blocks: Sequence[tuple[str, Sequence[str]]]
    """Each block's name, and its headings; the first is `#` where rank groups are known."""
    rows: Sequence[tuple[str, Sequence[ResultCell]]]
    """Each system's name, with its mark, and its cells."""
    spaced: frozenset[int]
    """The rows that begin another rank group, where there is one block."""
    notes: Sequence[str]


def sheet(blocks: Sequence[Block], *, percent: bool = False, warnings: bool = True) -> Sheet:
    """Return the blocks side by side: scores with three decimals, published ones with the digits that were printed.

    `warnings` says whether the notes have those that must not be separated from the scores.
    """
    names = list(dict.fromkeys(each.name for block in blocks for each in block.systems))
    columns = [_columns(block) for block in blocks]
    pairs = [*zip(blocks, columns, strict=True)]
    rows = [
        (f"{name}{_mark(name, blocks)}", [cell for pair in pairs for cell in _cells(*pair, name, percent)])
        for name in names
    ]
    spaced: list[int] = []
    if len(blocks) == 1:
        groups = [blocks[0].groups.get(name) for name in names]
        known = [(row, group) for row, group in enumerate(groups) if group is not None]
        spaced = [row for (_, before), (row, group) in pairwise(known) if group != before]
    titles = [_title(block, blocks) for block in blocks]
    heads = [
        (title, [each if each == "#" else tables.directed_label(block.benchmark, each) for each in chosen])
        for title, block, chosen in zip(titles, blocks, columns, strict=True)
    ]
    legends = dict.fromkeys(tables.metric_legend(block.benchmark, block.metrics) for block in blocks)
    notes = [*filter(None, legends), *_notes(blocks, percent), *(_caveats(blocks) if warnings else ())]
    return Sheet(caption(blocks), heads, rows, frozenset(spaced), notes)


def _caveats(blocks: Sequence[Block]) -> list[str]:
    """Return the inseparable warnings of a table in one line each, without remedies, largest effects first."""
    return [
        f"{each.system}: {each.message}" if each.system else each.message
        for block in blocks
        for each in tables.ordered_warnings(block.warnings, block.metrics[0])
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
    caption = f"\\centering\n\\caption{{{latex(made.title)}}}\n"
    return f"\\begin{{table}}\n{caption}{table}{small if notes else ''}\\end{{table}}\n"


def as_markdown(blocks: Sequence[Block], *, percent: bool = False) -> str:
    """Return a table in GitHub's Markdown, with the notes under it."""
    made = sheet(blocks, percent=percent)
    several = len(made.blocks) > 1
    heads = ["System", *(f"{title} {head}" if several else head for title, heads in made.blocks for head in heads)]
    lines = [heads, ["---", *(["---:"] * (len(heads) - 1))]]
    lines += [[_escape_markdown(name), *map(_markdown_cell, cells)] for name, cells in made.rows]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    notes = "".join(f"{_escape_markdown(note)}\n\n" for note in made.notes)
    return f"**{_escape_markdown(made.title)}**\n\n{table}\n{notes}"


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
    return tables.csv_text(heads, lines)


def as_html(blocks: Sequence[Block], *, percent: bool = False) -> str:
    """Return a `table` element with its caption and notes, for a page of one's own."""
    from kbbench_hf.reports.page import TEMPLATES  # jinja2, which terminal tables do without

    return TEMPLATES.get_template("results_table.html.jinja").render(sheet=sheet(blocks, percent=percent))


FORMATS = {"latex": as_latex, "markdown": as_markdown, "csv": as_csv, "html": as_html}
"""Name of a format -> (blocks, percent=...) -> the text of the table."""


def print_results_table(blocks: Sequence[Block], *, percent: bool = False, notes: bool = False) -> None:
    """Print each block, its tests, notes and warnings."""
    console = terminal.console()
    for position, block in enumerate(blocks):
        made = sheet([block], percent=percent)
        if position:
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
            heads = [f"A - B in {tables.label(block.benchmark, block.metrics[0])}", "difference", "95 % interval", p]
            shown = test_cells(ShownTest(each.test, each.p_holm, len(block.tests)) for each in block.tests)
            rows = [[f"{each.a} - {each.b}", *row[:3]] for each, row in zip(block.tests, shown, strict=True)]
            terminal.print_table(console, heads, rows)
        for note in (tables.metric_legend(block.benchmark, block.metrics), *_notes([block], percent)):
            console.print(f"[dim]{escape(note)}[/dim]")
        tables.print_warnings(console, block.warnings, block.metrics[0], all_notes=notes)


def _columns(block: Block) -> list[str]:
    """Return the metrics of a block, after `#` if it has several rank groups."""
    return ["#", *block.metrics] if len(block.groups) > 1 else [*block.metrics]


def _cells(block: Block, columns: Sequence[str], name: str, percent: bool) -> list[ResultCell]:
    """Return the cells of a system in a block; empty ones if it is not in the block."""
    system = next((each for each in block.systems if each.name == name), SystemScore(name))
    cells = [ResultCell(str(block.groups.get(name, "")))] if columns[:1] == ["#"] else []
    for metric in columns[len(cells) :]:
        shown = system.figure(metric)
        best = shown is not None and shown.value == block.best(metric) and len(block.systems) > 1
        cells.append(ResultCell(_number(shown, percent), best))
    return cells


def _number(shown: ShownScore | None, percent: bool) -> str:
    """Return a score as text; empty without one. In percent it has two decimals less."""
    if shown is None or not math.isfinite(shown.value):
        return ""
    digits = DIGITS if shown.digits is None else shown.digits
    return f"{100 * shown.value:.{max(0, digits - 2)}f}" if percent else f"{shown.value:.{digits}f}"


def _mark(name: str, blocks: Sequence[Block]) -> str:
    """Return a dagger for a system with published scores only; else empty."""
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
    """Return the caption of tables and plots: benchmark, split, mode and number of examples of each block."""

    def words(block: Block) -> str:
        if log := next((each.result for each in block.systems if each.result and each.result.log), None):
            return f"{block.benchmark.title}, n = {len(log.ids):,}{tables.clusters_text(log)}"
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
            metric = tables.label(block.benchmark, block.metrics[0])
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
    console, chosen = terminal.console(), tables.chosen_slices(slices, first.example_slices)
    console.print(f"[bold]{escape(benchmark.title)}[/bold] · {tables.place_words(first)}")
    for letter, name, each in zip("AB", names, (first, second), strict=True):
        n_repeats = len(next(iter(each.repeats.values()), ()))
        console.print(f"{letter} {escape(name)}{f' (mean of {n_repeats} repeats)' if n_repeats else ''}")
    tests = comparison.shown(metrics)
    rows = [
        [
            tables.label(benchmark, metric),
            *(tables.number(each.scores[metric].value) if metric in each.scores else "" for each in (first, second)),
            *cells,
        ]
        for metric, cells in zip(tests, test_cells(tests.values()), strict=True)
    ]
    terminal.print_table(console, ["metric", "A", "B", "A - B", *TEST_HEADS], rows)
    console.print(f"[dim]{escape(tables.metric_legend(benchmark, tests))}[/dim]")
    console.print(f"[dim]{escape(test_legend(tests, benchmark))}[/dim]")
    headline = benchmark.headline
    if headline in tests:
        differences = first.compared[headline] - second.compared[headline]
        smallest = minimum_detectable_effect(differences, clusters=first.clusters, groups=first.groups)
        if smallest > 0:
            name = tables.label(benchmark, headline)
            console.print(
                f"[dim]Minimum detectable difference in {name} (80 % power): {tables.number(smallest)}.[/dim]"
            )
    tables.print_warnings(console, comparison.warnings, headline, all_notes=notes)
    for name in chosen:
        of_keys = comparison.shown_in_slice(name, headline)
        rows = [[key, *cells] for key, cells in zip(of_keys, test_cells(of_keys.values()), strict=True)]
        console.print()
        terminal.print_table(
            console, [tables.words(name), f"{tables.label(benchmark, headline)}: A - B", *TEST_HEADS], rows
        )
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
    start = "Paired over the examples scored for both. * significant at 5 %."
    others = [test for metric, test in tests.items() if metric != benchmark.headline]
    if benchmark.headline in tests and len(others) > 1:
        name = benchmark.metrics[benchmark.headline]
        return f"{start} p of {name} is unadjusted; the {len(others)} others and their intervals are Holm-adjusted."
    if len(others) > 1:
        return f"{start} p-values and intervals are Holm-adjusted over the {len(others)} metrics."
    return f"{start} p is unadjusted."


def test_cells(tests: Iterable[ShownTest]) -> list[list[str]]:
    """Return the cells of each test under `A - B` and `TEST_HEADS`; a dash for a difference that is NaN."""
    cells = []
    for shown in tests:
        test = shown.test
        difference = f"{test.difference:+z.4f}" if math.isfinite(test.difference) else "-"
        p = f"{shown.p:.4f} {'*' if shown.significant else ' '}"
        counts = f"{test.wins:,}/{test.ties:,}/{test.losses:,}"
        cells.append([difference, tables.interval(test.ci95), p, counts])
    return cells
