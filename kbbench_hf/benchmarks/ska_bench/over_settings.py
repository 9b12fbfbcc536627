"""Scores over budgets and orders: Tables 3 and 4 and Figures 5 to 8 of the paper (arXiv 2507.17178).

The paper's sentences on its figures hold for those made of its printed tables: all rank correlations of means over
budgets exceed .64; those of deviations over orders are positive; DeepSeek-R1 deviates least over budgets.
`evaluation` calls `over_settings` for both testbeds.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.base import Systems
from kbbench_hf.benchmarks.charts import ChartPanel, Panels, Point, ScoreTable, Section, ShownScore
from kbbench_hf.benchmarks.ska_bench.testbeds import (
    F1,
    PAPER_BUDGETS,
    TITLES,
    ScoreCells,
    combined_cell,
    config_rows,
    configs,
    configs_of,
    drop_empty_rows,
    noise_panels,
    order_panels,
    present_configs,
    scores_by_system,
    statistic_cell,
)
from kbbench_hf.benchmarks.ska_bench.units import SUBSETS
from kbbench_hf.metrics import robustness

AVERAGE = "Average"
FEW = 5
"""With fewer systems a rank correlation is hardly informative; with fewer than three there is none."""


class SettingsTestbed(NamedTuple):
    """A testbed with settings, and the numbers of its table and figures in the paper."""

    testbed: str
    title: str
    settings: str
    table: int
    figure: int
    correlations: int


NOISE = SettingsTestbed("noise", "Noise robustness", "budgets", 3, 5, 6)
ORDER = SettingsTestbed("order", "Order insensitivity", "orders", 4, 7, 8)


def over_settings(systems: Systems, kind: SettingsTestbed, notes: Sequence[str] = ()) -> Section | None:
    """Return a testbed's F1, its mean and deviation over the settings, and their rank correlations between subsets.

    Means and deviations are over the paper's budgets alone; longer ones are in the table and the plot.
    """
    names = present_configs(systems, configs_of(kind.testbed))
    if not names:
        return None
    names.sort(key=lambda name: SUBSETS.index(configs()[name].subset))
    heads = [(TITLES[configs()[name].subset], setting(name)) for name in names]
    rows = drop_empty_rows(config_rows(systems, names))
    title = f"F1 by {kind.settings} (Table {kind.table})"
    tables = [ScoreTable(f"table-{kind.table}", title, heads, rows, best="highest")]
    pictures = {kind.testbed: (noise_panels if kind is NOISE else order_panels)(scores_by_system(systems))}
    by_subset: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        if configs()[name].budget in PAPER_BUDGETS.values():
            by_subset[configs()[name].subset].append(name)
    matrices = []
    for letter, words in (("a", "mean"), ("b", "standard deviation")):
        summaries, name = _summaries(systems, by_subset, words), f"figure-{kind.figure}{letter}"
        title = f"{words.capitalize()} of F1 over {kind.settings} (Figure {kind.figure} {letter.upper()})"
        heads = [("", TITLES[subset]) for subset in by_subset] + [("", AVERAGE)]
        tables.append(ScoreTable(name, title, heads, summaries, best="highest" if words == "mean" else "lowest"))
        pictures[name] = _dots(tables[-1], f"{words} of F1", 1.0 if words == "mean" else None)
        title = f"Rank correlation of the {words} between subsets (Figure {kind.correlations} {letter.upper()})"
        draws = _resampled(systems, summaries, by_subset, words)
        matrices += _correlations(f"figure-{kind.correlations}{letter}", title, by_subset, summaries, draws)
    tables += matrices
    note = (
        f"Mean and deviation are over the paper's {kind.settings} that are here, of systems that ran all of them; "
        f"{AVERAGE} is the plain mean of the subsets."
    )
    if not matrices:
        note += " Rank correlations between subsets need three systems that ran all of them."
    return Section(kind.title, tables, pictures, [*notes, note, *_sizes(systems, names)])


def setting(name: str) -> str:
    """Return what tables call the setting of a config: its budget, or the place of its positive units."""
    config = configs()[name]
    return name.rpartition("_")[2] if config.testbed == "noise" else config.setting


def _summaries(systems: Systems, by_subset: Mapping[str, Sequence[str]], words: str) -> dict[str, ScoreCells]:
    """Return the mean or deviation of each system over the settings of each subset, and the mean of these."""
    statistic, interval = (
        (np.mean, robustness.mean_interval) if words == "mean" else (robustness.population_std, robustness.std_interval)
    )
    rows: dict[str, ScoreCells] = {}
    for system, of in systems.items():
        row = [statistic_cell(of, names, statistic, interval) for names in by_subset.values()]
        groups = [[of[name].values.get(F1, {}) for name in names if name in of] for names in by_subset.values()]
        rows[system] = [*row, combined_cell(row, groups, interval)]
    return drop_empty_rows(rows)


def _dots(table: ScoreTable, label: str, top: float | None) -> Panels:
    """Return a plot of a table: its columns along the axis, a marker per system with its interval."""
    series = {
        system: [Point(x, each.value, each.ci95 or (each.value, each.value)) for x, each in enumerate(row) if each]
        for system, row in table.rows.items()
    }
    ticks = {float(x): words.replace(" + ", " +\n") for x, (_, words) in enumerate(table.columns)}
    return Panels([ChartPanel("", series)] if series else [], "", label, ticks, table.title, side_by_side=True, top=top)


def _correlations(
    name: str,
    title: str,
    by_subset: Mapping[str, Sequence[str]],
    summaries: Mapping[str, ScoreCells],
    draws: Sequence[NDArray[np.float64]] | None,
) -> list[ScoreTable]:
    """Return Spearman's rank correlation over the systems between every two subsets; no table for less than three."""
    complete = [row[:-1] for row in summaries.values() if all(row[:-1])]
    if len(complete) < 3:
        return []
    values = np.array([[each.value for each in row if each] for row in complete]).T
    rows: dict[str, ScoreCells] = {}
    for i, subset in enumerate(by_subset):
        rows[TITLES[subset]] = [
            _correlation(values[i], values[j], (draws[i], draws[j]) if draws and i != j else None)
            for j in range(len(values))
        ]
    n = len(complete)
    few = f" Of fewer than {FEW} systems it is hardly informative." if n < FEW else ""
    note = f"Spearman's, over {n} systems; intervals from resampled examples, for these systems.{few}"
    heads = [("", TITLES[subset]) for subset in by_subset]
    return [ScoreTable(name, title, heads, rows, "", shaded=True, notes=[note])]


