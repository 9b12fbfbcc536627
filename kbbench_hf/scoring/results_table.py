"""Results of several systems side by side, also published ones: scores, paired tests, and rank groups.

`kbbench report` and `compare` use it; `reports` writes tables and pages of the blocks. The order of systems, the tests
and the groups are published: ties keep the given order, and Holm's adjustment is over all pairs of a block.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from kbbench_hf.benchmarks import PUBLISHED, TaskKey, benchmark, name_of_path, task_key_of
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.benchmarks.baselines import find_published
from kbbench_hf.benchmarks.charts import ShownScore
from kbbench_hf.benchmarks.published import PublishedRow
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import UsageError
from kbbench_hf.files import refuse_stdin_twice, user_path
from kbbench_hf.files.datasets import read_json
from kbbench_hf.metrics.significance import PairedTest, paired_test, rank_groups
from kbbench_hf.scoring.comparison import adjusted_tests, comparison_warnings, own_task_key, refuse_incomparable
from kbbench_hf.scoring.eval_task import RUN, missing_benchmark_error, run_settings, system_name
from kbbench_hf.scoring.options import LogOptions, ReadOptions
from kbbench_hf.scoring.result import Result
from kbbench_hf.scoring.score import score


@dataclass(frozen=True)
class SystemScore:
    """The row of a system: a result of its predictions, its published scores, or both; then the result is shown."""

    name: str
    result: Result | None = None
    published: PublishedRow | None = None
    answers: Path | None = None
    """The file or folder of its predictions, if it was scored from one."""

    def figure(self, metric: str) -> ShownScore | None:
        """Return its score in a metric; None if it has none or NaN. Published ones have digits and no interval."""
        if self.result is not None:
            figure = self.result.scores.get(metric)
            return ShownScore(figure.value, figure.ci95) if figure and math.isfinite(figure.value) else None
        if self.published is not None and metric in self.published.figures:
            published = self.published.figures[metric]
            return ShownScore(published.value, None, published.digits)
        return None


class HeadToHead(NamedTuple):
    """The paired test of two systems, by name; its interval and p-value are Holm-adjusted over the block's tests."""

    a: str
    b: str
    test: PairedTest
    p_holm: float


@dataclass(frozen=True)
class Block:
    """The systems on one task, best first by the first metric; those without a score in it last."""

    task_key: TaskKey
    metrics: Sequence[str]
    systems: Sequence[SystemScore]
    tests: Sequence[HeadToHead]
    """Tests of the first metric, for every two systems whose predictions are available."""
    groups: Mapping[str, int]
    """Name -> rank group, from 1: systems of one group do not differ significantly from its first one."""
    warnings: Sequence[ScoreWarning]

    @property
    def benchmark(self) -> Benchmark:
        """The benchmark of the systems; of logs, a value with their metrics."""
        log = next((each.result.log for each in self.systems if each.result), None)
        return log.benchmark if log else benchmark(self.task_key.benchmark)

    def best(self, metric: str) -> float:
        """Return the best value of a metric; NaN where no system has one."""
        values = [shown.value for system in self.systems if (shown := system.figure(metric))]
        best = min if metric in self.benchmark.scoring.lower_is_better else max
        return best(values, default=math.nan)

    def to_dict(self) -> dict[str, object]:
        """Return JSON values: every system's scores, the tests and the warnings."""
        return {
            **self.task_key._asdict(),
            "systems": [self._system_to_dict(system) for system in self.systems],
            "tests": [
                {"a": each.a, "b": each.b, "metric": self.metrics[0], **each.test._asdict(), "p_holm": each.p_holm}
                for each in self.tests
            ],
            "warnings": [each.to_dict() for each in self.warnings],
        }

    def _system_to_dict(self, system: SystemScore) -> dict[str, object]:
        shown = {metric: figure for metric in self.metrics if (figure := system.figure(metric))}
        sources = [str(source) for source in system.published.sources] if system.published else []
        return {
            "name": system.name,
            "scored_here": system.result is not None,
            "group": self.groups.get(system.name),
            "figures": {metric: {"value": each.value, "ci95": each.ci95} for metric, each in shown.items()},
            "published": sources,
            **({"prompt": system.result.prompt._asdict()} if system.result and system.result.prompt else {}),
        }


