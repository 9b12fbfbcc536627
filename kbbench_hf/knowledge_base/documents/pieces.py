"""Layout of documents from pieces of text, most of them names of neighbors (Arrow).

All pieces of all documents are taken from one pool in one Arrow call, which concatenates their bytes; the documents are
the same bytes with fewer offsets. Nothing is copied twice and no loop runs over the edges.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kbbench_hf.knowledge_base.graph import Adjacency, spans


class PiecePool:
    """The distinct pieces by number.

    With `whole`, all names of the knowledge base are added once, instead of those that each block of documents uses.
    """

    def __init__(self, whole: bool = False) -> None:
        self.whole = whole
        self.parts: list[pa.Array] = []
        self.size = 0
        self._first_of_names: dict[tuple[str, str], int] = {}

    def add(self, strings: list[str] | pa.Array) -> int:
        """Add pieces and return the number of the first."""
        part = pa.array(strings, pa.large_string()) if isinstance(strings, list) else strings
        self.parts.append(part)
        self.size += len(part)
        return self.size - len(part)

    def named(self, names: pa.Array, rows: NDArray[np.integer], before: str = "", after: str = "") -> NDArray[np.int64]:
        """Return the pieces for nodes: their names, with text before and after. `names` are those of all nodes."""
        if not self.whole:
            used, places = np.unique(rows, return_inverse=True)
            pieces: NDArray[np.int64] = places + self.add(surrounded(before, names.take(pa.array(used)), after))
            return pieces
        if (before, after) not in self._first_of_names:
            self._first_of_names[before, after] = self.add(surrounded(before, names, after))
        return rows.astype(np.int64) + self._first_of_names[before, after]


@dataclass(frozen=True)
class Layout:
    """Which pieces make each text: those of text i are `pieces[offsets[i] : offsets[i + 1]]`."""

    pieces: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def begin(self, pieces: NDArray[np.int64], texts: NDArray[np.int64] | slice = slice(None)) -> "Layout":
        """Return the layout with one piece put before each of the given texts (ascending), or before every text."""
        added = np.zeros(len(self.offsets), np.int64)
        added[1:][texts] = 1
        return Layout(np.insert(self.pieces, self.offsets[:-1][texts], pieces), self.offsets + np.cumsum(added))

    def merged(self, bounds: NDArray[np.int64]) -> "Layout":
        """Return the layout in which the texts from `bounds[i]` to `bounds[i + 1]` are one."""
        return Layout(self.pieces, self.offsets[bounds])

    def texts(self, pool: PiecePool, *further: pa.Array) -> pa.LargeStringArray:
        """Return the texts; pieces from `pool.size` on are those in `further`."""
        if not len(self.pieces):
            return pa.array([""] * (len(self.offsets) - 1), pa.large_string())
        taken = pa.concat_arrays([*pool.parts, *further]).take(pa.array(self.pieces))
        _, ends, data = taken.buffers()
        offsets = np.frombuffer(ends, np.int64)[taken.offset :][self.offsets]
        return pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), data)


class NeighborLists(NamedTuple):
    """The neighbors of some nodes by some relations, node by node, relation by relation.

    Those of the i-th node and j-th relation are segment `i * len(relations) + j`, which is
    `rows[offsets[segment] : offsets[segment + 1]]`.
    """

    offsets: NDArray[np.int64]
    rows: NDArray[np.integer]

    def segments(self) -> NDArray[np.int64]:
        """Return the segment of each edge."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def keep(self, kept: NDArray[np.bool_]) -> "NeighborLists":
        """Return the edges that are marked."""
        return NeighborLists(np.concatenate([[0], np.cumsum(kept)])[self.offsets], self.rows[kept])


def edges_of(adjacency: Adjacency, nodes: NDArray[np.int64], relations: NDArray[np.int64]) -> NeighborLists:
    """Return the neighbors of nodes by relations, in this order, ascending within each."""
    if is_run(nodes) and len(relations) == adjacency.n_relations and is_run(relations):
        start, stop = nodes[0] * adjacency.n_relations, (nodes[-1] + 1) * adjacency.n_relations
        bounds = adjacency.indptr[start : stop + 1].astype(np.int64)
        return NeighborLists(bounds - bounds[0], adjacency.indices[bounds[0] : bounds[-1]])
    keys = (nodes[:, None] * adjacency.n_relations + relations).ravel()
    places, offsets = spans(adjacency.indptr[keys], adjacency.indptr[keys + 1])
    return NeighborLists(offsets, adjacency.indices[places])


def is_run(numbers: NDArray[np.int64]) -> bool:
    """Whether the numbers are n, n + 1, n + 2 ..., so that a slice reads what they point at."""
    return len(numbers) > 0 and np.array_equal(numbers, np.arange(numbers[0], numbers[0] + len(numbers)))


def sample_edges(
    groups: NDArray[np.int64], owners: NDArray[np.int64], rows: NDArray[np.integer], n: int, seed: int
) -> NDArray[np.int64]:
    """Return the places of at most `n` edges of each group, the groups in order, each in the order of its draw.

    `groups` ascends. The draw depends on the seed, the owning node, the neighbor and nothing else, so that a document
    is the same alone and among others.
    """
    mixed = _mixed(_mixed(np.uint64(seed % 2**64) + owners.astype(np.uint64)) + rows.astype(np.uint64))
    order = np.lexsort((mixed, groups))
    first = np.flatnonzero(np.diff(groups, prepend=-1))
    lengths = np.diff(np.append(first, len(groups)))
    return order[np.arange(len(groups)) - np.repeat(first, lengths) < n]


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 64 well-mixed bits for each value (the finaliser of splitmix64, Steele et al. 2014)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def surrounded(before: str, strings: pa.Array, after: str) -> pa.Array:
    """Return the strings with text before and after each."""
    typed = [pa.scalar(text, pa.large_string()) for text in (before, after, "")]
    return pc.binary_join_element_wise(typed[0], strings, typed[1], typed[2])
