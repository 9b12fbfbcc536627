"""Collector of a graph's nodes and edges: properties become type, name, text and details; rows become Arrow tables.

Every reader of a graph format adds its nodes and edges here, in any order, and `tables` returns the result. The lists
of property names below decide what the datasets of users contain: a new name goes to the end of its list.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kbbench_hf.errors import DataError
from kbbench_hf.files.arrow import arrow_array
from kbbench_hf.files.datasets import RELEVANCE
from kbbench_hf.files.table_files import CHUNK, json_text, text_column
from kbbench_hf.files.trec import Judgments
from kbbench_hf.knowledge_base.tables import EDGE_COLUMNS, NODE_COLUMNS

Properties = Mapping[str, Any]
NO_TYPE = "node"
"""The type of nodes without one."""
NO_RELATION = "related to"
"""The relation of edges without one."""
TYPES = ("type", "entity_type", "node_type", "labels", "category", "kind", "class")
NAMES = ("name", "title", "preferred_label", "preflabel", "display_name", "displayname", "entity_name")
LABEL = ("label",)
"""A property that is a node's type where it has a name and no type, else its name."""
TEXTS = ("text", "description", "definition", "def", "abstract", "summary", "content", "comment")
RELATIONS = tuple("relation relationship relation_type rel_type predicate edge_type interaction type label".split())
"""Properties that hold the type, name and text of a node, and the relation of an edge, by precedence."""
SEPARATOR = "<SEP>"
"""What LightRAG writes between the texts of one entity."""
_SHOWN = 5
"""Examples of what was left out, for each reason."""
_NAMED = 10
"""Queries of judgments that are named in a message."""


class GraphTables(NamedTuple):
    """A graph as tables: what `kbbench build` makes a dataset of."""

    nodes: pa.Table
    """Columns `id type name text` and any further ones, such as `details` (JSON) with the other properties."""
    edges: pa.Table
    """Columns `head relation tail` and any further ones; ends may lead to no node."""
    queries: tuple[pa.Table, str] | None = None
    """The table of queries and its name in messages."""
    left_out: Sequence[str] = ()
    """What could not be taken, in sentences."""
    origin: Sequence[str] = ()
    """The files that it was built from, and notes on them."""


