"""The Leaderboard tab: an overview and a tab per family of benchmarks, filters, the table and what is below it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from markupsafe import Markup

from kbbench_hf.app import html
from kbbench_hf.app.boards import Board, Boards, dataset_label, setting_label, task_keys_apart, task_label
from kbbench_hf.benchmarks import TaskKey, as_task_key, benchmark
from kbbench_hf.errors import KBBenchError
from kbbench_hf.leaderboard.table import BoardScore, Row
from kbbench_hf.leaderboard.view import (
    ALL,
    MAX_SEARCH,
    ORIGINS,
    PAGE,
    BoardColumn,
    View,
    p_text,
    page_of,
    sizes,
    types,
)
from kbbench_hf.metrics.significance import ALPHA

if TYPE_CHECKING:
    import gradio as gr

N_LEADERS = 3


def overview_html(boards: Boards) -> str:
    """Return a line for each benchmark, on the place with most submissions."""
    families = {
        family: [line_of(boards, list(group)) for _, group in groupby(places, attrgetter("benchmark"))]
        for family, places in boards.families().items()
    }
    return html.render_html("overview", families=families)


def line_of(boards: Boards, places: list[TaskKey]) -> dict[str, Any]:
    """Return the line of a benchmark's places for the template: of the one with most stored rows, else of the first."""
    by_place = {task_key: boards.board(task_key) for task_key in places}
    task_key = max(places, key=lambda each: sum(row.badge != "published" for row in by_place[each].rows))
    board = by_place[task_key]
    gold = board.benchmark.showing.gold  # the gold itself is no system
    here = replace(board, rows=[row for row in board.rows if row.badge != "published" or row.system != gold])
    leaders = [(row, score) for row in here.rows[:N_LEADERS] if (score := row.scores.get(here.headline))]
    axis = html.axis_of(score for _, score in leaders)
    others = len(places) - 1
    more = f" · {others} other {'split or subset' if others == 1 else 'splits or subsets'}" if others else ""
    stored = sum(row.badge != "published" for row in here.rows)
    scored = f", {stored:,} scored here" if 0 < stored < len(here.rows) else " scored here" if stored else ""
    return {
        "title": task_label(task_key),
        "href": f"?place={task_key}",
        "facts": f"{n_systems(len(here.rows))}{scored}{more}",
        "label": f"{here.label} {'↓' if here.lower_is_better else '↑'}" if here.rows else "",
        "axis": axis.ends if axis else "",
        "leaders": [
            {"name": row.system, "href": row_address(task_key, row), "figure": score, "badge": row.badge}
            | {"bar": axis.bar(score) if axis else None}
            for row, score in leaders
        ],
        "significant": significant(here),
    }


def significant(board: Board) -> str:
    """Return what the tests say of a board's best rows, in a sentence; empty where all scores are from papers."""
    stored = [row for row in board.rows if row.group is not None]
    if not stored:
        return "" if board.rows else "No system yet: submit the first one."
    first = [row for row in stored if row.group == 1]
    ahead = board.rows.index(first[0])
    above = f" Ranked above, untested: {n_systems(ahead)} from papers." if ahead else ""
    if len(stored) == 1:
        return f"One system was scored here: {first[0].system}.{above}"
    if len(first) == len(stored):
        others = "the other one does" if len(stored) == 2 else f"all {len(stored) - 1} others that were tested do"
        return f"{first[0].system} ranks first; {others} not differ significantly from it.{above}"
    if len(first) == 1:
        return f"{first[0].system} is better than every other system scored here{_by(board, first[0], stored)}.{above}"
    n_alike = len(first) - 1
    return (
        f"{first[0].system} ranks first; {n_alike} other{' does' if n_alike == 1 else 's do'} not differ "
        f"significantly from it, {len(stored) - len(first)} scored significantly worse.{above}"
    )


def _by(board: Board, first: Row, stored: list[Row]) -> str:
    """Return the test of the first two, if it was made."""
    test = board.differences([first, stored[1]])[1].above
    return f" ({p_text(test.p_value)} against the next)" if test and test.p_value < ALPHA else ""


OVERVIEW = "Overview"


