"""Score what is stored again, and say whether every figure came out the same to the last bit."""

import json
from typing import Literal, NamedTuple

from kbbench_hf.errors import KBBenchError
from kbbench_hf.leaderboard.store import Store
from kbbench_hf.scoring.eval_task import load_examples
from kbbench_hf.scoring.predictions import ReadOptions, read_predictions
from kbbench_hf.scoring.score import annotated, score_predictions


class Rescored(NamedTuple):
    """What scoring a submission again came to, and in words where it was not the same."""

    submission: str
    outcome: Literal["identical", "different", "other data", "figures only", "not possible"]
    detail: str = ""


def rescore(store: Store, submission: str) -> Rescored:
    """Score one stored submission again and compare all of its figures, slices, counters and per-example scores."""
    record, stored = store.record(submission), store.result(submission)
    if not store.has_predictions(submission):
        return Rescored(submission, "figures only", "its source states no licence, so its predictions are not kept")
    try:
        task = load_examples(record.benchmark, record.config, record.split, record.mode)
        if (here := task.revision) != (there := record.dataset_revision):
            return Rescored(submission, "other data", f"stored on {there[:12]}, here is {here[:12]}")
        read = read_predictions([store.predictions_file(submission)], task.benchmark, task.examples, ReadOptions())
        result = score_predictions(annotated(task, store.annotations(submission)), read)
    except KBBenchError as error:
        return Rescored(submission, "not possible", str(error).splitlines()[0])
    again = json.loads(json.dumps(result.to_dict()))
    for part in ("scores", "slices", "predictions_sha256"):
        if again[part] != stored[part]:
            return Rescored(submission, "different", f"{part} differ")
    counted = stored["counters"].items()  # those that were counted then: others may have been added since
    if other := [f"{name} {value}, now {again['counters'].get(name)}" for name, value in counted
                 if again["counters"].get(name) != value]:  # fmt: skip
        return Rescored(submission, "different", f"counters differ: {', '.join(other)}")
    if list(result.example_lines()) != store.score_lines(submission):
        return Rescored(submission, "different", "scores of single examples differ")
    return Rescored(submission, "identical")
