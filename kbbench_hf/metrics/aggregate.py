"""Means with 95 % confidence intervals and counts of examples: the only module that averages.

Measured scores are `Estimate`s of `estimate` or `means`. Stored results have its values, so that intervals
must stay the same to the last digit.

The intervals (Clopper-Pearson for values in [0, 1], else Student) are chosen by measurement on real scores of the four
benchmarks (`tests/endurance/coverage.py`). Student's interval and the bootstrap cover too seldom if failures are rare,
as they know no failure that is not in the sample.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

CONFIDENCE = 0.95
UNSEEN = 0.09
"""Number of unseen examples with value 0 that the lower end allows for, and with value 1 for the upper end."""
_Z = 1.959963984540054


def interval_of_fractions(mean: float, variance: float, n: float, freedom: float) -> tuple[float, float]:
    """Return the interval of a mean of values in [0, 1]: of Clopper and Pearson (1934) if all are 0 or 1.

    Other values vary less than a proportion with the same mean, which increases the effective sample size: n / ratio
    enters the interval of a proportion (Korn and Graubard 1998), times (z / t)^2 for the part of the variance that is
    estimated and does not follow from the mean. Equal values say little about rare others: the ratio for the lower end
    is that of a sample with `UNSEEN` more examples at 0, for the upper end at 1. The interval is in [0, 1], contains
    the mean, never collapses, and changes little with any single value.

    It covers too seldom for graded values close to 1 with 1 to 3 failures in `n` examples, as a sample may have none of
    them. At n = 20, 50 and 100 it covers the mean of such synthetic values 83 to 94 times in 100, of values of which 9
    in 10 are equal and between 0 and 1, 87 to 94, of all others 92 to 99 (`tests/endurance/coverage.py --made-up`). A
    larger `UNSEEN` covers more and is wider without failures: 0.3 covers 95 instead of 91 times in 100 on average, at
    least 87. More examples help.

    Args:
        mean: the mean, within [0, 1].
        variance: of one value.
        n: number of values, or of equally weighted values with the same uncertainty of the mean (Kish 1965).
        freedom: degrees of freedom of the variance.

    >>> [round(end, 3) for end in interval_of_fractions(1.0, 0.0, 10, 9)]  # ten times 1.0
    [0.692, 1.0]
    >>> [round(end, 3) for end in interval_of_fractions(0.5, 0.0, 10, 9)]  # ten times 0.5
    [0.466, 0.534]
    """
    from scipy.special import betaincinv

    if mean > 0:
        size = _effective_size(mean, variance, n, freedom, unseen_at=0)
        low = float(betaincinv(mean * size, (1 - mean) * size + 1, (1 - CONFIDENCE) / 2))
    else:
        low = 0.0
    if mean < 1:
        size = _effective_size(mean, variance, n, freedom, unseen_at=1)
        high = float(betaincinv(mean * size + 1, (1 - mean) * size, (1 + CONFIDENCE) / 2))
    else:
        high = 1.0
    return min(low, mean), max(high, mean)


def _effective_size(mean: float, variance: float, n: float, freedom: float, unseen_at: int) -> float:
    """Return the number of values of a proportion that these values, and unseen ones at an end, correspond to."""
    unseen = n * UNSEEN / (n + UNSEEN) * (mean - unseen_at) ** 2
    ratio = min(max((n * variance + unseen) / (n * mean * (1 - mean) + unseen), 1e-12), 1.0)
    return n / ratio * (_Z / t_quantile(freedom / max(1 - ratio, 1e-9))) ** 2


def student_interval(mean: float, variance: float, n: float, freedom: float) -> tuple[float, float]:
    """Return Student's interval, for unbounded values such as counts; arguments as in `interval_of_fractions`.

    It collapses if all values are equal; the interval of one value is infinite.

    >>> [round(end, 2) for end in student_interval(3.0, 2.5, 5, 4)]
    [1.04, 4.96]
    """
    half = t_quantile(freedom) * math.sqrt(variance / n) if n > 1 else math.inf
    return mean - half, mean + half


def t_quantile(freedom: float) -> float:
    """Return the two-sided 95 % quantile of Student's t."""
    from scipy.special import stdtrit  # scipy.stats takes ten times as long to import

    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))


SMALL_N = 20
"""Fewer scored examples say little: on real scores of the four benchmarks the mean width of an interval is .29 at 20
examples, .41 at 10 and .58 at 5. A failure rate of one in seven shows no failure in 20 examples one time in twenty."""
BORROWED = 2.0
"""Degrees of freedom with which the variance of all values contributes to that of a group."""


class Estimate(NamedTuple):
    """A mean with its 95 % confidence interval and counts of examples. NaN if nothing was scored."""

    value: float
    """The mean in the unit of the metric: for most a fraction, not a percentage."""
    ci95: tuple[float, float]
    """Lower and upper end."""
    n_scored: int
    """Examples in the mean."""
    n_unscored: int
    """Examples with the value NaN, which are not in the mean."""
    n_missing: int = 0
    """Examples without a prediction. The mode of the benchmark decides whether they count as worst or not at all."""

    @property
    def small(self) -> bool:
        """Whether there are fewer than `SMALL_N` scored examples."""
        return self.n_scored < SMALL_N


