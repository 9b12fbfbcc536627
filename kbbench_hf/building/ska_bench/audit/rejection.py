"""Whether overlap with the question tells, without understanding, if it can be answered: classifiers on twins."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from kbbench_hf.building.ska_bench.audit.seen import Seen

FOLDS = 5
Matrix = NDArray[np.float64]


class Features(NamedTuple):
    """What a context looks like from the question's side."""

    share_of_question_words: float
    most_words_in_a_unit: float
    rarest_words_in_a_unit: float
    longest_quoted_cell: float
    quoted_cells: float
    most_quoted_cells_in_a_unit: float
    units: float
    tokens: float


def features(seen: Seen) -> Features:
    """Return the eight features of a question on a context."""
    return Features(
        len(seen.word_idf) / max(1, len(seen.question_words)),
        max(map(seen.overlap, seen.units), default=0),
        max(map(seen.overlap_idf, seen.units), default=0.0),
        max(map(len, seen.quoted), default=0),
        len(seen.quoted),
        max((len(seen.quotes(unit)) for unit in seen.structured), default=0),
        len(seen.units),
        sum(unit.tokens for unit in seen.units),
    )


def question_features(seen: Seen) -> list[float]:
    """Return what a question looks like without any context."""
    question = seen.question
    starts = [question.startswith(word) for word in ("what", "which", "who", "when", "where", "how many", "how", "is")]
    return [len(question), len(seen.question_words), sum(map(str.isdigit, question)), *map(float, starts)]


def folds(instance_ids: Sequence[str]) -> NDArray[np.int64]:
    """Return the fold of each row; an instance's rows share one."""
    order = sorted(set(instance_ids), key=lambda each: hashlib.sha256(f"42|fold|{each}".encode()).digest())
    place = {each: n % FOLDS for n, each in enumerate(order)}
    return np.array([place[each] for each in instance_ids], dtype=np.int64)


def best_single(x: Matrix, y: NDArray[np.bool_], fold: NDArray[np.int64]) -> float:
    """Return the balanced accuracy, across folds, of the best feature under a threshold learnt on the other folds.

    >>> x = np.array([[0.0], [1.0]] * 10)
    >>> best_single(x, x[:, 0] > 0, np.arange(20) // 2 % FOLDS)
    1.0
    """
    found = []
    for column in x.T:
        said = np.zeros(len(y), dtype=bool)
        for n in range(FOLDS):
            threshold, sign = _threshold(column[fold != n], y[fold != n])
            said[fold == n] = sign * column[fold == n] > threshold
        found.append(_balanced(said, y))
    return max(found)


def logistic(x: Matrix, y: NDArray[np.bool_], fold: NDArray[np.int64]) -> float:
    """Return the balanced accuracy, across folds, of a logistic regression on all features (L2 of 1, standardised)."""
    x = (x - x.mean(axis=0)) / np.where(x.std(axis=0) > 0, x.std(axis=0), 1)
    x, signs, said = np.column_stack([x, np.ones(len(x))]), np.where(y, 1.0, -1.0), np.zeros(len(y), dtype=bool)
    for n in range(FOLDS):
        said[fold == n] = x[fold == n] @ _fitted(x[fold != n], signs[fold != n]) > 0
    return _balanced(said, y)


def _fitted(x: Matrix, signs: Matrix) -> Matrix:
    def loss(weights: Matrix) -> tuple[float, Matrix]:
        margins = signs * (x @ weights)
        slopes = -signs / (1 + np.exp(np.clip(margins, -500, 500)))
        return float(np.logaddexp(0, -margins).sum() + (weights[:-1] ** 2).sum() / 2), (
            x.T @ slopes + np.append(weights[:-1], 0)
        )

    weights: Matrix = minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B").x
    return weights


def _threshold(column: Matrix, y: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the threshold and direction with the best balanced accuracy; where all values are one, all say no."""
    best = (0.5, float("inf"), 1.0)
    for sign in (1.0, -1.0):
        values = np.unique(sign * column)
        for threshold in (values[:-1] + values[1:]) / 2:
            best = max(best, (_balanced(sign * column > threshold, y), float(threshold), sign))
    return best[1], best[2]


def _balanced(said: NDArray[np.bool_], y: NDArray[np.bool_]) -> float:
    return float((said[y].mean() + (~said[~y]).mean()) / 2)
