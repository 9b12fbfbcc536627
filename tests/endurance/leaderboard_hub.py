"""A thousand submissions to a Hub that fails three times in ten, on a clock that only sleeping moves.

    python -m tests.endurance.leaderboard_hub [--submissions 1000]

The client is huggingface_hub's own, over HTTP, against the Hub in memory, which takes as many commits an hour as the
Hub does; then a second machine with its own copy of the store, and an allowance of its own, sends to the same
repository. Exits 1 if a promise broke.
"""

import argparse
import json
import logging
import os
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.outbox import COMMITS_AT_ONCE, Outbox
from kbbench_hf.leaderboard.store import Store, System
from kbbench_hf.leaderboard.submissions import preview, store_preview
from tests.servers.clock import Clock
from tests.servers.hostile import GOOD
from tests.servers.hub import TOKEN, LocalHub, local_hub

FAULTS = ("409", "412", "429", "500-after-commit", "timeout")
REPO = "kbbench/results"
HUB_TAKES = 128
"""Commits an hour to one repository; it answers 429 to more."""


def send(hub: LocalHub, folder: Path, n: int, rate: float = 0.3) -> dict[str, Any]:
    """Store n submissions on two machines, send them through the faults, restore a third machine from the Hub."""
    from huggingface_hub import HfApi

    clock, generator = Clock(), random.Random(9)
    api = HfApi(endpoint=hub.url, token=TOKEN)
    seen, tried, taken = Counter[str](), list[list[float]](), list[float]()

    def fault(method: str, path: str) -> str | None:
        if "/commit/" not in path:
            return None
        tried[-1].append(clock.now)
        if sum(clock.now - 3600 < moment for moment in taken) >= HUB_TAKES:
            seen["429, too many"] += 1
            return "429"
        found = generator.choice(FAULTS) if generator.random() < rate else None
        if found in (None, "500-after-commit"):
            taken.append(clock.now)
        seen[found or "none"] += 1
        return found

    (folder / "a.jsonl").write_bytes(GOOD)
    read = preview(folder / "a.jsonl", "mini-text2kg")
    stores = [Store(folder / name) for name in ("first", "second")]
    for number in range(n):
        store_preview(stores[number % 2], read, System(f"system {number}"), "tester")
    hub.fault = fault
    outboxes = [Outbox(store, REPO, api, clock.time, clock.sleep) for store in stores]
    for outbox in outboxes:
        tried.append([])
        outbox.flush()
    hub.fault = lambda method, path: None
    wanted = {
        file.relative_to(store.root).as_posix(): file.read_bytes()
        for store in stores
        for part in ("submissions", "events")
        for file in (store.root / part).rglob("*.*")
    }
    repo = hub.repos["dataset", REPO]
    written: Counter[str] = Counter()
    for (_, before), (_, after) in zip(repo.commits, repo.commits[1:], strict=False):
        written.update(path for path in after if path not in before or after[path] != before[path])
    busiest = [max(sum(start <= each < start + 3600 for each in own) for start in own) for own in (*tried, taken)]
    third = Store(folder / "third")
    Outbox(third, REPO, api, clock.time, clock.sleep).fetch()
    index = Index(third)
    index.update()
    dump = index.dump()
    index.rebuild()
    return {
        "submissions": n,
        "faults": {key: value for key, value in seen.items() if key != "none"},
        "present": sum(repo.commits[-1][1].get(path) == data for path, data in wanted.items()) // 6,
        "missing or different files": sum(repo.commits[-1][1].get(path) != data for path, data in wanted.items()),
        "written more than once": sum(count > 1 for count in written.values()),
        "commits": len(taken),
        "most tried in an hour by a machine": max(busiest[:-1]),
        "most taken in an hour": busiest[-1],
        "simulated hours": round(clock.now / 3600, 2),
        "durable": sum(len(outbox.durable()) for outbox in outboxes),
        "rows of a restored machine": len(third.visible()),
        "its problems": len(third.check()),
        "its index made again differs": int(index.dump() != dump),
    }


def main() -> None:
    """Run it; disk syncs are left out, because power is not what fails here."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--submissions", type=int, default=1_000)
    n = parser.parse_args().submissions
    logging.disable()
    os.fsync = lambda handle: None  # type: ignore[assignment]
    with tempfile.TemporaryDirectory() as name, local_hub() as hub:
        os.environ.update(hub.environment(f"{name}/hf"), HF_HUB_DISABLE_PROGRESS_BARS="1")  # read at the first import
        table = send(hub, Path(name), n)
    print(json.dumps(table, indent=1))
    good = (
        table["present"] == n == table["rows of a restored machine"]
        and table["most tried in an hour by a machine"] <= 60 + COMMITS_AT_ONCE
        and table["most taken in an hour"] <= HUB_TAKES
    )
    zero = ("missing or different files", "written more than once", "its problems", "its index made again differs")
    sys.exit(0 if good and not any(table[key] for key in zero) else "broken")


if __name__ == "__main__":
    main()
