"""Intervals of a mean that were measured and not chosen (`coverage --method`)."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

Column = NDArray[np.float64]
N_RESAMPLES = 999


def before(values: Column) -> tuple[float, float]:
    """Return what this package had: Wilson's interval for 0 and 1, Student's for anything else, cut at 0 and 1."""
    n, mean = len(values), float(values.mean())
    if np.isin(values, (0.0, 1.0)).all():
        low, high = stats.binomtest(round(mean * n), n).proportion_ci(method="wilson")
        return float(low), float(high)
    half = stats.t.ppf(0.975, n - 1) * values.std(ddof=1) / math.sqrt(n)
    return max(0.0, mean - half), min(1.0, mean + half)


def bca(values: Column) -> tuple[float, float]:
    """Return scipy's bias-corrected and accelerated bootstrap (Efron 1987)."""
    if values.std() == 0:
        return values[0], values[0]
    found = stats.bootstrap((values,), np.mean, n_resamples=N_RESAMPLES, method="BCa", rng=np.random.default_rng(42))
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def bootstrap_t(values: Column) -> tuple[float, float]:
    """Return the bootstrap of Student's t (Efron 1979), cut at 0 and 1."""
    n, mean, error = len(values), values.mean(), values.std(ddof=1) / math.sqrt(len(values))
    drawn = values[np.random.default_rng(42).integers(0, n, (N_RESAMPLES, n))]
    errors = drawn.std(axis=1, ddof=1) / math.sqrt(n)
    varied = errors > 0
    low, high = np.quantile((drawn.mean(axis=1) - mean)[varied] / errors[varied] if error else [0.0], [0.025, 0.975])
    return max(0.0, float(mean - high * error)), min(1.0, float(mean - low * error))


def likelihood(values: Column) -> tuple[float, float]:
    """Return Owen's empirical likelihood (1988), calibrated by F instead of chi squared for small samples."""
    n, mean = len(values), float(values.mean())
    limit = float(stats.f.ppf(0.95, 1, n - 1))

    def excess(truth: float) -> float:
        gaps = values - truth
        if gaps.min() >= 0 or gaps.max() <= 0:
            return math.inf
        ends = (1 / n - 1) / gaps.max(), (1 / n - 1) / gaps.min()
        weight = optimize.brentq(lambda w: float((gaps / (1 + w * gaps)).sum()), *ends)
        return 2 * float(np.log1p(weight * gaps).sum()) - limit

    def end(bound: float) -> float:
        if bound == mean:
            return mean
        inside, outside = mean, bound
        for _ in range(40):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if excess(middle) <= 0 else (inside, middle)
        return inside

    return end(float(values.min())), end(float(values.max()))


def betting(values: Column) -> tuple[float, float]:
    """Return the hedged betting interval of Waudby-Smith and Ramdas (2024) for values in [0, 1], on a grid."""
    n = len(values)
    counts = np.arange(1, n + 1)
    running = (0.5 + np.cumsum(values)) / (counts + 1)
    spread = (0.25 + np.cumsum((values - running) ** 2)) / (counts + 1)
    bets = np.sqrt(2 * math.log(2 / 0.05) / (n * np.concatenate([[0.25], spread[:-1]])))
    grid = np.linspace(0, 1, 1001)
    gaps = values[:, None] - grid
    up = np.cumsum(np.log1p(np.minimum(bets[:, None], 0.5 / np.maximum(grid, 1e-9)) * gaps), axis=0)
    down = np.cumsum(np.log1p(-np.minimum(bets[:, None], 0.5 / np.maximum(1 - grid, 1e-9)) * gaps), axis=0)
    kept = grid[(np.maximum(up, down) + math.log(0.5) < math.log(1 / 0.05)).all(axis=0)]
    return float(kept.min()), float(kept.max())


METHODS: dict[str, Callable[[Column], tuple[float, float]]] = {
    "before": before,
    "bca": bca,
    "bootstrap-t": bootstrap_t,
    "likelihood": likelihood,
    "betting": betting,
}
