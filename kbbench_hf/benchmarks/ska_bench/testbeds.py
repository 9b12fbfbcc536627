"""Testbeds of SKA-Bench: their configs (budget, order and noise), summaries, plots and table cells made of results.

The paper's (arXiv 2507.17178, sections 3.3 and 4): noise robustness at four budgets, order insensitivity, negative
rejection, noise hardness. Information integration is a slice of noise runs, by `n_required`. Beyond the paper: budgets
up to 1 M tokens on a fixed sample, positives on a grid of depths, and rejection as pairs: `rejection` has contexts that
lack a smallest cut of the evidence, with an answerable control beside them; the paper's, of noise alone, is
`rejection_noise`. `building` makes a config of the dataset from each `Config`: names, budgets and orders are those of
published datasets and stored runs.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from kbbench_hf.benchmarks.base import ConfigScores, Result, ScoredConfig, ScoreFields, Systems, Testbed
from kbbench_hf.benchmarks.charts import ChartPanel, Panels, Point, ScoreTable, ShownScore
from kbbench_hf.benchmarks.ska_bench.units import SUBSETS
from kbbench_hf.errors import unknown_name
from kbbench_hf.metrics.robustness import Column, curve, mean_interval, population_std, worst_order_drop

PAPER_BUDGETS = {"1k": 1 << 10, "4k": 4 << 10, "12k": 12 << 10, "24k": 24 << 10}
LONG_BUDGETS = {f"{k}k": k << 10 for k in (32, 64, 128, 256, 512)} | {"1m": 1 << 20}
BUDGETS = PAPER_BUDGETS | LONG_BUDGETS
"""k is 1024: the paper's mean context at "12k" has 12,054 tokens. The knowledge base counts, not the prompt."""
STANDARD = {"kg": "4k", "table": "4k", "kg_text": "12k", "table_text": "12k"}
"""The budget of the order, depth, integration and rejection testbeds."""
DEPTHS = (0, 25, 50, 75, 100)
"""Percentage of the noise that precedes the positives."""
BUCKETS = ("1", "2", "3", "4", ">4")
"""Numbers of needed units, as the integration testbed groups them; the paper leaves out instances of one unit."""
HARDNESS = {"hard": (1, 2), "easy": (4, 255)}
"""First and last hop of the noise; the noise testbed itself is the paper's "mixed"."""
HARDNESS_BUDGETS = (4 << 10, 2 << 10, 1 << 10)
"""Both levels of an instance have the largest budget that both can fill."""
REVISIONS = {1: "1.0.0", 2: "2.0.0"}
"""Revision of the construction -> version of the dataset that it builds.

A patch version changes descriptions, a minor version adds instances, a major one changes gold answers or contexts;
scores of different majors are never in one table."""
NEWEST = max(REVISIONS)


@dataclass(frozen=True)
class Config:
    """One testbed of one subset at one setting: the selection and the order of units."""

    name: str
    testbed: str
    subset: str
    budget: int
    setting: str
    depth: float | None = None
    """The share of the noise that precedes the positives; None where the setting is `original` or `random`."""
    hops: tuple[int, int] | None = None
    long: bool = False


@cache
def configs() -> dict[str, Config]:
    """Return every testbed config by name: by testbed, then by subset.

    >>> [name for name in configs() if name.startswith("order_table_") and "text" not in name]
    ['order_table_original', 'order_table_prefix', 'order_table_random', 'order_table_suffix']
    """
    found = [config for subset in SUBSETS for config in _of_subset(subset)]
    return {config.name: config for config in sorted(found, key=lambda config: [*TESTBEDS].index(config.testbed))}


def _of_subset(subset: str) -> list[Config]:
    """Return the configs of a subset, by testbed."""
    natural = "original" if subset.startswith("table") else "random"
    budget = BUDGETS[STANDARD[subset]]
    orders = {"original": None, "prefix": 0.0, "random": None, "suffix": 1.0}
    found = [
        Config(f"noise_{subset}_{size}", "noise", subset, tokens, natural, long=size in LONG_BUDGETS)
        for size, tokens in BUDGETS.items()
        if size != "1k" or not subset.endswith("_text")
    ]
    found += [
        Config(f"order_{subset}_{setting}", "order", subset, budget, setting, depth)
        for setting, depth in orders.items()
        if setting in ("prefix", "random", "suffix", natural)
    ]
    found += [Config(f"depth_{subset}_{d}", "depth", subset, budget, f"depth_{d}", d / 100) for d in DEPTHS]
    plain = ("rejection", "rejection_control", "rejection_noise", "unreviewed")
    found += [Config(f"{testbed}_{subset}", testbed, subset, budget, natural) for testbed in plain]
    if subset.startswith("kg"):
        found += [
            Config(f"hardness_{subset}_{level}", "hardness", subset, BUDGETS["4k"], natural, hops=hops)
            for level, hops in HARDNESS.items()
        ]
    return found


