"""How a score changes with the setting: over budgets, over orders, over kinds of noise, and whether subsets agree."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kbbench_hf.errors import UsageError


class Curve(NamedTuple):
    """A score over growing budgets, and what is lost on the way."""

    budgets: tuple[int, ...]
    values: tuple[float, ...]
    relative_drop: float
    """(first - last) / first; NaN where the first is 0."""
    largest_fall: float
    """The largest fall from one budget to the next; 0 where it only rises."""


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
    falls = [before - after for before, after in pairwise(values)]
    return Curve(budgets, values, drop, max([0.0, *falls]))


def population_std(values: ArrayLike) -> float:
    """Return the standard deviation over settings, divided by n: the paper's tables have settings, not samples of them.

    >>> round(population_std([55.12, 58.19, 60.23]), 2)  # table 7, KG, Llama-3.1-8B: 2.1
    2.1
    """
    return float(np.std(np.asarray(values, dtype=np.float64)))


def worst_order_drop(by_order: Mapping[str, float], reference: str = "random") -> float:
    """Return how much the worst order loses against a reference order; 0 where that one is the worst.

    >>> round(worst_order_drop({"prefix": 0.85, "random": 0.74, "suffix": 0.7}), 6)
    0.04

    Raises:
        UsageError: the reference order is not among them.
    """
    if reference not in by_order:
        raise UsageError(f"No order {reference!r}; expected one of {', '.join(by_order)}. Name another reference.")
    return float(by_order[reference] - min(by_order.values()))


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Return Spearman's rank correlation of two lists of scores of the same systems; ties share their mean rank.

    NaN for fewer than two systems, and where one list is constant.

    >>> spearman([1, 2, 3], [10, 30, 20])  # 1 - 6 * (0 + 1 + 1) / (3 * 8)
    0.5

    Raises:
        UsageError: the lists differ in length.
    """
    if len(a) != len(b):
        raise UsageError(f"Lists of {len(a)} and {len(b)} scores; expected one score per system in both. Align them.")
    x, y = (_mean_ranks(values) for values in (a, b))
    x, y = x - x.mean() if len(x) else x, y - y.mean() if len(y) else y
    scale = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / scale if scale else float("nan")


def _mean_ranks(values: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    array = np.asarray(values, dtype=np.float64)
    ordered = np.sort(array)
    low, high = (np.searchsorted(ordered, array, side=side) for side in ("left", "right"))
    return np.asarray((low + high + 1) / 2, dtype=np.float64)
