"""What a call of our tools costs over the Model Context Protocol, beside a tool that does nothing, of the same SDK.

Two servers stand side by side: one with our tools on a knowledge base of Prime's size, one whose only tool returns an
empty text. 32 clients of the SDK call each over HTTP, in turns. Cost is the server's own processor time a call; what a
tool does itself, measured in the same calls, is printed apart, as it is the same in our own loop. The target is 1.2
times the empty tool, what the tool does itself left out. Of all rounds the least counts: others disturb only upwards.

Run: python benchmarks_speed/mcp_tools.py [--scale 1] [--calls 20] [--rounds 5]
"""

import argparse
import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import psutil
from agent_tools import Drawn, kinds, tables
from knowledge_base_data import prime

from kbbench_hf.agents.tools import AgentTools, Outcome, QuestionState
from kbbench_hf.knowledge_base import KnowledgeBase
from kbbench_hf.runners.agent_sessions import AgentSessions

N_CLIENTS = 32
TARGET = 1.2
KINDS = ("select 20", "neighbors, 20", "search, 20", "an unknown relation")


def serve_empty(port: int) -> None:
    """Serve a tool that takes what ours take, and returns nothing."""
    from mcp.server import MCPServer

    server = MCPServer("empty", log_level="WARNING")

    @server.tool()
    def empty(arguments: dict[str, Any]) -> str:
        """Do nothing."""
        return ""

    server.run(transport="streamable-http", port=port, json_response=True)


def serve_ours(port: int, folder: Path, scale: float) -> None:
    """Write arguments of calls into the folder, then serve, and count there the seconds that the tools take."""
    from kbbench_hf.runners.agent_sessions import mcp_server, serve_http

    data = prime(scale)
    kb = KnowledgeBase.build(*tables(data, strings=False), folder / "store")
    own = np.memmap(folder / "own", np.float64, "w+", shape=(1,))
    tools, rng = Timed(kb, Drawn(len(kb)), own), np.random.default_rng(4)
    made = {
        kind: {"name": name, "given": [arguments(rng) for _ in range(50)]}
        for kind, (name, arguments) in kinds(data, kb).items()
        if kind in KINDS
    }
    text = Outcome.text.fget

    def timed_text(outcome: Outcome) -> str:
        start = time.thread_time()
        found: str = text(outcome)
        own[0] += time.thread_time() - start
        return found

    Outcome.text = property(timed_text)  # the result written out is a part of the tool, wherever it is called
    rows = [{"id": number, "query": "", "answer_ids": []} for number in range(100_000)]
    with AgentSessions(rows, tools, lambda place: {"id": place, "ids": []}, folder / "run") as sessions:
        (folder / "calls.json").write_text(json.dumps(made))
        serve_http(mcp_server(sessions), "127.0.0.1", port)


class Timed(AgentTools):
    """Tools that count the processor time of their calls."""

    def __init__(self, kb: KnowledgeBase, search: Drawn, own: Any) -> None:
        super().__init__(kb, search)
        self.own = own

    def call(self, name: str, arguments: object, question: QuestionState) -> Outcome:
        """Answer a call, as the tools do."""
        start = time.thread_time()
        outcome = super().call(name, arguments, question)
        self.own[0] += time.thread_time() - start
        return outcome


@contextlib.contextmanager
def served(*arguments: str) -> Iterator[tuple[str, psutil.Process]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, __file__, "--port", str(port), *arguments])
    try:
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            assert process.poll() is None
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/mcp", psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(30)


def cost(server: tuple[str, psutil.Process], name: str, given: list[Mapping[str, Any]], n: int) -> float:
    """Return the server's seconds of processor time for a call, of `n` by each client."""
    from mcp import Client

    url, process = server
    spent: list[float] = []

    async def client(number: int, ready: list[int], go: anyio.Event) -> None:
        async with Client(url, mode="legacy") as connected:
            if name != "empty":
                await connected.call_tool("start_question", {})
            await connected.list_tools()
            ready.append(number)
            await go.wait()
            for step in range(n):
                each = given[(number + step) % len(given)]
                await connected.call_tool(name, {"arguments": each} if name == "empty" else dict(each))
            ready.pop()
            while ready:
                await anyio.sleep(0.01)

    async def main() -> None:
        ready: list[int] = []
        go = anyio.Event()
        async with anyio.create_task_group() as group:
            for number in range(N_CLIENTS):
                group.start_soon(client, number, ready, go)
            while len(ready) < N_CLIENTS:
                await anyio.sleep(0.01)
            before = sum(process.cpu_times()[:2])
            go.set()
            while ready:
                await anyio.sleep(0.005)
            spent.append((sum(process.cpu_times()[:2]) - before) / (n * N_CLIENTS))

    anyio.run(main)
    return spent[0]


def compare(scale: float, n: int, rounds: int) -> bool:
    held = True
    with (
        tempfile.TemporaryDirectory() as folder,
        served("--serve", "empty") as empty,
        served("--serve", "ours", "--folder", folder, "--scale", str(scale)) as ours,
    ):
        made = json.loads((Path(folder) / "calls.json").read_text())
        print(f"{N_CLIENTS} clients, {n} calls each, {rounds} rounds; server CPU ms a call, target {TARGET:g} times")
        own = np.memmap(Path(folder) / "own", np.float64, "r", shape=(1,))
        for kind, each in made.items():
            rounds_of = []
            for _ in range(rounds):
                beside = cost(empty, "empty", each["given"], n)
                before = own[0]
                whole = cost(ours, each["name"], each["given"], n)
                rounds_of.append((beside, whole, (own[0] - before) / (n * N_CLIENTS)))
            nothing, ours_ms, tool = (1000 * min(column) for column in zip(*rounds_of, strict=True))
            rest = 1000 * min(whole - tool for _, whole, tool in rounds_of)
            ratio = rest / nothing
            held &= ratio <= TARGET
            print(
                f"  {kind:<22} empty {nothing:6.3f}  ours {ours_ms:6.3f}, of which the tool {tool:6.3f}  "
                f"rest {rest:6.3f}, {ratio:4.2f} times  {'ok' if ratio <= TARGET else 'MISSED'}"
            )
    return held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--calls", type=int, default=20, help="of each client; a question has at most 40")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", choices=["empty", "ours"])
    parser.add_argument("--port", type=int)
    parser.add_argument("--folder", type=Path)
    chosen = parser.parse_args()
    if chosen.serve == "empty":
        serve_empty(chosen.port)
    elif chosen.serve == "ours":
        serve_ours(chosen.port, chosen.folder, chosen.scale)
    else:
        sys.exit(0 if compare(chosen.scale, chosen.calls, chosen.rounds) else 1)


if __name__ == "__main__":
    main()
