"""Documents of nodes: `render`, and the default rendering `clean`; benchmarks have others, of published scores."""

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from kbbench_hf.errors import UsageError
from kbbench_hf.knowledge_base.documents.rendering import RENDERING, PiecePool, Sample
from kbbench_hf.knowledge_base.documents.rendering import Rendering as Rendering
from kbbench_hf.knowledge_base.documents.rendering import compact_text as compact_text
from kbbench_hf.knowledge_base.store import KnowledgeBase

CLEAN: Rendering = RENDERING
BLOCK = 16_384
"""Documents laid out at a time: few enough for the arrays of their edges to stay in the processor's cache."""


def render(
    kb: KnowledgeBase,
    rendering: Rendering = CLEAN,
    rows: ArrayLike | None = None,
    *,
    relations: bool = True,
    compact: bool = False,
    n_rel: int = -1,
    seed: int = 0,
) -> pa.ChunkedArray:
    """Return one document per row (of all rows where None), in their order.

    Where `n_rel` is positive, at most so many neighbors of each kind are named, sampled by `seed`; a document is
    the same alone and among others. `compact` puts each document on one line.

    Differs from upstream: the sample of `n_rel` is seeded; the official code draws with an unseeded `torch.randperm`.

    Raises:
        UsageError: `n_rel` is 0 or below -1.
        DataError: a node's `details` are not a record of the knowledge base that the rendering is named after.

    >>> nodes = pa.table({"id": [0, 1], "type": ["drug", "disease"], "name": ["Aspirin", "Pain"],
    ...                   "text": ["A pill.", ""]})
    >>> edges = pa.table({"head": [0], "relation": ["indication"], "tail": [1]})
    >>> print(render(KnowledgeBase.from_arrow(nodes, edges), rows=[0])[0])
    Aspirin
    type: drug
    A pill.
    indication: Pain
    """
    if n_rel == 0 or n_rel < -1:
        raise UsageError(f"n_rel = {n_rel}; expected a positive number of neighbors, or -1 for all.")
    chosen = np.arange(len(kb)) if rows is None else kb.graph.checked(rows)
    whole = 4 * len(chosen) >= len(kb)
    pool, blocks = PiecePool(whole), []
    for start in range(0, len(chosen), BLOCK):
        block = chosen[start : start + BLOCK]
        documents = pa.array(rendering.bodies(kb, block), pa.large_string())
        if relations:
            pool = pool if whole else PiecePool()
            layout = rendering.relations(kb, block, pool, Sample(n_rel, seed))
            documents = layout.begin(pool.size + np.arange(len(block))).texts(pool, documents)
        if compact:
            documents = pa.array([rendering.compact(text) for text in documents.to_pylist()], pa.large_string())
        blocks.append(documents)
    return pa.chunked_array(blocks, pa.large_string())
