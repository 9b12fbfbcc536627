"""Graph of a knowledge base: typed, directed adjacency in arrays, and its undirected view as in the authors' code.

Nodes are row numbers, relations and node types have names. Lists of neighbors ascend and have each node once, so that
parallel edges of one relation count as one (as upstream, whose sparse matrices are coalesced).

Knowledge bases, documents, plans, retrievers and agents follow edges with it. Stores hold its arrays, and documents and
built datasets depend on the order of neighbors: ascending, each once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.metrics.ranks import distinct

Direction = Literal["out", "in", "both"]
Integers = NDArray[np.integer]
Rows = Integers
"""Row numbers of nodes."""
Sparse = Any
"""One of scipy's sparse arrays, which have no types."""


class Neighbors(NamedTuple):
    """The neighbors of several nodes: those of the i-th are `rows[offsets[i] : offsets[i + 1]]`."""

    offsets: NDArray[np.int64]
    rows: Rows


class Edges(NamedTuple):
    """The edges of several nodes: the place of its node among them, the number of its relation, the other end."""

    places: NDArray[np.int64]
    relations: NDArray[np.int64]
    rows: Rows


@dataclass(frozen=True, eq=False)
class Adjacency:
    """One direction of the edges, as compressed sparse rows keyed by (node, relation), node first.

    The neighbors of `node` by relation number `r` are `indices[indptr[k] : indptr[k + 1]]`, `k = node * R + r`;
    those by any relation are contiguous too.
    """

    indptr: Integers
    indices: Rows
    n_relations: int

    def without_loops(self) -> Self:
        """Return the edges between different nodes; this object itself where no edge joins a node to itself."""
        of_nodes = self.indptr[:: self.n_relations]
        no_loop = self.indices != np.repeat(np.arange(len(of_nodes) - 1), np.diff(of_nodes))
        if no_loop.all():
            return self
        before = np.concatenate([np.zeros(1, self.indptr.dtype), np.cumsum(no_loop, dtype=self.indptr.dtype)])
        return replace(self, indptr=before[self.indptr], indices=self.indices[no_loop])

    def gather(self, nodes: Rows, relation: int | None = None) -> Neighbors:
        """Return the neighbors of each node by a relation, ascending; by all where None, relation after relation.

        A node that two relations lead to is then there twice.
        """
        keys = nodes.astype(np.int64) * self.n_relations + (relation or 0)
        width = self.n_relations if relation is None else 1
        places, offsets = spans(self.indptr[keys], self.indptr[keys + width])
        return Neighbors(offsets, self.indices[places])

    def by_relation(self, node: int) -> list[Rows]:
        """Return the neighbors of one node by each relation, ascending."""
        bounds = self.indptr[node * self.n_relations : (node + 1) * self.n_relations + 1].tolist()
        return [self.indices[start:stop] for start, stop in pairwise(bounds)]

    def edges(self, nodes: Rows) -> Edges:
        """Return all edges of these nodes, node by node; the cost is that of these edges."""
        keys = nodes.astype(np.int64) * self.n_relations
        places, offsets = spans(self.indptr[keys], self.indptr[keys + self.n_relations])
        owners = np.repeat(np.arange(len(nodes)), np.diff(offsets))
        return Edges(owners, self._relations[places].astype(np.int64), self.indices[places])

    @cached_property
    def _relations(self) -> Integers:
        """The number of each edge's relation, in as few bytes as hold it."""
        numbers = np.arange(len(self.indptr) - 1) % max(self.n_relations, 1)
        return np.repeat(numbers.astype(np.min_scalar_type(self.n_relations)), np.diff(self.indptr))


