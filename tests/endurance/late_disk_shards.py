"""Shards on a disk without locks that shows other machines' changes late: nothing lost, nothing double.

python -m tests.endurance.late_disk_shards [--runs 200] [--at-once 2] [--seed 0]

Each run has three shards on machines of their own, whose clocks differ: one is stopped and one killed, and both go on
at once on other machines; one is started twice. Two machines collect the run at once.
"""

import argparse
import multiprocessing
import signal
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.servers.sharding import LateOutcome, run_on_late_disk


def late_run(seed: int) -> LateOutcome | str:
    with tempfile.TemporaryDirectory() as place:
        try:
            return run_on_late_disk(Path(place), seed)
        except Exception as error:  # the other runs go on
            return f"{type(error).__name__}: {error}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("runs", 200), ("at-once", 2), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    n: Counter[str] = Counter()
    with ProcessPoolExecutor(options.at_once, multiprocessing.get_context("spawn")) as pool:
        seeds = range(options.seed, options.seed + options.runs)
        for seed, found in zip(seeds, pool.map(late_run, seeds), strict=True):
            good = isinstance(found, LateOutcome) and found.good
            n["failed"] += not good
            if isinstance(found, LateOutcome):
                n.update({name: getattr(found, name) for name in ("lost", "double", "twice")})
                n["kills"] += found.stopped[1] == -signal.SIGKILL
            if not good or seed % 20 == 0:
                print(f"seed {seed}: {found} {'ok' if good else 'FAILED'}", flush=True)
    counts = f"{n['lost']} responses lost, {n['double']} double, {n['twice']} requests sent again"
    print(f"{options.runs} runs: {n['failed']} failed, {counts} after {n['kills']} kills")
    return int(n["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
