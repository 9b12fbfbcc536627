"""A run in shards, whose processes are killed at random, against the same run in one process."""

import multiprocessing
import os
import random
import signal
import sys
import time
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import kbbench_hf
from kbbench_hf.errors import BusyError
from kbbench_hf.files.shards import ShardEnd
from tests.servers.scripted import MODEL, ScriptedServer

CONCURRENCY = 2
BENCHMARK = "mini-text2kg"
SCORED = ("predictions.jsonl", "scores.jsonl", "result.json")


class Outcome(NamedTuple):
    """What the kills did."""

    kills: int
    refused: int
    """Starts of a shard that another process ran."""
    twice: int
    """Requests beyond one for each prompt and repeat."""
    results: list[bool]
    """For each file of `SCORED`, whether it has the same bytes."""


def run(url: str, folder: Path, **options: Any) -> None:
    how: dict[str, Any] = {"concurrency": CONCURRENCY, "canary": False, "show": False, "out": folder}
    kbbench_hf.run(BENCHMARK, MODEL, base_url=url, **{**how, **options})


def run_shard(url: str, folder: Path, shard: str, options: dict[str, Any]) -> None:
    """Run a shard in a process of its own, which ends with 0 or the exit code of an error."""
    with suppress(ShardEnd):
        try:
            run(url, folder, shard=shard, **options)
        except BusyError as error:
            sys.exit(error.exit_code)


def kill_shards(place: Path, n_shards: int, n_kills: int, latency_s: float, seed: int = 0, **options: Any) -> Outcome:
    """Run all shards at once, one of them started twice; kill `n_kills` at random, and start these again."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["tests.servers.sharding", "kbbench_hf.runners.llm_run"])
    rng = random.Random(seed)
    with ScriptedServer(latency_s=latency_s, answer=lambda payload: '{"triples": []}') as server:

        def start(number: int) -> BaseProcess:
            arguments = (server.url, place / "shards", f"{number}/{n_shards}", options)
            child = processes.Process(target=run_shard, args=arguments)
            child.start()
            return child

        def wait_for(n: int) -> None:
            until = time.monotonic() + 60
            while len(server.times) < n and time.monotonic() < until:
                time.sleep(0.002)

        server.hold_from = 0  # so that no shard ends before the second start of one
        shards = {number: start(number) for number in range(1, n_shards + 1)}
        wait_for(n_shards * CONCURRENCY)
        second = start(1)
        second.join()
        server.release()
        refused, kills = int(second.exitcode == BusyError.exit_code), 0
        while kills < n_kills and (living := [number for number, each in shards.items() if each.is_alive()]):
            wait_for(len(server.times) + 1)
            number = rng.choice(living)
            pid = shards[number].pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            shards[number].join()
            kills += shards[number].exitcode == -signal.SIGKILL
            shards[number] = start(number)
        for each in shards.values():
            each.join()
        if any(each.exitcode for each in shards.values()):
            raise RuntimeError(f"shards ended with {[each.exitcode for each in shards.values()]}")
        n_sent, n_prompts = len(server.times), len(server.attempts) * options.get("repeats", 1)
        run(server.url, place / "whole", **options, concurrency=64)
    same = [(place / "shards" / name).read_bytes() == (place / "whole" / name).read_bytes() for name in SCORED]
    return Outcome(kills, refused, n_sent - n_prompts, same)
