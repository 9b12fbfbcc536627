"""The board of a place as HTML: its table, a scatter plot, the summary over datasets, and slices of the examples."""

import math
from collections.abc import Sequence
from itertools import pairwise
from urllib.parse import urlencode

from markupsafe import Markup

from kbbench_hf.app.boards import Board, Boards, task_keys_apart
from kbbench_hf.app.html import Dot, Panel, multiples, pareto_front, render_html, scatter, table
from kbbench_hf.benchmarks import TaskKey
from kbbench_hf.errors import KBBenchError
from kbbench_hf.leaderboard.table import BoardScore, Row
from kbbench_hf.leaderboard.view import PAGE, BoardColumn, View, cells, page_of

COSTS = {
    "$ per 1,000": "US dollars per 1,000 examples",
    "p95, s": "latency p95, seconds",
    "size, B": "size, billions of parameters",
}
"""Heading of a column that a plot can have on its x axis, where lower is better -> its label there."""
TEXT_COLUMNS = {"#", "type", "license", "warnings", "annotated with", "submitter", "origin", "date"}
N_DOTS = 150
N_SYSTEMS = 5
N_SUMMARY = 30
N_KEYS = 12


def table_html(board: Board, task_key: TaskKey, view: View, shown: Sequence[str]) -> str:
    """Return the page of a board that a view leaves."""
    rows = board.chosen(view)
    visible, number, n_pages = page_of(rows, view.page)
    columns_shown = chosen_columns(board, shown)
    headings = [_heading(column, view.sort) for column in columns_shown]
    start = (number - 1) * PAGE
    above = rows[max(0, start - 1) : start]  # the page's first row has one above it, too
    visible = board.differences([*above, *visible])[len(above) :]
    bar = board.axis.bar if board.axis else lambda score: None
    lines = [
        [
            (head["css"], *cell, bar(row.score(column.metric)) if column.metric == board.headline else None)
            for head, column, cell in zip(headings, columns_shown, line, strict=True)
        ]
        for row, line in zip(visible, cells(visible, columns_shown), strict=True)
    ]
    begins = [not view.sort and _begins(*two) for two in pairwise([*visible[:1], *visible])]
    words = f"{len(rows):,} of {n_systems(len(board.rows))}" if len(rows) < len(board.rows) else n_systems(len(rows))
    words += (
        ". Systems with the same # do not differ significantly from the first of them (5 % level)."
        if any(row.group for row in rows)
        else "."
    )
    columns = ",".join(column.heading for column in columns_shown)
    query = {"place": str(task_key), **view.address, "columns": columns}
    return render_html(
        "board",
        headings=headings,
        rows=list(zip(visible, begins, lines, strict=True)),
        place=str(task_key),
        page=number,
        n_pages=n_pages,
        words=words,
        axis=board.axis_words if rows else "",
        downloads={
            label: f"api/board?{urlencode({**query, 'format': form})}"
            for label, form in (("CSV", "csv"), ("LaTeX", "tex"), ("JSON", "json"))
        },
    )


def more_html(boards: Boards, board: Board, task_key: TaskKey) -> str:
    """Return what is below a board: the summary over datasets, and the best systems by slice of the examples."""
    names = [name for row in _best_stored(board)[:1] for name in boards.index.store.result(row.id)["slices"]]
    slices = _slices(boards, board, task_key, names)
    return render_html("board_more", summary=summary_html(boards, board, task_key), slices=slices, label=board.label)


def summary_html(boards: Boards, board: Board, task_key: TaskKey) -> str:
    """Return the headline scores of systems on the datasets of a benchmark, and their mean where all are known.

    The datasets have the split and the metrics of this place; nothing where it is the only one.
    """
    alike = [
        each
        for each in boards.related(task_key)
        if each.split == task_key.split and boards.board(each).benchmark.metrics == board.benchmark.metrics
    ]
    scores: dict[tuple[str, str], dict[TaskKey, Row]] = {}
    for each in alike:
        for row in boards.board(each).rows:
            if math.isfinite(row.score(board.headline).value):
                scores.setdefault((row.system, row.badge), {}).setdefault(each, row)
    if len(alike) < 2 or not any(len(rows) > 1 for rows in scores.values()):
        return ""
    sign = 1 if board.lower_is_better else -1
    means = {
        key: sum(row.figures[board.headline].value for row in rows.values()) / len(rows) for key, rows in scores.items()
    }
    to_row, to_board = Markup('<a href="{}">{}</a>'), Markup('<a href="?place={}">{}</a>')
    ranked = sorted(scores, key=lambda key: (-len(scores[key]), sign * means[key], key))[:N_SUMMARY]
    lines = [
        [
            to_row.format(row_address(*next(iter(scores[key].items()))), key[0]),
            *(scores[key][each].figures[board.headline].text() if each in scores[key] else "" for each in alike),
            f"{means[key]:.4f}" if len(scores[key]) == len(alike) else "",
        ]
        for key in ranked
    ]
    headings = ["system", *(to_board.format(each, task_keys_apart(each, alike)) for each in alike)]
    note = f"{n_systems(len(scores))}, the first {N_SUMMARY} shown. " if len(scores) > N_SUMMARY else ""
    note += "Mean: unweighted over the datasets, for systems with a score on each."
    return table([*headings, "mean"], lines, note=note)


