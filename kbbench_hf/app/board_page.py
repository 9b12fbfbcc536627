"""The board's tab: a tab per family of benchmarks, one small table, and its choices in the page's address."""

import json
import time
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from kbbench_hf.app.boards import Board, Boards, place_label
from kbbench_hf.app.html import ON_CLICK, Listener, rendered
from kbbench_hf.app.plots import pareto_plot
from kbbench_hf.benchmarks import Place, as_place, benchmark
from kbbench_hf.errors import KBBenchError
from kbbench_hf.leaderboard.table import Row
from kbbench_hf.leaderboard.view import ALL, PAGE, Column, View, cells, chosen, csv_text, latex_text, page_of

if TYPE_CHECKING:
    import gradio as gr

ORIGINS = [ALL, "re-scored", "own run", "published"]
MAX_SEARCH = 200
PUT_PLACE = "place => kbbench({place})"
"""`kbbench` is in `address.js`: it puts choices in the page's address, so that a reload or a link shows the same."""
PUT_SEARCH = """(...values) => {
  const [place, search, every] = values, origin = every === "all" ? "" : every;
  const now = new URL(window.location).searchParams;
  if (search !== (now.get("search") || "") || origin !== (now.get("origin") || "")) {
    kbbench({search, origin, sheet: ""});
    values[5] = 1;
  }
  return values;
}"""
"""Another search begins at page 1; what the address asked for at first stays on its page."""
PUT_COLUMNS = """(...values) => {
  kbbench({columns: values[4].join(",")});
  return values;
}"""
START_AGAIN = """place => {
  kbbench({search: "", origin: "", sort: "", sheet: "", columns: "", row: "", compare: ""});
  return place;
}"""
SAVE = """(text) => {
  const { name, content } = JSON.parse(text);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type: "text/plain" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}"""
"""The file is made in the browser, so none is left on the server."""


@dataclass(frozen=True)
class BoardTab:
    """What other tabs need of this one: the place menu, the table whose rows open, and when both are there."""

    place: "gr.Dropdown"
    table: "gr.HTML"
    loaded: "gr.events.Dependency"
    """The event after which the choices of the address are in place."""


