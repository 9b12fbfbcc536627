"""The graph ranker against the ranker that it starts from, on synthetic knowledge bases of the sizes of Prime and MAG.

    OMP_NUM_THREADS=1 python benchmarks_speed/graph_ranker.py [--scale 1] [--only prime,mag]

Milliseconds of processor time for one question, asked alone, the contenders taking turns in one run: `bm25s` is the
library's own `tokenize` and `retrieve`, `bm25` its scores with our selection of the best. Targets: at the size of Prime
the median of `graph:bm25` at most 1.3 times that of `bm25`; at that of MAG at most 10 ms beyond a base that is free.
"""

import argparse
import time
from collections.abc import Sequence

import bm25s
import numpy as np
import pyarrow as pa
from knowledge_base_data import Synthetic, mag, prime

from kbbench_hf.knowledge_base import KnowledgeBase
from kbbench_hf.protocols import Ranking, Retriever
from kbbench_hf.retrieval.bm25 import BM25
from kbbench_hf.retrieval.graph_ranker.ranker import GraphRanker

TOP_K, N_QUESTIONS, N_WORDS = 100, 200, 60


class Free:
    """A base that ranks in no time."""

    def __init__(self, ranked: np.ndarray) -> None:
        self._ids = ranked

    def search(self, queries: Sequence[str], top_k: int) -> Ranking:
        """Return the same ranking for every query."""
        shape = (len(queries), min(top_k, len(self._ids)))
        return Ranking(
            np.broadcast_to(self._ids[: shape[1]], shape), np.broadcast_to(-np.arange(shape[1]) / 1.0, shape)
        )


def with_texts(data: Synthetic, n_words: int) -> tuple[KnowledgeBase, list[str]]:
    """Return the knowledge base with names and texts of pseudo-words by a Zipf-like law, and its texts."""
    rng, n = np.random.default_rng(0), len(data.type_ids)
    words = np.array([f"w{i:x}" for i in range(100_000)])

    def drawn(count: int, skew: float) -> list[str]:
        picked = words[(len(words) * rng.random((n, count)) ** skew).astype(int)]
        return [" ".join(row) for row in picked.tolist()]

    names, texts = drawn(3, 2.0), drawn(n_words, 4.0) if n_words else [""] * n
    types = [data.node_types[number] for number in data.type_ids.tolist()]
    nodes = pa.table(
        {"id": np.arange(n), "type": types, "name": pa.array(names, pa.large_string()),
         "text": pa.array(texts, pa.large_string())}
    )  # fmt: skip
    relation = pa.DictionaryArray.from_arrays(data.relation_ids.astype(np.int32), data.relations)
    edges = pa.table({"head": data.heads.astype(np.int64), "relation": relation, "tail": data.tails.astype(np.int64)})
    return KnowledgeBase.from_arrow(nodes, edges), texts


def questions(kb: KnowledgeBase, texts: Sequence[str]) -> list[str]:
    """Return questions that name a type, a relation, a node and six words of a text."""
    rng = np.random.default_rng(1)
    asked = []
    for row in rng.integers(0, len(kb), N_QUESTIONS).tolist():
        asked_type, relation = rng.choice(kb.graph.node_types), rng.choice(kb.graph.relations)
        words = " ".join(rng.choice(texts[row].split() or ["nothing"], 6))
        asked.append(f"Which {asked_type} has a {relation} with {kb.names([row])[0]} and {words}?")
    return asked


class Library:
    """bm25s as its own documentation uses it."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._index = bm25s.BM25()
        self._index.index(bm25s.tokenize(list(texts), stopwords="en", show_progress=False), show_progress=False)

    def search(self, queries: Sequence[str], top_k: int) -> Ranking:
        """Return the `top_k` best nodes of every query."""
        words = bm25s.tokenize(list(queries), stopwords="en", show_progress=False)
        return Ranking(*self._index.retrieve(words, k=top_k, show_progress=False))


def spent(model: Retriever, question: str) -> float:
    """Return the milliseconds of processor time that a question takes."""
    start = time.process_time()
    model.search([question], TOP_K)
    return 1000 * (time.process_time() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", default="prime,mag")
    options = parser.parse_args()
    if "prime" in options.only:
        kb, texts = with_texts(prime(options.scale), N_WORDS)
        bm25 = BM25(texts)
        models = (Library(texts), bm25, GraphRanker(kb, bm25))
        all_three = np.array([[spent(model, each) for model in models] for each in questions(kb, texts)])
        library, base, graph = np.median(all_three, axis=0)
        print(
            f"{len(kb):,} nodes: bm25s {library:.2f} ms, bm25 {base:.2f} ms, graph:bm25 {graph:.2f} ms, "
            f"{graph / base:.2f} times bm25 (at most 1.3), {graph / library:.2f} times bm25s"
        )
    if "mag" in options.only:
        kb, texts = with_texts(mag(options.scale), 0)
        graph = GraphRanker(kb, Free(np.random.default_rng(2).permutation(len(kb))[:10_000]))
        beyond = np.array([spent(graph, each) for each in questions(kb, texts)])
        print(
            f"{len(kb):,} nodes: {np.median(beyond):.2f} ms beyond the base (at most 10), "
            f"p95 {np.quantile(beyond, 0.95):.2f}"
        )


if __name__ == "__main__":
    main()
