"""A server of the standard library in a thread of its own."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseServer
from typing import TypeVar

_S = TypeVar("_S", bound=BaseServer)


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
