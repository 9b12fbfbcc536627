"""The board's tab: one table, small however long the board, with its choices in the page's address."""

import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbbench_hf.benchmarks import benchmark, benchmark_names
from kbbench_hf.leaderboard.index import Index, Place
from kbbench_hf.leaderboard.table import Row, board
from kbbench_hf.leaderboard.view import (
    ALL,
    View,
    cells,
    chosen,
    columns,
    csv_text,
    default_columns,
    latex_text,
    page_of,
)
from kbbench_hf.published import published_places

if TYPE_CHECKING:
    import gradio as gr

BADGES = [ALL, "re-scored", "own run", "published"]
PUT_IN_ADDRESS = """(place, search, badge, sort, shown, page) => {
  const address = new URL(window.location);
  const choices = {place, search, badge, sort, columns: (shown || []).join(","), page};
  for (const [key, value] of Object.entries(choices)) {
    if (value === "" || value === null || value === "all" || value === 1) address.searchParams.delete(key);
    else address.searchParams.set(key, value);
  }
  window.history.replaceState(null, "", address);
}"""


class Boards:
    """The boards of a store, by place; each is made once and again when something was stored."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self._made: dict[Place, list[Row]] = {}
        self._lock = threading.Lock()

    def places(self) -> list[str]:
        """Return every place that has rows, stored or published, as `benchmark/config/split/mode`."""
        known = set(benchmark_names())
        found = {*self.index.places(), *(Place(*place) for place in published_places())}
        return sorted("/".join(place) for place in found if place.benchmark in known)

    def rows(self, place: str) -> list[Row]:
        """Return the rows of a place, best first; none where it is not one of `places`."""
        if place not in self.places():
            return []
        with self._lock:
            if self.index.update():
                self._made.clear()
            key = as_place(place)
            if key not in self._made:
                self._made[key] = board(self.index, key)
            return self._made[key]

    def names(self, place: str) -> list[tuple[str, str]]:
        """Return (what a person reads, id) of the rows of a place, for menus."""
        return [(f"{row.system} ({row.badge})", row.id) for row in self.rows(place)]

    def row(self, place: str, row_id: str) -> Row | None:
        """Return one row, or None where the place has none of that id."""
        return next((row for row in self.rows(place) if row.id == row_id), None)


def as_place(text: str) -> Place:
    """Return the place of its text."""
    name, config, split, mode = text.split("/")
    return Place(name, config, split, mode)


def place_label(text: str) -> str:
    """Return a place as a person reads it.

    >>> place_label("mini-text2kg/sentences/test/reference")
    'Text2KGBench, mini · test'
    """
    place = as_place(text)
    found = benchmark(place.benchmark)
    parts = [
        place.config if len(found.configs) > 1 else "",
        place.split,
        "" if place.mode == found.modes[0] else place.mode,
    ]
    return " · ".join([found.title, *(part for part in parts if part)])


def board_tab(boards: Boards) -> "tuple[gr.Dropdown, gr.Dataframe, gr.State]":
    """Lay out the tab and return its place menu, its table, and the state that holds the ids of the rows shown."""
    import gradio as gr

    with gr.Row():
        place = gr.Dropdown(label="Benchmark", choices=[], scale=3, elem_id="place")
        search = gr.Textbox(label="Search", placeholder="name, licence, submitter", scale=2, elem_id="search")
        badge = gr.Dropdown(BADGES, value=ALL, label="Origin", scale=1)
        sort = gr.Dropdown([""], value="", label="Sort by", scale=1, elem_id="sort")
        page = gr.Number(1, label="Page", precision=0, minimum=1, scale=1, elem_id="page")
    with gr.Accordion("Columns", open=False):
        shown = gr.CheckboxGroup([], show_label=False, elem_id="columns")
    table = gr.Dataframe(
        interactive=False,
        wrap=False,
        pinned_columns=2,
        max_height=760,
        show_label=False,
        elem_id="board",
        datatype="str",
    )
    count = gr.Markdown(elem_id="count")
    with gr.Row():
        exports = {kind: gr.Button(label, size="sm") for kind, label in (("csv", "CSV"), ("tex", "LaTeX"))}
        files = {kind: gr.DownloadButton(visible="hidden", elem_id=f"{kind}-file") for kind in exports}
    ids = gr.State([])
    choices = [place, search, badge, sort, shown, page]

    def show(place: str, search: str, badge: str, sort: str, shown: list[str], page: float) -> Any:
        found = benchmark(as_place(place).benchmark)
        every = columns(found)
        rows = chosen(boards.rows(place), View(search[:200], badge, sort), every)
        visible, number, n_pages = page_of(rows, int(page or 1))
        kept = [column for column in every if column.heading in shown] or every[:2]
        value = {"headers": [column.heading for column in kept], "data": cells(visible, kept)}
        words = f"{len(rows):,} systems; page {number} of {n_pages}. Those of one # cannot be told from its first."
        return gr.Dataframe(value=value), words, [row.id for row in visible]

    def pick(place: str) -> Any:
        found = benchmark(as_place(place).benchmark)
        headings = [column.heading for column in columns(found)]
        return (
            gr.Dropdown(["", *headings], value=""),
            gr.CheckboxGroup(headings, value=default_columns(found)),
            1,
        )

    def start(request: gr.Request) -> Any:
        asked = dict(request.query_params)
        places = boards.places()
        first = asked["place"] if asked.get("place") in places else places[0]
        found = benchmark(as_place(first).benchmark)
        headings = [column.heading for column in columns(found)]
        wanted = [heading for heading in asked.get("columns", "").split(",") if heading in headings]
        number = asked.get("page", "1")
        return (
            gr.Dropdown([(place_label(each), each) for each in places], value=first),
            asked.get("search", "")[:200],
            asked["badge"] if asked.get("badge") in BADGES else ALL,
            gr.Dropdown(["", *headings], value=asked["sort"] if asked.get("sort") in headings else ""),
            gr.CheckboxGroup(headings, value=wanted or default_columns(found)),
            int(number) if number.isdecimal() and len(number) < 7 else 1,
        )

    def download(kind: str, place: str, search: str, badge: str, sort: str, shown: list[str], page: float) -> str:
        found = benchmark(as_place(place).benchmark)
        every = columns(found)
        rows = chosen(boards.rows(place), View(search[:200], badge, sort), every)
        kept = [column for column in every if column.heading in shown] or every
        text = csv_text(rows, kept) if kind == "csv" else latex_text(rows, found)
        file = Path(tempfile.mkdtemp(prefix="kbbench-")) / f"{as_place(place).benchmark}.{kind}"
        file.write_text(text, encoding="utf-8")
        return str(file)

    outputs = [table, count, ids]
    demo = gr.context.Context.root_block
    demo.load(start, None, choices, show_progress="hidden", api_visibility="private").then(
        show, choices, outputs, show_progress="hidden", api_name="board"
    )
    place.input(pick, place, [sort, shown, page], show_progress="hidden", api_visibility="private").then(
        show, choices, outputs, show_progress="hidden", api_visibility="private"
    ).then(None, choices, None, js=PUT_IN_ADDRESS)
    gr.on(
        [search.change, badge.input, sort.input, shown.input, page.input],
        show,
        choices,
        outputs,
        show_progress="hidden",
        trigger_mode="always_last",
        api_visibility="private",
    ).then(None, choices, None, js=PUT_IN_ADDRESS)
    for kind, button in exports.items():
        button.click(partial(download, kind), choices, files[kind], api_visibility="private").then(
            None, js=f"() => document.querySelector('#{kind}-file').click()"
        )
    return place, table, ids
