"""Power of a paired comparison before a run: how many examples a difference needs, and what a subset can show.

`kbbench power` uses it. The test is that of `compare`, so that a plan holds for the p-values of tables.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kbbench_hf.benchmarks import PUBLISHED, TaskKey, benchmark, name_of_path, shipped_runs, task_key_of
from kbbench_hf.benchmarks.baselines import published_answers
from kbbench_hf.errors import UsageError
from kbbench_hf.metrics.significance import FEWEST_PAIRS, detectable_parts
from kbbench_hf.scoring.eval_task import load_examples
from kbbench_hf.scoring.result import Result, finite
from kbbench_hf.scoring.results_table import named_system
from kbbench_hf.scoring.score import score

CORRELATION = 0.5
"""The assumed correlation if there is one system, so that none can be measured."""

EFFECT_IN_ERRORS = 2.8016
"""z(0.975) + z(0.8): the difference that a test at 5 % shows with 80 % power, in standard errors."""


class Spread(NamedTuple):
    """The spread of the differences of two systems over examples, and the power of a paired test at 5 % with it."""

    systems: tuple[str, ...]
    """The two systems, or one whose scores are used for both."""
    n: int
    """Number of examples on which it was measured."""
    correlation: float
    """Correlation of the two systems' scores; NaN where one of them is constant."""
    normal: float
    """Smallest difference that these examples show with 80 % power, by the normal approximation."""
    step: float
    """The continuity correction to it: see `detectable_parts`."""

    @property
    def deviation(self) -> float:
        """Standard deviation of the difference of one example."""
        return self.normal * math.sqrt(self.n) / EFFECT_IN_ERRORS

    def examples(self, difference: float) -> int:
        """Return how many examples show a true difference with 80 % power; at least 6, the fewest that show any."""
        root = (self.normal + math.sqrt(self.normal**2 + 4 * difference * self.step)) / (2 * difference)
        return max(FEWEST_PAIRS, math.ceil(self.n * root**2 - 1e-9))

    def detectable(self, n: int) -> float:
        """Return the smallest true difference that `n` examples show with 80 % power; NaN for fewer than 6."""
        share = self.n / n
        return self.normal * math.sqrt(share) + self.step * share if n >= FEWEST_PAIRS else math.nan


