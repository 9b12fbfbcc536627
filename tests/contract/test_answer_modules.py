"""The `evaluate` modules of SKA-Bench: the same figures as the functions, from lists or from model texts."""

import doctest
import math
from pathlib import Path
from typing import Any

import evaluate
import pytest

METRICS = Path(__file__).parents[2] / "metrics"


@pytest.fixture(scope="module")
def answer_f1() -> Any:
    return evaluate.load(str(METRICS / "answer_f1"))


@pytest.fixture(scope="module")
def rejection_rate() -> Any:
    return evaluate.load(str(METRICS / "rejection_rate"))


@pytest.mark.parametrize("mode", ["exact", "squad", "wtq", "rog"])
def test_gold_scores_one_and_empty_lists_zero(answer_f1: Any, mode: str) -> None:
    gold = [["Oslo", "Bergen"], ["12,467"]]
    assert answer_f1.compute(predictions=gold, references=gold, mode=mode)["answer_f1"] == 1
    results = answer_f1.compute(predictions=[[], []], references=gold, mode=mode)
    assert results["answer_f1"] == 0 and results["n_empty"] == 2


def test_texts_are_read_and_those_without_an_answer_are_counted(answer_f1: Any) -> None:
    texts = ['<think>{"answer": ["x"]}</think>{"answer": ["Oslo"]}', "Sure, here they are:"]
    results = answer_f1.compute(predictions=texts, references=[["oslo"], ["oslo"]], return_ci=True)
    assert (results["answer_f1"], results["parse_failure_rate"], results["n_parse_failures"]) == (0.5, 0.5, 1)
    assert 0 <= results["answer_f1_ci95_low"] < 0.5 < results["answer_f1_ci95_high"] <= 1


def test_a_number_is_an_answer_and_changes_nothing_about_the_others(answer_f1: Any) -> None:
    results = answer_f1.compute(predictions=[[12], ["Oslo", 7]], references=[["12"], ["oslo", "7"]])
    assert results["answer_f1"] == 1


def test_always_no_rejects_all_and_is_worth_nothing(rejection_rate: Any) -> None:
    results = rejection_rate.compute(predictions=["no"] * 4, references=["no", "no", "yes", "no"])
    assert (results["rejection_rate"], results["acceptance_rate"], results["balanced_accuracy"]) == (1, 0, 0.5)
    alone = rejection_rate.compute(predictions=["no", "maybe"], references=["no", "no"])
    assert alone["rejection_rate"] == 0.5 and math.isnan(alone["balanced_accuracy"])


def test_a_reference_that_is_neither_yes_nor_no_is_refused(rejection_rate: Any) -> None:
    with pytest.raises(ValueError, match="expected 'yes'"):
        rejection_rate.compute(predictions=["no"], references=["perhaps"])


@pytest.mark.parametrize("name", ["answer_f1", "rejection_rate"])
def test_the_documented_examples_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(METRICS.parent)
    module = evaluate.load(str(METRICS / name))
    examples = doctest.DocTestParser().get_doctest(module.inputs_description, {"evaluate": evaluate}, name, None, 0)
    runner = doctest.DocTestRunner()
    assert runner.run(examples).failed == 0 and runner.tries > 2
