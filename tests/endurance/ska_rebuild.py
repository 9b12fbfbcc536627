"""Build all of ska-open under other hash seeds, other Python versions and from shuffled input; compare content hashes.

    python tests/endurance/ska_rebuild.py <source> <python> [<python> ...]

The first interpreter builds from the source as it is; every one, that one included, then builds from a shuffled copy
under a hash seed of its own. The interpreters need kbbench_hf's dependencies in the same versions.
"""

import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from kbbench_hf.building.ska_bench.tekgen import FOLDER

ROOT = Path(__file__).resolve().parents[2]
BUILD = (
    "import sys; from pathlib import Path;"
    "from kbbench_hf.building.ska_bench import sources as makers;"
    "from kbbench_hf.building.ska_bench.dataset import build;"
    "from kbbench_hf.files.datasets import DatasetFolder;"
    "build('', makers.make_instances(Path(sys.argv[1])), Path(sys.argv[2]), None);"
    "print(DatasetFolder(Path(sys.argv[2])).revision)"
)


def shuffled(source: Path, out: Path, seed: int) -> Path:
    """Write the source with its lines, and the fields of each, in another order; what stands beside it as well."""
    order = random.Random(seed)
    beside = source.parent / FOLDER
    files = [(file, out / file.name) for file in sorted(source.iterdir())]
    files += [(file, out / FOLDER / file.relative_to(beside)) for file in sorted(beside.rglob("*.jsonl"))]
    for file, written in files:
        opened = gzip.open if file.suffix == ".gz" else open
        with opened(file, "rt", encoding="utf-8") as stream:
            lines = stream.read().splitlines()
        order.shuffle(lines)
        if ".jsonl" in file.name:
            records = [json.loads(line) for line in lines if line.strip()]
            lines = [json.dumps(dict(sorted(each.items(), key=lambda _: order.random()))) for each in records]
        written.parent.mkdir(parents=True, exist_ok=True)
        with opened(written, "wt", encoding="utf-8") as stream:
            stream.write("\n".join(lines) + "\n")
    return out


def revision(python: str, source: Path, out: Path, hash_seed: int) -> str:
    """Build in another process and return the content hash."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [python, "-c", BUILD, source, out],
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    return done.stdout.decode().strip()


def main(source: Path, pythons: list[str]) -> int:
    """Return 0 if all content hashes agree."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        found = {"as it is": revision(pythons[0], source, work / "first" / "ska-open", 0)}
        for seed, python in enumerate(pythons, start=1):
            copy = shuffled(source, work / f"source-{seed}", seed)
            found[f"{python}, shuffled"] = revision(python, copy, work / f"built-{seed}" / "ska-open", 1000 + seed)
    for name, each in found.items():
        print(each, name)
    return int(len(set(found.values())) > 1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
