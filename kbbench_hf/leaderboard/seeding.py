"""Seeding of a leaderboard with shipped, own and released predictions, and re-scoring of stored submissions.

Used by `kbbench leaderboard seed` and `kbbench leaderboard rescore`. The system names and origins are parts of stored
records: a changed one makes a new row of the same predictions.
"""

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from kbbench_hf.benchmarks import TaskKey, at_hand, benchmark, importable_names, shipped_answers, shipped_runs
from kbbench_hf.benchmarks.baselines import published_answers, published_rows
from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.files.datasets import Row, read_json
from kbbench_hf.leaderboard.store import Receipt, Store, System
from kbbench_hf.leaderboard.submissions import MAX_NOTES, Preview, previewed, store_preview
from kbbench_hf.scoring.eval_task import RUN, EvalTask, load_examples, resolve_task, run_settings
from kbbench_hf.scoring.predictions import ReadOptions, read_predictions
from kbbench_hf.scoring.score import add_annotations, find_annotations, score_predictions
from kbbench_hf.scoring.warnings import stored_warnings


class Seed(NamedTuple):
    """The predictions of a system that are to be scored and stored, with its description."""

    task_key: TaskKey
    file: Path
    system: System
    origin: str
    """`own` or `released`, as in `Record.origin`."""
    scores_only: bool = False
    """Whether only scores may be stored, because the source of the predictions states no license."""
    options: ReadOptions = ReadOptions()
    """How the file is read."""


def shipped_seeds() -> Iterator[Seed]:
    """Yield the predictions that installed packages ship with their mini benchmarks: our own runs."""
    for dataset in importable_names():
        bench = benchmark(dataset)
        task_key = TaskKey(dataset, bench.data.configs[0], bench.data.default_split, bench.scoring.modes[0])
        yield from (Seed(task_key, file, System(file.stem), "own") for file in shipped_answers(dataset))


def model_seeds() -> Iterator[Seed]:
    """Yield the runs of small language models that installed packages ship, on the datasets that are here."""
    for dataset in filter(at_hand, importable_names()):
        for folder in shipped_runs(dataset):
            yield run_seed(folder, folder.name)


def released_seeds() -> Iterator[Seed]:
    """Yield the released predictions of published systems in the datasets that were built here, with their sources."""
    for dataset in importable_names():
        folder, bench = at_hand(dataset), benchmark(dataset)
        if folder is None or folder.path == bench.data.shipped:
            continue  # a mini benchmark of a package; `shipped_seeds` has its predictions
        for config in bench.data.configs:
            for split in bench.data.splits:
                task_key = TaskKey(dataset, config, split, bench.scoring.modes[0])
                for system, file in published_answers(task_key).items():
                    described = _released_system(system, task_key)
                    yield Seed(task_key, file, described, "released", scores_only=not bench.facts.redistributable)


def run_seed(folder: Path, name: str | None = None) -> Seed:
    """Return the seed of a run folder, with the latency and the cost of the run where they are known.

    Raises:
        UsageError: the folder is not that of a run, or the run has only some of the examples.
    """
    if not (folder / RUN).is_file():
        raise UsageError(f"{folder} holds no {RUN}; expected a run's folder. Check the path.")
    task, run = resolve_task([folder]), read_json(folder / RUN)
    if task.n_available != len(task.examples.rows):
        raise UsageError(
            f"{folder} is a partial run ({len(task.examples.rows):,} of {task.n_available:,} examples); the "
            "leaderboard needs all. Run it without --limit."
        )
    return Seed(task.task_key, folder / "predictions.jsonl", _run_system(run, name), "own")


def sow(store: Store, seeds: Iterable[Seed], submitter: str) -> Iterator[tuple[Seed, Receipt]]:
    """Score and store seeds in their order, and yield each with its receipt; a seed that is stored gives no new row.

    Raises:
        PredictionsError: a file has no valid predictions for its benchmark; the seeds before it are stored.
    """
    load = lru_cache(maxsize=1)(load_examples)  # seeds of one benchmark follow each other
    for seed in seeds:
        read = _score_seed(load(*seed.task_key), seed)
        origin, scores_only = seed.origin, seed.scores_only
        yield seed, store_preview(store, read, seed.system, submitter, origin, scores_only=scores_only)


