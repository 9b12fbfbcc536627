"""Every attack on identity, on several seeds, and a board of honest rows; says what is not as it must be, exits 1.

python -m tests.endurance.leaderboard_identity [--honest 1000] [--seeds 3]
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from kbbench_hf.leaderboard.store import Store
from tests.servers.identities import Sent, attacks, flagged, honest

STARTED = time.monotonic()


def say(words: str) -> None:
    """Print a line with the time that went by."""
    print(f"{time.monotonic() - STARTED:6.1f} s  {words}", flush=True)


def counted(sent: Iterable[Sent]) -> Iterator[Sent]:
    """Yield submissions as they are stored, and say how many there were."""
    for number, each in enumerate(sent):
        yield each
        if number % 100 == 99:
            say(f"{number + 1:,} rows stored")


def main() -> None:
    """Run everything; who is flagged does not depend on when the disk has it, so disk syncs are left out."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--honest", type=int, default=1_000)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    broken: list[str] = []
    os.fsync = lambda handle: None  # type: ignore[assignment]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for seed in range(options.seeds):
            made = list(attacks(seed))
            for number, attack in enumerate(made):
                found = flagged(Store(folder / f"{seed}-{number}"), attack.sent, folder)
                if set(found) != attack.flagged:
                    broken.append(f"{attack.what} (seed {seed}): {found}")
                    say(f"WRONG {broken[-1]}")
            say(f"seed {seed}: {len(made)} attacks, {len(broken)} not as they must be so far")
        sent = list(honest(options.honest))
        blamed = flagged(Store(folder / "honest"), counted(sent), folder)
        say(f"{len(blamed)} of {len(sent):,} honest rows flagged")
        broken += [f"{sent[number].name} by {sent[number].who}: {codes}" for number, codes in blamed.items()]
    sys.exit("\n".join(broken) if broken else 0)


if __name__ == "__main__":
    main()
