"""From predictions to a result: aligned, aggregated, compared."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kbbench_hf.benchmarks import shipped_answers, shipped_dataset
from kbbench_hf.errors import UsageError
from kbbench_hf.scoring.comparison import compare
from kbbench_hf.scoring.eval_task import load_examples, resolve_task
from kbbench_hf.scoring.predictions import PredictionsError
from kbbench_hf.scoring.result import UsedPrompt, write_result
from kbbench_hf.scoring.score import score


@pytest.fixture(scope="module")
def pattern():
    return score(shipped_dataset("mini-text2kg").path / "predictions" / "pattern.jsonl", "mini-text2kg")


def test_a_result_is_plain_json_at_full_precision_and_says_what_it_is_of(pattern, tmp_path: Path) -> None:
    write_result(pattern, tmp_path)
    stored = json.loads((tmp_path / "result.json").read_text())
    assert stored["scores"]["f1"]["value"] == pattern.scores["f1"].value
    assert {"benchmark", "config", "split", "mode", "dataset_revision", "slices", "counters", "versions"} <= set(stored)
    lines = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == pattern.ids
    assert np.mean([line["f1"] for line in lines]) == pytest.approx(pattern.scores["f1"].value)


def test_results_are_equal_by_their_scores_and_name_what_they_are_of(pattern) -> None:
    file = shipped_dataset("mini-text2kg").path / "predictions" / "pattern.jsonl"
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    again, fewer = score(file, "mini-text2kg"), score(rows[:-2], "mini-text2kg")
    assert again == replace(pattern, versions={}) and hash(again) == hash(pattern) and len({again, pattern, fewer}) == 2
    assert pattern != fewer and pattern != "pattern"
    assert repr(pattern).startswith("<Result mini-text2kg/sentences/test/reference: f1 ")
    f1 = pattern.scores["f1"]
    assert f"f1 {f1.value:.4f} [{f1.ci95[0]:.3f}, {f1.ci95[1]:.3f}]" in repr(pattern)
    assert repr(pattern).endswith(", 48 examples>") and repr(fewer).endswith(", 48 examples, 2 missing>")
    shown = pattern.to_pandas()
    assert list(shown["id"]) == pattern.ids and shown["f1"].tolist() == pattern.values["f1"].tolist()


def test_slices_share_out_all_examples(pattern) -> None:
    for keys in pattern.slices.values():
        assert sum(figures["f1"].n_scored + figures["f1"].n_unscored for figures in keys.values()) == len(pattern.ids)


def test_scoring_again_gives_the_same_bits(pattern) -> None:
    again = score(shipped_dataset("mini-text2kg").path / "predictions" / "pattern.jsonl", "kbbench/mini-text2kg")
    assert again.to_dict() == pattern.to_dict()


def test_a_missing_prediction_counts_as_worst_and_is_reported() -> None:
    examples = load_examples("mini-text2kg").examples
    row = examples.rows[0]
    gold = {"id": row["id"], "triples": [[t["sub"], t["rel"].replace(" ", "_"), t["obj"]] for t in row["triples"]]}
    result = score([gold], "mini-text2kg")
    assert result.scores["f1"].value == pytest.approx(1 / len(examples.rows))
    assert result.scores["f1"].n_missing == result.counters["n_missing"] == len(examples.rows) - 1


def test_comparing_needs_the_same_examples(pattern) -> None:
    other = score(shipped_answers("mini-text2kg")[0], "mini-text2kg", mode="repaired")
    with pytest.raises(UsageError, match="differ in mode: 'reference' and 'repaired'"):
        compare(pattern, other)


def test_a_comparison_has_every_metric_and_slice(pattern) -> None:
    other = score(shipped_answers("mini-text2kg")[0], "mini-text2kg")
    found = compare(pattern, other)
    assert found.tests["f1"].difference == pytest.approx(pattern.scores["f1"].value - other.scores["f1"].value)
    assert set(found.to_dict()["slices"]) == set(pattern.slices)
    assert json.loads(json.dumps(found.to_dict()))["tests"]["f1"]["wins"] == found.tests["f1"].wins


def test_open_values_are_compared_at_the_least_they_can_be() -> None:
    examples = load_examples("mini-stark").examples
    first = [{"id": row["id"], "ids": row["answer_ids"][:1]} for row in examples.rows]
    wrong = [
        {"id": row["id"], "ids": [next(n for n in range(281) if n not in row["answer_ids"])]} for row in examples.rows
    ]
    a, b = score(first, "mini-stark"), score(wrong, "mini-stark")
    assert math.isnan(b.values["mrr"][0])
    test = compare(a, b).tests["mrr"]
    assert test.wins == len(examples.rows)
    assert test.difference == pytest.approx(a.scores["mrr"].value - b.scores["mrr"].value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "tset"}, "Unknown split of mini-text2kg 'tset'. Did you mean 'test'"),
        ({"config": "prompts"}, "Unknown config"),
        ({"mode": "papper"}, "Unknown mode .* Did you mean 'paper'"),
    ],
)
def test_unknown_names_are_refused_with_the_closest(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        score([], "mini-text2kg", **options)


def test_an_unknown_benchmark_is_refused_with_the_closest() -> None:
    with pytest.raises(UsageError, match="Did you mean 'mini-text2kg'"):
        score([], "mini-text2k")


def test_predictions_may_be_objects_files_or_folders(pattern) -> None:
    file = shipped_dataset("mini-text2kg").path / "predictions" / "pattern.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert score(rows, "mini-text2kg").predictions_sha256 == pattern.predictions_sha256
    assert score([str(file)], "mini-text2kg").predictions_sha256 == pattern.predictions_sha256
    with pytest.raises(PredictionsError, match="already"):
        score(file.parent, "mini-text2kg")


AGENT = {"contract_sha256": "1", "protocol": "tools", "max_steps": 12, "calls_a_step": 8}
CLEAN = {"wording": "clean", "prompt": "x"}


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ({"prompt": "clean", "prompt_sha256": "1"}, {"prompt": "clean", "prompt_sha256": "2"}, True),
        ({"prompt": "clean", "prompt_sha256": "1"}, {"prompt": "clean-1", "prompt_sha256": "1"}, False),
        (AGENT, {**AGENT, "contract_sha256": "2"}, True),
        (AGENT, {**AGENT, "contract_sha256": "2", "max_steps": 6}, False),
        (AGENT, CLEAN, False),
        (CLEAN, {**CLEAN, "prompt_sha256": "1"}, True),
        (CLEAN, {"wording": "clean-1", "prompt_sha256": "1"}, False),
        ({"wording": "reference"}, {"wording": "reference", "prompt_sha256": "1"}, False),
    ],
)
def test_prompts_differ_by_their_words_within_one_kind(one: Any, other: Any, differ: bool) -> None:
    used = [UsedPrompt.of_run(each) for each in (one, other)]
    assert used[0] and used[1] and used[0].differs(used[1]) is used[1].differs(used[0]) is differ


def test_a_retriever_has_no_prompt() -> None:
    assert UsedPrompt.of_run({"model": "bm25"}) is UsedPrompt.of_run({}) is None


def test_a_run_is_scored_on_its_own_examples_and_in_another_mode_on_request(tmp_path: Path) -> None:
    settings = {"benchmark": "mini-text2kg", "config": "sentences", "split": "test", "n_examples": 4}
    (tmp_path / "run.json").write_text(json.dumps({"settings": settings}), encoding="utf-8")
    own, named = resolve_task([tmp_path]), resolve_task([tmp_path], "mini-text2kg", mode="repaired")
    assert [len(each.examples.rows) for each in (own, named)] == [4, 4]
    assert [each.task_key.mode for each in (own, named)] == ["reference", "repaired"]
    assert len(resolve_task([tmp_path], "mini-ska").examples.rows) > 4


def test_scores_that_are_means_over_groups_are_compared_as_means_over_groups() -> None:
    copy, pattern = shipped_answers("mini-text2kg")
    groups = {"ontology": ["a"] * 6 + ["b"] * 42}
    a, b = (replace(score(each, "mini-text2kg"), example_slices=groups) for each in (pattern, copy))
    gains = a.compared["f1"] - b.compared["f1"]
    assert compare(a, b).tests["f1"].difference == pytest.approx((gains[:6].mean() + gains[6:].mean()) / 2)
