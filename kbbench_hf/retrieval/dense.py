"""Dense retriever: one vector per node, nearest by inner product; exact, or with an index of faiss."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kbbench_hf.errors import missing_extra
from kbbench_hf.model_specs import Spec, one_of
from kbbench_hf.protocols import ProcessGroup, QueryEmbedder, Ranking
from kbbench_hf.retrieval import exact_search
from kbbench_hf.retrieval.context import TEXT, RetrieverContext
from kbbench_hf.retrieval.embedders import from_spec
from kbbench_hf.retrieval.embedding_cache import embed_nodes
from kbbench_hf.retrieval.exact_search import Vectors
from kbbench_hf.retrieval.top_k import merge

INDEXES = ("exact", "hnsw", "ivf", "sq8")


def build(spec: Spec, context: RetrieverContext) -> "Dense":
    """Build `dense:<model>@text=,relations=,index=,batch=,max_length=`; encodes the texts, or reads the cache."""
    embedder, options = from_spec(spec, index=(one_of(*INDEXES), "exact"), **TEXT)
    context.revisions[spec.model] = embedder.name
    text = context.text(options, relations=True)
    return Dense(embed_nodes(context, embedder, text), embedder, options["index"], context.processes)


class Dense:
    """Ranks nodes by the inner product of their vector with the query's.

    Args:
        vectors: one per node, shape (n, d).
        embedder: encodes queries.
        index: `exact`, or one of faiss's: `hnsw` (a graph of 32 links), `ivf` (clusters, a quarter of their square root
            searched) and `sq8` (8 bits per number) are faster or smaller, and miss some of the true neighbors.
        processes: the group of processes; each searches its shard of an exact search.
    """

    def __init__(
        self, vectors: Vectors, embedder: QueryEmbedder, index: str = "exact", processes: ProcessGroup | None = None
    ) -> None:
        self._vectors, self._embedder, self._processes = vectors, embedder, processes or ProcessGroup()
        self._index = None if index == "exact" else _approximate(vectors, index)

    def search(self, queries: Sequence[str], top_k: int) -> Ranking:
        """Return the `top_k` nearest nodes of every query."""
        vectors = self._embedder.encode_queries(queries)
        if self._index is None:
            return exact_search.search(self._vectors, vectors, top_k, self._processes)
        scores, ids = self._index.search(vectors, top_k)
        return merge([Ranking(ids, np.where(ids < 0, -np.inf, scores.astype(np.float64)))], top_k)


def _approximate(vectors: Vectors, index: str) -> Any:
    """Return a faiss index of the vectors; the same for the same vectors, whatever the number of threads."""
    try:
        import faiss
    except ImportError:
        raise missing_extra("faiss-cpu", "models") from None
    n, d = vectors.shape
    lists = max(1, int(4 * np.sqrt(n)) if n > 100_000 else int(np.sqrt(n)))
    recipe = {"hnsw": "HNSW32", "ivf": f"IVF{lists},Flat", "sq8": "SQ8"}[index]
    built: Any = faiss.index_factory(d, recipe, faiss.METRIC_INNER_PRODUCT)
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        built.train(vectors)
        built.add(vectors)
    finally:
        faiss.omp_set_num_threads(threads)
    if index == "ivf":
        built.nprobe = max(1, int(np.sqrt(lists)))
    if index == "hnsw":
        built.hnsw.efSearch = 400
    return built