def board_tab(boards: Boards) -> BoardTab:
    """Lay out the tab."""
    import gradio as gr

    families = list(boards.families())
    with gr.Tabs(elem_id="families", selected=families[0] if families else None) as family_tabs:
        for name in families:
            gr.Tab(name, id=name)
    with gr.Row(elem_id="choices"):
        place = gr.Dropdown(
            label="Dataset and split", choices=[], scale=3, min_width=240, elem_id="place", allow_custom_value=True
        )
        search = gr.Textbox(
            label="Search", placeholder="name, licence, submitter", scale=2, min_width=150, elem_id="search"
        )
        origin = gr.Dropdown(ORIGINS, value=ALL, label="Origin", scale=1, min_width=110, elem_id="origin")
    table = gr.HTML(elem_id="board", js_on_load=ON_CLICK, apply_default_css=False)
    with gr.Row():
        buttons = {
            kind: gr.Button(f"Download {label}", size="sm", min_width=120, elem_id=f"save-{kind}")
            for kind, label in (("csv", "CSV"), ("tex", "LaTeX"))
        }
    with gr.Accordion("Columns", open=False):
        shown = gr.CheckboxGroup([], show_label=False, elem_id="columns")
    with gr.Accordion("Quality against cost and latency", open=False, visible=False) as cost:
        plot = gr.Plot(show_label=False)
    sort, page = gr.Textbox(visible=False), gr.Number(1, precision=0, visible=False)
    saved = gr.Textbox(visible=False)
    view = [place, search, origin, sort, page]

    def find(
        place: str, search: str, origin: str, sort: str, shown: list[str], page: float | None = 1
    ) -> tuple[object, ...]:
        """Return the table and the page that it shows."""
        try:
            where, page = as_place(place), int(page or 1)
            return table_html(boards.board(where), where, View(search[:MAX_SEARCH], origin, sort, page), shown), page
        except KBBenchError as error:
            return board_problem(error), 1

    def clicked(
        event: gr.SelectData, place: str, search: str, origin: str, sort: str, page: float, shown: list[str]
    ) -> object:
        """Sort by a heading or turn the page; return the table, the page and the sorting. A row is another tab's."""
        what, value = event.value if isinstance(event.value, list) and len(event.value) == 2 else ("", "")
        if what == "sort":
            return *find(place, search, origin, str(value), shown), str(value)
        if what == "page" and str(value).isdecimal() and len(str(value)) < 7:
            return *find(place, search, origin, sort, shown, int(value)), sort
        return gr.skip(), gr.skip(), gr.skip()

    def pick(place: str) -> tuple[object, ...]:
        try:
            found = boards.board(as_place(place))
        except KBBenchError as error:
            return gr.skip(), gr.skip(), board_problem(error), gr.skip(), "", 1, gr.skip(), None
        return (
            "",
            ALL,
            table_html(found, as_place(place), View(), found.default_columns),
            gr.CheckboxGroup([column.heading for column in found.columns], value=found.default_columns),
            "",
            1,
            gr.Accordion(visible=has_cost(found.rows)),
            pareto(found),
        )

    def pick_family(event: gr.SelectData) -> object:
        places = boards.families().get(str(event.value), [])
        if not places:
            return [gr.skip()] * 9
        return (_menu(places, places[0]), *pick(str(places[0])))

    def start(request: gr.Request) -> object:
        asked = dict(request.query_params)
        by_family = boards.families()
        try:
            where = as_place(asked.get("place", ""))
        except KBBenchError:
            where = next(iter(by_family.values()))[0]
        found = boards.board(where)
        headings = [column.heading for column in found.columns]
        wanted = [heading for heading in asked.get("columns", "").split(",") if heading in headings]
        view = View(
            asked.get("search", "")[:MAX_SEARCH],
            asked["origin"] if asked.get("origin") in ORIGINS else ALL,
            asked["sort"] if asked.get("sort", "").removeprefix("-") in headings else "",
            int(asked["sheet"]) if asked.get("sheet", "").isdecimal() and len(asked["sheet"]) < 7 else 1,
        )
        shown = wanted or found.default_columns
        places = by_family.get(benchmark(where.benchmark).facts.family, [])
        return (
            gr.Tabs(selected=benchmark(where.benchmark).facts.family),
            _menu(places if where in places else [*places, where], where),
            view.search,
            view.origin,
            view.sort,
            view.page,
            gr.CheckboxGroup(headings, value=shown),
            table_html(found, where, view, shown),
            gr.Accordion(visible=has_cost(found.rows)),
            pareto(found),
        )

    def save(kind: str, place: str, search: str, origin: str, sort: str, shown: list[str]) -> str:
        try:
            where = as_place(place)
        except KBBenchError as error:
            return json.dumps({"name": "error.txt", "content": str(error)})
        found = boards.board(where)
        rows = found.differences(chosen(found.rows, View(search[:MAX_SEARCH], origin, sort), found.columns))
        text = csv_text(rows, _kept(found, shown)) if kind == "csv" else latex_text(rows, found.benchmark, shown)
        name = f"{'-'.join(where[:3])}.{kind}"
        return json.dumps({"name": name, "content": text, "time": time.time()})  # the same file twice is two downloads

    quiet: Listener = {"show_progress": "hidden", "api_visibility": "private"}
    picked = [search, origin, table, shown, sort, page, cost, plot]
    start_outputs = [family_tabs, place, search, origin, sort, page, shown, table, cost, plot]
    loaded = gr.context.Context.root_block.load(start, None, start_outputs, **quiet)
    family_tabs.select(pick_family, None, [place, *picked], js=START_AGAIN, **quiet)
    place.input(pick, place, picked, js=START_AGAIN, **quiet)
    place.change(None, place, None, js=PUT_PLACE)
    at_once: Listener = {"show_progress": "hidden", "queue": False}
    searched: Listener = {**at_once, "trigger_mode": "always_last"}
    table.select(clicked, [*view, shown], [table, page, sort], api_visibility="private", **at_once)
    inputs, outputs = [place, search, origin, sort, shown, page], [table, page]
    gr.on([search.change, origin.input], find, inputs, outputs, js=PUT_SEARCH, api_name="board", **searched)
    shown.input(find, inputs, outputs, js=PUT_COLUMNS, api_visibility="private", **searched)
    for kind, button in buttons.items():
        button.click(partial(save, kind), [place, search, origin, sort, shown], saved, **quiet)
    saved.change(None, saved, None, js=SAVE)
    return BoardTab(place, table, loaded)


