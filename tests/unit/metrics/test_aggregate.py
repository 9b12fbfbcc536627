"""Means travel with honest intervals and counts."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kbbench_hf.metrics.aggregate import SMALL_N, estimate, means


def test_unscored_values_leave_the_mean_and_are_counted() -> None:
    figure = estimate([0.25, math.nan, 0.75])
    assert (figure.value, figure.n_scored, figure.n_unscored) == (0.5, 2, 1)


def test_nothing_scored_is_nan_not_zero() -> None:
    figure = estimate([math.nan, math.nan])
    assert math.isnan(figure.value)
    assert (figure.n_scored, figure.n_unscored) == (0, 2)


def test_the_mean_over_groups_weighs_groups_equally_whatever_their_size() -> None:
    # group a: (0 + 0 + 1) / 3 = 1/3; group b: 1; (1/3 + 1) / 2 = 2/3
    assert estimate([0, 0, 1, 1], groups=["a", "a", "a", "b"]).value == pytest.approx(2 / 3)


def test_a_group_can_count_twice() -> None:
    # (2 * 0 + 1 * 1) / 3
    assert estimate([0, 1], groups=["a", "b"], weights={"a": 2}).value == pytest.approx(1 / 3)


@pytest.mark.parametrize(("hits", "n"), [(0, 7), (3, 9), (3, 4), (50, 100), (11, 11), (2, 2)])
def test_a_proportion_gets_the_exact_interval(hits: int, n: int) -> None:
    expected = stats.binomtest(hits, n).proportion_ci(method="exact")
    assert estimate([1.0] * hits + [0.0] * (n - hits)).ci95 == pytest.approx((expected.low, expected.high))


def test_graded_values_are_more_certain_than_hits_of_the_same_mean() -> None:
    graded, hits = estimate([0.6, 0.7, 0.75, 0.8, 0.9] * 4).ci95, estimate([1.0, 1.0, 1.0, 0.0] * 5).ci95
    assert graded[1] - graded[0] < (hits[1] - hits[0]) / 2


def test_counts_get_students_interval_which_leans_on_the_spread_of_all_values() -> None:
    # squares about 3: 4 + 1 + 1 + 4 = 10; with two degrees of freedom borrowed at 10 / 4: (10 + 2 * 2.5) / 5 = 3
    half = stats.t.ppf(0.975, 5) * math.sqrt(3 / 4)
    assert estimate([1, 2, 4, 5]).ci95 == (pytest.approx(3 - half), pytest.approx(3 + half))
    assert estimate([1, 2, 4, 5], ["a"] * 4).ci95 == estimate([1, 2, 4, 5]).ci95


def test_the_interval_over_groups_is_stratified() -> None:
    values, groups = [2, 4, 6, 5, 7], ["a", "a", "a", "b", "b"]
    # of all about 5, a's three a sixth each, b's two a quarter: (9 + 1 + 1) / 6 + (0 + 4) / 4 = 17/6; in a 8, in b 2
    spreads = np.array([(8 + 2 * 17 / 6) / 4, (2 + 2 * 17 / 6) / 3])
    parts = np.array([0.25 * spreads[0] / 3, 0.25 * spreads[1] / 2])
    degrees = parts.sum() ** 2 / (parts[0] ** 2 / 4 + parts[1] ** 2 / 3)
    half = stats.t.ppf(0.975, degrees) * math.sqrt(parts.sum())
    assert estimate(values, groups).ci95 == (pytest.approx(5 - half), pytest.approx(5 + half))


def test_a_group_with_one_example_has_the_spread_of_all() -> None:
    values, groups = [2, 4, 6, 5], ["a", "a", "a", "b"]
    # of all about 4.5, a's three a sixth each, b's one a half: (6.25 + .25 + 2.25) / 6 + .25 / 2 = 19/12
    spreads = np.array([(8 + 2 * 19 / 12) / 4, 19 / 12])
    parts = np.array([0.25 * spreads[0] / 3, 0.25 * spreads[1]])
    degrees = parts.sum() ** 2 / (parts[0] ** 2 / 4 + parts[1] ** 2 / 2)
    half = stats.t.ppf(0.975, degrees) * math.sqrt(parts.sum())
    assert estimate(values, groups).ci95 == (pytest.approx(4.5 - half), pytest.approx(4.5 + half))


def test_groups_of_many_examples_are_as_certain_as_they_are_and_not_as_their_differences() -> None:
    values = np.concatenate([np.tile([0.09, 0.11], 500), np.tile([0.89, 0.91], 500)])
    groups = ["low"] * 1000 + ["high"] * 1000
    (low, high), (plain_low, plain_high) = estimate(values, groups).ci95, estimate(values).ci95
    assert high - low < (plain_high - plain_low) / 10  # the groups' own spread is .01, that of all .4


def test_differences_are_not_clipped_to_fractions() -> None:
    assert estimate([0.0, 0.5, 1.0], bounded=False).ci95[1] > 1


def test_what_is_too_few_is_said() -> None:
    assert estimate([0.5] * (SMALL_N - 1)).small
    assert not estimate([0.5] * SMALL_N).small


fractions = st.lists(st.floats(0, 1), min_size=1, max_size=50)


@given(fractions)
def test_the_value_lies_in_its_interval_and_that_in_the_unit_interval(values: list[float]) -> None:
    figure = estimate(values)
    assert 0 <= figure.ci95[0] <= figure.value <= figure.ci95[1] <= 1


@given(fractions, st.integers(0, 49), st.sampled_from([-1e-6, 1e-6]))
def test_an_interval_moves_as_little_as_its_values_do(values: list[float], place: int, by: float) -> None:
    moved = list(values)
    moved[place % len(values)] = min(max(moved[place % len(values)] + by, 0.0), 1.0)
    assert estimate(moved).ci95 == pytest.approx(estimate(values).ci95, abs=1e-4)


def test_one_value_that_is_almost_perfect_changes_almost_nothing() -> None:
    assert estimate([1.0] * 9 + [0.999999]).ci95 == pytest.approx(estimate([1.0] * 10).ci95, abs=1e-4)


@given(st.floats(0, 1), st.integers(1, 1000))
def test_no_interval_collapses(value: float, n: int) -> None:
    low, high = estimate([value] * n).ci95
    assert high - low > 1 / (20 * n)


@given(fractions)
def test_the_interval_of_failures_is_that_of_successes_turned_round(values: list[float]) -> None:
    low, high = estimate(values).ci95
    assert estimate([1 - value for value in values]).ci95 == pytest.approx((1 - high, 1 - low), abs=1e-6)


@pytest.mark.parametrize("n", [20, 50, 100])
@pytest.mark.parametrize("kind", ["proportion", "mean", "mostly zero", "groups"])
def test_intervals_cover_the_truth_95_times_in_100(n: int, kind: str) -> None:
    generator = np.random.default_rng(n)  # seed = n
    hits, trials = 0, 1500
    for _ in range(trials):
        groups = None
        if kind == "proportion":
            values, truth = (generator.random(n) < 0.3).astype(float), 0.3
        elif kind == "mean":
            values, truth = generator.beta(0.5, 1.0, n), 1 / 3
        elif kind == "mostly zero":
            values, truth = np.where(generator.random(n) < 0.15, generator.choice([0.5, 1.0], n), 0.0), 0.15 * 0.75
        else:
            sizes = [n // 5, n - n // 5]
            values = np.concatenate([generator.beta(2, 1, sizes[0]), generator.beta(1, 3, sizes[1])])
            groups, truth = ["a"] * sizes[0] + ["b"] * sizes[1], (2 / 3 + 1 / 4) / 2
        low, high = estimate(values, groups).ci95
        hits += low <= truth <= high
    assert 0.94 <= hits / trials <= 0.995


def test_means_keeps_every_metric() -> None:
    assert set(means({"a": np.ones(2), "b": np.zeros(2)})) == {"a", "b"}
