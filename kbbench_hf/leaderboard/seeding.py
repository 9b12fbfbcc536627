"""Seeding of a board with runs and released answers, and rescoring of its stored submissions."""

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
    """Answers of a system, and what is known of it."""

    task_key: TaskKey
    file: Path
    system: System
    origin: str
    """`own`, or `released` by others."""
    figures_only: bool = False
    """Whether nothing but figures may be kept: who released the answers states no licence."""
    options: ReadOptions = ReadOptions()


def shipped_seeds() -> Iterator[Seed]:
    """Yield the answers that packages carry with their small datasets: our own runs."""
    for dataset in importable_names():
        bench = benchmark(dataset)
        place = TaskKey(dataset, bench.data.configs[0], bench.data.default_split, bench.scoring.modes[0])
        yield from (Seed(place, file, System(file.stem), "own") for file in shipped_answers(dataset))


def model_seeds() -> Iterator[Seed]:
    """Yield the runs of small language models that packages carry, on the datasets at hand."""
    for dataset in filter(at_hand, importable_names()):
        for folder in shipped_runs(dataset):
            yield run_seed(folder, folder.name)


def released_seeds() -> Iterator[Seed]:
    """Yield the answers of published systems that the datasets built here bring with them, each with its source."""
    for dataset in importable_names():
        folder, bench = at_hand(dataset), benchmark(dataset)
        if folder is None or folder.path == bench.data.shipped:
            continue
        for config in bench.data.configs:
            for split in bench.data.splits:
                task_key = TaskKey(dataset, config, split, bench.scoring.modes[0])
                for system, file in published_answers(task_key).items():
                    yield Seed(task_key, file, _released(system, task_key), "released", not bench.facts.redistributable)


def run_seed(folder: Path, name: str | None = None) -> Seed:
    """Return a run of one's own, with how long it took and what it cost where that is known.

    Raises:
        UsageError: the folder is no run's, or of some examples only.
    """
    if not (folder / RUN).is_file():
        raise UsageError(f"{folder} holds no {RUN}; expected a run's folder. Check the path.")
    task, run = resolve_task([folder]), read_json(folder / RUN)
    if task.n_available != len(task.examples.rows):
        raise UsageError(
            f"{folder} is a partial run ({len(task.examples.rows):,} of {task.n_available:,} examples); the "
            "leaderboard needs all. Run it without --limit."
        )
    return Seed(task.task_key, folder / "predictions.jsonl", _of_run(run, name), "own")


def sow(store: Store, seeds: Iterable[Seed], submitter: str) -> Iterator[tuple[Seed, Receipt]]:
    """Score and store seeds one after the other, and yield what became of each; the same seed again is one row.

    Raises:
        PredictionsError: a file cannot be read as answers to its place; seeds before it are stored.
    """
    load = lru_cache(maxsize=1)(load_examples)
    for seed in seeds:
        read = _scored(load(*seed.task_key), seed)
        yield (
            seed,
            store_preview(store, read, seed.system, submitter, origin=seed.origin, figures_only=seed.figures_only),
        )


def _scored(task: EvalTask, seed: Seed) -> Preview:
    predictions = read_predictions([seed.file], task.benchmark, task.examples, seed.options)
    folder = find_annotations(seed.file)
    annotations = {file.name: file.read_bytes() for file in sorted(folder.glob("*.parquet"))} if folder else {}
    of_run = stored_warnings(run_settings([seed.file]).get("warnings", []))
    result = score_predictions(add_annotations(task, folder), predictions, of_run)
    return previewed(task.benchmark, task.examples, predictions, result, annotations)


def _released(name: str, task_key: TaskKey) -> System:
    """Return what is known of a published system: where its answers and figures are from, and under which licence."""
    bench = benchmark(task_key.benchmark)
    rows = [row for mode in bench.scoring.modes for row in published_rows(*task_key[:3], mode) if row.system == name]
    sources = [source for row in rows for source in row.sources if source.kind in ("released", "recomputed")]
    link = sources[0].url if sources else bench.facts.homepage or bench.facts.paper
    notes = f"Released answers, scored here. {sources[0]}" if sources else "Released answers, scored here."
    licence = bench.facts.license if bench.facts.redistributable else "none stated"
    return System(name, link, licence, notes=notes[:MAX_NOTES])


def _of_run(run: Row, name: str | None) -> System:
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


_OF_FILES = ("n_duplicates", "n_errors", "n_parse_failures")
"""Counters of the file that was sent: the store keeps its answers only, an unparsable reply as an empty one."""


class Rescored(NamedTuple):
    """What scoring a submission again came to, and in words where it was not the same."""

    submission: str
    outcome: Literal["identical", "different", "other data", "figures only", "not possible"]
    detail: str = ""


def rescore(store: Store, submission: str) -> Rescored:
    """Score one stored submission again and compare all of its figures, slices, counters and per-example scores."""
    record, stored = store.record(submission), store.result(submission)
    if not store.has_predictions(submission):
        return Rescored(submission, "figures only", "its source states no licence, so its predictions are not kept")
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
    counted = stored["counters"].items()  # those that were counted then: others may have been added since
    if other := [f"{name} {value}, now {again['counters'].get(name)}" for name, value in counted
                 if name not in _OF_FILES and again["counters"].get(name) != value]:  # fmt: skip
        return Rescored(submission, "different", f"counters differ: {', '.join(other)}")
    if list(result.example_lines()) != store.score_lines(submission):
        return Rescored(submission, "different", "scores of single examples differ")
    return Rescored(submission, "identical")
