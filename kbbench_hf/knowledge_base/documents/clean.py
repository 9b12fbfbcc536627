"""Rendering `clean` for any knowledge base: the whole record of a node, nothing cut, nothing rewritten.

The name; `type: T`; the text; every value in the further columns and in `details` as `key: value`, deep records line by
line; then each relation as `relation: name; name`, and incoming edges as `inverse relation: name; name` where
the edges are directed. A neighbor without a name has its id.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kbbench_hf.knowledge_base.documents.rendering import (
    Layout,
    NeighborLists,
    Node,
    PiecePool,
    Rendering,
    Sample,
    edges_of,
    sample_edges,
)
from kbbench_hf.knowledge_base.store import KnowledgeBase


def known_of(node: Node, longest: int) -> str:
    r"""Return the record of a node without name, type and neighbors: text, further columns, details; "" if nothing.

    Lines that begin after `longest` characters are left out.

    >>> known_of(Node("Bern", "town", "On the Aare.", {}, {"founded": 1191}), 300)
    'On the Aare.\nfounded: 1191'
    """
    lines, written = [], 0
    for line in _known(node):
        lines.append(line)
        written += len(line)
        if written >= longest:
            break
    return "\n".join(lines)


def _body(node: Node) -> str:
    return "\n".join([*filter(None, [node.name]), f"type: {node.type}", *_known(node)])


def _known(node: Node) -> Iterator[str]:
    if node.text:
        yield node.text
    for key, value in node.further.items():
        yield from _lines(key, value)
    known = {"name": node.name, "title": node.name, "type": node.type}
    for key, value in node.record.items():
        if known.get(key) != value:
            yield from _lines(key, value)


def _lines(key: str, value: object) -> Iterator[str]:
    """Yield `key: value` for every value, whose key is the nearest one above it."""
    if isinstance(value, dict):
        for inner, one in value.items():
            yield from _lines(inner, one)
    elif isinstance(value, list):
        if any(isinstance(one, dict | list) for one in value):
            for one in value:
                yield from _lines(key, one)
        else:
            yield from _lines(key, "; ".join([str(one) for one in value if not _is_nothing(one)]))
    elif not _is_nothing(value):
        yield f"{key}: {value}"


def _is_nothing(value: object) -> bool:
    return value is None or value == "" or value != value


def _relations(kb: KnowledgeBase, rows: NDArray[np.int64], pool: PiecePool, sample: Sample) -> Layout:
    graph = kb.graph.without_loops
    every = np.arange(len(graph.relations))
    sides = graph.sides
    labels = [f"\n{way}{relation}: " for way in ("", "inverse ")[: len(sides)] for relation in graph.relations]
    edges = _side_by_side([edges_of(side, rows, every) for side in sides], len(rows), len(every))
    n_kinds = max(len(labels), 1)
    if sample.n > 0:
        segments = edges.segments()
        keep = np.sort(sample_edges(segments, rows[segments // n_kinds], edges.rows, sample.n, sample.seed))
        edges = NeighborLists(np.searchsorted(segments[keep], np.arange(len(edges.offsets))), edges.rows[keep])
    names, related = _shown_names(kb), np.flatnonzero(np.diff(edges.offsets))
    pieces, lasts = pool.named(names, edges.rows, "", "; "), edges.offsets[related + 1] - 1
    pieces[lasts] = pool.named(names, edges.rows[lasts])
    layout = Layout(pieces, edges.offsets).begin(pool.add(labels) + related % n_kinds, related)
    return layout.merged(np.arange(len(rows) + 1) * len(labels))


def _side_by_side(sides: list[NeighborLists], n_rows: int, n_relations: int) -> NeighborLists:
    """Return the edges of both directions as one, those out of a node before those into it."""
    if len(sides) == 1 or n_relations == 0:
        return sides[0]
    segments = [side.segments() for side in sides]
    shifted = [each + (each // n_relations + way) * n_relations for way, each in enumerate(segments)]
    order = np.argsort(np.concatenate(shifted), kind="stable")
    bounds = np.arange(n_rows * n_relations * len(sides) + 1)
    rows = np.concatenate([side.rows for side in sides])[order]
    return NeighborLists(np.searchsorted(np.concatenate(shifted)[order], bounds), rows)


def _shown_names(kb: KnowledgeBase) -> pa.Array:
    names = kb.nodes["name"].chunk(0)
    nameless = pc.equal(names, "")
    if not pc.any(nameless).as_py():
        return names
    return pc.if_else(nameless, kb.nodes["id"].chunk(0).cast(pa.large_string()), names)


RENDERING = Rendering(_body, _relations, compact=lambda document: " ".join(document.split()))
