"""The board's tab: a tab per family of benchmarks, one small table, and its choices in the page's address."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kbbench_hf.app.board_table import board_problem, more_html, table_html
from kbbench_hf.app.boards import Boards, dataset_label, setting_label
from kbbench_hf.app.html import ON_CLICK, Listener
from kbbench_hf.benchmarks import Place, as_place, benchmark
from kbbench_hf.errors import KBBenchError
from kbbench_hf.leaderboard.view import ALL, MAX_SEARCH, ORIGINS, View, asked_columns

if TYPE_CHECKING:
    import gradio as gr

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
START_AGAIN = """(...values) => {
  kbbench({search: "", origin: "", sort: "", sheet: "", columns: "", row: "", compare: ""});
  return values;
}"""


@dataclass(frozen=True)
class BoardTab:
    """What other tabs need of this one: the place, the table whose rows open, and how it starts."""

    place: "gr.Dropdown"
    table: "gr.HTML"
    start: Callable[[Mapping[str, str]], tuple[object, ...]]
    """What an address asks for -> the values of `outputs`."""
    outputs: "list[gr.blocks.Block]"


def board_tab(boards: Boards) -> BoardTab:
    """Lay out the tab."""
    import gradio as gr

    families = boards.families()
    menu = [str(places[0]) for places in families.values()][:1]  # programs read here how places are written
    with gr.Tabs(elem_id="families", selected=next(iter(families), None)) as family_tabs:
        for name in families:
            gr.Tab(name, id=name)
    with gr.Row(elem_id="choices"):
        dataset = gr.Dropdown(
            label="Dataset", choices=[], scale=3, min_width=240, elem_id="dataset", allow_custom_value=True
        )
        place = gr.Dropdown(
            label="Part and split",
            choices=menu,
            value=None,
            scale=2,
            min_width=150,
            elem_id="place",
            allow_custom_value=True,
        )
        search = gr.Textbox(
            label="Search", placeholder="name, licence, submitter", scale=2, min_width=150, elem_id="search"
        )
        origin = gr.Dropdown(ORIGINS, value=ALL, label="Origin", scale=1, min_width=110, elem_id="origin")
    table = gr.HTML(label="table", elem_id="board", js_on_load=ON_CLICK, apply_default_css=False)
    with gr.Accordion("Columns", open=False):
        shown = gr.CheckboxGroup([], show_label=False, elem_id="columns")
    more = gr.HTML(elem_id="board-more", js_on_load=None, apply_default_css=False)
    sort, page = gr.Textbox(visible=False), gr.Number(1, label="page", precision=0, visible=False)
    view = [place, search, origin, sort, page]

    def find(
        place: str,
        search: str | None = None,
        origin: str = ALL,
        sort: str | None = None,
        shown: list[str] | None = None,
        page: float | None = 1,
    ) -> tuple[object, ...]:
        """Return a board as HTML; programs read /api/board?place=PLACE, and all places at /api/boards."""
        if not place:  # the page was not filled yet
            return gr.skip(), gr.skip()
        try:
            where, page = as_place(place), int(page or 1)
            view = View((search or "")[:MAX_SEARCH], origin, sort or "", page)
            return table_html(boards.board(where), where, view, shown or []), page
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
            where = as_place(place)
            found = boards.board(where)
        except KBBenchError as error:
            return gr.skip(), gr.skip(), board_problem(error), gr.skip(), "", 1, ""
        return (
            "",
            ALL,
            table_html(found, where, View(), found.default_columns),
            gr.CheckboxGroup([column.heading for column in found.columns], value=found.default_columns),
            "",
            1,
            more_html(boards, found, where),
        )

    def pick_family(event: gr.SelectData) -> object:
        places = boards.families().get(str(event.value), [])
        return (*_menus(places, places[0]), *pick(str(places[0]))) if places else [gr.skip()] * 9

    def pick_dataset(dataset: str, place: str) -> object:
        """Go to another dataset, to the same part and split of it if it has them."""
        places = [each for group in boards.families().values() for each in group if dataset_label(each) == dataset]
        if not places:
            return [gr.skip()] * 8
        try:
            wanted = setting_label(as_place(place))
        except KBBenchError:
            wanted = ""
        where = next((each for each in places if setting_label(each) == wanted), places[0])
        return (_menus(places, where)[1], *pick(str(where)))

    def start(asked: Mapping[str, str]) -> tuple[object, ...]:
        where = boards.asked_place(asked)
        unknown = ""
        try:
            as_place(asked.get("place", str(where)))
        except KBBenchError as error:
            unknown = board_problem(error)
        found = boards.board(where)
        shown = asked_columns(asked.get("columns", ""), found.columns, found.default_columns)
        view = View.of(asked, found.columns)
        family = benchmark(where.benchmark).facts.family
        places = boards.families().get(family, [])
        return (
            gr.Tabs(selected=family),
            *_menus(places if where in places else [*places, where], where),
            view.search,
            view.origin,
            view.sort,
            view.page,
            gr.CheckboxGroup([column.heading for column in found.columns], value=shown),
            unknown or table_html(found, where, view, shown),
            "" if unknown else more_html(boards, found, where),
        )

    quiet: Listener = {"show_progress": "hidden", "api_visibility": "private"}
    picked = [search, origin, table, shown, sort, page, more]
    start_outputs = [family_tabs, dataset, place, search, origin, sort, page, shown, table, more]
    family_tabs.select(pick_family, None, [dataset, place, *picked], js=START_AGAIN, **quiet)
    dataset.input(pick_dataset, [dataset, place], [place, *picked], js=START_AGAIN, **quiet)
    place.input(pick, place, picked, js=START_AGAIN, **quiet)
    place.change(None, place, None, js=PUT_PLACE)
    at_once: Listener = {"show_progress": "hidden", "queue": False}
    searched: Listener = {**at_once, "trigger_mode": "always_last"}
    table.select(clicked, [*view, shown], [table, page, sort], api_visibility="private", **at_once)
    inputs, outputs = [place, search, origin, sort, shown, page], [table, page]
    gr.on([search.change, origin.input], find, inputs, outputs, js=PUT_SEARCH, api_name="board", **searched)
    shown.input(find, inputs, outputs, js=PUT_COLUMNS, api_visibility="private", **searched)
    return BoardTab(place, table, start, start_outputs)


def _menus(places: list[Place], value: Place) -> tuple[object, object]:
    """Return the menu of a family's datasets, and that of the parts and splits of the one that is chosen."""
    import gradio as gr

    datasets = list(dict.fromkeys(map(dataset_label, places)))
    here = [each for each in places if dataset_label(each) == dataset_label(value)]
    return (
        gr.Dropdown(datasets, value=dataset_label(value)),
        gr.Dropdown([(setting_label(each), str(each)) for each in here], value=str(value)),
    )
