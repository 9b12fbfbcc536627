"""Fifty replies that mean harm, each to a run of its own: memory, time, terminal, files.

python -m tests.endurance.hostile_replies [--only NAME]

A run has one prompt that gets the reply and one that is answered. It must end without a trace, with nothing on the
terminal that steers it, and with the key in no file. A few processes make the runs, one after the other, and each
process must stay below 300 MB over all of its own.
"""

import argparse
import asyncio
import base64
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

KEY = "sk-planted+secret/with=signs"
MOST_MB = 300
MOST_SECONDS = 60
N_PROCESSES = 4
"""Most of the time is waiting."""
STEERING = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
BAR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
MB = 2**20


class Hostile(NamedTuple):
    """What is sent: a whole head, then pieces, each after a pause."""

    head: bytes
    pieces: tuple[bytes, ...] = ()
    pause_s: float = 0.0
    endless: bool = False


def _reply(body: bytes, status: int = 200, kind: str = "application/json", **headers: str) -> Hostile:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status} OK\r\nContent-Type: {kind}\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
    return Hostile(head.encode("utf-8", "surrogatepass"), (body,))


def _chat(content: object = "yes", finish: object = "stop", **more: object) -> bytes:
    choice = {"message": {"role": "assistant", "content": content}, "finish_reason": finish}
    return json.dumps({"choices": [choice], **more}).encode()


def _streamed(piece: bytes, kind: str = "application/json", pause_s: float = 0.0, **headers: str) -> Hostile:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{lines}Transfer-Encoding: chunked\r\n\r\n".encode()
    return Hostile(head, (b"%x\r\n%s\r\n" % (len(piece), piece),), pause_s, endless=True)


def _error(message: str, status: int = 400) -> Hostile:
    return _reply(json.dumps({"error": {"message": message}}).encode(), status)


def _bomb(unpacked_mb: int, wbits: int = 31) -> bytes:
    pack, block = zlib.compressobj(9, zlib.DEFLATED, wbits), bytes(MB)
    return b"".join(pack.compress(block) for _ in range(unpacked_mb)) + pack.flush()


def _escaped(form: str) -> str:
    return "".join(form.format(c, n=ord(c), h=f"{ord(c):02x}", u=f"{ord(c):04x}") for c in KEY)


