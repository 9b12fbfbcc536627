"""Directives for what is published of benchmarks: `published NAME ...`, its tables; `citation NAME`, how it is cited.

And `card NAME`: sections of a dataset's card, whose headings the lines of the directive name.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from kbbench_hf.benchmarks import benchmark
from kbbench_hf.benchmarks.base import Benchmark, TaskKey
from kbbench_hf.benchmarks.baselines import published_places, published_rows
from kbbench_hf.benchmarks.charts import ScoreTable
from kbbench_hf.benchmarks.published import PublishedRow, PublishedScore, Source
from kbbench_hf.reports.score_table import cells
from kbbench_hf.reports.tables import label


def markdown_table(head: Iterable[str], rows: Iterable[Iterable[str]], n_words: int = 1) -> str:
    """Return a table in Markdown: words to the left in the first columns, figures to the right in the others."""
    columns = list(head)
    lines = [columns, [*["---"] * n_words, *["---:"] * (len(columns) - n_words)], *map(list, rows)]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def places_of(name: str) -> list[TaskKey]:
    """Return the places of a dataset that have published figures."""
    return [place for place in published_places() if place.benchmark == name]


def cited(sources: Sequence[Source]) -> str:
    """Return sources as a numbered list, each with its kind and what is to be known of it."""
    return "\n".join(
        f"{number}. [{source}]({source.url}), {source.kind}{f'; {source.note}' if source.note else ''}"
        for number, source in enumerate(sources, start=1)
    )


def published_table(found: Benchmark, place: TaskKey) -> str:
    """Return what is published in a place, in Markdown: systems by metric, and sources; second-hand scores folded."""
    rows, second_hand = (
        [part for row in published_rows(*place) if (part := row.part(second_hand=each)).figures]
        for each in (False, True)
    )
    mode = f"mode `{place.mode}`" if place.mode else "no mode stated"
    heading = f"**`{place.benchmark}/{place.config}`, split `{place.split}`, {mode}**"
    tables = [_rows_table(found, rows)] if rows else []
    if second_hand:
        folded = _rows_table(found, second_hand)
        tables.append(f"<details><summary>Second-hand scores</summary>\n\n{folded}\n\n</details>")
    return "\n\n".join([heading, *tables]) + "\n" if tables else ""


def _rows_table(found: Benchmark, rows: Sequence[PublishedRow]) -> str:
    known = list(dict.fromkeys(metric for row in rows for metric in row.figures))
    metrics = sorted(known, key=[*found.metrics, *known].index)
    sources = list(dict.fromkeys(figure.source for row in rows for figure in row.figures.values()))
    body = []
    for row in rows:
        numbers = sorted({sources.index(figure.source) + 1 for figure in row.figures.values()})
        cells = (_cell(row.figures.get(metric)) for metric in metrics)
        body.append([row.system, row.year, row.model, *cells, ", ".join(map(str, numbers))])
    head = ["system", "year", "model", *(label(found, metric) for metric in metrics), "from"]
    return f"{markdown_table(head, body, n_words=3)}\n\n{cited(sources)}"


def _cell(figure: PublishedScore | None) -> str:
    return "" if figure is None else rf"{figure.printed}\*" if figure.note else figure.printed


def evaluation_table(table: ScoreTable) -> str:
    """Return a table of a paper in Markdown."""
    head = [table.corner, *(" ".join(filter(None, (over.strip(), own.strip()))) for over, own in table.columns)]
    body = [[name, *(cell.value for cell in row)] for name, row in cells(table).items()]
    return f"**{table.title}**\n\n{markdown_table(head, body)}\n"


def section(card: str, heading: str) -> str:
    """Return what a card says under a heading.

    Raises:
        ValueError: it has no such heading.
    """
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", card, re.M | re.S)
    if found is None:
        raise ValueError(f"no heading {heading!r}; expected one of {re.findall(r'^## (.*)', card, re.M)}")
    return found[1].strip()


class _OfBenchmarks(SphinxDirective):
    """A directive whose argument names datasets; pages are read again when what is published of them changes."""

    required_arguments = 1
    final_argument_whitespace = True

    def named(self) -> list[Benchmark]:
        found = [benchmark(name) for name in self.arguments[0].split()]
        for each in found:
            if each.showing.published is None:
                raise self.error(f"{each.dataset}: nothing of it is published")
            self.env.note_dependency(str(each.showing.published))
        return found


class _Published(_OfBenchmarks):
    def run(self) -> list[nodes.Node]:
        parts = []
        for found in self.named():
            if evaluation := found.showing.published_evaluation:
                tables = [table for each in evaluation() for table in each.tables if table.name.startswith("table-")]
                parts += map(evaluation_table, tables)
            else:
                parts += [published_table(found, place) for place in places_of(found.dataset)]
        return self.parse_text_to_nodes("\n".join(filter(None, parts)))


class _Citation(_OfBenchmarks):
    def run(self) -> list[nodes.Node]:
        text = self.named()[0].facts.citation.strip()
        return [nodes.literal_block(text, text, language="bibtex")]


class _Card(_OfBenchmarks):
    has_content = True

    def run(self) -> list[nodes.Node]:
        (found,) = self.named()
        published = Path(str(found.showing.published))
        file = published.parents[2] / "building" / published.parent.name / "cards" / f"{found.dataset}.md"
        self.env.note_dependency(str(file))
        card = file.read_text(encoding="utf-8")
        return self.parse_text_to_nodes("\n\n".join(section(card, heading) for heading in self.content if heading))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    for name, directive in {"published": _Published, "citation": _Citation, "card": _Card}.items():
        app.add_directive(name, directive)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
