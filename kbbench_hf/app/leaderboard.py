"""The leaderboard as a Gradio app: Board, Row, Compare, Submit, About."""

import os
from collections.abc import Sequence
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from kbbench_hf.app.board_page import board_tab
from kbbench_hf.app.boards import Boards
from kbbench_hf.app.compare_page import MOST, compare_tab
from kbbench_hf.app.html import CSS, SCRIPT, Listener
from kbbench_hf.app.row_page import row_tab
from kbbench_hf.app.submit_page import submit_tab
from kbbench_hf.benchmarks import as_place
from kbbench_hf.errors import KBBenchError, missing_extra
from kbbench_hf.hub.listing import Listing
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.outbox import Outbox
from kbbench_hf.leaderboard.store import Store

if TYPE_CHECKING:
    import gradio as gr

ABOUT = Path(__file__).parent / "about.md"
KEEP_UPLOADS_S = 600
N_CHOICES = 500
TABS = ("board", "row", "compare", "submit", "about")
LAUNCH: Listener = {
    "max_file_size": "50mb",
    "allowed_paths": [],
    "show_error": False,
    "enable_monitoring": False,
    "ssr_mode": False,
    "footer_links": ["gradio"],
    "css": CSS,
    "head": SCRIPT,
}
PUT_TAB = """() => setTimeout(() => {
  const tab = document.querySelector('[role=tab][aria-selected=true]').innerText.toLowerCase();
  kbbench({tab: tab === 'board' ? '' : tab});
}, 50)"""
PUT_ROW = "row => kbbench({row})"
PUT_COMPARED = "rows => kbbench({compare: rows.join(',')})"


def leaderboard(store: Store, outbox: Outbox | None = None, listing: Listing | None = None) -> "gr.Blocks":
    """Return the app of a store, copied to the Hub by the outbox if there is one; launch it with `LAUNCH`.

    It takes submissions to the datasets that are here, and to those of the listing.
    """
    if "SPACE_ID" not in os.environ:  # where there is no secret, sessions are signed with what everybody knows
        os.environ.setdefault("OAUTH_CLIENT_SECRET", token_hex())
    try:
        import gradio as gr
    except ImportError:
        raise missing_extra("gradio", "space") from None

    store.recover()
    boards = Boards(Index(store), outbox, listing)
    with gr.Blocks(title="kbbench leaderboard", delete_cache=(KEEP_UPLOADS_S, KEEP_UPLOADS_S), fill_width=True) as app:
        gr.Markdown("# kbbench\nKnowledge benchmarks, scored from predictions that anyone can score again.")
        with gr.Tabs() as tabs:
            with gr.Tab("Board", id="board"):
                board = board_tab(boards)
            with gr.Tab("Row", id="row") as row_page:
                row = row_tab(boards, board.place)
            with gr.Tab("Compare", id="compare") as compare_page:
                compared = compare_tab(boards, board.place)
            with gr.Tab("Submit", id="submit") as submit_page:
                submit_tab(boards, submit_page)
            with gr.Tab("About", id="about"):
                gr.Markdown(ABOUT.read_text(encoding="utf-8"))

        def menu(place: str, chosen: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
            """Return the choices of a menu, the best rows and those that are chosen, and which ids a place has."""
            try:
                rows = boards.board(as_place(place)).rows
            except KBBenchError:
                return [], []
            there = [each for n, each in enumerate(rows) if n < N_CHOICES or each.id in chosen]
            return [(f"{each.system} ({each.badge})", each.id) for each in there], [each.id for each in there]

        def open_row(event: gr.SelectData, place: str) -> object:
            if not (isinstance(event.value, list) and event.value[:1] == ["row"]):
                return gr.skip(), gr.skip()
            return fill(place, str(event.value[-1])), gr.Tabs(selected="row")

        def fill(place: str, value: str | None) -> object:
            choices, known = menu(place, [value or ""])
            return gr.Dropdown(choices, value=value or next(iter(known), None))

        def fill_compare(place: str, values: list[str]) -> object:
            choices, known = menu(place, values)
            return gr.Dropdown(choices, value=[value for value in values if value in known] or known[:2])

        def start(request: gr.Request) -> object:
            asked = dict(request.query_params)
            tab, place = asked.get("tab", ""), asked.get("place", "")
            if tab not in TABS:
                return gr.skip(), gr.skip(), gr.skip()
            ids = asked.get("compare", "").split(",")[:MOST]
            one = fill(place, asked["row"]) if "row" in asked else gr.skip()
            return one, fill_compare(place, ids) if ids != [""] else gr.skip(), gr.Tabs(selected=tab)

        quiet: Listener = {"show_progress": "hidden", "api_visibility": "private"}
        board.loaded.then(start, None, [row, compared, tabs], **quiet)
        board.table.select(open_row, board.place, [row, tabs], **quiet)
        row_page.select(fill, [board.place, row], row, **quiet)
        compare_page.select(fill_compare, [board.place, compared], compared, **quiet)
        row.change(None, row, None, js=PUT_ROW)
        compared.change(None, compared, None, js=PUT_COMPARED)
        tabs.change(None, None, None, js=PUT_TAB)
        app.queue(default_concurrency_limit=8, max_size=None)
    return app