def replies() -> Iterator[tuple[str, Hostile]]:
    """Yield the replies by name."""
    bomb, deep, digits = _bomb(1500), 100_000, "9" * 400
    yield "gzip bomb", _reply(bomb, Content_Encoding="gzip")
    yield "gzip bomb with an error", _reply(bomb, 500, Content_Encoding="gzip")
    yield "deflate bomb", _reply(_bomb(1500, 15), Content_Encoding="deflate")
    yield "gzip in gzip", _reply(gzip.compress(bomb), Content_Encoding="gzip, gzip")
    yield "brotli unasked", _reply(b"\x0b\x02\x80hello\x03", Content_Encoding="br")
    yield "zstd unasked", _reply(b"\x28\xb5\x2f\xfd" + bytes(1000), Content_Encoding="zstd")
    yield "no gzip at all", _reply(b"this is not gzip", Content_Encoding="gzip")
    yield "an encoding of escapes", _reply(_chat(), Content_Encoding="\x1b[31mred".replace("\x1b", "e"))
    yield "gzip inside a stream", _streamed(bomb[: 2**16], Content_Encoding="gzip")
    yield "deep lists", _reply(b"[" * deep)
    yield "deep objects", _reply(b'{"a":' * deep)
    yield "deep but whole", _reply(b"[" * 900 + b"]" * 900)
    yield "deep choices", _reply(b'{"choices": ' + b"[" * 900 + b"]" * 900 + b"}")
    yield "deep content", _reply(b'{"choices": [{"message": {"content": ' + b"[" * 900 + b"]" * 900 + b"}}]}")
    parts = b'{"type": "thinking", "thinking": ['
    thought = parts * 400 + b"]}" * 400
    yield "thoughts in thoughts", _reply(b'{"choices": [{"message": {"content": [' + thought + b"]}}]}")
    yield "deep error", _reply(b'{"error": ' + b"[" * 900 + b"]" * 900 + b"}", 400)
    yield "errors in errors", _error(json.dumps(json.dumps(json.dumps(json.dumps({"error": {"message": "x" * 9999}})))))
    yield "a million lists", _reply(b"[" + b"[]," * 1_000_000 + b"[]]")
    yield "a million choices", _reply(b'{"choices": [' + b"{}," * 1_000_000 + b"{}]}")
    yield "400 digits", _reply(_chat(usage={"prompt_tokens": 7}).replace(b"7", digits.encode()))
    yield "10,000 digits", _reply(_chat(usage={"prompt_tokens": 7}).replace(b"7", digits.encode() * 25))
    yield "a million digits", _reply(_chat(usage={"prompt_tokens": 7}).replace(b"7", digits.encode() * 2500))
    yield "1e400 tokens", _reply(_chat(usage={"completion_tokens": 7}).replace(b"7", b"1e400"))
    yield "NaN tokens", _reply(_chat(usage={"completion_tokens": 7}).replace(b"7", b"NaN"))
    yield "tokens of text", _reply(_chat(usage={"prompt_tokens": "12", "completion_tokens": [1]}))
    yield "negative tokens", _reply(_chat(usage={"prompt_tokens": -5, "completion_tokens_details": "none"}))
    yield "a reply of 100 MB", Hostile(b"HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n", (bytes(MB),) * 100)
    yield "an endless reply", _streamed(b"x" * 65_536)
    yield "endless spaces", _streamed(b" " * 65_536)
    yield (
        "endless events",
        _streamed(b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n' * 1000, "text/event-stream"),
    )
    yield "endless comments", _streamed(b": still here\n\n", "text/event-stream", 0.01)
    yield "a slow drip", _streamed(b" ", pause_s=0.2)
    yield "a drip of heads", Hostile(b"HTTP/1.1 200 OK\r\n", (b"X-A: b\r\n",), 0.01, endless=True)
    yield "a header of 1 MB", Hostile(b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * MB + b"\r\n\r\n")
    yield "100,000 headers", Hostile(b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 100_000 + b"\r\n")
    yield "an endless status", Hostile(b"HTTP/1.1 200 ", (b"O" * 65_536,), endless=True)
    yield "no HTTP at all", Hostile(b"\x00\x01\x02\x03 hello \x1b[2J\r\n\r\n")
    yield "a chunk of minus one", Hostile(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nabc\r\n")
    yield "a chunk of terabytes", Hostile(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffff\r\nabc")
    yield "two lengths", Hostile(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 50\r\n\r\nhello")
    yield "a redirect", Hostile(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n")
    yield "escapes in an error", _error("\x1b[2J\x1b]0;title\x07\x1b[31m\x9b31m\u202eevil\x08\x08")
    yield "escapes in a model's name", _reply(_chat(model="\x1b[2Jmodel\u202e", system_fingerprint="\x1b]0;x\x07"))
    yield "escapes in a finish reason", _reply(_chat(None, "\x1b[2J\x07"))
    yield "escapes in an answer", _reply(_chat("\x1b[2J\x1b]0;x\x07yes\u202e"))
    yield "escapes in HTML", _reply(b"<html>\x1b[2J\x07</html>", 403, "text/html")
    yield "lone surrogates", _reply(_chat("yes\ud800", model="m\udfff"))
    yield "no UTF-8", _reply(b'{"choices": [{"message": {"content": "\xff\xfe"}}]}')
    yield "the key as \\u003d", _error(f'{{"k": "{_escaped(chr(92) + "u{u}")}"}}')
    yield "the key in percents", _error(_escaped("%{h}"))
    yield "the key in entities", _error(_escaped("&#{n};"))
    yield "the key in base64", _error(base64.b64encode(f"Bearer {KEY}".encode()).decode())
    answer = json.dumps(f"{KEY} {_escaped('%{h}')}").replace("/", "\\/").replace("=", "\\u003d")
    yield "the key in an answer", _reply(_chat("X").replace(b'"X"', answer.encode()))


RUN = """
import json, resource, sys, time, traceback
from pathlib import Path
from kbbench_hf.benchmarks.base import Prompt, ParsedReply
from kbbench_hf.errors import KBBenchError
from kbbench_hf.llm.endpoint import Endpoint
from kbbench_hf.runners.generate import generate
key, folder, *urls = sys.argv[1:]
prompts = {name: Prompt([{"role": "user", "content": name}], max_tokens=16) for name in ("good", "bad")}
for n, url in enumerate(urls):
    started = time.perf_counter()
    try:
        done = generate(prompts, Endpoint(url, "m", key, timeout_s=3.0), Path(folder, str(n)), canary=False, attempts=2,
                        concurrency=1, parse=lambda text, _: ParsedReply(text.split(), "words"))
        print(done.summary)
        for record in done.records():
            print(record["id"], record["error"])
    except KBBenchError as error:
        print(error)
    except BaseException:
        traceback.print_exc()
    status = Path("/proc/self/status")  # ru_maxrss would count the process that started this one too
    lines = status.read_text().splitlines() if status.is_file() else []
    peak = next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), None)
    print("MB", (peak or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) // 1024)
    print(f"seconds {time.perf_counter() - started:.1f}")
    sys.stderr.flush()
    print("=====", flush=True)
"""


class Server:
    """Sends one hostile reply to the prompt "bad", and answers everything else."""

    def __init__(self, hostile: Hostile) -> None:
        self.hostile, self.port, self.ready = hostile, 0, threading.Event()

    def __enter__(self) -> "Server":
        threading.Thread(target=lambda: asyncio.run(self.serve()), daemon=True).start()
        self.ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.stopped.set)

    async def serve(self) -> None:
        self.loop, self.stopped = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self.talk, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self.ready.set()
        await self.stopped.wait()
        server.close()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = re.search(rb"(?i)content-length: (\d+)", head)
                body = await reader.readexactly(int(length[1])) if length else b""
                if b'"bad"' in body:
                    await self.harm(writer)
                    return
                good = _chat() if body else b'{"data": []}'
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(good) + good)
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    async def harm(self, writer: asyncio.StreamWriter) -> None:
        writer.write(self.hostile.head)
        until = time.monotonic() + 30
        while True:
            for piece in self.hostile.pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(self.hostile.pause_s)
            if not self.hostile.endless or time.monotonic() > until:
                return


class Found(NamedTuple):
    """What a reply did."""

    problems: list[str]
    outcome: str
    """What became of its prompt."""
    megabytes: float
    """The most that its process had held by then."""


def problems(replies: Mapping[str, Hostile]) -> dict[str, Found]:
    """Return what each reply did to its run; one process makes them all."""
    with ExitStack() as stack:
        servers = [stack.enter_context(Server(hostile)) for hostile in replies.values()]
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        urls = [f"http://127.0.0.1:{server.port}" for server in servers]
        try:
            done = subprocess.run(
                [sys.executable, "-c", RUN, KEY, folder, *urls],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=MOST_SECONDS * len(replies),
                env={**os.environ, "COLUMNS": "200"},
            ).stdout
        except subprocess.TimeoutExpired as late:
            done = late.stdout or b""
        printed = [*done.decode("utf-8", "replace").split("=====\n"), *[""] * len(urls)]
        return {name: _found(printed[n], Path(folder, str(n))) for n, name in enumerate(replies)}


def _found(seen: str, folder: Path) -> Found:
    files = "".join(file.read_text("utf-8", "replace") for file in folder.rglob("*") if file.is_file())
    found = []
    megabytes, seconds = (
        float(match[1]) if (match := re.search(rf"^{word} ([\d.]+)$", seen, re.MULTILINE)) else float("inf")
        for word in ("MB", "seconds")
    )
    if "Traceback" in seen:
        found.append(f"trace: {seen[-300:]!r}")
    if megabytes > MOST_MB:
        found.append(f"{megabytes:.0f} MB")
    if seconds > MOST_SECONDS:
        found.append(f"{seconds:.0f} s")
    if steering := STEERING.search(BAR.sub("", seen)):
        found.append(f"{steering[0]!r} on the terminal")
    if any(form in seen + files for form in (KEY, *(_escaped(each) for each in ("%{h}", "&#{n};", "\\u{u}")))):
        found.append("the key is repeated")
    if not re.search(r"^good None$", seen, re.MULTILINE) and "refused" not in seen:
        found.append(f"the other prompt was not answered: {seen[-200:]!r}")
    outcome = re.search(r"^bad (.*)$", seen, re.MULTILINE)
    return Found(found, f"{outcome[1] if outcome else 'stopped'}, {seconds:.1f} s", megabytes)


def all_problems(only: str | None = None) -> dict[str, Found]:
    """Return what every reply did, or one of a name."""
    chosen = {name: hostile for name, hostile in replies() if only in (None, name)}
    batches = [dict([*chosen.items()][n::N_PROCESSES]) for n in range(N_PROCESSES)]
    with ThreadPoolExecutor(N_PROCESSES) as pool:
        found = [each for batch in pool.map(problems, filter(None, batches)) for each in batch.items()]
    return dict(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only")
    found = all_problems(parser.parse_args().only)
    for name, each in found.items():
        print(f"{name:28}{each.megabytes:6.0f} MB  {each.outcome:36}{'; '.join(each.problems)}", flush=True)
    n_bad = sum(bool(each.problems) for each in found.values())
    most = max((each.megabytes for each in found.values()), default=0.0)
    print(f"{len(found)} replies, {n_bad} with problems, at most {most:.0f} MB")


if __name__ == "__main__":
    main()
