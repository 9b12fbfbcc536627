"""BM25 against bm25s used directly, on pseudo-words of Zipf's law.

    OMP_NUM_THREADS=1 python benchmarks_speed/bm25.py [--texts 129375]

Seconds of processor time, one thread, the contenders taking turns in one run. Target: at least 0.95x the speed of
bm25s, with its scores.
"""

import argparse
import time

import bm25s
import numpy as np

from kbbench_hf.retrieval.bm25 import BM25

K, N_QUERIES = 100, 256


def texts(n: int, rng: np.random.Generator) -> list[str]:
    """Texts of 257 words on average, words by a Zipf-Mandelbrot law over 200,000."""
    weights = 1 / (np.arange(200_000) + 2.7) ** 1.07
    lengths = rng.poisson(257, n)
    words = np.searchsorted(np.cumsum(weights / weights.sum()), rng.random(lengths.sum()))
    return [" ".join(f"w{word}" for word in part) for part in np.split(words, np.cumsum(lengths)[:-1])]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--texts", type=int, default=129_375)
    options = arguments.parse_args()
    rng = np.random.default_rng(0)
    corpus = texts(options.texts, rng)
    queries = [" ".join(rng.choice(corpus[row].split(), 12)) for row in rng.integers(0, len(corpus), N_QUERIES)]

    start = time.process_time()
    peer = bm25s.BM25()
    peer.index(bm25s.tokenize(corpus, stopwords="en", show_progress=False), show_progress=False)
    peer_index = time.process_time() - start
    start = time.process_time()
    ours = BM25(corpus)
    print(f"index {len(corpus):,} texts: {peer_index / (time.process_time() - start):.2f}x bm25s (>= 0.95)")

    def ask_peer(part: list[str]) -> np.ndarray:
        tokens = bm25s.tokenize(part, stopwords="en", show_progress=False)
        return peer.retrieve(tokens, k=K, show_progress=False).scores

    for batch in (1, 32):
        spent = {"ours": 0.0, "bm25s": 0.0}
        for start_row in range(0, N_QUERIES, batch):
            part = queries[start_row : start_row + batch]
            start = time.process_time()
            expected = ask_peer(part)
            middle = time.process_time()
            found = ours.search(part, K)
            spent["ours"] += time.process_time() - middle
            spent["bm25s"] += middle - start
            if not np.allclose(found.scores, expected, rtol=1e-6):
                raise SystemExit("the scores differ from those of bm25s")
        print(
            f"batch {batch:2}: {N_QUERIES / spent['ours']:.0f} queries/s = "
            f"{spent['bm25s'] / spent['ours']:.2f}x bm25s (>= 0.95), with its scores"
        )


if __name__ == "__main__":
    main()