@dataclass(frozen=True)
class BoardTab:
    """What other tabs need of this one: the place, the table whose rows open, and how it starts."""

    place: "gr.Dropdown"
    table: "gr.HTML"
    start: Callable[[Mapping[str, str]], list[object]]
    """The query of an address -> the values of `outputs`."""
    outputs: "list[gr.blocks.Block]"


def board_tab(boards: Boards) -> BoardTab:
    """Lay out the tab."""
    import gradio as gr

    families = boards.families()
    with gr.Tabs(elem_id="families", selected=OVERVIEW) as family_tabs:
        with gr.Tab(OVERVIEW, id=OVERVIEW):
            overview = html.markup("", "overview")
        for name in families:
            gr.Tab(name, id=name)
    with gr.Column(visible=False) as one_board:
        dataset, place, search, origin, kind, size = _choices([str(places[0]) for places in families.values()][:1])
        table, shown, more, plot = _table_and_plot()
    sort, page = gr.Textbox(visible=False), gr.Number(1, label="page", precision=0, visible=False)
    head = [one_board, overview, dataset, place, search, origin, kind, size]
    outputs = [*head, sort, page, shown, table, more, plot]

    def find(
        place: str,
        search: str | None = None,
        origin: str = ALL,
        sort: str | None = None,
        shown: list[str] | None = None,
        page: float | None = 1,
        size: str = ALL,
        type: str = ALL,
    ) -> tuple[object, ...]:
        """Return a board as HTML; programs read /api/board?place=PLACE, and all places at /api/boards."""
        if not place:  # the page was not filled yet
            return gr.skip(), gr.skip()
        try:
            where, page = as_task_key(place), int(page or 1)
            view = View((search or "")[:MAX_SEARCH], origin, sort or "", page, size, type)
            return table_html(boards.board(where), where, view, shown or []), page
        except KBBenchError as error:
            return html.render_html("words", text=error), 1

    def clicked(event: gr.SelectData, *view: Any) -> object:
        """Sort by a heading or turn the page; return the table, the page and the sorting. A row is another tab's."""
        task_key, search, origin, sort, shown, page, *kinds = view
        wanted = _clicked_view(event.value, sort, page)
        if wanted is None:
            return gr.skip(), gr.skip(), gr.skip()
        return *find(task_key, search, origin, wanted[0], shown, wanted[1], *kinds), wanted[0]

    def drawing(event: gr.SelectData, task_key: str) -> object:
        return _plot_of_axes(boards, task_key, event.value) or gr.skip()

    def show(task_key: str, query: Mapping[str, str]) -> list[object]:
        """Return the values of `outputs` for one place, with the view that the query requests."""
        try:
            board = boards.board(where := as_task_key(task_key))
        except KBBenchError as error:
            problem = {
                table: html.render_html("words", text=error),
                one_board: gr.Column(visible=True),
                more: "",
                plot: "",
            }
            return [problem.get(each, gr.skip()) for each in outputs]
        return _board_values(boards, board, where, query)

    def show_overview() -> list[object]:
        shown = {one_board: gr.Column(visible=False), overview: overview_html(boards), place: None}
        return [shown.get(each, gr.skip()) for each in outputs]

    def pick_family(event: gr.SelectData) -> object:
        places = boards.families().get(str(event.value), [])
        return show(str(places[0]), {}) if places else show_overview()

    def pick_dataset(dataset: str, task_key: str) -> object:
        """Go to another dataset, to the same subset and split of it if it has them."""
        chosen = _same_setting(boards, dataset, task_key)
        return [gr.skip()] * len(outputs) if chosen is None else show(str(chosen), {})

    def start(query: Mapping[str, str]) -> list[object]:
        where = boards.requested_task_key(query)
        if where is None and "place" not in query:
            return [gr.Tabs(selected=OVERVIEW), *show_overview()]
        family = gr.Tabs(selected=benchmark(where.benchmark).facts.family) if where else gr.skip()
        return [family, *show(str(where or query["place"]), query)]

    quiet: html.Listener = {"show_progress": "hidden", "api_visibility": "private"}
    family_tabs.select(pick_family, None, outputs, js="kbbench.again", **quiet)
    dataset.input(pick_dataset, [dataset, place], outputs, js="kbbench.again", **quiet)
    place.input(lambda place: show(place, {}), place, outputs, js="kbbench.again", **quiet)
    place.change(None, place, None, js="kbbench.place")
    at_once: html.Listener = {"show_progress": "hidden", "queue": False}
    searched: html.Listener = {**at_once, "trigger_mode": "always_last"}
    inputs = [place, search, origin, sort, shown, page, size, kind]
    table.select(clicked, inputs, [table, page, sort], api_visibility="private", **at_once)
    filters = [search.change, origin.input, size.input, kind.input]
    gr.on(filters, find, inputs, [table, page], js="kbbench.filters", api_name="board", **searched)
    shown.input(find, inputs, [table, page], js="kbbench.columns", api_visibility="private", **searched)
    plot.select(drawing, place, plot, api_visibility="private", **at_once)
    return BoardTab(place, table, start, [family_tabs, *outputs])


