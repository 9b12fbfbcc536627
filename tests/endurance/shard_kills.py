"""SIGKILL the processes of a run in shards, and start one shard twice: the same files as one process, nothing lost.

python -m tests.endurance.shard_kills [--shards 8] [--kills 5] [--rounds 10] [--repeats 20]
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.servers.sharding import CONCURRENCY, kill_shards


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("shards", 8), ("kills", 5), ("rounds", 10), ("repeats", 20)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    failed = 0
    for seed in range(options.rounds):
        with tempfile.TemporaryDirectory() as place:
            found = kill_shards(Path(place), options.shards, options.kills, 0.1, seed, repeats=options.repeats)
        allowed = found.kills * CONCURRENCY
        good = found.kills == options.kills and found.refused and found.twice <= allowed and all(found.results)
        failed += not good
        print(f"seed {seed}: {found} (sent twice allowed: {allowed}) {'ok' if good else 'FAILED'}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
