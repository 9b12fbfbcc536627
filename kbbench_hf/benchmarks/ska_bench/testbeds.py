"""What SKA-Bench's testbeds say together: robustness over budgets and orders, and the pictures of the paper."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from kbbench_hf.benchmarks.base import Figure, Figures, Result, Systems, Testbed
from kbbench_hf.benchmarks.charts import FigureTable, Panel, Panels, Point
from kbbench_hf.benchmarks.ska_bench.cells import shown
from kbbench_hf.benchmarks.ska_bench.configs import (
    BUCKETS,
    BUDGETS,
    DEPTHS,
    PAPER_BUDGETS,
    STANDARD,
    Config,
    configs,
    configs_of,
)
from kbbench_hf.benchmarks.ska_bench.units import SUBSETS
from kbbench_hf.metrics.robustness import Curve, curve, population_std, worst_order_drop

TITLES = {"kg": "KG", "table": "Table", "kg_text": "KG + Text", "table_text": "Table + Text"}
ORDERS = ("original", "prefix", "random", "suffix")


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


def values_of(figures: Figures, testbed: str, subset: str, metric: str = "answer_f1") -> list[tuple[Config, float]]:
    """Return (config, figure) of every config of a testbed and subset of which there is a figure."""
    return [
        (config, float(figures[name][metric]["value"]))
        for name, config in configs().items()
        if (config.testbed, config.subset) == (testbed, subset)
        and figures.get(name, {}).get(metric, {}).get("value") is not None
    ]


def summary(figures: Figures) -> list[str]:
    """Return what a system's results say together, a sentence for each subset."""
    sentences = []
    for subset, found in robustness(figures).items():
        parts = []
        if found.over_budgets and found.over_budgets.relative_drop == found.over_budgets.relative_drop:
            parts.append(f"relative drop over budgets {found.over_budgets.relative_drop:.3f}")
        if found.std_over_orders is not None:
            parts.append(f"standard deviation over orders {found.std_over_orders:.4f}")
        if found.worst_order_drop is not None:
            parts.append(f"worst order loses {found.worst_order_drop:.4f}")
        if parts:
            sentences.append(f"{subset}: {', '.join(parts)}")
    return sentences


def integration(results: Mapping[str, Result]) -> FigureTable:
    """Return F1 by the number of units that an answer needs, of finished runs (as `result.json` has them)."""
    rows = {
        config: [shown(figure["answer_f1"]) if (figure := _buckets(result).get(each)) else None for each in BUCKETS]
        for config, result in results.items()
    }
    return FigureTable(
        "integration", "F1 by units needed", [("units needed", each) for each in BUCKETS], rows, "config"
    )


def _buckets(result: Result) -> Figures:
    found: Figures = result["slices"].get("n_required", {})
    return found


def noise_panels(systems: Mapping[str, Figures]) -> Panels:
    """Return F1 over token budgets, a panel per subset, a line per system with its 95 % interval as a band."""

    def points(figures: Figures, subset: str) -> list[Point]:
        found = sorted(values_of(figures, "noise", subset), key=lambda point: point[0].budget)
        return [Point(config.budget, value, _interval(figures[config.name]["answer_f1"])) for config, value in found]

    panels = _panels(systems, points)
    most = max((point.x for panel in panels for drawn in panel.series.values() for point in drawn), default=0)
    ticks = {float(BUDGETS[size]): size for size in BUDGETS if BUDGETS[size] <= most or size in PAPER_BUDGETS}
    return Panels(panels, "tokens of knowledge base", "F1 ↑", ticks, joined=True, logarithmic=True)


def order_panels(systems: Mapping[str, Figures]) -> Panels:
    """Return F1 by the place of the positive units, a panel per subset, a marker per system with its 95 % interval."""

    def points(figures: Figures, subset: str) -> list[Point]:
        return [
            Point(ORDERS.index(config.setting), value, _interval(figures[config.name]["answer_f1"]))
            for config, value in values_of(figures, "order", subset)
        ]

    ticks = {float(place): order for place, order in enumerate(ORDERS)}
    return Panels(_panels(systems, points), "", "F1 ↑", ticks, side_by_side=True)


