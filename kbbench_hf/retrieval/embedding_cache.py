"""The cache of embeddings: encoded once per model revision and text, block by block, by any number of processes."""

import hashlib
import json
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.files.writing import whole_file
from kbbench_hf.protocols import Embedder, ProcessGroup
from kbbench_hf.retrieval.context import Progress
from kbbench_hf.retrieval.exact_search import Vectors

BLOCK_TEXTS = 512
"""Texts that are encoded and saved at a time: what an interruption can cost."""


def folder_of(cache: Path, **made_of: object) -> Path:
    """Return the folder for vectors made of these settings by this version; others get another folder."""
    described = json.dumps({**made_of, "version": version("kbbench-hf")}, sort_keys=True)
    return cache / hashlib.sha256(described.encode()).hexdigest()[:24]


def embed(
    render: Callable[[], Sequence[str]], embedder: Embedder, folder: Path, processes: ProcessGroup, progress: Progress
) -> Vectors:
    """Return the vectors of the texts that `render` gives, memory-mapped, shape (n, dimension); see `in_blocks`."""
    whole = folder / "vectors.npy"

    def save(file: Path, texts: Sequence[str]) -> None:
        with whole_file(file) as out:
            np.save(out, embedder.encode(texts))

    def join(blocks: Sequence[NDArray[np.int64]], files: Sequence[Path]) -> None:
        first = np.load(files[0])
        if not len(first):  # no texts: nothing can be mapped
            return save(whole, [])
        shape = (sum(len(rows) for rows in blocks), first.shape[1])
        with whole_file(whole) as out:
            vectors = np.lib.format.open_memmap(out.name, "w+", np.float32, shape)
            for rows, file in zip(blocks, files, strict=True):
                vectors[rows] = np.load(file)
            vectors.flush()
            del vectors  # Windows renames no file that is mapped
        return None

    in_blocks(render, folder, whole, save, join, processes, progress)
    return np.asarray(np.load(whole, mmap_mode="c"))


def in_blocks(
    render: Callable[[], Sequence[str]],
    folder: Path,
    whole: Path,
    save: Callable[[Path, Sequence[str]], None],
    join: Callable[[Sequence[NDArray[np.int64]], Sequence[Path]], None],
    processes: ProcessGroup,
    progress: Progress,
) -> None:
    """See that `whole` is there: texts encoded block by block, by all processes together, and joined by the first.

    What `folder` holds is not encoded again; where it holds all, nothing is rendered either. Texts of like length are
    encoded together (padding would cost twice the work), in blocks that depend on the texts alone. So the vectors are
    the same bytes however many processes made them and however often they were stopped.

    Args:
        render: gives the texts.
        folder: holds the blocks until they are joined.
        whole: what `join` writes last.
        save: encodes texts into a file.
        join: writes `whole` from the places of each block's texts, and the files.
        processes: the group of processes; each searches its shard.
        progress: opens the bar.
    """
    if all(processes.gather(whole.is_file())):
        return
    texts = render()
    folder.mkdir(parents=True, exist_ok=True)
    order = np.argsort([-len(text) for text in texts], kind="stable")
    blocks = np.split(order, range(BLOCK_TEXTS, len(order), BLOCK_TEXTS))
    files = [folder / f"block-{number:06d}{whole.suffix}" for number in range(len(blocks))]
    own = range(processes.rank, len(blocks), processes.size)
    missing = [block for block in own if not files[block].is_file()]
    total, left = (sum(len(blocks[block]) for block in each) for each in (own, missing))
    with progress("Encoding texts", total, done=total - left) as advance:
        for block in missing:
            save(files[block], [texts[row] for row in blocks[block]])
            advance(len(blocks[block]))
    processes.gather(None)  # nobody joins the blocks before all are there
    if processes.rank == 0 and not whole.is_file():
        join(blocks, files)
        for file in files:
            file.unlink(missing_ok=True)
    processes.gather(None)  # nobody reads the whole before it is there
