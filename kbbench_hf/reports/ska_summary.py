"""What SKA-Bench's testbeds say together: robustness over budgets and orders, agreement of subsets."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kbbench_hf.benchmarks.ska_configs import Config, configs
from kbbench_hf.benchmarks.ska_units import SUBSETS
from kbbench_hf.metrics.robustness import Curve, curve, population_std, spearman, worst_order_drop

Figures = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Config -> metric -> {"value", "ci95"}, as `result.json` has them: the results of one system."""


class Robustness(NamedTuple):
    """How steady one system is on one subset; None where the testbed was not run."""

    over_budgets: Curve | None
    std_over_orders: float | None
    """Population standard deviation of F1 over the orders that were run."""
    worst_order_drop: float | None
    """What the worst order loses against the noise testbed's own."""


def robustness(figures: Figures) -> dict[str, Robustness]:
    """Return the robustness of a system on each subset of which it has results.

    >>> results = {f"noise_kg_{k}": {"answer_f1": {"value": v, "ci95": [v, v]}} for k, v in (("1k", 0.8), ("4k", 0.6))}
    >>> round(robustness(results)["kg"].over_budgets.relative_drop, 6)
    0.25
    """
    found: dict[str, Robustness] = {}
    for subset in SUBSETS:
        by_budget = {config.budget: value for config, value in values_of(figures, "noise", subset)}
        by_order = {config.setting: value for config, value in values_of(figures, "order", subset)}
        natural = "original" if subset.startswith("table") else "random"
        if by_budget or by_order:
            found[subset] = Robustness(
                curve(by_budget) if by_budget else None,
                population_std(list(by_order.values())) if by_order else None,
                worst_order_drop(by_order, natural) if natural in by_order else None,
            )
    return found


def agreement(systems: Sequence[Figures], config: str, other: str, metric: str = "answer_f1") -> float:
    """Return Spearman's correlation of two configs over the systems that have results of both.

    NaN where fewer than two do, or where one config gives all of them the same figure.
    """
    both = [each for each in systems if config in each and other in each]
    return spearman(*([float(each[name][metric]["value"]) for each in both] for name in (config, other)))


def values_of(figures: Figures, testbed: str, subset: str, metric: str = "answer_f1") -> list[tuple[Config, float]]:
    """Return (config, figure) of every config of a testbed and subset of which there is a figure."""
    return [
        (config, float(figures[name][metric]["value"]))
        for name, config in configs().items()
        if (config.testbed, config.subset) == (testbed, subset)
        and figures.get(name, {}).get(metric, {}).get("value") is not None
    ]
