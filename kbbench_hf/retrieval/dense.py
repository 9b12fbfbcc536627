"""Retrievers by vectors: one per node (exact or with faiss), one per chunk of its text; nearest questions (knn).

`retrieval.retrievers` builds them as `dense`, `multi` and `knn`; `vss` uses `Dense` too. Exact rankings are the same
for any number of threads and processes. Chunking is part of the names of caches and of published scores: it stays.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.errors import UsageError, missing_extra
from kbbench_hf.model_specs import Spec, one_of, positive
from kbbench_hf.protocols import ProcessGroup, QueryEmbedder, Ranking, Retriever
from kbbench_hf.retrieval.bm25 import BM25
from kbbench_hf.retrieval.context import TEXT, RetrieverContext
from kbbench_hf.retrieval.embedders import embed, embed_nodes, folder_of, from_spec
from kbbench_hf.retrieval.top_k import Vectors, best, best_of_rows, block_rows, in_parts, merge, pad, search

INDEXES = ("exact", "hnsw", "ivf", "sq8")


def build(spec: Spec, context: RetrieverContext) -> "Dense":
    """Build `dense:<model>@text=,relations=,index=,batch=,max_length=`; encodes the texts, or reads the cache."""
    embedder, options = from_spec(spec, context, index=(one_of(*INDEXES), "exact"), **TEXT)
    text = context.text(options, relations=True)
    return Dense(embed_nodes(context, embedder, text), embedder, options["index"], context.processes)


class Dense:
    """Ranks nodes by the inner product of their vector with the query's.

    Args:
        vectors: one per node, shape (n, d).
        embedder: encodes queries.
        index: `exact`, or one of faiss's: `hnsw` (a graph of 32 links), `ivf` (clusters, of which as many as the square
            root of their number are searched) and `sq8` (8 bits per number) are faster or smaller, and miss some of the
            true neighbors.
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
            return search(self._vectors, vectors, top_k, self._processes)
        scores, ids = self._index.search(vectors, top_k)  # with id -1 where it finds fewer
        return merge([Ranking(ids, np.where(ids < 0, -np.inf, scores.astype(np.float64)))], top_k)


def _approximate(vectors: Vectors, index: str) -> Any:
    """Return a faiss index of the vectors; the same for the same vectors, whatever the number of threads."""
    try:
        import faiss
    except ImportError:
        raise missing_extra("faiss-cpu", "models") from None
    n, d = vectors.shape
    # faiss's guidelines: 4 to 16 times the square root, and 30 vectors or more to train each cluster.
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
        built.hnsw.efSearch = 400  # faiss's default is 16, too few for good recall of 100 neighbors
    return built


def build_nearest_questions(spec: Spec, context: RetrieverContext) -> "NearestQuestions":
    """Build `knn@k=`, which compares questions by BM25, or `knn:<model>@k=`, which compares their embeddings."""
    if context.training is None:
        raise UsageError(f"{str(spec)!r} answers from training questions; this run has none. Choose another model.")
    questions = [question for question, _ in context.training]
    if not spec.model:
        k = spec.read(k=(positive, 10))["k"]
        nearest: Retriever = BM25(questions)
    else:
        embedder, options = from_spec(spec, context, k=(positive, 10))
        nearest, k = Dense(embedder.encode_queries(questions), embedder), options["k"]
    return NearestQuestions(questions, [context.kb.rows(answers) for _, answers in context.training], nearest, k)