def table_html(found: Board, place: Place, view: View, shown: list[str]) -> str:
    """Return the page of a board that a view leaves."""
    rows = chosen(found.rows, view, found.columns)
    visible, number, n_pages = page_of(rows, view.page)
    kept = _kept(found, shown)
    headings = [_heading(column, view.sort) for column in kept]
    start = (number - 1) * PAGE
    above = rows[max(0, start - 1) : start]  # the page's first row has one above it, too
    visible = found.differences([*above, *visible])[len(above) :]
    lines = cells(visible, kept)
    texts = [[(head["css"], *cell) for head, cell in zip(headings, line, strict=True)] for line in lines]
    begins = [not view.sort and _begins(*two) for two in pairwise([*visible[:1], *visible])]
    words = f"{len(rows):,} of {_systems(len(found.rows))}" if len(rows) < len(found.rows) else _systems(len(rows))
    words += ". Systems with the same # cannot be told from its first." if any(row.group for row in rows) else ""
    return rendered(
        "board",
        headings=headings,
        rows=list(zip((row.id for row in visible), begins, texts, strict=True)),
        place=str(place),
        page=number,
        n_pages=n_pages,
        words=words,
    )


def board_problem(error: KBBenchError) -> str:
    """Return an error as the table's place shows it."""
    return rendered("words", text=error)


def has_cost(rows: list[Row]) -> bool:
    """Say whether a row says what it costs or how long it takes."""
    return any(row.cost_per_1000_usd or row.latency_p95_s for row in rows)


def pareto(found: Board) -> object:
    """Return the picture of quality against cost and latency, or None where no row says either."""
    of = found.benchmark
    return pareto_plot(
        found.rows, found.headline, of.metrics[found.headline], found.headline in of.scoring.lower_is_better
    )


def _heading(column: Column, sort: str) -> dict[str, str]:
    """Return a heading as the template has it: `order` where it is sorted by, `next` for what a click sorts by."""
    text, reverse = column.heading, sort.startswith("-")
    css = {"system": "name", "#": "", "licence": "", "origin": "", "date": ""}.get(text, "number")
    better = ("↑" if column.descending else "↓") if column.metric else ""
    heading = {"text": text, "better": better, "css": css, "order": "", "next": text if column.order else ""}
    if not column.order or text != sort.removeprefix("-"):
        return heading
    order = "descending" if column.descending != reverse else "ascending"
    return {**heading, "order": order, "next": "" if reverse else f"-{text}"}


def _systems(number: int) -> str:
    return f"{number:,} system{'' if number == 1 else 's'}"


def _begins(upper: Row, lower: Row) -> bool:
    return None not in (upper.group, lower.group) and upper.group != lower.group


def _kept(found: Board, shown: list[str]) -> list[Column]:
    wanted = set(shown) | {"system"} if isinstance(shown, list) else set(found.default_columns)
    return [column for column in found.columns if column.heading in wanted]


def _menu(places: list[Place], value: Place) -> object:
    import gradio as gr

    return gr.Dropdown([(place_label(each), str(each)) for each in places], value=str(value))
