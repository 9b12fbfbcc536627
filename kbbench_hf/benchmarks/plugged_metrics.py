"""Metrics of other packages (entry points `kbbench.metrics`), added to the metrics of benchmarks."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from warnings import warn

import numpy as np
from numpy.typing import ArrayLike

from kbbench_hf.addresses import plug_ins, plugged
from kbbench_hf.benchmarks.answers import Answer
from kbbench_hf.benchmarks.base import Benchmark, Examples, Scores
from kbbench_hf.errors import UsageError
from kbbench_hf.metrics.aggregate import Estimate, means

GROUP = "kbbench.metrics"
"""The entry points: metric key = package.module:value, a `Metric`."""


@dataclass(frozen=True)
class Metric:
    """A metric that a package adds to benchmarks; its key in results is the name of its entry point."""

    label: str
    """Its name in tables."""
    datasets: Collection[str]
    """The benchmarks that it is added to, by dataset name."""
    score: Callable[[Examples, Sequence[Answer | None], str], ArrayLike]
    """(examples, answers, None where one is missing, mode) -> one value per example; NaN where it is not scored."""
    lower_is_better: bool = False
    unbounded: bool = False
    """Whether values can leave [0, 1]."""


def with_plugged_metrics(found: Benchmark) -> Benchmark:
    """Return a benchmark with the metrics that other packages add to it; itself if there are none.

    A metric that cannot be imported, is no `Metric`, or has the key of a metric of the benchmark is left out with a
    warning.
    """
    for key, address in plug_ins(GROUP).items():
        try:
            metric = _imported_metric(key, address)
            if found.dataset in metric.datasets:
                found = _with_metric(found, key, metric)
        except UsageError as error:
            warn(f"{error} The metric {key!r} is left out.", stacklevel=3)
    return found


def _imported_metric(key: str, address: str) -> Metric:
    metric = plugged("metric", key, address)
    if not isinstance(metric, Metric):
        raise UsageError(
            f"{address}, the metric {key!r} of another package, is a {type(metric).__name__}; expected a "
            "kbbench_hf.Metric. Fix the package that provides it."
        )
    return metric


def _with_metric(found: Benchmark, key: str, metric: Metric) -> Benchmark:
    scoring = found.scoring
    if key in scoring.metrics:
        raise UsageError(f"{found.dataset} has a metric {key!r} of its own. Rename the entry point of {GROUP}.")

    def score(examples: Examples, answers: Sequence[Answer | None], mode: str) -> Scores:
        values = np.asarray(metric.score(examples, answers, mode), np.float64)
        if values.shape != (len(examples.rows),):
            raise UsageError(
                f"The metric {key!r} returned an array of shape {values.shape}; expected one value per example, "
                f"({len(examples.rows)},). Fix the package that provides it."
            )
        scores = scoring.score(examples, answers, mode)
        return replace(scores, values={**scores.values, key: values})

    def summarize(scores: Scores, mode: str) -> Mapping[str, Estimate]:
        own = {name: values for name, values in scores.values.items() if name != key}
        return {**scoring.summarise(replace(scores, values=own), mode), **means({key: scores.values[key]})}

    def scored_metrics(config: str) -> Collection[str]:
        return [*(scoring.metrics_in(config) if scoring.metrics_in else scoring.metrics), key]

    extended = replace(
        scoring,
        metrics={**scoring.metrics, key: metric.label},
        score=score,
        summarise=summarize,
        metrics_in=scored_metrics,
        lower_is_better=scoring.lower_is_better | ({key} if metric.lower_is_better else set()),
        unbounded=scoring.unbounded | ({key} if metric.unbounded else set()),
    )
    return replace(found, scoring=extended)
