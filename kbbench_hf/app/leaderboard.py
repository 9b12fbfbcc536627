"""The leaderboard as a Gradio app, with complete first pages and `/api`; `main` is the entry point of its Space.

`kbbench serve` and the Space start it. Addresses (`place`, `tab`, `row`, `compare`, ...) are public: links of visitors
have them. The first page must be readable without scripts, and quickly, before Gradio's scripts are loaded.
"""

import logging
import os
import re
import signal
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

import anyio
from anyio import CapacityLimiter
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from kbbench_hf.app.board_page import board_tab, n_systems, overview_html, table_html
from kbbench_hf.app.boards import PATIENCE_S, Boards, dataset_label, setting_label, task_label
from kbbench_hf.app.html import (
    HEAD,
    LEAD,
    ON_CLICK,
    PICTURE,
    TITLE,
    Listener,
    markup,
    public_address,
    query_parameters,
    render_html,
)
from kbbench_hf.app.row_page import MOST, compare_html, row_html
from kbbench_hf.app.submit_page import Login, submit_tab
from kbbench_hf.benchmarks import TaskKey, as_task_key, benchmark
from kbbench_hf.errors import KBBenchError, missing_extra
from kbbench_hf.hub.download import Listing
from kbbench_hf.leaderboard.checking import Checks
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.outbox import Outbox
from kbbench_hf.leaderboard.store import Store
from kbbench_hf.leaderboard.view import ORIGINS, sizes, types
from kbbench_hf.reports.terminal import echo

if TYPE_CHECKING:
    import gradio as gr

ABOUT = Path(__file__).parent / "about.md"
KEEP_UPLOADS_S = 600
"""Seconds after which Gradio deletes uploads; `about.md` states it."""
N_CHOICES = 500
"""Number of systems in the menu of the Compare tab, in addition to the chosen ones."""
NOTHING = "Open a dataset on the Leaderboard tab and tick two to four systems there."
FIRST_PAGE_S = 120.0
"""Seconds after which the address is printed although no page is ready, with a note."""
FIRST_LOOK_S = 12.0
"""Maximum time after the start for which pages wait for the rows on the Hub, while Gradio is imported.

Rows of a slower Hub follow later. Without this limit, the first page of a Hub that does not respond takes over 30 s.
"""
LAST_LOOK_S = 5.0
"""Maximum time at the end for sending the backlog: a Space that stops is killed soon."""
SECONDS_BETWEEN_LOOKS = 60.0
"""Interval between downloads of what other machines sent, and before another attempt if the Hub does not respond."""
SECONDS_BETWEEN_FLUSHES = 5.0
"""Interval between checks for new local submissions."""
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
    """Serve the pages and the API of a store until interrupted; print the address when the first page is ready.

    Args:
        store: the store.
        outbox: the copy on the Hub, whose state the pages show; the caller keeps it up to date.
        listing: datasets on the Hub that accept submissions, in addition to those that are here.
        wait: called after the imports, which take most of the start.
        options: arguments of Gradio's `launch`.
    """
    login = Login()  # its request to the Hub runs while Gradio is imported
    _import_gradio()
    from kbbench_hf.app.api import routes

    wait()
    store.recover()
    boards = Boards(Index(store), outbox, listing)
    # fills the cache of boards while the server starts
    threading.Thread(target=overview_html, args=(boards,), daemon=True).start()
    checks = Checks()
    app = leaderboard(boards, login, checks)
    import gradio as gr
    from starlette.middleware import Middleware

    theme = gr.themes.Default(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])
    added = {"routes": routes(boards), "middleware": [Middleware(FirstPage, boards=boards)]}
    app.launch(**LAUNCH, **options, theme=theme, app_kwargs=added)
    echo(f"{_address_when_ready(app)}  (Ctrl-C ends it)")
    checks.start()  # not before: it would take half of the processor time until the first page
    app.block_thread()


def _import_gradio() -> None:
    """Import Gradio with a random secret for sessions: without one, it signs them with a public default."""
    if not os.environ.get("OAUTH_CLIENT_SECRET"):
        os.environ["OAUTH_CLIENT_SECRET"] = token_hex()
    try:
        import gradio  # noqa: F401
    except ImportError:
        raise missing_extra("gradio", "space") from None


def _address_when_ready(app: "gr.Blocks") -> str:
    """Return the address of a launched app when its first page is ready, or after `FIRST_PAGE_S` with a note."""
    local, root = str(app.local_url).rstrip("/"), app.root_path
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy does not reach this machine
    try:
        opener.open(f"{local}/", timeout=FIRST_PAGE_S).read()
    except OSError as error:
        echo(f"No page within {FIRST_PAGE_S:g} s ({error}). It may come later: this machine is busy.", err=True)
    return root if root.startswith("http") else f"{local}{root}"