def built_configs(revision: int) -> dict[str, Config]:
    """Return the testbed configs of a revision of the construction; the first one has no `rejection_noise`."""
    return {name: each for name, each in configs().items() if revision > 1 or each.testbed != "rejection_noise"}


def configs_of(testbed: str, subsets: Sequence[str] | None = None) -> list[str]:
    """Return the configs of a testbed, of these subsets or of all.

    `integration` has none of its own: its runs are the standard noise runs.

    >>> configs_of("integration", ["kg", "kg_text"])
    ['noise_kg_4k', 'noise_kg_text_12k']

    Raises:
        UsageError: an unknown subset.
    """
    for subset in (subsets := subsets or SUBSETS):
        if subset not in SUBSETS:
            raise unknown_name("subset", subset, SUBSETS)
    if testbed == "integration":
        return [f"noise_{subset}_{STANDARD[subset]}" for subset in subsets]
    return [name for name, config in configs().items() if config.testbed == testbed and config.subset in subsets]


def bucket(n_required: int) -> str:
    """Return the integration bucket of an instance that needs this many units: 1, 2, 3, 4 or `>4`.

    >>> bucket(1), bucket(4), bucket(9)
    ('1', '4', '>4')
    """
    return str(n_required) if n_required <= 4 else ">4"


F1 = "answer_f1"
TITLES = {"kg": "KG", "table": "Table", "kg_text": "KG + Text", "table_text": "Table + Text"}
ORDERS = ("original", "prefix", "random", "suffix")
ScoreCells = list[ShownScore | None]
"""A row of a table; None where nothing was scored."""
Statistic = Callable[[Sequence[float]], float]
Interval = Callable[[Sequence[Sequence[Column]]], tuple[float, float]]
"""(for each group of examples, the value of each example in each setting) -> the interval of a combined score."""


def scores_of(scores: ConfigScores, testbed: str, subset: str, metric: str = F1) -> list[tuple[Config, ScoreFields]]:
    """Return (config, score) of every config of a testbed and subset that has a value."""
    found = [(config, scores.get(name, {}).get(metric, {})) for name, config in configs().items()]
    return [
        (config, score)
        for config, score in found
        if (config.testbed, config.subset) == (testbed, subset) and score.get("value") is not None
    ]


def summarize_robustness(scores: ConfigScores) -> list[str]:
    """Return the robustness of a system in words, a sentence for each subset of which it has results.

    The worst order is compared with that of the noise testbed.

    >>> results = {f"noise_kg_{k}": {"answer_f1": {"value": v, "ci95": [v, v]}} for k, v in (("1k", 0.8), ("4k", 0.6))}
    >>> summarize_robustness(results)
    ['kg: relative drop over budgets 0.250']
    """
    sentences = []
    for subset in SUBSETS:
        by_budget = {config.budget: score["value"] for config, score in scores_of(scores, "noise", subset)}
        by_order = {config.setting: score["value"] for config, score in scores_of(scores, "order", subset)}
        natural, parts = "original" if subset.startswith("table") else "random", list[str]()
        if by_budget and not math.isnan(drop := curve(by_budget).relative_drop):
            parts.append(f"relative drop over budgets {drop:.3f}")
        if by_order:
            parts.append(f"standard deviation over orders {population_std(list(by_order.values())):.4f}")
        if natural in by_order:
            parts.append(f"worst order loses {worst_order_drop(by_order, natural):.4f}")
        if parts:
            sentences.append(f"{subset}: {', '.join(parts)}")
    return sentences


def integration_table(results: Mapping[str, Result]) -> ScoreTable:
    """Return F1 by the number of units that an answer needs, of finished runs (as `result.json` has them)."""
    buckets = {config: result["slices"].get("n_required", {}) for config, result in results.items()}
    rows = {config: [score_cell(of.get(each, {}).get(F1)) for each in BUCKETS] for config, of in buckets.items()}
    columns = [("units needed", each) for each in BUCKETS]
    return ScoreTable("integration", "F1 by units needed", columns, rows, "config")


