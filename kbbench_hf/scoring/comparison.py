"""`compare`: paired significance tests of two systems on the same examples, with Holm adjustment.

`kbbench compare`, the public `compare`, tables of results and pages use it; all must show the same p-value of a pair.
Differences are a - b, and p-values are those of `metrics.significance` with its fixed seed: published digits.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks import TaskKey
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import UsageError
from kbbench_hf.files import refuse_stdin_twice, user_path
from kbbench_hf.metrics.significance import ALPHA, PairedTest, holm, holm_levels, paired_test
from kbbench_hf.scoring.eval_task import task_key_of_run
from kbbench_hf.scoring.options import LogOptions, ReadOptions
from kbbench_hf.scoring.result import Result, annotations_of, finite
from kbbench_hf.scoring.score import Answers, score

ABOUT_ALL = frozenset({"revisions", "shared_examples", "left_out_metrics", "direction"})
"""Codes of warnings that one result has, and that are about all systems of a comparison."""
MOVED = 3
"""Fewer answers under other ids may be chance."""


class ShownTest(NamedTuple):
    """A paired test as every table, page and program shows it: its interval agrees with its p-value."""

    test: PairedTest
    """The test; its interval is at the level that the adjustment leaves: 95 % without adjustment."""
    p: float
    """The p-value, adjusted where `n_adjusted` is more than 1."""
    n_adjusted: int
    """The number of tests of Holm's adjustment; 1 for a test that is not adjusted."""

    @property
    def significant(self) -> bool:
        """Whether the difference is significant at 5 %."""
        return self.p <= ALPHA


def adjusted_tests(test: Callable[[str, float], PairedTest], names: Sequence[str]) -> dict[str, ShownTest]:
    """Return name -> test of tests that are shown together, with Holm's adjustment, in the given order.

    A test alone is not adjusted. Tests without a difference (NaN: nothing is scored for both) do not count.

    Args:
        test: (name, level) -> the test, with its interval at that level.
        names: metrics, pairs of systems or keys of a slice.
    """
    raw = {name: test(name, ALPHA) for name in names}
    tested = {name: each.p_value for name, each in raw.items() if math.isfinite(each.difference)}
    shown = {name: ShownTest(each, each.p_value, 1) for name, each in raw.items()}
    p_values = [*tested.values()]
    for name, p, level in zip(tested, holm(p_values), holm_levels(p_values), strict=True):
        shown[name] = ShownTest(raw[name] if level == ALPHA else test(name, level), p, len(tested))
    return shown


@dataclass(frozen=True, repr=False)
class Comparison:
    """Two systems on the same examples: the paired test of every metric that both have, a - b."""

    a: Result
    b: Result
    tests: Mapping[str, PairedTest]
    warnings: Sequence[ScoreWarning] = ()
    """Warnings on the comparison, then those of A and of B."""

    def __repr__(self) -> str:
        """Name the two, with the first differences and their p-values."""
        tests = [f"{name} {test.difference:+z.4f}, p = {test.p_value:.4f}" for name, test in self.tests.items()][:4]
        n = len(self.warnings)
        warned = f"; {n} warning{'s' if n > 1 else ''}" if n else ""
        return f"<Comparison {self.a.task_key}: {'; '.join(tests)}; {len(self.a.ids):,} examples{warned}>"

    def shown(self, metrics: Sequence[str] | None = None) -> dict[str, ShownTest]:
        """Return the tests that tables show, in the order of the tables.

        The benchmark's headline metric is tested on its own, without adjustment. The p-values of the other metrics are
        adjusted (Holm) over these others, and their intervals with them.

        Args:
            metrics: the metrics to show; the headline metrics where None.
        """
        definition = self.a.definition
        wanted = definition.headline_metrics(self.tests) if metrics is None else metrics
        chosen = [metric for metric in self.tests if metric in wanted]

        def test(metric: str, level: float) -> PairedTest:
            return self.tests[metric] if level == ALPHA else _test(self.a, self.b, metric, level=level)

        headline = [metric for metric in chosen if metric == definition.headline]
        others = [metric for metric in chosen if metric != definition.headline]
        tests = adjusted_tests(test, headline) | adjusted_tests(test, others)
        return {metric: tests[metric] for metric in chosen}

    def in_slice(self, name: str) -> dict[str, dict[str, PairedTest]]:
        """Return key -> metric -> unadjusted test within each key of a slice, keys by first occurrence."""
        keys = np.asarray(self.a.example_slices[name])
        return {key: _tests(self.a, self.b, keys == key) for key in dict.fromkeys(keys.tolist())}

    def shown_in_slice(self, name: str, metric: str) -> dict[str, ShownTest]:
        """Return key -> test of one metric within each key of a slice, adjusted over the keys."""
        keys = np.asarray(self.a.example_slices[name])

        def test(key: str, level: float) -> PairedTest:
            return _test(self.a, self.b, metric, keys == key, level)

        return adjusted_tests(test, list(dict.fromkeys(keys.tolist())))

    def to_dict(self, metrics: Sequence[str] | None = None) -> dict[str, object]:
        """Return plain values: each metric's difference a - b, interval, p-values, wins, ties and losses.

        `p_value` and `ci95` are unadjusted. The metrics of `shown(metrics)` also have what tables print: `p_shown`, its
        interval `ci_shown`, and `n_adjusted`, over how many tests both are adjusted.
        """
        return {
            **self.a.task_key._asdict(),
            "warnings": [warning.to_dict() for warning in self.warnings],
            "systems": {name: _plain_system(each) for name, each in (("A", self.a), ("B", self.b))},
            "tests": _plain_tests(self.tests, self.shown(metrics)),
            "slices": {name: self._plain_slice(name) for name in self.a.example_slices},
        }

    def _plain_slice(self, name: str) -> dict[str, dict[str, dict[str, object]]]:
        headline = self.a.definition.headline
        shown = self.shown_in_slice(name, headline)
        return {key: _plain_tests(tests, {headline: shown[key]}) for key, tests in self.in_slice(name).items()}


