"""What the Hub and Every Eval Ever get of a result: valid in their formats, and of one mind."""

import json
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator

from kbbench_hf.benchmarks import benchmark, shipped_answers
from kbbench_hf.errors import UsageError
from kbbench_hf.reports.exports import eval_record, eval_results_yaml, eval_yaml
from kbbench_hf.scoring.eval_task import load_examples
from kbbench_hf.scoring.result import write_result
from kbbench_hf.scoring.score import score

SCHEMA = json.loads((Path(__file__).parents[2] / "golden" / "every_eval_ever.schema.json").read_text(encoding="utf-8"))
DAY = datetime(2026, 1, 2, tzinfo=UTC)
RUN = {"settings": {"model": "org/m", "temperature": 0.0, "max_tokens": 512}, "started": "2026-01-01T00:00:00+00:00"}


@pytest.mark.parametrize("name", ["mini-text2kg", "mini-stark", "mini-ska", "mini-genres"])
def test_a_record_is_valid_and_has_every_scored_figure_between_0_and_1(name: str, tmp_path: Path) -> None:
    few = [{"id": row["id"], "ids": [0, 1]} for row in load_examples("mini-stark").examples.rows]
    result = score((shipped_answers(name) or [few])[0], name)
    write_result(result, tmp_path)
    record = eval_record(result.to_dict(), RUN, DAY, "us", "third_party", tmp_path / "scores.jsonl")
    assert list(Draft7Validator(SCHEMA).iter_errors(record)) == []
    entries = record["evaluation_results"]
    given = {each["evaluation_name"].partition(".")[2]: each["score_details"]["score"] for each in entries}
    unbounded = benchmark(name).scoring.unbounded
    assert given == {m: f.value for m, f in result.scores.items() if isfinite(f.value) and m not in unbounded}
    assert record["detailed_evaluation_results"]["total_rows"] == len(result.ids)


def test_warnings_go_with_every_figure_of_the_record() -> None:
    rows = [{"id": row["id"], "ids": [0]} for row in load_examples("mini-stark").examples.rows[:50]]
    record = eval_record(score(rows, "mini-stark").to_dict(), {}, DAY, "us", "other")
    details = [each["score_details"]["details"] for each in record["evaluation_results"]]
    assert details and all("49 of 99" in each["warning:missing"] for each in details)


def test_a_record_names_who_walked_after_the_search_and_what_it_walked_after() -> None:
    rows = [{"id": row["id"], "ids": [0]} for row in load_examples("mini-stark").examples.rows]
    walked = {"settings": {"model": "bm25", "agent": "org/m"}}
    record = eval_record(score(rows, "mini-stark").to_dict(), walked, DAY, "us", "other")
    assert (record["model_info"]["name"], record["model_info"]["id"]) == ("agent org/m over bm25", "org/m")


def test_a_result_without_figures_is_refused() -> None:
    result = score(shipped_answers("mini-text2kg")[0], "mini-text2kg").to_dict()
    result["scores"] = {}
    with pytest.raises(UsageError, match="no scored metric"):
        eval_record(result, {}, DAY, "us", "other")


@pytest.mark.parametrize("config", ["order_kg_prefix", "rejection_kg", "rejection_control_kg", "noise_kg_1k"])
def test_results_and_benchmark_agree_on_the_hub(config: str) -> None:
    """A result of the Hub names a task that `eval.yaml` lists for its dataset."""
    place = f"mini-ska/{config}"
    rows = [{"id": row["id"], "answers": ["no"]} for row in load_examples(place).examples.rows]
    entries = yaml.safe_load(eval_results_yaml(score(rows, place).to_dict(), "2026-01-02"))
    tasks = {task["id"] for task in yaml.safe_load(eval_yaml("mini-ska"))["tasks"]}
    named = {entry["dataset"]["task_id"] for entry in entries}
    assert named and named <= tasks
