import csv
import math
from pathlib import Path

import numpy as np
import pytest

from kbbench_hf.errors import UsageError
from kbbench_hf.metrics.robustness import (
    curve,
    mean_interval,
    population_std,
    rank_correlation,
    resampled_means,
    std_interval,
    worst_order_drop,
)


def test_a_curve_goes_from_the_smallest_budget_to_the_largest() -> None:
    found = curve({4096: 0.5, 1024: 0.8, 12288: 0.6})
    assert found.budgets == (1024, 4096, 12288) and found.values == (0.8, 0.5, 0.6)
    assert found.relative_drop == pytest.approx(0.25)  # (0.8 - 0.6) / 0.8


def test_a_curve_from_zero_has_no_relative_drop() -> None:
    found = curve({1: 0.0, 2: 0.5})
    assert math.isnan(found.relative_drop)
    with pytest.raises(UsageError, match="without budgets"):
        curve({})


def test_published_standard_deviations_are_those_of_a_population(shared: Path) -> None:
    with (shared / "expected" / "ska_expected.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["table"] == "T7"]
    groups: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        groups.setdefault((row["subset"], row["model"]), {})[row["setting"]] = float(row["value"])
    assert len(groups) == 8
    for group in groups.values():
        published = group.pop("std")
        assert round(population_std(list(group.values())), 2) == pytest.approx(published, abs=0.0051)
    assert population_std(np.array([0.5])) == 0


def test_the_worst_order_is_compared_with_the_reference() -> None:
    assert worst_order_drop({"prefix": 0.9, "random": 0.5}) == 0
    with pytest.raises(UsageError, match="No order 'original'"):
        worst_order_drop({"prefix": 0.9}, "original")


def test_equal_figures_do_not_deviate_at_all() -> None:
    assert population_std([0.9230769230769231] * 3) == 0.0


def sampled(rng: np.random.Generator, rates: list[float], n: int) -> list[dict[int, float]]:
    """Return 0 or 1 of each of n examples in each setting; an example that is easy in one is in the others."""
    ease = rng.random(n) * 0.6 + 0.4 * rng.random((len(rates), n))
    return [
        dict(enumerate((row < np.quantile(ease, rate)).astype(float))) for row, rate in zip(ease, rates, strict=True)
    ]


@pytest.mark.parametrize("rates", [[0.6, 0.6, 0.6, 0.6], [0.7, 0.6, 0.5]])
def test_the_interval_of_a_deviation_covers_it_also_where_it_is_zero(rates: list[float]) -> None:
    """Percentiles of resampled deviations cover a true 0 never, since resampling only adds to what samples differ."""
    rng, whole = np.random.default_rng(7), sampled(np.random.default_rng(6), rates, 20_000)
    truth = population_std([np.mean(list(column.values())) for column in whole])
    covered = by_percentiles = 0
    for _ in range(60):
        chosen = rng.choice(20_000, size=60, replace=False)
        columns = [{int(each): column[int(each)] for each in chosen} for column in whole]
        low, high = std_interval([columns])
        covered += low <= truth <= high
        ends = np.quantile(resampled_means(columns).std(axis=1), [0.025, 0.975])
        by_percentiles += bool(ends[0] <= truth <= ends[1])
    assert covered >= 55
    assert by_percentiles == 0 or truth > 0.01


def test_the_interval_of_a_mean_over_settings_is_that_of_the_means_of_examples() -> None:
    columns = [{"a": 1.0, "b": 0.0, "c": 1.0}, {"a": 1.0, "b": 0.0}]
    low, high = mean_interval([columns])
    assert low < 2 / 3 < high
    # one group of examples counts as much as another: (1 + 0) / 2
    low, high = mean_interval([[{"a": 1.0, "b": 1.0, "c": 1.0}], [{"a": 0.0}]])
    assert low < 0.5 < high


def test_resamples_draw_an_example_for_all_settings_together() -> None:
    means = resampled_means([{"a": 1.0, "b": 0.0, "c": 0.0}, {"a": 0.0, "b": 1.0, "c": 1.0}, {"a": 1.0}])
    assert means.shape == (1000, 3) and np.allclose(means[:, 0] + means[:, 1], 1)
    assert np.isnan(means[:, 2]).any() and set(np.unique(means[~np.isnan(means[:, 2]), 2])) == {1.0}


def test_a_rank_correlation_is_scipys_and_nan_without_spread() -> None:
    from scipy.stats import spearmanr

    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 4, (2, 5, 8)).astype(float)
    found = rank_correlation(a, b)
    assert found.shape == (5,)
    assert found[0] == pytest.approx(float(spearmanr(a[0], b[0]).statistic))
    assert math.isnan(float(rank_correlation([1, 1, 1], [1, 2, 3])))
