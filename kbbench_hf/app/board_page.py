"""The Leaderboard tab: an overview, a tab per family of benchmarks, filters, the table, slices and a scatter plot.

The functions that return HTML are also used for the first page and for tests, without Gradio, which is slow to import.
"""

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
    """Return the overview as HTML: for each benchmark a line, on its board with most rows that were scored here."""
    families = {
        family: [line_of(boards, list(group)) for _, group in groupby(places, attrgetter("benchmark"))]
        for family, places in boards.families().items()
    }
    return html.render_html("overview", families=families)


def line_of(boards: Boards, places: list[TaskKey]) -> dict[str, Any]:
    """Return the line of a benchmark for the template: the board with most stored rows, or the first of equal ones."""
    by_place = {task_key: boards.board(task_key) for task_key in places}
    task_key = max(places, key=lambda each: sum(row.badge != "published" for row in by_place[each].rows))
    whole = by_place[task_key]
    gold = whole.benchmark.showing.gold  # a published row with the gold's own scores, which is no system
    board = replace(whole, rows=[row for row in whole.rows if row.badge != "published" or row.system != gold])
    leaders = [(row, score) for row in board.rows[:N_LEADERS] if (score := row.scores.get(board.headline))]
    axis = html.axis_of(score for _, score in leaders)
    others = len(places) - 1
    more = f" · {others} other {'split or subset' if others == 1 else 'splits or subsets'}" if others else ""
    stored = sum(row.badge != "published" for row in board.rows)
    scored = f", {stored:,} scored here" if 0 < stored < len(board.rows) else " scored here" if stored else ""
    return {
        "title": task_label(task_key),
        "href": f"?place={task_key}",
        "facts": f"{n_systems(len(board.rows))}{scored}{more}",
        "label": f"{board.label} {'↓' if board.lower_is_better else '↑'}" if board.rows else "",
        "axis": axis.ends if axis else "",
        "leaders": [
            {"name": row.system, "href": row_address(task_key, row), "figure": score, "badge": row.badge}
            | {"bar": axis.bar(score) if axis else None}
            for row, score in leaders
        ],
        "significant": significant(board),
    }


def significant(board: Board) -> str:
    """Return sentences on the significance tests of a board's best rows; empty if all scores are from papers."""
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
        test = _test_of_first_two(board, stored)
        return f"{first[0].system} is better than every other system scored here{test}.{above}"
    n_alike = len(first) - 1
    return (
        f"{first[0].system} ranks first; {n_alike} other{' does' if n_alike == 1 else 's do'} not differ "
        f"significantly from it, {len(stored) - len(first)} scored significantly worse.{above}"
    )


def _test_of_first_two(board: Board, stored: list[Row]) -> str:
    """Return the p-value of the first two rows in parentheses; empty without a significant test."""
    test = board.differences(stored[:2])[1].above
    return f" ({p_text(test.p_value)} against the next)" if test and test.p_value < ALPHA else ""


OVERVIEW = "Overview"


@dataclass(frozen=True)
class BoardTab:
    """Parts of this tab that the others use."""

    place: "gr.Dropdown"
    """The menu of subsets and splits, whose value is a task key."""
    table: "gr.HTML"
    """The table; a click on one of its rows opens the System tab."""
    start: Callable[[Mapping[str, str]], list[object]]
    """Function from the query of an address to the values of `outputs`."""
    outputs: "list[gr.blocks.Block]"


def board_tab(boards: Boards) -> BoardTab:
    """Add the components of the tab and their listeners, and return what other tabs use."""
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
        if not place:  # before the page is loaded
            return gr.skip(), gr.skip()
        try:
            where, page = as_task_key(place), int(page or 1)
            view = View((search or "")[:MAX_SEARCH], origin, sort or "", page, size, type)
            return table_html(boards.board(where), where, view, shown or []), page
        except KBBenchError as error:
            return html.render_html("words", text=error), 1

    def clicked(event: gr.SelectData, *view: Any) -> object:
        """Sort by a heading or turn the page; return the table, the page and the sorting. Clicks on rows do nothing."""
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
        return _output_values(boards, board, where, query)

    def show_overview() -> list[object]:
        shown = {one_board: gr.Column(visible=False), overview: overview_html(boards), place: None}
        return [shown.get(each, gr.skip()) for each in outputs]

    def pick_family(event: gr.SelectData) -> object:
        places = boards.families().get(str(event.value), [])
        return show(str(places[0]), {}) if places else show_overview()

    def pick_dataset(dataset: str, task_key: str) -> object:
        """Show another dataset, with the same subset and split if it has them."""
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
    """Add the table, the choice of its columns, the part below it and the plot."""
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
    """Add the menus; `menu` are the first choices of places, in which programs see the form of a place."""
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