def _table_and_plot() -> "tuple[gr.HTML, gr.CheckboxGroup, gr.HTML, gr.HTML]":
    """Lay out the table, the choice of its columns, the part below it and the plot."""
    import gradio as gr

    table = gr.HTML(label="table", elem_id="board", js_on_load=html.ON_CLICK, apply_default_css=False)
    with gr.Accordion("Columns", open=False):
        shown = gr.CheckboxGroup([], show_label=False, elem_id="columns")
    more = gr.HTML(elem_id="board-more", js_on_load=None, apply_default_css=False)
    plot = gr.HTML(elem_id="plot", js_on_load="kbbench.axes(element, trigger)", apply_default_css=False)
    return table, shown, more, plot


def _plot_of_axes(boards: Boards, task_key: str, axes: object) -> str:
    """Return the plot of the chosen axes, a list of two names; an empty string if there is no such plot."""
    if not isinstance(axes, list) or len(axes) != 2:
        return ""
    try:
        return plot_html(boards.board(as_task_key(task_key)), as_task_key(task_key), *map(str, axes))
    except KBBenchError:
        return ""


def _clicked_view(value: object, sort: str, page: float) -> tuple[str, float] | None:
    """Return the sorting and the page that a click on the table requests; None for a click on a row."""
    what, wanted = value if isinstance(value, list) and len(value) == 2 else ("", "")
    if what == "sort":
        return str(wanted), 1
    if what == "page" and str(wanted).isdecimal() and len(str(wanted)) < 7:
        return sort, int(wanted)
    return None


def _choices(menu: list[str]) -> "tuple[gr.components.Component, ...]":
    """Lay out the menus; that of places begins with `menu`, where programs read how places are written."""
    import gradio as gr

    with gr.Row(elem_id="choices"):
        return (
            _menu("Dataset", [], "dataset", scale=3, min_width=240),
            _menu("Subset and split", menu, "place", scale=2, min_width=150),
            gr.Textbox(label="Search", placeholder="name, type, license", scale=2, min_width=150, elem_id="search"),
            gr.Dropdown(
                [(label, value) for value, label in ORIGINS.items()],
                value=ALL, label="Origin", scale=1, min_width=110, elem_id="origin",
            ),
            gr.Dropdown([ALL], value=ALL, label="Type", scale=1, min_width=130, elem_id="type"),
            gr.Dropdown([ALL], value=ALL, label="Size", scale=1, min_width=110, elem_id="size"),
        )  # fmt: skip


def _board_values(boards: Boards, board: Board, where: TaskKey, query: Mapping[str, str]) -> list[object]:
    """Return the values of the tab's outputs for one board, with the view that the query requests."""
    import gradio as gr

    view, columns = board.view(query), board.headings(query)
    filters = [
        gr.Dropdown(choices, value=value, visible=len(choices) > 2)
        for choices, value in ((types(board.rows), view.type), (sizes(board.rows), view.size))
    ]
    places = boards.families().get(benchmark(where.benchmark).facts.family, [])
    return [
        gr.Column(visible=True),
        gr.skip(),
        *_menus(places if where in places else [*places, where], where),
        view.search,
        view.origin,
        *filters,
        view.sort,
        view.page,
        gr.CheckboxGroup([column.heading for column in board.columns], value=columns),
        table_html(board, where, view, columns),
        gr.HTML(below := more_html(boards, board, where), visible=bool(below)),
        plot_html(board, where, query.get("x", ""), query.get("y", "")),
    ]


