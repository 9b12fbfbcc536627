"""Results of logged scores, without a benchmark: logs, tables and rankings of systems, matched by example.

`compare` and `results_table` use it, and `stored_runs` for runs on different revisions. Scores are the harness's own;
the direction of a metric follows from the log or its name, and a note says so where neither tells.
"""

import json
import math
import re
import zlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks import TaskKey
from kbbench_hf.benchmarks.answers import ANSWERS
from kbbench_hf.benchmarks.base import Benchmark, Data, Facts, Scoring
from kbbench_hf.benchmarks.warnings import ScoreWarning, Severity
from kbbench_hf.errors import DataError, UsageError, first_of, unknown_name
from kbbench_hf.files.rows import Unreadable, value_or_none
from kbbench_hf.files.score_rows import ScoredRow, field_of, log_files, number_of, scored_rows, shown_example
from kbbench_hf.files.trec import Judgments, read_qrels
from kbbench_hf.metrics.aggregate import Estimate, estimate
from kbbench_hf.scoring.options import LogOptions, ReadOptions
from kbbench_hf.scoring.result import Result, ScoreLog
from kbbench_hf.scoring.warnings import small_warning

LOGGED = "logged"
"""Split and mode of logged scores."""
_HIGHER = re.compile(r"acc|match|em$|f1|score|correct|includ|recall|precis|ndcg|map|mrr|hit|bleu|rouge|pass|succ|grade")
_LOWER = re.compile(r"(^|[_.])[tcw]er$|ppl|perpl|loss|error|brier|m[as]e$|latenc|cost|distanc|hallu|tox|bits_per|nll")
_PERCENT = 20
"""Higher scores are taken for percentages if those of another log are at most 1."""
_CLUSTERS = ("document", "doc", "passage", "context", "article", "paragraph", "story", "conversation")
"""Fields that several dependent examples share, with or without `_id`."""
Values = Mapping[str, NDArray[np.float64]]


@dataclass
class _Log:
    """The scores of one system, by example, in the order of its log."""

    name: str
    format: str = ""
    scores: dict[str, dict[str, dict[object, float]]] = field(default_factory=dict)
    """Example -> metric -> repeat -> score."""
    rows: dict[str, ScoredRow] = field(default_factory=dict)
    tasks: dict[str, None] = field(default_factory=dict)
    no_numbers: set[str] = field(default_factory=set)
    """Metrics of which some value is no number."""
    n_failed: int = 0
    """Samples without any score."""
    stated: dict[str, tuple[float | None, bool | None]] = field(default_factory=dict)
    """Metric -> its score over all examples, and whether lower is better, as the log itself says."""
    warnings: list[ScoreWarning] = field(default_factory=list)

    @property
    def metrics(self) -> list[str]:
        """The metrics with a number for some example, in the order of the log; without those in `no_numbers`."""
        scored = (pair for of in self.scores.values() for pair in of.items())
        found = dict.fromkeys(metric for metric, repeats in scored if not all(map(math.isnan, repeats.values())))
        return [metric for metric in found if metric not in self.no_numbers]

    def note(self, code: str, message: str, remedy: str = "", n: int = 0, severity: Severity = "warning") -> None:
        """Add a warning or a note."""
        self.warnings.append(ScoreWarning(code, message, remedy, n, severity=severity))


