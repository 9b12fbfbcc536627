"""Hard negatives: what a retriever ranks high and is no answer."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def best_wrong(ranked: Rows, answers: Sequence[Rows], n: int) -> Rows:
    """Return the first `n` nodes of each ranking that are no answers, shape (questions, n); -1 where there are fewer.

    Args:
        ranked: the nodes that were found for each question, best first, shape (questions, k); -1 where there are fewer.
        answers: all known answers of each question.
        n: how many.

    >>> best_wrong(np.array([[4, 2, 9], [1, 4, -1]]), [np.array([4]), np.array([2])], 2).tolist()
    [[2, 9], [1, 4]]
    """
    found = np.full((len(ranked), n), -1, np.int64)
    for place, (row, right) in enumerate(zip(ranked, answers, strict=True)):
        wrong = row[(row >= 0) & ~np.isin(row, right)][:n]
        found[place, : len(wrong)] = wrong
    return found


def drawn(wrong: Rows, questions: Rows, n: int, nodes: Rows, seed: Sequence[int]) -> Rows:
    """Return `n` negatives for each of these questions, drawn without return from its wrong nodes by a seed.

    Where a question has too few, the others come from `nodes` by chance: none of them was found for it.

    Args:
        wrong: what `best_wrong` returned.
        questions: a row of `wrong` for each place to fill, shape (m,).
        n: negatives for each place.
        nodes: all that can be negatives; at least one that is no answer.
        seed: numbers that the draw depends on.

    >>> drawn(np.array([[4, 2, 9]]), np.array([0, 0]), 3, np.arange(10), [0]).tolist()
    [[9, 4, 2], [9, 2, 4]]
    """
    order = np.random.default_rng(seed)
    found = np.empty((len(questions), n), np.int64)
    for place, question in enumerate(questions.tolist()):
        own = wrong[question][wrong[question] >= 0]
        kept = order.permutation(own)[:n]
        found[place] = np.concatenate([kept, order.choice(nodes, n - len(kept))])
    return found