def _same_setting(boards: Boards, dataset: str, task_key: str) -> TaskKey | None:
    """Return the place of a dataset with the subset and split of `task_key`, else its first; None without any."""
    places = [each for group in boards.families().values() for each in group if dataset_label(each) == dataset]
    try:
        wanted = setting_label(as_task_key(task_key))
    except KBBenchError:
        wanted = ""
    return next((each for each in places if setting_label(each) == wanted), places[0] if places else None)


def _menu(label: str, choices: list[str], elem_id: str, **layout: int) -> "gr.Dropdown":
    import gradio as gr

    return gr.Dropdown(choices, value=None, label=label, elem_id=elem_id, allow_custom_value=True, **layout)


def _menus(places: list[TaskKey], value: TaskKey) -> tuple[object, object]:
    """Return the menu of a family's datasets, and that of the subsets and splits of the chosen one."""
    import gradio as gr

    datasets = list(dict.fromkeys(map(dataset_label, places)))
    here = [each for each in places if dataset_label(each) == dataset_label(value)]
    return (
        gr.Dropdown(datasets, value=dataset_label(value)),
        gr.Dropdown([(setting_label(each), str(each)) for each in here], value=str(value)),
    )


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
    bars = {row.id: board.axis.bar(row.score(board.headline)) for row in visible} if board.axis else {}
    lines = [
        [
            (head["css"], each.text(row), each.beside(row), bars.get(row.id) if each.metric == board.headline else None)
            for head, each in zip(headings, columns_shown, strict=True)
        ]
        for row in visible
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
    return html.render_html(
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
    return html.render_html(
        "board_more", summary=summary_html(boards, board, task_key), slices=slices, label=board.label
    )


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
        key: sum(row.scores[board.headline].value for row in rows.values()) / len(rows) for key, rows in scores.items()
    }
    to_row, to_board = Markup('<a href="{}">{}</a>'), Markup('<a href="?place={}">{}</a>')
    ranked = sorted(scores, key=lambda key: (-len(scores[key]), sign * means[key], key))[:N_SUMMARY]
    lines = [
        [
            to_row.format(row_address(*next(iter(scores[key].items()))), key[0]),
            *(scores[key][each].scores[board.headline].text() if each in scores[key] else "" for each in alike),
            f"{means[key]:.4f}" if len(scores[key]) == len(alike) else "",
        ]
        for key in ranked
    ]
    headings = ["system", *(to_board.format(each, task_keys_apart(each, alike)) for each in alike)]
    note = f"{n_systems(len(scores))}, the first {N_SUMMARY} shown. " if len(scores) > N_SUMMARY else ""
    note += "Mean: unweighted over the datasets, for systems with a score on each."
    return html.table([*headings, "mean"], lines, note=note)


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
    front = set(html.pareto_front(points, not up.descending))
    plotted = [row for n, row in enumerate(rows) if n < N_DOTS or n in front]
    dots = [html.Dot(values[row.id], row.scores[up.metric], row.system, row_address(task_key, row)) for row in plotted]
    x_axis, y_axis = (COSTS.get(x, x), not across.descending), (y, not up.descending)
    drawn = html.scatter(dots, x_axis, y_axis, logarithmic=x in COSTS) if len(dots) > 1 else None
    axes = {"y": ("y axis", y, y_choices), "x": ("x axis", x, x_choices)}
    return html.render_html("plot", drawn=drawn, axes=axes, costs=x in COSTS)


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
        panels = {}
        for key, scores in keys.items():
            values = {
                row.system: (BoardScore.of(each[name][key][board.headline]), row_address(task_key, row))
                for row, each in zip(best, results, strict=True)
                if board.headline in each.get(name, {}).get(key, {})
            }
            n = max((each["n_scored"] for each in scores.values()), default=0)
            panels[f"{key} (n = {n:,})"] = values
        drawn[name.replace("_", " ")] = html.multiples(panels, f"{board.label} by {name.replace('_', ' ')}")
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