def _correlation(
    a: NDArray[np.float64], b: NDArray[np.float64], draws: tuple[NDArray[np.float64], NDArray[np.float64]] | None
) -> ShownScore | None:
    """Return the rank correlation of two columns, with the interval of that of their resamples; None without spread."""
    value = float(robustness.rank_correlation(a, b))
    if not math.isfinite(value):
        return None
    drawn = robustness.rank_correlation(*draws) if draws else np.array([])
    if not np.isfinite(drawn).any():
        return ShownScore(value, None, 2, len(a))
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    return ShownScore(value, (min(float(low), value), max(float(high), value)), 2, len(a))


def _resampled(
    systems: Systems, summaries: Mapping[str, ScoreCells], by_subset: Mapping[str, Sequence[str]], words: str
) -> list[NDArray[np.float64]] | None:
    """Return each subset's statistic under resamples of its examples, shape (draws, systems); None without values."""
    complete = [system for system, row in summaries.items() if all(row[:-1])]
    found = []
    for seed, names in enumerate(by_subset.values()):
        columns = [systems[system][name].values.get(F1, {}) for system in complete for name in names]
        if not columns or not all(columns):
            return None
        means = robustness.resampled_means(columns, seed).reshape(-1, len(complete), len(names))
        found.append(means.mean(axis=2) if words == "mean" else means.std(axis=2))
    return found


def _sizes(systems: Systems, names: Sequence[str]) -> list[str]:
    """Return a sentence for each subset whose settings were scored on different numbers of examples."""
    sentences = []
    for subset in SUBSETS:
        sizes: defaultdict[int, list[str]] = defaultdict(list)
        for name in names:
            if configs()[name].subset == subset:
                runs = [of[name].result["scores"][F1]["n_scored"] for of in systems.values() if name in of]
                sizes[max(runs)].append(setting(name))
        if len(sizes) > 1:
            parts = [f"{n:,} examples in {', '.join(settings)}" for n, settings in sizes.items()]
            sentences.append(f"{TITLES[subset]}: {'; '.join(parts)}.")
    return sentences
