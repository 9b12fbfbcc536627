"""The leaderboard as a Gradio app: Overview, Leaderboard, System, Compare, Submit, About; and the addresses of /api."""

import os
import threading
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from kbbench_hf.app.board_page import board_tab
from kbbench_hf.app.board_table import board_problem
from kbbench_hf.app.boards import Boards
from kbbench_hf.app.compare_page import MOST, compare_html
from kbbench_hf.app.first_page import FirstPage, asked_tab
from kbbench_hf.app.html import ON_CLICK, TITLE, Listener, markup
from kbbench_hf.app.login import Login
from kbbench_hf.app.overview_page import overview_html
from kbbench_hf.app.row_page import row_html
from kbbench_hf.app.submit_page import submit_tab
from kbbench_hf.benchmarks import Place, as_place
from kbbench_hf.errors import KBBenchError, missing_extra
from kbbench_hf.hub.listing import Listing
from kbbench_hf.leaderboard.checking import Checks
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.outbox import Outbox
from kbbench_hf.leaderboard.store import Store
from kbbench_hf.reports.terminal import echo

if TYPE_CHECKING:
    import gradio as gr

ABOUT = Path(__file__).parent / "about.md"
KEEP_UPLOADS_S = 600
N_CHOICES = 500
FIRST_PAGE_S = 120.0
"""After so many seconds without a page the address is printed, and with it that there is none yet."""
LAUNCH: Listener = {
    "max_file_size": "50mb",
    "allowed_paths": [],
    "show_error": False,
    "enable_monitoring": False,
    "quiet": True,
    "prevent_thread_lock": True,
    "ssr_mode": False,
    "footer_links": ["gradio"],
}
PUT_TAB = """() => setTimeout(() => {
  const bar = document.querySelector('.tab-wrapper');  // on a narrow page the chosen one may stand in its menu
  const tab = bar?.querySelector('[role=tab][aria-selected=true], .overflow-dropdown .selected')?.textContent;
  const name = tab?.trim().toLowerCase(), names = {leaderboard: 'board', system: 'row'};  // addresses of before stay
  if (name) kbbench({tab: names[name] || name});
}, 50)"""
PUT_ROW = """(place, row) => {
  kbbench({row});
  return [place, row];
}"""
PUT_COMPARED = """(place, rows) => {
  kbbench({compare: rows.join(",")});
  return [place, rows];
}"""


def serve(
    store: Store,
    outbox: Outbox | None = None,
    listing: Listing | None = None,
    wait: Callable[[], object] = lambda: None,
    **options: object,
) -> None:
    """Serve the pages and the API of a store until interrupted; `options` are those of `launch`.

    The store is copied to the Hub by the outbox if there is one; submissions are taken to the datasets that are here,
    and to those of the listing. `wait` is called after the imports, which take most of the start. The address is
    printed when the first page is there.
    """
    login = Login()  # asks the Hub while Gradio is imported
    _import_gradio()
    from kbbench_hf.app.api import routes

    wait()
    store.recover()
    boards = Boards(Index(store), outbox, listing)
    threading.Thread(target=overview_html, args=(boards,), daemon=True).start()  # made while the server starts
    checks = Checks()
    app = leaderboard(boards, login, checks)
    import gradio as gr
    from starlette.middleware import Middleware

    theme = gr.themes.Default(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])
    added = {"routes": routes(boards), "middleware": [Middleware(FirstPage, boards=boards)]}
    app.launch(**LAUNCH, **options, theme=theme, app_kwargs=added)
    echo(f"{_answering(app)}  (Ctrl-C ends it)")
    checks.start()  # not before: it would take half of the processor time until the first page
    app.block_thread()


def _import_gradio() -> None:
    """Import Gradio, with a secret of its own for sessions: without one they are signed with a public default."""
    if not os.environ.get("OAUTH_CLIENT_SECRET"):
        os.environ["OAUTH_CLIENT_SECRET"] = token_hex()
    try:
        import gradio  # noqa: F401
    except ImportError:
        raise missing_extra("gradio", "space") from None


