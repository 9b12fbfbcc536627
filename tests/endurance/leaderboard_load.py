"""How long an honest check waits behind hostile uploads, and what memory all processes of the board take; exits 1 if
a bound is broken.

python -m tests.endurance.leaderboard_load [--hostile 20] [--rounds 3]
"""

import argparse
import gzip
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path

import psutil

from tests.servers.board import Server, Visitor, board_server
from tests.servers.hostile import GOOD, PLACE, bombs
from tests.servers.hub import local_hub

MOST_WAIT_S = 1.0
MOST_MEMORY = 1_500_000_000


def uploads() -> Iterator[tuple[str, bytes]]:
    """Yield uploads that cost as much as they can: large ones, packed ones, and small ones that are long to score."""
    ids = [json.loads(line)["id"] for line in GOOD.splitlines()]
    full = [[f"subject {n}", "relation", f"object {n}"] for n in range(1_000)]
    heavy = "".join(f"{json.dumps({'id': each, 'triples': full})}\n" for each in ids).encode()
    large = b"".join(b'{"id": "%s", "triples": []}%s\n' % (each.encode(), b" " * 500_000) for each in ids)
    wrong = b'{"id": "nobody", "triples": []}\n' * 30_000
    yield "large.jsonl", large
    yield "heavy.jsonl", heavy
    yield "heavy.jsonl.gz", gzip.compress(heavy)
    yield "small.jsonl", b"\n".join(heavy.splitlines()[:12])
    yield "wrong.jsonl", wrong
    yield "long.jsonl", large + large
    yield from bombs()


def memory(server: Server) -> int:
    """Return what all processes of the server hold in memory, shared pages counted once."""
    process = psutil.Process(server.process.pid)
    total = 0
    for each in [process, *process.children(recursive=True)]:
        try:
            total += each.memory_full_info().pss
        except psutil.Error:  # it ended meanwhile
            continue
    return total


def wait(visitor: Visitor) -> float:
    """Return how long an honest check takes, its upload included."""
    started = time.perf_counter()
    said = visitor.call("validate", PLACE, [visitor.upload("mine.jsonl", GOOD)])
    if "**Accepted.**" not in str(said):
        raise RuntimeError(said)
    return time.perf_counter() - started


def rounds(server: Server, n_hostile: int, n_rounds: int) -> Iterator[dict[str, float]]:
    """Yield, a round each, the longest honest check while so many hostile uploads are under way, and without them."""
    honest = Visitor(server)
    wait(honest)
    alone = max(wait(honest) for _ in range(10))
    most, ended = [memory(server)], threading.Event()

    def watch() -> None:
        while not ended.wait(0.1):
            most[0] = max(most[0], memory(server))

    threading.Thread(target=watch, daemon=True).start()
    attackers = [Visitor(server) for _ in range(n_hostile)]
    for attacker in attackers[::2]:
        attacker.log_in()
    files = cycle(uploads())
    for number in range(n_rounds):
        sent = [
            (each, each.upload(name, data))
            for each, (name, data) in zip(attackers, islice(files, n_hostile), strict=True)
        ]
        with ThreadPoolExecutor(n_hostile) as pool:
            answers = [pool.submit(each.call, "validate", PLACE, [file]) for each, file in sent]
            waits = []
            while not all(each.done() for each in answers) or len(waits) < 5:
                waits.append(wait(honest))
        yield {
            "round": number, "alone s": round(alone, 2), "behind s": round(max(waits), 2), "checks": len(waits),
            "memory MB": most[0] // 1_000_000,
        }  # fmt: skip
    ended.set()


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--hostile", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    broken = []
    with (
        tempfile.TemporaryDirectory() as name,
        local_hub() as hub,
        board_server(Path(name) / "store", hub.environment(f"{name}/hf")) as server,
    ):
        for found in rounds(server, options.hostile, options.rounds):
            print(found, flush=True)
            late = found["behind s"] - found["alone s"] > MOST_WAIT_S
            broken += [f"round {found['round']}"] if late or found["memory MB"] * 1_000_000 > MOST_MEMORY else []
    sys.exit(f"broken: {broken}" if broken else 0)


if __name__ == "__main__":
    main()
