"""Connections on which an answer belongs to its question: one that a server has spoken on unasked is used no more."""

import select
from typing import Any

import aiohttp


class Connector(aiohttp.TCPConnector):
    """Keeps connections for the next request, but none on which something came that nobody asked for.

    A server or proxy that sends a second answer would have it read as the answer to the next prompt
    (aio-libs/aiohttp#13656). What is still on its way when the next request is sent can not be seen: after the first
    such answer, no connection is used twice.
    """

    async def connect(self, req: aiohttp.ClientRequest, *rest: Any, **more: Any) -> Any:
        """Return a connection for a request."""
        for protocol, _ in self._conns.get(req.connection_key, ()):
            if not protocol.is_connected():
                continue
            if not (protocol.should_close or _has_spoken(protocol.transport)):
                break  # this is the one that the pool will take
            self._force_close |= protocol.should_close
            protocol.close()
        return await super().connect(req, *rest, **more)


def _has_spoken(transport: Any) -> bool:
    """Whether there is something to read on an idle connection, or its end."""
    socket = transport and transport.get_extra_info("socket")
    if not socket or socket.fileno() < 0:
        return False
    waiting = select.poll()
    waiting.register(socket.fileno(), select.POLLIN)
    return bool(waiting.poll(0))