def _answering(app: "gr.Blocks") -> str:
    """Return the address of an app that was launched, when its first page is there."""
    local, root = str(app.local_url).rstrip("/"), app.root_path
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # no proxy between this machine and itself
    try:
        opener.open(f"{local}/", timeout=FIRST_PAGE_S).read()
    except OSError as error:
        echo(f"No page within {FIRST_PAGE_S:g} s ({error}). It may come later: this machine is busy.", err=True)
    return root if root.startswith("http") else f"{local}{root}"


def leaderboard(boards: Boards, login: Login, checks: Checks) -> "gr.Blocks":
    """Return the pages of the boards of a store; `serve` launches them."""
    import gradio as gr

    with gr.Blocks(title=TITLE, delete_cache=(KEEP_UPLOADS_S, KEEP_UPLOADS_S), fill_width=True) as app:
        gr.Markdown(
            "# kbbench\nKnowledge benchmarks, scored from predictions that anyone can score again. [For programs](api)"
        )
        with gr.Tabs(selected="overview") as tabs:
            with gr.Tab("Overview", id="overview") as overview_page:
                overview = markup("", "overview")
            with gr.Tab("Leaderboard", id="board", render_children=True):
                board = board_tab(boards)
            with gr.Tab("System", id="row"):
                row = gr.Textbox(visible=False)
                shown_row = gr.HTML(
                    row_html(boards, None, ""), elem_id="row", js_on_load=ON_CLICK, apply_default_css=False
                )
            with gr.Tab("Compare", id="compare") as compare_page:
                compared = gr.Dropdown(
                    label="Two to five systems", choices=[], multiselect=True, max_choices=MOST, elem_id="compare",
                    value=[], allow_custom_value=True,
                )  # fmt: skip
                comparison = markup("", "comparison")
            with gr.Tab("Submit", id="submit") as submit_page:
                submit_tab(boards, submit_page, board.place, login, checks)
            with gr.Tab("About", id="about"):
                gr.Markdown(ABOUT.read_text(encoding="utf-8"))

        def menu(place: str, chosen: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
            """Return the choices of a menu, the best rows and those that are chosen, and which ids they have."""
            try:
                rows = boards.board(as_place(place)).rows
            except KBBenchError:
                return [], []
            there = [each for n, each in enumerate(rows) if n < N_CHOICES or each.id in chosen]
            return [(f"{each.system} ({each.badge})", each.id) for each in there], [each.id for each in there]

        def open_row(event: gr.SelectData) -> object:
            if not (isinstance(event.value, list) and event.value[:1] == ["row"]):
                return gr.skip(), gr.skip()
            return str(event.value[-1]), gr.Tabs(selected="row")

        def show_row(place: str, row: str | None) -> str:
            return row_html(boards, _place(place), row or "")

        def fill_compare(place: str, values: list[str]) -> object:
            choices, known = menu(place, values)
            return gr.Dropdown(choices, value=[value for value in values if value in known] or known[:2])

        def compare(place: str, values: list[str]) -> str:
            try:
                return compare_html(boards, as_place(place), [str(each) for each in values])
            except KBBenchError as error:
                return board_problem(error)

        def start(request: gr.Request) -> object:
            asked = dict(request.query_params)
            tab = asked_tab(asked)
            ids = asked.get("compare", "").split(",")[:MOST]
            return (
                *board.start(asked),
                overview_html(boards) if tab == "overview" else gr.skip(),
                asked.get("row", gr.skip()),
                fill_compare(str(boards.asked_place(asked)), ids) if ids != [""] else gr.skip(),
                gr.Tabs(selected=tab),
            )

        quiet: Listener = {"show_progress": "hidden", "api_visibility": "private"}
        app.load(start, None, [*board.outputs, overview, row, compared, tabs], **quiet)
        board.table.select(open_row, None, [row, tabs], **quiet)
        overview_page.select(lambda: overview_html(boards), None, overview, **quiet)
        row.change(show_row, [board.place, row], shown_row, js=PUT_ROW, **quiet)
        compare_page.select(fill_compare, [board.place, compared], compared, **quiet)
        compared.change(compare, [board.place, compared], comparison, js=PUT_COMPARED, **quiet)
        tabs.change(None, None, None, js=PUT_TAB)
        app.queue(default_concurrency_limit=8, max_size=None)
    return app


def _place(text: str) -> Place | None:
    try:
        return as_place(text)
    except KBBenchError:
        return None
