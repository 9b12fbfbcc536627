"""`score`: align predictions with examples, score them with the benchmark, and aggregate into a Result.

The public `score`, runs, boards and pages use it: the same predictions have the same scores everywhere. Warnings keep
their order and codes; `result.json` stores them.
"""

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks import benchmark as find_benchmark
from kbbench_hf.benchmarks.answers import Answer, ShapeError
from kbbench_hf.benchmarks.base import Benchmark, Examples, Scores
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import DataError
from kbbench_hf.files import user_path
from kbbench_hf.files.datasets import Id, Row
from kbbench_hf.metrics.aggregate import Estimate
from kbbench_hf.scoring import warnings
from kbbench_hf.scoring.eval_task import EvalTask, resolve_task, run_settings, task_key_of_run
from kbbench_hf.scoring.result import AGREEMENT, ANNOTATIONS, Predictions, Result, UsedPrompt, stored_rows

if TYPE_CHECKING:
    from kbbench_hf.scoring.options import ReadOptions
    from kbbench_hf.scoring.trajectories import Trajectory

EXPLANATIONS = "explanations.jsonl"
"""Explanations of a retriever that has them, one `protocols.RankingExplanation` per line."""

Answers = Path | str | Iterable[Path | str] | Iterable[Mapping[str, object]]
"""Predictions: files, folders, `published:NAME`, or the objects of such files."""


def score(
    predictions: Answers,
    benchmark: str | None = None,
    *,
    config: str | None = None,
    split: str | None = None,
    mode: str | None = None,
    options: "ReadOptions | None" = None,
    annotations: Path | None = None,
) -> Result:
    """Score predictions on a benchmark.

    Args:
        predictions: a predictions file, a folder, several of them, or the objects such files hold. The folder of a run
            says itself what was run: its own examples are scored, as many as were asked. `published:NAME` stands for
            the answers of a published system.
        benchmark: the dataset's name, `mini-text2kg` say, or with its config, `genres-corpora/docred`.
        config: the config to score on; the benchmark's first by default.
        split: the split; the benchmark's default where None.
        mode: `reference` (the authors' released behaviour) unless another of the benchmark's modes is named.
        options: how to read the predictions.
        annotations: the folder that `kbbench annotate` wrote for them; by default the one beside a predictions file.

    Raises:
        PredictionsError: predictions that cannot be used, every problem named.
        DataError: there is not one answer among them.
        UsageError: a benchmark, config, split or mode that does not exist.

    >>> from kbbench_hf.scoring.eval_task import load_examples
    >>> gold = [{"id": row["id"], "triples": [[t["sub"], t["rel"], t["obj"]] for t in row["triples"]]}
    ...         for row in load_examples("mini-text2kg").examples.rows]
    >>> score(gold, "mini-text2kg", mode="repaired").scores["recall"].value
    1.0
    """
    from kbbench_hf.benchmarks import is_published
    from kbbench_hf.benchmarks.baselines import answers_of
    from kbbench_hf.files.formats import parsed_rows
    from kbbench_hf.scoring.predictions import ReadOptions, pair, read_predictions
    from kbbench_hf.scoring.trajectories import read_trajectories

    options = options or ReadOptions()
    items = [predictions] if isinstance(predictions, Path | str) else list(predictions)
    paths = [Path(item) if is_published(item) else user_path(item) for item in items if isinstance(item, Path | str)]
    task, run = resolve_task(paths, benchmark, config, split, mode), run_settings(paths)
    if any(map(is_published, paths)):
        paths = [answers_of(str(path), task.task_key) for path in paths]
        options = ReadOptions(source=options.source, parser=options.parser)
    on_same = run.get("benchmark") == task.task_key.benchmark
    if options.parser is None and on_same:
        options = replace(options, parser=run["parser"], source=run.get("source", options.source))
    if paths:
        try:
            read = read_predictions(paths, task.benchmark, task.examples, options)
        except DataError:
            if on_same or not run:
                raise
            wanted = task.task_key.benchmark
            raise DataError(
                f"{paths[0]} is a run on {run['benchmark']}, not on {wanted}. Score it without --benchmark, or name a "
                f"run on {wanted}.",
                code="benchmark",
            ) from None
    else:
        read = pair([("predictions", parsed_rows(items))], task.benchmark, task.examples, options)
    if read.n_missing == len(read.answers):
        raise DataError(
            f"The file has no prediction: {read.n_errors:,} of {len(read.answers):,} lines are errors and the others "
            "are missing; expected at least one. Run the model again, or check the file.",
            code="empty",
        )
    if annotations is None and len(paths) == 1:
        annotations = find_annotations(paths[0])
    made_on = run.get("dataset_revision", "")
    of_run = [
        *warnings.place_warning(task_key_of_run(paths) or task.task_key, task.task_key),
        *warnings.revision_warning(made_on, task.revision),
        *warnings.stored_warnings(run.get("warnings", [])),
    ]
    if task.benchmark.scoring.annotations and annotations is not None:
        from kbbench_hf.benchmarks.judge_agreement import self_judged_warnings

        of_run += self_judged_warnings(str(run.get("model", "")), add_annotations(task, annotations).examples)
    walked = read_trajectories(paths[0]) if len(paths) == 1 and paths[0].is_dir() else []
    # demonstrations that an embedder selected are not known here: the stored count holds
    setup = run if on_same and not run.get("similar_by") else None
    of_run = [each for each in of_run if not setup or each.code != warnings.COPIED]
    result = score_predictions(add_annotations(task, annotations), read, of_run, walked, run=setup)
    result = replace(result, made_on=made_on, texts=run.get("texts", {}), prompt=UsedPrompt.of_run(run))
    repeated = on_same and run.get("repeats", 1) > 1 and paths[0].is_dir()
    files = repeat_files(paths[0], run["repeats"])[1:] if repeated else []
    if not all(file.is_file() for file in files):
        return result
    others = [(read_predictions([file], task.benchmark, task.examples, options), file) for file in files]
    return with_repeats(result, [score_with_annotations(task, repeat, file, of_run, setup) for repeat, file in others])


