"""The cache of embeddings: encoded once per model revision and text, block by block, by any number of processes."""

import hashlib
import json
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.files.writing import whole_file
from kbbench_hf.models.exact_search import Vectors
from kbbench_hf.models.workplace import Progress, Share
from kbbench_hf.protocols import Embedder

BLOCK_TEXTS = 512
"""Texts that are encoded and saved at a time: what an interruption can cost."""


def folder_of(cache: Path, **made_of: object) -> Path:
    """Return the folder for vectors made of these settings by this version; others get another folder."""
    described = json.dumps({**made_of, "version": version("kbbench-hf")}, sort_keys=True)
    return cache / hashlib.sha256(described.encode()).hexdigest()[:24]


def embed(
    render: Callable[[], Sequence[str]], embedder: Embedder, folder: Path, share: Share, progress: Progress
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
        own = range(share.rank, len(blocks), share.size)
        missing = [block for block in own if not _block(folder, block).is_file()]
        total, left = (sum(len(blocks[block]) for block in each) for each in (own, missing))
        with progress("Encode", total, done=total - left) as advance:
            for block in missing:
                _save(_block(folder, block), embedder.encode([texts[row] for row in blocks[block]]))
                advance(len(blocks[block]))
        share.gather(None)  # nobody joins the blocks before all are there
        if share.rank == 0 and not whole.is_file():
            _join(folder, blocks, whole)
        share.gather(None)  # nobody reads the whole before it is there
    return np.asarray(np.load(whole, mmap_mode="c"))


def _join(folder: Path, blocks: Sequence[NDArray[np.int64]], whole: Path) -> None:
    if not blocks[0].size:
        return _save(whole, np.load(_block(folder, 0)))
    shape = (sum(len(rows) for rows in blocks), np.load(_block(folder, 0)).shape[1])
    with whole_file(whole) as out:
        vectors = np.lib.format.open_memmap(out.name, "w+", np.float32, shape)
        for block, rows in enumerate(blocks):
            vectors[rows] = np.load(_block(folder, block))
        vectors.flush()
        del vectors  # Windows renames no file that is mapped
    for block in range(len(blocks)):
        _block(folder, block).unlink()
    return None


def _block(folder: Path, block: int) -> Path:
    return folder / f"block-{block:06d}.npy"


def _save(file: Path, vectors: Vectors) -> None:
    with whole_file(file) as out:
        np.save(out, vectors)
