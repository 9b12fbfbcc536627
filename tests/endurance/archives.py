"""Thousands of archives damaged at random: each is read or refused, and nothing is written beside its target.

python -m tests.endurance.archives [HOW MANY, 5000 by default]
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.unit.building.stark import stark_archive

BATCH = 500


def main(n: int) -> None:
    verdicts: Counter[str] = Counter()
    for start in range(0, n, BATCH):
        with tempfile.TemporaryDirectory() as place:
            files = []
            for seed in range(start, min(start + BATCH, n)):
                folder = Path(place) / str(seed)
                folder.mkdir()
                files.append(stark_archive.damaged(folder / "processed.zip", seed))
            for file, (verdict, why) in zip(files, stark_archive.read_all(files), strict=True):
                verdicts[verdict] += 1
                if verdict == "crashed":
                    print(file.parent.name, why)
                assert {path.name for path in file.parent.iterdir()} == {"processed.zip", "target"}
    print(dict(verdicts))
    assert not verdicts["crashed"]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000)
