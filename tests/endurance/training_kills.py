"""Kill trainings with SIGKILL at random moments, 10 times each, and compare with one that nothing disturbed.

    python -m tests.endurance.training_kills [--kills 10] [--methods dpr ance colbert qagnn] [--seed 0]

After every kill the same command goes on; the last one is left alone. Exits 1 if a byte of the weights differs.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.endurance.machines import ROOT, disk, results

HOW = {
    "dpr": [],
    "ance": ["--refresh=5"],
    "colbert": [],
    "qagnn": ["--candidates=4", "--graph-size=8", "--learning-rate=1e-3"],
}
EPOCHS = 60


def start(folder: Path, out: Path, method: str) -> "subprocess.Popen[bytes]":
    own = [f"--method={method}", "--base=encoder/model", f"--out={out}", f"--epochs={EPOCHS}", "--evaluations=20"]
    return subprocess.Popen(
        [sys.executable, "-m", "kbbench_hf.cli", "train", "things", *own, "--batch=4", "--length=16", *HOW[method]],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(folder / "cache")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def main() -> int:
    """Kill, go on, compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--methods", nargs="+", choices=HOW, default=[*HOW])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance, failed = random.Random(options.seed), 0
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = disk(Path(name) / "disk")
        for method in options.methods:
            began = time.monotonic()
            if start(folder, folder / method, method).wait():
                raise SystemExit(f"{method} cannot be trained")
            seconds, killed, states = time.monotonic() - began, 0, []
            out = folder / f"{method}-killed"
            while True:
                child = start(folder, out, method)
                if killed == options.kills:
                    child.wait()
                    break
                try:
                    child.wait(chance.uniform(0.2, 1) * seconds)
                    break
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
                    killed += 1
                    states.append(max([0, *(int(each.name.split("-")[-1]) for each in out.rglob("checkpoint-*"))]))
            same = results(folder / method) == results(out) != {}
            failed += not same
            print(f"{method}: killed {killed} times at checkpoints {states}: {'the same bytes' if same else 'DIFFERS'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
