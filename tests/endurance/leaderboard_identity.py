"""Every attack on identity, on several seeds, and a board of honest rows; prints what is not as it must be, exits 1.

python -m tests.endurance.leaderboard_identity [--honest 1000] [--seeds 3]
"""

import argparse
import sys
import tempfile
from pathlib import Path

from kbbench_hf.leaderboard.store import Store
from tests.servers.identities import attacks, flagged, honest


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--honest", type=int, default=1_000)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    broken = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for seed in range(options.seeds):
            made = list(attacks(seed))
            for number, attack in enumerate(made):
                found = flagged(Store(folder / f"{seed}-{number}"), attack.sent, folder)
                if set(found) != attack.flagged:
                    broken.append(f"{attack.what} (seed {seed}): {found}")
            print(f"seed {seed}: {len(made)} attacks", flush=True)
        sent = list(honest(options.honest))
        blamed = flagged(Store(folder / "honest"), sent, folder)
        print(f"{len(blamed)} of {len(sent):,} honest rows flagged")
        broken += [f"{sent[number].name} by {sent[number].who}: {codes}" for number, codes in blamed.items()]
    sys.exit("\n".join(broken) if broken else 0)


if __name__ == "__main__":
    main()
