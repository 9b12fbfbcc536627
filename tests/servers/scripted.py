"""A scripted OpenAI-compatible model server on 127.0.0.1 that answers, delays and misbehaves as it is told.

In a test: `with ScriptedServer(latency_s=0.02, fault_rate=0.3) as server: ... server.url, server.requests`.
In a process of its own (so that its CPU time is not the client's): `python -m tests.servers.scripted --latency 0.02`;
it prints its URL, and `GET /stats` returns what it has seen.
"""

import argparse
import asyncio
import hashlib
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple

MODEL = "scripted-model"

Fault = str
"""A kind of misbehaviour: one of TRANSIENT or MALFORMED, or an HTTP status."""

TRANSIENT: tuple[Fault, ...] = (
    "429 retry-after",
    "429",
    "500",
    "503",
    "hang",
    "reset",
    "truncated json",
    "html",
    "choices empty",
    "length",
)
"""The ten kinds of the faults that go away when the request is sent again (a cut-off answer stays an answer)."""


def answer_to(prompt: str) -> str:
    """Return what the server answers to a prompt by default: it names the prompt, so pairing can be checked."""
    return f"answer {hashlib.sha256(prompt.encode()).hexdigest()[:16]}"


def _chat(content: Any, finish: str | None = "stop", **message: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": MODEL,
        "system_fingerprint": "fp_scripted",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}
        ],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    }


def _without(body: dict[str, Any], *path: Any) -> dict[str, Any]:
    inner = body
    for step in path[:-1]:
        inner = inner[step]
    del inner[path[-1]]
    return body


MALFORMED: dict[Fault, Callable[[str], Any]] = {
    "choices empty": lambda text: {**_chat(text), "choices": []},
    "choices null": lambda text: {**_chat(text), "choices": None},
    "content null": lambda text: _chat(None),
    "content missing": lambda text: _without(_chat(text), "choices", 0, "message", "content"),
    "content empty": lambda text: _chat(""),
    "content parts": lambda text: _chat([{"type": "text", "text": text[:4]}, {"type": "text", "text": text[4:]}]),
    "error in 200": lambda text: {"error": {"message": "the engine is overloaded", "type": "server_error"}},
    "html": lambda text: b"<html><body><h1>Bad gateway</h1></body></html>",
    "truncated json": lambda text: json.dumps(_chat(text)).encode()[:-60],
    "empty body": lambda text: b"",
    "length": lambda text: _chat(text[:-4], "length"),
    "content filter": lambda text: _chat("", "content_filter"),
    "refusal": lambda text: _chat(None, refusal="I cannot help with that."),
    "reasoning only": lambda text: _chat(None, "length", reasoning_content="Let me think"),
    "no usage": lambda text: _without(_chat(text), "usage"),
    "two choices": lambda text: {
        **_chat(text),
        "choices": [{**_chat("another")["choices"][0], "index": 1}, _chat(text)["choices"][0]],
    },
    "invalid utf-8": lambda text: json.dumps(_chat(text)).encode().replace(b"answer", b"answ\xff\xfe"),
    "spaces round it": lambda text: _chat(f"\n  {text} \n"),
    "a list": lambda text: [1, 2, 3],
    "deep json": lambda text: b"[" * 100_000,
    "choice is text": lambda text: {**_chat(text), "choices": ["text"]},
    "message is text": lambda text: {**_chat(text), "choices": [{"message": "text"}]},
    "usage is text": lambda text: {**_chat(text), "usage": {"prompt_tokens": "12", "completion_tokens": -1}},
    "lone surrogate": lambda text: json.dumps(_chat(text + "X")).encode().replace(b"X", b"\\ud800"),
}
"""Bodies with status 200 that are not a plain answer: kind -> body made from the right text."""