def spans(starts: Integers, stops: Integers) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return `range(start, stop)` of every pair laid end to end, and the offsets at which each begins.

    >>> spans(np.array([7, 2]), np.array([9, 5]))
    (array([7, 8, 2, 3, 4]), array([0, 2, 5]))
    """
    lengths = stops.astype(np.int64) - starts
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths), offsets


@dataclass(frozen=True, eq=False)
class Graph:
    """Node types and typed edges of a knowledge base, in both directions."""

    node_types: tuple[str, ...]
    relations: tuple[str, ...]
    type_ids: Integers
    """The number of each node's type, shape (n_nodes,)."""
    out: Adjacency
    into: Adjacency
    """The same object as `out` where every edge has its reverse."""

    @classmethod
    def from_edges(
        cls,
        node_types: Sequence[str],
        relations: Sequence[str],
        type_ids: Integers,
        heads: Integers,
        relation_ids: Integers,
        tails: Integers,
    ) -> Self:
        """Build the adjacency of directed edges, given by the row numbers of their ends, in any order.

        Three stable counting passes, each a sparse transposition: by tail, then by (head, relation), which leaves the
        tails of every key ascending, then by (tail, relation) for the other direction.
        """
        n, width, sizes = len(type_ids), max(len(relations), 1), index_type(len(type_ids) * len(relations), len(heads))
        keys = heads.astype(sizes) * width + relation_ids.astype(sizes)
        by_tail = transposed(keys, tails.astype(sizes), np.array([0, len(keys)], sizes), (1, n))
        out = Adjacency(*_group_rows_by_key(by_tail.data, by_tail.indptr, n, n * width), width)
        of_edge = np.repeat(np.arange(n * width, dtype=sizes) % width, np.diff(out.indptr))
        into_keys = out.indices.astype(sizes) * width + of_edge
        into = Adjacency(*_group_rows_by_key(into_keys, out.indptr[::width], n, n * width), width)
        same = np.array_equal(out.indptr, into.indptr) and np.array_equal(out.indices, into.indices)
        return cls(tuple(node_types), tuple(relations), type_ids, out, out if same else into)

    @property
    def n_nodes(self) -> int:
        """The number of nodes."""
        return len(self.type_ids)

    @property
    def n_edges(self) -> int:
        """The number of different directed, typed edges."""
        return len(self.out.indices)

    @property
    def symmetric(self) -> bool:
        """Whether every edge has its reverse, by the same relation."""
        return self.into is self.out

    @cached_property
    def without_loops(self) -> Self:
        """This graph without edges from a node to itself: no node is a neighbor of its own."""
        out = self.out.without_loops()
        into = out if self.symmetric else self.into.without_loops()
        return self if out is self.out else replace(self, out=out, into=into)

    @property
    def sides(self) -> list[Adjacency]:
        """Edges out and edges in; one of them alone where every edge has its reverse."""
        return self._sides("both")

    @cached_property
    def total_degrees(self) -> NDArray[np.int64]:
        """The number of edges of each node, out and in, shape (n_nodes,)."""
        return self.degrees() + (0 if self.symmetric else self.degrees(direction="in"))

    @cached_property
    def _relation_ids(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.relations)}

    def relation_id(self, relation: str) -> int:
        """Return the number of a relation.

        Raises:
            UsageError: there is none of this name; the message lists the known ones.
        """
        try:
            return self._relation_ids[relation]
        except KeyError:
            raise unknown_name("relation", relation, self.relations) from None

    def type_id(self, node_type: str) -> int:
        """Return the number of a node type.

        Raises:
            UsageError: there is none of this name; the message lists the known ones.
        """
        if node_type not in self.node_types:
            raise unknown_name("node type", node_type, self.node_types)
        return self.node_types.index(node_type)

    def of_type(self, node_type: str) -> NDArray[np.int64]:
        """Return the nodes of a type, ascending."""
        return np.flatnonzero(self.type_ids == self.type_id(node_type))

    def neighbors(self, node: int, relation: str | None = None, direction: Direction = "out") -> Rows:
        """Return the neighbors of one node, ascending, each once; of any relation where `relation` is None.

        `out` follows edges from head to tail, `in` from tail to head, `both` joins the two. The result is a read-only
        view for one relation in one direction.
        """
        adjacency = self._one_sided.get(direction)
        if adjacency is None or relation is None or not 0 <= node < len(self.type_ids):
            (row,), number = self.checked([node]), None if relation is None else self.relation_id(relation)
            every = np.concatenate([each.gather(np.array([row]), number).rows for each in self._sides(direction)])
            return distinct(every)
        key = node * adjacency.n_relations + self.relation_id(relation)
        return adjacency.indices[adjacency.indptr[key] : adjacency.indptr[key + 1]]

    def neighbors_of(self, nodes: ArrayLike, relation: str | None = None, direction: Direction = "out") -> Neighbors:
        """Return the neighbors of many nodes at once; each node's are ascending, each once."""
        rows = self.checked(nodes)
        number = None if relation is None else self.relation_id(relation)
        lists = [adjacency.gather(rows, number) for adjacency in self._sides(direction)]
        if len(lists) == 1 and relation is not None:
            return lists[0]
        owners = np.concatenate([np.repeat(np.arange(len(rows)), np.diff(each.offsets)) for each in lists])
        pairs = distinct(owners * self.n_nodes + np.concatenate([each.rows for each in lists]))
        owner, neighbor = np.divmod(pairs, max(self.n_nodes, 1))
        return Neighbors(np.searchsorted(owner, np.arange(len(rows) + 1)), neighbor)

    def k_hop(
        self, nodes: ArrayLike, k: int, relation: str | None = None, direction: Direction = "both"
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the nodes within `k` edges of `nodes` (themselves included), ascending, and the distance of each.

        Raises:
            UsageError: k is below 0, a node is not in the knowledge base, or a relation is unknown.
        """
        if k < 0:
            raise UsageError(f"k = {k} hops; expected 0 or more.")
        number = None if relation is None else self.relation_id(relation)
        distance = np.full(self.n_nodes, -1, np.int64)
        frontier = distinct(self.checked(nodes))
        distance[frontier] = 0
        for hop in range(1, k + 1):
            for adjacency in self._sides(direction):
                reached = adjacency.gather(frontier, number).rows
                distance[reached[distance[reached] < 0]] = hop
            frontier = np.flatnonzero(distance == hop)  # sorting the edges of hubs takes several times as long
        within = np.flatnonzero(distance >= 0)
        return within, distance[within]

    def degrees(self, relation: str | None = None, direction: Direction = "out") -> NDArray[np.int64]:
        """Return the number of edges of each node, shape (n_nodes,); `both` counts edges out and in, once if mutual."""
        total = np.zeros(self.n_nodes, np.int64)
        if direction == "both" and not self.symmetric:
            return np.diff(self.neighbors_of(np.arange(self.n_nodes), relation, "both").offsets)
        for adjacency in self._sides(direction):
            counts = np.diff(adjacency.indptr).reshape(self.n_nodes, adjacency.n_relations)
            total += counts.sum(axis=1) if relation is None else counts[:, self.relation_id(relation)]
        return total

    def matrix(self, relation: str, direction: Literal["out", "in"] = "out") -> Sparse:
        """Return one relation as a `scipy.sparse.csr_array` of float32 ones, shape (n_nodes, n_nodes), rows the heads.

        With `direction` "in", rows are the tails.
        """
        from scipy.sparse import csr_array

        offsets, rows = self.neighbors_of(np.arange(self.n_nodes), relation, direction)
        return csr_array((np.ones(len(rows), np.float32), rows, offsets), shape=(self.n_nodes, self.n_nodes))

    def checked(self, nodes: ArrayLike) -> NDArray[np.int64]:
        """Return row numbers as an array, shape (n,).

        Raises:
            UsageError: something is no integer, or no row of the knowledge base.
        """
        rows = np.atleast_1d(np.asarray(nodes))
        if rows.size == 0:
            return np.zeros(0, np.int64)
        if rows.dtype.kind not in "iu":
            raise UsageError(
                f"{rows.ravel()[0]!r} is not a row number; expected integers. `rows(ids)` maps ids to rows."
            )
        strangers = rows[(rows < 0) | (rows >= self.n_nodes)]
        if strangers.size:
            raise UsageError(
                f"Row {strangers[0]} is not in the knowledge base; expected 0 to {self.n_nodes - 1}. "
                "Did you mean an id? `rows(ids)` maps ids to rows."
            )
        return rows.astype(np.int64, copy=False)

    @cached_property
    def _one_sided(self) -> dict[str, Adjacency]:
        return {"out": self.out, "in": self.into} | ({"both": self.out} if self.symmetric else {})

    def _sides(self, direction: Direction) -> list[Adjacency]:
        if direction in self._one_sided:
            return [self._one_sided[direction]]
        if direction != "both":
            raise unknown_name("direction", direction, ["out", "in", "both"])
        return [self.out, self.into]


def index_type(*sizes: int) -> type[np.signedinteger]:
    """Return the smallest of int32 and int64 that can count to all of these."""
    return np.int32 if max(sizes) < 2**31 else np.int64


def transposed(data: NDArray[Any], indices: Integers, indptr: Integers, shape: tuple[int, int]) -> Sparse:
    """Return the compressed columns of compressed rows: a stable counting sort by column."""
    from scipy.sparse import csr_array

    return csr_array((data, indices, indptr), shape=shape).tocsc()


def _group_rows_by_key(keys: Integers, row_pointers: Integers, n_rows: int, n_keys: int) -> tuple[Integers, Integers]:
    """Return (indptr, indices): the rows of each key, ascending and unique; `row_pointers` group the keys."""
    columns = transposed(np.empty(len(keys), np.int8), keys, row_pointers, (n_rows, n_keys))
    indptr, indices = columns.indptr, columns.indices
    repeated = indices[1:] == indices[:-1]
    repeated[indptr[(indptr > 0) & (indptr < len(indices))] - 1] = False
    if repeated.any():
        keep = np.concatenate([[True], ~repeated])
        indptr = np.concatenate([np.zeros(1, indptr.dtype), np.cumsum(keep, dtype=indptr.dtype)])[indptr]
        indices = indices[keep]
    return indptr, indices


_ONE_EDGE = 1 << 32


def official_graph(
    graph: Graph, heads: NDArray[np.integer], relation_ids: NDArray[np.integer], tails: NDArray[np.integer]
) -> Graph:
    """Return a graph as the authors of released knowledge bases see it: undirected, one relation per pair of nodes.

    The edges are as released, parallel ones included.

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
