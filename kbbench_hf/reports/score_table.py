"""Tables of scores with intervals (terminal, LaTeX, CSV), results of a testbed, and the report of all testbeds.

The report of several systems is an HTML page, LaTeX, CSV, and each plot as PDF: `write_evaluation`. `kbbench run
--testbed` and `report` use it. What is in the tables and plots is the benchmark's (`benchmarks.charts`), here is how
they look. Equal runs give equal files.
"""

import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup
from rich.markup import escape

from kbbench_hf.benchmarks import at_hand
from kbbench_hf.benchmarks.base import Benchmark, ConfigScores
from kbbench_hf.benchmarks.charts import Panels, ScoreTable, Section, ShownScore
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import DatasetFolder
from kbbench_hf.files.writing import write_bytes, write_text
from kbbench_hf.reports import tables, terminal
from kbbench_hf.reports.page import TEMPLATES
from kbbench_hf.reports.plots import COLOURS, MARKERS, plot_panels, styles_of
from kbbench_hf.reports.tables import bold, interval, latex, number, tabular
from kbbench_hf.scoring.result import PlainResult
from kbbench_hf.scoring.stored_runs import StoredRuns, read_runs, warnings_together

DIGITS = 3
WEAK = "*"
"""Marks a score that a warning of its run weakens."""
WIDE = 7
"""A LaTeX table with more columns is scaled to the width of the page."""
CSV_HEADS = ("section", "table", "system", "over", "column", "value", "low", "high", "n_scored", "weakened")


class Cell(NamedTuple):
    """A score as it is written."""

    value: str
    interval: str = ""
    best: bool = False
    shade: float = 0.0
    """The strength of a cell's background, from 0 to 1."""


def heads_of(table: ScoreTable) -> list[tuple[str, int]]:
    """Return the headings above those of the columns, and how many columns each spans; empty if none has a text."""
    spans = [(over, len(list(columns))) for over, columns in groupby(over for over, _ in table.columns)]
    return spans if any(over for over, _ in spans) else []


def cells(table: ScoreTable) -> dict[str, list[Cell]]:
    """Return name of the row -> cells; a dash for a cell without a score."""
    best = [_best(table, column) for column in range(len(table.columns))]
    rows = {name: [*zip(row, best, strict=True)] for name, row in table.rows.items()}
    return {name: [_cell(shown, top, table) for shown, top in row] for name, row in rows.items()}


def _best(table: ScoreTable, column: int) -> float:
    """Return the best value of a column; NaN if all are equal or the table marks none."""
    values = [shown.value for row in table.rows.values() if (shown := row[column])]
    if table.best is None or len(set(values)) < 2:
        return math.nan
    return max(values) if table.best == "highest" else min(values)


def _cell(shown: ShownScore | None, best: float, table: ScoreTable) -> Cell:
    if shown is None:
        return Cell("-")
    digits = DIGITS if shown.digits is None else shown.digits
    ends = "" if shown.ci95 is None else f"[{shown.ci95[0]:,.{digits}f}, {shown.ci95[1]:,.{digits}f}]"
    shade = max(0.0, shown.value) if table.shaded else 0.0
    return Cell(f"{shown.value:,.{digits}f}{WEAK if shown.weak else ''}", ends, shown.value == best, shade)


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
    """Yield a line per score at full precision, under `CSV_HEADS`."""
    for name, row in table.rows.items():
        for (over, column), shown in zip(table.columns, row, strict=True):
            if shown is not None:
                low, high = shown.ci95 or ("", "")
                yield [section, table.name, name, over.strip(), column.strip(), shown.value, low, high,
                       shown.n_scored or "", "yes" if shown.weak else ""]  # fmt: skip


def table_to_json(table: ScoreTable) -> Mapping[str, object]:
    """Return row -> column -> score as JSON values, for --json; columns without one are left out."""
    return {
        name: {column: shown._asdict() for (_, column), shown in zip(table.columns, row, strict=True) if shown}
        for name, row in table.rows.items()
    }


def print_table(table: ScoreTable) -> None:
    """Print a line per score, with its interval."""
    over = next((words for words, _ in table.columns if words), "")
    rows = [
        [name, column, f"{shown.n_scored:,}", number(shown.value), interval(shown.ci95) if shown.ci95 else "-"]
        for name, row in table.rows.items()
        for (_, column), shown in zip(table.columns, row, strict=True)
        if shown
    ]
    terminal.print_table(terminal.console(), [table.corner, over, "n", "value", "95 % interval"], rows, n_words=2)


