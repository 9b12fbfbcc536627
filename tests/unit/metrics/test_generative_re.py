"""GenRES's scores: worked by hand, against short definitions, and the edges in both modes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.metrics.generative_re import (
    EMPTY_SCORES,
    all_cosines,
    completeness,
    count_pairs,
    factualness,
    find_reversed,
    granularity,
    hard_match,
    keep_well_formed,
    select_triples,
    tokens_per_triple,
    topical_similarity,
    triples_per_document,
    uniqueness,
)

A, B = [1.0, 0.0], [0.0, 1.0]
DIAGONAL = [1.0, 1.0]  # cosine with A and with B: 1/sqrt(2) = 0.7071


def test_topical_similarity_is_the_exponential_of_the_negative_divergence() -> None:
    # KL = 3/4 ln(3/2) + 1/4 ln(1/2) = 0.304099 - 0.173287 = 0.130812; exp(-0.130812) = 0.877383
    score = topical_similarity(np.array([[0.75, 0.25]]), np.array([[0.5, 0.5]]))
    assert score == pytest.approx([0.877383], abs=1e-6)


def test_topical_similarity_looks_from_the_source_to_the_triples() -> None:
    source, triples = np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]])
    assert topical_similarity(source, triples) == pytest.approx([0.5])
    assert topical_similarity(triples, source) == pytest.approx([0.0])  # a topic of the source that the triples lack


def test_topical_similarity_normalises_both_distributions() -> None:
    assert topical_similarity(np.array([[2.0, 2.0]]), np.array([[1.0, 1.0]])) == pytest.approx([1.0])


def test_a_document_without_topics_has_no_topical_similarity() -> None:
    assert np.isnan(topical_similarity(np.array([[0.5, 0.5]]), np.full((1, 2), math.nan)))[0]
    assert topical_similarity(np.zeros((0, 5)), np.zeros((0, 5))).shape == (0,)


def test_uniqueness_counts_pairs_below_the_threshold() -> None:
    # pairs: A-A 1.0, A-diagonal 0.7071 twice; below 0.8: two of three
    assert uniqueness([np.array([A, A, DIAGONAL])], 0.8, empty=0.0) == pytest.approx([2 / 3])
    assert uniqueness([np.array([A, A, DIAGONAL])], 0.7, empty=0.0) == pytest.approx([0.0])


def test_a_pair_at_the_threshold_is_alike() -> None:
    assert uniqueness([np.array([A, A])], 1.0, empty=0.0) == [0.0]


def test_one_triple_is_unique_and_no_triple_is_what_the_mode_says() -> None:
    none = np.zeros((0, 2))
    assert uniqueness([np.array([A])], 0.9, empty=0.25)[0] == 1.0
    assert uniqueness([none], 0.9, empty=EMPTY_SCORES["reference"]["uniqueness"])[0] == 1.0
    assert uniqueness([none], 0.9, empty=EMPTY_SCORES["fixed"]["uniqueness"])[0] == 0.0
    assert np.isnan(uniqueness([None], 0.9, empty=1.0)[0])


def test_a_triple_without_length_is_like_no_other_one() -> None:
    assert uniqueness([np.array([[0.0, 0.0], A])], 0.5, empty=0.0)[0] == 1.0


def test_a_thousand_equal_triples_are_not_unique_at_all() -> None:
    assert uniqueness([np.tile(A, (1000, 1))], 0.95, empty=0.0)[0] == 0.0


@given(st.integers(0, 6), st.integers(0, 2**31), st.floats(-0.9, 0.99))
def test_uniqueness_is_the_share_of_unordered_pairs(n: int, seed: int, threshold: float) -> None:
    rows = np.random.default_rng(seed).normal(size=(n, 4))
    pairs = [(i, j) for i in range(n) for j in range(i)]
    cosines = [rows[i] @ rows[j] / np.linalg.norm(rows[i]) / np.linalg.norm(rows[j]) for i, j in pairs]
    expected = sum(cosine < threshold for cosine in cosines) / len(pairs) if pairs else 1.0 if n else 0.0
    assert uniqueness([rows], threshold, empty=0.0)[0] == pytest.approx(expected)


def test_factualness_leaves_out_what_the_judge_failed_on() -> None:
    assert factualness([[1, 0, 1, None]], empty=0.0) == pytest.approx([2 / 3])  # never read as false
    assert np.isnan(factualness([[None, None], None], empty=0.0)).all()


def test_an_empty_answer_is_not_factual_in_either_mode() -> None:
    assert EMPTY_SCORES["reference"]["factualness"] == EMPTY_SCORES["fixed"]["factualness"] == 0.0
    assert factualness([[]], empty=0.0)[0] == 0.0


def test_granularity_follows_the_papers_example() -> None:
    # splits 3, 0, 0, 2: (exp(-3) + 1 + 1 + exp(-2)) / 4 = (0.049787 + 2 + 0.135335) / 4 = 0.546281
    assert granularity([[3, 0, 0, 2]], empty=0.0) == pytest.approx([0.546281], abs=1e-6)


def test_a_split_into_one_is_no_split() -> None:
    assert granularity([[1]], empty=0.0)[0] == 1.0


def test_empty_answers_leave_granularity_in_reference_mode_only() -> None:
    assert np.isnan(granularity([[]], empty=EMPTY_SCORES["reference"]["granularity"])[0])
    assert granularity([[]], empty=EMPTY_SCORES["fixed"]["granularity"])[0] == 0.0


@pytest.mark.parametrize(
    ("reply", "count"),
    [
        ("N/A (It is specific.)\nGranularity: 0", 0),
        ('["a", "r", "b"]\n["a", "r", "c"]\nGranularity: 2', 2),
        ('["a", "r", "[SOD1]"]', 2),  # a bracket inside an entity counts
        ('["a", "r", "b"]\n["a", "r", "c', 1),  # cut off
    ],
)
def test_the_release_counts_brackets(reply: str, count: int) -> None:
    assert count_pairs(reply) == count


def test_completeness_is_the_share_of_gold_that_something_reaches() -> None:
    cosines = np.array([[0.2, 0.95], [0.94, 0.1]])  # gold 1 reaches 0.95 exactly, gold 2 does not
    assert completeness([cosines], 0.95)[0] == 0.5


def test_completeness_needs_gold_and_an_answer() -> None:
    assert np.isnan(completeness([np.zeros((0, 3)), None], 0.95)).all()
    assert completeness([np.zeros((2, 0))], 0.95)[0] == 0.0


def test_a_reversed_triple_has_the_same_vector_and_another_direction() -> None:
    a, r, b = np.eye(3)
    gold, predicted = np.array([[a, r, b]]), np.array([[b, r, a]])
    assert all_cosines(gold.sum(axis=1), predicted.sum(axis=1))[0, 0] == pytest.approx(1.0)
    assert find_reversed(gold, predicted).tolist() == [[True]]


def test_a_symmetric_triple_has_both_directions() -> None:
    a, r, _ = np.eye(3)
    assert find_reversed(np.array([[a, r, a]]), np.array([[a, r, a]])).tolist() == [[False]]


@given(st.integers(0, 4), st.integers(0, 4), st.integers(0, 2**31))
def test_similarities_are_cosines(g: int, t: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    gold, predicted = rng.normal(size=(g, 5)), rng.normal(size=(t, 5))
    expected = [[x @ y / np.linalg.norm(x) / np.linalg.norm(y) for y in predicted] for x in gold]
    assert all_cosines(gold, predicted) == pytest.approx(np.array(expected).reshape(g, t))


def test_the_reference_counts_every_triple_and_the_fixed_mode_each_once() -> None:
    answer = [["a", "r", "b"], ["a", "r", "b"], ["a", "r", None], ["c", "in", 1961], ["a", "r"], "abc", ["", "r", "b"]]
    assert triples_per_document([select_triples(answer, "reference")])[0] == 7
    assert select_triples(answer, "fixed") == [("a", "r", "b"), ("c", "in", "1961")]


def test_true_is_no_number_and_brackets_inside_entities_stay() -> None:
    assert keep_well_formed([["a", "r", True]]) == []
    assert keep_well_formed([["[SOD1] gene", "is", "x]"]]) == [("[SOD1] gene", "is", "x]")]


def test_a_triple_with_something_else_than_strings_has_no_tokens() -> None:
    words = [["New York", "in", "USA"], ["a", "r", None], ["a", "r", 3], "abc"]
    # 4 tokens, then three triples without any: 4 / 4
    assert tokens_per_triple([words], lambda text: len(text.split()), empty=0.0)[0] == 1.0


def test_hard_match_ignores_case_and_underscores_and_counts_repeats() -> None:
    predicted = [["X", "is_in", "Y"], ["x", "is in", "y"], ["q", "r", "s"]]
    gold = [["x", "is in", "y"], ["u", "v", "w"], ["x", "is in", "y"], ["k", "l", "m"]]
    # precision 2/3, recall 2/4, F1 = 2 * 2/3 * 1/2 / (7/6) = 4/7
    assert hard_match([predicted], [gold], empty=0.0).ravel() == pytest.approx([2 / 3, 0.5, 4 / 7])


@pytest.mark.parametrize(
    ("written", "gold", "equal"),
    [
        ("Washington , DC", "washington, dc", True),
        ("Lil ' Kim", "lil' kim", True),
        ("Community", '"community"', True),
        ("Québec .|", "quebec", True),
        ("12 , 467", "12,467", True),
        ("1.5", "15", False),
        ("Salem", "Salem, MA", False),
        ("?", "!", False),
    ],
)
def test_fixed_2_compares_names_by_letters_and_digits(written: str, gold: str, *, equal: bool) -> None:
    match = hard_match([[[written, "is in", "b"]]], [[[gold, "is_in", "B"]]], empty=0.0, mode="fixed-2")
    assert match.ravel().tolist() == [float(equal)] * 3
    assert hard_match([[[written, "is in", "b"]]], [[[gold, "is_in", "B"]]], empty=0.0, mode="fixed")[2] == 0


def test_fixed_2_counts_spellings_of_one_triple_once() -> None:
    predicted = [["a-b", "r", "c"], ["a - b", "r", "c"], ["x", "r", "y"], ["q", "r", "s"]]
    gold = [["A-B", "r", "c"], ["a b", "r", "c"]]
    assert hard_match([predicted], [gold], empty=0.0, mode="fixed-2").ravel() == pytest.approx([1 / 3, 1, 1 / 2])


def test_hard_match_skips_silence_as_released_and_calls_it_wrong_when_fixed() -> None:
    gold = [["x", "is in", "y"]]
    assert np.isnan(hard_match([[]], [gold], empty=EMPTY_SCORES["reference"]["f1"])).all()
    assert hard_match([[]], [gold], empty=EMPTY_SCORES["fixed"]["f1"]).ravel().tolist() == [0, 0, 0]
    assert np.isnan(hard_match([gold], [[]], empty=0.0)).all()  # nothing to match


def test_silence_scores_zero_on_every_quality_in_fixed_mode() -> None:
    qualities = ("topical_similarity", "uniqueness", "factualness", "granularity", "completeness")
    assert [EMPTY_SCORES["fixed"][metric] for metric in qualities] == [0.0] * 5
