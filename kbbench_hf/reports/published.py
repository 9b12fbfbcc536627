"""Published scores in a terminal and as JSON, with their digits, kind and source.

`kbbench list --published` and `score` use it. A score is shown with the digits that were printed, and second-hand ones
apart. Keys of the JSON are public.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from rich.markup import escape

from kbbench_hf.benchmarks import PUBLISHED, TaskKey
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.benchmarks.baselines import published_answers, published_beside, published_rows
from kbbench_hf.benchmarks.published import PublishedRow, PublishedScore, PublishedScores, Source
from kbbench_hf.reports import terminal
from kbbench_hf.reports.tables import label
from kbbench_hf.scoring.result import Result

REMARK = "*"
"""Marks a score with a remark below the table."""


def published_json(places: Iterable[TaskKey]) -> dict[str, object]:
    """Return everything published on these tasks as JSON values: sources, and rows with their scores and slices."""
    rows = [row for task_key in places for row in published_rows(*task_key)]
    sources = dict.fromkeys(source for row in rows for source in row.sources)
    return {
        "sources": {source.name: asdict(source) for source in sources},
        "rows": [
            {
                **row.task_key._asdict(),
                **{name: getattr(row, name) for name in ("system", "id", "year", "model")},
                "figures": _scores_to_json(row.figures),
                "slices": {
                    name: {key: _scores_to_json(scores) for key, scores in keys.items()}
                    for name, keys in row.slices.items()
                },
            }
            for row in rows
        ],
    }


def _scores_to_json(scores: PublishedScores) -> dict[str, dict[str, object]]:
    """Return metric -> fields of the score; its source by name."""
    fields = ("value", "printed", "digits", "kind", "source", "key", "note")
    plain = {metric: {name: getattr(score, name) for name in fields} for metric, score in scores.items()}
    return {metric: {**of, "source": of["source"].name} for metric, of in plain.items()}


def print_published(benchmark: Benchmark, places: Iterable[TaskKey]) -> None:
    """Print the published scores of these tasks: a table each, second-hand scores apart, then sources and remarks."""
    console = terminal.console()
    for n, task_key in enumerate(places):
        rows = published_rows(*task_key)
        sources = list(dict.fromkeys(source for row in rows for source in _sources(row)))
        mode = f"mode {task_key.mode}" if task_key.mode else "no mode stated"
        separator = "\n" if n else ""
        console.print(f"{separator}[bold]{escape(task_key.config)}, {escape(task_key.split)}[/bold], {mode}")
        for second_hand in (False, True):
            shown = [part for row in rows if (part := row.part(second_hand=second_hand)).figures]
            if second_hand and shown:
                where = "not in tables, plots and leaderboards"
                console.print(f"Second-hand, not read in the text of the authors; {where}:")
            numbers = [", ".join(str(sources.index(each) + 1) for each in _sources(row)) for row in shown]
            words = {"from": [f"{_kinds(row)} [{number}]" for row, number in zip(shown, numbers, strict=True)]}
            years, models = [row.year for row in shown], ["" if row.model == row.system else row.model for row in shown]
            _print_rows(benchmark, shown, {**words, "year": years, "model": models}, benchmark.metrics)
            others = dict.fromkeys(each for row in shown for each in row.figures if each not in benchmark.metrics)
            _print_rows(benchmark, shown, words, others)
        for number, source in enumerate(sources, start=1):
            note = f"; {source.note}" if source.note else ""
            console.print(f"[dim]{escape(f'[{number}] {source.kind}: {source}{note}')}[/dim]")
        _print_remarks(benchmark, rows)
        if parts := [f"{row.system} by {name} ({len(keys)})" for row in rows for name, keys in row.slices.items()]:
            console.print(f"[dim]--json also has: {escape(', '.join(parts))}[/dim]")
        usual = task_key._replace(mode=task_key.mode or benchmark.scoring.modes[0])
        if answers := published_answers(usual):
            names = escape(", ".join(f"{PUBLISHED}{name}" for name in answers))
            console.print(f"[dim]Installed predictions, for kbbench compare and score: {names}[/dim]")


def print_nearest_published(result: Result, benchmark: Benchmark) -> None:
    """Print the published systems next above and below a result, and the differences in split or mode.

    Nothing is printed if nothing is published.
    """
    console = terminal.console()
    scores = {metric: score.value for metric, score in result.scores.items() if score.n_scored}
    beside = published_beside(result.task_key, scores)
    if not beside:
        return
    parts = [beside[0].elsewhere, *(["the whole split"] if any(w.code == "limit" for w in result.warnings) else [])]
    elsewhere = ", ".join(filter(None, parts))
    where = f"[yellow]for {elsewhere}, not for this result[/yellow]" if elsewhere else "same split and mode"
    name = f"{benchmark.dataset}{'' if len(benchmark.data.configs) == 1 else f'/{result.config}'}"
    by = label(benchmark, beside[0].metric)
    everything = f"All: kbbench list {escape(name)} --published"
    console.print(f"\n[dim]Published results nearest in {by} ({where}). {everything}[/dim]")
    rows = [each.row for each in beside]
    _print_rows(benchmark, rows, {"from": [_kinds(row) for row in rows]}, benchmark.metrics)
    _print_remarks(benchmark, rows)


def _print_remarks(benchmark: Benchmark, rows: Iterable[PublishedRow]) -> None:
    """Print the remarks on scores, each sentence once, with its systems and metrics."""
    remarks: dict[str, list[str]] = {}
    for row in rows:
        for note in dict.fromkeys(row.notes.values()):
            metrics = ", ".join(label(benchmark, metric) for metric, each in row.notes.items() if each == note)
            remarks.setdefault(note.removesuffix("."), []).append(f"{row.system} {metrics}")
    for note, scores in remarks.items():
        terminal.console().print(f"[dim]{REMARK} {escape(note)}: {escape('; '.join(scores))}[/dim]")


def _sources(row: PublishedRow) -> list[Source]:
    """Return the sources of a row's scores over all examples, each once."""
    return list(dict.fromkeys(score.source for score in row.figures.values()))


def _kinds(row: PublishedRow) -> str:
    return ", ".join(dict.fromkeys(source.kind for source in _sources(row)))


def _print_rows(
    benchmark: Benchmark, rows: Sequence[PublishedRow], words: Mapping[str, Sequence[str]], metrics: Iterable[str]
) -> None:
    """Print systems by metrics, with the digits that were printed; systems and metrics without a score are left out.

    `words` are further columns by heading; one without any text is left out.
    """
    metrics = [metric for metric in metrics if any(metric in row.figures for row in rows)]
    words = {heading: texts for heading, texts in words.items() if any(texts)}
    cells = [
        [row.system, *(texts[n] for texts in words.values()), *(_cell(row.figures.get(metric)) for metric in metrics)]
        for n, row in enumerate(rows)
        if any(metric in row.figures for metric in metrics)
    ]
    if cells:
        headings = ["system", *words, *(label(benchmark, metric) for metric in metrics)]
        terminal.print_table(terminal.console(), headings, cells, n_words=1 + len(words))


def _cell(score: PublishedScore | None) -> str:
    return f"{score.printed}{REMARK if score.note else ''}" if score else ""