def board_problem(error: KBBenchError) -> str:
    """Return an error as the table's place shows it."""
    return render_html("words", text=error)


def chosen_columns(board: Board, shown: Sequence[str]) -> list[BoardColumn]:
    """Return the columns with these headings, the systems' names among them; the default ones where none is named."""
    wanted = {*shown, "system"} if isinstance(shown, Sequence) and shown else set(board.default_columns)
    return [column for column in board.columns if column.heading in wanted]


def n_systems(number: int) -> str:
    """Return how many systems there are, in words.

    >>> n_systems(1), n_systems(1200)
    ('1 system', '1,200 systems')
    """
    return f"{number:,} system{'' if number == 1 else 's'}"


def row_address(task_key: TaskKey, row: Row) -> str:
    """Return where a row's page is."""
    return f"?{urlencode({'place': str(task_key), 'tab': 'row', 'row': row.id})}"


def plot_axes(board: Board) -> tuple[list[str], list[str]]:
    """Return the headings of the columns for the x and the y axis of a scatter plot, the default ones first."""
    metrics = [each.heading for each in board.columns if each.metric and len(_values(board, each)) > 1]
    metrics.sort(key=lambda heading: heading != board.label)
    costs = [each.heading for each in board.columns if each.heading in COSTS and len(_values(board, each)) > 1]
    return [*costs, *metrics[1:], *metrics[:1]], metrics


def plot_html(board: Board, task_key: TaskKey, x: str, y: str) -> str:
    """Return a scatter plot of two columns, by headings, with menus for its axes; nothing without two to choose.

    A board of very many systems shows the first ones and the Pareto front.
    """
    x_choices, y_choices = plot_axes(board)
    if not {*x_choices} - {*y_choices[:1]}:
        return ""
    x, y = x if x in x_choices else x_choices[0], y if y in y_choices else y_choices[0]
    across, up = (next(column for column in board.columns if column.heading == each) for each in (x, y))
    values, scores = _values(board, across), _values(board, up)
    rows = [row for row in board.rows if row.id in values and row.id in scores]
    points = [(-values[row.id] if across.descending else values[row.id], scores[row.id]) for row in rows]
    front = set(pareto_front(points, not up.descending))
    plotted = [row for n, row in enumerate(rows) if n < N_DOTS or n in front]
    dots = [Dot(values[row.id], row.figures[up.metric], row.system, row_address(task_key, row)) for row in plotted]
    x_axis, y_axis = (COSTS.get(x, x), not across.descending), (y, not up.descending)
    drawn = scatter(dots, x_axis, y_axis, logarithmic=x in COSTS) if len(dots) > 1 else None
    axes = {"y": ("y axis", y, y_choices), "x": ("x axis", x, x_choices)}
    return render_html("plot", drawn=drawn, axes=axes, costs=x in COSTS)


def _values(board: Board, column: BoardColumn) -> dict[str, float]:
    """Return the finite values of a column by row, those of costs positive."""
    values = {row.id: column.order(row) for row in board.rows} if column.order else {}
    least = 0.0 if column.heading in COSTS else -math.inf
    return {row: each for row, each in values.items() if isinstance(each, float) and least < each < math.inf}


def _slices(boards: Boards, board: Board, task_key: TaskKey, names: Sequence[str]) -> dict[str, str]:
    """Return slice -> a small picture for each of its keys, a line for each of the best systems."""
    best = _best_stored(board)
    results = [boards.index.store.result(row.id)["slices"] for row in best]
    drawn = {}
    for name in names:
        keys = results[0][name]
        if not 1 < len(keys) <= N_KEYS:
            continue
        panels = []
        for key, scores in keys.items():
            values = {
                row.system: (BoardScore.of(each[name][key][board.headline]), row_address(task_key, row))
                for row, each in zip(best, results, strict=True)
                if board.headline in each.get(name, {}).get(key, {})
            }
            n = max((each["n_scored"] for each in scores.values()), default=0)
            panels.append(Panel(f"{key} (n = {n:,})", values))
        drawn[name.replace("_", " ")] = multiples(panels, f"{board.label} by {name.replace('_', ' ')}")
    return drawn


def _best_stored(board: Board) -> list[Row]:
    return [row for row in board.rows if row.badge != "published"][:N_SYSTEMS]


def _heading(column: BoardColumn, sort: str) -> dict[str, str]:
    """Return a heading as the template has it: `order` where it is sorted by, `next` for what a click sorts by."""
    text, reverse = column.heading, sort.startswith("-")
    css = "name" if text == "system" else "" if text in TEXT_COLUMNS else "number"
    better = ("↑" if column.descending else "↓") if column.metric else ""
    heading = {"text": text, "better": better, "css": css, "order": "", "next": text if column.order else ""}
    if not column.order or text != sort.removeprefix("-"):
        return heading
    order = "descending" if column.descending != reverse else "ascending"
    return {**heading, "order": order, "next": "" if reverse else f"-{text}"}


def _begins(upper: Row, lower: Row) -> bool:
    return None not in (upper.group, lower.group) and upper.group != lower.group
