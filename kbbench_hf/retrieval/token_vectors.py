"""The vectors of all tokens of many texts, 8 bits for a number: what late interaction keeps of a knowledge base."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.files.writing import whole_file
from kbbench_hf.protocols import ProcessGroup
from kbbench_hf.retrieval.context import Progress
from kbbench_hf.retrieval.embedding_cache import in_blocks

STEP = 1 / 127
"""Tokens have vectors of length 1: no number of one leaves [-1, 1]."""


class TokenEncoder(Protocol):
    """What makes a vector of each token."""

    def encode(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """Return the vectors of each text's tokens, each of length 1, shape (tokens, d)."""
        ...


class TokenVectors(NamedTuple):
    """The tokens of n texts: a number of a vector is its code times `STEP`."""

    codes: NDArray[np.int8]
    """Shape (tokens, d)."""
    offsets: NDArray[np.int64]
    """Where each text's tokens begin, and where the last one's end: shape (n + 1,)."""

    def __len__(self) -> int:
        """Return how many texts there are."""
        return len(self.offsets) - 1

    @classmethod
    def of(cls, vectors: Sequence[NDArray[np.float32]]) -> Self:
        """Return the vectors of texts as they are kept.

        >>> kept = TokenVectors.of([np.array([[1.0, -0.5]]), np.array([[0.0, 1.0], [0.6, 0.8]])])
        >>> kept.codes.tolist(), kept.offsets.tolist()
        ([[127, -64], [0, 127], [76, 102]], [0, 1, 3])
        """
        offsets = np.cumsum([0, *map(len, vectors)])
        return cls(np.rint(np.concatenate(vectors) / STEP).clip(-127, 127).astype(np.int8), offsets)

    @classmethod
    def joined(cls, parts: Sequence["TokenVectors"]) -> Self:
        """Return the texts of several parts one after the other."""
        lengths = np.concatenate([np.diff(part.offsets) for part in parts])
        return cls(np.concatenate([part.codes for part in parts]), np.cumsum([0, *lengths.tolist()]))

    def floats(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return the vectors of the tokens of the texts from `start` to `stop`."""
        return self.codes[self.offsets[start] : self.offsets[stop]].astype(np.float32) * np.float32(STEP)


def embed_tokens(
    render: Callable[[], Sequence[str]],
    encoder: TokenEncoder,
    folder: Path,
    processes: ProcessGroup,
    progress: Progress,
) -> TokenVectors:
    """Return the token vectors of the texts that `render` gives, memory-mapped; cached as `embeddings.embed` does."""

    def save(file: Path, texts: Sequence[str]) -> None:
        kept = TokenVectors.of(encoder.encode(texts))
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
