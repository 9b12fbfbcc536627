"""Scores of a finished run in an experiment tracker: trackio or Weights & Biases (wandb).

`run` uses it with `log_to`. Project, run and metric names stay: a repeated command adds to the same run.
"""

import hashlib
import json
import math
import re
import sys
import warnings
from contextlib import redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.files.datasets import read_json
from kbbench_hf.runners.progress import say
from kbbench_hf.scoring.eval_task import RUN
from kbbench_hf.scoring.result import Result

TRACKERS: dict[str, dict[str, Any]] = {"trackio": {"embed": False}, "wandb": {}}
"""Package of a tracker -> further arguments of its `init`."""


def check_tracker(name: str | None) -> None:
    """Check, before a run, that a tracker exists and is installed.

    Raises:
        UsageError: it is not.
    """
    if name is None:
        return
    if name not in TRACKERS:
        raise unknown_name("tracker", name, TRACKERS)
    spec = find_spec(name)
    if spec is None or spec.origin is None:  # without an origin it is a folder ./wandb of earlier runs
        raise UsageError(f"--log-to {name} needs the package {name}; it is not installed. Type: pip install {name}")


def log_result(tracker: str, result: Result, folder: Path) -> None:
    """Write scores, intervals and settings of a run to a tracker; print where, or a warning if the tracker fails.

    The project is `kbbench-DATASET`. The same run has the same name and id there, so that repeating its command adds a
    step to it. Each score has its interval in `METRIC_low` and `METRIC_high`.
    """
    settings = read_json(folder / RUN)["settings"]
    run_id = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]
    about = {
        "run_id": run_id,
        "mode": result.mode,
        "n_examples": len(result.ids),
        "folder": folder.resolve().as_uri(),
        "warnings": [str(each) for each in result.warnings],
    }
    more = {"id": run_id} if tracker == "wandb" else {}
    try:
        # standard output is for the result, such as that of --json; trackio turns its errors into warnings
        with redirect_stdout(sys.stderr), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            module = import_module(tracker)
            tracked = module.init(
                project=f"kbbench-{result.benchmark}",
                name=f"{result.config}-{settings.get('model', 'model')}-{run_id}",
                config={**settings, **about},
                resume="allow",
                **TRACKERS[tracker],
                **more,
            )
            tracked.log(tracked_values(result))
            link = getattr(tracked, "url", None)
            module.finish()  # of the run only, trackio would finish it again at exit, on standard output
        if failed := [
            str(each.message) for each in caught if re.search("fail|could not|buffered", str(each.message), re.I)
        ]:
            raise OSError(failed[0])
    except Exception as error:  # a tracker, its server or its account: the run is complete without it
        why = f"{type(error).__name__}: {error}"
        say(
            [f"! The scores were not logged to {tracker}: {why}. They are in {folder}. Repeat the command to log them."]
        )
        return
    say([f"Logged to {tracker}, project kbbench-{result.benchmark}{f': {link}' if link else ''}"])


def tracked_values(result: Result) -> dict[str, float]:
    """Return the scores with the ends of their intervals, without those that are NaN.

    >>> from kbbench_hf.scoring.score import score
    >>> values = tracked_values(score("published:copy", "mini-text2kg"))
    >>> [name for name in values if name.startswith("f1") and "all" not in name]
    ['f1', 'f1_low', 'f1_high', 'f1_n']
    """
    values: dict[str, float] = {}
    for metric, each in result.scores.items():
        low, high = each.ci95
        values |= {metric: each.value, f"{metric}_low": low, f"{metric}_high": high, f"{metric}_n": each.n_scored}
    return {name: float(value) for name, value in values.items() if math.isfinite(value)}