class Reply(NamedTuple):
    """What is sent as it is."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {"Content-Type": "application/json"}


_HEADERS_END = b"\r\n\r\n"


@dataclass
class ScriptedServer:
    """The server's script, and what it has seen.

    `faults` maps the text of a prompt to the fault of each of its attempts (after the last, it is answered);
    `fault_rate` spreads faults of `kinds` over all others, the same ones every time, at most two for one prompt.
    """

    latency_s: float = 0.0
    fault_rate: float = 0.0
    kinds: Sequence[Fault] = TRANSIENT
    faults: dict[str, Sequence[Fault]] = field(default_factory=dict)
    always: Fault | None = None
    """A fault of every chat request."""
    answer: Callable[[dict[str, Any]], str | dict[str, Any]] | None = None
    """Payload -> text, or the whole body of the reply; by default the answer names the prompt."""
    reply: Callable[[dict[str, Any]], "Reply | None"] | None = None
    """Payload -> the very bytes to send; None for what would be sent otherwise."""
    pages: dict[str, Any] = field(default_factory=dict)
    """Path -> the JSON that a GET finds there."""
    flavour: str = "openai"
    """"openai", "vllm" or "tgi": what the server tells about itself."""
    retry_after_s: float = 1.0
    hang_s: float = 8.0
    max_active: int | None = None
    """More requests than this at one time are answered 429."""
    hold_from: int | None = None
    """All requests after so many wait until `release` is called: what a test does meanwhile is no race."""
    model: str = MODEL
    version: str = "1.0"

    def __post_init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        """(prompt text, headers) of every chat request."""
        self.payloads: list[dict[str, Any]] = []
        self.times: list[float] = []
        self.attempts: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        """How often each prompt got its answer, whole and right."""
        self.injected: Counter[str] = Counter()
        self.active = 0
        self.peak = 0
        self.connections = 0
        self.keep = True
        self.port = 0
        self._ready = threading.Event()
        self._asked = threading.Condition()
        self._held: list[Callable[[], None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> "ScriptedServer":
        self._thread = threading.Thread(target=lambda: asyncio.run(self.serve()), daemon=True)
        self._thread.start()
        if not self._ready.wait(10):
            raise RuntimeError("the scripted server did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(10)

    def wait_for(self, n: int) -> None:
        """Wait until `n` chat requests have come in all."""
        with self._asked:
            if not self._asked.wait_for(lambda: len(self.times) >= n, 60):
                raise TimeoutError(f"{len(self.times)} requests came, not {n}")

    def release(self) -> None:
        """Answer all that is held, and hold nothing more."""

        async def answer() -> None:
            self.hold_from, held, self._held = None, self._held, []
            for each in held:
                each()

        asyncio.run_coroutine_threadsafe(answer(), self._loop).result(10)

    def hold(self, finish: Callable[[], None]) -> bool:
        """Keep a request for later where the script says so."""
        with self._asked:
            self._asked.notify_all()
        held = self.hold_from is not None and len(self.times) > self.hold_from
        if held:
            self._held.append(finish)
        return held

    async def serve(self, port: int = 0) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        self.transports: set[asyncio.Transport] = set()
        server = await self._loop.create_server(lambda: _Connection(self), "127.0.0.1", port, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stopped.wait()
        server.close()
        for transport in list(self.transports):
            transport.abort()
        await asyncio.sleep(0)

    def key_of(self, payload: dict[str, Any]) -> str:
        """Return what says which requests are attempts at the same: the last message."""
        return str(payload["messages"][-1]["content"])

    def fault_of(self, prompt: str, attempt: int) -> Fault | None:
        """Return what goes wrong with an attempt (from 0) at a prompt: a function of both, never of chance."""
        if self.always is not None:
            return self.always
        if prompt in self.faults:
            planned = self.faults[prompt]
            return planned[attempt] if attempt < len(planned) else None
        if attempt < 2 and self.fault_rate:
            digest = hashlib.sha256(f"{attempt} {prompt}".encode()).digest()
            if int.from_bytes(digest[:4], "big") < self.fault_rate * 2**32:
                return self.kinds[digest[4] % len(self.kinds)]
        return None

    def stats(self) -> dict[str, Any]:
        return {
            "requests": sum(self.attempts.values()),
            "prompts": len(self.attempts),
            "most_attempts": max(self.attempts.values(), default=0),
            "injected": self.injected,
            "peak": self.peak,
            "connections": self.connections,
            "first_s": self.times[0] if self.times else None,
            "last_s": self.times[-1] if self.times else None,
        }

    def facts(self, path: str) -> tuple[int, Any]:
        """Answer a GET: what the server says of itself."""
        if path == "/stats":
            return 200, self.stats()
        if path in self.pages:
            return 200, self.pages[path]
        if path == "/v1/models":
            owner = {"vllm": "vllm", "tgi": self.model}.get(self.flavour, "scripted")
            return 200, {"object": "list", "data": [{"id": self.model, "owned_by": owner, "created": int(time.time())}]}
        if path == "/version" and self.flavour == "vllm":
            return 200, {"version": self.version}
        if path == "/info" and self.flavour == "tgi":
            return 200, {"model_id": self.model, "model_sha": "a" * 40, "version": self.version, "router": "tgi"}
        return 404, {"detail": "Not Found"}


class _Connection(asyncio.Protocol):
    """One keep-alive connection: reads a request at a time, answers it as the script says."""

    def __init__(self, server: ScriptedServer) -> None:
        self.server = server
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.server.transports.add(transport)
        self.server.connections += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.transports.discard(self.transport)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(_HEADERS_END)) >= 0:
            lines = self.buffer[:end].decode("latin-1").split("\r\n")
            headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}
            length = end + 4 + int(headers.get("content-length", 0))
            if len(self.buffer) < length:
                return
            body, self.buffer = self.buffer[end + 4 : length], self.buffer[length:]
            method, path, _ = lines[0].split(" ", 2)
            if method == "GET":
                self.send(*self.server.facts(path))
            else:
                self.chat({**headers, ":path": path}, json.loads(body))

    def chat(self, headers: dict[str, str], payload: dict[str, Any]) -> None:
        server = self.server
        prompt = server.key_of(payload)
        if server.keep:
            server.requests.append((prompt, headers))
            server.payloads.append(payload)
        server.times.append(time.time())
        attempt = server.attempts[prompt]
        server.attempts[prompt] += 1
        fault = server.fault_of(prompt, attempt)
        server.active += 1
        server.peak = max(server.peak, server.active)
        if server.max_active is not None and server.active > server.max_active:
            fault = "429"
        if fault is not None:
            server.injected[fault] += 1
        quick = fault is not None and fault.split()[0].isdigit() and fault not in ("500", "503")
        delay = server.hang_s if fault == "hang" else 0 if quick else server.latency_s
        said = server.answer(payload) if server.answer else answer_to(prompt)
        finish = partial(self.finish, fault, prompt, said, headers)
        raw = server.reply(payload) if server.reply else None
        if raw is not None:
            kind = raw.headers.get("Content-Type") or raw.headers.get("content-type") or ""
            others = "".join(f"{k}: {v}\r\n" for k, v in raw.headers.items() if k.lower() != "content-type")
            finish = partial(self.raw, raw.status, raw.body, others, kind)
        if server.hold(finish):
            return
        if delay:
            server._loop.call_later(delay, finish)
        else:
            finish()

    def finish(self, fault: Fault | None, prompt: str, said: str | dict[str, Any], headers: dict[str, str]) -> None:
        self.server.active -= 1
        if self.transport.is_closing():
            return
        if fault is None or fault == "hang":
            self.send(200, _chat(said) if isinstance(said, str) else said)
            self.server.answered[prompt] += 1
        elif fault == "reset":
            self.transport.abort()
        elif fault == "429 retry-after":
            self.send(429, {"error": {"message": "slow down"}}, f"Retry-After: {self.server.retry_after_s:g}\r\n")
        elif fault.isdigit():
            # Like some real servers, repeat the key in the message.
            message = f"scripted {fault}, asked with {headers.get('authorization')}"
            self.send(int(fault), {"error": {"message": message, "code": fault}})
        else:
            self.send(200, MALFORMED[fault](said if isinstance(said, str) else json.dumps(said)))

    def raw(self, status: int, body: bytes, headers: str, kind: str) -> None:
        self.server.active -= 1
        if not self.transport.is_closing():
            self.send(status, body, headers, kind)

    def send(self, status: int, body: Any, headers: str = "", kind: str = "") -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        kind = kind or ("text/html" if raw.startswith(b"<") else "application/json")
        phrase = HTTPStatus(status).phrase if status in [*HTTPStatus] else "Odd"
        self.transport.write(
            f"HTTP/1.1 {status} {phrase}\r\nContent-Type: {kind}\r\n{headers}Content-Length: {len(raw)}\r\n\r\n".encode(
                "latin-1"
            )
            + raw
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--fault-rate", type=float, default=0.0)
    options = parser.parse_args()
    server = ScriptedServer(latency_s=options.latency, fault_rate=options.fault_rate)
    server.keep = False

    async def run() -> None:
        serving = asyncio.create_task(server.serve(options.port))
        while not server.port:
            await asyncio.sleep(0.001)
        print(server.url, flush=True)
        await serving

    asyncio.run(run())


if __name__ == "__main__":
    sys.exit(main())