def results_of_logs(
    systems: Sequence[tuple[str, object]], options: LogOptions, read: ReadOptions | None = None
) -> list[Result]:
    """Return the result of each system on the same examples, in the order given, for comparison.

    Args:
        systems: (name, file, folder or table) of each. A file with several systems gives several.
        options: the columns to read.
        read: which rows to read, and what a repeated id means.

    Raises:
        DataError: a file has no scores, its ids repeat, or the logs share no examples or metrics.
        UsageError: fewer than two systems, or the logs have different examples.

    >>> a, b = [{"id": n, "score": n % 2} for n in range(8)], [{"id": n, "score": 1} for n in range(8)]
    >>> [result.scores["score"].value for result in results_of_logs([("a", a), ("b", b)], LogOptions())]
    [0.5, 1.0]
    """
    judged = read_qrels(options.qrels) if options.qrels else None
    columns = [(name, given, options) for name, given in systems]
    if a_system_each := len(systems) == 1 and len(options.value) > 1 and options.system is None:
        columns = [(column, systems[0][1], replace(options, value=[column])) for column in options.value]
        options = replace(options, value=())
    logs = [log for column in columns for log in _read_logs(*column, read, judged)]
    for log in logs if a_system_each else ():
        log.scores = {example: {"score": next(iter(of.values()))} for example, of in log.scores.items()}
    if len(logs) < 2:
        raise UsageError(
            f"Only one system is given: {logs[0].name}. Expected two or more. Add a file, name the column of systems "
            "(--system COLUMN), or a column of scores for each (--value A,B)."
        )
    ids, metrics = _common_ids(logs, options.shared), _common_metrics(logs, options)
    _check_contents(logs, ids, options)
    values = [{metric: _column(log, ids, metric) for metric in metrics} for log in logs]
    lowest = {metric: min(float(np.nanmin(of[metric])) for of in values) for metric in metrics}
    tops = {metric: [float(np.nanmax(of[metric])) for of in values] for metric in metrics}
    _check_scales(logs, lowest, tops, options)
    unbounded = {metric for metric in metrics if lowest[metric] < 0 or max(tops[metric]) > 1}
    bench = _benchmark(logs, metrics, frozenset(unbounded), options)
    results = [_result(log, ids, of, bench, options) for log, of in zip(logs, values, strict=True)]
    clusters = [result.clusters for result in results if result.clusters]
    clusterings = {tuple(map(dict[str, int]().setdefault, of, range(len(of)))) for of in clusters}
    if len(clusterings) > 1:
        raise DataError(
            f"The logs have other clusters of examples by {options.cluster!r}. Expected the same clusters in each. "
            "Name another field: --cluster COLUMN."
        )
    return results


def _read_logs(
    name: str, given: object, options: LogOptions, read: ReadOptions | None, judged: Judgments | None
) -> list[_Log]:
    """Return the log of each system in a file, a folder of logs, or a table in memory."""
    logs: dict[str, _Log] = {}
    where = (read and read.where) or {}
    no_scores = {options.id, options.system, options.cluster, *options.slices, *where}
    for label, parsed in (files := list(log_files(given))):
        try:
            for scored in scored_rows(parsed, judged, options.value, no_scores):
                if any(str(value_or_none(scored.row, key)) != of for key, of in where.items()):
                    continue
                system = str(field_of(scored.row, options.system)) if options.system else scored.system
                log = logs.setdefault(system, _Log(system or name))
                task = scored.task or parsed.title
                log.tasks[task] = None
                scored = scored._replace(task=task if len(files) > 1 else scored.task)
                _add_row(log, scored, options, last=bool(read and read.duplicates == "last"))
        except KeyError as error:
            message = f"{label} has a row without {error.args[0]!r}; expected it in each row."
            raise DataError(f"{message} Name another column.") from None
        except Unreadable as error:
            place, remedy = f"{label}:{error.line}" if error.line else label, error.remedy or "Write the file again."
            raise DataError(f"{place}: {error.message}. Expected a score for each example. {remedy}") from None
        for log in logs.values():
            log.format = parsed.format
            log.stated.update(parsed.stated)
            for each in parsed.notes:
                log.note(each.code, each.message, each.remedy, each.n_examples, each.severity)
    if not logs:
        raise DataError(f"{name} has no row with the values of --where; expected one at least. Correct --where.")
    for log in logs.values() if name and len(logs) == 1 else ():
        log.name = name
    return list(logs.values())


def _add_row(log: _Log, scored: ScoredRow, options: LogOptions, *, last: bool) -> None:
    """Add a row to its log.

    Raises:
        Unreadable: it has no id, one that occurred with this metric and repeat, or no number in a wanted column.
    """
    example = field_of(scored.row, options.id) if options.id else scored.example
    if example is None:
        columns = ", ".join(map(str, scored.row))
        raise Unreadable(f"a row has no id (columns {columns})", "Name the column of ids: --id COLUMN.")
    key = re.sub(r"^(-?\d+)\.0$", r"\1", str(example))  # whole numbers that a table holds as fractions
    key = f"{scored.task}/{key}" if scored.task else key
    of_example = log.scores.setdefault(key, {})
    if not last and any(scored.repeat in of_example.get(metric, ()) for metric in scored.scores):
        raise Unreadable(
            f"the id {key!r} occurs twice",
            "Name the column of systems (--system COLUMN) or of ids (--id COLUMN), choose rows (--where COLUMN=VALUE) "
            "or one file, or let the last row count (--duplicates last).",
        )
    log.rows[key] = scored
    log.n_failed += not scored.scores
    for metric, value in scored.scores.items():
        number = number_of(value)
        if options.value and metric not in options.value:
            continue
        if number is None and (options.value or len(scored.scores) == 1):
            raise Unreadable(
                f"{metric!r} of {key!r} is {str(value)[:60]!r}; a score is a number, true or false",
                "Choose another column with --value, or write numbers such as 0.5.",
            )
        if number is None:
            log.no_numbers.add(metric)
        else:
            of_example.setdefault(metric, {})[scored.repeat] = number


