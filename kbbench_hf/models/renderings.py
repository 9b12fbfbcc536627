"""Which text stands for a node: the renderings that a model's option `text` chooses from."""

from collections.abc import Callable

from kbbench_hf.errors import unknown_name
from kbbench_hf.knowledge_base.store import KnowledgeBase


def _text(kb: KnowledgeBase) -> list[str]:
    """Return the column `text` as it is; "" where it has none."""
    return [text or "" for text in kb.nodes["text"].to_pylist()]


def _named(kb: KnowledgeBase) -> list[str]:
    """Return `name: X. type: T. BODY`, which tells an embedding what kind of thing a text is about."""
    rows = zip(kb.names(), kb.types(), _text(kb), strict=True)
    return [f"name: {name}. type: {node_type}. {body}" for name, node_type, body in rows]


RENDERINGS: dict[str, Callable[[KnowledgeBase], list[str]]] = {"text": _text, "named": _named}


def render(kb: KnowledgeBase, rendering: str) -> list[str]:
    """Return the text of every node, in the order of the rows.

    Raises:
        UsageError: no rendering has this name.
    """
    if rendering not in RENDERINGS:
        raise unknown_name("rendering", rendering, RENDERINGS)
    return RENDERINGS[rendering](kb)
