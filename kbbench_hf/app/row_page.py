"""One row in full: where it comes from, its figures and slices, examples, and the command that makes it again."""

import gzip
import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kbbench_hf.app.board_page import Boards, as_place
from kbbench_hf.benchmarks import benchmark
from kbbench_hf.leaderboard.table import Row

if TYPE_CHECKING:
    import gradio as gr

N_EXAMPLES = 20


def row_tab(boards: Boards) -> "gr.Dropdown":
    """Lay out the tab and return its menu of rows, whose change shows the row."""
    import gradio as gr

    choice = gr.Dropdown(label="System", choices=[], elem_id="row")
    head = gr.Markdown()
    figures = gr.Dataframe(interactive=False, label="Figures", headers=["metric", "value", "95 % interval", "scored"])
    with gr.Row():
        slice_name = gr.Dropdown(label="Slice", choices=[])
    slice_table = gr.Dataframe(interactive=False, label="By slice", pinned_columns=1)
    plot = gr.Plot(label="Headline figure by slice")
    examples = gr.Dataframe(
        interactive=False, label=f"The {N_EXAMPLES} worst examples", wrap=True, column_widths=["15%", "10%", "75%"]
    )
    provenance = gr.Code(label="Provenance", language="json")
    reproduce = gr.Code(label="The same figures on your machine", language="shell")

    def show(value: str) -> Any:
        place, row_id = json.loads(value)
        row = boards.row(place, row_id)
        if row is None:
            return "This row is not on the board.", [], gr.Dropdown([], value=None), [], None, [], "", ""
        if row.badge == "published":
            return _title(row), published_figures(place, row), gr.Dropdown([], value=None), [], None, [], "", ""
        result = boards.index.store.result(row_id)
        names = list(result["slices"])
        first = names[0] if names else None
        return (
            _title(row),
            stored_figures(place, result),
            gr.Dropdown(names, value=first),
            slice_rows(place, result, first),
            slice_plot(place, result, first),
            worst_examples(boards, place, row_id),
            provenance_text(boards, row_id),
            command_text(place, row_id),
        )

    def by_slice(value: str, name: str | None) -> Any:
        place, row_id = json.loads(value)
        row = boards.row(place, row_id)
        if row is None or row.badge == "published" or name is None:
            return [], None
        result = boards.index.store.result(row_id)
        return slice_rows(place, result, name), slice_plot(place, result, name)

    outputs = [head, figures, slice_name, slice_table, plot, examples, provenance, reproduce]
    choice.change(show, choice, outputs, show_progress="minimal", api_visibility="private")
    slice_name.input(
        by_slice, [choice, slice_name], [slice_table, plot], show_progress="minimal", api_visibility="private"
    )
    return choice


def _title(row: Row) -> str:
    parts = [row.badge, f"submitted by {row.submitter}" if row.submitter else "", row.stored[:10], row.licence]
    words = " · ".join(part for part in parts if part)
    return f"## {_plain(row.system)}\n\n{_plain(words)}\n\n{_plain(row.link)}\n\n{_plain(row.notes)}"


def _plain(text: str) -> str:
    """Return text in which Markdown and HTML mean nothing."""
    return "".join(f"\\{each}" if each in "\\`*_{}[]()#+-.!<>|~$&:" else each for each in text)


def published_figures(place: str, row: Row) -> list[list[str]]:
    """Return the figures of a published row: without intervals, because none were published."""
    labels = benchmark(as_place(place).benchmark).metrics
    return [[labels.get(name, name), f"{figure.value:.4f}", "", ""] for name, figure in row.figures.items()]


def stored_figures(place: str, result: Mapping[str, Any]) -> list[list[str]]:
    """Return the figures of a stored row with their intervals."""
    labels = benchmark(as_place(place).benchmark).metrics
    return [
        [labels.get(name, name), _number(figure["value"]), _interval(figure["ci95"]), f"{figure['n_scored']:,}"]
        for name, figure in result["scores"].items()
    ]


def slice_rows(place: str, result: Mapping[str, Any], name: str | None) -> dict[str, Any]:
    """Return the table of one slice, as a Dataframe takes it."""
    labels = benchmark(as_place(place).benchmark).metrics
    keys = result["slices"].get(name, {})
    metrics = list(next(iter(keys.values()))) if keys else []
    return {
        "headers": [name or "slice", "n", *(labels.get(metric, metric) for metric in metrics)],
        "data": [
            [key, f"{figures[metrics[0]]['n_scored']:,}", *(_number(figures[metric]["value"]) for metric in metrics)]
            for key, figures in keys.items()
        ],
    }


def slice_plot(place: str, result: Mapping[str, Any], name: str | None) -> Any:
    """Return the headline figure of each key of a slice, with intervals, as a picture."""
    keys = result["slices"].get(name, {})
    if not keys:
        return None
    from kbbench_hf.reports.plots import plot_slice

    found = benchmark(as_place(place).benchmark)
    figures = {key: each[found.headline] for key, each in list(keys.items())[:40]}
    return plot_slice(figures, found.metrics[found.headline], str(name))


def worst_examples(boards: Boards, place: str, row_id: str) -> list[list[str]]:
    """Return the examples with the lowest headline score: id, score, answer."""
    found = benchmark(as_place(place).benchmark)
    values = boards.index.store.values(row_id, found.headline)
    with gzip.open(boards.index.store.predictions_file(row_id), "rt", encoding="utf-8") as lines:
        answers = {row["id"]: row[found.answer] for row in map(json.loads, lines)}
    scored = sorted((value, position) for position, value in enumerate(values) if not math.isnan(value))
    ids = list(boards.index.store.ids(row_id))
    rows = []
    for value, position in scored[:N_EXAMPLES]:
        text = json.dumps(answers.get(ids[position]), ensure_ascii=False)
        rows.append([str(ids[position]), f"{value:.4f}", text[:400]])
    return rows


def provenance_text(boards: Boards, row_id: str) -> str:
    """Return the record of a submission: hashes, revisions, versions."""
    record = json.loads(boards.index.store.record(row_id).to_bytes())
    versions = boards.index.store.result(row_id)["versions"]
    return json.dumps({**record, "versions": versions}, indent=2, ensure_ascii=False)


def command_text(place: str, row_id: str) -> str:
    """Return the commands that score the stored predictions again."""
    where = as_place(place)
    return (
        f"# predictions.jsonl.gz of submissions/{row_id[:2]}/{row_id}/ in the leaderboard's store\n"
        f"pip install kbbench-hf\n"
        f"kbbench score predictions.jsonl.gz --benchmark {where.benchmark}/{where.config} "
        f"--split {where.split} --mode {where.mode}"
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _interval(bounds: list[float | None]) -> str:
    return "" if None in bounds else f"[{bounds[0]:.4f}, {bounds[1]:.4f}]"