def _score_seed(task: EvalTask, seed: Seed) -> Preview:
    """Return a seed, scored with the annotations next to its file; unlike an upload, it may lack predictions."""
    predictions = read_predictions([seed.file], task.benchmark, task.examples, seed.options)
    folder = find_annotations(seed.file)
    annotations = {file.name: file.read_bytes() for file in sorted(folder.glob("*.parquet"))} if folder else {}
    of_run = stored_warnings(run_settings([seed.file]).get("warnings", []))
    result = score_predictions(add_annotations(task, folder), predictions, of_run)
    return previewed(task.benchmark, task.examples, predictions, result, annotations)


def _released_system(name: str, task_key: TaskKey) -> System:
    """Return the description of a published system, with the source and the license of its predictions."""
    bench = benchmark(task_key.benchmark)
    rows = [row for mode in bench.scoring.modes for row in published_rows(*task_key[:3], mode) if row.system == name]
    sources = [source for row in rows for source in row.sources if source.kind in ("released", "recomputed")]
    link = sources[0].url if sources else bench.facts.homepage or bench.facts.paper
    notes = f"Released answers, scored here. {sources[0]}" if sources else "Released answers, scored here."
    licence = bench.facts.license if bench.facts.redistributable else "none stated"
    return System(name, link, licence, notes=notes[:MAX_NOTES])


def _run_system(run: Row, name: str | None) -> System:
    """Return the description of the system of a run, with latency and cost; a cost in another currency is left out."""
    summary, settings = run.get("summary") or {}, run["settings"]
    is_reranked = "rerank" in settings  # its summary counts candidates, not queries
    took = run.get("latency") or ({} if is_reranked else summary)
    cost = summary.get("cost") if summary.get("currency") == "USD" else None
    n = settings["n_examples"] if is_reranked else summary.get("n_prompts")
    return System(
        name or settings["model"],
        latency_p50_s=took.get("latency_p50_s"),
        latency_p95_s=took.get("latency_p95_s"),
        cost_per_1000_usd=cost and 1000 * cost / n,
    )


_FILE_COUNTERS = ("n_duplicates", "n_errors", "n_parse_failures")
"""Counters that depend on the uploaded file. The store has the parsed answers, where they cannot be counted again."""


class Rescored(NamedTuple):
    """The outcome of scoring a submission again, with details where it is not identical."""

    submission: str
    outcome: Literal["identical", "different", "other data", "scores only", "not possible"]
    detail: str = ""


def rescore(store: Store, submission: str) -> Rescored:
    """Return whether a stored submission, scored again, has the same scores, slices, counters and scores per example.

    Raises:
        UsageError: the store has no submission with this id.
    """
    record, stored = store.record(submission), store.result(submission)
    if not store.has_predictions(submission):
        return Rescored(submission, "scores only", "its source states no license, so its predictions are not stored")
    try:
        task = load_examples(*record.task_key)
        if (here := task.revision) != (there := record.dataset_revision):
            return Rescored(submission, "other data", f"stored on {there[:12]}, here is {here[:12]}")
        read = read_predictions([store.predictions_file(submission)], task.benchmark, task.examples, ReadOptions())
        result = score_predictions(add_annotations(task, store.annotations(submission)), read)
    except KBBenchError as error:
        return Rescored(submission, "not possible", str(error).splitlines()[0])
    again = json.loads(json.dumps(result.to_dict()))
    for part in ("scores", "slices", "predictions_sha256"):
        if again[part] != stored[part]:
            return Rescored(submission, "different", f"{part} differ")
    # the stored counters only: a later version of the package may count more
    counters = {name: value for name, value in stored["counters"].items() if name not in _FILE_COUNTERS}
    now = {name: again["counters"].get(name) for name in counters}
    if other := [f"{name} {value}, now {now[name]}" for name, value in counters.items() if now[name] != value]:
        return Rescored(submission, "different", f"counters differ: {', '.join(other)}")
    if list(result.example_lines()) != store.score_lines(submission):
        return Rescored(submission, "different", "scores of single examples differ")
    return Rescored(submission, "identical")
