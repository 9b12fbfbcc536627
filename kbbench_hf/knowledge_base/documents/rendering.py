"""Renderings of nodes as documents: a body, a layout of the names of neighbors, and the form on one line."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kbbench_hf.errors import DataError
from kbbench_hf.knowledge_base.documents.pieces import Layout, PiecePool, is_run
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.knowledge_base.tables import NODE_COLUMNS, Record, parse_record


class Node(NamedTuple):
    """The input of a document's body: the columns of a node, its `details` parsed, further columns."""

    name: str
    type: str
    text: str
    record: Record
    further: Record


@dataclass(frozen=True)
class Sample:
    """At most `n` neighbors of each kind, sampled by `seed`; all where `n` is -1."""

    n: int = -1
    seed: int = 0


@dataclass(frozen=True)
class Rendering:
    """A way to write nodes as documents: a body for each, what follows it, and the form on one line."""

    body: Callable[[Node], str]
    relations: Callable[[KnowledgeBase, NDArray[np.int64], PiecePool, Sample], Layout]
    """Lays out the relations of nodes, with pieces that it adds to the pool."""
    compact: Callable[[str], str]

    def bodies(self, kb: KnowledgeBase, rows: NDArray[np.int64]) -> list[str]:
        """Return the documents without relations.

        Raises:
            DataError: `details` that are not what this rendering reads; the message names the node.
        """
        written: list[str] = []
        try:
            written.extend(map(self.body, nodes(kb, rows)))
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            culprit = kb.ids(rows[len(written) : len(written) + 1])[0]
            raise DataError(
                f"The details of node {culprit!r} cannot be rendered ({error!r}): expected a released record of the "
                "knowledge base that the rendering is named after. Use the rendering 'clean'."
            ) from error
        return written


def nodes(kb: KnowledgeBase, rows: NDArray[np.int64]) -> Iterator[Node]:
    """Yield these nodes, each parsed in its turn.

    Many records at once would cost more time in the garbage collector than all else.
    """
    table = kb.nodes.slice(rows[0], len(rows)) if is_run(rows) else kb.nodes.take(pa.array(rows))
    nothing: Record = {}
    details = table["details"].to_pylist() if "details" in table.column_names else [None] * len(table)
    others = [name for name in table.column_names if name not in (*NODE_COLUMNS, "details")]
    further = table.select(others).to_pylist() if others else [nothing] * len(table)
    names, texts = table["name"].to_pylist(), table["text"].to_pylist()
    records = (parse_record(record) if record else nothing for record in details)
    return map(Node._make, zip(names, kb.types(rows), texts, records, further, strict=True))


_GAP = re.compile(r"\s\s+")  # the same as \s{2,}, which `re` searches for more slowly


def compact_text(text: str) -> str:
    r"""Return a document on one line, as the released `compact_text` writes it.

    It deletes every "- ", also inside prose, and turns ends of lines into sentences.
    Source: `stark_qa/tools/process_text.py` of snap-stanford/stark (MIT).

    >>> compact_text("- name: IL-2 - alpha\n- type: gene\n- details:\n")
    'name: IL-2 alpha. type: gene. details: '
    """
    text = text.replace("\n", ". ").replace("\r", "").replace("- ", "")
    text = text.replace(": .", ":").replace(":.", ":")
    return _GAP.sub(" ", text).replace(".. ", ". ")
