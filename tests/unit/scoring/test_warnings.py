"""What weakens a figure stands beside it: in the result, in its JSON, and in every comparison."""

import json
from pathlib import Path

import pytest

from kbbench_hf.benchmarks import benchmark, shipped_answers
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import UsageError
from kbbench_hf.scoring.comparison import compare
from kbbench_hf.scoring.eval_task import load_examples
from kbbench_hf.scoring.predictions import ReadOptions
from kbbench_hf.scoring.score import score

_, PATTERN = shipped_answers("mini-text2kg")


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    return [json.loads(line) for line in PATTERN.read_text(encoding="utf-8").splitlines()]


def codes(found) -> list[str]:
    return [warning.code for warning in found.warnings if warning.severity == "warning"]


def run_folder(folder: Path, rows: list[dict], **settings: object) -> Path:
    asked = load_examples(str(settings.get("benchmark", "mini-text2kg")))
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"settings": {**asked.settings(), **settings}}))
    (folder / "predictions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_a_whole_file_carries_no_warning(rows) -> None:
    assert codes(score(rows, "mini-text2kg")) == []


def test_missing_answers_are_a_warning_with_what_they_cost(rows) -> None:
    half = score(rows[:24], "mini-text2kg")
    (warning,) = half.warnings
    assert (warning.code, warning.n_examples) == ("missing", 24)
    assert warning.effect["f1"] == pytest.approx(half.scores["f1"].value, abs=0.3)  # the half it has is as good again
    assert half.to_dict()["warnings"] == [warning.to_dict()]
    assert ScoreWarning.of(json.loads(json.dumps(warning.to_dict()))) == warning


def test_unread_responses_are_a_warning(rows) -> None:
    spoiled = [{"id": row["id"], "response": "I would rather not."} for row in rows[:5]] + rows[5:]
    assert codes(score(spoiled, "mini-text2kg")) == ["parse_failures"]


def test_a_doubled_id_is_a_warning_where_the_last_counts(rows) -> None:
    found = score([*rows, rows[0]], "mini-text2kg", options=ReadOptions(duplicates="last"))
    assert codes(found) == ["duplicates"]


def test_a_comparison_carries_the_warnings_of_both_and_the_difference_without_the_gaps(rows) -> None:
    found = compare(rows, rows[:24], "mini-text2kg")
    joint, of_b = found.warnings
    assert found.tests["f1"].p_value < 0.01
    assert (joint.code, joint.system, joint.effect) == ("missing", "", {"f1": 0.0})  # the same answers
    assert (of_b.code, of_b.system) == ("missing", "B")
    assert [each["code"] for each in found.to_dict()["warnings"]] == ["missing", "missing"]


def test_answers_that_stand_under_other_ids_are_a_warning_of_their_comparison(rows) -> None:
    answers = [row["triples"] for row in rows]
    moved = [{**row, "triples": each} for row, each in zip(rows, [*answers[1:], answers[0]], strict=True)]
    (warning,) = compare(rows, moved, "mini-text2kg").warnings
    assert warning.code == "moved_answers" and warning.n_examples > len(rows) / 2
    assert codes(compare(rows, rows, "mini-text2kg")) == []


def test_the_limit_of_a_run_is_a_warning_and_two_limits_are_not_compared(rows, tmp_path: Path) -> None:
    limited = run_folder(tmp_path / "limited", rows[:10], n_examples=10)
    assert codes(score(limited)) == ["limit"]
    whole = run_folder(tmp_path / "whole", rows, n_examples=48)
    with pytest.raises(UsageError, match="48 and 10") as refused:
        compare(whole, limited, "mini-text2kg")
    assert refused.value.code == "limit"


def test_runs_on_different_data_are_not_compared(rows, tmp_path: Path) -> None:
    here = run_folder(tmp_path / "here", rows)
    there = run_folder(tmp_path / "there", rows, dataset_revision="0" * 40)
    assert codes(score(there)) == ["revision"]
    for pair in ((here, there), (there, here)):
        with pytest.raises(UsageError, match="different revisions") as refused:
            compare(*pair, "mini-text2kg")
        assert refused.value.code == "revision"


def test_answers_made_elsewhere_are_said_and_not_compared(tmp_path: Path) -> None:
    first, second, *_ = benchmark("mini-ska").data.configs
    rows = [{"id": row["id"], "answers": ["x"]} for row in load_examples("mini-ska", first).examples.rows]
    folder = run_folder(tmp_path / "run", rows, benchmark="mini-ska", config=second)
    assert codes(score(folder, f"mini-ska/{first}")) == ["place"]
    with pytest.raises(UsageError, match=second) as refused:
        compare(folder, rows, f"mini-ska/{first}")
    assert refused.value.code == "place"


def test_a_file_is_scored_where_the_run_beside_it_was(rows, tmp_path: Path) -> None:
    assert compare(run_folder(tmp_path / "run", rows), PATTERN).tests["f1"].difference == 0
    assert compare(PATTERN, tmp_path / "run").tests["f1"].difference == 0


def test_what_a_run_warns_of_itself_travels_with_its_result(rows, tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", rows)
    said = ScoreWarning("two_servers", "Answers came from two servers.", "Use --one-server.", 7)
    run = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**run, "warnings": [said.to_dict()]}))
    assert score(folder).warnings == [said]