def print_testbed(bench: Benchmark, model: str, testbed: str, results: Mapping[str, PlainResult], folder: Path) -> None:
    """Print the results of a testbed's configs, their warnings and summary; write its picture into `folder`."""
    console, rows = terminal.console(), []
    figures_of = {config: result["scores"] for config, result in results.items()}
    known = [each for each in bench.metrics if any(of[each]["value"] is not None for of in figures_of.values())]
    for config, scores in figures_of.items():
        cells, n = [tables.value_text(scores[each]) for each in known], results[config]["counters"]["n_examples"]
        rows.append([config, f"{n:,}", cells[0], tables.interval_text(scores[known[0]]), *cells[1:]])
    names = [bench.metrics[each] for each in known]
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
    """Return system -> config -> scores of all systems in the folder, if this one is among them; else its own alone."""
    first = next(iter(results.values()))
    runs = read_runs(folder, first["split"])
    if (runs.mode, runs.revision) != (first["mode"], first["dataset_revision"]):
        return {model: scores}
    systems = {
        name: {config: each.result["scores"] for config, each in of.items()} for name, of in runs.systems.items()
    }
    return systems if any(scores.items() <= each.items() for each in systems.values()) else {model: scores}


MOST_COLUMNS = 10
"""On the page, a table with more columns is split by the headings above them."""
PAGE, TEX, CSV = "report.html", "report.tex", "report.csv"
_SIGNS = dict(zip(MARKERS, "●■◆▲▼✚★✖", strict=True))
"""Marker of matplotlib -> the sign of the page's legend."""
_THEMED = {colour: f"var(--s{n})" for n, colour in enumerate(COLOURS)} | {
    "#000000": "currentColor",
    "#dddddd": "var(--line)",
    "#999999": "var(--quiet)",
}
_PREAMBLE = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
\usepackage[a4paper,landscape,margin=1.5cm]{geometry}
\usepackage{booktabs}
\usepackage{graphicx}
\begin{document}
"""


def write_evaluation(runs: StoredRuns, out: Path) -> list[Path]:
    """Write the evaluation of several systems into the folder `out`; return the page, the LaTeX and the CSV file.

    Raises:
        UsageError: the benchmark has no evaluation of its own, or `out` is named like a file.
    """
    if out.suffix in (".html", ".tex", ".csv", ".pdf"):
        raise UsageError(f"--out {out} names a file; of a folder of runs a folder is written. Name one.")
    showing = runs.benchmark.showing
    if showing.evaluation is None:
        raise UsageError(
            f"{runs.benchmark.dataset} has no testbeds to report together; expected a benchmark that has. To compare "
            "its systems, name their runs: kbbench report RUN RUN."
        )
    data = at_hand(runs.benchmark.dataset)
    there = data if data is not None and data.revision == runs.revision else None
    sections = list(showing.evaluation(runs.systems, there, runs.split))
    published = list(showing.published_evaluation()) if showing.published_evaluation else []
    out.mkdir(parents=True, exist_ok=True)
    names = list(runs.systems)
    for section in sections:
        for name, drawn in _pictures(section):
            write_bytes(out / f"{name}.pdf", _render_panels(drawn, names, "pdf", name))
    write_text(out / PAGE, _page(runs, sections, published, there))
    write_text(out / TEX, _document(runs, sections, published, there))
    lines = [line for section in sections for table in section.tables for line in csv_lines(section.title, table)]
    write_text(out / CSV, tables.csv_text(CSV_HEADS, lines))  # type: ignore[arg-type]
    return [out / PAGE, out / TEX, out / CSV]


def _place(runs: StoredRuns) -> str:
    """Return split, mode and data of runs in words."""
    return f"{runs.split}, mode {runs.mode}, data {runs.revision}"


def _page(
    runs: StoredRuns, sections: Sequence[Section], published: Sequence[Section], data: DatasetFolder | None
) -> str:
    """Return the HTML page; `data` is None if the runs' revision is not installed."""
    return TEMPLATES.get_template("evaluation.html.jinja").render(
        title=f"{runs.benchmark.title}: {tables.counted(len(runs.systems), 'systems')}",
        place=_place(runs),
        warnings=_warnings(runs, data),
        coverage=_coverage(runs, data),
        sections=[_section_context(section, list(runs.systems)) for section in sections],
        published=[_section_context(section, []) for section in published],
        weak=WEAK,
        paper=runs.benchmark.facts.paper,
    )


def _warnings(runs: StoredRuns, data: DatasetFolder | None) -> list[ScoreWarning]:
    """Return the warnings of the runs, and notes on absent data and on runs that are left out."""
    absent = f"Dataset revision {runs.revision[:8]} is not installed; tables that describe the data are left out."
    notes = [ScoreWarning("data", absent, severity="note")] if data is None else []
    notes += [ScoreWarning("left_out", words, severity="note") for words in runs.left_out]
    return tables.ordered_warnings([*runs.warnings, *notes], runs.benchmark.headline)


def _coverage(runs: StoredRuns, data: DatasetFolder | None) -> dict[str, object]:
    """Return how many configs of each testbed each system ran, of those that the dataset has."""
    testbeds = {name: each for name, each in runs.benchmark.asking.testbeds.items() if each.sends}
    ran = {config for by_config in runs.systems.values() for config in by_config}
    built = ran | set(data.configs() if data else ())
    has = {name: [config for config in each.configs(None) if config in built] for name, each in testbeds.items()}
    heads = ["system", *(name.replace("_", " ") for name in has if has[name])]
    rows = [
        [system, *(f"{sum(c in by_config for c in of):,} of {len(of):,}" for of in has.values() if of)]
        for system, by_config in runs.systems.items()
    ]
    return {"heads": heads, "rows": rows}


