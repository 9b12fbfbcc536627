"""Two to five rows side by side: figures, paired tests with Holm's correction, and where they disagree."""

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from kbbench_hf.app.boards import Board, Boards
from kbbench_hf.app.html import block, markup, rendered, table
from kbbench_hf.app.plots import forest_plot
from kbbench_hf.benchmarks import as_place
from kbbench_hf.errors import KBBenchError
from kbbench_hf.leaderboard.store import Store
from kbbench_hf.leaderboard.table import Figure, Row
from kbbench_hf.metrics.aggregate import estimate
from kbbench_hf.metrics.significance import holm, minimum_detectable_effect, paired_test

if TYPE_CHECKING:
    import gradio as gr

MOST = 5
N_DISAGREEMENTS = 20
MAX_KEYS = 20


def compare_tab(boards: Boards, place: "gr.Dropdown") -> "gr.Dropdown":
    """Lay out the tab and return its menu of rows, whose change compares them."""
    import gradio as gr

    choice = gr.Dropdown(
        label="Two to five systems", choices=[], multiselect=True, max_choices=MOST, elem_id="compare", value=[],
        allow_custom_value=True,
    )  # fmt: skip
    store = boards.index.store

    @gr.render([place, choice], triggers=[choice.change], show_progress="hidden")  # type: ignore[untyped-decorator]
    def show(place: str, ids: list[str]) -> None:
        try:
            where = as_place(place)
        except KBBenchError as error:
            block(error, "compare-words")
            return
        found = boards.board(where)
        rows = [row for each in ids[:MOST] if (row := boards.row(where, str(each)))]
        if len(rows) < 2:
            block("Choose two to five systems of the dataset that the board shows.", "compare-words")
            return
        markup(warnings_html(rows), "compare-warnings")
        markup(figure_table(found, rows), "compare-figures")
        scored = [row for row in rows if row.badge != "published"]
        if untested := [row.system for row in rows if row.badge == "published"]:
            block(f"Published figures cannot be tested: {', '.join(untested)}.", "compare-words")
        if len(scored) < 2:
            return
        markup(test_table(store, found, scored), "compare-tests")
        if names := list(slices(store, scored)):
            by = gr.Dropdown(names, value=names[0], label="Difference by slice", elem_id="compare-slice")
            plot = gr.Plot(slice_picture(store, found, scored, names[0]), show_label=False)
            by.input(lambda name: slice_picture(store, found, scored, name), by, plot, show_progress="hidden")
        markup(disagreement_table(store, found, scored), "compare-examples")

    return choice


def warnings_html(rows: Sequence[Row]) -> str:
    """Return what weakens the figures of the rows."""
    return rendered("warnings", warnings=[(row.system, each) for row in rows for each in row.warnings])


def figure_table(found: Board, rows: Sequence[Row]) -> str:
    """Return every metric that a row has, of every row."""
    lines = [
        [label, *(_with_half(row.figures.get(metric)) for row in rows)]
        for metric, label in found.benchmark.metrics.items()
        if any(metric in row.figures for row in rows)
    ]
    return table(["metric", *(row.system for row in rows)], lines, "Figures")


def test_table(store: Store, found: Board, rows: Sequence[Row]) -> str:
    """Return the paired test of every two rows, and what difference so many examples can show."""
    metric, group_by = found.headline, found.benchmark.scoring.group_by
    groups = store.slices(rows[0].id).get(group_by) if group_by else None
    values = {row.id: store.values(row.id, metric) for row in rows}
    pairs = list(combinations(rows, 2))
    tests = [paired_test(values[a.id], values[b.id], groups) for a, b in pairs]
    adjusted = holm([test.p_value for test in tests])
    lines = [
        [f"{a.system} - {b.system}", f"{test.difference:+.4f}", f"[{test.ci95[0]:+.4f}, {test.ci95[1]:+.4f}]",
         f"{p:.4f}{' ✓' if p < 0.05 else ' ≈'}", f"{test.wins:,} / {test.ties:,} / {test.losses:,}"]
        for (a, b), test, p in zip(pairs, tests, adjusted, strict=True)
    ]  # fmt: skip
    label = found.benchmark.metrics[metric]
    smallest = minimum_detectable_effect(values[rows[0].id] - values[rows[1].id])
    note = (
        f"With these {len(values[rows[0].id]):,} examples, a difference of {smallest:.4f} between the first two "
        "would be found 4 times in 5."
    )
    headings = ["A - B", f"difference in {label}", "95 % interval", "p (Holm)", "wins / ties / losses"]
    caption = "Paired tests on the same examples"
    return table(headings, lines, caption, note=note if np.isfinite(smallest) else "")


def slices(store: Store, rows: Sequence[Row]) -> dict[str, list[str]]:
    """Return the slices that all rows share and that are worth a picture: two keys at least, and not too many."""
    shared = [store.slices(row.id) for row in rows]
    return {
        name: keys
        for name, keys in shared[0].items()
        if 1 < len(set(keys)) <= MAX_KEYS and all(other.get(name) == keys for other in shared[1:])
    }


def slice_picture(store: Store, found: Board, rows: Sequence[Row], name: str) -> object:
    """Return the differences of every row to the first one in each key of a slice."""
    keys = np.asarray(slices(store, rows)[name])
    first, *others = rows
    values = {row.id: store.values(row.id, found.headline) for row in rows}
    differences = {
        f"{first.system} - {other.system}": {
            str(key): estimate((values[first.id] - values[other.id])[keys == key], bounded=False)
            for key in np.unique(keys)
        }
        for other in others
    }
    return forest_plot(differences, found.benchmark.metrics[found.headline])


def disagreement_table(store: Store, found: Board, rows: Sequence[Row]) -> str:
    """Return the examples on which the rows' headline figures lie furthest apart."""
    columns = [store.values(row.id, found.headline).tolist() for row in rows]
    spread = sorted(
        ((max(values) - min(values), position) for position, values in enumerate(zip(*columns, strict=True))),
        reverse=True,
    )
    ids = store.ids(rows[0].id)
    lines = [
        [ids[position], *(f"{column[position]:.4f}" for column in columns)]
        for width, position in spread[:N_DISAGREEMENTS]
        if width > 0
    ]
    label = found.benchmark.metrics[found.headline]
    return table(["id", *(row.system for row in rows)], lines, f"Where they disagree most in {label}")


def _with_half(figure: Figure | None) -> str:
    if figure is None:
        return ""
    half = (figure.high - figure.low) / 2
    return f"{figure.text()}{f' ±{half:.3f}' if np.isfinite(half) else ''}"
