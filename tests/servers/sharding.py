"""A run in shards, whose processes are killed at random, against the same run in one process."""

import itertools
import json
import multiprocessing
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import chdir, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import kbbench_hf
from kbbench_hf.errors import BusyError
from kbbench_hf.files import heartbeat, shards
from kbbench_hf.files.datasets import CARD, DatasetFolder
from kbbench_hf.files.journal import Journal
from kbbench_hf.files.shards import COLLECT, ShardEnd
from tests.servers.late_disk import LateDisk
from tests.servers.scripted import MODEL, ScriptedServer
from tests.servers.writers import answer

CONCURRENCY = 2
BENCHMARK = "mini-text2kg"
PRELOAD = [
    "aiohttp", "kbbench_hf.benchmarks.text2kgbench.benchmark", "kbbench_hf.llm.endpoint", "kbbench_hf.parsing.triples",
    "kbbench_hf.runners.chat_requests", "kbbench_hf.runners.run", "kbbench_hf.runners.llm_run",
    "kbbench_hf.building.synthesis.synthesize", "kbbench_hf.building.synthesis.llm_questions", __name__,
]  # fmt: skip
"""What each process of a run imports."""
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
    with ScriptedServer(latency_s=latency_s, answer=lambda payload: '{"triples": []}') as server:

        def arguments(shard: str) -> tuple[Any, ...]:
            return server.url, place / "shards", shard, options

        refused, kills = _kill_at_random(server, run_shard, arguments, n_shards, n_kills, random.Random(seed))
        n_sent, n_prompts = len(server.times), len(server.attempts) * options.get("repeats", 1)
        run(server.url, place / "whole", **options, concurrency=64)
    same = [(place / "shards" / name).read_bytes() == (place / "whole" / name).read_bytes() for name in SCORED]
    return Outcome(kills, refused, n_sent - n_prompts, same)


def _kill_at_random(
    server: ScriptedServer,
    target: Callable[..., None],
    arguments: Callable[[str], tuple[Any, ...]],
    n_shards: int,
    n_kills: int,
    rng: random.Random,
    *,
    n_first: int = CONCURRENCY,
    most_between: int = 1,
) -> tuple[int, int]:
    """Run all shards, each in a process; return how many starts were refused, and how many kills there were.

    `n_first` is the number of requests that a shard has under way first, `most_between` that between two kills.
    """
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(PRELOAD)

    def start(number: int) -> BaseProcess:
        child = processes.Process(target=target, args=arguments(f"{number}/{n_shards}"))
        child.start()
        return child

    def wait_for(n: int) -> None:
        until = time.monotonic() + 60
        while len(server.times) < n and time.monotonic() < until and any(each.is_alive() for each in shards.values()):
            time.sleep(0.002)

    n_before = server.hold_from = len(server.times)  # so that no shard ends before the second start of one
    shards = {number: start(number) for number in range(1, n_shards + 1)}
    wait_for(n_before + n_shards * n_first)
    second = start(1)
    second.join()
    server.release()
    refused, kills = int(second.exitcode == BusyError.exit_code), 0
    while kills < n_kills and (living := [number for number, each in shards.items() if each.is_alive()]):
        wait_for(len(server.times) + rng.randint(1, most_between))
        number = rng.choice(living)
        shards[number].kill()
        shards[number].join()
        kills += shards[number].exitcode == -signal.SIGKILL
        shards[number] = start(number)
    for each in shards.values():
        each.join()
    if any(each.exitcode for each in shards.values()):
        raise RuntimeError(f"shards ended with {[each.exitcode for each in shards.values()]}")
    return refused, kills


def synthesize_shard(folder: Path, how: dict[str, Any], shard: str | None = None) -> None:
    """Synthesize questions in a folder, or a shard of them, in a process of its own."""
    folder.mkdir(exist_ok=True)
    with chdir(folder), suppress(ShardEnd):
        try:
            kbbench_hf.synthesize("mini-stark", shard=shard, concurrency=CONCURRENCY, show=False, **how)
        except BusyError as error:
            sys.exit(error.exit_code)


def kill_synthesis(place: Path, n_shards: int, n_kills: int, count: int, seed: int = 0) -> Outcome:
    """Synthesize questions in shards, one of them started twice; kill `n_kills` at random, and start these again."""
    spec = place / "spec.yaml"
    with ScriptedServer(latency_s=0.02, answer=answer) as server:
        models = {name: {"model": name, "base_url": server.url} for name in ("writer", "truthful", "always")}
        steps: dict[str, Any] = dict.fromkeys(("extract", "fuse", "rewrite"), models["writer"])
        steps["judges"] = [models["truthful"], models["always"]]
        spec.write_text(json.dumps({"max_hops": 1, "max_templates": 6, "models": steps}), encoding="utf-8")
        how = {"count": count, "spec": spec, "out": "made"}
        synthesize_shard(place / "whole", how)
        whole, server.payloads = _count_prompts(server), []
        n_between = 2 * whole.total() // (3 * n_kills)
        refused, kills = _kill_at_random(
            server, synthesize_shard, lambda shard: (place / "shards", how, shard), n_shards, n_kills,
            random.Random(seed), n_first=1, most_between=n_between,
        )  # fmt: skip
        twice = _count_prompts(server) - whole
    made = [DatasetFolder(place / name / "kbbench/made") for name in ("shards", "whole")]
    same = [made[0].revision == made[1].revision, *((each.path / CARD).read_bytes() for each in made)]
    return Outcome(kills, refused, twice.total(), [same[0], same[1] == same[2]])


