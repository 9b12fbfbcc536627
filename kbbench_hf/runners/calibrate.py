"""The thresholds of an embedder: those at which released outputs score closest to their published figures."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from kbbench_hf.benchmarks.annotated import AnnotationRules
from kbbench_hf.benchmarks.annotations import Annotations
from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.judges.thresholds import Calibration, Thresholds, calibrate
from kbbench_hf.metrics.generative_re import EMPTY_SCORES, all_cosines, completeness, uniqueness
from kbbench_hf.protocols import Embedder
from kbbench_hf.runners.annotate import annotate_embeddings


def calibrate_embedder(
    rules: AnnotationRules, release: Path, examples: Examples, embedder: Embedder, work: Path, *, show: bool = True
) -> tuple[Thresholds, dict[str, Calibration]]:
    """Return the thresholds for an embedder, and for each metric how close its figures come to the published ones.

    Every stored output in `release` of the examples' dataset takes part whose figure has a stored basis. Vectors are
    kept in `work`, so that an interrupted calibration goes on.

    Raises:
        DataError: the release has no stored outputs of this dataset.
    """
    systems = []
    for name, answers, figures in rules.released_outputs(release, examples):
        thresholds = Thresholds(0.5, 0.5, "being sought")
        annotate_embeddings(rules, examples, answers, work / name, embedder, thresholds, show=show)
        systems.append((figures, Annotations(work / name), answers))

    def calibrated(metric: str, figure: Callable[[Examples, Annotations, list[Any], float], float]) -> Calibration:
        usable = [each for each in systems if metric in each[0]]
        return calibrate(
            lambda threshold: [figure(examples, annotations, answers, threshold) for _, annotations, answers in usable],
            [published[metric] for published, _, _ in usable],
        )

    unique, complete = calibrated("uniqueness", _uniqueness), calibrated("completeness", partial(_completeness, rules))
    corpus = examples.context.config
    basis = (
        f"published figures: CS of a system left out is off by {100 * complete.left_out_error:.1f} points on average "
        f"({complete.n_systems} systems), US by {100 * unique.left_out_error:.1f} ({unique.n_systems})"
    )
    thresholds = Thresholds(unique.threshold, complete.threshold, basis, corpus)
    return thresholds, {"uniqueness": unique, "completeness": complete}


def _uniqueness(examples: Examples, annotations: Annotations, answers: list[Any], threshold: float) -> float:
    places = (annotations.places(answer) for answer in answers)
    vectors = (None if each is None else annotations.sums(each) for each in places)
    return float(np.nanmean(uniqueness(vectors, threshold, empty=EMPTY_SCORES["reference"]["uniqueness"])))


def _completeness(
    rules: AnnotationRules, examples: Examples, annotations: Annotations, answers: list[Any], threshold: float
) -> float:
    pairs = (
        (annotations.places(list(dict.fromkeys(rules.gold(row, "reference")))), annotations.places(answer))
        for row, answer in zip(examples.rows, answers, strict=True)
    )
    cosines = (
        None if gold is None or answer is None else all_cosines(annotations.sums(gold), annotations.sums(answer))
        for gold, answer in pairs
    )
    return float(np.nanmean(completeness(cosines, threshold)))