def results_table(
    systems: Iterable[str | Path | Result],
    benchmarks: Sequence[str] = (),
    *,
    split: str | None = None,
    mode: str | None = None,
    metrics: Sequence[str] | None = None,
    options: ReadOptions | None = None,
    across_prompts: bool = False,
    logs: LogOptions | None = None,
) -> list[Block]:
    """Return a block for each benchmark, with the systems that have predictions or published scores there.

    Args:
        systems: results, run folders, predictions files (`NAME=FILE` to name them), and `published:NAME`, where NAME
            may be a pattern, `published:*` say. If no benchmark is named or recorded: logs of other harnesses or tables
            of scores.
        benchmarks: the blocks; those of the results and run folders where none are named.
        split: the split of every block; each benchmark's default where None.
        mode: the mode likewise.
        metrics: what to show, the first being the one that orders and tests; else what is published there, or the
            first of the benchmark's.
        options: how to read predictions.
        across_prompts: whether runs with different prompts go into one block, with a warning.
        logs: the columns of logs and tables of scores.

    Raises:
        UsageError: nothing to show, systems that were not scored on the same examples or ran with different prompts, a
            metric that does not exist.

    >>> (block,) = results_table(["published:*"], ["mini-text2kg"], metrics=["f1"])
    >>> [(each.name, round(each.figure("f1").value, 2)) for each in block.systems], dict(block.groups)
    ([('pattern', 0.63), ('copy', 0.4)], {'pattern': 1, 'copy': 2})
    """
    systems = list(systems)
    named_systems = [named_system(each) for each in systems]
    refuse_stdin_twice(given for _, given in named_systems)
    if (results := logged_results(systems, benchmarks, options, logs)) is not None:
        return results_table(results, metrics=metrics)
    logged = [each.task_key for _, each in named_systems if isinstance(each, Result) and each.log]
    places = logged[:1] or [task_key_of(name_of_path(name), None, split, mode) for name in benchmarks]
    own = (own_task_key(each) for _, each in named_systems if not places)
    for each in dict.fromkeys(filter(None, own)):
        places.append(task_key_of(each.benchmark, each.config, split or each.split, mode or each.mode))
    if not places:
        raise missing_benchmark_error(Path(each) for _, each in named_systems if not isinstance(each, Result))
    return [
        _block(task_key, list(_systems(task_key, named_systems, len(places), options)), metrics, across_prompts)
        for task_key in dict.fromkeys(places)
    ]


def named_system(given: str | Path | Result) -> tuple[str, str | Path | Result]:
    """Return the name of a system and the system: the name before `=`, else that of its run, record or file."""
    if isinstance(given, Result) and given.log:
        return given.log.name, given
    if isinstance(given, Result):
        name_of_run = _name_of_run(given.folder) if given.folder else None
        return name_of_run or given.task_key.benchmark, given
    if not isinstance(given, str | Path):
        return "table", given
    text = str(given)
    if text.startswith(PUBLISHED):
        return text, text
    name, equals, file = text.partition("=")
    if equals and file and not Path(text).exists():
        return name, user_path(file)
    path = user_path(text)
    if re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(_samples)?", path.stem):  # of the EEE datastore
        return "/".join(path.absolute().parts[-3:-1]), path
    return _name_of_run(path) or path.name.partition(".")[0], path


def logged_results(
    systems: Sequence[str | Path | Result],
    benchmarks: Sequence[str] = (),
    options: ReadOptions | None = None,
    logs: LogOptions | None = None,
) -> list[Result] | None:
    """Return the results of logs of other harnesses; None if a benchmark is named, or recorded by a run or result.

    Raises:
        UsageError: the columns of logs are named for predictions of a benchmark.
    """
    named = [named_system(each) for each in systems]
    across = bool(logs and logs.across_revisions)
    of_benchmark = benchmarks or any(isinstance(each, str | Result) or own_task_key(each) for _, each in named)
    if of_benchmark and not across:
        if logs and logs.flags:
            raise UsageError(
                f"{', '.join(logs.flags)} is for logs with scores, and these systems are predictions of a benchmark; "
                "expected one or the other. Leave it out, or name logs only."
            )
        return None
    from kbbench_hf.scoring.score_logs import results_of_logs

    names = [name for name, _ in named]
    given = []
    for number, (name, each) in enumerate(named, start=1):
        if names.count(name) > 1:
            name = str(each) if isinstance(each, Path) else f"{name} {number}"
        given.append((name, each))
    if logs and across:
        from kbbench_hf.scoring.stored_runs import results_across_revisions

        return results_across_revisions(given, logs)
    return results_of_logs(given, logs or LogOptions(), options)


