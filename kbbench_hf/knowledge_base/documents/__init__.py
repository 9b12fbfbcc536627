"""Documents of nodes: `render`, the rendering `clean`, and the parts of renderings (bodies, layouts of neighbors).

Documents are laid out from pieces of text, most of them names of neighbors. All pieces of all documents are taken from
one pool in one Arrow call, which concatenates their bytes; the documents are the same bytes with fewer offsets. Nothing
is copied twice and no loop runs over the edges.

The rendering `clean` is for any knowledge base; benchmarks have others, of published scores. It has the whole record of
a node, nothing cut, nothing rewritten. The name; `type: T`; the text; every value in the further columns and in
`details` as `key: value`, deep records line by line; then each relation as `relation: name; name`, and incoming edges
as `inverse relation: name; name` where the edges are directed. A neighbor without a name has its id.

Retrievers, re-rankers and agents' tools read documents through `retrieval.context.render`; folders of benchmarks have
the published renderings, made of the parts here. Documents are inputs of published scores: bytes, order of neighbors
and draws of samples stay.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.knowledge_base.graph import Adjacency, spans
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.knowledge_base.tables import NODE_COLUMNS, Record, parse_record


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
        """Add pieces and return the number of the first; the others follow it."""
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
        """Return the texts, in order, "" for one without pieces; pieces from `pool.size` on are those in `further`."""
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

    def keep(self, marked: NDArray[np.bool_]) -> "NeighborLists":
        """Return the edges that are marked, shape (edges,); segments stay, also empty ones."""
        return NeighborLists(np.concatenate([[0], np.cumsum(marked)])[self.offsets], self.rows[marked])

    def sampled(self, owners: NDArray[np.int64], sample: "Sample", *, in_order: bool = False) -> "NeighborLists":
        """Return a sample of the edges of each segment, in the order of their draw, or with `in_order` in their own.

        `owners` is the node of each segment.
        """
        segments = self.segments()
        drawn = sample_edges(segments, owners[segments], self.rows, sample.n, sample.seed)
        drawn = np.sort(drawn) if in_order else drawn
        return NeighborLists(np.searchsorted(segments[drawn], np.arange(len(self.offsets))), self.rows[drawn])


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
    mixed = _mix_bits(_mix_bits(np.uint64(seed % 2**64) + owners.astype(np.uint64)) + rows.astype(np.uint64))
    order = np.lexsort((mixed, groups))
    first = np.flatnonzero(np.diff(groups, prepend=-1))
    lengths = np.diff(np.append(first, len(groups)))
    return order[np.arange(len(groups)) - np.repeat(first, lengths) < n]


def _mix_bits(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 64 well-mixed bits for each value (the finaliser of splitmix64, Steele et al. 2014)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def surrounded(before: str, strings: pa.Array, after: str) -> pa.Array:
    """Return the strings with text before and after each."""
    typed = [pa.scalar(text, pa.large_string()) for text in (before, after, "")]
    return pc.binary_join_element_wise(typed[0], strings, typed[1], typed[2])


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
    """Yield these nodes, in the order of `rows`, each parsed in its turn.

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


def known_of(node: Node, longest: int) -> str:
    r"""Return the record of a node without name, type and neighbors: text, further columns, details; "" if nothing.

    Lines that begin after `longest` characters are left out.

    >>> known_of(Node("Bern", "town", "On the Aare.", {}, {"founded": 1191}), 300)
    'On the Aare.\nfounded: 1191'
    """
    lines, written = [], 0
    for line in _record_lines(node):
        lines.append(line)
        written += len(line)
        if written >= longest:
            break
    return "\n".join(lines)


def _render_body(node: Node) -> str:
    return "\n".join([*filter(None, [node.name]), f"type: {node.type}", *_record_lines(node)])


