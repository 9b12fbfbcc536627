"""One row in full: where it comes from, its figures and slices, examples, and the command that makes it again."""

import gzip
import json
import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from kbbench_hf.app.boards import Board, Boards, place_label
from kbbench_hf.app.html import block, markup, rendered, table
from kbbench_hf.app.plots import curve_plot
from kbbench_hf.benchmarks import Place, as_place, benchmark
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.errors import KBBenchError
from kbbench_hf.leaderboard.table import Figure, Row
from kbbench_hf.scoring.result import PlainFigure, PlainResult

if TYPE_CHECKING:
    import gradio as gr

N_EXAMPLES = 20
MAX_ANSWER = 400
MAX_KEYS = 40
"""More keys of a slice than this are in the table only."""


def row_tab(boards: Boards, place: "gr.Dropdown") -> "gr.Dropdown":
    """Lay out the tab and return its menu of rows, whose change shows the row."""
    import gradio as gr

    choice = gr.Dropdown(label="System", choices=[], elem_id="row", allow_custom_value=True)

    @gr.render([place, choice], triggers=[choice.change], show_progress="hidden")  # type: ignore[untyped-decorator]
    def show(place: str, row_id: str | None) -> None:
        try:
            where = as_place(place)
        except KBBenchError as error:
            block(error, "row-head")
            return
        found = boards.board(where)
        row = boards.row(where, str(row_id))
        if row is None:
            missing = f"No such row: {str(row_id)[:80]!r} is no system of {place_label(where)}. Choose one above."
            block(missing if row_id else "Choose a system, here or by a click on the board.", "row-head")
            return
        markup(head_html(row, where), "row-head")
        result = boards.index.store.result(row.id) if row.badge != "published" else None
        others = same_system(boards, where, row)
        metric, label = found.headline, found.benchmark.metrics[found.headline]
        points = series(where, others, metric)
        with gr.Row():
            with gr.Column():
                markup(figures_table(found.benchmark, row, result), "row-figures")
                if len(points) > 2:
                    gr.Plot(curve_plot(points, label, where.config.rpartition("_")[0]), show_label=False)
            if len(others) > 1:
                with gr.Column():
                    markup(elsewhere_table(found.benchmark, others), "row-elsewhere")
        for name, keys in row.slices.items():
            markup(published_slice(found.benchmark, name, keys), "row-published-slices")
        if result:
            _slices(boards, found, result)
            markup(worst_examples(boards, found, row.id), "row-examples")
            command = command_text(where, row)
            gr.Code(command, label="The same figures on your machine", language="shell", elem_id="row-command")
            with gr.Accordion("Provenance: hashes, revisions, versions", open=False, elem_id="row-provenance"):
                gr.Code(provenance_text(boards, row.id), show_label=False, language="json")

    return choice


def _slices(boards: Boards, found: Board, result: PlainResult) -> None:
    """Lay out the slices of a stored row that have more than one key, if there are any."""
    import gradio as gr

    names = [name for name, keys in result["slices"].items() if len(keys) > 1]
    if not names:
        return
    chosen = gr.Dropdown(names, value=names[0], label="Slice", elem_id="slice")
    with gr.Row():
        rows = markup(slice_rows(found.benchmark, result, names[0]), "row-slices")
        plot = gr.Plot(slice_plot(found, result, names[0]), show_label=False)
    chosen.input(
        lambda name: (slice_rows(found.benchmark, result, name), slice_plot(found, result, name)),
        chosen,
        [rows, plot],
        show_progress="hidden",
    )


def head_html(row: Row, place: Place) -> str:
    """Return the row's name and what was said of it."""
    submitter = f"submitted by {row.submitter}" if row.submitter else ""
    size = f"{row.parameters_b:g} B parameters" if row.parameters_b else ""
    annotated = f"annotated by the submitter with {row.annotators}" if row.annotators else ""
    cost = f"{row.cost_per_1000_usd:g} US dollars per 1,000 examples" if row.cost_per_1000_usd else ""
    latency = f"p95 {row.latency_p95_s:g} s" if row.latency_p95_s else ""
    facts = [place_label(place), row.badge, submitter, row.stored[:10], size, row.licence, annotated, latency, cost]
    return rendered("row_head", row=row, facts=facts)


def figures_table(of: Benchmark, row: Row, result: PlainResult | None) -> str:
    """Return the figures of a row: with intervals where it was scored here, without where it was published."""
    names = {**of.metrics, **{name: name.replace("_", " ") for name in row.figures if name not in of.metrics}}
    there = {name: row.figures[name] for name in names if name in row.figures}
    if result is None:
        values = [[names[name], each.text()] for name, each in there.items()]
        return table(["metric", "value"], values, "Figures")
    lines = [
        [names[name], _number(each.value), _interval(each), f"{result['scores'][name]['n_scored']:,}"]
        for name, each in there.items()
    ]
    return table(["metric", "value", "95 % interval", "scored"], lines, "Figures")


def published_slice(of: Benchmark, name: str, keys: Mapping[str, Mapping[str, Figure]]) -> str:
    """Return the figures that were published of each part."""
    metrics = [metric for metric in of.metrics if metric in next(iter(keys.values()))]
    lines = [[key, *(figures[metric].text() for metric in metrics)] for key, figures in keys.items()]
    return table([name, *(of.metrics[metric] for metric in metrics)], lines, f"Published by {name}")


