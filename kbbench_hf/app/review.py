"""Review page of `kbbench review`: a local server on which a person judges instances.

Each judgment is stored at once, in the file of `benchmarks.reviews`.
"""

import json
import secrets
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

from kbbench_hf.app.html import render_html
from kbbench_hf.benchmarks.reviews import Judgements, ReviewItem
from kbbench_hf.errors import KBBenchError

HOST = "127.0.0.1"
_MAX_BYTES = 10_000
"""Maximum size of a request with a judgment, far above that of a real one."""


class ReviewServer(ThreadingHTTPServer):
    """Server of the page, of its instances (`/items`), and of new judgments (`POST /judgements`).

    Only the page can write: it has a token, and requests with another host name are refused, so that other sites that
    are open in the browser can neither read nor write.
    """

    daemon_threads = True

    def __init__(self, title: str, items: Sequence[ReviewItem], judgements: Judgements, port: int = 0) -> None:
        super().__init__((HOST, port), _Handler)
        self.title, self.items, self.judgements = title, {item.id: item for item in items}, judgements
        self.token, self.lock = secrets.token_urlsafe(16), Lock()

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://{HOST}:{self.server_port}"

    @property
    def n_judged(self) -> int:
        """The number of items that this reviewer has judged, in their present version."""
        return sum(self.judgements.of(item) is not None for item in self.items.values())

    def page(self) -> str:
        """Return the HTML of the page."""
        return render_html(
            "review",
            title=self.title,
            reviewer=self.judgements.reviewer,
            questions=self.judgements.questions,
            token=self.token,
        )

    def shown(self) -> list[dict[str, Any]]:
        """Return the items in their order, for JSON, each with the earlier answers of this reviewer or None."""
        judged = ((item, self.judgements.of(item)) for item in self.items.values())
        return [{**vars(item), "answers": own.answers if own else None} for item, own in judged]


class _Handler(BaseHTTPRequestHandler):
    server: ReviewServer

    def do_GET(self) -> None:
        if not self._is_ours():
            return
        if self.path == "/":
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page())
        elif self.path == "/items":
            self._send(HTTPStatus.OK, "application/json", json.dumps(self.server.shown(), ensure_ascii=False))
        elif self.path == "/favicon.ico":
            self._send(HTTPStatus.NO_CONTENT, "image/x-icon", "")
        else:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", "There is nothing here; the page is at /.")

    def do_POST(self) -> None:
        if not self._is_ours():
            return
        length = self.headers.get("Content-Length", "")
        if self.path != "/judgements" or not secrets.compare_digest(
            self.headers.get("X-Token", "").encode(), self.server.token.encode()
        ):
            self._send(HTTPStatus.FORBIDDEN, "text/plain", "Only the page may write. Load it again.")
            return
        if not length.isdecimal() or int(length) > _MAX_BYTES:
            self._send(HTTPStatus.BAD_REQUEST, "text/plain", "This is not a judgment.")
            return
        try:
            sent = json.loads(self.rfile.read(int(length)))
            item = self.server.items[sent["id"]]
            with self.server.lock:
                self.server.judgements.add(item, sent["answers"])
        except (ValueError, KeyError, TypeError, AttributeError, KBBenchError) as error:
            self._send(HTTPStatus.BAD_REQUEST, "text/plain", f"This is not a judgment: {error}")
        except OSError as error:
            where = f"{self.server.judgements.file}: {error.strerror}"
            self._send(
                HTTPStatus.INSUFFICIENT_STORAGE, "text/plain", f"Not written. {where}. Fix this and answer again."
            )
        else:
            self._send(HTTPStatus.OK, "application/json", json.dumps({"n_judged": self.server.n_judged}))

    def _is_ours(self) -> bool:
        """Return whether a request names this host; a request of another site (DNS rebinding) is refused."""
        if self.headers.get("Host") == f"{HOST}:{self.server.server_port}":
            return True
        self._send(HTTPStatus.FORBIDDEN, "text/plain", f"Open {self.server.address}.")
        return False

    def _send(self, status: HTTPStatus, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "Content-Security-Policy": "default-src 'self' 'unsafe-inline'",
            "X-Content-Type-Options": "nosniff",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the page shows what was written."""
