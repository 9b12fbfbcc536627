"""`kbbench status` is right at every moment of runs with kills and pauses, and quick at 10,000 examples.

python -m tests.endurance.run_status [--shards 4] [--rounds 5] [--seconds 30] [--repeats 20]
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kbbench_hf.files.journal import Journal
from kbbench_hf.runners.jobs import FIELDS
from tests.servers.status_checks import check_status

MOST_S = 0.5
N = 10_000


def seconds_of_command(folder: Path) -> float:
    """Return how much processor time the command takes for a run with as many responses of 1.5 kB."""
    folder.mkdir()
    (folder / "run.json").write_text(f'{{"settings": {{"n_examples": {N}, "repeats": 1}}}}')
    text = '{"triples": [["Petrel", "captain", "Ines Calder"]]}\n' * 30
    numbers = {"prompt_tokens": 500, "completion_tokens": 100, "latency_s": 1.5, "attempts": 1, "at": 1.0}
    with Journal(folder) as journal:
        for n in range(N):
            record = {"key": f"{n:064x}", "id": f"q{n}", "repeat": 0, "response": text, **numbers}
            journal.append({**dict.fromkeys(FIELDS), **record})
    times, used = [], []
    for _ in range(5):
        started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "kbbench_hf.cli", "status", str(folder)]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        times.append(time.perf_counter() - started)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        if f"{N:,} of {N:,} done" not in printed:
            raise RuntimeError(printed)
    for name, seconds in (("wall", times), ("processor", used)):
        print(f"seconds of the command, {name}:", *(f"{each:.2f}" for each in seconds), flush=True)
    return min(used)  # the wall time is also that of other processes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("shards", 4), ("rounds", 5), ("seconds", 30), ("repeats", 20)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        failed = seconds_of_command(Path(place) / "run") > MOST_S
    for seed in range(options.rounds):
        with tempfile.TemporaryDirectory() as place:
            found = check_status(Path(place), options.shards, options.seconds, seed, repeats=options.repeats)
        failed |= bool(found.wrong)
        print(f"seed {seed}: {found}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