def estimate(
    values: ArrayLike,
    groups: Sequence[str] | NDArray[np.str_] | None = None,
    weights: Mapping[str, float] | None = None,
    *,
    bounded: bool = True,
    clusters: Sequence[str] | None = None,
) -> Estimate:
    """Return the mean of one value per example, or the weighted mean of the group means.

    NaN values were not scored: they are counted, but are not in the mean. If all values are in [0, 1], the interval is
    `interval_of_fractions`, else Student's. With groups the variance is that of a stratified sample, with
    Welch-Satterthwaite degrees of freedom. The variance of a group is shrunk toward that of all values, more so for
    small groups, as one example has no spread.

    Args:
        values: one value per example, shape (n,); NaN if not scored.
        groups: the group of each example (its ontology, for example); the value is then the mean over groups.
        weights: the weight of each group; 1 for groups without an entry.
        bounded: False for values that can be outside [0, 1] even if these are not, such as differences.
        clusters: the cluster of each example, where examples of one cluster depend on each other (questions on one
            document, for example). The value is the same; the interval is that of a sample of clusters.

    >>> estimate([1, 0, 1, 1]).value
    0.75
    >>> [round(end, 2) for end in estimate([1, 0, 1, 1]).ci95]
    [0.19, 0.99]
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
    names = None if groups is None else np.asarray(groups)[scored]
    if clusters is not None:
        moments = _clustered_moments(kept, np.asarray(clusters)[scored])
    else:
        moments = _moments(kept, names, weights or {})
    fractions = bounded and kept.min() >= 0 and kept.max() <= 1
    interval = interval_of_fractions(*moments) if fractions else student_interval(*moments)
    return Estimate(moments.mean, interval, n_scored, n_unscored)


def means(
    values: Mapping[str, NDArray[np.float64]], draws: Mapping[str, NDArray[np.float64]] | None = None
) -> dict[str, Estimate]:
    """Return the plain mean of every metric.

    Args:
        values: one value per example of each metric.
        draws: for metrics whose values are means over draws (seeds, for example), those of each draw, shape
            (draws, examples). The interval then spans those of all draws. Measured on the 17 systems of GenRES's CDR
            with 5 of 20 seeds: it covers the scores of 10 other seeds for 98 % of systems; the interval of the mean
            alone covers 34 %.

    >>> means({"f1": np.array([0.5, 1.0, np.nan])})["f1"].value
    0.75
    """
    found = {metric: estimate(column) for metric, column in values.items()}
    for metric, rows in (draws or {}).items():
        intervals = np.array([estimate(row).ci95 for row in rows])
        found[metric] = found[metric]._replace(ci95=(float(intervals[:, 0].min()), float(intervals[:, 1].max())))
    return found


def cluster_means(
    values: NDArray[np.float64], clusters: NDArray[np.str_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean of each cluster, and its share of the examples.

    >>> cluster_means(np.array([1.0, 0.0, 1.0]), np.array(["a", "a", "b"]))[0].tolist()
    [0.5, 1.0]
    """
    _, cluster, counts = np.unique(clusters, return_inverse=True, return_counts=True)
    return np.bincount(cluster, values) / counts, counts / len(values)


class _Moments(NamedTuple):
    """A mean, the variance of one value, the effective number of values, and the variance's degrees of freedom."""

    mean: float
    variance: float
    n: float
    freedom: float


def _moments(values: NDArray[np.float64], groups: NDArray[np.str_] | None, weights: Mapping[str, float]) -> _Moments:
    """Return the moments of a mean over groups; without groups there is one."""
    names, group, counts = np.array([""]), np.zeros(len(values), dtype=np.int64), np.array([len(values)])
    if groups is not None:
        names, group, counts = np.unique(groups, return_inverse=True, return_counts=True)
    weight = np.array([weights.get(str(name), 1.0) for name in names])
    weight /= weight.sum()
    means = np.array([math.fsum(values[group == g]) / counts[g] for g in range(len(names))])
    mean = min(max(math.fsum(weight * means), float(values.min())), float(values.max()))
    of_all = float((weight / counts)[group] @ (values - mean) ** 2)
    freedom = counts - 1 + BORROWED
    variances = (np.bincount(group, (values - means[group]) ** 2) + BORROWED * of_all) / freedom
    shares = weight**2 / counts
    parts = shares * variances
    n, total = 1 / float(shares.sum()), float(parts.sum())
    degrees = 1 / float(((parts / total) ** 2 / freedom).sum()) if total else float(freedom.sum())
    return _Moments(mean, n * total, n, degrees)


def _clustered_moments(values: NDArray[np.float64], clusters: NDArray[np.str_]) -> _Moments:
    """Return the moments of a mean over clusters that are weighted by size: a ratio of sums (Cochran 1977, 6.19)."""
    of_clusters, shares = cluster_means(values, clusters)
    mean, n = math.fsum(values) / len(values), len(shares)
    residuals = float(((n * shares * (of_clusters - mean)) ** 2).sum())
    n_equal = 1 / float((shares**2).sum())
    freedom = n - 1 + BORROWED
    return _Moments(mean, (residuals + BORROWED * residuals / n) / freedom * n_equal / n, n_equal, freedom)
