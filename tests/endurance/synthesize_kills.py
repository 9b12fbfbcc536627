"""SIGKILL `kbbench synthesize` with models many times, 30 % of requests faulty: the dataset is that of a smooth run.

The models are scripted: a writer, and three judges that read the record. The run that is killed has faults as well.

python -m tests.endurance.synthesize_kills [--kills 50] [--count 40] [--fault-rate 0.3]
"""

import argparse
import multiprocessing
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from kbbench_hf.cli import main as kbbench
from kbbench_hf.files.datasets import DatasetFolder
from tests.servers.scripted import ScriptedServer
from tests.servers.writers import answer

FAULTS = ("500", "503", "reset", "truncated json", "html", "choices empty")


def command(folder: Path, count: int, spec: Path) -> None:
    """Run the command as a user would, in a folder of its own."""
    os.chdir(folder)
    with Path(os.devnull).open("w", encoding="utf-8") as silent:
        sys.stdout = sys.stderr = silent
        sys.argv = ["kbbench", "synthesize", "mini-stark", "--count", str(count), "--spec", str(spec), "--out", "made"]
        kbbench()


def spec_of(url: str, place: Path) -> Path:
    """Write the spec whose models are all at one server."""
    place.mkdir()
    served: Any = {"model": "writer", "base_url": url}
    judges = [{"model": "truthful", "base_url": url} for _ in range(3)]
    models = {"extract": served, "fuse": served, "rewrite": served, "judges": judges}
    file = place / "spec.yaml"
    file.write_text(yaml.safe_dump({"max_hops": 2, "models": models}), encoding="utf-8")
    return file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--fault-rate", type=float, default=0.3)
    options = parser.parse_args()
    rng, processes = random.Random(0), multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as place:
        smooth, killed = Path(place) / "smooth", Path(place) / "killed"
        with ScriptedServer(answer=answer) as server:
            child = processes.Process(target=command, args=(smooth, options.count, spec_of(server.url, smooth)))
            child.start()
            child.join()
            n_requests = len(server.requests)
        kills = tries = 0
        with ScriptedServer(answer=answer, fault_rate=options.fault_rate, kinds=FAULTS) as server:
            spec = spec_of(server.url, killed)
            while tries < options.kills + 50:
                tries += 1
                goal = len(server.requests) + rng.randrange(1, 9 + n_requests // options.kills)
                server.hold_from = goal if kills < options.kills else None
                child = processes.Process(target=command, args=(killed, options.count, spec))
                child.start()
                while kills < options.kills and child.is_alive() and len(server.requests) < goal:
                    time.sleep(0.001)
                if kills < options.kills and child.is_alive():
                    time.sleep(rng.random() * 0.02)
                    child.kill()
                    kills += 1
                child.join()
                if child.exitcode == 0:
                    break
            n_faults, n_sent = sum(server.injected.values()), len(server.requests)
        one, other = (DatasetFolder(each / "kbbench" / "made") for each in (smooth, killed))
        n = sum(len(one.rows("queries", split)) for split in one.configs()["queries"])
        cards = [(each.path / "README.md").read_bytes() for each in (one, other)]
        same = one.revision == other.revision and cards[0] == cards[1]
        print(
            f"{n} questions, {n_requests:,} requests; {kills} kills, {n_faults:,} faults in {n_sent:,} requests: "
            f"{'the same dataset and card' if same else 'ANOTHER DATASET'}"
        )
        raise SystemExit(not same)


if __name__ == "__main__":
    main()
