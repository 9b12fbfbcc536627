"""Run the endurance scripts one after the other, or those that are named; exit with 1 if one fails.

    python -m tests.endurance [NAME ...]

Scripts of `BY_HAND` take arguments: run them as `python -m tests.endurance.NAME ARGUMENTS`.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).parent
DATA = Path(os.environ.get("KBBENCH_SHARED", FOLDER.parents[2] / "shared")).resolve() / "data"
ARGUMENTS = {
    "genres_minilm": [DATA / "genres"],
    "logical_forms": [DATA / "ska_open_v1"],
    "private_split": [DATA / "ska_open_v1"],
    "published_space": [DATA / "text2kgbench"],
    "ska_rebuild": [DATA / "ska_open_v1", sys.executable],
    "table_bound": [DATA / "ska_open_v1"],
}
"""Script -> its arguments."""
BY_HAND = {
    "mag_full_size": "needs a folder with 10 GB of free disk",
    "ska_invariants": "needs a built ska-open",
    "topical_similarity": "needs a table of the released scores",
    "training": "takes three hours on two cores",
}
"""Script -> why it is run by hand."""


def main(names: list[str]) -> int:
    """Run the scripts and print how each ended."""
    runnable = (each for each in sorted(FOLDER.glob("*.py")) if 'if __name__ == "__main__"' in each.read_text("utf-8"))
    scripts = [each.stem for each in runnable if each.stem not in {"__main__", *BY_HAND}]
    if unknown := {*names} - {*scripts}:
        print(f"no script {', '.join(sorted(unknown))}; known are {', '.join(scripts)}", file=sys.stderr)
        return 2
    failed = []
    for name in names or scripts:
        started = time.monotonic()
        command = [sys.executable, "-m", f"tests.endurance.{name}", *map(str, ARGUMENTS.get(name, []))]
        code = subprocess.run(command, cwd=FOLDER.parents[1], check=False).returncode
        failed += [name] * (code != 0)
        print(f"== {name}: exit status {code} after {time.monotonic() - started:.0f} s", flush=True)
    for name, reason in BY_HAND.items():
        print(f"== {name}: run by hand, {reason}")
    print(f"== failed: {', '.join(failed) or 'none'}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
