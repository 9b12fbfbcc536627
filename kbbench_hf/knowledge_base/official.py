"""The graph as the authors of released knowledge bases see it: undirected, one relation for each pair of nodes."""

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.knowledge_base.graph import Adjacency, Graph, index_type, transposed

_ONE_EDGE = 1 << 32


def official_tuples(graph: Graph) -> list[tuple[str, str, str]]:
    """Return each (head type, relation, tail type) in the official view of a graph, in alphabetical order.

    Edges there run both ways, and so do these: "institution affiliated_with author" stands among MAG's.
    Source: `SKB.get_tuples` of snap-stanford/stark (MIT).

    >>> types, none = np.array([0, 1], np.uint8), np.zeros(1, np.int64)
    >>> graph = Graph.from_edges(("author", "paper"), ("writes",), types, none, none, np.ones(1, np.int64))
    >>> official_tuples(official_graph(graph, none, none, np.ones(1, np.int64)))
    [('author', 'writes', 'paper'), ('paper', 'writes', 'author')]
    """
    n_types, width = len(graph.node_types), graph.out.n_relations
    edges = np.repeat(np.arange(graph.n_nodes * width), np.diff(graph.out.indptr))
    ends = graph.type_ids[edges // width] * np.int64(n_types) + graph.type_ids[graph.out.indices]
    codes = np.flatnonzero(np.bincount(ends * width + edges % width))
    pairs = [(*divmod(code // width, n_types), code % width) for code in codes.tolist()]
    return sorted((graph.node_types[head], graph.relations[by], graph.node_types[tail]) for head, tail, by in pairs)


def official_graph(
    graph: Graph, heads: NDArray[np.integer], relation_ids: NDArray[np.integer], tails: NDArray[np.integer]
) -> Graph:
    """Return the official view of a graph, given its edges as released, parallel ones included.

    Where every pair of nodes has as many edges one way as the other, this is the graph itself. Otherwise every edge
    gets its reverse, and the relation numbers of all edges between two nodes are averaged and rounded down, so that in
    Amazon "also_buy" (0) wins over "also_view" (1) wherever both occur, and in MAG citations go both ways.
    Source: `SKB.__init__` of snap-stanford/stark (MIT), which calls `to_undirected(..., edge_types, reduce="mean")`.

    >>> edges = np.array([0, 0]), np.array([0, 1]), np.array([1, 1])
    >>> graph = Graph.from_edges(("product",), ("also_buy", "also_view"), np.zeros(2, np.uint8), *edges)
    >>> official = official_graph(graph, *edges)
    >>> official.neighbors(1, "also_buy").tolist(), official.neighbors(1, "also_view").tolist()
    ([0], [])
    """
    from scipy.sparse import csr_array

    n, width = graph.n_nodes, graph.out.n_relations
    sizes = index_type(n * width, 2 * len(heads))
    keys = heads.astype(sizes) * width + relation_ids.astype(sizes)
    by_tail = transposed(keys, tails.astype(sizes), np.array([0, len(keys)], sizes), (1, n))
    # Each edge counts 1 << 32 and its relation, so that sums hold the number of edges and the sum of their relations.
    by_head = transposed(by_tail.data % width + np.int64(_ONE_EDGE), by_tail.data // width, by_tail.indptr, (n, n))
    there = csr_array((by_head.data, by_head.indices, by_head.indptr), shape=(n, n))
    there.sum_duplicates()
    back = there.T.tocsr()
    same = np.array_equal(there.indptr, back.indptr) and np.array_equal(there.indices, back.indices)
    if same and np.array_equal(there.data // _ONE_EDGE, back.data // _ONE_EDGE):
        return graph
    pairs = there + back
    merged = (pairs.data % _ONE_EDGE) // (pairs.data // _ONE_EDGE)
    keys = np.repeat(np.arange(n, dtype=sizes), np.diff(pairs.indptr)) * width + merged.astype(sizes)
    by_key = transposed(pairs.indices, keys, np.array([0, len(keys)], sizes), (1, n * width))
    both = Adjacency(by_key.indptr, by_key.data, width)
    return Graph(graph.node_types, graph.relations, graph.type_ids, both, both)
