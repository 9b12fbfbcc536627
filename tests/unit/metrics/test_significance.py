"""Paired tests find what is there and, at most one time in twenty, what is not."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbbench_hf.metrics.significance import (
    FEWEST_PAIRS,
    holm,
    holm_levels,
    minimum_detectable_effect,
    paired_test,
    rank_groups,
)


@settings(max_examples=50)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=8))
def test_small_samples_are_tested_exactly(differences: list[int]) -> None:
    extreme = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True))) >= abs(sum(differences))
        for signs in product((1, -1), repeat=len(differences))
    ]
    test = paired_test(np.array(differences, float), np.zeros(len(differences)))
    assert test.p_value == pytest.approx(np.mean(extreme))


def test_pairs_that_were_not_scored_are_left_out() -> None:
    test = paired_test([1, math.nan, 1], [0, 1, math.nan])
    assert (test.wins, test.ties, test.losses, test.difference) == (1, 0, 0, 1.0)


def test_a_difference_is_there_where_it_is_in_every_draw() -> None:
    zeros, ones = np.zeros((2, 20)), np.ones(20)
    sure, doubtful = np.stack([ones, ones]), np.stack([ones, np.tile([1.0, -1.0], 10)])
    assert paired_test(sure, zeros) == paired_test(ones, zeros[0])
    test = paired_test(doubtful, zeros)
    of_draws = [paired_test(row, zeros[0]) for row in doubtful]
    assert test.p_value == of_draws[1].p_value > 0.9 > 0.01 > of_draws[0].p_value
    assert test.ci95 == (of_draws[1].ci95[0], max(each.ci95[1] for each in of_draws))
    assert test.difference == 0.5  # of the mean over draws
    assert (test.wins, test.ties, test.losses) == (10, 10, 0)


def test_identical_systems_differ_by_nothing() -> None:
    test = paired_test([0.25, 0.5, 1.0] * 10, [0.25, 0.5, 1.0] * 10)
    assert (test.difference, test.ci95, test.p_value, test.ties) == (0.0, (0.0, 0.0), 1.0, 30)


def test_what_differs_by_rounding_only_is_a_tie() -> None:
    test = paired_test([0.1 + 0.2], [0.3])
    assert (test.difference, test.wins, test.ties, test.p_value) == (0.0, 0, 1, 1.0)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([0.3, 1 / 3, 0, 0, 0], [0, 0, 0.1, 0.2, 1 / 3]),
        ([0.1, 0.2, 0.2, 0.2, 0], [0, 0, 0, 0, 0.7]),
    ],
)
def test_thirds_and_tenths_that_cancel_are_as_extreme_as_nothing(a: list[float], b: list[float]) -> None:
    assert paired_test(a, b).p_value == 1.0  # the differences sum to 0: every sign pattern is as extreme


@settings(max_examples=200)
@given(st.lists(st.integers(-6, 6), min_size=1, max_size=9), st.sampled_from([1, 3, 7, 10, 30]))
def test_sums_that_are_equal_but_for_rounding_are_ties(numerators: list[int], denominator: int) -> None:
    zeros = np.zeros(len(numerators))
    exact = paired_test(np.array(numerators, float), zeros)
    assert paired_test(np.array(numerators) / denominator, zeros).p_value == exact.p_value


def test_a_resampled_p_value_is_never_zero() -> None:
    # of 2**30 sign patterns 2 are as extreme, and none of the 10,000 drawn
    assert paired_test([1.0] * 30, [0.0] * 30).p_value == 1 / 10_001


def test_swapping_the_systems_swaps_the_sign_only() -> None:
    generator = np.random.default_rng(1)
    a, b = generator.random(200), generator.random(200)
    there, back = paired_test(a, b), paired_test(b, a)
    assert there.difference == -back.difference
    assert there.ci95 == pytest.approx((-back.ci95[1], -back.ci95[0]))
    assert (there.wins, there.losses) == (back.losses, back.wins)


pairs = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.sampled_from("ab")), min_size=1, max_size=40)


@settings(max_examples=150)
@given(pairs, st.booleans())
def test_the_interval_leaves_out_zero_just_where_the_test_finds_a_difference(
    found: list[tuple[int, int, str]], grouped: bool
) -> None:
    a, b, groups = zip(*found, strict=True)
    test = paired_test(np.array(a) / 4, np.array(b) / 4, list(groups) if grouped else None)
    low, high = test.ci95
    assert -1 <= low <= test.difference <= high <= 1
    assert (low <= 0 <= high) == (test.p_value > 0.05)


def test_the_interval_is_that_of_the_shifts_which_the_test_does_not_reject() -> None:
    a, b = np.random.default_rng(5).random((2, 12))  # seed 5; few enough to be exact
    low, high = paired_test(a, b).ci95
    for shift, rejected in ((low - 1e-6, True), (low + 1e-6, False), (high - 1e-6, False), (high + 1e-6, True)):
        assert (paired_test(a - shift, b).p_value <= 0.05) == rejected


def test_too_few_pairs_leave_every_difference_open() -> None:
    assert paired_test([1.0] * 5, [0.0] * 5).ci95 == (-1.0, 1.0)
    assert paired_test([7.0] * 5, [0.0] * 5).ci95 == (-math.inf, math.inf)
    assert [paired_test([1.0] * n, [0.0] * n).small for n in (FEWEST_PAIRS - 1, FEWEST_PAIRS)] == [True, False]
    assert paired_test([1.0] * FEWEST_PAIRS, [0.0] * FEWEST_PAIRS).p_value <= 0.05


def test_the_statistic_is_the_mean_over_groups() -> None:
    # group a: +1; group b: -1/3: (1 - 1/3) / 2 = 1/3
    test = paired_test([1, 0, 0, 0], [0, 1, 0, 0], groups=["a", "b", "b", "b"])
    assert test.difference == pytest.approx(1 / 3)


def test_a_null_difference_is_found_at_most_six_times_in_a_hundred() -> None:
    generator = np.random.default_rng(7)  # seed 7
    found = 0
    for _ in range(400):
        shared = generator.random(100) < 0.4
        a = np.where(shared, 1.0, generator.random(100) < 0.5)
        b = np.where(shared, 1.0, generator.random(100) < 0.5)
        found += paired_test(a, b).p_value <= 0.05
    assert found / 400 <= 0.06


def test_holm_never_lets_a_larger_p_value_become_smaller() -> None:
    assert holm([0.04, 0.01, 0.9]) == pytest.approx([0.08, 0.03, 0.9])
    assert holm([]) == []


def test_systems_that_cannot_be_told_apart_share_a_group() -> None:
    generator = np.random.default_rng(3)
    base = generator.random(300)
    systems = {"strong": base, "twin": base - 0.001 * generator.random(300) + 0.0005, "weak": base * 0.5}
    groups = rank_groups(list(systems), lambda a, b: paired_test(systems[a], systems[b]).p_value)
    assert groups == [1, 1, 2]


def test_holm_joins_groups_whose_beginning_does_not_hold() -> None:
    # .04 alone would begin a group; of two tests the smaller must stay under .025
    p_values = {("a", "b"): 0.04, ("b", "c"): 0.9, ("a", "c"): 0.03}
    assert rank_groups(["a", "b", "c"], lambda x, y: p_values[x, y]) == [1, 1, 1]


def test_nobody_stays_in_a_group_whose_first_one_is_clearly_better() -> None:
    # each of forty systems is hardly worse than the one before it, the last is far worse than the first
    generator = np.random.default_rng(5)
    order = generator.random(200)
    systems = {str(n): (order > n / 40).astype(float) for n in range(40)}

    def p_value(a: str, b: str) -> float:
        return paired_test(systems[a], systems[b]).p_value

    groups = rank_groups(list(systems), p_value)
    firsts = {group: name for name, group in reversed(list(zip(systems, groups, strict=True)))}
    alone = [p_value(firsts[group], name) for name, group in zip(systems, groups, strict=True)]
    beginnings = [p_value(firsts[group - 1], firsts[group]) for group in list(firsts) if group > 1]
    assert groups == sorted(groups) and len(firsts) > 5
    assert max(holm([*beginnings, *(p for p in alone if p < 1)])[: len(beginnings)]) <= 0.05
    assert min(alone) > 0.05 / 40  # what stays in a group would not have begun one among so many tests


def test_a_system_that_cannot_be_tested_has_a_group_of_its_own() -> None:
    assert rank_groups(["a", "b"], lambda x, y: math.nan) == [1, 2]
    assert rank_groups([], lambda x, y: 1.0) == []


def test_more_examples_detect_smaller_effects() -> None:
    few, many = np.tile([0.1, -0.1], 10), np.tile([0.1, -0.1], 1000)
    assert minimum_detectable_effect(many) < minimum_detectable_effect(few) / 9
    assert math.isnan(minimum_detectable_effect([0.1]))


def test_an_interval_at_its_level_leaves_out_zero_where_the_adjusted_p_is_at_most_5_percent() -> None:
    rng = np.random.default_rng(7)
    for _ in range(40):
        columns = [rng.normal(shift, 1, 40) for shift in rng.choice([0.0, 0.3, 0.5, 0.8], 5)]
        zero = np.zeros(40)
        p_values = [paired_test(column, zero).p_value for column in columns]
        for column, p, level in zip(columns, holm(p_values), holm_levels(p_values), strict=True):
            low, high = paired_test(column, zero, level=level).ci95
            assert (p <= 0.05) == (low > 0 or high < 0)
    assert holm_levels([]) == [] and holm_levels([0.2]) == [0.05]
