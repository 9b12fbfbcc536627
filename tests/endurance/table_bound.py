"""How many table questions any choice could have: the most that keep every quota, but for the lengths of rows.

The card of ska-open says so beside what the construction chooses, which keeps the cue of lengths as well, and
takes few of one table or answer. Half a minute.

    python -m tests.endurance.table_bound ../shared/data/ska_open_v1
"""

import sys
from pathlib import Path

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from kbbench_hf.building.ska_bench import tatqa, wikitablequestions
from kbbench_hf.building.ska_bench.table import NEWER_QUOTAS, make_candidates, select_candidates


def main(source: Path) -> None:
    """Print the numbers, those of `demo` among them."""
    settled = [
        each for read in (wikitablequestions.read_tables, tatqa.read_tables) for each in make_candidates(read(source))
    ]
    over = np.array([[quota.counts(each) - quota.share for each in settled] for quota in NEWER_QUOTAS.values()])
    best = milp(
        -np.ones(len(settled)), integrality=np.ones(len(settled)), bounds=Bounds(0, 1),
        constraints=LinearConstraint(over, -np.inf, 0), options={"time_limit": 120},
    )  # fmt: skip
    print(
        f"settled {len(settled):,}, at most {-best.fun:.0f} in any choice, chosen {len(select_candidates(settled)):,}"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
