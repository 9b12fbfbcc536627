"""The leaderboard as a Gradio app: Leaderboard, System, Compare, Submit, About; the addresses of /api; its Space."""

import logging
import os
import signal
import threading
import time
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
from kbbench_hf.app.row_page import row_html
from kbbench_hf.app.submit_page import Login, submit_tab
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
FIRST_LOOK_S = 12.0
"""Until so many seconds after the start the pages wait for the rows on the Hub; Gradio is imported meanwhile. The rows
of a slower Hub follow later: without this limit a Hub that does not answer keeps the first page beyond 30 s."""
LAST_LOOK_S = 5.0
SECONDS_BETWEEN_LOOKS = 60.0
"""So often the Hub is asked whether another Space sent something, and asked again after it did not answer."""
SECONDS_BETWEEN_FLUSHES = 5.0
LOG = logging.getLogger("kbbench")
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


def main() -> None:
    """Serve the board; keep its store and the dataset `KBBENCH_RESULTS` alike, whether or not the Hub answers."""
    store = Store(Path(os.environ.get("KBBENCH_STORE", "store")))
    results, outbox = os.environ.get("KBBENCH_RESULTS"), None
    until, looked = time.monotonic() + FIRST_LOOK_S, threading.Event()
    if results:
        outbox = Outbox.of_hub(store, results)
        threading.Thread(target=keep_alike, args=(outbox, looked), daemon=True).start()
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: the launch below returns
    else:
        looked.set()
        LOG.warning("KBBENCH_RESULTS is not set: submissions are lost when this Space restarts")
    serve(store, outbox, Listing(), lambda: looked.wait(max(0.0, until - time.monotonic())))
    if outbox and outbox.pending():
        last = threading.Thread(target=_tried, args=(outbox, outbox.flush), daemon=True)
        last.start()
        last.join(LAST_LOOK_S)


def keep_alike(outbox: Outbox, looked: threading.Event) -> None:
    """Copy what is new to the Hub at once and from it once a minute, for ever; a Hub that is down is tried again.

    Several Spaces may share one dataset: each writes a history of its own, and takes in those of the others. `looked`
    is set when the Hub was looked at for the first time, with or without success.
    """
    while True:
        answers = _tried(outbox, outbox.catch_up)
        looked.set()
        answers = _tried(outbox, outbox.flush) and answers
        left, until = outbox.pending(), time.monotonic() + SECONDS_BETWEEN_LOOKS
        while time.monotonic() < until and not (answers and outbox.pending() != left):
            time.sleep(SECONDS_BETWEEN_FLUSHES)


def _tried(outbox: Outbox, work: Callable[[], object]) -> bool:
    """Do something with the Hub; False where it does not let it, which is said."""
    try:
        work()
    except Exception as error:  # nothing is lost: what was not sent stays here, and pending
        words = f"{type(error).__name__}: {error}".splitlines()[0]
        n = len(outbox.backlog())
        LOG.warning("%s is not as the store here yet; %d submissions wait: %s", outbox.repository.name, n, words)
        return False
    return True
