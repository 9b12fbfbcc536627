"""Evaluation tasks: the examples of a benchmark's config and split, named by the caller or by a run folder.

Everything that scores, runs or shows examples loads them here. `EvalTask.settings` and the keys that `run_settings`
reads are those of `run.json`, also of earlier versions.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from kbbench_hf.benchmarks import TaskKey, find_dataset, is_published, name_of_path, rows_of_code, task_key_of
from kbbench_hf.benchmarks import benchmark as benchmark_of
from kbbench_hf.benchmarks.base import Benchmark, Examples
from kbbench_hf.errors import UsageError
from kbbench_hf.files import RUN as RUN
from kbbench_hf.files import STDIN
from kbbench_hf.files.datasets import Row, read_json
from kbbench_hf.files.harness import read_inspect_settings
from kbbench_hf.scoring.result import read_result


class EvalTask(NamedTuple):
    """The examples to evaluate on, with their benchmark, config, split, mode and dataset revision."""

    benchmark: Benchmark
    examples: Examples
    task_key: TaskKey
    revision: str
    """The dataset's; of rows without a dataset, a hash of them."""
    n_available: int
    """Number of examples of the split; a partial run has only the first ones."""
    version: str = ""
    """The dataset's; empty if it has none."""

    def settings(self) -> dict[str, str]:
        """Return the settings of the task in `run.json`: benchmark, config, split and dataset revision."""
        place = self.task_key._asdict()
        return {name: place[name] for name in ("benchmark", "config", "split")} | {"dataset_revision": self.revision}


def load_examples(
    name: str, config: str | None = None, split: str | None = None, mode: str | None = None, limit: int | None = None
) -> EvalTask:
    """Return the examples of a config and split, named as in `task_key_of`; with `limit` the first ones only.

    Raises:
        UsageError: a name that does not exist, or a split without examples.
    """
    task_key = task_key_of(name, config, split, mode)
    bench, without = benchmark_of(task_key.benchmark), rows_of_code(task_key.benchmark)
    folder = without or find_dataset(task_key.benchmark, whole=False)
    examples = bench.data.load(folder, task_key.config, task_key.split)
    if not examples.rows:
        message = f"{task_key.benchmark} has no examples in split {task_key.split!r}; expected at least one."
        raise UsageError(f"{message} Name another split.")
    first = Examples(examples.rows[:limit], examples.context, mode=task_key.mode)
    if without:  # the rows themselves are the data
        revision = sha256(json.dumps(examples.rows, sort_keys=True, default=str).encode()).hexdigest()[:40]
        return EvalTask(bench, first, task_key, revision, len(examples.rows))
    return EvalTask(bench, first, task_key, folder.revision, len(examples.rows), folder.manifest.get("version", ""))


def resolve_task(
    paths: Sequence[Path],
    benchmark: str | None = None,
    config: str | None = None,
    split: str | None = None,
    mode: str | None = None,
) -> EvalTask:
    """Return the task of predictions: the one that the caller names, or the one that their run folder records.

    Of a run, only its own examples are loaded, as many as it has; a given config, split or mode replaces the run's.

    Raises:
        UsageError: neither names a benchmark, or a name does not exist.
    """
    of_run = task_key_of_run(paths)
    if benchmark is None and of_run is None:
        raise missing_benchmark_error(paths)
    if benchmark is not None:
        task_key = task_key_of(name_of_path(benchmark), config, split, mode)
    elif of_run is not None:
        task_key = task_key_of(of_run.benchmark, config or of_run.config, split or of_run.split, mode or of_run.mode)
    if of_run is None or task_key[:3] != of_run[:3]:
        return load_examples(*task_key)
    return load_examples(*(task_key if mode else of_run), limit=run_settings(paths).get("n_examples"))


def system_name(settings: Mapping[str, object]) -> str | None:
    """Return the name of a run's system by its settings: its model, with the agent or the re-ranker over it, or None.

    >>> system_name({"model": "bm25", "agent": "my-model"}), system_name({"model": "bm25", "rerank": "my-model"})
    ('agent my-model over bm25', 'bm25, re-ranked by my-model')
    """
    model = settings.get("model")
    if agent := settings.get("agent"):
        return f"agent {agent} over {model}"
    if reranker := settings.get("rerank"):
        return f"{model}, re-ranked by {reranker}"
    return None if model is None else str(model)


def missing_benchmark_error(paths: Iterable[Path]) -> UsageError:
    """Return the error for predictions without a benchmark, or for a path that does not exist."""
    for path in paths:
        if not path.exists() and str(path) != STDIN and not is_published(path):
            return UsageError(f"{path} does not exist; expected a predictions file or a run folder. Check the path.")
    message = "--benchmark is required for a predictions file; only a run folder records it."
    return UsageError(f"{message} Add --benchmark NAME.")


def task_key_of_run(paths: Sequence[Path]) -> TaskKey | None:
    """Return the task of the run whose folder, file or log this path is; None if it is none's, or for several paths."""
    run = run_settings(paths)
    return task_key_of(run["benchmark"], run["config"], run["split"], run.get("mode")) if run else None


def run_settings(paths: Sequence[Path]) -> Row:
    """Return the settings of the run whose folder, file or log this path is; empty if it is none's, or for several.

    They also have its parser, warnings and texts, and the mode if it is scored. A log of inspect_ai is a run if it is
    of a task of ours.
    """
    if len(paths) != 1 or is_published(paths[0]):
        return {}
    if of_log := read_inspect_settings(paths[0]):
        return of_log
    folder = paths[0] if paths[0].is_dir() else paths[0].parent
    if not (folder / RUN).is_file():
        return {}
    run = read_json(folder / RUN)
    of_run = run.get("settings")
    if not isinstance(of_run, dict) or not {"benchmark", "config", "split"} <= of_run.keys():
        return {}  # another program's
    settings: Row = {**of_run, "parser": run.get("parser"), "warnings": run.get("warnings", [])}
    settings["texts"] = run.get("texts", {})
    scored = folder / "result.json"
    return {**settings, "mode": read_result(scored)["mode"]} if scored.is_file() else settings