def _common_ids(logs: Sequence[_Log], shared: bool) -> list[str]:
    """Return the ids that all logs have, in the order of the first.

    Raises:
        DataError: there are none.
        UsageError: the sets of ids differ, without `shared`.
    """
    common = [key for key in logs[0].scores if all(key in log.scores for log in logs)]
    counts = ", ".join(f"{log.name} {len(log.scores):,}" for log in logs)
    if not common:
        ids = "; ".join(f"{log.name}: {first_of(log.scores, 3)}" for log in logs[:3])
        raise DataError(
            f"No example is in all logs ({ids}). Expected the same ids. Name the column that they share: --id COLUMN.",
            code="ids",
        )
    n_left_out = len({key for log in logs for key in log.scores}) - len(common)
    if n_left_out and not shared:
        rest = [(log.name, [key for key in log.scores if key not in set(common)]) for log in logs]
        listed = "; ".join(f"{name} also has {first_of(keys, 3)}" for name, keys in rest if keys)
        raise UsageError(
            f"The logs have different examples: {counts}; {len(common):,} are in all ({listed}). A paired test needs "
            "the same. To compare on the shared ones: --shared.",
            code="limit",
        )
    if n_left_out:
        message = f"Compared on the {len(common):,} examples that all logs have, of {counts}."
        logs[0].note("shared_examples", message, "Run all systems on the same examples.", n_left_out)
    return common


def _common_metrics(logs: Sequence[_Log], options: LogOptions) -> list[str]:
    """Return the metrics that all logs have, in the user's order, else in that of the first log.

    Raises:
        DataError: there are none, or a wanted one is missing.
    """
    if none := next((log.name for log in logs if not log.metrics), None):
        message = f"{none} has no scores; expected numbers for examples."
        raise DataError(f"{message} Score it first, or name a column: --value COLUMN.")
    own = [log.metrics for log in logs]
    metrics = [metric for metric in options.value or own[0] if all(metric in each for each in own)]
    if not metrics or len(metrics) < len(options.value):
        listed = "; ".join(f"{log.name}: {', '.join(each)}" for log, each in zip(logs, own, strict=True))
        wanted = f"{', '.join(options.value)} is not" if options.value else "No score is"
        raise DataError(
            f"{wanted} in all logs ({listed}). Expected a metric of the same name in each. Choose it with --value, or "
            "rename a column.",
            code="metrics",
        )
    every = dict.fromkeys(m for log, each in zip(logs, own, strict=True) for m in (*each, *sorted(log.no_numbers)))
    if rest := [metric for metric in every if metric not in metrics and not options.value]:
        message = f"Left out, as not all logs have a number for each example: {', '.join(rest)}."
        logs[0].note("left_out_metrics", message, severity="note")
    return metrics


def _check_contents(logs: Sequence[_Log], ids: Sequence[str], options: LogOptions) -> None:
    """Add a warning if an id belongs to different examples.

    Raises:
        DataError: most ids do, and the user named no field of ids.
    """
    text = partial(json.dumps, sort_keys=True, default=str)
    for log in logs[1:]:
        contents = [(logs[0].rows[key].content, log.rows[key].content) for key in ids]
        n = sum(None not in pair and text(pair[0]) != text(pair[1]) for pair in contents)
        message = f"{n:,} of {len(ids):,} ids belong to different examples in {logs[0].name} and {log.name}."
        if 2 * n > len(ids) and options.id is None:
            remedy = "Expected the same example under an id. Name the field that identifies examples: --id COLUMN."
            raise DataError(f"{message} {remedy}", code="contents")
        if n:
            log.note("contents", message, "Run both on the same data.", n)