def _setting_points(testbed: str, x: Callable[[Config], float], scores: ConfigScores, subset: str) -> list[Point]:
    found = [(x(config), score) for config, score in scores_of(scores, testbed, subset)]
    return [_point(place, score) for place, score in sorted(found, key=lambda point: point[0])]


def noise_panels(systems: Mapping[str, ConfigScores]) -> Panels:
    """Return F1 over token budgets, a panel per subset, a line per system with its 95 % interval as a band."""
    panels = _panels(systems, partial(_setting_points, "noise", lambda config: config.budget))
    most = max((point.x for panel in panels for drawn in panel.series.values() for point in drawn), default=0)
    ticks = {float(BUDGETS[size]): size for size in BUDGETS if BUDGETS[size] <= most or size in PAPER_BUDGETS}
    return Panels(panels, "tokens of knowledge base", "F1 ↑", ticks, joined=True, logarithmic=True)


def order_panels(systems: Mapping[str, ConfigScores]) -> Panels:
    """Return F1 by the place of the positive units, a panel per subset, a marker per system with its 95 % interval."""
    panels = _panels(systems, partial(_setting_points, "order", lambda config: ORDERS.index(config.setting)))
    ticks = {float(place): order for place, order in enumerate(ORDERS)}
    return Panels(panels, "", "F1 ↑", ticks, side_by_side=True)


def depth_panels(systems: Mapping[str, ConfigScores]) -> Panels:
    """Return F1 by the share of noise before the positive units, a line per system with its band."""
    panels = _panels(systems, partial(_setting_points, "depth", lambda config: 100 * (config.depth or 0)))
    ticks = {float(depth): f"{depth} %" for depth in DEPTHS}
    return Panels(panels, "noise before the positive units", "F1 ↑", ticks, joined=True)


def hardness_panels(systems: Mapping[str, ConfigScores]) -> Panels:
    """Return F1 by distance of the noise, a marker per system with its 95 % interval; mixed is the noise testbed's."""

    def points(scores: ConfigScores, subset: str) -> list[Point]:
        found = enumerate(scores.get(name, {}).get(F1, {}) for name in hardness_configs(subset))
        return [_point(x, score) for x, score in found if score.get("value") is not None]

    hard = {name: scores for name, scores in systems.items() if any(each.startswith("hardness") for each in scores)}
    ticks = {0.0: "hard", 1.0: "mixed", 2.0: "easy"}
    return Panels(_panels(hard, points, ("kg", "kg_text")), "noise", "F1 ↑", ticks, side_by_side=True)


def hardness_configs(subset: str) -> tuple[str, str, str]:
    """Return the configs of hard, mixed and easy noise; the mixed one is the noise testbed's at 4k."""
    return f"hardness_{subset}_hard", f"noise_{subset}_4k", f"hardness_{subset}_easy"


def bucket_panels(systems: Systems) -> Panels:
    """Return F1 by the units that an answer needs, at each subset's standard budget, with bands."""

    def points(slices: ConfigScores, subset: str) -> list[Point]:
        found = slices.get(f"noise_{subset}_{STANDARD[subset]}", {})
        scores = [(x, found[each][F1]) for x, each in enumerate(BUCKETS) if each in found]
        return [_point(x, score) for x, score in scores if score["value"] is not None]

    slices = {
        name: {config: run.result["slices"].get("n_required", {}) for config, run in of.items()}
        for name, of in systems.items()
    }
    return Panels(_panels(slices, points), "units needed", "F1 ↑", dict(enumerate(BUCKETS)), joined=True)


def rejection_panels(systems: Mapping[str, ConfigScores]) -> Panels:
    """Return the rejection rate against the acceptance rate of the answerable control, a panel per subset.

    A system that answers without reading lies on the dashed line: always "no" at its upper left end.
    """

    def points(scores: ConfigScores, subset: str) -> list[Point]:
        if not scores_of(scores, "rejection_control", subset, "rejection_rate"):
            return []
        found = scores[f"rejection_control_{subset}"]
        x, y = (found[metric] for metric in ("acceptance_rate", "rejection_rate"))
        return [Point(x["value"], y["value"], _bounds(y), _bounds(x))]

    words = ("answerable questions accepted ↑", "unanswerable questions rejected ↑")
    return Panels(_panels(systems, points), *words, against_chance=True)


