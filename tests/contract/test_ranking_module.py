"""The `evaluate` module: the same figures as the functions, whatever form the lists come in."""

import math
from pathlib import Path

import evaluate
import numpy as np
import pytest


@pytest.fixture(scope="module")
def ranking():
    return evaluate.load(str(Path(__file__).parents[2] / "metrics" / "ranking"))


def test_a_missed_answer_is_zero_by_default(ranking):
    results = ranking.compute(predictions=[["a", "b", "c"], ["x", "y"]], references=[["b"], ["z"]], ks=(1, 2))
    assert (results["mrr"], results["hit_at_1"], results["hit_at_2"]) == (0.25, 0.0, 0.5)  # 1/2 + 0 over 2 queries
    assert all(type(results[name]) is float for name in results if not name.startswith("n_"))


def test_scored_entries_are_ranked_by_score_and_then_by_id(ranking):
    entries = [{"id": 10, "score": 1.0}, {"id": 9, "score": 1.0}, {"id": 4, "score": 2.0}]
    results = ranking.compute(predictions=[entries], references=[[10]], ks=(2, 3))
    assert (results["hit_at_2"], results["hit_at_3"], results["n_gold_in_ties"]) == (0.0, 1.0, 1)


@pytest.mark.parametrize("first", [["7"], [{"id": "7", "score": 0.5}]])
def test_an_empty_ranking_may_come_first(ranking, first):
    assert ranking.compute(predictions=[[], first], references=[["7"], ["7"]], ks=(1,))["mrr"] == 0.5


def test_arrays_are_lists_too(ranking):
    results = ranking.compute(predictions=[np.array([2, 7])], references=[np.array([7])], ks=(1,))
    assert results["mrr"] == 0.5


def test_a_value_that_a_cut_off_ranking_leaves_open_is_nan_and_counted(ranking):
    results = ranking.compute(predictions=[[1, 2], [3]], references=[[2], [9]], n_candidates=50, ks=(1, 5))
    assert math.isnan(results["mrr"]) and math.isnan(results["hit_at_5"])
    assert results["hit_at_1"] == 0.0 and results["n_not_determined"] == 1
    zero = ranking.compute(predictions=[[1, 2], [3]], references=[[2], [9]], n_candidates=50, missing="zero")
    assert zero["mrr"] == 0.25


def test_standard_mode_counts_what_was_not_retrieved_as_zero(ranking):
    results = ranking.compute(predictions=[[3]], references=[[9]], n_candidates=50, mode="standard")
    assert results["mrr"] == 0.0


def test_intervals_come_on_request(ranking):
    results = ranking.compute(predictions=[[1], [2]], references=[[1], [1]], ks=(1,), return_ci=True)
    assert results["hit_at_1_ci95_low"] < results["hit_at_1"] < results["hit_at_1_ci95_high"]


def test_adding_in_batches_gives_the_same(ranking):
    ranking.add_batch(predictions=[[1, 2]], references=[[2]])
    ranking.add(prediction=[4, 5], reference=[4])
    assert ranking.compute(ks=(1,))["mrr"] == 0.75  # (1/2 + 1) / 2
