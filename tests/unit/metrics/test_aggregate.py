"""Means travel with honest intervals and counts."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kbbench_hf.metrics.aggregate import estimate, means, wilson_interval


def test_unscored_values_leave_the_mean_and_are_counted() -> None:
    figure = estimate([0.25, math.nan, 0.75])
    assert (figure.value, figure.n_scored, figure.n_unscored) == (0.5, 2, 1)


def test_nothing_scored_is_nan_not_zero() -> None:
    figure = estimate([math.nan, math.nan])
    assert math.isnan(figure.value)
    assert (figure.n_scored, figure.n_unscored) == (0, 2)


def test_a_proportion_gets_wilsons_interval_that_never_collapses() -> None:
    assert estimate([1.0] * 20).ci95 == pytest.approx((1 / (1 + 1.959963984540054**2 / 20), 1.0))  # n / (n + z^2)


def test_a_mean_gets_students_interval() -> None:
    values = [0.1, 0.4, 0.35, 0.8]
    expected = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert estimate(values).ci95 == pytest.approx((max(0, expected[0]), min(1, expected[1])))


def test_wilson_agrees_with_scipy() -> None:
    for successes, n in [(0, 7), (3, 9), (50, 100), (11, 11)]:
        expected = stats.binomtest(successes, n).proportion_ci(method="wilson")
        assert wilson_interval(successes / n, n) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_the_mean_over_groups_weighs_groups_equally_whatever_their_size() -> None:
    # group a: (0 + 0 + 1) / 3 = 1/3; group b: 1; (1/3 + 1) / 2 = 2/3
    assert estimate([0, 0, 1, 1], groups=["a", "a", "a", "b"]).value == pytest.approx(2 / 3)


def test_a_group_can_count_twice() -> None:
    # (2 * 0 + 1 * 1) / 3
    assert estimate([0, 1], groups=["a", "b"], weights={"a": 2}).value == pytest.approx(1 / 3)


def test_groups_without_spread_do_not_claim_certainty() -> None:
    assert estimate([1.0] * 10, ["a"] * 5 + ["b"] * 5).ci95 == pytest.approx(wilson_interval(1.0, 10))


def test_the_interval_over_groups_is_stratified() -> None:
    values, groups = [0.2, 0.4, 0.6, 0.5, 0.7], ["a", "a", "a", "b", "b"]
    # parts: (1/2)^2 * var / n = .25 * .04 / 3 and .25 * .02 / 2
    parts = np.array([0.25 * 0.04 / 3, 0.25 * 0.02 / 2])
    degrees = parts.sum() ** 2 / (parts[0] ** 2 / 2 + parts[1] ** 2 / 1)
    half = stats.t.ppf(0.975, degrees) * math.sqrt(parts.sum())
    assert estimate(values, groups).ci95 == pytest.approx((max(0, 0.5 - half), min(1, 0.5 + half)))


def test_a_group_with_one_example_has_the_spread_of_the_others() -> None:
    values, groups = [0.2, 0.4, 0.6, 0.5], ["a", "a", "a", "b"]
    # a's variance is (.04 + 0 + .04) / 2 = .04, and b borrows it: parts (1/2)^2 * .04 / 3 and (1/2)^2 * .04 / 1
    parts = np.array([0.25 * 0.04 / 3, 0.25 * 0.04])
    degrees = parts.sum() ** 2 / (parts[0] ** 2 / 2 + parts[1] ** 2 / 1)
    half = stats.t.ppf(0.975, degrees) * math.sqrt(parts.sum())
    assert estimate(values, groups, bounded=False).ci95 == (pytest.approx(0.45 - half), pytest.approx(0.45 + half))


def test_an_interval_of_fractions_ends_at_zero_and_one() -> None:
    assert estimate([0.6, 0.9, 1.0]).ci95[1] == 1.0  # Student's alone ends at 1.35
    assert estimate([0.4, 0.1, 0.0]).ci95[0] == 0.0
    assert estimate([0.9, 1.0, 0.6, 1.0], ["a", "a", "b", "b"]).ci95[1] == 1.0


def test_differences_are_not_clipped_to_fractions() -> None:
    assert estimate([0.0, 0.5, 1.0], bounded=False).ci95[1] > 1


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50))
def test_the_value_lies_in_its_interval(values: list[float]) -> None:
    figure = estimate(values)
    assert figure.ci95[0] - 1e-12 <= figure.value <= figure.ci95[1] + 1e-12


@pytest.mark.parametrize("n", [100, 500])
@pytest.mark.parametrize("kind", ["proportion", "mean", "groups"])
def test_intervals_cover_the_truth_about_95_times_in_100(n: int, kind: str) -> None:
    generator = np.random.default_rng(n)  # seed = n
    hits, trials = 0, 2000
    for _ in range(trials):
        if kind == "proportion":
            values, groups, truth = (generator.random(n) < 0.3).astype(float), None, 0.3
        elif kind == "mean":
            values, groups, truth = generator.beta(0.5, 1.0, n), None, 1 / 3
        else:
            sizes = [n // 5, n - n // 5]
            values = np.concatenate([generator.beta(2, 1, sizes[0]), generator.beta(1, 3, sizes[1])])
            groups, truth = ["a"] * sizes[0] + ["b"] * sizes[1], (2 / 3 + 1 / 4) / 2
        low, high = estimate(values, groups).ci95
        hits += low <= truth <= high
    assert 0.93 <= hits / trials <= 0.97


def test_means_keeps_every_metric() -> None:
    assert set(means({"a": np.ones(2), "b": np.zeros(2)})) == {"a", "b"}
