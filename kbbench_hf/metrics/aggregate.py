"""The only place that averages. A mean travels with its interval and with how many examples stand behind it."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

CONFIDENCE = 0.95


class Estimate(NamedTuple):
    """A figure with its 95 % confidence interval and the counts behind it. NaN where nothing was scored."""

    value: float
    ci95: tuple[float, float]
    n_scored: int
    n_unscored: int
    n_missing: int = 0


def estimate(
    values: ArrayLike,
    groups: Sequence[str] | None = None,
    weights: Mapping[str, float] | None = None,
    *,
    bounded: bool = True,
) -> Estimate:
    """Return the mean of one value per example, or the weighted mean of the group means.

    NaN values were not scored: they leave the mean and are counted. Without groups, values that are all 0 or 1 are a
    proportion and get Wilson's interval; anything else gets Student's. With groups the interval is stratified: the
    variance of the weighted group means, with Welch-Satterthwaite degrees of freedom. Where all values lie in [0, 1],
    so does the interval.

    Args:
        values: one value per example, NaN where not scored.
        groups: the group of each example (an ontology, say); the figure is then the mean over groups.
        weights: the weight of each group, 1 where it is not named.
        bounded: False for values that can leave [0, 1] even if these do not, such as differences.

    >>> estimate([1, 0, 1, 1])  # 3 of 4; Wilson's interval
    Estimate(value=0.75, ci95=(0.30064184258240184, 0.9544127391902995), n_scored=4, n_unscored=0, n_missing=0)
    >>> estimate([1, 1, 0, 0.5], groups=["a", "a", "b", "b"]).value  # (1 + 0.25) / 2
    0.625
    >>> estimate([]).value
    nan
    """
    array = np.asarray(values, dtype=np.float64)
    scored = ~np.isnan(array)
    n_scored, n_unscored = int(scored.sum()), int((~scored).sum())
    if not n_scored:
        return Estimate(math.nan, (math.nan, math.nan), 0, n_unscored)
    kept = array[scored]
    if groups is None:
        value, interval = _mean_with_interval(kept, bounded)
    else:
        value, interval = _mean_of_groups(kept, np.asarray(groups)[scored], weights or {})
    if bounded and kept.min() >= 0 and kept.max() <= 1:
        interval = (max(0.0, interval[0]), min(1.0, interval[1]))
    return Estimate(value, interval, n_scored, n_unscored)


def means(values: Mapping[str, NDArray[np.float64]]) -> dict[str, Estimate]:
    """Return the plain mean of every metric.

    >>> means({"f1": np.array([0.5, 1.0, np.nan])})["f1"].value
    0.75
    """
    return {metric: estimate(column) for metric, column in values.items()}


def _mean_with_interval(values: NDArray[np.float64], bounded: bool) -> tuple[float, tuple[float, float]]:
    n, value = len(values), math.fsum(values) / len(values)
    if bounded and np.isin(values, (0.0, 1.0)).all():
        return value, wilson_interval(value, n)
    half = _t_quantile(n - 1) * float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else math.inf
    return value, (value - half, value + half)


def wilson_interval(proportion: float, n: int) -> tuple[float, float]:
    """Return Wilson's score interval of a proportion seen in n examples (Wilson 1927); never degenerate at 0 or 1.

    >>> wilson_interval(0.0, 10)
    (0.0, 0.2775327998628892)
    """
    z = 1.959963984540054
    centre = (proportion + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(proportion * (1 - proportion) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return (max(0.0, centre - half) if proportion > 0 else 0.0, min(1.0, centre + half) if proportion < 1 else 1.0)


def _mean_of_groups(
    values: NDArray[np.float64], groups: NDArray[np.str_], weights: Mapping[str, float]
) -> tuple[float, tuple[float, float]]:
    names, inverse, counts = np.unique(groups, return_inverse=True, return_counts=True)
    weight = np.array([weights.get(str(name), 1.0) for name in names])
    weight /= weight.sum()
    group_means = np.array([math.fsum(values[inverse == g]) / counts[g] for g in range(len(names))])
    value = math.fsum(weight * group_means)
    residuals = values - group_means[inverse]
    freedom = np.maximum(counts - 1, 0)
    if not freedom.sum():
        return value, (-math.inf, math.inf)
    pooled = float((residuals**2).sum() / freedom.sum())
    variances = np.bincount(inverse, residuals**2) / np.maximum(freedom, 1)
    variances = np.where(counts > 1, variances, pooled)  # one example says nothing of its group's spread
    parts = weight**2 * variances / counts
    if not parts.sum():  # every group of one mind: Student's interval would claim certainty
        return value, wilson_interval(value, len(values)) if 0 <= value <= 1 else (value, value)
    degrees = parts.sum() ** 2 / (parts**2 / np.maximum(freedom, 1)).sum()
    half = _t_quantile(degrees) * math.sqrt(parts.sum())
    return value, (value - half, value + half)


def _t_quantile(degrees: float) -> float:
    from scipy.special import stdtrit  # scipy.stats takes ten times as long to import

    return float(stdtrit(degrees, 0.5 + CONFIDENCE / 2))
