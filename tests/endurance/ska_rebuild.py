"""Build all of ska-open under other hash seeds, other Python versions and from shuffled input; compare content hashes.

    python tests/endurance/ska_rebuild.py <instances> <python> [<python> ...]

The first interpreter builds from the source as it is; every one, that one included, then builds from a shuffled copy
under a hash seed of its own. The interpreters need kbbench_hf's dependencies in the same versions.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = (
    "import sys; from pathlib import Path;"
    "from kbbench_hf.benchmarks.ska_bench.construction.datasets import build_open;"
    "from kbbench_hf.files.datasets import DatasetFolder;"
    "build_open(Path(sys.argv[1]), Path(sys.argv[2])); print(DatasetFolder(Path(sys.argv[2])).revision)"
)


def shuffled(source: Path, out: Path, seed: int) -> Path:
    """Write the source with its lines, their fields and their units in another order, into other files."""
    order = random.Random(seed)
    out.mkdir()
    for number, file in enumerate(sorted(source.glob("*.jsonl"))):
        records = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        order.shuffle(records)
        for record in records:
            order.shuffle(record.get("sk_units", []))
            order.shuffle(record.get("text_units", []))
        records = [dict(sorted(record.items(), key=lambda item: order.random())) for record in records]
        lines = [json.dumps(record, ensure_ascii=order.random() < 0.5) for record in records]
        (out / f"{order.randrange(100):02}-{number}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
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
