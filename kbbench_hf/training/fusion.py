"""Training of fusion weights, one per ranking, on the validation questions.

Trained rankings have seen the training questions, which would give them too much weight; validation questions have only
chosen between a few of their steps. `training.train` calls `train_fusion`; `fuse:FOLDER` reads the `fusion.json` that
it writes.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from kbbench_hf.errors import UsageError
from kbbench_hf.files.writing import write_text
from kbbench_hf.model_specs import parse
from kbbench_hf.retrieval.fusion import DEPTH, min_max
from kbbench_hf.retrieval.trained_folder import FUSION
from kbbench_hf.runners.progress import progress
from kbbench_hf.training.questions import TrainingData, rank_by_name, reciprocal_rank
from kbbench_hf.training.spec import TrainingLog, TrainSpec

FOLDS = 5
"""Folds of the cross-validation that estimates the score of learned weights."""


def train_fusion(spec: TrainSpec, data: TrainingData, folder: Path, checkpoints: Path, *, show: bool) -> TrainingLog:
    """Learn the weights of `weighted(a,b,...)`, the base, and save them in `folder`.

    The loss is the negative log of the softmax over all nodes that the answers have; weights are not negative. The
    curve has the MRR of equal weights as step 0, and of learned ones by cross-validation as step 1.

    Raises:
        UsageError: the base is no fusion of two models or more.
    """
    parts = parse(spec.base).parts
    if len(parts) < 2:
        raise UsageError(f"{spec.base!r} fuses {len(parts)} models; expected two or more: weighted(bm25,dense:...).")
    questions = data.validation
    credits = np.zeros((len(questions.texts), len(data.candidates), len(parts)), np.float32)
    for position, part in enumerate(parts):
        ranking = rank_by_name(str(part), data, questions.texts, DEPTH, progress)
        row, column = np.nonzero(ranking.ids >= 0)
        nodes = np.searchsorted(data.candidates, ranking.ids[row, column])
        credits[row, nodes, position] = min_max(ranking)[row, column]
    right = np.array([np.isin(data.candidates, answers) for answers in questions.answers])
    weights = learn_weights(credits, right)
    equal = np.full(len(parts), 1 / len(parts))
    folds = np.random.default_rng(spec.seed).permutation(len(right)) % FOLDS
    unseen = [
        value
        for fold in range(FOLDS)
        for value in _reciprocal_ranks(
            credits[folds == fold], right[folds == fold], learn_weights(credits[folds != fold], right[folds != fold])
        )
    ]
    learned = {"parts": [str(part) for part in parts], "weights": weights.tolist()}
    write_text(folder / FUSION, json.dumps(learned, indent=2) + "\n")
    curve = [
        {"step": 0, "mrr": float(np.mean(_reciprocal_ranks(credits, right, equal)))},
        {"step": 1, "mrr": float(np.mean(unseen))},
    ]
    return TrainingLog(1, 1, curve, [], [])


def learn_weights(credits: NDArray[np.float32], right: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the weights, not negative and of sum 1, that maximize the softmax of the answers over all nodes.

    Args:
        credits: the score of each node in each ranking, shape (questions, nodes, rankings).
        right: whether each node is an answer, shape (questions, nodes).

    >>> credits = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.9, 0.2], [0.1, 0.8]]], np.float32)
    >>> weights = learn_weights(credits, np.array([[True, False], [True, False]]))
    >>> bool(weights[0] > weights[1] >= 0), round(float(weights.sum()), 6)
    (True, 1.0)
    """
    has_answer = right.any(axis=1)  # a question without one would make the loss infinite
    given, answers = torch.from_numpy(credits[has_answer]).double(), torch.from_numpy(right[has_answer])
    raw = torch.zeros(given.shape[2], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([raw], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        scores = given @ (10 * torch.nn.functional.softplus(raw))
        mass = scores.masked_fill(~answers, float("-inf")).logsumexp(1) - scores.logsumexp(1)
        return -mass.mean() + 1e-4 * (raw**2).sum()  # keeps weights finite where one ranking is always right

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    optimizer.step(closure)
    positive = torch.nn.functional.softplus(raw).detach().numpy()
    weights: NDArray[np.float64] = positive / positive.sum()
    return weights


def _reciprocal_ranks(
    credits: NDArray[np.float32], right: NDArray[np.bool_], weights: NDArray[np.float64]
) -> Sequence[float]:
    """Return 1 / rank of the first answer of each question; ties go to the node that comes first."""
    orders = np.argsort(-(credits @ weights), axis=1, kind="stable")
    return [reciprocal_rank(answers[order]) for order, answers in zip(orders, right, strict=True)]
