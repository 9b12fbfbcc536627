"""Exact dense search against STaRK's way and plain torch; its distance from what the processor allows; memory; growth.

    OMP_NUM_THREADS=1 python benchmarks_speed/dense.py [--nodes 129375] [--growth]

Seconds of processor time, one thread, the contenders taking turns in one run; random vectors of 768 numbers, k = 100.
Targets: at least 45x STaRK's cost per query at batch 256; at batches 1, 32 and 256 at least 0.9x plain torch and within
3x of the limit (one read of the vectors, or their product at the rate of a large matrix product); recall 1.0; less than
1.5 GB for a search with cached embeddings.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from kbbench_hf.retrieval.top_k import search

D, K, BATCHES = 768, 100, (1, 32, 256)


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def make(file: Path, n: int) -> None:
    """Write n unit vectors; beyond 129,375 the same ones again, as only the time matters there."""
    rng = np.random.default_rng(0)
    out = np.lib.format.open_memmap(file, "w+", np.float32, (n, D))
    first = min(n, 129_375)
    for start in range(0, first, 8192):
        block = rng.standard_normal((min(8192, first - start), D), dtype=np.float32)
        out[start : start + len(block)] = block / np.linalg.norm(block, axis=1, keepdims=True)
    for start in range(first, n, first):
        out[start : start + first] = out[: min(first, n - start)]
    out.flush()


def mapped(file: Path) -> np.ndarray:
    return np.asarray(np.load(file, mmap_mode="c"))


def upstream(queries: torch.Tensor, vectors: torch.Tensor, ids: list[int]) -> list[dict[int, torch.Tensor]]:
    """What STaRK's vector search returns for each query: a dictionary from every candidate to its score."""
    return [dict(zip(ids, (query @ vectors.T).view(-1), strict=True)) for query in queries]


def limit(vectors: np.ndarray, batch: int) -> float:
    """The time that one read of the vectors takes, or their product at the best rate of a square product."""
    read = min(seconds(lambda: vectors.sum()) for _ in range(2))
    square = np.ones((2048, 2048), dtype=np.float32)
    rate = 2 * 2048**3 / min(seconds(lambda: square @ square) for _ in range(3))
    return max(read, 2 * batch * vectors.size / rate)


def compare_at(vectors: np.ndarray, everything: torch.Tensor, ids: list[int], queries: np.ndarray) -> None:
    batch, tensor = len(queries), torch.from_numpy(queries)
    times: dict[str, list[float]] = {"ours": [], "torch": [], "STaRK": []}
    for _ in range(5 if batch < 256 else 3):
        times["torch"].append(seconds(lambda: torch.topk(tensor @ everything.T, K)))
        times["ours"].append(seconds(lambda: search(vectors, queries, K)))
        times["STaRK"].append(seconds(lambda: upstream(tensor[:1], everything, ids)) * batch)
    best = {name: min(found[1:]) for name, found in times.items()}
    floor = limit(vectors, batch)
    print(
        f"batch {batch:3}: {1e3 * best['ours']:.1f} ms = {best['torch'] / best['ours']:.2f}x plain torch (>= 0.9), "
        f"{best['STaRK'] / best['ours']:.0f}x STaRK{' (>= 45)' if batch == 256 else ''}, "
        f"{best['ours'] / floor:.2f}x the limit (<= 3)",
        flush=True,
    )


def compare(file: Path) -> None:
    vectors = mapped(file)
    asked = np.random.default_rng(1).standard_normal((256, D), dtype=np.float32)
    everything, ids = torch.from_numpy(vectors), list(range(len(vectors)))
    for batch in BATCHES:
        compare_at(vectors, everything, ids, asked[:batch])
    exact = np.argsort(-(asked[:20].astype(np.float64) @ vectors.T.astype(np.float64)), axis=1)[:, :K]
    for batch in (1, 20):
        found = np.vstack([search(vectors, asked[i : i + batch], K).ids for i in range(0, 20, batch)])
        recall = np.mean([len({*a} & {*b}) / K for a, b in zip(found.tolist(), exact.tolist(), strict=True)])
        print(f"recall@{K} at batch {batch}: {recall}")


def measure(file: Path) -> None:
    """Search in a process of its own; print time and peak memory."""
    vectors = mapped(file)
    asked = np.random.default_rng(1).standard_normal((32, D), dtype=np.float32)
    one = [seconds(lambda: search(vectors, asked[:1], K)) for _ in range(3)]
    many = [seconds(lambda: search(vectors, asked, K)) for _ in range(2)]
    status = Path("/proc/self/status").read_text()  # ru_maxrss would include the parent, up to the exec
    peak = int(status.split("VmHWM:")[1].split()[0]) / 1e6
    print(
        f"{len(vectors):9,} vectors: {1e3 * min(one):.0f} ms at batch 1, {1e3 * min(many):.0f} ms at batch 32; "
        f"peak {peak:.2f} GB, of which {vectors.nbytes / 1e9:.2f} GB are the mapped file"
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--nodes", type=int, default=129_375)
    arguments.add_argument("--growth", action="store_true", help="Also 500,000 and 1,900,000 vectors (6 GB of disk).")
    arguments.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.measure:
        measure(options.measure)
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "vectors.npy"
        for n in (options.nodes, *((500_000, 1_900_000) if options.growth else ())):
            make(file, n)
            if n == options.nodes:
                compare(file)
                print("peak memory below 1.5 GB at 129,375 vectors:")
            subprocess.run([sys.executable, __file__, "--measure", str(file)], check=True)


if __name__ == "__main__":
    main()
