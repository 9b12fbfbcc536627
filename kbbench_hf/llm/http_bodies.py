"""Reading the body of an HTTP reply within bounds, also once it is unpacked, and as a stream of events."""

import json
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kbbench_hf.llm.failures import Failure

if TYPE_CHECKING:
    import aiohttp

MOST_BYTES = 3 * 2**20
"""A longer reply, once it is unpacked, is a fault of the server, not an answer: the longest of models are 1 MB."""
STREAM = "text/event-stream"
_END = b"data: [DONE]"


async def read_body(response: "aiohttp.ClientResponse", most: int = MOST_BYTES) -> bytes:
    """Return the body, unpacked where it is packed; the session must not unpack by itself.

    Raises:
        Failure: it is longer than `most` bytes, or packed in a way that was not asked for.
    """
    packed = response.headers.get("Content-Encoding", "identity").strip().lower()
    if packed in ("gzip", "x-gzip", "deflate"):
        return await _unpacked(response, most)
    if packed not in ("", "identity"):
        raise Failure("encoding", f"the reply is packed as {packed[:40]!r}, which was not asked for", transient=True)
    length = response.content_length
    if length is not None and length > most:
        raise _too_large(most)
    if length is not None:
        return await response.read()
    raw = bytearray()
    streamed = response.content_type == STREAM
    async for chunk in response.content.iter_any():
        raw += chunk
        if len(raw) > most:
            raise _too_large(most)
        if streamed and _END in raw[-len(chunk) - len(_END) :]:
            break
    return bytes(raw)


async def _unpacked(response: "aiohttp.ClientResponse", most: int) -> bytes:
    unpack = zlib.decompressobj(wbits=47)  # gzip or zlib, as its first bytes say
    raw = bytearray()
    async for chunk in response.content.iter_any():
        try:
            raw += unpack.decompress(chunk, most + 1 - len(raw))
        except zlib.error as error:
            raise Failure("not_unpacked", str(error), transient=True) from None
        if len(raw) > most:
            raise _too_large(most)
        if unpack.eof:
            break
    return bytes(raw)


def _too_large(most: int) -> Failure:
    return Failure("reply_too_large", f"more than {most:,} bytes", transient=True)


def is_stream(content_type: str, raw: bytes) -> bool:
    """Say whether a body is a stream of events, which some gateways send whatever was asked."""
    return content_type.startswith(STREAM) or raw.startswith((b"data:", b"event:", b": "))


def read_stream(raw: bytes) -> dict[str, Any]:
    r"""Return the body that a stream of events comes to: that of a reply which was not streamed.

    Raises:
        Failure: the stream ends before the answer does.

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
                _extend(message, choice.get("delta") or choice.get("message") or {})
    if body.get("error"):
        return {"error": body["error"]}
    if finish is None:
        raise Failure("broken_off", "the stream of events ends before the answer does", transient=True)
    return body | {"choices": [{"index": 0, "message": {"content": None, **message}, "finish_reason": finish}]}


def _extend(message: dict[str, Any], delta: object) -> None:
    for name, piece in delta.items() if isinstance(delta, Mapping) else ():
        if isinstance(piece, str) and isinstance(message.get(name, ""), str):
            message[name] = message.get(name, "") + piece
        elif piece is not None:
            message[name] = piece
