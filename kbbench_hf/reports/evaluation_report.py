"""Report of several systems over all testbeds of a benchmark: an HTML page, LaTeX, CSV, and each plot as PDF."""

import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from markupsafe import Markup

from kbbench_hf.benchmarks import at_hand
from kbbench_hf.benchmarks.charts import Panels, ScoreTable, Section
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import DatasetFolder
from kbbench_hf.files.writing import write_bytes, write_text
from kbbench_hf.reports.latex import latex
from kbbench_hf.reports.page import TEMPLATES
from kbbench_hf.reports.plots import COLOURS, MARKERS, plot_panels, styles_of
from kbbench_hf.reports.score_table import CSV_HEADS, WEAK, as_latex, cells, csv_lines, heads_of
from kbbench_hf.reports.tables import csv_text, ordered_warnings
from kbbench_hf.scoring.stored_runs import StoredRuns

MOST_COLUMNS = 10
"""A table of more columns is wider than the page."""
PAGE, TEX, CSV = "report.html", "report.tex", "report.csv"
_SIGNS = dict(zip(MARKERS, "●■◆▲▼✚★✖", strict=True))
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
    """Write the evaluation of several systems into a folder; return the page, the LaTeX and the CSV file.

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
    write_text(out / CSV, csv_text(CSV_HEADS, lines))  # type: ignore[arg-type]
    return [out / PAGE, out / TEX, out / CSV]


def _place(runs: StoredRuns) -> str:
    return f"{runs.split}, mode {runs.mode}, data {runs.revision}"


def _page(
    runs: StoredRuns, sections: Sequence[Section], published: Sequence[Section], data: DatasetFolder | None
) -> str:
    n = len(runs.systems)
    return TEMPLATES.get_template("evaluation.html.jinja").render(
        title=f"{runs.benchmark.title}: {n} system{'' if n == 1 else 's'}",
        place=_place(runs),
        warnings=_warnings(runs, data),
        coverage=_coverage(runs, data),
        sections=[_section_context(section, list(runs.systems)) for section in sections],
        published=[_section_context(section, []) for section in published],
        weak=WEAK,
        paper=runs.benchmark.facts.paper,
    )


def _warnings(runs: StoredRuns, data: DatasetFolder | None) -> list[ScoreWarning]:
    found = list(runs.warnings)
    if data is None:
        words = f"Dataset revision {runs.revision[:8]} is not installed; tables that describe the data are left out."
        found.append(ScoreWarning("data", words, severity="note"))
    found += [ScoreWarning("left_out", words, severity="note") for words in runs.left_out]
    return ordered_warnings(found, runs.benchmark.headline)


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
    return {
        "title": section.title,
        "notes": section.notes,
        "pictures": [_picture(name, drawn, systems) for name, drawn in _pictures(section) if systems],
        "tables": [part for table in section.tables if table.rows for part in _parts(table)],
    }


def _parts(table: ScoreTable) -> list[dict[str, object]]:
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