def _panels(
    systems: Mapping[str, ConfigScores],
    points: Callable[[ConfigScores, str], list[Point]],
    subsets: Sequence[str] = SUBSETS,
) -> list[ChartPanel]:
    """Return a panel for every subset of which some system has results."""
    panels = []
    for subset in subsets:
        series = {name: found for name, scores in systems.items() if (found := points(scores, subset))}
        if series:
            panels.append(ChartPanel(TITLES[subset], series))
    return panels


def _point(x: float, score: ScoreFields) -> Point:
    return Point(x, float(score["value"]), _bounds(score))


def _bounds(score: ScoreFields) -> tuple[float, float]:
    """Return the interval of a score; the score itself for an end that is unknown."""
    low, high = score["ci95"]
    return (score["value"] if low is None else low, score["value"] if high is None else high)


_PANELS = {
    "noise": noise_panels,
    "order": order_panels,
    "depth": depth_panels,
    "rejection": rejection_panels,
    "rejection_control": rejection_panels,
    "rejection_noise": None,
    "hardness": hardness_panels,
    "unreviewed": None,
}
TESTBEDS = {
    **{
        name: Testbed(partial(configs_of, name), summary=summarize_robustness, panels=panels)
        for name, panels in _PANELS.items()
    },
    "integration": Testbed(partial(configs_of, "integration"), sends=False, table=integration_table),
}
"""Testbed -> its configs, summary and plot. `unreviewed` is the standard noise config of the instances that wait for
review; `integration` groups the standard noise runs."""


def score_cell(score: ScoreFields | None, run: ScoredConfig | None = None) -> ShownScore | None:
    """Return a score of a `result.json` as tables show it, weak where a warning of its run weakens it."""
    if score is None or score["value"] is None:
        return None
    low, high = score["ci95"]
    interval = None if low is None or high is None else (low, high)
    weak = run is not None and any(each["severity"] == "warning" for each in run.result.get("warnings", ()))
    return ShownScore(score["value"], interval, score.get("digits"), score["n_scored"], weak)


def scores_by_system(systems: Systems) -> dict[str, ConfigScores]:
    """Return the scores alone: system -> config -> metric -> score."""
    return {name: {config: each.result["scores"] for config, each in of.items()} for name, of in systems.items()}


def present_configs(systems: Systems, names: Sequence[str]) -> list[str]:
    """Return the configs of which some system has results."""
    return [name for name in names if any(name in of for of in systems.values())]


def config_rows(systems: Systems, names: Sequence[str], metric: str = F1) -> dict[str, ScoreCells]:
    """Return the scores of these configs, a row for every system."""
    return {
        system: [score_cell(of[n].result["scores"].get(metric), of[n]) if n in of else None for n in names]
        for system, of in systems.items()
    }


def drop_empty_rows(rows: dict[str, ScoreCells]) -> dict[str, ScoreCells]:
    """Return the rows that have any score."""
    return {name: row for name, row in rows.items() if any(row)}


def combined_cell(
    row: ScoreCells,
    groups: Sequence[Sequence[Column]],
    interval: Interval = mean_interval,
    statistic: Statistic = np.mean,
) -> ShownScore | None:
    """Return a statistic of a row with its interval, the plain mean by default; None where a score is absent.

    It has no interval where the examples' values are unknown.
    """
    there = [each for each in row if each]
    if len(there) < len(row) or not there:
        return None
    value = float(statistic([each.value for each in there]))
    digits, weak = there[0].digits, any(each.weak for each in there)
    if not all(column for columns in groups for column in columns):
        return ShownScore(value, None, digits, 0, weak)
    low, high = interval(groups)
    n = sum(len({example for column in columns for example in column}) for columns in groups)
    return ShownScore(value, (min(low, value), max(high, value)), digits, n, weak)


def statistic_cell(
    of: Mapping[str, ScoredConfig], names: Sequence[str], statistic: Statistic, interval: Interval
) -> ShownScore | None:
    """Return a statistic of a system's F1 over several configs of one subset; None where it has not run them all."""
    runs = [of.get(name) for name in names]
    row = [score_cell(run.result["scores"][F1], run) if run else None for run in runs]
    return combined_cell(row, [[run.values.get(F1, {}) for run in runs if run]], interval, statistic)
