"""Start servers: one of the standard library in a thread, any other in a process that is awaited until it answers."""

import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import BaseServer
from typing import TypeVar

_S = TypeVar("_S", bound=BaseServer)
HANGS_AFTER_S = 900.0
"""A server that starts in 5 s on an idle machine takes minutes at a load of 10; after this time, it hangs."""


@contextmanager
def serving(server: _S) -> Iterator[_S]:
    """Let a server answer until the block ends."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def await_answer(url: str, process: "subprocess.Popen[bytes] | subprocess.Popen[str]", log: Path) -> None:
    """Wait until a process answers at a URL, if only that there is no such page; raise its log if it ends or hangs."""
    until = time.monotonic() + HANGS_AFTER_S
    while process.poll() is None and time.monotonic() < until:
        try:
            urllib.request.urlopen(url, timeout=30).close()
            return
        except OSError as error:
            if isinstance(error, urllib.error.HTTPError) and error.code < 500:
                return
            time.sleep(0.1)
    raise RuntimeError(f"{process.args!r} does not answer at {url}: {log.read_text('utf-8', 'replace')[-2000:]}")


def free_port() -> int:
    """Return a port on which no server listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