def _record_lines(node: Node) -> Iterator[str]:
    if node.text:
        yield node.text
    for key, value in node.further.items():
        yield from _value_lines(key, value)
    known = {"name": node.name, "title": node.name, "type": node.type}
    for key, value in node.record.items():
        if known.get(key) != value:
            yield from _value_lines(key, value)


def _value_lines(key: str, value: object) -> Iterator[str]:
    """Yield `key: value` for every value, whose key is the nearest one above it."""
    if isinstance(value, dict):
        for inner, one in value.items():
            yield from _value_lines(inner, one)
    elif isinstance(value, list):
        if any(isinstance(one, dict | list) for one in value):
            for one in value:
                yield from _value_lines(key, one)
        else:
            yield from _value_lines(key, "; ".join([str(one) for one in value if not _is_nothing(one)]))
    elif not _is_nothing(value):
        yield f"{key}: {value}"


def _is_nothing(value: object) -> bool:
    return value is None or value == "" or value != value


def _lay_out_relations(kb: KnowledgeBase, rows: NDArray[np.int64], pool: PiecePool, sample: Sample) -> Layout:
    graph = kb.graph.without_loops
    every = np.arange(len(graph.relations))
    sides = graph.sides
    labels = [f"\n{way}{relation}: " for way in ("", "inverse ")[: len(sides)] for relation in graph.relations]
    edges = _side_by_side([edges_of(side, rows, every) for side in sides], len(rows), len(every))
    n_kinds = max(len(labels), 1)
    if sample.n > 0:
        edges = edges.sampled(np.repeat(rows, n_kinds), sample, in_order=True)
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


CLEAN = Rendering(_render_body, _lay_out_relations, compact=lambda document: " ".join(document.split()))
BLOCK = 16_384
"""Documents laid out at a time: few enough for the arrays of their edges to stay in the processor's cache."""


def render(
    kb: KnowledgeBase,
    rendering: Rendering = CLEAN,
    rows: ArrayLike | None = None,
    *,
    relations: bool = True,
    compact: bool = False,
    n_rel: int = -1,
    seed: int = 0,
) -> pa.ChunkedArray:
    """Return one document per row (of all rows where None), in their order.

    Where `n_rel` is positive, at most so many neighbors of each kind are named, sampled by `seed`; a document is
    the same alone and among others. `compact` puts each document on one line.

    Differs from upstream: the sample of `n_rel` is seeded; the official code draws with an unseeded `torch.randperm`.

    Raises:
        UsageError: `n_rel` is 0 or below -1.
        DataError: a node's `details` are not a record of the knowledge base that the rendering is named after.

    >>> nodes = pa.table({"id": [0, 1], "type": ["drug", "disease"], "name": ["Aspirin", "Pain"],
    ...                   "text": ["A pill.", ""]})
    >>> edges = pa.table({"head": [0], "relation": ["indication"], "tail": [1]})
    >>> print(render(KnowledgeBase.from_arrow(nodes, edges), rows=[0])[0])
    Aspirin
    type: drug
    A pill.
    indication: Pain
    """
    if n_rel == 0 or n_rel < -1:
        raise UsageError(f"n_rel = {n_rel}; expected a positive number of neighbors, or -1 for all.")
    chosen = np.arange(len(kb)) if rows is None else kb.graph.checked(rows)
    whole = 4 * len(chosen) >= len(kb)
    pool, blocks = PiecePool(whole), []
    for start in range(0, len(chosen), BLOCK):
        block = chosen[start : start + BLOCK]
        documents = pa.array(rendering.bodies(kb, block), pa.large_string())
        if relations:
            pool = pool if whole else PiecePool()
            layout = rendering.relations(kb, block, pool, Sample(n_rel, seed))
            documents = layout.begin(pool.size + np.arange(len(block))).texts(pool, documents)
        if compact:
            documents = pa.array([rendering.compact(text) for text in documents.to_pylist()], pa.large_string())
        blocks.append(documents)
    return pa.chunked_array(blocks, pa.large_string())
