"""HTTP reply bodies, read within bounds and as event streams, and connections that are not reused after stray data.

`llm.endpoint` reads every reply with it. Servers are not trusted: the bounds on bytes, also after decompression, and
the checks of idle connections keep a run from filling memory or from storing one reply as that to another prompt.
"""

import json
import zlib
from collections.abc import Mapping
from selectors import EVENT_READ, DefaultSelector
from typing import Any

import aiohttp

from kbbench_hf.llm.failures import Failure

MAX_BYTES = 3 * 2**20
"""The longest accepted body, decompressed; the longest completions are 1 MB."""
STREAM = "text/event-stream"
_END = b"data: [DONE]"


async def read_body(response: "aiohttp.ClientResponse", max_bytes: int = MAX_BYTES) -> bytes:
    """Return the body, decompressed; the session must not decompress by itself.

    Raises:
        Failure: it is longer than `max_bytes`, or has an encoding that the request did not accept.
    """
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    unzip = None
    if encoding in ("gzip", "x-gzip", "deflate"):
        unzip = zlib.decompressobj(wbits=47)  # gzip or zlib, detected from the header
    elif encoding not in ("", "identity"):
        raise Failure("encoding", f"the reply is packed as {encoding[:40]!r}, which was not asked for", transient=True)
    elif (response.content_length or max_bytes + 1) <= max_bytes:
        return await response.read()
    raw = bytearray()
    streamed = response.content_type == STREAM
    async for chunk in response.content.iter_any():
        try:
            raw += unzip.decompress(chunk, max_bytes + 1 - len(raw)) if unzip else chunk
        except zlib.error as error:
            raise Failure("not_unpacked", str(error), transient=True) from None
        if len(raw) > max_bytes:
            raise Failure("reply_too_large", f"more than {max_bytes:,} bytes", transient=True)
        if unzip.eof if unzip else streamed and _END in raw[-len(chunk) - len(_END) :]:
            break
    return bytes(raw)


def is_stream(content_type: str, raw: bytes) -> bool:
    """Return whether a body is a stream of events; some gateways stream although the request does not ask for it."""
    return content_type.startswith(STREAM) or raw.startswith((b"data:", b"event:", b": "))


def read_stream(raw: bytes) -> dict[str, Any]:
    r"""Return the body of a streamed chat completion as it would be without streaming.

    Raises:
        Failure: the stream ends before the completion does.

    >>> first = b'data: {"choices": [{"delta": {"content": "a, "}}]}\n\n'
    >>> last = b'data: {"choices": [{"delta": {"content": "b"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    >>> read_stream(first + last)["choices"][0]["message"]["content"]
    'a, b'
    """
    body: dict[str, Any] = {}
    message: dict[str, Any] = {}
    finish: object = None
    for line in raw.splitlines():
        if not line.startswith(b"data:") or line.strip() == _END:
            continue
        try:
            event = json.loads(line[5:])
        except (ValueError, RecursionError) as error:
            raise Failure("broken_off", f"the stream of events is torn: {error}", transient=True) from None
        if not isinstance(event, dict):
            continue
        body |= {name: value for name, value in event.items() if value is not None and name != "choices"}
        for choice in event.get("choices") or []:
            if isinstance(choice, dict) and choice.get("index", 0) == 0:
                finish = choice.get("finish_reason") or finish
                _append_delta(message, choice.get("delta") or choice.get("message") or {})
    if body.get("error"):
        return {"error": body["error"]}
    if finish is None:
        raise Failure("broken_off", "the stream of events ends before the answer does", transient=True)
    return body | {"choices": [{"index": 0, "message": {"content": None, **message}, "finish_reason": finish}]}


def _append_delta(message: dict[str, Any], delta: object) -> None:
    """Add the members of an event to a message: texts are appended, other values replace earlier ones."""
    for name, piece in delta.items() if isinstance(delta, Mapping) else ():
        if isinstance(piece, str) and isinstance(message.get(name, ""), str):
            message[name] = message.get(name, "") + piece
        elif piece is not None:
            message[name] = piece


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
    with DefaultSelector() as selector:  # Windows has no `select.poll`
        selector.register(socket, EVENT_READ)
        return bool(selector.select(0))
