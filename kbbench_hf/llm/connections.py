"""Connection pool (aiohttp) that never reuses a connection on which unrequested data arrived."""

import select
from typing import Any

import aiohttp


class Connector(aiohttp.TCPConnector):
    """A pool that drops idle connections with data on them, because it would be read as the next completion.

    Some servers and proxies send a second reply (aio-libs/aiohttp#13656). Data that arrives after the next request
    cannot be detected: after the first such reply, no connection is reused.
    """

    async def connect(self, req: aiohttp.ClientRequest, *rest: Any, **more: Any) -> Any:
        """Return a connection for a request."""
        for protocol, _ in self._conns.get(req.connection_key, ()):
            if not protocol.is_connected():
                continue
            if not (protocol.should_close or _has_data(protocol.transport)):
                break  # the pool will take this one
            self._force_close |= protocol.should_close
            protocol.close()
        return await super().connect(req, *rest, **more)


def _has_data(transport: Any) -> bool:
    """Return whether an idle connection has data to read, or was closed."""
    socket = transport and transport.get_extra_info("socket")
    if not socket or socket.fileno() < 0:
        return False
    waiting = select.poll()
    waiting.register(socket.fileno(), select.POLLIN)
    return bool(waiting.poll(0))