def depth_panels(systems: Mapping[str, Figures]) -> Panels:
    """Return F1 by how much of the noise stands before the positive units, a line per system with its band."""

    def points(figures: Figures, subset: str) -> list[Point]:
        return [
            Point(100 * (config.depth or 0), value, _interval(figures[config.name]["answer_f1"]))
            for config, value in values_of(figures, "depth", subset)
        ]

    ticks = {float(depth): f"{depth} %" for depth in DEPTHS}
    return Panels(_panels(systems, points), "noise before the positive units", "F1 ↑", ticks, joined=True)


def hardness_panels(systems: Mapping[str, Figures]) -> Panels:
    """Return F1 by how near the noise is, a marker per system with its 95 % interval; mixed is the noise testbed's."""

    def points(figures: Figures, subset: str) -> list[Point]:
        return [
            Point(x, figures[name]["answer_f1"]["value"], _interval(figures[name]["answer_f1"]))
            for x, name in enumerate(hardness_configs(subset))
            if figures.get(name, {}).get("answer_f1", {}).get("value") is not None
        ]

    hard = {n: figures for n, figures in systems.items() if any(name.startswith("hardness") for name in figures)}
    ticks = {0.0: "hard", 1.0: "mixed", 2.0: "easy"}
    return Panels(_panels(hard, points, ("kg", "kg_text")), "noise", "F1 ↑", ticks, side_by_side=True)


def hardness_configs(subset: str) -> tuple[str, str, str]:
    """Return the configs of hard, mixed and easy noise; the mixed one is the noise testbed's at 4k."""
    return f"hardness_{subset}_hard", f"noise_{subset}_4k", f"hardness_{subset}_easy"


def bucket_panels(systems: Systems) -> Panels:
    """Return F1 by the units that an answer needs, at each subset's standard budget, with bands."""
    panels = []
    for subset in SUBSETS:
        series = {}
        for name, by_config in systems.items():
            scored = by_config.get(f"noise_{subset}_{STANDARD[subset]}")
            found = _buckets(scored.result) if scored else {}
            figures = [(x, found[each]["answer_f1"]) for x, each in enumerate(BUCKETS) if each in found]
            if points := [Point(x, each["value"], _interval(each)) for x, each in figures if each["value"] is not None]:
                series[name] = points
        if series:
            panels.append(Panel(TITLES[subset], series))
    return Panels(panels, "units needed", "F1 ↑", dict(enumerate(BUCKETS)), joined=True)


def rejection_panels(systems: Mapping[str, Figures]) -> Panels:
    """Return the rejection rate against the acceptance rate of the answerable control, a panel per subset.

    On the dashed line lies whoever answers without looking: always "no" at its upper left end.
    """

    def points(figures: Figures, subset: str) -> list[Point]:
        if not values_of(figures, "rejection_control", subset, "rejection_rate"):
            return []
        found = figures[f"rejection_control_{subset}"]
        x, y = (found[metric] for metric in ("acceptance_rate", "rejection_rate"))
        return [Point(x["value"], y["value"], _interval(y), _interval(x))]

    words = ("answerable questions accepted ↑", "unanswerable questions rejected ↑")
    return Panels(_panels(systems, points), *words, against_chance=True)


def _panels(
    systems: Mapping[str, Figures], points: Callable[[Figures, str], list[Point]], subsets: Sequence[str] = SUBSETS
) -> list[Panel]:
    """Return a panel for every subset of which some system has results."""
    panels = []
    for subset in subsets:
        series = {name: found for name, figures in systems.items() if (found := points(figures, subset))}
        if series:
            panels.append(Panel(TITLES[subset], series))
    return panels


def _interval(figure: Figure) -> tuple[float, float]:
    low, high = figure["ci95"]
    return (figure["value"] if low is None else low, figure["value"] if high is None else high)


def _configs(testbed: str, subsets: Sequence[str] | None) -> list[str]:
    return configs_of(testbed, subsets or SUBSETS)


_PANELS = {
    "noise": noise_panels,
    "order": order_panels,
    "depth": depth_panels,
    "rejection": rejection_panels,
    "rejection_control": rejection_panels,
    "hardness": hardness_panels,
    "unreviewed": None,
}
TESTBEDS = {
    **{name: Testbed(partial(_configs, name), summary=summary, panels=panels) for name, panels in _PANELS.items()},
    "integration": Testbed(partial(_configs, "integration"), sends=False, table=integration),
}
"""Testbed -> its configs and what they say together; `integration` sorts the standard noise runs."""
