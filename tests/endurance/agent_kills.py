"""SIGKILL an agent's run many times, on a server that spoils three replies of ten, and let it finish.

python -m tests.endurance.agent_kills [--kills 50] [--questions 500] [--rate 0.3] [--concurrency 16] [--seed 0]

Exits 1 unless predictions and trajectories are those of an undisturbed run, and no conversation was answered again but
those whose answers were under way when the run was killed.
"""

import argparse
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.end_to_end.test_agent_policies import World, lines, untimed, walk, world
from tests.puzzles import Puzzle, odd
from tests.servers.scripted import TRANSIENT
from tests.servers.tool_caller import Script, ToolCaller
from tests.servers.tool_policies import Case, malformed, noisy, plain, policy

KINDS = tuple(kind for kind in TRANSIENT if kind != "length")
"""A cut-off answer is an answer, and none that would come again."""
TIMEOUT_S = 2.0


class Outcome(NamedTuple):
    """What the kills and the faults did."""

    kills: int
    requests: int
    needed: int
    faults: int
    paid_twice: int
    allowed_twice: int
    same_predictions: bool
    same_trajectories: bool
    as_played: bool
    """Whether the selections are those of the policies."""

    @property
    def held(self) -> bool:
        same = self.same_predictions and self.same_trajectories and self.as_played
        return same and self.paid_twice <= self.allowed_twice


def made(folder: Path, n: int, seed: int) -> World:
    return world(odd("strings", n_questions=n, seed=seed, n_nodes=400), folder, n)


def case_of(cases: list[Case], puzzle: Puzzle) -> Case:
    return cases[int(puzzle.id) % len(cases)]


def run(url: str, folder: Path, n: int, seed: int, concurrency: int) -> None:
    with tempfile.TemporaryDirectory() as own:
        walk(made(Path(own), n, seed), _At(url), folder, concurrency=concurrency, timeout_s=TIMEOUT_S)


class _At(NamedTuple):
    url: str


def kill_and_resume(kills: int, n: int, rate: float, concurrency: int, seed: int = 0) -> Outcome:
    """Kill a run over n questions `kills` times, each after a random number of its requests, then let it finish."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["tests.endurance.agent_kills", "aiohttp"])
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "world").mkdir()
        here = made(place / "world", n, seed)
        cases = [*plain(here.puzzles).values(), *noisy(here.puzzles).values(), *malformed(here.puzzles).values()]

        def play(puzzle: Puzzle) -> Script:
            return case_of(cases, puzzle).play(puzzle)

        with ToolCaller(policy=policy(here.puzzles, play)) as server:
            server.keep = False
            walked = walk(here, server, place / "whole", concurrency=concurrency)
            needed = len(server.times)
        faults: dict[str, Any] = {"fault_rate": rate, "kinds": KINDS, "retry_after_s": 0.05, "hang_s": TIMEOUT_S + 1}
        with ToolCaller(policy=policy(here.puzzles, play), latency_s=0.005, **faults) as server:
            server.keep = False
            arguments = (server.url, place / "killed", n, seed, concurrency)
            done = 0
            while done < kills:
                child = processes.Process(target=run, args=arguments)
                goal = len(server.times) + rng.randrange(2 * (needed - len(server.answered)) // (kills - done + 1) + 2)
                server.hold_from = goal
                child.start()
                while len(server.times) < goal and child.is_alive():
                    time.sleep(0.0005)
                time.sleep(rng.random() * 0.05)
                if child.pid is not None and child.is_alive():
                    os.kill(child.pid, signal.SIGKILL)
                server.release()
                child.join()
                if child.exitcode == 0:
                    break
                done += 1
            last = processes.Process(target=run, args=arguments)
            last.start()
            last.join()
            twice, requests, faulty = server.n_paid_twice, len(server.times), sum(server.injected.values())
        same = (place / "killed" / "predictions.jsonl").read_bytes() == (place / "whole/predictions.jsonl").read_bytes()
        first, second = (untimed(place / each / "trajectories.jsonl") for each in ("whole", "killed"))
        played = all(
            trajectory.selected == list(case_of(cases, puzzle).selected(puzzle))
            for puzzle, trajectory in zip(here.questions, walked.trajectories, strict=True)
        )
        assert len(lines(place / "killed")) == n
        return Outcome(done, requests, needed, faulty, twice, done * concurrency, same, first == second, played)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--rate", type=float, default=0.3)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    outcome = kill_and_resume(options.kills, options.questions, options.rate, options.concurrency, options.seed)
    print(outcome, "held" if outcome.held else "MISSED")
    return int(not outcome.held)


if __name__ == "__main__":
    sys.exit(main())
