"""SKA-Bench as pictures: noise curves with their intervals, orders side by side, rejection against its control."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kbbench_hf.benchmarks.ska_configs import BUDGETS, PAPER_BUDGETS
from kbbench_hf.benchmarks.ska_units import SUBSETS
from kbbench_hf.errors import UsageError
from kbbench_hf.reports.plots import COLOURS, MARKERS
from kbbench_hf.reports.ska_summary import Figures, values_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLES = {"kg": "KG", "table": "Table", "kg_text": "KG + Text", "table_text": "Table + Text"}
ORDERS = ("original", "prefix", "random", "suffix")


def plot_noise(systems: Mapping[str, Figures]) -> "Figure":
    """Return F1 over token budgets, a panel per subset, a line per system with its 95 % interval as a band.

    Raises:
        UsageError: no system has results of a noise testbed.
    """

    def draw(axes: "Axes", subset: str, figures: Figures, style: dict[str, Any]) -> None:
        points = sorted(values_of(figures, "noise", subset), key=lambda point: point[0].budget)
        budgets = [config.budget for config, _ in points]
        low, high = zip(*(_interval(figures[config.name]["answer_f1"]) for config, _ in points), strict=True)
        axes.fill_between(budgets, low, high, color=style["color"], alpha=0.15, linewidth=0)
        axes.plot(budgets, [value for _, value in points], **style)

    def finish(axes: "Axes") -> None:
        axes.set_xscale("log", base=2)
        last = axes.get_xlim()[1]
        ticks = [size for size, budget in BUDGETS.items() if budget <= last or size in PAPER_BUDGETS]
        axes.set_xticks([BUDGETS[size] for size in ticks], ticks, minor=False)
        axes.set_xlabel("tokens of knowledge base")
        axes.set_ylabel("F1 ↑")

    return _panels(systems, "noise", "answer_f1", draw, finish)


def plot_orders(systems: Mapping[str, Figures]) -> "Figure":
    """Return F1 by the place of the positive units, a panel per subset, a marker per system with its 95 % interval.

    Raises:
        UsageError: no system has results of an order testbed.
    """

    def draw(axes: "Axes", subset: str, figures: Figures, style: dict[str, Any]) -> None:
        for config, value in values_of(figures, "order", subset):
            place = ORDERS.index(config.setting) + style["offset"]
            axes.vlines(place, *_interval(figures[config.name]["answer_f1"]), color=style["color"])
            axes.plot(place, value, marker=style["marker"], color=style["color"])

    def finish(axes: "Axes") -> None:
        axes.set_xticks(range(len(ORDERS)), ORDERS)
        axes.set_ylabel("F1 ↑")

    return _panels(systems, "order", "answer_f1", draw, finish)


def plot_rejection(systems: Mapping[str, Figures]) -> "Figure":
    """Return the rejection rate against the acceptance rate of the answerable control, a panel per subset.

    On the dashed line lies whoever answers without looking: always "no" at its upper left end.

    Raises:
        UsageError: no system has results of a rejection control.
    """

    def draw(axes: "Axes", subset: str, figures: Figures, style: dict[str, Any]) -> None:
        found = figures[f"rejection_control_{subset}"]
        x, y = (found[metric] for metric in ("acceptance_rate", "rejection_rate"))
        axes.hlines(y["value"], *_interval(x), color=style["color"])
        axes.vlines(x["value"], *_interval(y), color=style["color"])
        axes.plot(x["value"], y["value"], marker=style["marker"], color=style["color"])

    def finish(axes: "Axes") -> None:
        axes.plot([0, 1], [1, 0], linestyle="--", color="#999999", linewidth=0.8)
        axes.set_xlim(-0.02, 1.02)
        axes.set_xlabel("answerable questions accepted ↑")
        axes.set_ylabel("unanswerable questions rejected ↑")

    return _panels(systems, "rejection_control", "rejection_rate", draw, finish)


def _panels(
    systems: Mapping[str, Figures],
    testbed: str,
    metric: str,
    draw: Callable[["Axes", str, Figures, dict[str, Any]], None],
    finish: Callable[["Axes"], None],
) -> "Figure":
    """Return a figure with a panel for every subset of which some system has results."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    shown = [s for s in SUBSETS if any(values_of(figures, testbed, s, metric) for figures in systems.values())]
    if not shown:
        raise UsageError(
            f"There is nothing to draw: expected results of a {testbed} testbed. Score a run of one first."
        )
    figure = Figure(figsize=(4.4 * len(shown), 3.8), layout="constrained")
    styles = {
        name: {"color": COLOURS[n % 8], "marker": MARKERS[n % 8], "offset": (n - (len(systems) - 1) / 2) * 0.12}
        for n, name in enumerate(systems)
    }
    for column, subset in enumerate(shown, start=1):
        axes = figure.add_subplot(1, len(shown), column)
        for name, figures in systems.items():
            if values_of(figures, testbed, subset, metric):
                style = styles[name] if testbed == "order" else {k: styles[name][k] for k in ("color", "marker")}
                draw(axes, subset, figures, style)
        axes.set_ylim(-0.02, 1.02)
        axes.set_title(TITLES[subset], loc="left", fontsize=11)
        axes.grid(axis="y", color="#dddddd", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        finish(axes)
    lines = [Line2D([], [], color=s["color"], marker=s["marker"], label=name) for name, s in styles.items()]
    figure.legend(handles=lines, frameon=False, loc="outside lower center", ncols=len(lines))
    return figure


def _interval(figure: Mapping[str, Any]) -> tuple[float, float]:
    low, high = figure["ci95"]
    return (figure["value"] if low is None else low, figure["value"] if high is None else high)
