"""The figures of several systems as cells of tables, with intervals for those that are made of several figures."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from kbbench_hf.benchmarks.base import Figure, Figures, ScoredConfig, Systems
from kbbench_hf.benchmarks.charts import Shown
from kbbench_hf.metrics.robustness import Column, mean_interval

F1 = "answer_f1"
Cells = list[Shown | None]
"""A row of a table; None where nothing was scored."""
Statistic = Callable[[Sequence[float]], float]
Interval = Callable[[Sequence[Sequence[Column]]], tuple[float, float]]
"""(for each group of examples, the value of each example in each setting) -> the interval of a figure made of them."""


def shown(figure: Figure | None, run: ScoredConfig | None = None) -> Shown | None:
    """Return a figure of a `result.json` as tables show it, weak where a warning of its run weakens it."""
    if figure is None or figure["value"] is None:
        return None
    low, high = figure["ci95"]
    interval = None if low is None or high is None else (low, high)
    weak = run is not None and is_weak([run])
    return Shown(figure["value"], interval, figure.get("digits"), figure["n_scored"], weak)


def is_weak(runs: Sequence[ScoredConfig]) -> bool:
    """Say whether a warning weakens one of these runs."""
    return any(each["severity"] == "warning" for run in runs for each in run.result.get("warnings", ()))


def figures_of(systems: Systems) -> dict[str, Figures]:
    """Return the scores alone: system -> config -> metric -> figure."""
    return {name: {config: each.result["scores"] for config, each in of.items()} for name, of in systems.items()}


def present(systems: Systems, configs: Sequence[str]) -> list[str]:
    """Return the configs of which some system has results."""
    return [config for config in configs if any(config in of for of in systems.values())]


def of_configs(systems: Systems, configs: Sequence[str], metric: str = F1) -> dict[str, Cells]:
    """Return the figures of these configs, a row for every system."""
    return {
        system: [
            shown(of[config].result["scores"].get(metric), of[config]) if config in of else None for config in configs
        ]
        for system, of in systems.items()
    }


def with_figures(rows: dict[str, Cells]) -> dict[str, Cells]:
    """Return the rows that have any figure."""
    return {name: row for name, row in rows.items() if any(row)}


def combined(
    value: float, groups: Sequence[Sequence[Column]], interval: Interval, *, weak: bool, digits: int | None = None
) -> Shown:
    """Return a figure made of several, with its interval; without one where the examples' values are not known."""
    if not all(column for columns in groups for column in columns):
        return Shown(value, None, digits, 0, weak)
    low, high = interval(groups)
    n = sum(len({example for column in columns for example in column}) for columns in groups)
    return Shown(value, (min(low, value), max(high, value)), digits, n, weak)


def average(
    row: Sequence[Shown | None], groups: Sequence[Sequence[Column]], interval: Interval = mean_interval
) -> Shown | None:
    """Return the plain mean of a row; None where a figure is absent."""
    there = [each for each in row if each]
    if len(there) < len(row) or not there:
        return None
    digits = there[0].digits
    mean = float(np.mean([each.value for each in there]))
    return combined(mean, groups, interval, weak=any(each.weak for each in there), digits=digits)


def over_configs(
    of: Mapping[str, ScoredConfig], configs: Sequence[str], statistic: Statistic, interval: Interval
) -> Shown | None:
    """Return a statistic of a system's F1 over several configs of one subset; None where it has not run them all."""
    runs = [of[config] for config in configs if config in of]
    values = [run.result["scores"][F1]["value"] for run in runs]
    if len(values) < len(configs) or None in values:
        return None
    columns = [run.values.get(F1, {}) for run in runs]
    digits = runs[0].result["scores"][F1].get("digits")
    return combined(float(statistic(values)), [columns], interval, weak=is_weak(runs), digits=digits)
