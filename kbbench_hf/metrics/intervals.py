"""Confidence intervals of a mean, from its variance and the size of its sample: where values have ends, and where not.

Decided by measurement on the real scores of the four benchmarks (`tests/endurance/coverage.py`). Student's interval and
the bootstrap see no failure that the sample does not hold, and cover too seldom where failures are rare.
"""

import math

CONFIDENCE = 0.95
UNSEEN = 0.075
"""How many examples at 0, and as many at 1, the spread of a sample reckons with although it did not hold them."""
_Z = 1.959963984540054


def interval_of_fractions(mean: float, variance: float, n: float, freedom: float) -> tuple[float, float]:
    """Return the interval of a mean of values in [0, 1]: for 0 and 1 alone, that of Clopper and Pearson (1934).

    Other values vary less than those of a proportion with the same mean, and so count for more of them: the effective
    sample size n / ratio is put into the interval of a proportion (Korn and Graubard 1998), times their (z / t)^2 for
    the part of the variance that is estimated, and does not follow from the mean. Values that are alike say little of
    rare others, so the ratio is that of a sample with `UNSEEN` examples more at each end. The interval stays in [0, 1],
    holds the mean, never collapses, and moves little with any single value.

    Args:
        mean: the mean, within [0, 1].
        variance: of one value.
        n: how many values, or of as many equally weighted ones the mean would be as uncertain (Kish 1965).
        freedom: degrees of freedom of the variance.

    >>> [round(end, 3) for end in interval_of_fractions(1.0, 0.0, 10, 9)]  # ten times 1.0
    [0.692, 1.0]
    >>> [round(end, 3) for end in interval_of_fractions(0.5, 0.0, 10, 9)]  # ten times 0.5
    [0.456, 0.544]
    """
    from scipy.special import betaincinv

    binary = mean * (1 - mean)
    with_unseen = (n * mean + UNSEEN) / (n + 2 * UNSEEN)
    added = (n + 2 * UNSEEN) * with_unseen * (1 - with_unseen) - n * binary
    ratio = min((n * variance + added) / (n * binary + added), 1.0)
    effective = n / ratio * (_Z / t_quantile(freedom / max(1 - ratio, 1e-9))) ** 2
    hits, misses = mean * effective, (1 - mean) * effective
    low = float(betaincinv(hits, misses + 1, (1 - CONFIDENCE) / 2)) if hits else 0.0
    high = float(betaincinv(hits + 1, misses, (1 + CONFIDENCE) / 2)) if misses else 1.0
    return min(low, mean), max(high, mean)


def student_interval(mean: float, variance: float, n: float, freedom: float) -> tuple[float, float]:
    """Return Student's interval, for values without ends (counts, say); arguments as in `interval_of_fractions`.

    It collapses where all values are alike, of which nothing can be said without ends; that of one value is infinite.

    >>> [round(end, 2) for end in student_interval(3.0, 2.5, 5, 4)]
    [1.04, 4.96]
    """
    half = t_quantile(freedom) * math.sqrt(variance / n) if n > 1 else math.inf
    return mean - half, mean + half


def t_quantile(freedom: float) -> float:
    """Return what Student's t exceeds, on both sides together, 5 times in 100."""
    from scipy.special import stdtrit  # scipy.stats takes ten times as long to import

    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))
