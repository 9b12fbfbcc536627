"""Two systems on the same examples: are they different, by how much, and where?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.errors import UsageError
from kbbench_hf.hub.load import find_benchmark
from kbbench_hf.metrics.significance import PairedTest, paired_test
from kbbench_hf.scoring import ANNOTATIONS, Result, finite


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same examples: the paired test of every metric that both have, a - b."""

    a: Result
    b: Result
    tests: Mapping[str, PairedTest]

    def in_slice(self, name: str) -> dict[str, dict[str, PairedTest]]:
        """Return the tests within each key of a slice."""
        keys = np.asarray(self.a.example_slices[name])
        return {key: _tests(self.a, self.b, keys == key) for key in dict.fromkeys(keys.tolist())}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: each metric's difference a - b, interval, p-value, wins, ties and losses."""
        return {
            "benchmark": self.a.benchmark,
            "config": self.a.config,
            "split": self.a.split,
            "mode": self.a.mode,
            "tests": {metric: _plain_test(test) for metric, test in self.tests.items()},
            "slices": {
                name: {
                    key: {metric: _plain_test(test) for metric, test in tests.items()}
                    for key, tests in self.in_slice(name).items()
                }
                for name in self.a.example_slices
            },
        }


def compare(a: Result, b: Result) -> Comparison:
    """Return the paired tests of every metric that two results share: a - b, on the same examples.

    Raises:
        UsageError: the two were not scored on the same examples in the same mode, or not with the same annotations.
    """
    for name in ("benchmark", "config", "split", "mode", "dataset_revision"):
        if getattr(a, name) != getattr(b, name):
            raise UsageError(
                f"The two differ in {name}: {getattr(a, name)!r} and {getattr(b, name)!r}; "
                "a paired test needs the same. Score both on the same examples."
            )
    made_with = [
        {name: made for name, made in each.versions.items() if name.startswith(ANNOTATIONS)} for each in (a, b)
    ]
    for name in sorted(made_with[0].keys() & made_with[1].keys()):
        if made_with[0][name] != made_with[1][name]:
            raise UsageError(
                f"The two differ in {name}: {made_with[0][name]} and {made_with[1][name]}; figures of different "
                "embedders, judges or topic models must not be compared. Annotate both alike."
            )
    groups = a.example_slices.get(a.group_by) if a.group_by else None
    return Comparison(a, b, _tests(a, b, np.full(len(a.ids), True), groups))


def _tests(
    a: Result, b: Result, chosen: NDArray[np.bool_], groups: Sequence[str] | None = None
) -> dict[str, PairedTest]:
    """Return the test of each shared metric on the chosen examples; a win of a is the better value, not the greater."""
    lower_is_better = find_benchmark(a.benchmark).lower_is_better
    tests = {}
    for metric in a.compared:
        if metric in b.compared:
            test = paired_test(a.compared[metric][chosen], b.compared[metric][chosen], groups)
            lower = metric in lower_is_better
            tests[metric] = test._replace(wins=test.losses, losses=test.wins) if lower else test
    return tests


def _plain_test(test: PairedTest) -> dict[str, Any]:
    return {
        **test._asdict(),
        "difference": finite(test.difference),
        "ci95": [finite(bound) for bound in test.ci95],
    }
