"""Examples of one split and their scores: the values that loading and scoring exchange.

A benchmark's `load` returns `Examples`, its `score` returns `Scores`; plug-ins use both by their fields.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.files.datasets import Row

if TYPE_CHECKING:
    from kbbench_hf.benchmarks.annotations import Annotations

Example = Mapping[str, Any]
"""One row of a dataset."""


QUESTION_COLUMNS = ("query", "question", "sentence", "text")
"""Columns that hold the input of an example; the first that a dataset has counts."""


def question_column(row: Example) -> str:
    """Return the column of the input of an example; empty where it has none of these names.

    >>> question_column({"id": 1, "question": "Who?", "text": "..."})
    'question'
    """
    return next((name for name in QUESTION_COLUMNS if name in row), "")


@dataclass(frozen=True)
class Examples:
    """The examples of one split, and shared data for scoring them (ontologies, candidates)."""

    rows: list[Row]
    context: Any = None
    annotations: "Annotations | None" = None
    """Annotations of the predictions that are scored; None where there are none."""
    mode: str = ""
    """The scoring mode of explanations; empty for the default mode."""

    @property
    def ids(self) -> list[Any]:
        """The id of each example, in order."""
        return [row["id"] for row in self.rows]


@dataclass(frozen=True)
class Scores:
    """One value per example and metric, in the order of the examples; NaN means "not scored"."""

    values: Mapping[str, NDArray[np.float64]]
    slices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    at_least: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """For metrics with undetermined values (NaN): the column with their lower bounds."""
    draws: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """For metrics with random draws, such as seeds of topic models: the values of each, shape (draws, examples).
    `values` has their mean."""

    def compared(self, metric: str) -> NDArray[np.float64]:
        """Return the values for comparing systems: lower bounds for undetermined ones, or one row for each draw."""
        return self.draws.get(metric, self.at_least.get(metric, self.values[metric]))

    def of(self, chosen: NDArray[np.bool_]) -> "Scores":
        """Return the scores of the chosen examples."""
        return Scores(
            {metric: values[chosen] for metric, values in self.values.items()},
            {name: np.asarray(keys)[chosen].tolist() for name, keys in self.slices.items()},
            {},
            {metric: values[chosen] for metric, values in self.at_least.items()},
            {metric: values[:, chosen] for metric, values in self.draws.items()},
        )
