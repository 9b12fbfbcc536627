"""Top-k selection by one rule: score descending, then position ascending.

Positions are rows of the knowledge base, whose nodes are in order of id; so ties are broken by id.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.protocols import Ranking

Scores = NDArray[np.floating]
Positions = NDArray[np.int64]
SAMPLED = 32
"""One score in so many is sampled to estimate the k-th best."""


def best(scores: Scores, k: int, ids: Positions | None = None) -> Positions:
    """Return the positions of the `k` best scores, best first; fewer where there are fewer.

    `ids` break ties where the candidates are not in their order.

    >>> best(np.array([0.5, 2.0, 0.5, 1.0]), 3).tolist()
    [1, 3, 0]
    >>> best(np.array([0.5, 2.0, 0.5, 1.0]), 3, np.array([9, 8, 7, 6])).tolist()
    [1, 3, 2]
    """
    chosen: Positions = np.arange(len(scores))
    if ids is not None:
        if k < len(scores):
            chosen = np.flatnonzero(scores >= _last_of_best(scores, k))
        return chosen[np.lexsort((ids[chosen], -scores[chosen]))[:k]]
    if k < len(scores):
        bound = _last_of_best(scores, k)
        above, level = np.flatnonzero(scores > bound), np.flatnonzero(scores == bound)
        chosen = np.concatenate([above, level[: k - len(above)]])
    return chosen[np.argsort(-scores[chosen], kind="stable")]


def _last_of_best(scores: Scores, k: int) -> np.floating:
    """Return the `k`-th best score, searched among the scores above that of a sample where these are enough."""
    sample = scores[::SAMPLED]
    n_above = 2 * k // SAMPLED + SAMPLED
    if n_above < len(sample):
        guess: np.floating = np.partition(sample, len(sample) - n_above)[len(sample) - n_above]
        above = scores[scores > guess]
        if len(above) < k <= np.count_nonzero(scores >= guess):
            return guess
        scores = above if len(above) >= k else scores
    last: np.floating = np.partition(scores, len(scores) - k)[len(scores) - k]
    return last


def row_mask(n: int, rows: Positions | None) -> NDArray[np.bool_]:
    """Return which of `n` nodes are among `rows`, shape (n,); all where None."""
    mask = np.full(n, rows is None)
    if rows is not None:
        mask[rows] = True
    return mask


def pad(rows: Sequence[tuple[Positions, Scores]], k: int) -> Ranking:
    """Return rows of (positions, scores), each best first and at most `k` long, as one ranking."""
    ids = np.full((len(rows), k), -1, dtype=np.int64)
    scores = np.full((len(rows), k), -np.inf)
    for i, (positions, values) in enumerate(rows):
        ids[i, : len(positions)] = positions
        scores[i, : len(values)] = values
    return Ranking(ids, scores)


def top_k_by_query(rows: Positions, ids: Positions, scores: Scores, n_rows: int, k: int) -> Ranking:
    """Return the `k` best candidates of each query; `rows` is the query of each candidate, in any order."""
    order = np.lexsort((ids, -scores, rows))
    rows, ids, scores = rows[order], ids[order], scores[order]
    starts = np.searchsorted(rows, np.arange(n_rows + 1))
    kept = [slice(start, min(start + k, end)) for start, end in pairwise(starts)]
    return pad([(ids[part], scores[part]) for part in kept], k)


def merge(parts: Sequence[Ranking], k: int) -> Ranking:
    """Return the `k` best of rankings of the same queries over disjoint candidates.

    >>> one, two = pad([(np.array([4]), np.array([0.5]))], 1), pad([(np.array([2]), np.array([0.5]))], 1)
    >>> merge([one, two], 2).ids.tolist()
    [[2, 4]]
    """
    ids, scores = np.hstack([part.ids for part in parts]), np.hstack([part.scores for part in parts])
    order = np.lexsort((ids, -scores), axis=-1)[:, :k]
    short = ((0, 0), (0, k - order.shape[1]))
    return Ranking(
        np.pad(np.take_along_axis(ids, order, 1), short, constant_values=-1),
        np.pad(np.take_along_axis(scores, order, 1), short, constant_values=-np.inf),
    )
