"""SIGKILL a generation run many times and let it finish: nothing acknowledged is lost, nothing is recorded twice.

python -m tests.endurance.kills [--kills 200] [--prompts 2000] [--interrupt]

With --interrupt the signal is SIGINT (Ctrl-C): then nothing is sent again at all.
"""

import argparse
import json
import multiprocessing
import os
import random
import signal
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from kbbench_hf.benchmarks.base import Prompt, of_text
from kbbench_hf.errors import InterruptedRunError
from kbbench_hf.files.journal import Journal
from kbbench_hf.llm.endpoint import Endpoint
from kbbench_hf.runners.generate import generate
from tests.servers.scripted import MODEL, ScriptedServer

CONCURRENCY = 16


class Outcome(NamedTuple):
    """What the kills did."""

    kills: int
    acknowledged: int
    lost: int
    recorded_twice: int
    resent: int
    same_bytes: bool


def prompts_of(n: int) -> dict[str, Prompt]:
    return {f"q{i}": Prompt([{"role": "user", "content": f"prompt {i}"}], max_tokens=16) for i in range(n)}


def run(url: str, folder: Path, n: int, acknowledgements: Path | None = None) -> None:
    if acknowledgements is not None:
        descriptor = os.open(acknowledgements, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        append = Journal.append

        def append_and_tell(journal: Journal, record: Any) -> None:
            append(journal, record)
            os.write(descriptor, f"{record['key']}\n".encode())

        Journal.append = append_and_tell  # type: ignore[method-assign]
    model = Endpoint(url, MODEL)
    options: dict[str, Any] = {"answer": "answers", "canary": False, "show": False}
    options["parse"] = of_text(str.split)
    with suppress(InterruptedRunError):
        generate(prompts_of(n), model, folder, concurrency=CONCURRENCY, **options)
        return
    os._exit(InterruptedRunError.exit_code)


def kill_and_resume(kills: int, n: int, seed: int = 0, number: signal.Signals = signal.SIGKILL) -> Outcome:
    """Kill a run of n prompts `kills` times, each after a random number of its requests, then let it finish."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["kbbench_hf.runners.generate", "tests.servers.scripted"])
    rng = random.Random(seed)
    with ScriptedServer(latency_s=0.005) as server, tempfile.TemporaryDirectory() as place:
        killed, whole, told = Path(place) / "killed", Path(place) / "whole", Path(place) / "acknowledged"
        done = 0
        while done < kills:
            child = processes.Process(target=run, args=(server.url, killed, n, told))
            goal = len(server.requests) + rng.randrange(n // max(1, kills) + 1)
            server.hold_from = goal  # so that it does not end before it is killed
            child.start()
            while len(server.requests) < goal and child.is_alive():
                time.sleep(0.0005)
            time.sleep(rng.random() * 0.01)
            if child.pid is not None and child.is_alive():
                os.kill(child.pid, number)
            server.release()
            child.join()
            if child.exitcode == 0:
                break
            done += 1
        last = processes.Process(target=run, args=(server.url, killed, n, told))
        last.start()
        last.join()
        requests = len(server.requests)
        run(server.url, whole, n)
        acknowledged = set(told.read_text().split())
        lines = (killed / "journal.jsonl").read_bytes().splitlines()
        written = Counter(json.loads(line)["key"] for line in lines)
        same = (killed / "predictions.jsonl").read_bytes() == (whole / "predictions.jsonl").read_bytes()
        twice = sum(count > 1 for count in written.values())
        return Outcome(done, len(acknowledged), len(acknowledged - written.keys()), twice, requests - n, same)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--prompts", type=int, default=2000)
    parser.add_argument("--interrupt", action="store_true")
    options = parser.parse_args()
    number = signal.SIGINT if options.interrupt else signal.SIGKILL
    outcome = kill_and_resume(options.kills, options.prompts, number=number)
    print(outcome, f"(re-sent requests allowed: {0 if options.interrupt else outcome.kills * CONCURRENCY})")


if __name__ == "__main__":
    main()
