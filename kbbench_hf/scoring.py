"""Predictions and examples in, a result out. The benchmark scores; this aligns and aggregates."""

import json
import math
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kbbench_hf
from kbbench_hf.benchmarks.base import Benchmark, Examples, Scores
from kbbench_hf.benchmarks.genres_annotations import annotations_folder
from kbbench_hf.dataset_folder import write_text
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.hub.load import find_benchmark, find_dataset
from kbbench_hf.metrics.aggregate import Estimate
from kbbench_hf.records import Predictions, ReadOptions, pair, read_predictions

ANNOTATIONS = "annotations:"
"""What stands before a kind of annotation where `versions` says what it was made with."""


@dataclass(frozen=True)
class Result:
    """The figures of one set of predictions, with everything needed to have them again."""

    benchmark: str
    config: str
    split: str
    mode: str
    dataset_revision: str
    scores: Mapping[str, Estimate]
    slices: Mapping[str, Mapping[str, Mapping[str, Estimate]]]
    counters: Mapping[str, int]
    versions: Mapping[str, str]
    predictions_sha256: str
    ids: list[Any]
    """The id of each example."""
    values: Mapping[str, NDArray[np.float64]]
    """One value per example and metric, NaN where not scored."""
    compared: Mapping[str, NDArray[np.float64]]
    """The same with the least that values left open can be, by which systems are compared."""
    example_slices: Mapping[str, list[str]]
    """Slice name -> the key of each example."""
    group_by: str | None
    """The slice over whose keys the figures are averaged; None for plain means."""
    repeats: Mapping[str, list[float]] = field(default_factory=dict)
    """Where everything was asked several times: each figure of every repeat, the first being this result's."""
    warnings: list[str] = field(default_factory=list)
    """What the answers lose by habits of writing, in words, with the measured effect."""

    def to_dict(self) -> dict[str, Any]:
        """Return what `result.json` holds: plain numbers at full precision, null where nothing was scored."""
        return {
            "benchmark": self.benchmark,
            "config": self.config,
            "split": self.split,
            "mode": self.mode,
            "dataset_revision": self.dataset_revision,
            "scores": {metric: _plain(figure) for metric, figure in self.scores.items()},
            "slices": {
                name: {
                    key: {metric: _plain(figure) for metric, figure in figures.items()} for key, figures in keys.items()
                }
                for name, keys in self.slices.items()
            },
            "counters": dict(self.counters),
            "versions": dict(self.versions),
            "predictions_sha256": self.predictions_sha256,
            **(
                {"repeats": {name: list(map(finite, each)) for name, each in self.repeats.items()}}
                if self.repeats
                else {}
            ),
        }

    def example_lines(self) -> Iterable[str]:
        """Yield the lines of `scores.jsonl`: one object per example with every metric."""
        for row, example_id in enumerate(self.ids):
            values = {metric: finite(column[row]) for metric, column in self.values.items()}
            yield json.dumps({"id": example_id, **values}, ensure_ascii=False)


def score(
    predictions: Path | str | Iterable[Path | str] | Iterable[Mapping[str, Any]],
    benchmark: str,
    *,
    config: str | None = None,
    split: str | None = None,
    mode: str | None = None,
    options: ReadOptions | None = None,
    annotations: Path | None = None,
) -> Result:
    """Score predictions on a benchmark.

    Args:
        predictions: a predictions file, a folder, several of them, or the objects such files hold.
        benchmark: the dataset's name, `mini-text2kg` say.
        config: the config to score on; the benchmark's first by default.
        split: the split; the benchmark's default where None.
        mode: `reference` (the authors' released behaviour) unless another of the benchmark's modes is named.
        options: how to read the predictions.
        annotations: the folder that `kbbench annotate` wrote for them; by default the one beside a predictions file.

    Raises:
        PredictionsError: predictions that cannot be used, every problem named.
        UsageError: a benchmark, config, split or mode that does not exist.

    >>> gold = [{"id": row["id"], "triples": [[t["sub"], t["rel"], t["obj"]] for t in row["triples"]]}
    ...         for row in load_examples("mini-text2kg")[1].rows]
    >>> score(gold, "mini-text2kg", mode="repaired").scores["recall"].value
    1.0
    """
    found, examples, revision = load_examples(benchmark, config, split)
    options = options or ReadOptions()
    items = [predictions] if isinstance(predictions, Path | str) else list(predictions)
    paths = [Path(item) for item in items if isinstance(item, Path | str)]
    if paths:
        read = read_predictions(paths, found, examples, options)
    else:
        read = pair((("predictions", n, row) for n, row in enumerate(items, start=1)), found, examples, options)
    if annotations is None and len(paths) == 1:
        annotations = annotations_beside(paths[0])
    if found.read_annotations and annotations is not None:
        examples = found.read_annotations(examples, annotations)
    place = (config or found.configs[0], split or found.default_split, mode or found.modes[0])
    return score_examples(found, examples, read, *place, revision)


