"""What others have published, as tables in a terminal and as JSON: every figure with its digits, kind and source."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kbbench_hf.benchmarks import Place
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.benchmarks.baselines import published_beside, published_rows
from kbbench_hf.benchmarks.published import Figures, PublishedFigure, PublishedRow, Source
from kbbench_hf.reports.tables import empty_table, label
from kbbench_hf.scoring.result import Result

REMARK = "*"
"""Marks a figure of which something is to be said."""
MAX_NAME = 32
"""Characters of a system's name before it is broken over lines."""


def published_json(places: Iterable[Place]) -> dict[str, object]:
    """Return everything published in these places: the sources once, and each row with its figures and parts."""
    rows = [row for place in places for row in published_rows(*place)]
    sources = dict.fromkeys(source for row in rows for source in row.sources)
    return {
        "sources": {source.name: asdict(source) for source in sources},
        "rows": [
            {
                **row.place._asdict(),
                "system": row.system,
                "id": row.id,
                "figures": _plain(row.figures),
                "slices": {
                    name: {key: _plain(figures) for key, figures in keys.items()} for name, keys in row.slices.items()
                },
            }
            for row in rows
        ],
    }


def _plain(figures: Figures) -> dict[str, dict[str, object]]:
    return {
        metric: {
            "value": figure.value,
            "printed": figure.printed,
            "digits": figure.digits,
            "kind": figure.kind,
            "source": figure.source.name,
            "key": figure.key,
            "note": figure.note,
        }
        for metric, figure in figures.items()
    }


def print_published(benchmark: Benchmark, places: Iterable[Place]) -> None:
    """Print what is published in these places: a table each, then its sources by number and its remarks."""
    console = Console()
    for n, place in enumerate(places):
        rows = published_rows(*place)
        sources = list(dict.fromkeys(source for row in rows for source in _sources(row.figures)))
        if n:
            console.print()
        mode = f"mode {place.mode}" if place.mode else "no mode stated"
        console.print(f"[bold]{escape(place.config)}, {escape(place.split)}[/bold], {mode}", highlight=False)
        numbers = [
            f"{_kinds(row)} {', '.join(str(sources.index(source) + 1) for source in _sources(row.figures))}"
            for row in rows
        ]
        others = _print_rows(console, benchmark, rows, ("from", numbers))
        for number, source in enumerate(sources, start=1):
            note = f"; {source.note}" if source.note else ""
            console.print(f"[dim]{number} {source.kind}: {escape(f'{source}{note}')}[/dim]", highlight=False)
        for words in _remarks(rows, benchmark):
            console.print(f"[dim]{REMARK} {escape(words)}[/dim]", highlight=False)
        parts = [(row.system, name, len(keys)) for row in rows for name, keys in row.slices.items()]
        if parts or others:
            by = [f"{system} by {name} ({count})" for system, name, count in parts]
            console.print(f"[dim]In a wider terminal or with --json: {' · '.join([*others, *by])}[/dim]")


def _remarks(rows: Iterable[PublishedRow], benchmark: Benchmark) -> list[str]:
    """Return what is to be said of figures, each sentence once, with the systems and metrics of which it is said."""
    said: dict[str, list[str]] = {}
    for row in rows:
        for note in dict.fromkeys(row.notes.values()):
            metrics = ", ".join(label(benchmark, metric) for metric, each in row.notes.items() if each == note)
            said.setdefault(note.removesuffix("."), []).append(f"{row.system} {metrics}")
    return [f"{note}: {'; '.join(figures)}" for note, figures in said.items()]


def print_beside(result: Result, benchmark: Benchmark) -> None:
    """Print the published systems next above and below a result, saying where they differ in split or mode."""
    console = Console()
    scores = {metric: figure.value for metric, figure in result.scores.items() if figure.n_scored}
    beside = published_beside(result.place, scores)
    if not beside:
        return
    where = f"published for {beside[0].elsewhere}, not for this" if beside[0].elsewhere else "published for the same"
    colour = "yellow" if beside[0].elsewhere else "dim"
    name = f"{benchmark.dataset}{'' if len(benchmark.data.configs) == 1 else f'/{result.config}'}"
    console.print(f"\n[{colour}]Nearest {where}; all: kbbench list {name} --published[/{colour}]", highlight=False)
    _print_rows(console, benchmark, [each.row for each in beside], ("kind", [_kinds(each.row) for each in beside]))


def _sources(figures: Figures) -> list[Source]:
    return list(dict.fromkeys(figure.source for figure in figures.values()))


def _kinds(row: PublishedRow) -> str:
    return ", ".join(dict.fromkeys(source.kind for source in _sources(row.figures)))


def _print_rows(
    console: Console, benchmark: Benchmark, rows: Sequence[PublishedRow], second: tuple[str, Sequence[str]]
) -> list[str]:
    """Print systems by metrics, as many as fit the terminal's width; return the labels of the others."""
    there = dict.fromkeys(metric for row in rows for metric in row.figures)
    metrics = [metric for metric in benchmark.metrics if metric in there]
    metrics += [metric for metric in there if metric not in benchmark.metrics]
    labels = [label(benchmark, metric) for metric in metrics]
    cells = [[_cell(row.figures, metric) for metric in metrics] for row in rows]
    widths = [max(map(len, column)) + 2 for column in zip(labels, *cells, strict=True)]
    name_width = min(MAX_NAME, max(len(row.system) for row in rows))
    left = console.width - name_width - max(map(len, (second[0], *second[1]))) - 2
    n_shown = max(1, sum(end <= left for end in itertools.accumulate(widths)))
    table: Table = empty_table("system", second[0], *labels[:n_shown])
    for row, said, figures in zip(rows, second[1], cells, strict=True):
        table.add_row(escape(row.system), said, *figures[:n_shown])
    console.print(table)
    return labels[n_shown:]


def _cell(figures: Mapping[str, PublishedFigure], metric: str) -> str:
    figure = figures.get(metric)
    return f"{figure.printed}{REMARK if figure.note else ''}" if figure else ""