def leaderboard(boards: Boards, login: Login, checks: Checks) -> "gr.Blocks":
    """Return the Gradio app with all tabs; `serve` launches it."""
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
            """Open a clicked row, or the comparison of the ticked ones; without ticks, that of before."""
            what, value = event.value if isinstance(event.value, list) and len(event.value) == 2 else ("", "")
            if what == "row":
                return str(value), gr.skip(), gr.Tabs(selected="row")
            if what == "compare" and isinstance(value, list):
                return gr.skip(), fill_compare(task_key, value[:MOST] or before), gr.Tabs(selected="compare")
            return gr.skip(), gr.skip(), gr.skip()

        def show_row(task_key: str, row: str | None) -> str:
            return row_html(boards, _place(task_key), row or "")

        def fill_compare(task_key: str, values: list[str]) -> object:
            """Return the menu of the best rows and the chosen ones, with the known values, else the first two rows."""
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
    """Serve the board of a Space, and synchronize its store with the dataset `KBBENCH_RESULTS` in the background."""
    store = Store(Path(os.environ.get("KBBENCH_STORE", "store")))
    results, outbox = os.environ.get("KBBENCH_RESULTS"), None
    until, looked = time.monotonic() + FIRST_LOOK_S, threading.Event()
    if results:
        outbox = Outbox.of_hub(store, results)
        threading.Thread(target=keep_alike, args=(outbox, looked), daemon=True).start()
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C, so that `serve` below returns
    else:
        looked.set()
        LOG.warning("KBBENCH_RESULTS is not set: submissions are lost when this Space restarts")
    serve(store, outbox, Listing(), lambda: looked.wait(max(0.0, until - time.monotonic())))
    if outbox and outbox.pending():
        last = threading.Thread(target=_tried, args=(outbox, outbox.flush), daemon=True)
        last.start()
        last.join(LAST_LOOK_S)


def keep_alike(outbox: Outbox, looked: threading.Event) -> None:
    """Send new submissions to the Hub at once, and download those of other machines once a minute, forever.

    Errors are logged, and the next attempt follows. `looked` is set after the first download, successful or not.
    """
    while True:
        answers = _tried(outbox, outbox.catch_up)
        looked.set()
        answers = _tried(outbox, outbox.flush) and answers
        left, until = outbox.pending(), time.monotonic() + SECONDS_BETWEEN_LOOKS
        while time.monotonic() < until and not (answers and outbox.pending() != left):
            time.sleep(SECONDS_BETWEEN_FLUSHES)


def _tried(outbox: Outbox, work: Callable[[], object]) -> bool:
    """Return whether work with the Hub succeeded; an error is logged."""
    try:
        work()
    except Exception as error:  # nothing is lost: submissions that were not sent stay here, and pending
        words = f"{type(error).__name__}: {error}".splitlines()[0]
        n = len(outbox.backlog())
        LOG.warning("%s is not synchronized with the store; %d submissions wait: %s", outbox.repository.name, n, words)
        return False
    return True


LABELS = {"board": "Leaderboard", "row": "System", "compare": "Compare", "submit": "Submit", "about": "About"}
"""Tab in addresses -> its label."""
FILLED_BY_SCRIPTS = {"board": "#board", "row": "#row", "compare": "#comparison"}
"""Tab -> element that Gradio's scripts fill later; the first page shows its content until then.

The other tabs are forms and texts, which have no first page.
"""
AT_ONCE = 4
"""Number of first pages that are made at the same time; other visitors get the page without."""
NO_PREVIEW = TITLE, LEAD
"""Title and description of a link to a page without content of its own."""
GRADIOS_PREVIEW = re.compile(r'<meta\s+(?:property="og:|name="(?:twitter:|description"))[^>]*>')


def requested_tab(query: Mapping[str, str]) -> str:
    """Return the tab that an address requests, by name or label, or because it names a row; else `board`.

    >>> requested_tab({}), requested_tab({"row": "1f"}), requested_tab({"tab": "about"})
    ('board', 'row', 'about')
    """
    tab = {label.lower(): tab for tab, label in LABELS.items()}.get(query.get("tab", ""), query.get("tab", ""))
    return tab if tab in LABELS else "row" if "row" in query else "board"