def _check_scales(
    logs: Sequence[_Log], lowest: Mapping[str, float], tops: Mapping[str, Sequence[float]], options: LogOptions
) -> None:
    """Check that scores are within the user's scale, and that shares are not compared with percentages.

    Raises:
        DataError: they are not.
    """
    low, high = options.scale or (-math.inf, math.inf)
    for metric, of in tops.items():
        if lowest[metric] < low or max(of) > high:
            raise DataError(
                f"{metric!r} has scores from {lowest[metric]:g} to {max(of):g}; expected {low:g} to {high:g}. Correct "
                "--scale."
            )
        percent = logs[of.index(max(of))].name
        if lowest[metric] >= 0 and 0 < min(of) <= 1 and _PERCENT < max(of) <= 100:
            raise DataError(
                f"{metric!r} is at most {min(of):g} in one log and {max(of):g} in {percent}: shares and percentages. "
                f"Expected one scale. Divide those of {percent} by 100.",
                code="scale",
            )


def _column(log: _Log, ids: Sequence[str], metric: str) -> NDArray[np.float64]:
    """Return one value per example: the mean over its repeats, NaN if there is none.

    Raises:
        DataError: no example has one.
    """
    scored = [[each for each in log.scores[key].get(metric, {}).values() if not math.isnan(each)] for key in ids]
    if not any(scored):
        message = f"{log.name} has no {metric!r} of these examples; expected numbers."
        raise DataError(f"{message} Choose another: --value COLUMN.")
    return np.array([math.fsum(each) / len(each) if each else math.nan for each in scored])


def _benchmark(
    logs: Sequence[_Log], metrics: Sequence[str], unbounded: frozenset[str], options: LogOptions
) -> Benchmark:
    """Return a benchmark value with the metrics of the logs; note the metrics whose direction is not known."""
    if absent := [metric for metric in options.lower_is_better if metric not in (*metrics, "none")]:
        raise unknown_name("metric of these logs", absent[0], metrics)
    names = {metric: metric.lower().partition("/")[0] for metric in metrics}
    by_name = {metric for metric, name in names.items() if _LOWER.search(name) and not _HIGHER.search(name)}
    stated = {metric: low for log in logs for metric, (_, low) in log.stated.items() if low is not None}
    inferred = [metric for metric in metrics if stated.get(metric, metric in by_name)]
    lower = {*(options.lower_is_better or inferred)}
    unknown = [metric for metric, name in names.items() if metric not in {*lower, *stated} and not _HIGHER.search(name)]
    if unknown and not options.lower_is_better:
        message = f"Higher is taken to be better in {', '.join(unknown)}."
        logs[0].note("direction", message, f"If lower is: --lower-is-better {unknown[0]}.", severity="note")
    title = ", ".join(filter(None, dict.fromkeys(task for log in logs for task in log.tasks))) or "Scores"
    labels = {metric: metric.replace("_", " ") for metric in metrics}
    return Benchmark(
        Facts(dataset=title, title=title, redistributable=False),
        Data(("default",), (LOGGED,), LOGGED, load=_refuse),
        Scoring(ANSWERS, labels, (LOGGED,), _refuse, lower_is_better=frozenset(lower), unbounded=unbounded),
    )


def _refuse(*_: object) -> Any:
    """Raise a UsageError, in place of what only a benchmark can do."""
    raise UsageError("A log has scores and no benchmark; expected predictions. Score them with --benchmark NAME.")


