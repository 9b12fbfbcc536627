"""The leaderboard as a Gradio app: Leaderboard, System, Compare, Submit, About; and the addresses of /api."""

import os
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from kbbench_hf.app.board_page import board_tab, overview_html
from kbbench_hf.app.boards import Boards
from kbbench_hf.app.compare_page import MOST, compare_html
from kbbench_hf.app.first_page import LABELS, FirstPage, requested_tab
from kbbench_hf.app.html import LEAD, ON_CLICK, TITLE, Listener, markup, query_parameters, render_html
from kbbench_hf.app.login import Login
from kbbench_hf.app.row_page import row_html
from kbbench_hf.app.submit_page import submit_tab
from kbbench_hf.benchmarks import TaskKey, as_task_key
from kbbench_hf.errors import KBBenchError, missing_extra
from kbbench_hf.hub.download import Listing
from kbbench_hf.leaderboard.checking import Checks
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.outbox import Outbox
from kbbench_hf.leaderboard.store import Store
from kbbench_hf.leaderboard.view import ORIGINS
from kbbench_hf.reports.terminal import echo

if TYPE_CHECKING:
    import gradio as gr

ABOUT = Path(__file__).parent / "about.md"
KEEP_UPLOADS_S = 600
N_CHOICES = 500
NOTHING = "Open a dataset on the Leaderboard tab and tick two to four systems there."
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
        gr.Markdown(f"# kbbench\n{LEAD} [API](api)")
        with gr.Tabs(selected="board") as tabs:
            with gr.Tab(LABELS["board"], id="board", render_children=True):
                board = board_tab(boards)
            with gr.Tab(LABELS["row"], id="row"):
                row = gr.Textbox(visible=False)
                shown_row = gr.HTML(
                    row_html(boards, None, ""), elem_id="row", js_on_load=ON_CLICK, apply_default_css=False
                )
            with gr.Tab(LABELS["compare"], id="compare") as compare_page:
                compared = gr.Dropdown(
                    label=f"Systems to compare, at most {MOST}", choices=[], multiselect=True, max_choices=MOST,
                    elem_id="compare", value=[], allow_custom_value=True,
                )  # fmt: skip
                comparison = markup("", "comparison")
            with gr.Tab(LABELS["submit"], id="submit") as submit_page:
                submit_tab(boards, submit_page, board.place, login, checks)
            with gr.Tab(LABELS["about"], id="about"):
                gr.Markdown(ABOUT.read_text(encoding="utf-8"))

        def opened(event: gr.SelectData, task_key: str, before: list[str]) -> object:
            """Open a row that was clicked on, or the comparison of the ticked ones; without two ticks as it was."""
            what, value = event.value if isinstance(event.value, list) and len(event.value) == 2 else ("", "")
            if what == "row":
                return str(value), gr.skip(), gr.Tabs(selected="row")
            if what == "compare" and isinstance(value, list):
                return gr.skip(), fill_compare(task_key, value[:MOST] or before), gr.Tabs(selected="compare")
            return gr.skip(), gr.skip(), gr.skip()

        def show_row(task_key: str, row: str | None) -> str:
            return row_html(boards, _place(task_key), row or "")

        def fill_compare(task_key: str, values: list[str]) -> object:
            """Return the menu of the best rows and the chosen ones, with these values or else the first two rows."""
            where = _place(task_key)
            rows = boards.board(where).rows if where else []
            there = [each for n, each in enumerate(rows) if n < N_CHOICES or each.id in values]
            known = [each.id for each in there]
            choices = [(f"{each.system} ({ORIGINS[each.badge]})", each.id) for each in there]
            return gr.Dropdown(choices, value=[value for value in values if value in known] or known[:2])

        def open_compare(task_key: str, values: list[str]) -> object:
            return fill_compare(task_key, values), gr.skip() if _place(task_key) else render_html("words", text=NOTHING)

        def compare(task_key: str, values: list[str]) -> object:
            where = _place(task_key)
            return compare_html(boards, where, list(map(str, values))) if where else gr.skip()

        def start(request: gr.Request) -> object:
            query = query_parameters(request)
            ids = query.get("compare", "").split(",")[:MOST]
            place = str(boards.requested_task_key(query) or "")
            return (
                *board.start(query),
                query.get("row", gr.skip()),
                fill_compare(place, ids) if ids != [""] else gr.skip(),
                gr.Tabs(selected=requested_tab(query)),
            )

        quiet: Listener = {"show_progress": "hidden", "api_visibility": "private"}
        app.load(start, None, [*board.outputs, row, compared, tabs], **quiet)
        board.table.select(opened, [board.place, compared], [row, compared, tabs], **quiet)
        row.change(show_row, [board.place, row], shown_row, js="kbbench.row", **quiet)
        compare_page.select(open_compare, [board.place, compared], [compared, comparison], **quiet)
        compared.change(compare, [board.place, compared], comparison, js="kbbench.compared", **quiet)
        tabs.change(None, None, None, js="kbbench.tab")
        app.queue(default_concurrency_limit=8, max_size=None)
    return app


def _place(text: str) -> TaskKey | None:
    try:
        return as_task_key(text)
    except KBBenchError:
        return None
