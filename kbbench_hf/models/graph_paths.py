"""The shortest ways in the graph from the nodes that a question names to one node, for people to see."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.protocols import Edge, Path

N_PATHS = 3
MOST = 100
"""Nodes between two others that are looked at for the least joined, which tell most."""


def paths(kb: KnowledgeBase, named: NDArray[np.int64], row: int) -> list[Path]:
    """Return ways of one edge, or where there are none of two, at most three; none from a node to itself.

    >>> import pyarrow as pa
    >>> nodes = pa.table({"id": [0, 1, 2], "type": ["ore", "metal", "coin"], "name": ["Galena", "Lead", "Token"],
    ...                   "text": [""] * 3})
    >>> edges = pa.table({"head": [0, 2], "relation": ["yields", "made of"], "tail": [1, 1]})
    >>> kb = KnowledgeBase.from_arrow(nodes, edges)
    >>> paths(kb, np.array([0]), 2)[0].nodes
    ['Galena', 'Lead', 'Token']
    """
    here = _joined(kb, row)
    found: list[tuple[list[int], list[Edge]]] = []
    middle: list[tuple[list[int], list[Edge]]] = []
    for start in named[named != row].tolist():
        if start in here:
            found.append(([start, row], [_back(here[start])]))
            continue
        there = _joined(kb, start)
        between = sorted(there.keys() & here.keys() - {start, row})[:MOST]
        between.sort(key=lambda node: _degree(kb, node))
        middle += [([start, node, row], [there[node], _back(here[node])]) for node in between[:N_PATHS]]
    return [Path(kb.names(rows), edges) for rows, edges in [*found, *middle][:N_PATHS]]


def _joined(kb: KnowledgeBase, row: int) -> dict[int, Edge]:
    """Return the nodes joined to one, each with its first edge, followed from this node."""
    return dict(reversed(list(_edges(kb, row))))


def _edges(kb: KnowledgeBase, row: int) -> Iterator[tuple[int, Edge]]:
    graph = kb.graph.without_loops
    for side, forward in ((graph.out, True), (graph.into, False)):
        found = side.edges(np.array([row]))
        for relation, other in zip(found.relations.tolist(), found.rows.tolist(), strict=True):
            yield other, Edge(graph.relations[relation], forward)


def _back(edge: Edge) -> Edge:
    return Edge(edge.relation, not edge.forward)


def _degree(kb: KnowledgeBase, node: int) -> int:
    graph = kb.graph.without_loops
    return sum(len(side.edges(np.array([node])).rows) for side in (graph.out, graph.into))