class GraphCollector:
    """Nodes, edges and what could not be taken, collected from files in any order."""

    def __init__(self) -> None:
        self.row_of_id: dict[str, int] = {}
        """Id of a node -> its row in the table of nodes."""
        self.queries: tuple[pa.Table, str] | None = None
        self.notes: list[str] = []
        self._skipped: dict[str, list[str]] = {}
        self._n_skipped: dict[str, int] = {}
        self._node_rows: list[tuple[str | None, ...]] = []
        self._edge_rows: list[tuple[str | None, ...]] = []
        self._nodes: list[pa.Table] = []
        self._edges: list[pa.Table] = []

    def skip(self, reason: str, example: object, n: int = 1) -> None:
        """Count `n` things that could not be taken; `reason` names them in the plural, with the cause."""
        self._n_skipped[reason] = self._n_skipped.get(reason, 0) + n
        shown = self._skipped.setdefault(reason, [])
        if len(shown) < _SHOWN and str(example) not in shown:
            shown.append(str(example)[:80])

    def add_node(
        self, node_id: object, properties: Properties, kind: object = None, name: object = None, text: str | None = None
    ) -> None:
        """Add a node; its type, name and text are those given, else properties with a usual name.

        `kind` and `name` may be lists, of which the first item counts; an empty list says that there is none. Further
        types and names stay in `details`, as all other properties do. A node without a name has its id as name, unless
        `name` is "". Nodes without an id, and those that repeat one, are counted as left out.
        """
        identity = id_text(node_id)
        details = {key: value for key, value in properties.items() if value not in (None, "", [], {})}
        if not identity:
            self.skip("Nodes without an id", name or _pop_first(details, NAMES) or json_text(details))
            return
        if identity in self.row_of_id:
            self.skip("Nodes that repeat the id of an earlier one", identity)
            return
        self.row_of_id[identity] = len(self.row_of_id)
        kinds = texts_of(_pop_first(details, TYPES) if kind is None else kind)
        names = texts_of(_pop_first(details, NAMES) if name is None else name)
        if not names or not kinds:
            label = texts_of(_pop_first(details, LABEL))
            names, kinds = names or label, kinds or (label if names else [])
        if len(kinds) > 1:
            details["labels"] = kinds
        details |= {"names": names} if len(names) > 1 else {}
        full_text = "\n".join(texts_of(_pop_first(details, TEXTS))) if text is None else text
        named = names[0] if names else "" if name == "" else identity
        more = json_text(details) if details else None
        row = (identity, kinds[0] if kinds else NO_TYPE, named, full_text.replace(SEPARATOR, "\n"), more)
        self._node_rows.append(row)
        if len(self._node_rows) >= CHUNK:
            self._flush()

    def add_edge(self, head: object, tail: object, properties: Properties, relation: object = None) -> None:
        """Add an edge; its relation is the one given, else a property with a usual name.

        `relation` may be a list, of which the first item counts; an empty list says that there is none. An edge without
        an end is counted as left out.
        """
        ends = id_text(head), id_text(tail)
        details = {key: value for key, value in properties.items() if value not in (None, "", [], {})}
        relations = texts_of(_pop_first(details, RELATIONS) if relation is None else relation)
        if not all(ends):
            self.skip("Edges without a head or a tail", f"{ends[0]} -> {ends[1]}")
            return
        details |= {"relations": relations} if len(relations) > 1 else {}
        named = relations[0] if relations else NO_RELATION
        self._edge_rows.append((ends[0], named, ends[1], json_text(details) if details else None))
        if len(self._edge_rows) >= CHUNK:
            self._flush()

    def add_edges(self, table: pa.Table) -> None:
        """Add a table with the columns `head`, `relation`, `tail` and any others; those without an end are counted."""
        empty = None
        for name in ("head", "tail"):
            column = table[name]
            none = column.is_null() if pa.types.is_integer(column.type) else pc.equal(pc.fill_null(column, ""), "")
            empty = none if empty is None else pc.or_(empty, none)
        if n_empty := pc.sum(empty).as_py():
            row = table.filter(empty).slice(0, 1).to_pylist()[0]
            self.skip("Edges without a head or a tail", f"{row['head']} -> {row['tail']}", n_empty)
            table = table.filter(pc.invert(empty))
        relation = pc.fill_null(table["relation"].cast(pa.string()), "")
        relation = pc.if_else(pc.equal(relation, ""), NO_RELATION, relation)
        self._edges.append(table.set_column(table.column_names.index("relation"), "relation", relation))

    def tables(self, origin: list[str]) -> GraphTables:
        """Return the graph; where no node was added, the ends of edges are the nodes.

        Raises:
            DataError: it has no node.
        """
        self._flush()
        edges = _concat_chunks(self._edges, EDGE_COLUMNS)
        if not self.row_of_id and len(edges):
            ends = [edges[end].cast(pa.string()) for end in ("head", "tail")]
            ids = pc.unique(pa.chunked_array([chunk for end in ends for chunk in end.chunks]))
            for each in ids.to_pylist():
                self.add_node(each, {})
            self._flush()
            self.notes.append("There is no list of nodes: the ends of edges are the nodes.")
        if not self.row_of_id:
            raise DataError(f"{', '.join(origin)}: no node was found. Expected some. {' '.join(self.left_out)}".strip())
        return GraphTables(
            _concat_chunks(self._nodes, NODE_COLUMNS), edges, self.queries, self.left_out, [*origin, *self.notes]
        )

    @property
    def left_out(self) -> list[str]:
        """What could not be taken: a sentence for each reason, with the number and the first examples."""
        return [
            f"{reason}: {n:,} ({', '.join(self._skipped[reason])}{' ...' if n > len(self._skipped[reason]) else ''})."
            for reason, n in self._n_skipped.items()
        ]

    def _flush(self) -> None:
        """Turn the rows so far into Arrow tables, which need less memory."""
        for rows, columns, chunks in (
            (self._node_rows, NODE_COLUMNS, self._nodes),
            (self._edge_rows, EDGE_COLUMNS, self._edges),
        ):
            if rows:
                values = zip(*rows, strict=True)
                arrays = [arrow_array(each, pa.string()) for each in values]
                chunks.append(pa.table(arrays, [*columns, "details"]))
                rows.clear()


