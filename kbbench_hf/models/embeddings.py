"""The cache of embeddings: encoded once per model revision and text, block by block, by any number of processes."""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from kbbench_hf import __version__
from kbbench_hf.models.exact_search import Share, Vectors
from kbbench_hf.protocols import Embedder

BLOCK_TEXTS = 512
"""Texts that are encoded and saved at a time: what an interruption can cost."""


def folder_of(cache: Path, **made_of: Any) -> Path:
    """Return the folder for vectors made of these settings by this version; others get another folder."""
    described = json.dumps({**made_of, "version": __version__}, sort_keys=True)
    return cache / hashlib.sha256(described.encode()).hexdigest()[:24]


def embed(
    render: Callable[[], Sequence[str]],
    embedder: Embedder,
    folder: Path,
    share: Share,
    progress: Callable[..., AbstractContextManager[Any]],
) -> Vectors:
    """Return the vectors of the texts that `render` gives, memory-mapped, shape (n, dimension).

    What `folder` holds is not encoded again; where it holds all, nothing is rendered either. Texts of like length are
    encoded together (padding would cost twice the work), in blocks that depend on the texts alone. So the vectors are
    the same bytes however many processes made them and however often they were stopped.
    """
    whole = folder / "vectors.npy"
    if not all(share.gather(whole.is_file())):
        texts = render()
        folder.mkdir(parents=True, exist_ok=True)
        order = np.argsort([-len(text) for text in texts], kind="stable")
        blocks = np.split(order, range(BLOCK_TEXTS, len(order), BLOCK_TEXTS))
        _encode_own(texts, embedder, folder, blocks, share, progress)
        share.gather(None)  # nobody joins the blocks before all are there
        if share.rank == 0 and not whole.is_file():
            _join(folder, blocks, whole)
        share.gather(None)  # nobody reads the whole before it is there
    return np.asarray(np.load(whole, mmap_mode="c"))


def _encode_own(
    texts: Sequence[str],
    embedder: Embedder,
    folder: Path,
    blocks: Sequence[Any],
    share: Share,
    progress: Callable[..., AbstractContextManager[Any]],
) -> None:
    own = range(share.rank, len(blocks), share.size)
    missing = [block for block in own if not _block(folder, block).is_file()]
    sizes = [len(blocks[block]) for block in own]
    done = sum(sizes) - sum(len(blocks[block]) for block in missing)
    with progress("Encode", sum(sizes), done=done) as advance:
        for block in missing:
            _save(_block(folder, block), embedder.encode([texts[row] for row in blocks[block]]))
            advance(len(blocks[block]))


def _join(folder: Path, blocks: Sequence[Any], whole: Path) -> None:
    if not blocks[0].size:
        return _save(whole, np.load(_block(folder, 0)))
    first = np.load(_block(folder, 0), mmap_mode="r")
    partial = whole.with_suffix(f".{os.getpid()}.partial")
    vectors = np.lib.format.open_memmap(partial, "w+", np.float32, (sum(len(rows) for rows in blocks), first.shape[1]))
    for block, rows in enumerate(blocks):
        vectors[rows] = np.load(_block(folder, block))
    vectors.flush()
    partial.replace(whole)
    for block in range(len(blocks)):
        _block(folder, block).unlink()
    return None


def _block(folder: Path, block: int) -> Path:
    return folder / f"block-{block:06d}.npy"


def _save(file: Path, vectors: Vectors) -> None:
    partial = file.with_suffix(f".{os.getpid()}.partial")
    with partial.open("wb") as out:
        np.save(out, vectors)
        out.flush()
        os.fsync(out.fileno())
    partial.replace(file)