def score_with_annotations(
    task: EvalTask,
    predictions: Predictions,
    file: Path,
    of_run: Sequence[ScoreWarning] = (),
    run: Mapping[str, Any] | None = None,
) -> Result:
    """Return the score of the predictions of a file, with the annotations next to it."""
    return score_predictions(add_annotations(task, find_annotations(file)), predictions, of_run, run=run)


def own_predictions(
    task: EvalTask, rows: Iterable[Row] | None, file: Path, options: "ReadOptions | None" = None, *, check: bool = True
) -> Predictions:
    """Return the predictions that this process made, paired with their examples; `file` has the same.

    A row has an `id` and an answer, or an `error`, or neither: its reply has no answer. The file is read if another
    process made the rows (None), or if an answer does not have the benchmark's form or, with `check`, does not pass its
    check: then the reader reports every problem.
    """
    benchmark, examples, *_ = task
    scoring, answers, unparsed, n_errors = benchmark.scoring, dict[Id, Answer](), list[Id](), 0
    try:
        if rows is None:
            raise ShapeError("the rows are in the file alone")
        for row in rows:
            if "error" in row:
                n_errors += 1
            elif scoring.answer.field not in row:
                unparsed.append(row["id"])
                answers[row["id"]] = []
            else:
                answers[row["id"]] = scoring.answer.read(row)
                if check and (problem := scoring.check(examples, row["id"], answers[row["id"]])):
                    raise ShapeError(problem)
    except ShapeError:
        from kbbench_hf.scoring.predictions import read_predictions

        return read_predictions([file], benchmark, examples, options)
    return Predictions([answers.get(example_id) for example_id in examples.ids], unparsed, n_errors=n_errors)


def repeat_files(folder: Path, repeats: int) -> list[Path]:
    """Return the predictions file of each repeat in a run's folder, the first being `predictions.jsonl`."""
    return [folder / ("predictions.jsonl" if each == 0 else f"predictions.{each}.jsonl") for each in range(repeats)]