def same_system(boards: Boards, place: Place, row: Row) -> dict[Place, Row]:
    """Return the rows of the same name and origin in the family's other places of the same kind, this one among them.

    Of the same kind are configs that share their first word, `noise_kg_4k` and `noise_table_1k` say; where config names
    have one word only, all of the family are.
    """
    kind = place.config.split("_")[0] if "_" in place.config else None
    found = {}
    for each in boards.families().get(benchmark(place.benchmark).facts.family, []):
        if each.mode == place.mode and kind in (None, each.config.split("_")[0]):
            rows = [row] if each == place else boards.board(each).rows
            if same := [other for other in rows if (other.system, other.badge) == (row.system, row.badge)]:
                found[each] = same[0]
    return found


def series(place: Place, others: Mapping[Place, Row], metric: str) -> dict[str, Figure]:
    """Return one system's figure over the settings of one testbed: configs that differ in their last word only."""
    stem, _, last = place.config.rpartition("_")
    points = {
        each.config.rpartition("_")[2]: row.figures[metric]
        for each, row in others.items()
        if each.split == place.split and each.config.rpartition("_")[0] == stem and metric in row.figures
    }
    return points if stem and last in points else {}


def elsewhere_table(of: Benchmark, others: Mapping[Place, Row]) -> str:
    """Return the first figures of a system in other places."""
    there = {metric for row in others.values() for metric in row.figures}
    metrics = [metric for metric in of.metrics if metric in there][:4]
    lines = [
        [_short(place, others), *(row.figures[metric].text() if metric in row.figures else "" for metric in metrics)]
        for place, row in others.items()
    ]
    return table(["place", *(of.metrics[metric] for metric in metrics)], lines, "The same name elsewhere")


def slice_rows(of: Benchmark, result: PlainResult, name: str | None) -> str:
    """Return the table of one slice."""
    keys = result["slices"].get(name or "", {})
    metrics = [each for each in of.metrics if any(_value(figures, each) is not None for figures in keys.values())][:6]
    lines = [
        [key, f"{max(each['n_scored'] for each in figures.values()):,}"]
        + [_number(_value(figures, metric)) for metric in metrics]
        for key, figures in keys.items()
    ]
    return table([str(name).replace("_", " "), "n", *(of.metrics[metric] for metric in metrics)], lines)


def slice_plot(found: Board, result: PlainResult, name: str | None) -> object:
    """Return the headline figure of each key of a slice, with intervals, as a picture."""
    keys = list(result["slices"].get(name or "", {}).items())[:MAX_KEYS]
    figures = {key: each[found.headline] for key, each in keys if _value(each, found.headline) is not None}
    if not figures:
        return None
    from kbbench_hf.reports.plots import plot_slice

    return plot_slice(figures, found.benchmark.metrics[found.headline], str(name))


def worst_examples(boards: Boards, found: Board, row_id: str) -> str:
    """Return the examples with the lowest headline score: id, score, answer."""
    store = boards.index.store
    values = store.values(row_id, found.headline)
    with gzip.open(store.predictions_file(row_id), "rt", encoding="utf-8") as lines:
        answers = {row["id"]: row[found.benchmark.scoring.answer.field] for row in map(json.loads, lines)}
    sign = -1 if found.headline in found.benchmark.scoring.lower_is_better else 1
    scored = sorted((sign * value, position) for position, value in enumerate(values) if not math.isnan(value))
    ids = store.ids(row_id)
    rows = []
    for value, position in scored[:N_EXAMPLES]:
        text = json.dumps(answers.get(ids[position]), ensure_ascii=False)
        text = text if len(text) <= MAX_ANSWER else f"{text[:MAX_ANSWER]} ..."
        rows.append([ids[position], _number(sign * value), text])
    headings = ["id", found.benchmark.metrics[found.headline], "answer"]
    return table(headings, rows, f"The {len(rows)} worst examples", text_columns=(0, 2), wrapped=(2,))


def provenance_text(boards: Boards, row_id: str) -> str:
    """Return the record of a submission: hashes, revisions, versions."""
    record = json.loads(boards.index.store.record(row_id).to_bytes())
    versions = boards.index.store.result(row_id)["versions"]
    return json.dumps({**record, "versions": versions}, indent=2, ensure_ascii=False)


def command_text(place: Place, row: Row) -> str:
    """Return the commands that score the stored predictions again."""
    beside = "# and its .parquet files, in a folder predictions.annotations\n" if row.annotations else ""
    return (
        f"# predictions.jsonl.gz of submissions/{row.id[:2]}/{row.id}/ in the leaderboard's store\n{beside}"
        f"pip install kbbench-hf\n"
        f"kbbench score predictions.jsonl.gz --benchmark {place.benchmark}/{place.config} "
        f"--split {place.split} --mode {place.mode}"
    )


def _short(place: Place, places: Collection[Place]) -> str:
    """Return what tells a place from the others."""
    parts = zip(place[:3], zip(*places, strict=True), strict=False)
    return " ".join(part for part, all_of_it in parts if len(set(all_of_it)) > 1)


def _value(figures: Mapping[str, PlainFigure], metric: str) -> float | None:
    return figures[metric]["value"] if metric in figures else None


def _number(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.4f}"


def _interval(figure: Figure) -> str:
    return f"[{figure.low:.4f}, {figure.high:.4f}]" if math.isfinite(figure.high - figure.low) else ""
