"""VSS and Multi-VSS: the vector searches of published tables, and precomputed embeddings.

Source: `models/vss.py`, `models/multi_vss.py` and `eval.py` of snap-stanford/stark (MIT, at b246b94), and Wu et al.
2024, section 4. Both read compact documents with relations. `dense:` and `multi:` are our own, with other defaults.

`retrieval.retrievers` builds them as `vss` and `multi_vss`. They reproduce published scores: chunks, aggregates and
vectors that are not normalized stay as upstream has them. Layout and names of folders of embeddings are upstream's too.
"""

import pickle
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.retrieval import WRITTEN
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files import file_sha256
from kbbench_hf.files.writing import whole_file
from kbbench_hf.model_specs import Option, Spec, positive
from kbbench_hf.protocols import ProcessGroup, Ranking, Retriever
from kbbench_hf.retrieval.context import TEXT, RetrieverContext, RunQuery
from kbbench_hf.retrieval.dense import Dense
from kbbench_hf.retrieval.embedders import TextEmbedder, embed_nodes, first_line, folder_of, from_spec
from kbbench_hf.retrieval.top_k import Vectors, best, pad

_TOP = re.compile(r"top([1-9][0-9]{0,3})_avg")
Aggregate = Callable[[Vectors], float]
"""The scores of a node's chunks, shape (chunks,) -> the node's."""


def build(spec: Spec, context: RetrieverContext) -> Dense:
    """Build `vss:<model>@text=,relations=,batch=,max_length=`, or `vss:<folder of embeddings>@documents=`.

    Candidates rank by the dot product of the model's vectors, which `dense:` normalizes first. A folder holds
    precomputed vectors, see `precomputed`.
    """
    if is_precomputed(spec.model):
        return precomputed(spec, context)
    embedder, options = from_spec(spec, context, False, **TEXT)
    text = context.text(options, relations=True, usual="compact")
    return Dense(embed_nodes(context, embedder, text), embedder, processes=context.processes)


def build_multi(spec: Spec, context: RetrieverContext) -> "MultiVSS":
    """Build `multi_vss:<model>@text=,relations=,depth=,chunk=,overlap=,aggregate=,batch=,max_length=`."""
    if is_precomputed(spec.model):
        raise UsageError(f"{spec}: chunks have to be embedded, and a folder of embeddings cannot. Name the model.")
    own: dict[str, Option] = {"depth": (positive, 50), "chunk": (positive, 256), "overlap": (positive, None)}
    own["aggregate"] = (aggregate, aggregate("top3_avg"))
    embedder, options = from_spec(spec, context, False, **own, **TEXT)
    text, size = context.text(options, relations=True, usual="compact"), options["chunk"]
    overlap = options["overlap"] or size // 5

    def chunks(rows: NDArray[np.int64]) -> list[list[str]]:
        return [recursive_chunks(each, size, overlap) or [""] for each in context.texts(text, rows)]

    settings = embedder.settings | {"text": str(text), "recursive_chunks": [size, overlap], "nodes": context.nodes}
    vectors = ChunkVectors(chunks, embedder, folder_of(context.cache, **settings), context.processes)
    first = Dense(embed_nodes(context, embedder, text), embedder, processes=context.processes)
    return MultiVSS(first, vectors, embedder, options["aggregate"], options["depth"])


def aggregate(name: str) -> Aggregate:
    """Return the aggregate of the scores of a node's chunks: `max`, `avg`, or `topk_avg`, the mean of the k best.

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
    """The vectors of the chunks of single nodes, encoded on first use and kept in a file for each node.

    The chunks of a node are encoded together and with no others, so that its vectors do not depend on the queries.
    """

    chunks: Callable[[NDArray[np.int64]], list[list[str]]]
    """Places of nodes -> the chunks of each."""
    embedder: TextEmbedder
    folder: Path
    processes: ProcessGroup = field(default_factory=ProcessGroup)

    def load(self, nodes: NDArray[np.int64]) -> list[Vectors]:
        """Return the vectors of each node's chunks, shape (chunks, d)."""
        self.folder.mkdir(parents=True, exist_ok=True)
        missing = np.array([node for node in nodes.tolist() if not self._file(node).is_file()], np.int64)
        self.processes.gather(None)  # all processes list the missing files before one is written
        own = missing[self.processes.rank :: self.processes.size]
        for node, texts in zip(own.tolist(), self.chunks(own) if len(own) else [], strict=True):
            with whole_file(self._file(node)) as out:
                np.save(out, self.embedder.encode(texts))
        self.processes.gather(None)
        return [np.load(self._file(node)) for node in nodes.tolist()]

    def _file(self, node: int) -> Path:
        return self.folder / f"{node}.npy"