def first_html(boards: Boards, query: Mapping[str, str]) -> str:
    """Return the first page of an address as HTML; an empty string for forms, and where something must be chosen first.

    Raises:
        KBBenchError: the address has an unknown place; Gradio's page shows the error.
    """
    tab, task_key = requested_tab(query), boards.requested_task_key(query)
    rows = query.get("compare", "").split(",")[:MOST]
    if tab == "row" and query.get("row"):
        return _page(tab, task_key, row_html(boards, task_key, query["row"]))
    if tab == "compare" and task_key and any(boards.row(task_key, row) for row in rows):
        return _page(tab, task_key, compare_html(boards, task_key, rows))
    if tab != "board":
        return ""
    families = {name: str(places[0]) for name, places in boards.families().items()}
    if "place" not in query:
        return _page(tab, None, overview_html(boards), until="#overview", families=families, family="", chosen={})
    task_key = as_task_key(query["place"])
    board = boards.board(task_key)
    view, family = board.view(query), benchmark(task_key.benchmark).facts.family
    shown = {
        "Dataset": dataset_label(task_key),
        "Subset and split": setting_label(task_key),
        "Search": view.search,
        "Origin": ORIGINS[view.origin],
        **({"Type": view.type} if len(types(board.rows)) > 2 else {}),
        **({"Size": view.size} if len(sizes(board.rows)) > 2 else {}),
    }
    html = table_html(board, task_key, view, board.headings(query))
    return _page(tab, task_key, html, families=families, family=family, chosen=shown)


def _page(tab: str, task_key: TaskKey | None, content: str, until: str = "", **values: object) -> str:
    until = until or FILLED_BY_SCRIPTS[tab]
    return render_html(
        "first", labels=LABELS, lead=LEAD, tab=tab, place=str(task_key or ""), until=until, content=content, **values
    )


def preview_words(boards: Boards, query: Mapping[str, str]) -> tuple[str, str]:
    """Return the title and the description that other sites show with a link to an address (Open Graph)."""
    tab, task_key = requested_tab(query), boards.requested_task_key(query)
    if tab not in FILLED_BY_SCRIPTS or task_key is None:
        return NO_PREVIEW
    board, where = boards.board(task_key), task_label(task_key)
    if tab == "row" and (row := boards.row(task_key, query.get("row", ""))):
        score = row.scores.get(board.headline)
        interval = f", 95 % interval {score.interval()}" if score and score.interval() else ""
        return f"{row.system} on {where}", f"{board.label} {score.text()}{interval}." if score else LEAD
    if tab != "row" and board.rows:
        first = board.rows[0]
        best = first.score(board.headline).text()
        systems = n_systems(len(board.rows))
        return f"{where} · {TITLE}", f"{systems}, ranked by {board.label}; first: {first.system} {best}".strip() + "."
    return NO_PREVIEW


class FirstPage(BaseHTTPMiddleware):
    """Middleware that adds the first page of an address, the preview and the styles to Gradio's empty page."""

    def __init__(self, app: ASGIApp, boards: Boards) -> None:
        super().__init__(app)
        self.boards = boards
        self.limit = CapacityLimiter(AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle requests of the page, and pass on all others."""
        if scope["type"] == "http" and scope["method"] == "GET":
            path = scope["path"].removeprefix(scope.get("root_path", ""))  # proxies may leave the prefix, or strip it
            if path == "":  # the page's addresses are relative to a path with a slash at its end
                await RedirectResponse(f"{scope['path']}/")(scope, receive, send)
                return
            if path == "/":
                await super().__call__(scope, receive, send)
                return
        await self.app(scope, receive, send)

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        """Return the page with the additions."""
        answer = await call_next(request)
        page = b"".join([part async for part in answer.body_iterator]).decode()  # type: ignore[attr-defined]
        if answer.status_code == 200:
            (title, description), first = await self._first(query_parameters(request))
            base = public_address(request)
            url = f"{base}/?{request.url.query}".rstrip("?")
            words = {"site": TITLE, "title": title, "description": description, "url": url}
            preview = render_html("preview", image=f"{base}/{PICTURE}", **words)
            page = GRADIOS_PREVIEW.sub("", page).replace("<head>", f"<head>{preview}", 1)
            page = page.replace("</head>", f"{HEAD}</head>", 1).replace("<gradio-app", f"{first}<gradio-app", 1)
            if root := request.scope.get("root_path"):  # where the requested address lacks the slash at its end
                page = page.replace('<base href="./"', f'<base href="{escape(root)}/"', 1)
        headers = {name: value for name, value in answer.headers.items() if name != "content-length"}
        return Response(page, answer.status_code, headers)

    async def _first(self, query: Mapping[str, str]) -> tuple[tuple[str, str], str]:
        """Return the texts of the preview, and the first page; an empty page if it takes longer than `PATIENCE_S`."""

        def make() -> tuple[tuple[str, str], str]:
            return preview_words(self.boards, query), first_html(self.boards, query)

        with anyio.move_on_after(PATIENCE_S):
            try:
                return await anyio.to_thread.run_sync(make, abandon_on_cancel=True, limiter=self.limit)
            except KBBenchError:
                return NO_PREVIEW, ""
            except Exception:  # Gradio's page works without it
                LOG.exception("no first page for %s", query)
        return NO_PREVIEW, ""
