"""How a score changes with the setting: over budgets and over orders."""

from collections.abc import Mapping
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
