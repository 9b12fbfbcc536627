"""Read a built SKA-Open and print everything that is wrong with it: python tests/endurance/ska_invariants.py FOLDER."""

import sys
from collections import Counter
from pathlib import Path

from kbbench_hf.files.datasets import DatasetFolder
from tests.unit.benchmarks.ska_bench.invariants import CHECKS, Subset


def main(folder: DatasetFolder) -> int:
    found: list[str] = []
    for config in folder.configs():
        if config.startswith("instances_"):
            subset = Subset(folder, config.removeprefix("instances_"))
            for check in CHECKS:
                before = len(subset.wrong)
                check(subset)
                print(f"{subset.name:11} {check.__name__:36} {len(subset.wrong) - before:6,} violations", flush=True)
            found += subset.wrong
    kinds = Counter(words.split(":")[0] for words in found)
    print("\n".join(found[:60]), f"{len(found):,} violations", kinds or "", sep="\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(DatasetFolder(Path(sys.argv[1]))))
