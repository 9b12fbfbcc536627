"""Is the difference real? Paired tests over the same examples, and ranks that say when they cannot tell."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kbbench_hf.metrics.aggregate import estimate

ALPHA = 0.05
N_RESAMPLES = 10_000
SEED = 42
EXACT_LIMIT = 13
"""Up to this many differing pairs, all sign patterns are enumerated: 2**13 is less than N_RESAMPLES."""


class PairedTest(NamedTuple):
    """Two systems on the same examples: mean of a - b, its 95 % interval, p-value, and who won how often."""

    difference: float
    ci95: tuple[float, float]
    p_value: float
    wins: int
    ties: int
    losses: int


def paired_test(
    a: ArrayLike, b: ArrayLike, groups: Sequence[str] | None = None, weights: Mapping[str, float] | None = None
) -> PairedTest:
    """Test whether two systems differ, with the paired randomisation test (Fisher's sign flips, two-sided).

    Pairs in which either value is NaN are left out. With `groups` the statistic is the (weighted) mean over groups of
    the mean difference, as in `aggregate.estimate`. Up to 13 differing pairs the test is exact; beyond that it draws
    10,000 sign patterns with a fixed seed and never returns less than 1 / 10,001.

    >>> test = paired_test([1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 1])
    >>> test.wins, test.ties, test.losses, test.p_value  # 2 of 2**5 sign patterns are as extreme
    (5, 1, 0, 0.0625)
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    both = ~(np.isnan(first) | np.isnan(second))
    differences = first[both] - second[both]
    kept_groups = None if groups is None else [str(group) for group in np.asarray(groups)[both]]
    mean = estimate(differences, kept_groups, weights, bounded=False)
    return PairedTest(
        mean.value,
        mean.ci95,
        _sign_flip_p(differences * _example_weights(kept_groups, weights, len(differences))),
        int((differences > 0).sum()),
        int((differences == 0).sum()),
        int((differences < 0).sum()),
    )


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


def rank_groups(names: Sequence[str], p_value: Callable[[str, str], float]) -> list[int]:
    """Return the rank group of each system, best first: those of a group cannot be told from its first one.

    Each system is tested against the first of its group; where it differs, it begins the next group. Holm's correction
    over all these tests then joins the groups whose beginning does not hold.

    Args:
        names: the systems, best first.
        p_value: the p-value of a paired test between two of them; NaN where there is nothing to test, which begins a
            group of its own.

    >>> p_values = {("good", "same"): 0.8, ("good", "bad"): 0.001}
    >>> rank_groups(["good", "same", "bad"], lambda a, b: p_values[a, b])
    [1, 1, 2]
    """
    leaders: list[int] = []
    tests: list[float] = []
    for position, name in enumerate(names):
        p = p_value(names[leaders[-1]], name) if leaders else math.nan
        tests.append(p)
        if not p > ALPHA:
            leaders.append(position)
    corrected = iter(holm([p for p in tests if not math.isnan(p)]))
    begins = [position for position, p in enumerate(tests) if math.isnan(p) or next(corrected) <= ALPHA]
    return [sum(begin <= position for begin in begins) for position in range(len(names))]


def minimum_detectable_effect(differences: ArrayLike, power: float = 0.8) -> float:
    """Return the smallest true mean difference that a paired test at 5 % would find with the given power.

    Normal approximation: (1.96 + z_power) * sd / sqrt(n). NaN where fewer than two pairs were scored.

    >>> round(minimum_detectable_effect([0.1, -0.1] * 50), 4)  # 2.8016 * 0.1005 / 10
    0.0282
    """
    from scipy.special import ndtri

    values = np.asarray(differences, dtype=np.float64)
    values = values[~np.isnan(values)]
    if len(values) < 2:
        return float("nan")
    return float((ndtri(0.975) + ndtri(power)) * values.std(ddof=1) / np.sqrt(len(values)))


def _example_weights(groups: Sequence[str] | None, weights: Mapping[str, float] | None, n: int) -> NDArray[np.float64]:
    """Return the weight of each example in the statistic: a mean of group means is a weighted sum of examples."""
    if groups is None:
        return np.ones(n)
    names, inverse, counts = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    weight = np.array([(weights or {}).get(str(name), 1.0) for name in names])
    return np.asarray((weight / counts)[inverse])


def _sign_flip_p(differences: NDArray[np.float64]) -> float:
    moved = differences[differences != 0]
    n = len(moved)
    if not n:
        return 1.0
    # sums of the same terms in another order may differ in the last bit
    observed = abs(float(moved.sum())) * (1 - 1e-12)
    if n <= EXACT_LIMIT:
        patterns = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
        return float((np.abs((2 * patterns - 1) @ moved) >= observed).mean())
    generator = np.random.Generator(np.random.PCG64(SEED))
    extreme, total = 0, float(moved.sum())
    for start in range(0, N_RESAMPLES, 500):
        rows = min(500, N_RESAMPLES - start)
        bits = np.unpackbits(generator.integers(0, 256, (rows, (n + 7) // 8), dtype=np.uint8), axis=1)[:, :n]
        extreme += int((np.abs(2 * (bits @ moved) - total) >= observed).sum())
    return (extreme + 1) / (N_RESAMPLES + 1)