def with_repeats(first: Result, others: Sequence[Result]) -> Result:
    """Return the first repeat's result with the scores of all repeats and `averaged`; unchanged without others.

    Warnings of the others whose code the first does not have are added, with the number of the repeat.
    """
    if not others:
        return first
    values = {metric: [each.scores[metric].value for each in (first, *others)] for metric in first.scores}
    codes = {warning.code for warning in first.warnings}
    of_others = [
        replace(warning, message=f"Repeat {number}: {warning.message}")
        for number, each in enumerate(others, start=2)
        for warning in each.warnings
        if warning.code not in codes
    ]
    result = replace(first, repeats=values, warnings=[*first.warnings, *of_others])
    return replace(result, averaged=_average_repeats(result, [first, *others]))


def _average_repeats(result: Result, repeats: Sequence[Result]) -> Result:
    """Return a result with each example's mean over repeats as its value, of a metric with draws in each draw.

    An example that is not scored in some repeats has the mean over the others; one without a prediction in a repeat
    counts as missing.
    """
    values = {metric: _mean([each.values[metric] for each in repeats]) for metric in result.values}
    compared = {metric: _mean([each.compared[metric] for each in repeats]) for metric in result.compared}
    draws = {metric: rows for metric, rows in compared.items() if rows.ndim > 1}
    scores, definition = Scores(values, result.example_slices, draws=draws), find_benchmark(result.benchmark)
    answered = np.all([each.answered for each in repeats], axis=0)
    estimates = _estimates(definition, scores, ~answered, result.mode)
    slices = _slices(definition, scores, ~answered, result.mode)
    return replace(result, scores=estimates, slices=slices, values=values, compared=compared, answered=answered)


