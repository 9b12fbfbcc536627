"""Late interaction retriever (ColBERT): a vector per token, scored by the sum of maximal inner products.

Source: Khattab and Zaharia, SIGIR 2020. Differs from upstream: all nodes are scored exactly, or the candidates of a
first stage; nothing is pruned.

`retrieval.retrievers` builds it as `late`; training scores its models in training with it. Vectors are stored in 8 bits
with step `STEP`, in a cache that later runs read.
"""

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.errors import UsageError, missing_extra
from kbbench_hf.files.writing import whole_file
from kbbench_hf.model_specs import Spec, positive
from kbbench_hf.protocols import ProcessGroup, Ranking, Retriever, matched
from kbbench_hf.retrieval.context import TEXT, Progress, RetrieverContext
from kbbench_hf.retrieval.embedders import SentenceEmbedder, folder_of, from_spec, in_blocks, unloadable
from kbbench_hf.retrieval.top_k import best, best_of_rows, in_parts, pad

BLOCK_TOKENS = 16_384
"""Tokens of nodes multiplied at a time."""
STEP = 1 / 127
"""Codes of 8 bits are multiples of this: vectors have length 1, so that their numbers are in [-1, 1]."""
CANDIDATES = 200
"""The default number of a first stage's candidates."""
LATE_MODELS = ("MultiVectorEncoder", "ColBERT")
"""Model types of late interaction; other models give the vectors of tokens without a projection."""


def build(spec: Spec, context: RetrieverContext) -> "LateInteraction":
    """Build `late:<model>@text=,relations=,batch=,max_length=`, exact, or `late:<model>(<first>)@candidates=200`."""
    if len(spec.parts) > 1:
        raise UsageError(f"{str(spec)!r} has {len(spec.parts)} first stages; expected one, or none for all nodes.")
    if "candidates" in spec.options and not spec.parts:
        raise UsageError(f"{str(spec)!r} has no first stage to find candidates; write {spec.name}:MODEL(bm25).")
    encoder, options = from_spec(spec, context, True, TokenEmbedder, candidates=(positive, CANDIDATES), **TEXT)
    text = context.text(options, relations=True)
    folder = folder_of(context.cache, **encoder.settings, text=str(text), nodes=context.nodes)
    tokens = embed_tokens(lambda: context.texts(text), encoder, folder, context.processes, context.progress)
    first = context.part(spec.parts[0]) if spec.parts else None
    return LateInteraction(tokens, encoder, context.candidates, first, options["candidates"], context.processes)


class TokenEmbedder(SentenceEmbedder):
    """A late-interaction model of sentence-transformers, or another model's token vectors, normalized.

    The vectors of a text, or of a query, are those of its tokens, shape (tokens, d).
    """

    kind = "tokens"

    def _load(self, model: str) -> Any:
        return load(model)

    def _encode(self, encode: Callable[..., Any], texts: Sequence[str]) -> Any:
        options = {"batch_size": self._batch, "convert_to_numpy": True, "normalize_embeddings": True}
        return encode(list(texts), show_progress_bar=False, **options)


def load(model: str) -> Any:
    """Return a model for late interaction; another kind of model without a projection.

    sentence-transformers itself would add a projection of random weights.

    Raises:
        UsageError: it cannot be loaded.
    """
    try:
        from sentence_transformers import MultiVectorEncoder
        from sentence_transformers.base.modules import Normalize, Transformer
        from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
    except ImportError:
        raise missing_extra("sentence-transformers", "models") from None
    try:
        if _is_late(model):
            return MultiVectorEncoder(model)
        return MultiVectorEncoder(modules=[Transformer(model), MultiVectorMask(), Normalize("token_embeddings")])
    except (OSError, ValueError) as error:
        raise unloadable(model, error) from error


def _is_late(model: str) -> bool:
    from transformers.utils import cached_file

    quiet = {"_raise_exceptions_for_missing_entries": False, "_raise_exceptions_for_connection_errors": False}
    if cached_file(model, "artifact.metadata", **quiet):  # format of the authors' own code
        return True
    file = cached_file(model, "config_sentence_transformers.json", **quiet)
    return file is not None and json.loads(Path(file).read_text("utf-8")).get("model_type") in LATE_MODELS


