"""What the Hub gets of a result: valid in its formats, and of one mind."""

import pytest
import yaml

from kbbench_hf.reports.exports import eval_results_yaml, eval_yaml
from kbbench_hf.scoring.eval_task import load_examples
from kbbench_hf.scoring.score import score


@pytest.mark.parametrize("config", ["order_kg_prefix", "rejection_kg", "rejection_control_kg", "noise_kg_1k"])
def test_results_and_benchmark_agree_on_the_hub(config: str) -> None:
    """A result of the Hub names a task that `eval.yaml` lists for its dataset."""
    place = f"mini-ska/{config}"
    rows = [{"id": row["id"], "answers": ["no"]} for row in load_examples(place).examples.rows]
    entries = yaml.safe_load(eval_results_yaml(score(rows, place).to_dict(), "2026-01-02"))
    tasks = {task["id"] for task in yaml.safe_load(eval_yaml("mini-ska"))["tasks"]}
    named = {entry["dataset"]["task_id"] for entry in entries}
    assert named and named <= tasks
