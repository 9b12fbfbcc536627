"""Two systems on the same examples: are they different, by how much, and where?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks import benchmark
from kbbench_hf.errors import UsageError
from kbbench_hf.metrics.significance import PairedTest, paired_test
from kbbench_hf.scoring.predictions import ReadOptions
from kbbench_hf.scoring.result import Result, finite
from kbbench_hf.scoring.score import ANNOTATIONS, Answers, score


@dataclass(frozen=True, repr=False)
class Comparison:
    """Two systems on the same examples: the paired test of every metric that both have, a - b."""

    a: Result
    b: Result
    tests: Mapping[str, PairedTest]

    def __repr__(self) -> str:
        """Name the two, with the first differences and their p-values."""
        tests = [f"{name} {test.difference:+.4f}, p = {test.p_value:.4f}" for name, test in self.tests.items()][:4]
        return f"<Comparison {self.a.place}: {'; '.join(tests)}; {len(self.a.ids):,} examples>"

    def in_slice(self, name: str) -> dict[str, dict[str, PairedTest]]:
        """Return the tests within each key of a slice."""
        keys = np.asarray(self.a.example_slices[name])
        return {key: _tests(self.a, self.b, keys == key) for key in dict.fromkeys(keys.tolist())}

    def to_dict(self) -> dict[str, object]:
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


def compare(
    a: Result | Answers,
    b: Result | Answers,
    benchmark: str | None = None,
    *,
    split: str | None = None,
    mode: str | None = None,
    options: ReadOptions | None = None,
) -> Comparison:
    """Return the paired tests of every metric that two systems share: a - b, on the same examples.

    Args:
        a: a result, or what `score` takes: a predictions file, a run's folder, objects.
        b: the other one.
        benchmark: what files and objects answer; the folder of a run says it itself.
        split: the split; the benchmark's default where None.
        mode: the scoring mode; the benchmark's first where None.
        options: how to read predictions.

    Raises:
        UsageError: the two were not scored on the same examples in the same mode, or not with the same annotations.

    >>> from kbbench_hf.benchmarks import shipped_answers
    >>> copy, pattern = shipped_answers("mini-text2kg")
    >>> print(f"{compare(pattern, copy, 'mini-text2kg').tests['f1'].difference:+.3f}")
    +0.224
    """
    a, b = (
        each if isinstance(each, Result) else score(each, benchmark, split=split, mode=mode, options=options)
        for each in (a, b)
    )
    for name in ("benchmark", "config", "split", "mode", "dataset_revision"):
        if getattr(a, name) != getattr(b, name):
            raise UsageError(
                f"The two differ in {name}: {getattr(a, name)!r} and {getattr(b, name)!r}; "
                "a paired test needs the same. Score both on the same examples."
            )
    if a.ids != b.ids:
        raise UsageError(
            f"The two were scored on other examples: {len(a.ids):,} and {len(b.ids):,}; a paired test needs the same. "
            "Run or score both on the same ones (--limit)."
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
    lower_is_better = benchmark(a.benchmark).scoring.lower_is_better
    tests = {}
    for metric in a.compared:
        if metric in b.compared:
            test = paired_test(a.compared[metric][chosen], b.compared[metric][chosen], groups)
            lower = metric in lower_is_better
            tests[metric] = test._replace(wins=test.losses, losses=test.wins) if lower else test
    return tests


def _plain_test(test: PairedTest) -> dict[str, object]:
    return {
        **test._asdict(),
        "difference": finite(test.difference),
        "ci95": [finite(bound) for bound in test.ci95],
    }
