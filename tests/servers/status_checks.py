"""`kbbench status` against a server's own count, while shards of a run are killed, paused and resumed at random."""

import multiprocessing
import os
import random
import signal
import time
from collections import defaultdict
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.files.heartbeat import BEAT_S, write_control
from kbbench_hf.runners.run_status import FINISHED, PAUSED, RUNNING, StatusReader
from tests.servers import scripted
from tests.servers.scripted import ScriptedServer
from tests.servers.sharding import run, run_shard

SLACK_S = 1.0
"""A reply is journaled, and a report written, so long after it at most, while each process has a core."""
MOST = 6
"""The highest concurrency."""


@dataclass
class Checks:
    """What was compared, and what did not agree."""

    n: int = 0
    n_kills: int = 0
    steered: int = 0
    wrong: list[str] = field(default_factory=list)
    final: str = ""


class _Counts:
    """What the server has of each shard, by the key that it sends: (time, requests under way)."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.active: dict[str, list[tuple[float, int]]] = defaultdict(lambda: [(0.0, 0)])
        self.answered: list[float] = []
        connection = scripted._Connection
        chat, finish = connection.chat, connection.finish

        def chatting(own: Any, headers: dict[str, str], payload: dict[str, Any]) -> None:
            self._count(headers, 1)
            chat(own, headers, payload)

        def finishing(own: Any, fault: Any, prompt: str, said: Any, headers: dict[str, str]) -> None:
            self._count(headers, -1)
            if not own.transport.is_closing():
                self.answered.append(time.monotonic())
            finish(own, fault, prompt, said, headers)

        patch.setattr(connection, "chat", chatting)
        patch.setattr(connection, "finish", finishing)

    def _count(self, headers: dict[str, str], change: int) -> None:
        history = self.active[headers["authorization"].removeprefix("Bearer ")]
        history.append((time.monotonic(), history[-1][1] + change))

    def range(self, shard: str, since: float) -> tuple[int, int]:
        """Return the least and the most that was under way since then."""
        history = [*self.active[shard]]
        before = [n for at, n in history if at <= since][-1]
        found = [before, *(n for at, n in history if at > since)]
        return min(found), max(found)


def _start_shard(url: str, folder: Path, shard: str, options: dict[str, Any]) -> None:
    os.environ["SHARD_KEY"] = shard
    run_shard(url, folder, shard, {**options, "api_key_env": "SHARD_KEY"})


def check_status(place: Path, n_shards: int, seconds: float, seed: int = 0, **options: Any) -> Checks:
    """Run shards, and compare the status with the server's count until the run is finished."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["tests.servers.status_checks", "kbbench_hf.runners.llm_run"])
    rng, folder, checks = random.Random(seed), place / "run", Checks()
    with pytest.MonkeyPatch.context() as patch, ScriptedServer(
        latency_s=0.3, answer=lambda _: '{"triples": []}'
    ) as server:  # fmt: skip
        counts = _Counts(patch)

        def start(number: int) -> BaseProcess:
            arguments = (server.url, folder, f"{number}/{n_shards}", options)
            child = processes.Process(target=_start_shard, args=arguments)
            child.start()
            return child

        shards = {number: start(number) for number in range(1, n_shards + 1)}
        server.wait_for(n_shards)
        reader, began, paused = StatusReader(folder), time.monotonic(), False
        while any(each.is_alive() for each in shards.values()):
            now = time.monotonic()
            slack = SLACK_S * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
            living = {number for number, each in shards.items() if each.is_alive()}
            status = reader.read()
            time.sleep(0.05)
            checks.n += 1
            n_done = status.n_done or 0
            least = sum(at < now - slack for at in counts.answered) - checks.n_kills * MOST
            if not least <= n_done <= len(counts.answered):
                checks.wrong.append(f"{n_done} done; the server answered {least} to {len(counts.answered)}")
            for each in status.processes:
                low, high = counts.range(each.name.removeprefix("shard "), now - BEAT_S - slack)
                is_living = int(each.name[6:].partition("/")[0]) in living
                if each.state in (RUNNING, PAUSED) and is_living and not low <= each.under_way <= high:
                    checks.wrong.append(f"{each.name}: {each.under_way} under way; the server had {low} to {high}")
                if each.state == RUNNING and not is_living:
                    checks.wrong.append(f"{each.name} is running after its end")
            if now - began > seconds:
                if paused:
                    write_control(folder, paused=(paused := False))
                time.sleep(0.2)
                continue
            action = rng.random()
            if action < 0.05 and living:
                number = rng.choice(sorted(living))
                os.kill(shards[number].pid or 0, signal.SIGKILL)
                shards[number].join()
                killed = next(each for each in reader.read().processes if each.name == f"shard {number}/{n_shards}")
                if killed.state not in ("killed", "ended", "stopped"):
                    checks.wrong.append(f"{killed.name} is {killed.state} after SIGKILL")
                checks.n_kills += 1
                shards[number] = start(number)
            elif action < 0.12:
                paused = not paused
                write_control(folder, paused=paused)
                checks.steered += 1
            elif action < 0.2:
                write_control(folder, concurrency=rng.randint(1, MOST))
                checks.steered += 1
            time.sleep(0.1)
        for child in shards.values():
            child.join()
        run(server.url, folder, **options, collect=True)
        status = reader.read()
        checks.final = f"{status.state}, {status.n_done} of {status.n_total}"
        if status.state != FINISHED or status.n_done != status.n_total:
            checks.wrong.append(checks.final)
    return checks