def _section_context(section: Section, systems: Sequence[str]) -> dict[str, object]:
    """Return the values of the template for a section; without systems (published ones) it has no pictures."""
    return {
        "title": section.title,
        "notes": section.notes,
        "pictures": [_picture(name, drawn, systems) for name, drawn in _pictures(section) if systems],
        "tables": [part for table in section.tables if table.rows for part in _split_wide_table(table)],
    }


def _split_wide_table(table: ScoreTable) -> list[dict[str, object]]:
    """Return a table as the page shows it: a wide one in parts, one for each heading over its columns."""
    over, rows, whole = heads_of(table), cells(table), len(table.columns)
    split = whole > MOST_COLUMNS and len(over) > 1
    parts: list[dict[str, object]] = []
    start = 0
    for title, span in over if split else [("", whole)]:
        chosen = slice(start, start + span)
        start += span
        parts.append({
            "table": table,
            "title": f"{table.title}: {title}" if title else table.title,
            "over": [] if split else over,
            "heads": [name for _, name in table.columns[chosen]],
            "rows": [(name, row[chosen]) for name, row in rows.items()],
            "notes": table.notes if start == whole else (),
        })  # fmt: skip
    return parts


def _pictures(section: Section) -> list[tuple[str, Panels]]:
    """Return the pictures that have a panel."""
    return [(name, drawn) for name, drawn in section.pictures.items() if drawn.panels]


def _picture(name: str, drawn: Panels, systems: Sequence[str]) -> dict[str, object]:
    """Return each panel as an SVG in the page's colors, and the legend: system, sign and color."""
    there = list(dict.fromkeys(each for panel in drawn.panels for each in panel.series))
    styles = styles_of(systems if set(there) <= set(systems) else there)
    signs = [(each, _SIGNS[styles[each]["marker"]], COLOURS.index(styles[each]["color"])) for each in there]
    panels = []
    for n, panel in enumerate(drawn.panels):
        one = Panels(**{**vars(drawn), "panels": [panel]})
        svg = _render_panels(one, list(styles), "svg", f"{name}-{n}", legend=False).decode()
        panels.append((panel.title or drawn.title or name, Markup(_themed(svg))))  # noqa: S704  # drawn here
    return {"title": drawn.title, "signs": signs, "panels": panels, "bars": drawn.bars}


def _render_panels(drawn: Panels, systems: Sequence[str], form: str, name: str, *, legend: bool = True) -> bytes:
    """Return a picture as SVG or PDF (`form`), without a date; `name` makes the ids of an SVG."""
    from matplotlib import rc_context

    sink = io.BytesIO()
    with rc_context({"font.size": 12, "svg.fonttype": "none", "pdf.fonttype": 42, "svg.hashsalt": name}):
        figure = plot_panels(drawn, systems, legend=legend)
        metadata = {"Date": None} if form == "svg" else {"CreationDate": None}
        figure.savefig(sink, format=form, transparent=True, metadata=metadata)
    return sink.getvalue()


def _themed(svg: str) -> str:
    """Return an SVG for a page: without prologue and metadata, in the page's colors."""
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.S)
    return re.sub("|".join(_THEMED), lambda found: _THEMED[found[0]], svg)


def _document(
    runs: StoredRuns, sections: Sequence[Section], published: Sequence[Section], data: DatasetFolder | None
) -> str:
    """Return a whole LaTeX document of all tables, and of the pictures beside it."""
    parts = [_PREAMBLE, f"\\section*{{{latex(runs.benchmark.title)}}}\n{latex(_place(runs))}\n\n"]
    parts += [f"\\par {latex(str(each))}\n" for each in _warnings(runs, data)]
    parts += _latex_lines(sections)
    if published:
        parts.append("\\clearpage\\section*{Published, on other data}\n")
        parts += _latex_lines(published, pictures=False)
    return "".join([*parts, "\\end{document}\n"])


def _latex_lines(sections: Sequence[Section], *, pictures: bool = True) -> Iterator[str]:
    """Yield the LaTeX of sections: title, notes, tables, and figures that include the PDFs next to the document."""
    for section in sections:
        yield f"\\section{{{latex(section.title)}}}\n" + "".join(f"\\par {latex(note)}\n" for note in section.notes)
        yield from (as_latex(table) for table in section.tables if table.rows)
        for name, drawn in _pictures(section) if pictures else ():
            yield (
                "\\begin{figure}[htbp]\n\\centering\n"
                f"\\includegraphics[width={min(1, len(drawn.panels) / 3):.2f}\\linewidth]{{{name}.pdf}}\n"
                f"\\caption{{{latex(drawn.title or section.title)}}}\\label{{{name}-plot}}\n\\end{{figure}}\n"
            )
        yield "\\clearpage\n"