def _name_of_run(folder: Path) -> str | None:
    """Return the name of the system of a run's folder or log; None for other paths."""
    if folder.suffix == ".eval":
        return system_name(run_settings([folder]))
    file = folder / RUN
    return system_name(read_json(file).get("settings", {})) if file.is_file() else None


def _block(task_key: TaskKey, systems: list[SystemScore], metrics: Sequence[str] | None, across_prompts: bool) -> Block:
    """Return the block of systems; they are sorted in place.

    Raises:
        UsageError: there are none, or two cannot be compared.
    """
    bench = next((each.result.definition for each in systems if each.result), None) or benchmark(task_key.benchmark)
    if not systems:
        message = f"Nothing to show of {'/'.join(task_key)}; expected predictions or published scores."
        raise UsageError(f"{message} Name a system.")
    chosen = _metrics(bench, systems, metrics)
    sign = 1 if chosen[0] in bench.scoring.lower_is_better else -1
    order = {each.name: sign * shown.value if (shown := each.figure(chosen[0])) else math.inf for each in systems}
    systems.sort(key=lambda each: order[each.name])
    results = {each.name: each.result for each in systems if each.result is not None}
    for a, b in combinations(results, 2):
        refuse_incomparable(results[a], results[b], (a, b), across_prompts=across_prompts)
    tests = list(_tests([each for each in systems if each.figure(chosen[0])], chosen[0]))
    p_values = {frozenset((each.a, each.b)): each.test.p_value for each in tests}
    tested = [each.name for each in systems if any(each.name in pair for pair in p_values)]
    groups = dict(zip(tested, rank_groups(tested, lambda a, b: p_values[frozenset((a, b))]), strict=True))
    return Block(task_key, chosen, systems, tests, groups, comparison_warnings(results))


NamedSystem = tuple[str, str | Path | Result]
"""A system as it is given, with its name."""


def _systems(
    task_key: TaskKey, named_systems: Sequence[NamedSystem], n_places: int, options: ReadOptions | None
) -> Iterable[SystemScore]:
    """Yield the systems on one of `n_places` tasks, under unique names; others' runs are left out.

    Raises:
        UsageError: with several tasks, a system that is no run.
    """
    taken: set[str] = set()
    where = task_key._asdict()
    for name, given in named_systems:
        if isinstance(given, str):
            for each in find_published(given, task_key):
                if each.system not in taken:
                    taken.add(each.system)
                    result = score(each.answers, **where) if each.answers else None
                    yield SystemScore(each.system, result, each.row, each.answers)
            continue
        if n_places > 1 and (of := own_task_key(given)) is None:
            message = f"{given} records no benchmark, and several are named; expected a run folder."
            raise UsageError(f"{message} Compare one benchmark.")
        if n_places > 1 and of[:3] != task_key[:3]:  # type: ignore[index]
            continue
        result = given if isinstance(given, Result) else score(given, **where, options=options)
        result = result.averaged or result
        names = [name, *(f"{name} ({number})" for number in range(2, len(taken) + 3))]
        unique = next(each for each in names if each not in taken)
        taken.add(unique)
        yield SystemScore(unique, result, None, given.folder if isinstance(given, Result) else given)


def _metrics(of: Benchmark, systems: Sequence[SystemScore], wanted: Sequence[str] | None) -> list[str]:
    """Return the metrics to show, in the order of the benchmark's tables; the wanted ones in the order given."""
    if wanted is not None:
        return of.metric_names(wanted)
    there = [metric for metric in of.metrics if any(each.figure(metric) for each in systems)]
    published = {metric for each in systems if each.published for metric in each.published.figures}
    return [metric for metric in there if metric in published] or of.headline_metrics(there) or [of.headline]


def _tests(systems: Sequence[SystemScore], metric: str) -> Iterable[HeadToHead]:
    """Test every two systems whose answers are available, with Holm's correction over all of these tests."""
    columns = {each.name: each.result.compared[metric] for each in systems if each.result is not None}
    first = next((each.result for each in systems if each.result is not None), None)
    groups, clusters = (first.groups, first.clusters) if first else (None, None)
    pairs = {f"{a}\0{b}": (a, b) for a, b in combinations(columns, 2)}

    def test(pair: str, level: float) -> PairedTest:
        a, b = pairs[pair]
        tested = paired_test(columns[a], columns[b], groups, level=level, clusters=clusters)
        return tested.with_better(lower=first is not None and metric in first.definition.scoring.lower_is_better)

    for pair, shown in adjusted_tests(test, list(pairs)).items():
        yield HeadToHead(*pairs[pair], shown.test, shown.p)
