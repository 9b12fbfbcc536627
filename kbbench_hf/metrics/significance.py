"""Paired randomization tests, Holm's correction, rank groups and minimum detectable effects.

`compare`, `power`, the leaderboard and training call `paired_test` and `rank_groups`. Seeds and the order of draws are
fixed: the same two systems always get the same p-value.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kbbench_hf.metrics.aggregate import cluster_means, estimate

ALPHA = 0.05
N_RESAMPLES = 10_000
SEED = 42
_ROWS = 2_000
"""Number of sign patterns drawn at once, a divisor of N_RESAMPLES."""
EXACT_LIMIT = 13
"""Up to this many differing pairs, all sign patterns are enumerated: 2**13 is less than N_RESAMPLES."""
FEWEST_PAIRS = 6
"""With fewer differing pairs no test at 5 % is significant: 2 of 2**5 sign patterns are 6 %."""
ROUNDING = 1e-12
"""Relative difference up to which values and sums are equal, by the magnitude of their terms."""
Array = NDArray[np.float64]


class PairedTest(NamedTuple):
    """Two systems on the same examples: mean of a - b, its 95 % interval, p-value, wins, ties and losses."""

    difference: float
    """The mean of a - b in the unit of the metric; NaN without pairs."""
    ci95: tuple[float, float]
    """Lower and upper end of its interval."""
    p_value: float
    """Two-sided, not corrected for multiple tests: see `holm`."""
    wins: int
    """Pairs in which a is greater; better, where systems are compared (`with_better`)."""
    ties: int
    losses: int
    """Pairs in which a is less; worse, where systems are compared."""

    @property
    def small(self) -> bool:
        """Whether fewer than `FEWEST_PAIRS` pairs differ, so that the test cannot be significant."""
        return self.wins + self.losses < FEWEST_PAIRS

    def with_better(self, *, lower: bool) -> "PairedTest":
        """Return the test with the better value of a pair as the win, the lower one if `lower`."""
        return self._replace(wins=self.losses, losses=self.wins) if lower else self


def paired_test(
    a: ArrayLike,
    b: ArrayLike,
    groups: Sequence[str] | None = None,
    weights: Mapping[str, float] | None = None,
    *,
    level: float = ALPHA,
    clusters: Sequence[str] | None = None,
) -> PairedTest:
    """Test whether two systems differ, with the paired randomization test (Fisher's sign flips, two-sided).

    Pairs with a NaN are left out. With `groups` the statistic is the (weighted) mean over groups of the mean
    difference, as in `aggregate.estimate`. Up to 13 differing pairs the test is exact; beyond that it draws 10,000 sign
    patterns with a fixed seed, and p is at least 1 / 10,001. Differences, and sums of them, that differ only by
    rounding are equal.

    The interval contains the differences that the same sign patterns do not reject at `level`. It excludes 0 exactly if
    p is at most that level (0.05 by default): its ends are quantiles of the means of the subsets that the patterns flip
    (Hartigan 1969). Systems with equal values on every example differ by 0, in [0, 0]. With too few pairs no difference
    is rejected; if all values are in [0, 1], the interval is then [-1, 1].

    Values from several draws (seeds, for example) have one row per draw, shape (draws, examples). A difference must be
    in every draw: p is the largest, the interval spans those of all draws, the rest is of the mean over draws.

    With `clusters` the differences of one cluster (the questions on one document, for example) get one sign together,
    and there are as many signs as clusters with a difference. Wins, ties and losses are still those of examples.

    >>> test = paired_test([1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 1])
    >>> test.wins, test.ties, test.losses, test.p_value  # 2 of 2**5 sign patterns are as extreme
    (5, 1, 0, 0.0625)
    >>> paired_test([0.25, 0.5], [0.25, 0.5])
    PairedTest(difference=0.0, ci95=(0.0, 0.0), p_value=1.0, wins=0, ties=2, losses=0)
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.ndim == 2:
        means = first.mean(axis=0), second.mean(axis=0)
        *drawn, test = (
            paired_test(*rows, groups, weights, level=level, clusters=clusters)
            for rows in [*zip(first, second, strict=True), means]
        )
        ends = [end for each in drawn for end in each.ci95]
        return test._replace(ci95=(min(ends), max(ends)), p_value=max(each.p_value for each in drawn))
    both = ~(np.isnan(first) | np.isnan(second))
    first, second = first[both], second[both]
    differences = first - second
    differences[np.abs(differences) <= ROUNDING * np.maximum(np.abs(first), np.abs(second))] = 0.0
    if not len(differences):
        return PairedTest(math.nan, (math.nan, math.nan), 1.0, 0, 0, 0)
    of_pairs = None if groups is None else np.asarray(groups)[both]
    if clusters is None:
        units, shares = differences, _shares(of_pairs, weights, len(differences))
    else:
        units, shares = cluster_means(differences, np.asarray(clusters)[both])
    p_value, (low, high) = _flip_signs(units, shares, level)
    if min(first.min(), second.min()) >= 0 and max(first.max(), second.max()) <= 1:
        low, high = max(low, -1.0), min(high, 1.0)
    difference = estimate(differences, of_pairs, weights, bounded=False).value
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    interval = min(low, difference), max(high, difference)
    return PairedTest(difference, interval, p_value, wins, len(differences) - wins - losses, losses)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for multiple testing (Holm 1979), in the order given.

    >>> holm([0.01, 0.04, 0.03])  # sorted: 3 * .01, 2 * .03, then never less than the one before
    [0.03, 0.06, 0.06]
    """
    adjusted, running = [0.0] * len(p_values), 0.0
    for position, index in enumerate(np.argsort(p_values, kind="stable")):
        running = max(running, min(1.0, (len(p_values) - position) * p_values[index]))
        adjusted[index] = running
    return adjusted


def holm_levels(p_values: Sequence[float]) -> list[float]:
    """Return the level at which each test's interval excludes 0 exactly if its p-value by `holm` is at most 5 %.

    >>> [round(level, 4) for level in holm_levels([0.01, 0.04, 0.03])]  # .05 / 3, then .05 / 2
    [0.0167, 0.025, 0.025]
    """
    adjusted, n = holm(p_values), len(p_values)
    order = [int(index) for index in np.argsort(p_values, kind="stable")]
    n_rejected = sum(p <= ALPHA for p in adjusted)
    levels = [0.0] * n
    for position, index in enumerate(order):
        levels[index] = ALPHA / (n - min(position, n_rejected, n - 1))
    return levels


def rank_groups(names: Sequence[str], p_value: Callable[[str, str], float]) -> list[int]:
    """Return the rank group of each system, best first: systems of a group do not differ significantly from its first.

    Each system is tested against the first of its group; if it differs, it starts the next group. If such a difference
    is not significant after Holm's correction over all these tests, groups are formed again with half the level, which
    tests the system against the first of its new group.

    Args:
        names: the systems, best first.
        p_value: the p-value of a paired test of two systems; NaN without a test, which starts a new group.

    >>> p_values = {("good", "same"): 0.8, ("good", "bad"): 0.001}
    >>> rank_groups(["good", "same", "bad"], lambda a, b: p_values[a, b])
    [1, 1, 2]
    """
    level = ALPHA
    while True:
        leaders: list[int] = []
        tests: list[float] = []
        for position, name in enumerate(names):
            p = p_value(names[leaders[-1]], name) if leaders else math.nan
            tests.append(p)
            if not p > level:
                leaders.append(position)
        tested = [position for position, p in enumerate(tests) if not math.isnan(p)]
        corrected = dict(zip(tested, holm([tests[position] for position in tested]), strict=True))
        if all(corrected.get(leader, 0.0) <= ALPHA for leader in leaders):  # at the latest if level is ALPHA / n
            return [sum(leader <= position for leader in leaders) for position in range(len(names))]
        level /= 2


def minimum_detectable_effect(
    differences: ArrayLike,
    power: float = 0.8,
    clusters: Sequence[str] | None = None,
    groups: Sequence[str] | None = None,
) -> float:
    """Return the smallest true mean difference that a paired test at 5 % detects with the given power.

    It is the sum of `detectable_parts`; NaN with fewer than two scored pairs, or clusters of them.

    >>> round(minimum_detectable_effect([0.1, -0.1] * 50), 4)  # 2.8016 * 0.1005 / 10 + 0.1 / 100
    0.0292
    """
    return sum(detectable_parts(differences, power, clusters, groups))


def detectable_parts(
    differences: ArrayLike,
    power: float = 0.8,
    clusters: Sequence[str] | None = None,
    groups: Sequence[str] | None = None,
) -> tuple[float, float]:
    """Return the parts of the minimum detectable effect that shrink with the root of n, and with n.

    The first is the normal approximation, (1.96 + z_power) * sd / sqrt(n). The second is a continuity correction, 1 / n
    for hits: if all differences have the same size, their mean has steps, and the test is conservative by half of one.
    With `groups` the mean is that of the groups' means, as in `paired_test`; with `clusters` there are no groups.

    >>> normal, step = detectable_parts([1, -1, 0, 0] * 25)
    >>> round(normal, 3), step
    (0.199, 0.01)
    """
    from scipy.special import ndtri

    values = np.asarray(differences, dtype=np.float64)
    scored = ~np.isnan(values)
    units = values[scored]
    if clusters is not None and len(units):
        units, shares = cluster_means(units, np.asarray(clusters)[scored])
    else:
        shares = _shares(None if groups is None else np.asarray(groups)[scored], None, len(units) or 1)
    if len(units) < 2:
        return math.nan, math.nan
    n, mean = len(units), float(shares @ units)
    error = math.sqrt(n / (n - 1) * float((shares**2 * (units - mean) ** 2).sum()))
    sizes = np.abs(shares * units)[units != 0]
    step = float(sizes[0]) if len(sizes) and np.ptp(sizes) <= ROUNDING * sizes[0] else 0.0
    return float((ndtri(0.975) + ndtri(power)) * error), step


def _shares(groups: Sequence[str] | NDArray[np.str_] | None, weights: Mapping[str, float] | None, n: int) -> Array:
    """Return the weight of each example in the statistic, as a mean of group means is a weighted mean of examples."""
    if groups is None:
        return np.full(n, 1 / n)
    names, inverse, counts = np.unique(groups, return_inverse=True, return_counts=True)
    weight = np.array([(weights or {}).get(str(name), 1.0) for name in names])
    return np.asarray((weight / weight.sum() / counts)[inverse])


def _flip_signs(differences: Array, shares: Array, level: float) -> tuple[float, tuple[float, float]]:
    """Return the p-value of a weighted mean of differences, and the interval of differences that are not rejected.

    Flipping the signs of a subset makes the mean as extreme or more, on the side of its sign, if the flipped
    differences sum to 0 or less. Therefore a shift of all differences is rejected by the patterns that reject 0 for the
    shifted differences: those with a subset whose mean is beyond the shift.
    """
    moved = differences != 0
    if not moved.any():
        return 1.0, (0.0, 0.0)
    terms, tied = (shares * differences)[moved], shares[~moved]
    exact = len(terms) <= EXACT_LIMIT
    flipped, flipped_shares = _enumerated(terms, shares[moved], tied) if exact else _drawn(terms, shares[moved], tied)
    total, tolerance = math.fsum(terms), ROUNDING * float(np.abs(terms).sum())
    extreme = np.abs(total - 2 * flipped) >= abs(total) - 2 * tolerance
    p_value = float(extreme.mean()) if exact else (int(extreme.sum()) + 1) / (len(flipped) + 1)
    # each pattern and its opposite; the empty subset rejects no shift, the whole one rejects all
    sums, sizes = np.append(flipped, total - flipped), np.append(flipped_shares, 1.0 - flipped_shares)
    sums[np.abs(sums) <= tolerance] = 0.0
    empty = sizes <= ROUNDING
    subset_means = sums / np.where(empty, 1.0, sizes)
    lows, highs = np.where(empty, -math.inf, subset_means), np.where(empty, math.inf, subset_means)
    if not exact:  # the observed pattern, as in the p-value
        lows, highs = np.append(lows, [-math.inf, total]), np.append(highs, [math.inf, total])
    outside = math.floor(level / 2 * len(lows))
    low = np.partition(lows, outside)[outside]
    high = np.partition(highs, len(highs) - 1 - outside)[len(highs) - 1 - outside]
    return p_value, (float(low), float(high))


def _enumerated(terms: Array, shares: Array, tied: Array) -> tuple[Array, Array]:
    """Return the sums of terms and of shares of every subset, repeated with drawn ties if there are any."""
    patterns = (np.arange(2 ** len(terms))[:, None] >> np.arange(len(terms))) & 1
    flipped, flipped_shares = patterns @ terms, patterns @ shares
    if not len(tied):
        return flipped, flipped_shares
    times = math.ceil(N_RESAMPLES / len(patterns))
    return np.repeat(flipped, times), np.repeat(flipped_shares, times) + _drawn_ties(tied, times * len(patterns))


def _drawn(terms: Array, shares: Array, tied: Array) -> tuple[Array, Array]:
    """Return the sums of terms and of shares of `N_RESAMPLES` subsets with each example by a fair coin.

    Eight coins are one byte, and a table has what each byte adds to both sums.
    """
    generator = np.random.Generator(np.random.PCG64(SEED))
    n_bytes = (len(terms) + 7) // 8
    columns = np.zeros((8 * n_bytes, 2))
    columns[: len(terms)] = np.stack([terms, shares], axis=1)
    coins_of_byte = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float64)
    added = coins_of_byte @ columns.reshape(n_bytes, 8, 2)
    sums = np.zeros((N_RESAMPLES, 2))
    for start in range(0, N_RESAMPLES, _ROWS):
        drawn = generator.integers(0, 256, (_ROWS, n_bytes), dtype=np.uint8)
        for of_byte, table in zip(np.ascontiguousarray(drawn.T), added, strict=True):
            sums[start : start + _ROWS] += table.take(of_byte, axis=0)
    return sums[:, 0], sums[:, 1] + _drawn_ties(tied, N_RESAMPLES)


def _drawn_ties(tied: Array, times: int) -> Array:
    """Return the shares of random subsets of the ties; the number of ties with equal shares is one binomial draw."""
    generator = np.random.Generator(np.random.PCG64(SEED + 1))
    drawn = np.zeros(times)
    for share, count in zip(*np.unique(tied, return_counts=True), strict=True):
        drawn += share * generator.binomial(count, 0.5, times)
    return drawn
