"""The thresholds of an embedder: those at which the outputs in GenRES's release score closest to its figures."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.benchmarks.genres import gold_triples
from kbbench_hf.benchmarks.genres_annotations import Annotations
from kbbench_hf.errors import DataError
from kbbench_hf.metrics.generative_re import EMPTY_SCORES, completeness, similarities, uniqueness
from kbbench_hf.models.thresholds import Calibration, Thresholds, calibrate
from kbbench_hf.protocols import Embedder
from kbbench_hf.published import published_rows
from kbbench_hf.releases.genres import CONFIGS
from kbbench_hf.runners.annotate import annotate_embeddings

RELEASE_NAMES = {
    "Vicuna-1.5-7B": "vicuna-1.5-7b",
    "Vicuna-1.3-33B": "vicuna-1.3-33b",
    "LLaMA-2-7B": "llama-2-7b",
    "LLaMA-2-70B": "llama-2-70b",
    "WizardLM-70B": "wizardlm-70b",
    "text-davinci-003": "text-davinci-003",
    "GPT-3.5-Turbo-Instruct": "gpt-3.5-turbo-instruct",
    "GPT-3.5-Turbo-1106": "gpt-3.5-turbo-1106",
    "GPT-4": "gpt-4",
    "GPT-4-Turbo-1106": "gpt-4-1106-preview",
    "Mistral-7B-Instruct": "mistral",
    "Zephyr-7B-beta": "zephyr-7b-beta",
    "Galactica-30B": "galactica-30b",
    "OpenChat-3.5": "openchat",
}
"""Published system -> its name in the release's files."""


def calibrate_embedder(
    release: Path, examples: Examples, embedder: Embedder, work: Path, *, show: bool = True
) -> tuple[Thresholds, dict[str, Calibration]]:
    """Return the thresholds for an embedder, and for each metric how close its figures come to the published ones.

    Every stored output of the examples' dataset takes part whose figure has a stored basis.

    Args:
        release: a clone of GenRES, or a folder with its `outputs`.
        examples: the documents of one config.
        embedder: the embedder.
        work: where vectors are kept, so that an interrupted calibration goes on.
        show: whether to show progress.

    Raises:
        DataError: the release has no stored outputs of this dataset.
    """
    config = examples.context.config
    published = {
        row.system: row for row in published_rows("genres-corpora", config, "test", "reference") if "main" in row.source
    }
    systems = []
    for system, name in RELEASE_NAMES.items():
        answers = stored_answers(release, config, name, examples)
        if system in published and answers is not None:
            annotate_embeddings(
                examples, answers, work / name, embedder, Thresholds(0.5, 0.5, "being sought"), show=show
            )
            systems.append((published[system], Annotations(work / name), answers))
    if not systems:
        raise DataError(f"{release} has no stored outputs of {config}; expected a clone of GenRES. Check the path.")
    found = {}
    for metric, figure in (("uniqueness", _uniqueness), ("completeness", _completeness)):
        usable = [each for each in systems if not each[0].notes.get(metric, "").startswith("no stored basis")]
        figures: Callable[[float], list[float]] = partial(_figures, figure, usable, examples)
        found[metric] = calibrate(figures, [row.scores[metric] for row, _, _ in usable])
    basis = f"published US and CS of {len(systems)} systems on {config}"
    return Thresholds(found["uniqueness"].threshold, found["completeness"].threshold, basis), found


def stored_answers(release: Path, config: str, name: str, examples: Examples) -> list[Any] | None:
    """Return what a system of the release answered to each document, parsed as released; None where nothing is stored.

    `name` is the system's in the release's files, a value of `RELEASE_NAMES`.
    """
    for folder in ("processed_results", "outputs", "genres/outputs", "data/genres/outputs"):
        file = release / folder / f"{CONFIGS[config].sample}_{name}_1.json"
        if file.is_file():
            stored = json.loads(file.read_text(encoding="utf-8"))
            return [stored.get(row["text"], []) for row in examples.rows]
    return None


def _figures(
    figure: Callable[[Examples, Annotations, list[Any], float], float],
    systems: list[tuple[Any, Annotations, list[Any]]],
    examples: Examples,
    threshold: float,
) -> list[float]:
    return [figure(examples, annotations, answers, threshold) for _, annotations, answers in systems]


def _uniqueness(examples: Examples, annotations: Annotations, answers: list[Any], threshold: float) -> float:
    places = (annotations.places(answer) for answer in answers)
    vectors = (None if each is None else annotations.sums(each) for each in places)
    return float(np.nanmean(uniqueness(vectors, threshold, empty=EMPTY_SCORES["reference"]["uniqueness"])))


def _completeness(examples: Examples, annotations: Annotations, answers: list[Any], threshold: float) -> float:
    pairs = (
        (annotations.places(list(dict.fromkeys(gold_triples(row, "reference")))), annotations.places(answer))
        for row, answer in zip(examples.rows, answers, strict=True)
    )
    cosines = (
        None if gold is None or answer is None else similarities(annotations.sums(gold), annotations.sums(answer))
        for gold, answer in pairs
    )
    return float(np.nanmean(completeness(cosines, threshold)))
