"""The page that an address asks for, in the HTML that the server sends: read before any script runs, or without one.

Gradio sends an empty page, which its scripts fill a second later; they take this one's place.
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

from kbbench_hf.app.board_table import n_systems, table_html
from kbbench_hf.app.boards import PATIENCE_S, Boards, dataset_label, place_label, setting_label
from kbbench_hf.app.compare_page import MOST, compare_html
from kbbench_hf.app.html import HEAD, PICTURE, TITLE, public_address, rendered
from kbbench_hf.app.overview_page import overview_html
from kbbench_hf.app.row_page import row_html
from kbbench_hf.benchmarks import as_place, benchmark
from kbbench_hf.errors import KBBenchError
from kbbench_hf.leaderboard.view import View, asked_columns

TABS = ("overview", "board", "row", "compare", "submit", "about")
LABELS = {each: {"board": "Leaderboard", "row": "System"}.get(each, each.capitalize()) for each in TABS}
FILLED_BY_SCRIPTS = {"overview": "#overview", "board": "#board", "row": "#row", "compare": "#comparison"}
"""Tab -> where the scripts put what is shown here; the other tabs are forms and words, which they bring along."""
CHOICES = ("Dataset", "Part and split", "Search", "Origin")
AT_ONCE = 4
"""So many visitors wait at a time for their page to be made; more get the empty one."""
DESCRIPTION = "Scores of systems on knowledge benchmarks, computed from their predictions, with confidence intervals."
NO_PREVIEW = TITLE, DESCRIPTION
GRADIOS_PREVIEW = re.compile(r'<meta\s+(?:property="og:|name="(?:twitter:|description"))[^>]*>')
LOG = logging.getLogger("kbbench")


def asked_tab(asked: Mapping[str, str]) -> str:
    """Return the tab that an address asks for, by name or by what it names.

    >>> asked_tab({}), asked_tab({"row": "1f"}), asked_tab({"place": "a/b/c/d", "tab": "nothing"})
    ('overview', 'row', 'board')
    """
    tab = {label.lower(): tab for tab, label in LABELS.items()}.get(asked.get("tab", ""), asked.get("tab", ""))
    return tab if tab in TABS else "row" if "row" in asked else "board" if "place" in asked else "overview"


def first_html(boards: Boards, asked: Mapping[str, str]) -> str:
    """Return what an address shows; nothing where that is a form, or something has to be chosen first.

    Raises:
        KBBenchError: the address names what does not exist; the scripts' page says so.
    """
    tab, place = asked_tab(asked), boards.asked_place(asked)
    values: dict[str, object] = {
        "tabs": TABS,
        "labels": LABELS,
        "tab": tab,
        "place": str(place),
        "until": FILLED_BY_SCRIPTS.get(tab),
    }
    if tab == "overview":
        return rendered("first", content=overview_html(boards), **values)
    if tab == "row" and asked.get("row"):
        return rendered("first", content=row_html(boards, place, asked["row"]), **values)
    rows = asked.get("compare", "").split(",")[:MOST]
    if tab == "compare" and any(boards.row(place, row) for row in rows):
        return rendered("first", content=compare_html(boards, place, rows), **values)
    if tab != "board":
        return ""
    found = boards.board(as_place(asked.get("place", str(place))))
    view = View.of(asked, found.columns)
    columns = asked_columns(asked.get("columns", ""), found.columns, found.default_columns)
    chosen = dict(zip(CHOICES, (dataset_label(place), setting_label(place), view.search, view.origin), strict=True))
    values |= {"families": {name: str(places[0]) for name, places in boards.families().items()}, "chosen": chosen}
    family = benchmark(place.benchmark).facts.family
    return rendered("first", content=table_html(found, place, view, columns), family=family, **values)


def preview_words(boards: Boards, asked: Mapping[str, str]) -> tuple[str, str]:
    """Return the title and the description that other sites show with a link to what an address asks for."""
    tab, place = asked_tab(asked), boards.asked_place(asked)
    if tab not in ("board", "row", "compare"):
        return NO_PREVIEW
    found, where = boards.board(place), place_label(place)
    if tab == "row" and (row := boards.row(place, asked.get("row", ""))):
        figure = row.figures.get(found.headline)
        interval = f", 95 % interval {figure.interval()}" if figure and figure.interval() else ""
        return f"{row.system} on {where}", f"{found.label} {figure.text()}{interval}." if figure else DESCRIPTION
    if tab != "row" and found.rows:
        first = found.rows[0]
        best = first.figures[found.headline].text() if found.headline in first.figures else ""
        systems = n_systems(len(found.rows))
        return f"{where} · {TITLE}", f"{systems}, ranked by {found.label}; first: {first.system} {best}".strip() + "."
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
            (title, description), first = await self._first(dict(request.query_params))
            base = public_address(request)
            url = f"{base}/?{request.url.query}".rstrip("?")
            words = {"site": TITLE, "title": title, "description": description, "url": url}
            preview = rendered("preview", image=f"{base}/{PICTURE}", **words)
            page = GRADIOS_PREVIEW.sub("", page).replace("<head>", f"<head>{preview}", 1)
            page = page.replace("</head>", f"{HEAD}</head>", 1).replace("<gradio-app", f"{first}<gradio-app", 1)
            if root := request.scope.get("root_path"):  # the page's address may lack the slash at the prefix's end
                page = page.replace('<base href="./"', f'<base href="{escape(root)}/"', 1)
        headers = {name: value for name, value in answer.headers.items() if name != "content-length"}
        return Response(page, answer.status_code, headers)

    async def _first(self, asked: Mapping[str, str]) -> tuple[tuple[str, str], str]:
        """Return the preview's words and what is shown first; nothing of the page where it takes too long."""

        def made() -> tuple[tuple[str, str], str]:
            return preview_words(self.boards, asked), first_html(self.boards, asked)

        with anyio.move_on_after(PATIENCE_S):
            try:
                return await anyio.to_thread.run_sync(made, abandon_on_cancel=True, limiter=self.limit)
            except KBBenchError:
                return NO_PREVIEW, ""
            except Exception:  # the page of the scripts goes without
                LOG.exception("no first page for %s", asked)
        return NO_PREVIEW, ""
