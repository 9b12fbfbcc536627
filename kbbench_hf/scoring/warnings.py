"""Warnings on the scores of a result: incomplete predictions, partial runs, other data."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks import TaskKey
from kbbench_hf.benchmarks.base import Benchmark, Scores
from kbbench_hf.benchmarks.warnings import PlainWarning, ScoreWarning, unread_warning, unscored_warning
from kbbench_hf.files.datasets import Id
from kbbench_hf.metrics.aggregate import SMALL_N, Estimate
from kbbench_hf.scoring.result import Predictions


def completeness_warnings(
    benchmark: Benchmark,
    ids: Sequence[Id],
    predictions: Predictions,
    scores: Scores,
    figures: Mapping[str, Estimate],
    mode: str,
) -> list[ScoreWarning]:
    """Return what the predictions lack: answers that are missing, failed, unreadable or doubled, metrics not scored."""
    failed = {*predictions.parse_failures}
    missing = np.array([answer is None for answer in predictions.answers])
    unparsed = np.array([example_id in failed for example_id in ids])
    n, warnings = len(missing), []
    if missing.any():
        effect = _headline_gain(benchmark, scores, figures, missing, mode)
        errors = f" ({predictions.n_errors:,} failed with an error)" if predictions.n_errors else ""
        warnings.append(
            ScoreWarning(
                "missing",
                f"{int(missing.sum()):,} of {n:,} examples have no prediction{errors} and count as wrong."
                f"{_gain_text(benchmark, figures, effect)}",
                "Resume the run: it sends again what failed, unless it was refused or too long."
                if predictions.n_errors
                else "Complete the file, or resume the run.",
                int(missing.sum()),
                effect,
            )
        )
    if unparsed.any():
        effect = _headline_gain(benchmark, scores, figures, unparsed, mode)
        remedy = "Read some of them, and choose another parser with --parser."
        if 2 * unparsed.sum() > n:
            remedy = (
                "Read some of them; choose another --parser, or run the model again with another --prompt or, where "
                "it was off, with --structured."
            )
        (warning,) = unread_warning(int(unparsed.sum()), n, remedy, _gain_text(benchmark, figures, effect))
        warnings.append(replace(warning, effect=effect))
    if predictions.n_duplicates:
        warnings.append(
            ScoreWarning(
                "duplicates",
                f"{predictions.n_duplicates:,} duplicates: lines that repeat an id. The last line of each id counts.",
                "Write one line per id.",
                predictions.n_duplicates,
            )
        )
    headline = next((estimate for estimate in figures.values() if estimate.n_scored), None)
    warnings += small_warning(headline.n_scored) if headline else []
    annotated = benchmark.scoring.annotations.metrics if benchmark.scoring.annotations else ()
    labels = {metric: label for metric, label in benchmark.metrics.items() if metric in annotated}
    remedy = "Make them with kbbench annotate, or run with --annotate."
    return [*warnings, *unscored_warning(labels, figures, remedy, severity="note")]


def small_warning(n: int, of: str = "") -> list[ScoreWarning]:
    """Return a note where few examples, or clusters of them, were scored."""
    message = f"n = {n:,}{of} < {SMALL_N}: the interval is unreliable and only large differences are detectable."
    return [ScoreWarning("small_n", message, "Score more examples.", severity="note")] if n < SMALL_N else []


def limit_warning(n_examples: int, n_available: int) -> list[ScoreWarning]:
    """Return a warning where only the first examples of a split were scored."""
    if n_examples >= n_available:
        return []
    message = f"Partial run: {n_examples:,} of {n_available:,} examples. Do not report it as the score of the split."
    return [
        ScoreWarning(
            "limit", message, "Run without --limit; what a subset can show: kbbench power.", n_available - n_examples
        )
    ]


def revision_warning(made_on: str, scored_on: str) -> list[ScoreWarning]:
    """Return a warning where answers were made on other data than they are scored on."""
    if made_on in ("", scored_on):
        return []
    message = f"The predictions were made on data revision {made_on[:8]} and are scored on revision {scored_on[:8]}."
    return [ScoreWarning("revision", message, "Run the model again on the data that is installed.")]


def place_warning(run_on: TaskKey, scored_on: TaskKey) -> list[ScoreWarning]:
    """Return a warning where answers were made on another config or split than they are scored on."""
    if run_on[:3] == scored_on[:3]:
        return []
    message = f"The predictions were made on {'/'.join(run_on[:3])} and are scored on {'/'.join(scored_on[:3])}."
    return [ScoreWarning("place", message, "Score them with the config and split they were made on.")]


def stored_warnings(plain: Sequence[PlainWarning]) -> list[ScoreWarning]:
    """Return the warnings that a run wrote of itself into `run.json`, under `warnings`."""
    return [ScoreWarning.of(each) for each in plain]


def _headline_gain(
    benchmark: Benchmark, scores: Scores, figures: Mapping[str, Estimate], left_out: NDArray[np.bool_], mode: str
) -> dict[str, float]:
    """Return what the headline figure gains where some examples are left out; empty where none remain."""
    headline = benchmark.headline
    if left_out.all() or headline not in figures:
        return {}
    rest = benchmark.scoring.summarise(scores.of(~left_out), mode)[headline].value
    gain = rest - figures[headline].value
    return {headline: gain} if np.isfinite(gain) else {}


def _gain_text(benchmark: Benchmark, scores: Mapping[str, Estimate], effect: Mapping[str, float]) -> str:
    return "".join(
        f" {benchmark.metrics[metric]} without them: {scores[metric].value + gain:.4f} ({gain:+.4f})."
        for metric, gain in effect.items()
    )
