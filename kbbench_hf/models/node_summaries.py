"""What a tool's result says of a node: its id, type, name and a snippet of what is known of it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.knowledge_base.documents.clean import known_of
from kbbench_hf.knowledge_base.documents.rendering import nodes
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.models.tool_contract import MOST_READ, Id, clean


class Summary(NamedTuple):
    """A node as a result shows it; name and snippet on one line each, as `tool_contract.clean` writes them."""

    id: Id
    type: str
    name: str
    snippet: str


class NodeSummaries:
    """The summaries of a knowledge base's nodes; up to `most` that were asked for are kept, about 1 kB each.

    Agents come back to the same nodes, to hubs above all, in every question.

    >>> import pyarrow as pa
    >>> nodes = pa.table({"id": ["a", "p"], "type": ["author", "paper"], "name": ["Ada", "On salt"], "text": ["", "A"]})
    >>> kb = KnowledgeBase.from_arrow(nodes, pa.table({"head": ["a"], "relation": ["writes"], "tail": ["p"]}))
    >>> NodeSummaries(kb).of(np.array([1]))
    [Summary(id='p', type='paper', name='On salt', snippet='A')]
    """

    def __init__(self, kb: KnowledgeBase, most: int = 20_000) -> None:
        self._kb, self._most = kb, most
        self._kept: dict[int, Summary] = {}

    def of(self, rows: NDArray[np.int64]) -> list[Summary]:
        """Return the summaries of these rows, in their order."""
        kept, wanted = self._kept, rows.tolist()
        new = np.array([row for row in wanted if row not in kept], np.int64)
        if len(new):
            if len(kept) + len(new) > self._most:  # another thread may be reading what was kept: it is left as it is
                self._kept = kept = {row: kept[row] for row in wanted if row in kept}
            for row, node_id, node in zip(new.tolist(), self._kb.ids(new), nodes(self._kb, new), strict=True):
                kept[row] = Summary(node_id, node.type, clean(node.name), clean(known_of(node, MOST_READ + 1)))
        return [kept[row] for row in wanted]