def _mean(repeats: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the mean over repeats of each value without NaN; NaN if all are.

    >>> _mean([np.array([1.0, 0.5, np.nan]), np.array([0.0, np.nan, np.nan])])
    array([0.5, 0.5, nan])
    """
    stacked = np.array(repeats)
    means: NDArray[np.float64] = np.ma.array(stacked, mask=np.isnan(stacked)).mean(axis=0).filled(np.nan)
    return means


def _of_annotations(
    benchmark: Benchmark, examples: Examples, answers: Sequence[Answer | None]
) -> tuple[dict[str, str], Sequence[ScoreWarning]]:
    """Return the entries of `versions` on annotations (identity, agreement of the judge), and warnings on them."""
    if examples.annotations is None:
        return {}, ()
    from kbbench_hf.benchmarks.judge_agreement import annotation_warnings

    made_with, agreements = dict[str, str](), dict[str, str]()
    for kind, identity in examples.annotations.identities().items():
        rest = {name: value for name, value in identity.items() if name != "agreement"}
        made_with[f"{ANNOTATIONS}{kind}"] = json.dumps(rest, sort_keys=True)
        if agreement := identity.get("agreement"):
            agreements[f"{AGREEMENT}{kind}"] = json.dumps(agreement, sort_keys=True)
    return made_with | agreements, annotation_warnings(benchmark, examples, answers)


def add_annotations(task: EvalTask, annotations: Path | None) -> EvalTask:
    """Return the task with the annotations of a folder; unchanged without a folder, or if metrics need none."""
    if task.benchmark.scoring.annotations is None or annotations is None:
        return task
    from kbbench_hf.benchmarks.annotated import with_annotations

    return task._replace(examples=with_annotations(task.examples, annotations))


def read_explanations(folder: Path) -> list[Row]:
    """Return the explanations of a run's rankings; empty if its retriever has none."""
    return stored_rows(folder / EXPLANATIONS)


def find_annotations(predictions: Path) -> Path | None:
    """Return the folder of annotations of a run folder or a predictions file; None if it has none."""
    from kbbench_hf.files import annotations_folder

    file = predictions / "predictions.jsonl" if predictions.is_dir() else predictions
    folder = annotations_folder(file)
    return folder if any(folder.glob("*.parquet")) else None


def score_predictions(
    task: EvalTask,
    predictions: Predictions,
    of_run: Sequence[ScoreWarning] = (),
    trajectories: "Sequence[Trajectory]" = (),
    run: Mapping[str, Any] | None = None,
) -> Result:
    """Return the result of predictions that are paired with their examples already.

    `of_run` are the warnings of their run, which come first; `trajectories` are those of an agent's run; `run` has the
    settings of a run, with whose prompts copied triples are found.
    """
    benchmark, examples, task_key, revision, n_available, dataset_version = task
    mode = task_key.mode
    scores = benchmark.scoring.score(examples, predictions.answers, mode)
    slices, counts, of_agent = dict[str, list[str]](), dict[str, int](), list[ScoreWarning]()
    if trajectories:
        from kbbench_hf.scoring.trajectories import counters_of, slices_of, trajectory_warnings

        slices, counts = slices_of(trajectories, examples.ids), counters_of(trajectories)
        of_agent = trajectory_warnings(trajectories)
    own_slices = {**scores.slices, **slices}
    example_slices = {name: [str(key) for key in column] for name, column in own_slices.items()}
    scores = replace(scores, slices=example_slices)
    missing = np.array([answer is None for answer in predictions.answers])
    counters = {
        "n_examples": len(examples.rows),
        "n_missing": predictions.n_missing,
        "n_duplicates": predictions.n_duplicates,
        "n_parse_failures": len(predictions.parse_failures),
        "n_errors": predictions.n_errors,
        **scores.counters,
        **counts,
    }
    figures = _estimates(benchmark, scores, missing, mode)
    made_with, of_annotations = _of_annotations(benchmark, examples, predictions.answers)
    return Result(
        *task_key,
        dataset_revision=revision,
        scores=figures,
        slices=_slices(benchmark, scores, missing, mode),
        counters=counters,
        versions={
            "kbbench_hf": version("kbbench-hf"),
            "python": platform.python_version(),
            "numpy": np.__version__,
            **({"dataset": dataset_version} if dataset_version else {}),
            **made_with,
        },
        predictions_sha256=predictions.sha256(examples, benchmark.scoring.answer.field),
        ids=examples.ids,
        values=scores.values,
        compared={metric: scores.compared(metric) for metric in scores.values},
        example_slices=example_slices,
        group_by=benchmark.scoring.group_by,
        warnings=[
            *of_run,
            *of_agent,
            *predictions.notes,
            *warnings.limit_warning(len(examples.rows), n_available),
            *warnings.gold_warnings(benchmark, examples, predictions),
            *warnings.completeness_warnings(task, predictions, scores, figures),
            *warnings.copied_triple_warnings(task, predictions.answers, run or {}),
            *of_annotations,
            *(benchmark.scoring.warn(benchmark, examples, predictions.answers, mode) if benchmark.scoring.warn else ()),
        ],
        answered=~missing,
        digests=predictions.digests(),
    )


def _slices(
    benchmark: Benchmark, scores: Scores, missing: NDArray[np.bool_], mode: str
) -> dict[str, dict[str, dict[str, Estimate]]]:
    """Return slice -> key -> metric -> estimate, keys by first occurrence, aggregated as over all examples."""
    result: dict[str, dict[str, dict[str, Estimate]]] = {}
    for name, column in scores.slices.items():
        chosen = {key: np.asarray(column) == key for key in dict.fromkeys(column)}
        result[name] = {key: _estimates(benchmark, scores.of(own), missing[own], mode) for key, own in chosen.items()}
    return result


def _estimates(benchmark: Benchmark, scores: Scores, missing: NDArray[np.bool_], mode: str) -> dict[str, Estimate]:
    """Return metric -> estimate over the examples, with the number of those without a prediction."""
    n_missing = int(missing.sum())
    return {
        name: each._replace(n_missing=n_missing) for name, each in benchmark.scoring.summarise(scores, mode).items()
    }
