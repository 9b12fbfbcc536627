"""Two systems on the same examples: are they different, by how much, and where?"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks import Place, benchmark
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import UsageError
from kbbench_hf.files import user_path
from kbbench_hf.metrics.significance import PairedTest, holm, paired_test
from kbbench_hf.scoring.asked import place_of_run
from kbbench_hf.scoring.predictions import ReadOptions
from kbbench_hf.scoring.result import Result, annotations_of, finite
from kbbench_hf.scoring.score import Answers, score

MOVED = 3
"""So few answers under other ids may be chance."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """Two systems on the same examples: the paired test of every metric that both have, a - b."""

    a: Result
    b: Result
    tests: Mapping[str, PairedTest]
    warnings: Sequence[ScoreWarning] = ()
    """What weakens the comparison: its own warnings, then those of A and of B."""

    def __repr__(self) -> str:
        """Name the two, with the first differences and their p-values."""
        tests = [f"{name} {test.difference:+z.4f}, p = {test.p_value:.4f}" for name, test in self.tests.items()][:4]
        warned = f"; {len(self.warnings)} warnings" if self.warnings else ""
        return f"<Comparison {self.a.place}: {'; '.join(tests)}; {len(self.a.ids):,} examples{warned}>"

    def in_slice(self, name: str) -> dict[str, dict[str, PairedTest]]:
        """Return the tests within each key of a slice."""
        keys = np.asarray(self.a.example_slices[name])
        return {key: _tests(self.a, self.b, keys == key) for key in dict.fromkeys(keys.tolist())}

    def to_dict(self) -> dict[str, object]:
        """Return plain values: each metric's difference a - b, interval, p-values, wins, ties and losses.

        `p_holm` is corrected for all metrics tested on the same examples.
        """
        return {
            "benchmark": self.a.benchmark,
            "config": self.a.config,
            "split": self.a.split,
            "mode": self.a.mode,
            "warnings": [warning.to_dict() for warning in self.warnings],
            "systems": {name: _plain_system(each) for name, each in (("A", self.a), ("B", self.b))},
            "tests": _plain_tests(self.tests),
            "slices": {
                name: {key: _plain_tests(tests) for key, tests in self.in_slice(name).items()}
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
        benchmark: what files and objects answer; a result and the folder of a run say it themselves, for both.
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
    if benchmark is None and (place := _own_place(a) or _own_place(b)):
        benchmark, split, mode = f"{place.benchmark}/{place.config}", split or place.split, mode or place.mode
    first, second = (
        each if isinstance(each, Result) else score(each, benchmark, split=split, mode=mode, options=options)
        for each in (a, b)
    )
    refuse_incomparable(first, second)
    groups = first.example_slices.get(first.group_by) if first.group_by else None
    tests = _tests(first, second, np.full(len(first.ids), True), groups)
    return Comparison(first, second, tests, _warnings(first, second))


def _own_place(answers: Result | Answers) -> Place | None:
    """Return where a result was scored, or a run's folder run; None where nothing says it."""
    if isinstance(answers, Result):
        return answers.place
    return place_of_run([user_path(answers)]) if isinstance(answers, Path | str) else None


def refuse_incomparable(a: Result, b: Result) -> None:
    """Refuse two results that were not had on the same examples, data and annotations.

    Raises:
        UsageError: they were not; its code names what differs.
    """
    for name in ("benchmark", "config", "split", "mode", "dataset_revision"):
        if getattr(a, name) != getattr(b, name):
            raise UsageError(
                f"The two differ in {name}: {getattr(a, name)!r} and {getattr(b, name)!r}; "
                "a paired test needs the same. Score both on the same examples.",
                code="revision" if name == "dataset_revision" else name,
            )
    made_on = [each.made_on or each.dataset_revision for each in (a, b)]
    if made_on[0] != made_on[1]:
        raise UsageError(
            f"The two were made on different revisions of the data: {made_on[0][:8]} and {made_on[1][:8]}; a paired "
            "test needs the same. Run both on the data at hand.",
            code="revision",
        )
    for each in (a, b):
        if elsewhere := next((warning for warning in each.warnings if warning.code == "place"), None):
            raise UsageError(str(elsewhere), code="place")
    if a.ids != b.ids:
        raise UsageError(
            f"The two were scored on other examples: {len(a.ids):,} and {len(b.ids):,}; a paired test needs the same. "
            "Run or score both on the same ones (--limit).",
            code="limit",
        )
    made_with = [annotations_of(each.versions) for each in (a, b)]
    for name in sorted(made_with[0].keys() & made_with[1].keys()):
        if made_with[0][name] != made_with[1][name]:
            raise UsageError(
                f"The two differ in the annotations of {name}: {made_with[0][name]} and {made_with[1][name]}; figures "
                "of different embedders, judges or topic models must not be compared. Annotate both alike.",
                code="annotations",
            )