class TokenVectors(NamedTuple):
    """The token vectors of n texts in 8 bits: a number is its code times `STEP`."""

    codes: NDArray[np.int8]
    """Shape (tokens, d)."""
    offsets: NDArray[np.int64]
    """The first token of each text, and the end of the last: shape (n + 1,)."""

    def __len__(self) -> int:
        """Return how many texts there are."""
        return len(self.offsets) - 1

    @classmethod
    def quantize(cls, vectors: Sequence[NDArray[np.float32]]) -> Self:
        """Return the codes of vectors.

        >>> kept = TokenVectors.quantize([np.array([[1.0, -0.5]]), np.array([[0.0, 1.0], [0.6, 0.8]])])
        >>> kept.codes.tolist(), kept.offsets.tolist()
        ([[127, -64], [0, 127], [76, 102]], [0, 1, 3])
        """
        offsets = np.cumsum([0, *map(len, vectors)])
        return cls(np.rint(np.concatenate(vectors) / STEP).clip(-127, 127).astype(np.int8), offsets)

    @classmethod
    def concatenate(cls, parts: Sequence["TokenVectors"]) -> Self:
        """Return the texts of several parts as one, in their order."""
        lengths = np.concatenate([np.diff(part.offsets) for part in parts])
        return cls(np.concatenate([part.codes for part in parts]), np.cumsum([0, *lengths.tolist()]))

    def floats(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return the vectors of the tokens of the texts from `start` to before `stop`, shape (tokens, d)."""
        return self.codes[self.offsets[start] : self.offsets[stop]].astype(np.float32) * np.float32(STEP)


def embed_tokens(
    render: Callable[[], Sequence[str]],
    encoder: Any,
    folder: Path,
    processes: ProcessGroup,
    progress: Progress,
) -> TokenVectors:
    """Return the token vectors of the texts that `render` gives, memory-mapped; cached as by `embed`."""

    def save(file: Path, texts: Sequence[str]) -> None:
        kept = TokenVectors.quantize(encoder.encode(texts))
        with whole_file(file) as out:
            np.savez(out, codes=kept.codes, offsets=kept.offsets)

    whole, ends = folder / "tokens.npy", folder / "offsets.npy"

    def join(blocks: Sequence[NDArray[np.int64]], files: Sequence[Path]) -> None:
        lengths = np.zeros(sum(len(rows) for rows in blocks), np.int64)
        for rows, file in zip(blocks, files, strict=True):
            with np.load(file) as block:
                lengths[rows] = np.diff(block["offsets"])
                width = block["codes"].shape[1]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        with whole_file(ends) as out:
            np.save(out, offsets)
        with whole_file(whole) as out:
            codes = np.lib.format.open_memmap(out.name, "w+", np.int8, (int(offsets[-1]), width))
            for rows, file in zip(blocks, files, strict=True):
                with np.load(file) as block:
                    parts = np.split(block["codes"], block["offsets"][1:-1])
                for row, part in zip(rows.tolist(), parts, strict=True):
                    codes[offsets[row] : offsets[row + 1]] = part
            codes.flush()
            del codes  # Windows renames no file that is mapped

    in_blocks(render, folder, whole, save, join, processes, progress)
    return TokenVectors(np.load(whole, mmap_mode="c"), np.load(ends))


class LateInteraction:
    """Ranks nodes by the sum, over the tokens of the query, of the best inner product with a token of the node.

    Args:
        tokens: those of the candidates, in the order of their rows.
        encoder: encodes the tokens of queries.
        rows: the rows of the candidates where a first stage returns rows; all where None.
        first: finds candidates; every node is one where None.
        n_candidates: how many it finds.
        processes: the group of processes; each searches its shard of an exact search.
    """

    def __init__(
        self,
        tokens: TokenVectors,
        encoder: Any,
        rows: NDArray[np.int64] | None = None,
        first: Retriever | None = None,
        n_candidates: int = 0,
        processes: ProcessGroup | None = None,
    ) -> None:
        self.tokens, self._encoder, self._rows = tokens, encoder, rows
        self._first, self._n, self._processes = first, n_candidates, processes or ProcessGroup()

    def search(self, queries: Sequence[str], top_k: int) -> Ranking:
        """Return the `top_k` best nodes of every query; of a first stage's candidates no more than it found."""
        vectors = self._encoder.encode_queries(queries)
        if self._first is not None:
            return self._rerank(self._first.search(queries, self._n), vectors, top_k)
        return self.rank(vectors, top_k)

    def matched(self, queries: Sequence[str]) -> NDArray[np.bool_]:
        """Return whether the first stage matches each query; all where there is none."""
        return matched(self._first, queries)

    def rank(self, queries: Sequence[NDArray[np.float32]], top_k: int) -> Ranking:
        """Return the `top_k` best of all nodes for every query, given the vectors of its tokens."""
        return in_parts(self._blocks(), lambda own: self._scan(queries, own, top_k), top_k, self._processes)

    def _blocks(self) -> list[slice]:
        """Return parts of the nodes, of about as many tokens each."""
        offsets = self.tokens.offsets
        cuts = np.searchsorted(offsets, np.arange(0, offsets[-1], BLOCK_TOKENS))
        ends = np.unique([*cuts.tolist(), len(self.tokens)])
        return [slice(start, stop) for start, stop in pairwise(ends.tolist())]

    def _scan(self, queries: Sequence[NDArray[np.float32]], blocks: Sequence[slice], top_k: int) -> Ranking:
        result = np.hstack([np.zeros((len(queries), 0)), *(self._scores(queries, block) for block in blocks)])
        return best_of_rows(result, top_k, blocks[0].start if blocks else 0)

    def _scores(self, queries: Sequence[NDArray[np.float32]], block: slice) -> NDArray[np.float64]:
        """Return what each node of a block scores for each query, shape (queries, nodes)."""
        import torch

        documents = torch.from_numpy(self.tokens.floats(block.start, block.stop))
        near = (documents @ torch.from_numpy(np.concatenate(queries)).T).numpy()
        nodes = self.tokens.offsets[block.start : block.stop] - self.tokens.offsets[block.start]
        starts = np.cumsum([0, *map(len, queries[:-1])])
        return np.add.reduceat(np.maximum.reduceat(near, nodes, axis=0), starts, axis=1, dtype=np.float64).T

    def _rerank(self, ranking: Ranking, queries: Sequence[NDArray[np.float32]], top_k: int) -> Ranking:
        rows = []
        for query, ids in zip(queries, ranking.ids, strict=True):
            nodes = np.sort(ids[ids >= 0])
            places = nodes if self._rows is None else np.searchsorted(self._rows, nodes)
            near = [(query @ self.tokens.floats(position, position + 1).T).max(axis=1) for position in places.tolist()]
            values = np.array([each.sum(dtype=np.float64) for each in near])
            order = best(values, top_k)
            rows.append((nodes[order], values[order]))
        return pad(rows, top_k)
