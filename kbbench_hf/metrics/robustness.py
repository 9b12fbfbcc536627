"""Robustness of scores over budgets, orders and kinds of knowledge: drops, standard deviations, intervals.

SKA-Bench's tables and testbeds use it, and the calibration of thresholds its rank correlation.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kbbench_hf.errors import UsageError
from kbbench_hf.metrics.aggregate import estimate

DRAWS = 1000
"""Number of resamples of an interval."""
SEED = 42

Column = Mapping[int | str, float]
"""Example -> its value in one setting; examples that are not in the setting are absent."""


class Curve(NamedTuple):
    """A score over growing budgets, and its relative drop."""

    budgets: tuple[int, ...]
    values: tuple[float, ...]
    relative_drop: float
    """(first - last) / first; NaN if the first is 0."""


def curve(by_budget: Mapping[int, float]) -> Curve:
    """Return a score over budgets, smallest first.

    The relative drop is the paper's: Llama-3.1-8B on Table+Text falls from 30.27 at 4k to 12.48 at 24k, by 58.77 %
    (arXiv 2507.17178, table 3).

    >>> curve({24576: 12.48, 4096: 30.27, 12288: 18.44}).relative_drop
    0.5877106045589693

    Raises:
        UsageError: there is no budget at all.
    """
    if not by_budget:
        raise UsageError("A curve without budgets; expected at least one score. Score a noise testbed first.")
    budgets = tuple(sorted(by_budget))
    values = tuple(float(by_budget[budget]) for budget in budgets)
    drop = (values[0] - values[-1]) / values[0] if values[0] else float("nan")
    return Curve(budgets, values, drop)


def population_std(values: ArrayLike) -> float:
    """Return the population standard deviation over settings: the paper's tables have all settings, not a sample.

    >>> round(population_std([55.12, 58.19, 60.23]), 2)  # table 7, KG, Llama-3.1-8B: 2.1
    2.1
    """
    array = np.asarray(values, dtype=np.float64)
    return float(np.std(array)) if np.ptp(array) else 0.0  # 0 and not 1e-16 for equal values, whose mean is rounded


def worst_order_drop(by_order: Mapping[str, float], reference: str = "random") -> float:
    """Return the difference of a reference order and the worst order; 0 if the reference is the worst.

    >>> round(worst_order_drop({"prefix": 0.85, "random": 0.74, "suffix": 0.7}), 6)
    0.04

    Raises:
        UsageError: the reference order is not among them.
    """
    if reference not in by_order:
        raise UsageError(f"No order {reference!r}; expected one of {', '.join(by_order)}. Name another reference.")
    return float(by_order[reference] - min(by_order.values()))


def resampled_means(columns: Sequence[Column], seed: int = SEED) -> NDArray[np.float64]:
    """Return the mean of every setting under resamples of the examples, the same ones for all: shape (draws, settings).

    Settings are paired: an example is drawn for all settings together, so its difficulty does not widen their
    differences. NaN if a resample has no example of a setting.

    >>> resampled_means([{"a": 1.0, "b": 0.0}, {"a": 0.0, "b": 1.0}]).sum(axis=1).tolist()[:3]
    [1.0, 1.0, 1.0]
    """
    examples = {
        each: position for position, each in enumerate(sorted({id_ for column in columns for id_ in column}, key=str))
    }
    values = np.full((len(examples), len(columns)), np.nan)
    for position, column in enumerate(columns):
        values[[examples[each] for each in column], position] = list(column.values())
    there = ~np.isnan(values)
    shares = np.full(len(examples), 1 / max(1, len(examples)))
    weights = np.random.default_rng(seed).multinomial(len(examples), shares, size=DRAWS).astype(np.float64)
    with np.errstate(invalid="ignore"):
        means: NDArray[np.float64] = (weights @ np.where(there, values, 0.0)) / (weights @ there)
    return means


def std_interval(groups: Sequence[Sequence[Column]]) -> tuple[float, float]:
    """Return a 95 % interval of the standard deviation over settings; of several groups, that of their mean deviation.

    Means of samples differ even between equal settings, and resampling adds to it: percentiles of a resampled deviation
    are always above a true 0. Therefore the interval is the deviation plus or minus the 95 % quantile of the deviation
    over settings of the resampled changes; a deviation cannot change by more. It covers in 94 to 99 of 100 samples of
    60 and 240 examples in 3 and 4 settings, equal or different; percentiles in 0 to 95.

    Args:
        groups: for each group of examples (a subset, for example), the value of each example in each setting.

    >>> alike = {n: float(n % 2) for n in range(100)}
    >>> std_interval([[alike, alike]])
    (0.0, 0.0)
    """
    value, apart = 0.0, np.zeros(DRAWS)
    for seed, columns in enumerate(groups):
        means = np.array([np.mean(list(column.values())) for column in columns])
        value += float(means.std()) / len(groups)
        apart += (resampled_means(columns, seed) - means).std(axis=1) / len(groups)
    most = float(np.nanquantile(apart, 0.95))
    return max(0.0, value - most), value + most


def mean_interval(groups: Sequence[Sequence[Column]]) -> tuple[float, float]:
    """Return a 95 % interval of the mean over settings, from the mean of each example over its settings.

    For several groups, the interval of the mean of their means; arguments as in `std_interval`.

    >>> [round(end, 2) for end in mean_interval([[{"a": 1.0, "b": 0.0}, {"a": 0.0, "b": 1.0}]])]
    [0.27, 0.73]
    """
    values: dict[tuple[int, int | str], list[float]] = {}
    for group, columns in enumerate(groups):
        for column in columns:
            for example, value in column.items():
                values.setdefault((group, example), []).append(value)
    of_group = [str(group) for group, _ in values] if len(groups) > 1 else None
    return estimate([float(np.mean(each)) for each in values.values()], of_group).ci95


def rank_correlation(a: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
    """Return Spearman's rank correlation over the last axis, with mean ranks of ties; NaN without any spread.

    The result has the shape of `a` without its last axis.

    >>> rank_correlation([0.1, 0.2, 0.3], [0.5, 0.9, 0.7]).round(2).tolist()
    0.5
    """
    from scipy.stats import rankdata

    x, y = (rankdata(side, axis=-1) for side in (np.asarray(a), np.asarray(b)))
    x, y = x - x.mean(axis=-1, keepdims=True), y - y.mean(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        result: NDArray[np.float64] = (x * y).sum(axis=-1) / np.sqrt((x**2).sum(axis=-1) * (y**2).sum(axis=-1))
    return result