@dataclass(frozen=True)
class MultiVSS:
    """Ranks the first `depth` nodes of another retriever by the aggregated scores of their chunks, and no others.

    Differs from upstream: the query is embedded by the same model as the chunks (there always by ada-002).
    """

    first: Retriever
    vectors: ChunkVectors
    embedder: TextEmbedder
    aggregate: Aggregate
    depth: int = 50

    def search(self, queries: Sequence[str], top_k: int) -> Ranking:
        """Return the `top_k` best nodes of every query, at most `depth`; equal scores in the order of the rows."""
        ranking = [np.sort(row[row >= 0]) for row in self.first.search(queries, self.depth).ids]
        nodes = np.unique(np.concatenate(ranking)) if ranking else np.zeros(0, np.int64)
        chunks = dict(zip(nodes.tolist(), self.vectors.load(nodes), strict=True))
        rows = []
        for query, ids in zip(self.embedder.encode_queries(queries), ranking, strict=True):
            scores = np.array([self.aggregate(chunks[node] @ query) for node in ids.tolist()])
            order = best(scores, top_k)
            rows.append((ids[order], scores[order]))
        return pad(rows, top_k)


SEPARATORS = ("\n\n", "\n", " ", "")
"""The defaults of LangChain's RecursiveCharacterTextSplitter, which upstream uses."""


def recursive_chunks(text: str, size: int, overlap: int, separators: Sequence[str] = SEPARATORS) -> list[str]:
    """Return chunks of at most `size` characters, each repeating at most `overlap` of the one before.

    The text is cut before each of the first separator that it holds; what is still too long is cut by the next ones,
    the last of which cuts between any two characters. Chunks lose their outer white space; an empty one is left out,
    so that an empty text has none.

    >>> recursive_chunks("one two three four", 9, 4)
    ['one two', 'three', 'four']
    """
    position, separator = next((i, each) for i, each in enumerate(separators) if each in text)
    first, *others = text.split(separator) if separator else ["", *text]
    finer = separators[position + 1 :]
    chunks: list[str] = []
    short: list[str] = []
    for piece in filter(None, [first, *(separator + each for each in others)]):
        if len(piece) < size:
            short.append(piece)
            continue
        chunks += filter(None, _merge_pieces(short, size, overlap))
        chunks += recursive_chunks(piece, size, overlap, finer) if finer else [piece]
        short = []
    return [*chunks, *filter(None, _merge_pieces(short, size, overlap))]


def _merge_pieces(pieces: Iterable[str], size: int, overlap: int) -> Iterator[str]:
    """Yield runs of pieces of at most `size` characters; the next begins with those that fit into the overlap."""
    run, length = deque[str](), 0
    for piece in pieces:
        if run and length + len(piece) > size:
            yield "".join(run).strip()
            while length > overlap or (length and length + len(piece) > size):
                length -= len(run.popleft())
        run.append(piece)
        length += len(piece)
    yield "".join(run).strip()


CANDIDATES, QUESTIONS = "candidate_emb_dict.pt", "query_emb_dict.pt"
_SHOWN = 10
"""Ids or sizes that a message lists."""


def is_precomputed(folder: str) -> bool:
    """Return whether a model's name is a folder of embeddings."""
    return bool(folder) and any(Path(folder).glob(f"doc*/{CANDIDATES}"))


