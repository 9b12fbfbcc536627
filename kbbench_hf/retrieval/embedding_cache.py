"""Cache of embeddings, encoded once per model revision and text, in blocks, by any number of processes."""

import hashlib
import json
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.files.writing import whole_file
from kbbench_hf.protocols import Embedder, ProcessGroup
from kbbench_hf.retrieval.context import Progress, RetrieverContext
from kbbench_hf.retrieval.node_texts import Text
from kbbench_hf.retrieval.top_k import Vectors

BLOCK_TEXTS = 512
"""Texts encoded and saved at a time; an interruption costs at most one block."""


def folder_of(cache: Path, **made_of: object) -> Path:
    """Return the cache folder of vectors with these settings, made by this version of the package."""
    described = json.dumps({**made_of, "version": version("kbbench-hf")}, sort_keys=True)
    return cache / hashlib.sha256(described.encode()).hexdigest()[:24]


def embed_nodes(context: RetrieverContext, embedder: Any, text: Text) -> Vectors:
    """Return the vectors of the candidates' texts, shape (candidates, dimension); `embedder` has `settings`."""
    folder = folder_of(context.cache, **embedder.settings, text=str(text), nodes=context.nodes)
    return embed(lambda: context.texts(text), embedder, folder, context.processes, context.progress)


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
    """Make `whole` where it is missing: all processes encode blocks of texts, and the first process joins them.

    Blocks in `folder` are not encoded again. Texts of similar length are encoded together (padding would cost twice the
    work), in blocks that depend on the texts alone. So the vectors are the same bytes for any number of processes and
    interruptions.

    Args:
        render: gives the texts.
        folder: where blocks are until they are joined.
        whole: the file that `join` writes last.
        save: encodes texts into a file.
        join: writes `whole` from the places of the texts of each block and its file.
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
    processes.gather(None)  # no block is missing when they are joined
    if processes.rank == 0 and not whole.is_file():
        join(blocks, files)
        for file in files:
            file.unlink(missing_ok=True)
    processes.gather(None)  # the whole is there when it is read
