"""A node as text: STaRK's three official renderings, byte for byte, and a clean one of our own.

The official ones are what the published figures were measured on: BM25 read documents without relations, the vector
models and rerankers read them with relations. They reproduce `get_doc_info` of snap-stanford/stark (MIT, at b246b94),
quirks included; each module states where it differs. The clean rendering drops no text.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.knowledge_base.documents import amazon, clean, mag, prime
from kbbench_hf.knowledge_base.documents.compact import compact_text as compact_text
from kbbench_hf.knowledge_base.documents.pieces import Pool
from kbbench_hf.knowledge_base.documents.rendering import Sample
from kbbench_hf.knowledge_base.store import KnowledgeBase

RENDERINGS = {
    "clean": clean.RENDERING,
    "prime": prime.RENDERING,
    "mag": mag.RENDERING,
    "amazon": amazon.RENDERING,
}


BLOCK = 8192
"""Documents laid out at a time: few enough for the arrays of their edges to stay in the processor's cache."""


def render(
    kb: KnowledgeBase,
    rendering: str = "clean",
    rows: ArrayLike | None = None,
    *,
    relations: bool = True,
    compact: bool = False,
    n_rel: int = -1,
    seed: int = 0,
) -> pa.ChunkedArray:
    """Return one document per row (of all rows where None), in their order.

    Where `n_rel` is positive, at most so many neighbours of each kind are named, drawn by `seed`; a node's document is
    the same alone and among others. `compact` puts each document on one line.

    Differs from upstream: the sample of `n_rel` is seeded; there it was drawn with an unseeded `torch.randperm`.

    Raises:
        UsageError: an unknown rendering, or `n_rel` is 0 or below -1.
        DataError: a node's `details` are not a record of the knowledge base that the rendering is named after.

    >>> nodes = pa.table({"id": [0, 1], "type": ["drug", "disease"], "name": ["Aspirin", "Pain"],
    ...                   "text": ["A pill.", ""]})
    >>> edges = pa.table({"head": [0], "relation": ["indication"], "tail": [1]})
    >>> print(render(KnowledgeBase.from_arrow(nodes, edges), "clean", [0])[0])
    Aspirin
    type: drug
    A pill.
    indication: Pain
    """
    return pa.chunked_array(
        list(render_blocks(kb, rendering, rows, relations=relations, compact=compact, n_rel=n_rel, seed=seed)),
        pa.large_string(),
    )


def render_blocks(
    kb: KnowledgeBase,
    rendering: str = "clean",
    rows: ArrayLike | None = None,
    *,
    relations: bool = True,
    compact: bool = False,
    n_rel: int = -1,
    seed: int = 0,
) -> Iterator[pa.LargeStringArray]:
    """Yield the documents of `render` a few thousand at a time, for texts that are larger than memory."""
    if rendering not in RENDERINGS:
        raise unknown_name("rendering", rendering, RENDERINGS)
    if n_rel == 0 or n_rel < -1:
        raise UsageError(f"n_rel = {n_rel}; expected a positive number of neighbours, or -1 for all.")
    way, chosen = RENDERINGS[rendering], np.arange(len(kb)) if rows is None else kb.graph.checked(rows)
    whole = 4 * len(chosen) >= len(kb)
    pool = Pool(whole)
    for start in range(0, len(chosen), BLOCK):
        block = chosen[start : start + BLOCK]
        documents = pa.array(way.bodies(kb, block), pa.large_string())
        if relations:
            pool = pool if whole else Pool()
            layout = way.relations(kb, block, pool, Sample(n_rel, seed))
            documents = layout.begin(pool.size + np.arange(len(block))).texts(pool, documents)
        if compact:
            documents = pa.array([way.compact(text) for text in documents.to_pylist()], pa.large_string())
        yield documents