def _result(log: _Log, ids: Sequence[str], values: Values, bench: Benchmark, options: LogOptions) -> Result:
    """Return the result of a log on the chosen examples."""
    rows = [log.rows[key] for key in ids]
    clusters = _field_texts(log, rows, options.cluster) if options.cluster else None
    slices = {name: _field_texts(log, rows, name) for name in options.slices if name not in ("all", "task")}
    if len(log.tasks) > 1:
        slices = {"task": [row.task for row in rows], **slices}
    _add_warnings(log, rows, values[bench.headline], bench, clusters is not None)
    small = small_warning(len(ids)) if clusters is None else small_warning(len(set(clusters)), " clusters")
    outputs = [None if row.output is None else str(row.output) for row in rows]
    text = json.dumps([*ids, {metric: column.tolist() for metric, column in values.items()}])
    return Result(
        *TaskKey(bench.dataset, "default", LOGGED, LOGGED),
        dataset_revision=sha256("\n".join(ids).encode()).hexdigest(),
        scores=_scores(values, clusters, bench.scoring.unbounded, options.scale),
        slices={},
        counters={"n_examples": len(ids), "n_missing": int(np.isnan(values[bench.headline]).sum())},
        versions={"format": log.format},
        predictions_sha256=sha256(text.encode()).hexdigest(),
        ids=list(ids),
        values=values,
        compared=values,
        example_slices=slices,
        group_by=None,
        warnings=[*log.warnings, *small],
        answered=np.full(len(ids), True),
        digests=[zlib.crc32(output.encode("utf-8", "surrogatepass")) if output else 0 for output in outputs],
        log=ScoreLog(log.name, bench, [shown_example(row) for row in rows], outputs),
        clusters=clusters,
    )


def _scores(
    values: Values, clusters: Sequence[str] | None, unbounded: Collection[str], scale: tuple[float, float] | None
) -> dict[str, Estimate]:
    """Return metric -> estimate of its mean; the interval is within the scale."""
    low, width = scale[0] if scale else 0.0, scale[1] - scale[0] if scale else 1.0
    found = {}
    for metric, column in values.items():
        each = estimate((column - low) / width, bounded=bool(scale) or metric not in unbounded, clusters=clusters)
        value, start, end = (low + width * number for number in (each.value, *each.ci95))
        found[metric] = each._replace(value=value, ci95=(start, end))
    return found


def _field_texts(log: _Log, rows: Sequence[ScoredRow], path: str) -> list[str]:
    """Return the value at a path of each row, as text.

    Raises:
        DataError: a row has none.
    """
    try:
        return [str(field_of(each.row, path)) for each in rows]
    except KeyError:
        some = ", ".join(map(str, rows[0].row))
        raise DataError(
            f"{log.name} has no {path!r} in each row; expected one of {some}, or a path like doc.passage. Correct it."
        ) from None


def _add_warnings(
    log: _Log, rows: Sequence[ScoredRow], headline: NDArray[np.float64], bench: Benchmark, clustered: bool
) -> None:
    """Add warnings and notes on one log: missing scores, other averages, repeats, dependent examples."""
    with_scores = {row.task for row, score in zip(rows, headline, strict=True) if not math.isnan(score)}
    n = sum(math.isnan(score) and row.task in with_scores for row, score in zip(rows, headline, strict=True))
    if n or log.n_failed:
        message = f"{n:,} of {len(rows):,} examples have no {bench.metrics[bench.headline]}, and are left out."
        message += f" {log.n_failed:,} samples failed." if log.n_failed else ""
        if n and bench.headline not in bench.scoring.unbounded | bench.scoring.lower_is_better:
            message += f" With 0 for them its mean is {np.nan_to_num(headline).mean():.4f}."
        log.note("missing_scores", message, "Run them again.", n)
    stated = {metric: score for metric, (score, _) in log.stated.items() if metric in log.metrics}
    for metric, own in stated.items():
        mean = float(np.nanmean(_column(log, [*log.scores], metric)))
        if own is not None and not math.isclose(mean, own, rel_tol=1e-6, abs_tol=1e-6):
            message = f"The record has {metric} {own:.4f}; the mean of its samples is {mean:.4f}."
            log.note("other_average", message, "The record may average groups of examples.", severity="note")
    n_repeats = max(len(each) for of in log.scores.values() for each in of.values())
    if n_repeats > 1:
        message = f"Scores are the mean of up to {n_repeats} repeats of each example."
        log.note("repeats", message, "To compare one: --where epoch=1.", severity="note")
    if clustered:
        return
    names = (name for stem in _CLUSTERS for name in (stem, f"{stem}_id"))
    for name in names:
        with suppress(KeyError):
            n = len({str(field_of(row.row, name)) for row in rows})
            if name != "doc_id" and 1 < n <= 0.8 * len(rows):  # `doc_id` is lm-evaluation-harness's id of an example
                message = f"The {len(rows):,} examples have {n:,} values of {name!r}: do they depend on each other?"
                log.note("clusters", message, f"If so, add --cluster {name}.", severity="note")
