"""Exact search by inner product (torch, faiss): every query against every vector, in fixed blocks of the corpus.

A block is one product on one thread; threads and processes take different blocks. So a score depends on its block and
the batch of queries alone, and any number of threads and processes gives the same bytes.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.protocols import ProcessGroup, Ranking
from kbbench_hf.retrieval.top_k import best, merge, pad, top_k_by_query

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
    threads, pool = _pool()
    own = [blocks[i] for i in processes.shard(range(len(blocks)))]
    parts = [[own[i] for i in ProcessGroup(rank, threads).shard(range(len(own)))] for rank in range(threads)]
    return merge(processes.gather(merge(list(pool.map(scan, parts)), top_k)), top_k)


def block_rows(n: int) -> int:
    """Return how many vectors a block has: 8,192, or an eighth of a small corpus."""
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
        kept = [best(row, top_k) for row in result]
        return pad([(ids + blocks[0].start, row[ids]) for ids, row in zip(kept, result, strict=True)], top_k)
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


def _pool() -> tuple[int, ThreadPoolExecutor]:
    import torch

    threads = torch.get_num_threads()
    return threads, _pool_of(os.getpid(), threads)


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)
    if find_spec("faiss") is not None:
        import faiss

        faiss.omp_set_num_threads(1)