def precomputed(spec: Spec, context: RetrieverContext) -> Dense:
    """Build a search in the vectors of a folder; `documents` is the part of it that holds those of nodes (`doc`).

    Raises:
        DataError: a node or a question has no vector, or a file is none of these.
    """
    options = spec.read(documents=(str, "doc"))
    folder = Path(spec.model)
    file = folder / options["documents"] / CANDIDATES
    if not file.is_file():
        there = ", ".join(sorted(each.parent.name for each in folder.glob(f"doc*/{CANDIDATES}")))
        raise UsageError(f"There is no {file}; {folder} has the documents {there}. Choose with documents=.")
    digest = file_sha256(file)
    context.revisions[spec.model] = f"{file.name}@{digest[:40]}"
    queries = PrecomputedQueries(folder, {question.text: question for question in context.questions})
    ids = context.kb.ids(context.candidates)
    whole = folder_of(context.cache, embeddings=digest, nodes=context.nodes) / "vectors.npy"
    if not all(context.processes.gather(whole.is_file())):
        if context.processes.rank == 0:
            whole.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(whole) as out:
                np.save(out, _vectors_of(read_vectors(file), ids, file, "nodes"))
        context.processes.gather(None)  # the file is there when it is read
    return Dense(np.asarray(np.load(whole, mmap_mode="c")), queries, processes=context.processes)


@dataclass(frozen=True)
class PrecomputedQueries:
    """Query embedder that looks up the vectors of a benchmark's own queries by their text."""

    folder: Path
    questions: Mapping[str, RunQuery]
    """The text of a query -> its id and split."""

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """Return one vector per query.

        Raises:
            UsageError: a text is no query of the benchmark.
            DataError: a query has no vector.
        """
        if strangers := [text for text in texts if text not in self.questions]:
            raise UsageError(
                f"{strangers[0][:80]!r} is not a question of the benchmark; only these have vectors in files."
            )
        rows = []
        for query in (self.questions[text] for text in texts):
            file = self._file(query.split)
            rows.append(_vectors_of(_read_cached(file, file.stat().st_mtime_ns), [query.id], file, "questions"))
        return np.concatenate(rows) if rows else np.zeros((0, 1), np.float32)

    def _file(self, split: str) -> Path:
        """Return the file of a split's queries; the splits of the written queries have one in common."""
        if split.startswith(WRITTEN):
            return self.folder / "query" / QUESTIONS
        own = sorted(self.folder.glob(f"query_{split}*/{QUESTIONS}"))
        if len(own) != 1:
            raise DataError(
                f"{self.folder} has {len(own)} files query_{split}*/{QUESTIONS}; expected one, with the vectors of the "
                f"questions of split {split!r}. Add it, or run another split."
            )
        return own[0]


@cache
def _read_cached(file: Path, changed: int) -> Mapping[object, Vectors]:
    """Return the vectors of a file, read once for each time that it `changed`."""
    return read_vectors(file)


def read_vectors(file: Path) -> dict[object, Vectors]:
    """Return the vectors in a file by id; a file of anything but tensors is refused.

    Raises:
        DataError: the file is absent, damaged, or holds something else.
    """
    import torch

    expected = "Expected a dictionary of ids and tensors of shape (1, d), as torch.save writes it."
    try:
        stored = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except (OSError, RuntimeError, ValueError, EOFError, pickle.UnpicklingError) as error:
        raise DataError(f"{file} cannot be read: {first_line(error)} {expected}") from error
    if not isinstance(stored, dict) or not all(isinstance(each, torch.Tensor) for each in stored.values()):
        raise DataError(f"{file} holds no vectors. {expected}")
    return {key: each.float().flatten().numpy() for key, each in stored.items()}


def _vectors_of(vectors: Mapping[object, Vectors], ids: Sequence[str | int], file: Path, what: str) -> Vectors:
    """Return the vectors of these ids, in their order, shape (n, d)."""
    absent = [each for each in ids if each not in vectors]
    if absent:
        raise DataError(
            f"{file} has no vector for {len(absent):,} of {len(ids):,} {what}: {', '.join(map(str, absent[:_SHOWN]))}. "
            "Expected one each. Were they made from another copy of the data?"
        )
    sizes = {len(vectors[each]) for each in ids}
    if len(sizes) > 1:
        raise DataError(f"{file} has vectors of {sorted(sizes)[:_SHOWN]} numbers; expected all of one length.")
    result = np.empty((len(ids), *sizes), np.float32)
    for row, each in zip(result, ids, strict=True):
        row[:] = vectors[each]
    return result