def _identities(benchmark: Benchmark, examples: Examples) -> Mapping[str, str]:
    return benchmark.identities(examples) if benchmark.identities else {}


def annotations_beside(predictions: Path) -> Path | None:
    """Return the annotations of a run folder or a predictions file, where it has any."""
    file = predictions / "predictions.jsonl" if predictions.is_dir() else predictions
    folder = annotations_folder(file)
    return folder if any(folder.glob("*.parquet")) else None


def load_examples(name: str, config: str | None = None, split: str | None = None) -> tuple[Benchmark, Examples, str]:
    """Return a benchmark, the examples of one of its splits, and the dataset's revision."""
    found = find_benchmark(name)
    if config is not None and config not in found.configs:
        raise unknown_name(f"config of {found.dataset}", config, found.configs)
    if split is not None and split not in found.splits:
        raise unknown_name(f"split of {found.dataset}", split, found.splits)
    folder = find_dataset(found.dataset)
    examples = found.load(folder, config or found.configs[0], split or found.default_split)
    if not examples.rows:
        raise UsageError(
            f"{found.dataset} has no examples in split {split!r}; expected at least one. Name another split."
        )
    return found, examples, folder.revision


def score_examples(
    benchmark: Benchmark,
    examples: Examples,
    predictions: Predictions,
    config: str,
    split: str,
    mode: str,
    revision: str,
) -> Result:
    """Score predictions that are paired with their examples already."""
    if mode not in benchmark.modes:
        raise unknown_name(f"mode of {benchmark.dataset}", mode, benchmark.modes)
    scores = benchmark.score(examples, predictions.answers, mode)
    example_slices = {name: [str(key) for key in column] for name, column in scores.slices.items()}
    scores = replace(scores, slices=example_slices)
    missing = np.array([answer is None for answer in predictions.answers])
    n_missing = int(missing.sum())
    counters = {
        "n_examples": len(examples.rows),
        "n_missing": n_missing,
        "n_duplicates": predictions.n_duplicates,
        "n_parse_failures": len(predictions.parse_failures),
        "n_errors": predictions.n_errors,
        **scores.counters,
    }
    return Result(
        benchmark=benchmark.dataset,
        config=config,
        split=split,
        mode=mode,
        dataset_revision=revision,
        scores={
            metric: figure._replace(n_missing=n_missing) for metric, figure in benchmark.summarise(scores, mode).items()
        },
        slices=_slices(benchmark, scores, missing, mode),
        counters=counters,
        versions={
            "kbbench_hf": kbbench_hf.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            **{f"{ANNOTATIONS}{kind}": made_with for kind, made_with in _identities(benchmark, examples).items()},
        },
        predictions_sha256=predictions.sha256(examples, benchmark.answer),
        ids=examples.ids,
        values=scores.values,
        compared={metric: scores.compared(metric) for metric in scores.values},
        example_slices=example_slices,
        group_by=benchmark.group_by,
        warnings=benchmark.warn(benchmark, examples, predictions.answers) if benchmark.warn else [],
    )


def write_result(result: Result, folder: Path) -> None:
    """Write `scores.jsonl` (one line per example) and then `result.json` into a folder, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "scores.jsonl", "".join(f"{line}\n" for line in result.example_lines()))
    write_text(folder / "result.json", json.dumps(result.to_dict(), indent=2) + "\n")


def _slices(
    benchmark: Benchmark, scores: Scores, missing: NDArray[np.bool_], mode: str
) -> dict[str, dict[str, dict[str, Estimate]]]:
    """Summarise the examples of each key as all examples are summarised."""
    result: dict[str, dict[str, dict[str, Estimate]]] = {}
    for name, column in scores.slices.items():
        result[name] = {}
        for key in dict.fromkeys(column):
            chosen = np.asarray(column) == key
            n_missing = int(missing[chosen].sum())
            result[name][key] = {
                metric: figure._replace(n_missing=n_missing)
                for metric, figure in benchmark.summarise(scores.of(chosen), mode).items()
            }
    return result


def _plain(figure: Estimate) -> dict[str, Any]:
    return {
        "value": finite(figure.value),
        "ci95": [finite(bound) for bound in figure.ci95],
        "n_scored": figure.n_scored,
        "n_unscored": figure.n_unscored,
        "n_missing": figure.n_missing,
    }


def finite(value: float) -> float | None:
    """Return a number as JSON can hold it: None for NaN and infinities."""
    return float(value) if math.isfinite(value) else None
