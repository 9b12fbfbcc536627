"""Multi-vector retriever: one vector per chunk of a node's text, aggregated to a score of the node."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.model_specs import Spec, one_of, positive
from kbbench_hf.protocols import ProcessGroup, Ranking
from kbbench_hf.retrieval.context import TEXT, RetrieverContext
from kbbench_hf.retrieval.embedders import SentenceEmbedder, embed, folder_of, from_spec
from kbbench_hf.retrieval.top_k import Vectors, best, block_rows, in_parts, merge, pad

AGGREGATES = ("max", "mean", "top3")


def build(spec: Spec, context: RetrieverContext) -> "MultiVector":
    """Build `multi:<model>@text=,relations=,chunk=,overlap=,aggregate=,batch=,max_length=`."""
    embedder, options = from_spec(
        spec, chunk=(positive, 256), overlap=(positive, 51), aggregate=(one_of(*AGGREGATES), "max"), **TEXT
    )
    context.revisions[spec.model] = embedder.name
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
    embedder: SentenceEmbedder
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
            scores = aggregate_chunks(
                (torch.from_numpy(queries) @ chunks.T).numpy(), offsets - offsets[0], self.aggregate
            )
            top = [best(row, top_k) for row in scores]
            parts.append(pad([(ids + nodes.start, row[ids]) for ids, row in zip(top, scores, strict=True)], top_k))
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
