"""Kill a retrieval run with SIGKILL at random points, 30 times by default, and compare with one that nothing disturbed.

    python -m tests.endurance.retrieve_kills [--kills 30] [--processes 1] [--seed 0]

Each kill falls a moment after a random part of the work that is left is done: while texts are encoded, joined,
searched or written. A finished run is thrown away and begun again until all kills are done. Exits 1 if a file differs.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from kbbench_hf.retrieval.embedders import BLOCK_TEXTS
from tests.unit.runners.retrieve_worker import BATCH, N_NODES, N_QUESTIONS

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = -(-N_NODES // BLOCK_TEXTS)
ALL = BLOCKS + -(-N_QUESTIONS // BATCH)


def start(folder: Path, processes: int) -> "subprocess.Popen[bytes]":
    command = [
        sys.executable,
        "-m",
        "tests.unit.runners.retrieve_worker",
        *map(str, (folder / "run", folder / "cache", processes)),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, env=environment, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


def finish(folder: Path, processes: int) -> bytes:
    if start(folder, processes).wait():
        raise SystemExit("a run failed that nothing had disturbed")
    return (folder / "run/predictions.jsonl").read_bytes()


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--kills", type=int, default=30)
    arguments.add_argument("--processes", type=int, default=1)
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args()
    chance = random.Random(options.seed)
    root = Path(tempfile.mkdtemp(prefix="retrieve-kills-"))
    expected = finish(root / "whole", 1)
    kills, different, begun = 0, 0, 0
    reached: Counter[str] = Counter()
    folder = root / "killed"
    while kills < options.kills:
        begun += 1
        shutil.rmtree(folder, ignore_errors=True)
        for _ in range(min(5, options.kills - kills)):
            process = start(folder, options.processes)
            goal = chance.randint(progress(folder), ALL)
            while process.poll() is None and progress(folder) < goal:
                time.sleep(0.001)
            time.sleep(chance.uniform(0, 0.03))
            if process.poll() is not None:
                break  # it got to the end first
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
            reached[stage(folder)] += 1
        different += finish(folder, options.processes) != expected
    shutil.rmtree(root)
    print(f"{kills} kills in {begun} runs ({dict(reached)}): {different} files differ from the undisturbed run's")
    return int(bool(different))


def progress(folder: Path) -> int:
    """Return how many blocks of texts are encoded and how many batches of questions are searched."""
    whole = any((folder / "cache").rglob("vectors.npy"))
    blocks = BLOCKS if whole else len(list((folder / "cache").rglob("block-*.npy")))
    journal = folder / "run/journal.jsonl"
    return blocks + (journal.read_bytes().count(b"\n") if journal.is_file() else 0)


def stage(folder: Path) -> str:
    """Return what a kill interrupted."""
    done = progress(folder)
    if (folder / "run/predictions.jsonl").exists() or done == ALL:
        return "writing"
    return "starting" if done == 0 else "encoding" if done < BLOCKS else "searching"


if __name__ == "__main__":
    sys.exit(main())