def _output_values(boards: Boards, board: Board, where: TaskKey, query: Mapping[str, str]) -> list[object]:
    """Return the values of the tab's outputs for a board, in the view that a query requests."""
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
    """Return the task key of a dataset with the subset and split of another, else its first; None without any."""
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
    """Return the menu of the datasets of a family, and the menu of subsets and splits of the chosen dataset."""
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
"""Heading of a column of costs, where lower is better -> its label on the x axis of a plot."""
TEXT_COLUMNS = {"#", "type", "license", "warnings", "annotated with", "submitter", "origin", "date"}
"""Headings of columns that are aligned left."""
N_DOTS = 150
"""Number of systems in a plot, in addition to those on the Pareto front."""
N_SYSTEMS = 5
"""Number of systems in the pictures of slices."""
N_SUMMARY = 30
"""Number of systems in the summary over datasets."""
N_KEYS = 12
"""Maximum number of keys of a slice with a picture."""


def table_html(board: Board, task_key: TaskKey, view: View, shown: Sequence[str]) -> str:
    """Return a page of a board's table as HTML, with the rows and the order of a view and the `shown` headings."""
    rows = board.chosen(view)
    visible, number, n_pages = page_of(rows, view.page)
    columns_shown = chosen_columns(board, shown)
    headings = [_heading(column, view.sort) for column in columns_shown]
    start = (number - 1) * PAGE
    above = rows[max(0, start - 1) : start]  # the last row of the page before, for the difference of the first row
    visible = board.differences([*above, *visible])[len(above) :]
    bars = {row.id: board.axis.bar(row.score(board.headline)) for row in visible} if board.axis else {}
    lines = [
        [
            (head["css"], each.text(row), each.beside(row), bars.get(row.id) if each.metric == board.headline else None)
            for head, each in zip(headings, columns_shown, strict=True)
        ]
        for row in visible
    ]
    begins = [not view.sort and _begins_group(*two) for two in pairwise([*visible[:1], *visible])]
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
    """Return the part below the table as HTML: the summary over datasets, and the best systems by slice."""
    names = [name for row in _best_stored(board)[:1] for name in boards.index.store.result(row.id)["slices"]]
    slices = _slices(boards, board, task_key, names)
    return html.render_html(
        "board_more", summary=summary_html(boards, board, task_key), slices=slices, label=board.label
    )


def summary_html(boards: Boards, board: Board, task_key: TaskKey) -> str:
    """Return a table of systems with their headline scores on related datasets, and the mean if all are known.

    The datasets have the same split and metrics. An empty string for a single dataset, and where no system is on two.
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
    """Return the columns with these headings and that of the systems, in the board's order; else the default ones."""
    wanted = {*shown, "system"} if isinstance(shown, Sequence) and shown else set(board.default_columns)
    return [column for column in board.columns if column.heading in wanted]


def n_systems(number: int) -> str:
    """Return the number with the word "system" or "systems".

    >>> n_systems(1), n_systems(1200)
    ('1 system', '1,200 systems')
    """
    return f"{number:,} system{'' if number == 1 else 's'}"


def row_address(task_key: TaskKey, row: Row) -> str:
    """Return the address of a row's page, relative to the site."""
    return f"?{urlencode({'place': str(task_key), 'tab': 'row', 'row': row.id})}"


def plot_axes(board: Board) -> tuple[list[str], list[str]]:
    """Return the headings that a scatter plot offers for the x and the y axis, the default ones first.

    A column needs values of two systems. Costs are offered on the x axis only.
    """
    metrics = [each.heading for each in board.columns if each.metric and len(_values(board, each)) > 1]
    metrics.sort(key=lambda heading: heading != board.label)
    costs = [each.heading for each in board.columns if each.heading in COSTS and len(_values(board, each)) > 1]
    return [*costs, *metrics[1:], *metrics[:1]], metrics


def plot_html(board: Board, task_key: TaskKey, x: str, y: str) -> str:
    """Return a scatter plot of two columns as HTML, with menus for its axes; an empty string without two columns.

    `x` and `y` are headings; an unknown one gives the default. Of many systems, the first `N_DOTS` and those on the
    Pareto front are drawn.
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
    """Return row id -> finite value of a column; of costs only positive ones, because their axis is logarithmic."""
    values = {row.id: column.order(row) for row in board.rows} if column.order else {}
    least = 0.0 if column.heading in COSTS else -math.inf
    return {row: each for row, each in values.items() if isinstance(each, float) and least < each < math.inf}


def _slices(boards: Boards, board: Board, task_key: TaskKey, names: Sequence[str]) -> dict[str, str]:
    """Return slice -> HTML with a panel for each of its keys and a bar for each of the best systems.

    Slices with one key, or more than `N_KEYS`, are left out.
    """
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
    """Return a heading for the template; `order` if the rows are sorted by it, `next` is the sorting after a click."""
    text, reverse = column.heading, sort.startswith("-")
    css = "name" if text == "system" else "" if text in TEXT_COLUMNS else "number"
    better = ("↑" if column.descending else "↓") if column.metric else ""
    heading = {"text": text, "better": better, "css": css, "order": "", "next": text if column.order else ""}
    if not column.order or text != sort.removeprefix("-"):
        return heading
    order = "descending" if column.descending != reverse else "ascending"
    return {**heading, "order": order, "next": "" if reverse else f"-{text}"}


def _begins_group(upper: Row, lower: Row) -> bool:
    """Whether a new rank group begins between two rows."""
    return None not in (upper.group, lower.group) and upper.group != lower.group
