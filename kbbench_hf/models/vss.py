"""VSS and Multi-VSS: the vector searches of published tables, with their texts, depths, chunks and aggregates.

Source: `models/vss.py`, `models/multi_vss.py` and `eval.py` of snap-stanford/stark (MIT, at b246b94), and Wu et al.
2024, section 4. Both read compact documents with relations. `dense:` and `multi:` are our own, with other defaults.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.errors import UsageError
from kbbench_hf.files.writing import whole_file
from kbbench_hf.models.dense import Dense
from kbbench_hf.models.embedders import SentenceEmbedder, from_spec
from kbbench_hf.models.embeddings import embed, folder_of
from kbbench_hf.models.exact_search import Vectors
from kbbench_hf.models.precomputed import is_precomputed, precomputed
from kbbench_hf.models.recursive_chunks import recursive_chunks
from kbbench_hf.models.renderings import Text
from kbbench_hf.models.specs import Options, Spec, positive
from kbbench_hf.models.top_k import best, pad
from kbbench_hf.models.workplace import TEXT, Share, Workplace
from kbbench_hf.protocols import Ranking, Retriever

_TOP = re.compile(r"top([1-9][0-9]{0,3})_avg")
Aggregate = Callable[[Vectors], float]
"""The scores of a node's chunks, shape (chunks,) -> the node's."""


def build(spec: Spec, place: Workplace) -> Dense:
    """Build `vss:<model>@text=,relations=,batch=,max_length=`, or `vss:<folder of embeddings>@documents=`.

    Candidates rank by the dot product of their vector with the question's, as the model gives them: `dense:` makes them
    of length 1 first. A folder holds vectors that others computed, see `precomputed`.
    """
    if is_precomputed(spec.model):
        return precomputed(spec, place)
    embedder, options = from_spec(spec, False, **TEXT)
    return _vss(spec, embedder, _text(options, place), place)


def build_multi(spec: Spec, place: Workplace) -> "MultiVSS":
    """Build `multi_vss:<model>@text=,relations=,depth=,chunk=,overlap=,aggregate=,batch=,max_length=`."""
    if is_precomputed(spec.model):
        raise UsageError(f"{spec}: chunks have to be embedded, and a folder of embeddings cannot. Name the model.")
    mean_of_three = aggregate("top3_avg")
    embedder, options = from_spec(
        spec,
        False,
        depth=(positive, 50),
        chunk=(positive, 256),
        overlap=(positive, None),
        aggregate=(aggregate, mean_of_three),
        **TEXT,
    )
    text, size = _text(options, place), options["chunk"]
    overlap = options["overlap"] or size // 5

    def chunks(rows: NDArray[np.int64]) -> list[list[str]]:
        return [recursive_chunks(each, size, overlap) or [""] for each in place.texts(text, rows)]

    settings = embedder.settings | {"text": str(text), "recursive_chunks": [size, overlap], "nodes": place.nodes}
    vectors = ChunkVectors(chunks, embedder, folder_of(place.cache, **settings), place.share)
    return MultiVSS(_vss(spec, embedder, text, place), vectors, embedder, options["aggregate"], options["depth"])


def _text(options: Options, place: Workplace) -> Text:
    return place.text(options, relations=True, usual="compact")


def _vss(spec: Spec, embedder: SentenceEmbedder, text: Text, place: Workplace) -> Dense:
    place.revisions[spec.model] = embedder.name
    folder = folder_of(place.cache, **embedder.settings, text=str(text), nodes=place.nodes)
    vectors = embed(lambda: place.texts(text), embedder, folder, place.share, place.progress)
    return Dense(vectors, embedder, share=place.share)


def aggregate(name: str) -> Aggregate:
    """Return what makes one score of a node's chunks: `max`, `avg`, or `topk_avg`, the mean of its k best.

    >>> [aggregate(name)(np.float32([1, 4, 3])) for name in ("max", "avg", "top2_avg", "top9_avg")]
    [4.0, 2.6666667461395264, 3.5, 2.6666667461395264]

    Raises:
        ValueError: it is none of them.
    """
    if name == "max":
        return lambda scores: float(scores.max())
    if name == "avg":
        return lambda scores: float(scores.mean())
    if not (top := _TOP.fullmatch(name)):
        raise ValueError("expected max, avg or topk_avg, such as top3_avg")
    return lambda scores: float(np.sort(scores)[-int(top[1]) :].mean())


@dataclass(frozen=True)
class ChunkVectors:
    """The vectors of the chunks of single nodes, encoded when first asked for and kept in a file for each node.

    Chunks of a node are encoded together and with no others, so that its vectors are the same whatever was asked.
    """

    chunks: Callable[[NDArray[np.int64]], list[list[str]]]
    """Places of nodes -> the chunks of each."""
    embedder: SentenceEmbedder
    folder: Path
    share: Share = field(default_factory=Share)

    def of(self, nodes: NDArray[np.int64]) -> list[Vectors]:
        """Return the vectors of each node's chunks, shape (chunks, d)."""
        self.folder.mkdir(parents=True, exist_ok=True)
        missing = np.array([node for node in nodes.tolist() if not self._file(node).is_file()], np.int64)
        self.share.gather(None)  # all know what is missing before any of it is written
        own = missing[self.share.rank :: self.share.size]
        for node, texts in zip(own.tolist(), self.chunks(own) if len(own) else [], strict=True):
            with whole_file(self._file(node)) as out:
                np.save(out, self.embedder.encode(texts))
        self.share.gather(None)
        return [np.load(self._file(node)) for node in nodes.tolist()]

    def _file(self, node: int) -> Path:
        return self.folder / f"{node}.npy"


@dataclass(frozen=True)
class MultiVSS:
    """The first `depth` nodes of another retriever, by what their chunks score together; no others are ranked.

    Differs from upstream: the question is embedded by the same model as the chunks (there always by ada-002).
    """

    first: Retriever
    vectors: ChunkVectors
    embedder: SentenceEmbedder
    aggregate: Aggregate
    depth: int = 50

    def search(self, queries: Sequence[str], top_k: int) -> Ranking:
        """Return the `top_k` best nodes of every query, at most `depth`."""
        found = [np.sort(row[row >= 0]) for row in self.first.search(queries, self.depth).ids]
        nodes = np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)
        chunks = dict(zip(nodes.tolist(), self.vectors.of(nodes), strict=True))
        rows = []
        for asked, ids in zip(self.embedder.encode_queries(queries), found, strict=True):
            scores = np.array([self.aggregate(chunks[node] @ asked) for node in ids.tolist()])
            order = best(scores, top_k)
            rows.append((ids[order], scores[order]))
        return pad(rows, top_k)