def compare(
    a: Result | Answers | Mapping[str, float],
    b: Result | Answers | Mapping[str, float],
    benchmark: str | None = None,
    *,
    split: str | None = None,
    mode: str | None = None,
    options: ReadOptions | None = None,
    across_prompts: bool = False,
    logs: LogOptions | None = None,
) -> Comparison:
    """Return the paired tests of every metric that two systems share: a - b, on the same examples.

    Args:
        a: a result, or what `score` takes: a predictions file, a run's folder, objects. Of a run with repeats, each
            example's mean over all repeats is compared. Without a benchmark: a log of another harness or a table of
            scores, as a file, a DataFrame, a Dataset, a list of objects or an object id -> score.
        b: the other one.
        benchmark: what files and objects answer; a result and the folder of a run say it themselves, for both.
        split: the split; the benchmark's default where None.
        mode: the scoring mode; the benchmark's first where None.
        options: how to read predictions.
        across_prompts: whether runs with different prompts are compared; a warning names them.
        logs: the columns of logs and tables of scores.

    Raises:
        UsageError: the two were not scored on the same examples in the same mode, or not with the same annotations, or
            their runs used different prompts.

    >>> from kbbench_hf.benchmarks import shipped_answers
    >>> copy, pattern = shipped_answers("mini-text2kg")
    >>> print(f"{compare(pattern, copy, 'mini-text2kg').tests['f1'].difference:+.3f}")
    +0.224
    >>> compare({"q1": 1, "q2": 0, "q3": 1}, {"q1": 0, "q2": 0, "q3": 0}).tests["score"].wins
    2
    """
    if benchmark is None and (task_key := own_task_key(a) or own_task_key(b)):
        benchmark = f"{task_key.benchmark}/{task_key.config}"
        split, mode = split or task_key.split, mode or task_key.mode
    refuse_stdin_twice([a, b])
    if logs and logs.across_revisions:
        from kbbench_hf.scoring.stored_runs import results_across_revisions

        a, b = results_across_revisions([("A", a), ("B", b)], logs)
    elif benchmark is None and not isinstance(a, Result) and not isinstance(b, Result):
        from kbbench_hf.scoring.score_logs import results_of_logs

        a, b = results_of_logs([("A", a), ("B", b)], logs or LogOptions(), options)
    first, second = (
        each if isinstance(each, Result) else score(each, benchmark, split=split, mode=mode, options=options)
        for each in (a, b)
    )
    first, second = first.averaged or first, second.averaged or second
    refuse_incomparable(first, second, across_prompts=across_prompts)
    return Comparison(first, second, _tests(first, second), comparison_warnings({"A": first, "B": second}))


def own_task_key(answers: Result | Answers) -> TaskKey | None:
    """Return the task of a result or of a run's folder or log; None for other answers."""
    if isinstance(answers, Result):
        return answers.task_key
    return task_key_of_run([user_path(answers)]) if isinstance(answers, Path | str) else None


