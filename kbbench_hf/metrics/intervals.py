"""Confidence intervals of a mean, from its variance and the size of its sample: where values have ends, and where not.

Decided by measurement on the real scores of the four benchmarks (`tests/endurance/coverage.py`). Student's interval and
the bootstrap see no failure that the sample does not hold, and cover too seldom where failures are rare.
"""

import math

CONFIDENCE = 0.95
UNSEEN = 0.09
"""How many examples at 0 the lower end reckons with although the sample did not hold them, and the upper end at 1."""
_Z = 1.959963984540054


def interval_of_fractions(mean: float, variance: float, n: float, freedom: float) -> tuple[float, float]:
    """Return the interval of a mean of values in [0, 1]: for 0 and 1 alone, that of Clopper and Pearson (1934).

    Other values vary less than those of a proportion with the same mean, and so count for more of them: the effective
    sample size n / ratio is put into the interval of a proportion (Korn and Graubard 1998), times their (z / t)^2 for
    the part of the variance that is estimated, and does not follow from the mean. Values that are alike say little of
    rare others: for the lower end the ratio is that of a sample with `UNSEEN` examples more at 0, for the upper at 1.
    The interval stays in [0, 1], holds the mean, never collapses, and moves little with any single value.

    It covers too seldom where failures weigh most and show least: graded values close to 1 with 1 to 3 failures in `n`
    examples, of which the sample may hold none. At n = 20, 50 and 100 it holds the mean of such made-up values 83 to 94
    times in 100, that of values of which 9 in 10 are one and the same between 0 and 1, 87 to 94, of all others 92 to 99
    (`tests/endurance/coverage.py --made-up`). A larger `UNSEEN` covers more and is wider without failures: 0.3 covers
    95 instead of 91 times in 100 on average, at least 87. More examples help.

    Args:
        mean: the mean, within [0, 1].
        variance: of one value.
        n: how many values, or of as many equally weighted ones the mean would be as uncertain (Kish 1965).
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
    """Return for how many values that are 0 or 1 these count, and the examples at an end that they did not hold."""
    unseen = n * UNSEEN / (n + UNSEEN) * (mean - unseen_at) ** 2
    ratio = min(max((n * variance + unseen) / (n * mean * (1 - mean) + unseen), 1e-12), 1.0)
    return n / ratio * (_Z / t_quantile(freedom / max(1 - ratio, 1e-9))) ** 2


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
