"""The board of a place as HTML: its table, what it costs to be good, and the parts of the examples."""

from collections.abc import Sequence
from itertools import pairwise
from urllib.parse import urlencode

from kbbench_hf.app.boards import Board, Boards
from kbbench_hf.app.drawings import Dot, pareto_front, scatter
from kbbench_hf.app.html import rendered
from kbbench_hf.app.multiples import Panel, multiples
from kbbench_hf.benchmarks import Place
from kbbench_hf.errors import KBBenchError
from kbbench_hf.leaderboard.table import Figure, Row
from kbbench_hf.leaderboard.view import PAGE, Column, View, cells, page_of

COSTS = {
    "US dollars per 1,000 examples": "cost_per_1000_usd",
    "latency p95, seconds": "latency_p95_s",
    "size, billions of parameters": "parameters_b",
}
N_DOTS = 150
N_SYSTEMS = 5
N_KEYS = 12


def table_html(found: Board, place: Place, view: View, shown: Sequence[str]) -> str:
    """Return the page of a board that a view leaves."""
    rows = found.chosen(view)
    visible, number, n_pages = page_of(rows, view.page)
    kept = kept_columns(found, shown)
    headings = [_heading(column, view.sort) for column in kept]
    start = (number - 1) * PAGE
    above = rows[max(0, start - 1) : start]  # the page's first row has one above it, too
    visible = found.differences([*above, *visible])[len(above) :]
    lines = [
        [
            (head["css"], *cell, _bar(found, row) if column.metric == found.headline else None)
            for head, column, cell in zip(headings, kept, line, strict=True)
        ]
        for row, line in zip(visible, cells(visible, kept), strict=True)
    ]
    begins = [not view.sort and _begins(*two) for two in pairwise([*visible[:1], *visible])]
    words = f"{len(rows):,} of {n_systems(len(found.rows))}" if len(rows) < len(found.rows) else n_systems(len(rows))
    words += (
        ". Systems with the same # do not differ significantly from the first of them."
        if any(row.group for row in rows)
        else "."
    )
    asked = {"place": str(place), "search": view.search, "origin": view.origin, "sort": view.sort}
    return rendered(
        "board",
        headings=headings,
        rows=list(zip(visible, begins, lines, strict=True)),
        place=str(place),
        page=number,
        n_pages=n_pages,
        words=words,
        axis=found.axis_words if rows else "",
        downloads={
            label: f"api/board?{urlencode({**asked, 'columns': ','.join(c.heading for c in kept), 'format': form})}"
            for label, form in (("CSV", "csv"), ("LaTeX", "tex"), ("JSON", "json"))
        },
    )


def more_html(boards: Boards, found: Board, place: Place) -> str:
    """Return the pictures under a board: quality against cost, and the best systems on parts of the examples."""
    names = [name for row in _best_stored(found)[:1] for name in boards.index.store.result(row.id)["slices"]]
    return rendered("board_more", scatters=scatters(found, place), slices=_slices(boards, found, place, names))


def board_problem(error: KBBenchError) -> str:
    """Return an error as the table's place shows it."""
    return rendered("words", text=error)


def kept_columns(found: Board, shown: Sequence[str]) -> list[Column]:
    """Return the columns with these headings, the systems' names among them; the default ones where none is named."""
    wanted = {*shown, "system"} if isinstance(shown, Sequence) and shown else set(found.default_columns)
    return [column for column in found.columns if column.heading in wanted]


def n_systems(number: int) -> str:
    """Return how many systems there are, in words.

    >>> n_systems(1), n_systems(1200)
    ('1 system', '1,200 systems')
    """
    return f"{number:,} system{'' if number == 1 else 's'}"


def row_address(place: Place, row: Row) -> str:
    """Return where a row's page is."""
    return f"?{urlencode({'place': str(place), 'tab': 'row', 'row': row.id})}"


def scatters(found: Board, place: Place) -> list[object]:
    """Return quality against everything that systems say of their cost: two systems at least, the best and cheapest."""
    pictures: list[object] = []
    for words, attribute in COSTS.items():
        rows = [row for row in found.rows if getattr(row, attribute) and found.headline in row.figures]
        points = [(getattr(row, attribute), row.figures[found.headline].value) for row in rows]
        front = {rows[n].id for n in pareto_front(points, found.lower_is_better)}
        kept = [row for n, row in enumerate(rows) if n < N_DOTS or row.id in front]
        dots = [
            Dot(getattr(row, attribute), row.figures[found.headline], row.system, row_address(place, row))
            for row in kept
            if row.figures[found.headline].value == row.figures[found.headline].value  # NaN: not scored
        ]
        if len(dots) > 1:
            pictures.append(scatter(dots, words, found.label, found.lower_is_better))
    return pictures


def _slices(boards: Boards, found: Board, place: Place, names: Sequence[str]) -> dict[str, str]:
    """Return slice -> a small picture for each of its keys, a line for each of the best systems."""
    best = _best_stored(found)
    results = [boards.index.store.result(row.id)["slices"] for row in best]
    drawn = {}
    for name in names:
        keys = results[0][name]
        if not 1 < len(keys) <= N_KEYS:
            continue
        panels = []
        for key, figures in keys.items():
            values = {
                row.system: (Figure.of(each[name][key][found.headline]), row_address(place, row))
                for row, each in zip(best, results, strict=True)
                if found.headline in each.get(name, {}).get(key, {})
            }
            n = max((each["n_scored"] for each in figures.values()), default=0)
            panels.append(Panel(f"{key} (n = {n:,})", values))
        drawn[name.replace("_", " ")] = multiples(panels, f"{found.label} by {name.replace('_', ' ')}")
    return drawn


def _best_stored(found: Board) -> list[Row]:
    return [row for row in found.rows if row.badge != "published"][:N_SYSTEMS]


def _bar(found: Board, row: Row) -> object:
    figure = row.figures.get(found.headline)
    return found.axis.bar(figure) if found.axis and figure else None


def _heading(column: Column, sort: str) -> dict[str, str]:
    """Return a heading as the template has it: `order` where it is sorted by, `next` for what a click sorts by."""
    text, reverse = column.heading, sort.startswith("-")
    css = {"system": "name", "#": "", "licence": "", "submitter": "", "origin": "", "date": ""}.get(text, "number")
    better = ("↑" if column.descending else "↓") if column.metric else ""
    heading = {"text": text, "better": better, "css": css, "order": "", "next": text if column.order else ""}
    if not column.order or text != sort.removeprefix("-"):
        return heading
    order = "descending" if column.descending != reverse else "ascending"
    return {**heading, "order": order, "next": "" if reverse else f"-{text}"}


def _begins(upper: Row, lower: Row) -> bool:
    return None not in (upper.group, lower.group) and upper.group != lower.group