def _concat_chunks(chunks: Sequence[pa.Table], columns: Sequence[str]) -> pa.Table:
    """Return chunks as one table; `details` of which all are null are left out."""
    if not chunks:
        return pa.table({name: arrow_array([], pa.string()) for name in columns})
    try:
        table = pa.concat_tables(chunks, promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid):  # numbers in one file, and texts in another
        texts = [
            pa.table({name: text_column(chunk[name], name, "; ") for name in chunk.column_names}) for chunk in chunks
        ]
        table = pa.concat_tables(texts, promote_options="permissive")
    empty = [name for name in table.column_names if name not in columns and table[name].null_count == len(table)]
    return table.drop_columns(empty)


def id_text(value: object) -> str:
    """Return an id as text: a whole float as an integer, a list as JSON; "" for none.

    >>> id_text(" a "), id_text(3.0), id_text(None), id_text([1, 2]), id_text(True)
    (' a ', '3', '', '[1, 2]', 'true')
    """
    if isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    if isinstance(value, float) and value == value and value.is_integer():
        value = int(value)
    return "" if value is None or value != value else json_text(value)


def texts_of(value: object) -> list[str]:
    """Return the texts in a property that may be a list; none where it is empty.

    >>> texts_of(["a", None, ""]), texts_of("b"), texts_of(3), texts_of(None), texts_of(float("nan"))
    (['a'], ['b'], ['3'], [], [])
    """
    if isinstance(value, str):
        return [text] if (text := value.strip()) else []
    values = value if isinstance(value, list | tuple) else [value]
    return [text for each in values if (text := id_text(each).strip())]


def _pop_first(properties: dict[str, Any], names: tuple[str, ...]) -> Any:
    """Remove and return the first of these properties, in any case and spelling; None where there is none."""
    key = next(
        (each for each in _matching_keys(tuple(properties), names) if properties[each] == properties[each]), None
    )
    return None if key is None else properties.pop(key)


@lru_cache(maxsize=1024)  # the nodes of a graph have few sets of keys
def _matching_keys(keys: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the keys that are one of `names` but for case, blanks and hyphens, in the order of `names`."""
    plain = {re.sub(r"[\s-]+", "_", key.lower()): key for key in reversed(keys)}
    return tuple(plain[name] for name in names if name in plain)


def split_labels(text: str | None, separators: str = ";") -> list[str]:
    """Return the labels in a text such as `Person;Actor`.

    >>> split_labels("Person;Actor"), split_labels(":Person:Actor", ":"), split_labels(None)
    (['Person', 'Actor'], ['Person', 'Actor'], [])
    """
    return [label for each in re.split(f"[{re.escape(separators)}]", text or "") if (label := each.strip())]


def undirected_note(n_edges: int) -> str:
    """Return the note on a graph without directions."""
    return f"Its {n_edges:,} edges are undirected: each is stored once, and both ends see it." if n_edges else ""


def with_judgments(table: pa.Table, judged: Judgments, left_out: list[str]) -> pa.Table:
    """Return the queries that have judgments, with the columns `answer_ids` and `relevance` in place of their own.

    `left_out` gets a sentence on queries without judgments, and one on judgments of other queries.
    """
    ids = [str(each) for each in table["id"].to_pylist()]
    is_judged = pa.array([each in judged for each in ids], pa.bool_())
    if n_without := sum(each not in judged for each in ids):
        left_out.append(f"{n_without:,} of {len(ids):,} queries, which have no judgment.")
    if strange := [each for each in judged if each not in set(ids)]:
        left_out.append(f"Judgments of {len(strange):,} queries that are not given: {', '.join(strange[:_NAMED])}.")
    golds = [judged[each] for each in ids if each in judged]
    table = table.filter(is_judged)
    table = table.drop_columns([each for each in table.column_names if each in ("answer_ids", RELEVANCE)])
    table = table.append_column("answer_ids", arrow_array([[*gold] for gold in golds], pa.list_(pa.string())))
    return table.append_column(RELEVANCE, arrow_array([[*gold.values()] for gold in golds], pa.list_(pa.int64())))