def _count_prompts(server: ScriptedServer) -> Counter[str]:
    """Count how often each prompt was sent, canaries aside."""
    return Counter(json.dumps(each, sort_keys=True) for each in server.payloads if len(each["messages"]) == 2)


class LateOutcome(NamedTuple):
    """What became of a run on a disk that shows changes late."""

    lost: int
    """Prompts without a response in the predictions."""
    double: int
    """Prompts whose response is in the journals twice."""
    twice: int
    """Requests beyond one for each prompt."""
    stopped: list[int | None]
    """Exit codes of the process that is stopped and of the one that is killed."""
    third: list[int | None]
    """Exit codes of the two starts of one shard."""
    ended: list[int | None]
    """Exit codes of the processes that go on with these shards, and of both joiners."""
    same: list[bool]
    """For each file of `SCORED`, whether it has the same bytes as that of one process; last, the joiners' results."""

    @property
    def good(self) -> bool:
        """Whether nothing is lost or double but what was under way at the kill."""
        refused = self.third[0] == 0 and self.third[1] in (0, BusyError.exit_code)
        return (
            not (self.lost or self.double or any(self.ended))
            and self.twice <= CONCURRENCY
            and refused
            and all(self.same)
        )


TIMES: dict[str, Any] = {"STALE_S": 4.0, "LATE_S": (0.1, 0.4, 1.0)}
"""A fifth of the times of `kbbench_hf.files.shards`."""
BEAT_S = 0.3
MOST_LATE_S = 1.0
N_SHARDS = 3


def run_on_machine(url: str, place: Path, machine: str, seed: int, options: dict[str, Any]) -> None:
    """Run a shard, or collect, on a machine of its own that sees the disk late."""
    for name, value in TIMES.items():
        setattr(shards, name, value)
    heartbeat.BEAT_S = BEAT_S
    LateDisk(place / "disk", machine, MOST_LATE_S, seed).install()
    try:
        run(url, place / "disk/run", **options)
    except ShardEnd:
        return
    except (BusyError, KeyboardInterrupt) as error:
        sys.exit(getattr(error, "exit_code", 130))
    (place / f"{machine}.json").write_bytes((place / "disk/run/result.json").read_bytes())


def run_on_late_disk(place: Path, seed: int) -> LateOutcome:
    """Run three shards on machines of their own, and collect them on two more at once.

    The first shard is stopped after some responses and the second is killed; both go on at once on other machines. The
    third is started twice.
    """
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(PRELOAD)
    rng, numbers, how = random.Random(seed), itertools.count(), {"limit": 24}
    folder = place / "disk/run"
    folder.parent.mkdir()
    with ScriptedServer(latency_s=0.25, answer=lambda payload: '{"triples": []}') as server:

        def start(**options: Any) -> BaseProcess:
            number = next(numbers)
            arguments = (server.url, place, f"machine-{number}", 1000 * seed + number, {**how, **options})
            child = processes.Process(target=run_on_machine, args=arguments)
            child.start()
            return child

        def n_responses(number: int) -> int:
            return sum(file.read_bytes().count(b"\n") for file in folder.glob(f"journal.{number}-of-*.jsonl"))

        names = [f"{number}/{N_SHARDS}" for number in range(1, N_SHARDS + 1)]
        first, second, *third = (start(shard=name) for name in (*names, names[-1]))
        after, until = rng.randint(1, 4), time.monotonic() + 60
        for number, child, sent in ((1, first, signal.SIGTERM), (2, second, signal.SIGKILL)):
            while n_responses(number) < after and time.monotonic() < until:
                time.sleep(0.005)
            if child.is_alive():
                os.kill(child.pid or 0, sent)
        for child in (first, second):
            child.join()
        others = [start(shard=name) for name in names[:2]]
        for child in (*others, *third):
            child.join()
        joiners = [start(collect=True) for _ in range(2)]
        for child in joiners:
            child.join()
        n_sent, n_prompts = len(server.times), len(server.attempts)
        run(server.url, place / "whole", **how, concurrency=64)
    keys: Counter[str] = Counter()
    with Journal(folder, COLLECT, observe=lambda record: keys.update([record["key"]])):
        double = sum(n - 1 for n in keys.values())
    answers = [json.loads(line) for line in (folder / SCORED[0]).read_text("utf-8").splitlines()]
    return LateOutcome(
        lost=24 - sum("response" in row for row in answers),
        double=double,
        twice=n_sent - n_prompts,
        stopped=[first.exitcode, second.exitcode],
        third=sorted((child.exitcode for child in third), key=str),
        ended=[child.exitcode for child in (*others, *joiners)],
        same=[
            *((folder / name).read_bytes() == (place / "whole" / name).read_bytes() for name in SCORED),
            len({file.read_bytes() for file in place.glob("machine-*.json")}) == 1,
        ],
    )
