"""HTML that the server sends for an address, readable before or without scripts.

Gradio sends an empty page, which its scripts fill a second later; they replace this one.
"""

import logging
import re
from collections.abc import Mapping
from html import escape

import anyio
from anyio import CapacityLimiter
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from kbbench_hf.app.board_page import overview_html
from kbbench_hf.app.board_table import n_systems, table_html
from kbbench_hf.app.boards import PATIENCE_S, Boards, dataset_label, setting_label, task_label
from kbbench_hf.app.compare_page import MOST, compare_html
from kbbench_hf.app.html import HEAD, LEAD, PICTURE, TITLE, public_address, query_parameters, render_html
from kbbench_hf.app.row_page import row_html
from kbbench_hf.benchmarks import TaskKey, as_task_key, benchmark
from kbbench_hf.errors import KBBenchError
from kbbench_hf.leaderboard.view import ORIGINS, sizes, types

LABELS = {"board": "Leaderboard", "row": "System", "compare": "Compare", "submit": "Submit", "about": "About"}
"""Tab, as addresses name it -> its label."""
FILLED_BY_SCRIPTS = {"board": "#board", "row": "#row", "compare": "#comparison"}
"""Tab -> where the scripts put what is shown here; the other tabs are forms and texts, which they bring along."""
AT_ONCE = 4
"""The number of visitors whose page is made at a time; others get the empty one."""
NO_PREVIEW = TITLE, LEAD
GRADIOS_PREVIEW = re.compile(r'<meta\s+(?:property="og:|name="(?:twitter:|description"))[^>]*>')
LOG = logging.getLogger("kbbench")


def requested_tab(query: Mapping[str, str]) -> str:
    """Return the tab that an address requests, by name, by label or by what it names.

    >>> requested_tab({}), requested_tab({"row": "1f"}), requested_tab({"tab": "about"})
    ('board', 'row', 'about')
    """
    tab = {label.lower(): tab for tab, label in LABELS.items()}.get(query.get("tab", ""), query.get("tab", ""))
    return tab if tab in LABELS else "row" if "row" in query else "board"


def first_html(boards: Boards, query: Mapping[str, str]) -> str:
    """Return what an address shows; nothing where that is a form, or something has to be chosen first.

    Raises:
        KBBenchError: the address names what does not exist; the scripts' page says so.
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
    """Return the title and the description that other sites show with a link to what an address requests."""
    tab, task_key = requested_tab(query), boards.requested_task_key(query)
    if tab not in FILLED_BY_SCRIPTS or task_key is None:
        return NO_PREVIEW
    board, where = boards.board(task_key), task_label(task_key)
    if tab == "row" and (row := boards.row(task_key, query.get("row", ""))):
        score = row.figures.get(board.headline)
        interval = f", 95 % interval {score.interval()}" if score and score.interval() else ""
        return f"{row.system} on {where}", f"{board.label} {score.text()}{interval}." if score else LEAD
    if tab != "row" and board.rows:
        first = board.rows[0]
        best = first.score(board.headline).text()
        systems = n_systems(len(board.rows))
        return f"{where} · {TITLE}", f"{systems}, ranked by {board.label}; first: {first.system} {best}".strip() + "."
    return NO_PREVIEW


class FirstPage(BaseHTTPMiddleware):
    """Puts what an address shows, and the styles, into the page that Gradio sends."""

    def __init__(self, app: ASGIApp, boards: Boards) -> None:
        super().__init__(app)
        self.boards = boards
        self.limit = CapacityLimiter(AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on but requests of the page."""
        if scope["type"] == "http" and scope["method"] == "GET":
            path = scope["path"].removeprefix(scope.get("root_path", ""))  # proxies may leave the prefix, or strip it
            if path == "":  # the addresses in the page are relative to the slash
                await RedirectResponse(f"{scope['path']}/")(scope, receive, send)
                return
            if path == "/":
                await super().__call__(scope, receive, send)
                return
        await self.app(scope, receive, send)

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        """Answer a request of the page."""
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
            if root := request.scope.get("root_path"):  # the page's address may lack the slash at the prefix's end
                page = page.replace('<base href="./"', f'<base href="{escape(root)}/"', 1)
        headers = {name: value for name, value in answer.headers.items() if name != "content-length"}
        return Response(page, answer.status_code, headers)

    async def _first(self, query: Mapping[str, str]) -> tuple[tuple[str, str], str]:
        """Return the preview's texts and what is shown first; nothing of the page where it takes too long."""

        def made() -> tuple[tuple[str, str], str]:
            return preview_words(self.boards, query), first_html(self.boards, query)

        with anyio.move_on_after(PATIENCE_S):
            try:
                return await anyio.to_thread.run_sync(made, abandon_on_cancel=True, limiter=self.limit)
            except KBBenchError:
                return NO_PREVIEW, ""
            except Exception:  # the page of the scripts goes without
                LOG.exception("no first page for %s", query)
        return NO_PREVIEW, ""