@dataclass(frozen=True)
class NearestQuestions:
    """Ranks nodes by the summed similarity of the `k` nearest training questions that they answer, and no others.

    A training question equal to the query is left out, so that training questions can be queries too. The score is what
    shared answers of training questions alone give on a benchmark.
    """

    questions: Sequence[str]
    """The training questions."""
    answers: Sequence[NDArray[np.int64]]
    """The rows of the answers of each."""
    nearest: Retriever
    """Ranks the training questions."""
    k: int = 10
    """How many of them to use."""

    def search(self, queries: Sequence[str], top_k: int) -> Ranking:
        """Return the `top_k` best nodes of every query; fewer where the nearest questions have fewer answers."""
        ranking = self.nearest.search(queries, self.k + 1)  # one of them may be the query itself
        rows = [self._rank(*one, top_k) for one in zip(queries, ranking.ids, ranking.scores, strict=True)]
        return pad(rows, top_k)

    def _rank(
        self, query: str, nearest: NDArray[np.int64], scores: NDArray[np.float64], top_k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        ranked = zip(nearest, scores, strict=True)
        near = [(row, score) for row, score in ranked if score > 0 and self.questions[row] != query]
        answers = [np.unique(self.answers[row]) for row, _ in near[: self.k]]
        credit = np.repeat([score for _, score in near[: self.k]], np.array(list(map(len, answers)), np.int64))
        nodes, places = np.unique(np.concatenate([np.zeros(0, np.int64), *answers]), return_inverse=True)
        totals = np.bincount(places, credit, len(nodes)).astype(np.float64, copy=False)
        chosen = best(totals, top_k)
        return nodes[chosen], totals[chosen]


AGGREGATES = ("max", "mean", "top3")


def build_multi(spec: Spec, context: RetrieverContext) -> "MultiVector":
    """Build `multi:<model>@text=,relations=,chunk=,overlap=,aggregate=,batch=,max_length=`."""
    embedder, options = from_spec(
        spec, context, chunk=(positive, 256), overlap=(positive, 51), aggregate=(one_of(*AGGREGATES), "max"), **TEXT
    )
    text, size, overlap = context.text(options, relations=True), options["chunk"], options["overlap"]
    chunks = [split_into_chunks(each, size, overlap) for each in context.texts(text)]
    folder = folder_of(context.cache, **embedder.settings, text=str(text), chunk=[size, overlap], nodes=context.nodes)
    texts = [chunk for node in chunks for chunk in node]
    vectors = embed(lambda: texts, embedder, folder, context.processes, context.progress)
    offsets = np.cumsum([0, *map(len, chunks)])
    return MultiVector(vectors, offsets, embedder, options["aggregate"], context.processes)


def split_into_chunks(text: str, size: int, overlap: int) -> list[str]:
    """Cut a text at spaces into chunks of at most `size` characters, each repeating the end of the one before.

    A longer word stays whole. At least one chunk is returned, "" for an empty text.

    >>> split_into_chunks("one two three four", 9, 4)
    ['one two', 'two three', 'four']
    """
    words = text.split()
    chunks, start = [], 0
    while True:
        end, length = start, -1
        while end < len(words) and (end == start or length + 1 + len(words[end]) <= size):
            length += 1 + len(words[end])
            end += 1
        chunks.append(" ".join(words[start:end]))
        if end >= len(words):
            return chunks
        back, repeated = end, -1
        while back - 1 > start and repeated + 1 + len(words[back - 1]) <= overlap:
            repeated += 1 + len(words[back - 1])
            back -= 1
        start = back


@dataclass(frozen=True)
class MultiVector:
    """Nodes ranked by the inner products of the query with their chunks.

    Differs from upstream: all nodes are scored, not only the 50 that one vector per node finds; chunks break at spaces.
    """

    vectors: Vectors
    """One per chunk, node by node, shape (chunks, d)."""
    offsets: NDArray[np.int64]
    """The chunks of node i are `offsets[i]` to `offsets[i + 1]`; every node has one."""
    embedder: QueryEmbedder
    """Makes the vectors of queries."""
    aggregate: str = "max"
    """A node's score: its `max`imum, the `mean` of all, or the mean of its best three (`top3`)."""
    processes: ProcessGroup = field(default_factory=ProcessGroup)
    """This process's part of the search."""

    def search(self, queries: Sequence[str], top_k: int) -> Ranking:
        """Return the `top_k` best nodes of every query."""
        vectors = self.embedder.encode_queries(queries)
        return in_parts(list(self._blocks()), partial(self._scan, vectors, top_k), top_k, self.processes)

    def _blocks(self) -> Iterator[slice]:
        """Yield runs of nodes with about as many chunks each."""
        size = block_rows(len(self.vectors))
        ends = np.searchsorted(self.offsets, np.arange(size, self.offsets[-1] + size, size), "right") - 1
        for start, end in zip([0, *ends], ends, strict=False):
            if start < end:
                yield slice(int(start), int(end))

    def _scan(self, queries: Vectors, top_k: int, blocks: Sequence[slice]) -> Ranking:
        import torch

        parts = [pad([(np.zeros(0, np.int64), np.zeros(0))] * len(queries), top_k)]
        for nodes in blocks:
            offsets = self.offsets[nodes.start : nodes.stop + 1]
            chunks = torch.from_numpy(self.vectors[offsets[0] : offsets[-1]])
            products = (torch.from_numpy(queries) @ chunks.T).numpy()
            scores = aggregate_chunks(products, offsets - offsets[0], self.aggregate)
            parts.append(best_of_rows(scores, top_k, nodes.start))
        return merge(parts, top_k)


def aggregate_chunks(scores: NDArray[np.float32], offsets: NDArray[np.int64], aggregate: str) -> NDArray[np.float32]:
    """Return one score per node from those of its chunks, shape (queries, nodes).

    >>> aggregate_chunks(np.array([[1, 4, 2, 5, 3]], np.float32), np.array([0, 1, 5]), "top3").tolist()
    [[1.0, 4.0]]
    """
    starts, counts = offsets[:-1], np.diff(offsets)
    if aggregate == "max":
        return np.maximum.reduceat(scores, starts, axis=1)
    if aggregate == "mean":
        return np.divide(np.add.reduceat(scores, starts, axis=1), counts, dtype=np.float32)
    out = np.empty((len(scores), len(starts)), dtype=np.float32)
    for count in np.unique(counts):
        nodes = np.flatnonzero(counts == count)
        own = scores[:, starts[nodes, None] + np.arange(count)]
        out[:, nodes] = np.sort(own, axis=2)[:, :, -3:].mean(axis=2)
    return out
