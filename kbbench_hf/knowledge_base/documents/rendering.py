"""What a rendering is: a body for each node, and a layout of its neighbours' names."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kbbench_hf.errors import DataError
from kbbench_hf.knowledge_base.documents.pieces import Layout, Pool, is_run
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.knowledge_base.tables import NODE_COLUMNS, Record

_decode = msgspec.json.Decoder().decode


class Node(NamedTuple):
    """What the body of a document is written from: the columns of a node, its `details` read, further columns."""

    name: str
    type: str
    text: str
    record: Record
    further: Record


@dataclass(frozen=True)
class Sample:
    """At most `n` neighbours of each kind, drawn by `seed`; all where `n` is -1."""

    n: int = -1
    seed: int = 0


@dataclass(frozen=True)
class Rendering:
    """A way to write nodes as documents: a body for each, what follows it, and the form on one line."""

    body: Callable[[Node], str]
    relations: Callable[[KnowledgeBase, NDArray[np.int64], Pool, Sample], Layout]
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
    """Return these nodes, each read when it is its turn.

    Many records at once would keep the garbage collector busy for longer than all else takes.
    """
    table = kb.nodes.slice(rows[0], len(rows)) if is_run(rows) else kb.nodes.take(pa.array(rows))
    nothing: Record = {}
    details = table["details"].to_pylist() if "details" in table.column_names else [None] * len(table)
    others = [name for name in table.column_names if name not in (*NODE_COLUMNS, "details")]
    further = table.select(others).to_pylist() if others else [nothing] * len(table)
    names, texts = table["name"].to_pylist(), table["text"].to_pylist()
    records = (_read(record) if record else nothing for record in details)
    return map(Node._make, zip(names, kb.types(rows), texts, records, further, strict=True))


def _read(text: str) -> Record:
    """Return the record in `details`; text that is none stands in one under its column's name.

    What strict JSON does not have, such as NaN and halves of surrogate pairs, only Python's own slower reader takes.
    """
    try:
        record = _decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        record = _leniently(text)
    return record if isinstance(record, dict) else {"details": text}


def _leniently(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
