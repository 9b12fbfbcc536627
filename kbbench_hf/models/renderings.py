"""Which text stands for a node: the renderings that a model's option `text` chooses from."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.addresses import imported
from kbbench_hf.errors import unknown_name
from kbbench_hf.knowledge_base.store import KnowledgeBase

if TYPE_CHECKING:
    from kbbench_hf.knowledge_base.documents import Rendering

Rows = NDArray[np.int64] | None
Forms = Mapping[str, Callable[[], "Rendering"]]


def _text(kb: KnowledgeBase, rows: Rows) -> list[str]:
    """Return the column `text` as it is; "" where it has none."""
    column = kb.nodes["text"].chunk(0)
    return [text or "" for text in (column if rows is None else column.take(rows)).to_pylist()]


def _named(kb: KnowledgeBase, rows: Rows) -> list[str]:
    """Return `name: X. type: T. BODY`, which tells an embedding what kind of thing a text is about."""
    columns = zip(kb.names(rows), kb.types(rows), _text(kb, rows), strict=True)
    return [f"name: {name}. type: {node_type}. {body}" for name, node_type, body in columns]


RENDERINGS: dict[str, Callable[[KnowledgeBase, Rows], list[str]]] = {"text": _text, "named": _named}
"""What every knowledge base can be written as from its columns alone."""
FORMS: Forms = {"clean": partial(imported, "kbbench_hf.knowledge_base.documents:CLEAN")}
"""Documents that every knowledge base has; with `_relations` they name a node's neighbours too."""


def render(kb: KnowledgeBase, rendering: str, rows: Rows = None, forms: Forms | None = None) -> list[str]:
    """Return the texts of these nodes, of all where None, in the order of the rows.

    `forms` are a benchmark's own documents (`Asking.documents`), each also with `_relations`.

    Raises:
        UsageError: no rendering has this name.
    """
    if rendering in RENDERINGS:
        return RENDERINGS[rendering](kb, rows)
    name, own = rendering.removesuffix("_relations"), {**FORMS, **(forms or {})}
    if name not in own:
        raise unknown_name("rendering", rendering, [*RENDERINGS, *own, *(f"{each}_relations" for each in own)])
    from kbbench_hf.knowledge_base import documents

    texts: list[str] = documents.render(kb, own[name](), rows, relations=rendering != name).to_pylist()
    return texts
