"""Which text stands for a node: the renderings that a model's option `text` chooses from."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.errors import unknown_name
from kbbench_hf.knowledge_base import documents
from kbbench_hf.knowledge_base.store import KnowledgeBase

Rows = NDArray[np.int64] | None


def _text(kb: KnowledgeBase, rows: Rows) -> list[str]:
    """Return the column `text` as it is; "" where it has none."""
    column = kb.nodes["text"].chunk(0)
    return [text or "" for text in (column if rows is None else column.take(rows)).to_pylist()]


def _named(kb: KnowledgeBase, rows: Rows) -> list[str]:
    """Return `name: X. type: T. BODY`, which tells an embedding what kind of thing a text is about."""
    columns = zip(kb.names(rows), kb.types(rows), _text(kb, rows), strict=True)
    return [f"name: {name}. type: {node_type}. {body}" for name, node_type, body in columns]


def _document(name: str, relations: bool, kb: KnowledgeBase, rows: Rows) -> list[str]:
    texts: list[str] = documents.render(kb, name, rows, relations=relations).to_pylist()
    return texts


RENDERINGS: dict[str, Callable[[KnowledgeBase, Rows], list[str]]] = {
    "text": _text,
    "named": _named,
    **{name: partial(_document, name, False) for name in documents.RENDERINGS},
    **{f"{name}_relations": partial(_document, name, True) for name in documents.RENDERINGS},
}
"""`prime`, `mag` and `amazon` are STaRK's documents, `clean` ours; with `_relations` they name a node's neighbours."""


def render(kb: KnowledgeBase, rendering: str, rows: Rows = None) -> list[str]:
    """Return the texts of these nodes, of all where None, in the order of the rows.

    Raises:
        UsageError: no rendering has this name.
    """
    if rendering not in RENDERINGS:
        raise unknown_name("rendering", rendering, RENDERINGS)
    return RENDERINGS[rendering](kb, rows)
