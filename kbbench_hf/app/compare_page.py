"""Two to five rows side by side: figures, paired tests with Holm's correction, and where they disagree."""

import json
from itertools import combinations
from typing import TYPE_CHECKING, Any

from kbbench_hf.app.board_page import Boards, as_place
from kbbench_hf.benchmarks import benchmark
from kbbench_hf.leaderboard.table import Row
from kbbench_hf.metrics.significance import holm, paired_test

if TYPE_CHECKING:
    import gradio as gr

MOST = 5
N_DISAGREEMENTS = 20


def compare_tab(boards: Boards) -> "gr.Dropdown":
    """Lay out the tab and return its menu of rows, whose change compares them."""
    import gradio as gr

    choice = gr.Dropdown(
        label="Two to five systems", choices=[], multiselect=True, max_choices=MOST, elem_id="compare", value=[]
    )
    words = gr.Markdown()
    figures = gr.Dataframe(interactive=False, label="Figures", pinned_columns=1)
    tests = gr.Dataframe(interactive=False, label="Paired tests of the headline figure, Holm-corrected")
    disagreements = gr.Dataframe(interactive=False, label="Where they disagree most", wrap=True)

    def show(values: list[str]) -> Any:
        if len(values) < 2:
            return "Choose two to five systems.", [], [], []
        place = json.loads(values[0])[0]
        rows = [row for value in values[:MOST] if (row := boards.row(place, json.loads(value)[1]))]
        scored = [row for row in rows if row.badge != "published"]
        left = [row.system for row in rows if row.badge == "published"]
        said = f"Without scores per example, and so untested: {len(left)} published." if left else ""
        return (
            said,
            figure_table(place, rows),
            test_table(boards, place, scored),
            disagreement_table(boards, place, scored),
        )

    choice.change(
        show, choice, [words, figures, tests, disagreements], show_progress="minimal", api_visibility="private"
    )
    return choice


def figure_table(place: str, rows: list[Row]) -> dict[str, Any]:
    """Return every metric of every row."""
    found = benchmark(as_place(place).benchmark)
    lines = []
    for metric, label in found.metrics.items():
        figures = [row.figures.get(metric) for row in rows]
        lines.append([label, *("" if figure is None else f"{figure.value:.4f}" for figure in figures)])
    return {"headers": ["metric", *(row.system for row in rows)], "data": lines}


def test_table(boards: Boards, place: str, rows: list[Row]) -> dict[str, Any]:
    """Return the paired test of every two rows."""
    metric = benchmark(as_place(place).benchmark).headline
    store = boards.index.store
    pairs = list(combinations(rows, 2))
    tests = [paired_test(store.values(a.id, metric), store.values(b.id, metric)) for a, b in pairs]
    adjusted = holm([test.p_value for test in tests])
    lines = [
        [a.system, b.system, f"{test.difference:+.4f}", f"[{test.ci95[0]:+.4f}, {test.ci95[1]:+.4f}]", f"{p:.4f}",
         f"{test.wins:,}/{test.ties:,}/{test.losses:,}"]
        for (a, b), test, p in zip(pairs, tests, adjusted, strict=True)
    ]  # fmt: skip
    return {"headers": ["A", "B", "A - B", "95 % interval", "p (Holm)", "wins/ties/losses"], "data": lines}


def disagreement_table(boards: Boards, place: str, rows: list[Row]) -> dict[str, Any]:
    """Return the examples on which the rows' headline figures lie furthest apart."""
    metric = benchmark(as_place(place).benchmark).headline
    store = boards.index.store
    if len(rows) < 2:
        return {"headers": ["id"], "data": []}
    columns = [store.values(row.id, metric).tolist() for row in rows]
    spread = sorted(
        ((max(values) - min(values), position) for position, values in enumerate(zip(*columns, strict=True))),
        reverse=True,
    )
    ids = store.ids(rows[0].id)
    lines = [
        [str(ids[position]), *(f"{column[position]:.4f}" for column in columns)]
        for width, position in spread[:N_DISAGREEMENTS]
        if width > 0
    ]
    return {"headers": ["id", *(row.system for row in rows)], "data": lines}