@dataclass(frozen=True)
class PowerPlan:
    """The differences that a benchmark's examples can show in one metric."""

    task_key: TaskKey
    metric: str
    n_available: int
    """Number of examples of the split."""
    spreads: Sequence[Spread]
    """One for each pair of systems, or for each system where the correlation is assumed; smallest deviation first."""

    @property
    def usual(self) -> Spread:
        """The median spread; the greater of the two in the middle."""
        return self.spreads[len(self.spreads) // 2]

    def to_dict(self, difference: float | None = None, sizes: Sequence[int] = ()) -> dict[str, Any]:
        """Return the plan as JSON values: the examples that a difference needs, and what each of `sizes` can show."""
        return {
            **self.task_key._asdict(),
            "metric": self.metric,
            "n_available": self.n_available,
            "difference": difference,
            "examples_needed": self.usual.examples(difference) if difference else None,
            "detectable": {n: finite(self.usual.detectable(n)) for n in sizes},
            "from": [each._asdict() for each in self.spreads],
        }


def plan_power(
    name: str,
    against: Sequence[Path | str] = (),
    difference: float = 0.0,
    *,
    metric: str | None = None,
    split: str | None = None,
    mode: str | None = None,
    correlation: float | None = None,
) -> PowerPlan:
    """Return what the examples of a benchmark can show, from the scores per example of systems that were scored.

    The standard deviation of a difference is that of pairs of systems: of those in `against`; of the only one there
    with each system whose predictions come with the dataset; or of all pairs of these. With one system, or with a given
    correlation, it is that of the system and another one: with the same variance, or if all scores are 0 or 1, with
    that of a mean that is greater by `difference`.

    Args:
        name: the dataset's name, or with its config.
        against: run folders, predictions files or `published:NAME`: the systems that yours will be compared with.
        difference: the true difference that is to be shown.
        metric: the metric, by its name or label; the headline metric by default.
        split: the split; that of the runs, or the benchmark's default.
        mode: the mode likewise.
        correlation: the assumed correlation of the two systems' scores per example, in place of a measured one.

    Raises:
        UsageError: no predictions are here, or a metric, split, mode or correlation that does not exist.

    >>> plan = plan_power("mini-text2kg", ["published:copy", "published:pattern"])
    >>> plan.usual.systems, round(plan.usual.correlation, 2)
    (('copy', 'pattern'), 0.62)
    >>> plan.usual.examples(0.1), round(plan.usual.detectable(24), 2)
    (121, 0.22)
    """
    if correlation is not None and not -1 <= correlation < 1:
        raise UsageError(f"A correlation of {correlation} is impossible; expected at least -1 and less than 1.")
    task_key = task_key_of(name_of_path(name), None, split, mode)
    of_task = benchmark(task_key.benchmark)
    chosen = of_task.metric_names([metric])[0] if metric else of_task.headline
    titles = [named_system(str(each))[0].removeprefix(PUBLISHED) for each in against]
    titles = [title if titles.count(title) == 1 else str(each) for title, each in zip(titles, against, strict=True)]
    runs = {title: score(each, name, split=split, mode=mode) for title, each in zip(titles, against, strict=True)}
    task_key = next((each.task_key for each in runs.values()), task_key)
    systems = runs if len(runs) > 1 else {**_systems_here(task_key), **runs}
    systems = {title: each.averaged or each for title, each in systems.items() if chosen in each.compared}
    pairs = [(a, b) for a, b in combinations(systems, 2) if not runs or a in runs or b in runs]
    spreads = [] if correlation is not None else [_pair_spread(systems, pair, chosen) for pair in pairs]
    if not any(each.normal > 0 for each in spreads):
        assumed = CORRELATION if correlation is None else correlation
        alone = [title for title in runs or systems if title in systems]
        spreads = [_assumed_spread(title, systems[title], chosen, assumed, difference) for title in alone]
    spreads = sorted((each for each in spreads if each.normal > 0), key=lambda each: each.deviation)
    if not spreads:
        raise UsageError(
            f"No predictions for {task_key} are here whose {chosen} differs from example to example; expected those of "
            f"one system. Run one, and name its folder with --against: kbbench run {name} --model MODEL --out base"
        )
    return PowerPlan(task_key, chosen, load_examples(*task_key).n_available, spreads)


def _systems_here(task_key: TaskKey) -> dict[str, Result]:
    """Return the scored predictions that come with the dataset: of published systems, and of runs of small models."""
    files = published_answers(task_key)
    usual = task_key_of(task_key.benchmark)
    if (task_key.config, task_key.split) == (usual.config, usual.split):
        files |= {folder.name: folder / "predictions.jsonl" for folder in shipped_runs(task_key.benchmark)}
    files.pop(benchmark(task_key.benchmark).showing.gold or "", None)
    return {title: score(file, **task_key._asdict()) for title, file in files.items()}


def _pair_spread(systems: Mapping[str, Result], pair: tuple[str, str], metric: str) -> Spread:
    """Return the spread of the differences of two systems over the examples of both."""
    a, b = (systems[title] for title in pair)
    places = {example_id: number for number, example_id in enumerate(b.ids)}
    rows = [number for number, example_id in enumerate(a.ids) if example_id in places]
    first = _values(a, metric)[rows]
    second = _values(b, metric)[[places[a.ids[number]] for number in rows]]
    scored = ~(np.isnan(first) | np.isnan(second))
    varied = scored.sum() > 1 and first[scored].std() > 0 and second[scored].std() > 0
    correlation = float(np.corrcoef(first[scored], second[scored])[0, 1]) if varied else math.nan
    return Spread(pair, int(scored.sum()), correlation, *_effect_parts(a, first - second, rows))


def _assumed_spread(title: str, result: Result, metric: str, correlation: float, difference: float) -> Spread:
    """Return the spread of a system and another one that was not scored: see `plan_power`."""
    values = _values(result, metric)
    scored = values[~np.isnan(values)]
    own = other = float(scored.var())
    if set(scored.tolist()) <= {0.0, 1.0}:
        mean = min(1.0, float(scored.mean()) + difference)
        other = mean * (1 - mean)
    factor = (own + other - 2 * correlation * math.sqrt(own * other)) / own if own else 0.0
    normal, step = _effect_parts(result, values, range(len(values)))
    return Spread((title,), len(scored), correlation, math.sqrt(factor) * normal, step)


def _values(result: Result, metric: str) -> Any:
    """Return one value per example; of a metric with several draws, their mean."""
    values = result.compared[metric]
    return values if values.ndim == 1 else values.mean(axis=0)


def _effect_parts(result: Result, differences: Any, rows: Sequence[int]) -> tuple[float, float]:
    """Return the parts of the minimum detectable effect, with the groups or clusters of the result's examples."""

    def chosen(keys: Sequence[str] | None) -> list[str] | None:
        return [keys[row] for row in rows] if keys else None

    return detectable_parts(differences, clusters=chosen(result.clusters), groups=chosen(result.groups))
