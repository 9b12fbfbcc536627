"""Exact search by inner product (torch, faiss), and top-k selection by one rule: score, then position ascending.

All retrievers and the agents' tools select with it. Positions are rows of a knowledge base. Released ones have their
nodes in order of id, so that ties are broken by id; published rankings depend on this order.

Every query is compared with every vector, in fixed blocks of the corpus. A block is one product on one thread; threads
and processes take different blocks. So a score depends on its block and the batch of queries alone, and any number of
threads and processes gives the same bytes.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.protocols import ProcessGroup, Ranking

Scores = NDArray[np.floating]
Positions = NDArray[np.int64]
SAMPLED = 32
"""One score in so many is sampled to estimate the k-th best."""


def best(scores: Scores, k: int, ids: Positions | None = None) -> Positions:
    """Return the positions of the `k` best scores, best first; fewer where there are fewer. `k` is 1 or more.

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
    """Return rows of (positions, scores), each best first and at most `k` long, as one ranking of shape (rows, k)."""
    ids = np.full((len(rows), k), -1, dtype=np.int64)
    scores = np.full((len(rows), k), -np.inf)
    for i, (positions, values) in enumerate(rows):
        ids[i, : len(positions)] = positions
        scores[i, : len(values)] = values
    return Ranking(ids, scores)


def best_of_rows(rows: Iterable[Scores], k: int, first: int = 0) -> Ranking:
    """Return the `k` best of each row of scores, by position; `first` is the position of the first score.

    >>> best_of_rows(np.array([[0.5, 2.0, 1.0]]), 2, 10).ids.tolist()
    [[11, 12]]
    """
    return pad([(ids + first, row[ids]) for row in rows for ids in [best(row, k)]], k)


def top_k_by_query(rows: Positions, ids: Positions, scores: Scores, n_rows: int, k: int) -> Ranking:
    """Return the `k` best candidates of each query; `rows` is the query of each candidate, in any order."""
    order = np.lexsort((ids, -scores, rows))
    rows, ids, scores = rows[order], ids[order], scores[order]
    starts = np.searchsorted(rows, np.arange(n_rows + 1))
    parts = [slice(start, min(start + k, end)) for start, end in pairwise(starts)]
    return pad([(ids[part], scores[part]) for part in parts], k)


def merge(parts: Sequence[Ranking], k: int) -> Ranking:
    """Return the `k` best of rankings of the same queries over disjoint candidates, padded to `k` columns.

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


Vectors = NDArray[np.float32]
_NO_ROWS = np.zeros(0, dtype=np.int64)


def search(vectors: Vectors, queries: Vectors, top_k: int, processes: ProcessGroup | None = None) -> Ranking:
    """Return the `top_k` vectors of greatest inner product with each query; all processes return the same.

    Args:
        vectors: shape (n, d), float32; may be memory-mapped: a search reads it once.
        queries: shape (q, d), float32.
        top_k: how many to return; rows are padded where n is smaller.
        processes: the group of processes; each searches its shard of the blocks.
    """
    n, size = len(vectors), block_rows(len(vectors))
    blocks = [slice(start, min(start + size, n)) for start in range(0, n, size)]
    scan = _scan_faiss if 2 * top_k <= size and _faiss_is_faster(len(queries)) else _scan_torch
    return in_parts(blocks, lambda own: scan(vectors, queries, top_k, own), top_k, processes or ProcessGroup())


def in_parts(
    blocks: Sequence[slice], scan: Callable[[Sequence[slice]], Ranking], top_k: int, processes: ProcessGroup
) -> Ranking:
    """Scan the blocks in all threads of all processes, each block on one thread, and merge what they find."""
    import torch

    threads = torch.get_num_threads()
    own = [blocks[i] for i in processes.shard(range(len(blocks)))]
    parts = [[own[i] for i in ProcessGroup(rank, threads).shard(range(len(own)))] for rank in range(threads)]
    return merge(processes.gather(merge(list(_pool_of(os.getpid(), threads).map(scan, parts)), top_k)), top_k)


def block_rows(n: int) -> int:
    """Return how many vectors a block has: 8,192, or an eighth of a small corpus, but at least 128.

    Blocks do not depend on threads or processes, so that these do not change the last bits of scores.
    """
    return min(8192, max(128, -(-n // 8)))


def _faiss_is_faster(n_queries: int) -> bool:
    """Whether faiss is there and beats torch: for 129,375 x 768 and 1, 32, 256 queries 12:27, 326:120, 540:710 ms."""
    return (n_queries < 4 or n_queries >= 128) and find_spec("faiss") is not None


def _scan_torch(vectors: Vectors, queries: Vectors, top_k: int, blocks: Sequence[slice]) -> Ranking:
    """Multiply block by block; after the first, keep only what reaches the `top_k`-th score of the first."""
    import torch

    vectors_of_queries = torch.from_numpy(queries)
    if blocks and 2 * top_k > blocks[0].stop - blocks[0].start:  # deep rankings keep most scores: sort them once
        result = np.hstack([(vectors_of_queries @ torch.from_numpy(vectors[block]).T).numpy() for block in blocks])
        return best_of_rows(result, top_k, blocks[0].start)
    bound: NDArray[np.float32] | None = None
    rows, ids, scores = [_NO_ROWS], [_NO_ROWS], [np.zeros(0, dtype=np.float32)]
    for block in blocks:
        result = (vectors_of_queries @ torch.from_numpy(vectors[block]).T).numpy()
        if bound is None:
            last = result.shape[1] - top_k
            bound = np.partition(result, last, axis=1)[:, last : last + 1]
        row, column = np.nonzero(result >= bound)
        rows.append(row)
        ids.append(column + block.start)
        scores.append(result[row, column])
    return top_k_by_query(np.concatenate(rows), np.concatenate(ids), np.concatenate(scores), len(queries), top_k)


def _scan_faiss(vectors: Vectors, queries: Vectors, top_k: int, blocks: Sequence[slice]) -> Ranking:
    """Search each block by faiss; one more result than `top_k` shows a tie that was cut, and then all are fetched."""
    import faiss

    parts = [pad([(_NO_ROWS, np.zeros(0))] * len(queries), top_k)]
    for block in blocks:
        part = vectors[block]
        scores, ids = faiss.knn(queries, part, min(top_k + 1, len(part)), metric=faiss.METRIC_INNER_PRODUCT)
        if top_k < len(part) and (scores[:, top_k - 1] == scores[:, top_k]).any():
            scores, ids = faiss.knn(queries, part, len(part), metric=faiss.METRIC_INNER_PRODUCT)
        parts.append(Ranking(ids.astype(np.int64) + block.start, scores.astype(np.float64)))
    return merge(parts, top_k)


@cache
def _pool_of(process: int, threads: int) -> ThreadPoolExecutor:
    """Return a pool whose products use one thread each; a forked process makes its own."""
    return ThreadPoolExecutor(threads, initializer=_one_thread)


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)
    if find_spec("faiss") is not None:
        import faiss

        faiss.omp_set_num_threads(1)