def _warnings(a: Result, b: Result) -> list[ScoreWarning]:
    """Return what weakens the comparison: each system's own warnings, and what the difference is without their gaps."""
    own = [replace(warning, system=name) for name, each in (("A", a), ("B", b)) for warning in each.warnings]
    return [*pair_warnings(a, b), *different_texts({"A": a, "B": b}), *own]


def pair_warnings(a: Result, b: Result, names: tuple[str, str] = ("A", "B")) -> list[ScoreWarning]:
    """Return what weakens the comparison of two systems, beside what each one's own result warns of."""
    found = _moved(a.digests, b.digests, names)
    both, headline = a.answered & b.answered, benchmark(a.benchmark).headline
    if both.all() or not both.any() or headline not in a.compared or headline not in b.compared:
        return found
    keys = a.example_slices.get(a.group_by) if a.group_by else None
    groups = keys and [key for key, kept in zip(keys, both, strict=True) if kept]
    test = paired_test(a.compared[headline][..., both], b.compared[headline][..., both], groups)
    whole = "The difference" if names == ("A", "B") else f"The difference of {names[0]} and {names[1]}"
    return [
        ScoreWarning(
            "missing",
            f"{whole} holds what is missing: on the {int(both.sum()):,} of {len(both):,} examples that both answered, "
            f"{benchmark(a.benchmark).metrics[headline]} differs by {test.difference:+z.4f}, p = {test.p_value:.4f}.",
            "Compare whole files.",
            int((~both).sum()),
            {headline: test.difference},
        ),
        *found,
    ]


def different_texts(systems: Mapping[str, Result]) -> list[ScoreWarning]:
    """Return a warning where retrievers read different texts of the nodes; systems of which none is known are left out.

    `systems` are results by the name that the message gives them.
    """
    read = {name: sorted({_rendering(each) for each in of.texts.values()}) for name, of in systems.items() if of.texts}
    if len(set(map(tuple, read.values()))) < 2:
        return []
    listed = "; ".join(f"{name}: {', '.join(texts)}" for name, texts in read.items())
    message = f"The retrievers read different texts of the nodes ({listed}), which may explain a part of a difference."
    return [ScoreWarning("different_texts", message, "Run them on the same text, with @text=clean for example.")]


def _rendering(about: Mapping[str, object]) -> str:
    return f"{about['rendering']}{' with relations' if about['relations'] else ''}"


def _moved(a: Sequence[int], b: Sequence[int], names: tuple[str, str] = ("A", "B")) -> list[ScoreWarning]:
    """Return a warning where most answers of B are A's to other examples: a column was joined in another order.

    >>> [warning.n_examples for warning in _moved([5, 6, 7, 8], [8, 5, 6, 7])], _moved([5, 6, 7, 8], [5, 6, 8, 7])
    ([4], [])
    """
    times = Counter(a)
    of_a = {answer: n for n, answer in enumerate(a) if answer and times[answer] == 1}
    moved = sum(of_a.get(answer, n) != n for n, answer in enumerate(b))
    answered = sum(map(bool, b))
    if moved < MOVED or 2 * moved <= answered:
        return []
    message = f"{moved:,} of {answered:,} answers of {names[1]} are those of {names[0]} to other examples."
    return [ScoreWarning("moved_answers", message, "Join answers to ids again, by id and not by position.", moved)]


def _tests(
    a: Result, b: Result, chosen: NDArray[np.bool_], groups: Sequence[str] | None = None
) -> dict[str, PairedTest]:
    """Return the test of each shared metric on the chosen examples; a win of a is the better value, not the greater."""
    lower_is_better = benchmark(a.benchmark).scoring.lower_is_better
    tests = {}
    for metric in a.compared:
        if metric in b.compared:
            test = paired_test(a.compared[metric][..., chosen], b.compared[metric][..., chosen], groups)
            lower = metric in lower_is_better
            tests[metric] = test._replace(wins=test.losses, losses=test.wins) if lower else test
    return tests


def _plain_system(result: Result) -> dict[str, object]:
    plain = result.to_dict()
    return {name: plain[name] for name in ("scores", "counters", "predictions_sha256")}


def _plain_tests(tests: Mapping[str, PairedTest]) -> dict[str, dict[str, object]]:
    corrected = holm([test.p_value for test in tests.values()])
    return {
        metric: {
            **test._asdict(),
            "difference": finite(test.difference),
            "ci95": [finite(bound) for bound in test.ci95],
            "p_holm": p_holm,
        }
        for (metric, test), p_holm in zip(tests.items(), corrected, strict=True)
    }
