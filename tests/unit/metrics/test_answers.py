import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.errors import UsageError
from kbbench_hf.metrics.aggregate import estimate
from kbbench_hf.metrics.answers import (
    MODES,
    answer_scores,
    balanced_accuracy,
    question_kinds,
    score_answers,
    score_rejections,
    squad_normal,
    wtq_normal,
    wtq_number,
)

words = st.lists(st.sampled_from(["oslo", "bergen", "the hague", "42", "moss", "ås"]), max_size=6)


@pytest.mark.parametrize("mode", MODES)
def test_gold_answers_score_one_and_the_empty_list_zero(mode: str) -> None:
    gold = ["The Hague", "12,467", "Ås (Norway)"]
    assert answer_scores(gold, gold, mode) == (1, 1, 1, 1, 1)
    assert answer_scores([], gold, mode) == (0, 0, 0, 0, 0)


def test_modes_differ_where_they_should() -> None:
    f1 = {mode: answer_scores(["the 12467!"], ["12467"], mode).answer_f1 for mode in MODES}
    assert f1 == {"squad": 1, "exact": 0, "wtq": 0, "rog": 1, "typed": 0}
    f1 = {mode: answer_scores(["$12,467.0"], ["12467"], mode).answer_f1 for mode in MODES}
    assert f1 == {"squad": 0, "exact": 0, "wtq": 1, "rog": 1, "typed": 1}  # rog: "12467" is a substring of "124670"
    assert answer_scores(["Café[1]"], ["cafe"], "wtq").answer_f1 == 1


def test_partial_credit_by_hand() -> None:
    # predictions a, b, x; gold a, b, c, d: P 2/3, R 2/4, F1 = 2 * 2 / (3 + 4)
    scores = answer_scores(["x", "a", "b"], ["a", "b", "c", "d"], "exact")
    assert scores == pytest.approx((4 / 7, 2 / 3, 1 / 2, 0, 0))


def test_an_answer_given_twice_counts_once_after_normalisation() -> None:
    assert answer_scores(["Oslo", "oslo.", "the Oslo"], ["OSLO"]).precision == 1


def test_rog_precision_can_exceed_one_as_in_its_source() -> None:
    # one prediction holds both gold answers: 2 found / 1 predicted; F1 = 2 * 2 * 1 / 3
    scores = answer_scores(["oslo and bergen"], ["Oslo", "Bergen"], "rog")
    assert (scores.precision, scores.recall) == (2, 1) and scores.answer_f1 == pytest.approx(4 / 3)


@given(words, words.filter(bool))
def test_f1_is_that_of_two_sets(predicted: list[str], gold: list[str]) -> None:
    p, g = set(predicted), set(gold)
    expected = 2 * len(p & g) / (len(p) + len(g))
    assert answer_scores(predicted, gold, "exact").answer_f1 == pytest.approx(expected)
    assert answer_scores(predicted, gold, "exact").exact_match == (p == g)


@given(words, words.filter(bool), st.sampled_from(["squad", "exact", "wtq"]))
def test_order_and_repetition_do_not_matter_but_for_the_first_answer(
    predicted: list[str], gold: list[str], mode: str
) -> None:
    again = answer_scores([*predicted, *reversed(predicted)], [*reversed(gold), *gold], mode)
    assert again == answer_scores(predicted, gold, mode)


def test_without_gold_answers_nothing_is_scored() -> None:
    assert all(math.isnan(value) for value in answer_scores(["x"], []))


def test_an_unreadable_response_scores_zero_and_is_counted() -> None:
    values = score_answers([["a"], None, []], [["a"], ["a"], ["a"]])
    assert values["answer_f1"].tolist() == [1, 0, 0]
    assert values["parse_failure_rate"].tolist() == [0, 1, 0]
    assert score_answers([], [])["answer_f1"].shape == (0,)


def test_an_unknown_mode_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="Did you mean 'squad'"):
        answer_scores(["a"], ["a"], "squat")


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("“Bleach”", "bleach"),
        ("1947–1950", "1947-1950"),
        ("Paris[2][note 3]", "paris"),
        ("Ali (boxer)", "ali"),
        ("Élan Vital.", "elan vital"),
        ("  two \n lines ", "two lines"),
        ("(whole)", "(whole)"),
        ('"A" and "B"', '"a" and "b"'),
        ("Hall of Fame†*", "hall of fame"),
    ],
)
def test_wikitablequestions_normal_form(text: str, normal: str) -> None:
    assert wtq_normal(text) == normal


def test_numbers_are_read_without_separators_and_units_of_money() -> None:
    found = [wtq_number(text) for text in ("12,467", "$5", "7%", "−3", "1.50", "5 km", "")]
    assert found == [12467, 5, 7, -3, 1.5, None, None]


def test_squad_normal_form_drops_articles_as_words_only() -> None:
    assert squad_normal("An Android, the theory") == "android theory"


def test_always_saying_no_rejects_everything_at_half_the_balanced_accuracy() -> None:
    answerable = [True] * 30 + [False] * 10
    values = score_rejections(["no"] * 40, answerable)
    assert estimate(values["rejection_rate"]).value == 1 and estimate(values["rejection_rate"]).n_scored == 10
    assert estimate(values["acceptance_rate"]).value == 0
    assert balanced_accuracy(values["balanced_accuracy"], question_kinds(answerable)).value == 0.5


def test_an_unreadable_verdict_is_wrong_either_way() -> None:
    values = score_rejections([None, None], [True, False])
    assert values["balanced_accuracy"].tolist() == [0, 0]
    assert np.nansum(values["rejection_rate"]) == 0 and values["parse_failure_rate"].tolist() == [1, 1]
