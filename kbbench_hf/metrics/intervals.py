"""Confidence intervals of a mean, for values in [0, 1] and for unbounded values (Clopper-Pearson, Student).

Chosen by measurement on real scores of the four benchmarks (`tests/endurance/coverage.py`). Student's interval and the
bootstrap cover too seldom if failures are rare, as they know no failure that is not in the sample.
"""

import math

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