def refuse_incomparable(
    a: Result, b: Result, names: tuple[str, str] = ("A", "B"), *, across_prompts: bool = False
) -> None:
    """Check that two results have the same examples, data revision, annotations and prompts.

    Raises:
        UsageError: they have not; its `code` names what differs.
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
            f"The two runs used different revisions of the data: {made_on[0][:8]} and {made_on[1][:8]}; a paired "
            "test needs the same. Run both on the installed data, or compare the stored scores of each: "
            "--across-revisions.",
            code="revision",
        )
    for each in (a, b):
        if elsewhere := next((warning for warning in each.warnings if warning.code == "place"), None):
            raise UsageError(str(elsewhere), code="place")
    if a.ids != b.ids:
        raise UsageError(
            f"The two systems were scored on different examples ({len(a.ids):,} and {len(b.ids):,}); a paired test "
            "needs the same. Run or score both on the same ones (--limit).",
            code="limit",
        )
    made_with = [annotations_of(each.versions) for each in (a, b)]
    for name in sorted(made_with[0].keys() & made_with[1].keys()):
        if made_with[0][name] != made_with[1][name]:
            raise UsageError(
                f"The two differ in the annotations of {name}: {made_with[0][name]} and {made_with[1][name]}; scores "
                "with different embedders, judges or topic models are not comparable. Annotate both with the same "
                "ones.",
                code="annotations",
            )
    if not across_prompts and (prompts := _different_prompts(dict(zip(names, (a, b), strict=True)))):
        raise UsageError(
            f"The two runs used different prompts: {prompts}; a difference in score may be one of prompts. Run both "
            "with the same prompt, or compare them nevertheless: --across-prompts (in Python: across_prompts=True).",
            code="prompts",
        )


def comparison_warnings(systems: Mapping[str, Result]) -> list[ScoreWarning]:
    """Return the warnings on a comparison: missing predictions, other texts and prompts, then each system's own.

    `systems` are results by their names in messages.
    """
    pairs = [each for a, b in combinations(systems, 2) for each in _pair_warnings(systems[a], systems[b], (a, b))]
    own = [
        replace(warning, system="" if warning.code in ABOUT_ALL else name)
        for name, each in systems.items()
        for warning in each.warnings
    ]
    return [*pairs, *_different_texts(systems), *_prompt_warnings(systems), *_repeat_notes(systems), *own]


def _pair_warnings(a: Result, b: Result, names: tuple[str, str]) -> list[ScoreWarning]:
    """Return the warnings on the comparison of two systems, without those of their own results."""
    moved = _moved_answers(a.digests, b.digests, names)
    both, headline = a.answered & b.answered, a.definition.headline
    if both.all() or not both.any() or headline not in a.compared or headline not in b.compared:
        return moved
    groups = a.groups and [key for key, in_both in zip(a.groups, both, strict=True) if in_both]
    label = a.definition.metrics[headline]
    test = paired_test(a.compared[headline][..., both], b.compared[headline][..., both], groups)
    pair = "" if names == ("A", "B") else f" {names[0]} and {names[1]}"
    message = (
        f"Missing predictions count as wrong. On the {int(both.sum()):,} of {len(both):,} examples that both{pair} "
        f"answered, {label} differs by {test.difference:+z.4f}, p = {test.p_value:.4f}."
    )
    effect = {headline: test.difference}
    return [ScoreWarning("missing", message, "Compare complete files.", int((~both).sum()), effect), *moved]


def _different_texts(systems: Mapping[str, Result]) -> list[ScoreWarning]:
    """Return a warning if retrievers read different texts; systems without known texts are left out."""

    def rendering(about: Mapping[str, object]) -> str:
        return f"{about['rendering']}{' with relations' if about['relations'] else ''}"

    read = {name: sorted({*map(rendering, of.texts.values())}) for name, of in systems.items() if of.texts}
    if len(set(map(tuple, read.values()))) < 2:
        return []
    listed = "; ".join(f"{name}: {', '.join(texts)}" for name, texts in read.items())
    message = f"The retrievers read different texts of the nodes ({listed}), which may explain a part of a difference."
    return [ScoreWarning("different_texts", message, "Run them on the same text, with @text=clean for example.")]


def _prompt_warnings(systems: Mapping[str, Result]) -> list[ScoreWarning]:
    """Return a warning where runs used different prompts."""
    if not (names := _different_prompts(systems)):
        return []
    message = f"The runs used different prompts ({names}), which may explain a part of a difference."
    return [ScoreWarning("different_prompts", message, "Run them with the same prompt.")]


def _different_prompts(systems: Mapping[str, Result]) -> str:
    """Return the prompts of the systems in words, with a hash if two have one name; empty if none differ."""
    used = {name: each.prompt for name, each in systems.items() if each.prompt}
    if not any(one.differs(other) for one, other in combinations(used.values(), 2)):
        return ""
    times = Counter(each.name for each in used.values())
    return "; ".join(
        f"{name}: {each.name}{f' ({each.sha256[:8]})' if times[each.name] > 1 and each.sha256 else ''}"
        for name, each in used.items()
    )


def _repeat_notes(systems: Mapping[str, Result]) -> list[ScoreWarning]:
    """Return a note if systems have repeats: their scores are means, and how to compare one repeat."""
    times = {name: len(next(iter(each.repeats.values()))) for name, each in systems.items() if each.repeats}
    if not times:
        return []
    listed = ", ".join(f"{name} ({n} repeats)" for name, n in times.items())
    message = f"Scores and tests use each example's mean over repeats: {listed}."
    if len(times) < len(systems):
        message = f"{message} The other systems are single runs."
    remedy = "To compare one repeat, name its file in the run folder, such as predictions.1.jsonl."
    return [ScoreWarning("repeats", message, remedy, severity="note")]


def _moved_answers(a: Sequence[int], b: Sequence[int], names: tuple[str, str]) -> list[ScoreWarning]:
    """Return a warning if most answers of B are A's to other examples: a column was joined in another order.

    `a` and `b` are `Predictions.digests`, 0 where there is no answer; answers that A gave several times do not count.

    >>> [warning.n_examples for warning in _moved_answers([5, 6, 7, 8], [8, 5, 6, 7], ("A", "B"))]
    [4]
    >>> _moved_answers([5, 6, 7, 8], [5, 6, 8, 7], ("A", "B"))
    []
    """
    times = Counter(a)
    of_a = {answer: n for n, answer in enumerate(a) if answer and times[answer] == 1}
    moved = sum(of_a.get(answer, n) != n for n, answer in enumerate(b))
    answered = sum(map(bool, b))
    if moved < MOVED or 2 * moved <= answered:
        return []
    message = f"{moved:,} of {answered:,} predictions of {names[1]} are those of {names[0]} for other examples."
    return [ScoreWarning("moved_answers", message, "Join predictions to ids by id, not by position.", moved)]


def _tests(a: Result, b: Result, chosen: NDArray[np.bool_] | None = None) -> dict[str, PairedTest]:
    """Return metric -> test of the metrics that both have, see `_test`."""
    return {metric: _test(a, b, metric, chosen) for metric in a.compared if metric in b.compared}


def _test(
    a: Result, b: Result, metric: str, chosen: NDArray[np.bool_] | None = None, level: float = ALPHA
) -> PairedTest:
    """Return the test of a metric on the chosen examples; a win of a is the better value, not the greater.

    Over all examples (None) it is over the groups of the examples, where scores are averaged over these.
    """
    rows = slice(None) if chosen is None else chosen
    clusters = None if a.clusters is None else np.asarray(a.clusters)[rows].tolist()
    first, second = (each.compared[metric][..., rows] for each in (a, b))
    test = paired_test(first, second, a.groups if chosen is None else None, level=level, clusters=clusters)
    return test.with_better(lower=metric in a.definition.scoring.lower_is_better)


def _plain_system(result: Result) -> dict[str, object]:
    """Return what `Comparison.to_dict` has of one system."""
    plain = result.to_dict()
    own: dict[str, object] = {name: plain[name] for name in ("scores", "counters", "predictions_sha256")}
    own |= {"prompt": result.prompt._asdict()} if result.prompt else {}
    return own | ({"repeats": plain["repeats"]} if result.repeats else {})


def _plain_tests(tests: Mapping[str, PairedTest], shown: Mapping[str, ShownTest]) -> dict[str, dict[str, object]]:
    """Return metric -> test as JSON values; NaN and infinities are None."""
    plain: dict[str, dict[str, object]] = {}
    for metric, raw in tests.items():
        ends = [*map(finite, raw.ci95)]
        plain[metric] = {**raw._asdict(), "difference": finite(raw.difference), "ci95": ends}
        if metric in shown:
            test, p, n_adjusted = shown[metric]
            plain[metric] |= {"p_shown": p, "ci_shown": [*map(finite, test.ci95)], "n_adjusted": n_adjusted}
    return plain
