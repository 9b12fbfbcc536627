"""Tables of a knowledge base: reading, checking, and numbering of nodes, types and relations.

`KnowledgeBase` is made from them; `building` writes and checks them. Numbers and order of nodes, types and relations
are those of released datasets, stores and documents: they stay.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kbbench_hf.errors import DataError, first_of
from kbbench_hf.files.arrow import arrow_array, arrow_numbers, numpy_numbers
from kbbench_hf.files.table_files import require_columns, text_column
from kbbench_hf.knowledge_base.graph import Graph

NODE_COLUMNS = ("id", "type", "name", "text")
EDGE_COLUMNS = ("head", "relation", "tail")
SCHEMA_COLUMNS = ("kind", "id", "name")
_TEXTS = ("name", "text", "details")
_NUMBERED = ("id", "type", *EDGE_COLUMNS)
_SHOWN = 10
"""Edges that a message lists."""

Record = dict[str, Any]
"""A JSON object, such as `details` hold."""


def parse_record(text: str) -> Record:
    """Return the JSON object in `details`; other text as {"details": text}.

    msgspec is fast; NaN and halves of surrogate pairs are not strict JSON, and need Python's own parser.
    """
    for decode in (msgspec.json.decode, json.loads):
        with suppress(ValueError, RecursionError):
            record = decode(text)
            return record if isinstance(record, dict) else {"details": text}
    return {"details": text}


def read_dataset_table(path: Path, columns: Sequence[str]) -> pa.Table:
    """Read a Parquet file with at least `columns`, for `number`: texts are large strings without nulls.

    Columns are read one by one, so that at most one of them is in memory twice.

    Raises:
        DataError: the file is malformed or a column is missing.
    """
    import pyarrow.parquet as pq

    try:
        names = pq.read_schema(path, memory_map=True).names
        repeated = [name for name in ("type", "relation") if name in names]
        file = pq.ParquetFile(path, memory_map=True, read_dictionary=repeated)  # read_table would import pandas
        table = pa.table([_to_large_strings(name, file.read([name]).column(0)) for name in names], names)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path} cannot be read as a table: {error}. Expected Parquet; build it again.") from error
    require_columns(table, columns, str(path))
    return table


def number(nodes: pa.Table, edges: pa.Table, schema: pa.Table | None = None) -> tuple[pa.Table, pa.Table, Graph]:
    """Check the tables described in `knowledge_base` and give every node, type and relation its number.

    Returned are the nodes, with large strings, the edges, with row numbers, and the graph that they form.

    Raises:
        DataError: a null or repeated id, a node without a type, an edge to an unknown node, a type or relation that
            `schema` does not list. The message lists the first ten.
    """
    if not len(nodes):
        raise DataError("The table of nodes is empty; expected at least one node.")
    require_columns(nodes, NODE_COLUMNS, "The table of nodes")
    require_columns(edges, EDGE_COLUMNS, "The table of edges")
    nodes, edges = _in_one_chunk(nodes), _in_one_chunk(edges)
    ids = _checked_ids(nodes["id"])
    heads, tails = _checked_ends(edges, "head", ids), _checked_ends(edges, "tail", ids)
    node_types = _numbered_names(schema, "node_type", nodes["type"], "node type")
    relations = _numbered_names(schema, "relation", edges["relation"], "relation")
    type_ids = _name_numbers(nodes["type"], node_types).astype(np.min_scalar_type(len(node_types)))
    relation_ids = _name_numbers(edges["relation"], relations).astype(np.min_scalar_type(len(relations)))
    graph = Graph.from_edges(node_types, relations, type_ids, heads, relation_ids, tails)
    width = np.int32 if len(nodes) < 2**31 else np.int64
    nodes = _replace_columns(nodes, id=ids, type=_dictionary_column(type_ids, node_types))
    edges = _replace_columns(edges, head=heads.astype(width), relation=relation_ids, tail=tails.astype(width))
    return nodes, edges, graph


def schema_table(nodes: pa.Table, edges: pa.Table, node_types: Sequence[str], relations: Sequence[str]) -> pa.Table:
    """Return the `schema` table of a knowledge base whose types and relations have the given order."""
    order = _schema_of_rows([(*each, None, None, None) for each in _numbered_rows(node_types, relations)])
    _, numbered, graph = number(nodes.select(NODE_COLUMNS), edges.select(EDGE_COLUMNS), order)
    return numbered_schema(node_types, relations, graph.type_ids, numbered)


def _numbered_rows(node_types: Sequence[str], relations: Sequence[str]) -> list[tuple[str, int, str]]:
    listed = (("node_type", node_types), ("relation", relations))
    return [(kind, number, name) for kind, names in listed for number, name in enumerate(names)]


def numbered_schema(
    node_types: Sequence[str], relations: Sequence[str], type_ids: NDArray[np.integer], edges: pa.Table
) -> pa.Table:
    """Return the `schema` table of a knowledge base whose types of nodes and columns of edges are numbers."""
    counts = [*np.bincount(type_ids, minlength=len(node_types))]
    counts += [*np.bincount(numpy_numbers(edges["relation"]), minlength=len(relations))]
    listed = _numbered_rows(node_types, relations)
    rows: list[tuple[object, ...]] = [(*one, None, None, int(n)) for one, n in zip(listed, counts, strict=True)]
    for head, relation, tail, n in tuples(node_types, relations, type_ids, edges):
        rows.append(("tuple", relations.index(relation), relation, head, tail, n))
    return _schema_of_rows(rows)


def _dictionary_column(numbers: NDArray[np.integer], names: Sequence[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(arrow_numbers(numbers.astype(np.int32)), arrow_array(names, pa.string()))


def _schema_of_rows(rows: Sequence[Sequence[object]]) -> pa.Table:
    kinds = {"kind": pa.string(), "id": pa.int64(), "name": pa.string()}
    kinds |= {"head_type": pa.string(), "tail_type": pa.string(), "n": pa.int64()}
    arrays = map(arrow_array, zip(*rows, strict=True), kinds.values())
    return pa.Table.from_arrays(list(arrays), schema=pa.schema(kinds))


def tuples(
    node_types: Sequence[str], relations: Sequence[str], type_ids: NDArray[np.integer], edges: pa.Table
) -> list[tuple[str, str, str, int]]:
    """Return each (head type, relation, tail type) that occurs, and its number of edges, parallel ones included.

    They are in the order of the numbers of relation, head type and tail type.
    """
    heads, relation_ids, tails = (numpy_numbers(edges[name]) for name in EDGE_COLUMNS)
    types, n_types = type_ids.astype(np.int32), len(node_types)
    codes = relation_ids.astype(np.int32) * (n_types * n_types) + types[heads] * n_types
    codes += types[tails]  # in place: the arrays are as long as the edges
    counts = np.bincount(codes)
    found = []
    for code in np.flatnonzero(counts).tolist():
        relation, (head, tail) = code // n_types**2, divmod(code % n_types**2, n_types)
        found.append((node_types[head], relations[relation], node_types[tail], int(counts[code])))
    return found


def _in_one_chunk(table: pa.Table) -> pa.Table:
    """Return the table in one chunk without schema metadata; its texts are large strings, to fit into one chunk."""
    names = table.column_names
    return pa.table([_to_large_strings(name, table[name]) for name in names], names)


def _to_large_strings(name: str, column: pa.ChunkedArray) -> pa.Array:
    if name in ("type", "name", "text", "relation"):
        column = text_column(column, f"The column {name!r}")
    if name not in _NUMBERED and (pa.types.is_string(column.type) or name in _TEXTS):
        column = column.cast(pa.large_string())
        if name in ("name", "text") and column.null_count:
            column = pc.fill_null(column, "")
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _replace_columns(table: pa.Table, **columns: object) -> pa.Table:
    """Return the table with these columns in place of those of the same name."""
    for name, values in columns.items():
        values = arrow_numbers(values) if isinstance(values, np.ndarray) else values
        table = table.set_column(table.column_names.index(name), name, values)
    return table


def _checked_ids(column: pa.ChunkedArray) -> pa.Array:
    """Return the ids as int64 where every one is a canonical decimal number, else as large strings; check them.

    Where one is below 0 they are strings: rankings keep such numbers for what is no node.
    """
    ids = _to_ids(column)
    if pa.types.is_int64(ids.type) and (pc.min(ids).as_py() or 0) < 0:
        ids = ids.cast(pa.large_string())
    empty = ids.is_null()
    if not pa.types.is_int64(ids.type):
        empty = pc.or_kleene(empty, pc.invert(pc.binary_length(ids).cast(pa.bool_())))
    if n_empty := pc.sum(empty).as_py():
        raise DataError(
            f"{n_empty} nodes have no id, the first in row {pc.index(empty, True).as_py() + 1}; expected an id for "
            "each. Fill in the column 'id'."
        )
    if len(pc.unique(ids)) < len(ids):
        counts = pc.value_counts(ids)
        repeated = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
        shown = first_of(repeated.to_pylist(), show=repr)
        raise DataError(f"{len(repeated)} node ids occur more than once: {shown}. Every node needs its own id.")
    return ids


def _to_ids(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column of ids as int64 where all are canonical decimal numbers that it holds, else as large strings."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_integer(values.type):
        try:
            return values.cast(pa.int64())
        except pa.ArrowInvalid:  # unsigned numbers that int64 does not hold
            return values.cast(pa.large_string())
    texts = values.cast(pa.large_string())
    canonical = pc.all(pc.match_substring_regex(texts, r"^(0|-?[1-9][0-9]{0,17})$"), min_count=0).as_py()
    return texts.cast(pa.int64()) if canonical and len(texts) else texts


def without_dangling(nodes: pa.Table, edges: pa.Table) -> tuple[pa.Table, int, str]:
    """Return the edges whose head and tail are nodes, how many others there are, and the first ten in words."""
    ids = _checked_ids(nodes["id"])
    ends = {end: _rows_of_ends(edges[end], ids) for end in ("head", "tail")}
    dangling = (ends["head"][0] < 0) | (ends["tail"][0] < 0)
    rows = np.flatnonzero(dangling).tolist()
    shown = [
        f"{named[row].as_py()!r} ({end}, row {row + 1})"
        for row in rows[:_SHOWN]
        for end, (found, named) in ends.items()
        if found[row] < 0
    ]
    return edges.filter(pa.array(~dangling)), len(rows), ", ".join(shown) + (" ..." if len(rows) > _SHOWN else "")


def _checked_ends(edges: pa.Table, end: str, ids: pa.Array) -> NDArray[np.int64]:
    """Return the row number of each edge's head or tail."""
    rows, named = _rows_of_ends(edges[end], ids)
    unknown = np.flatnonzero(rows < 0)
    if len(unknown):
        strangers = first_of(named.take(pa.array(unknown)).unique().to_pylist(), show=repr)
        raise DataError(
            f"{len(unknown)} edges have a {end} that is not a node id: {strangers}. "
            "Add these nodes or remove the edges."
        )
    return rows


def _rows_of_ends(column: pa.ChunkedArray, ids: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Return the row number of the node of each id in a column of edges, -1 where no node has it; and the ids."""
    named = column.combine_chunks()
    if pa.types.is_dictionary(named.type):  # each distinct id once: of ten million edges, texts would fill the memory
        rows, _ = _rows_of_ends(pa.chunked_array([named.dictionary]), ids)
        return rows[numpy_numbers(named.indices)], named
    if pa.types.is_large_string(ids.type):
        values = named.cast(pa.large_string())
    else:
        values = _to_ids(without_zeros(named))
    if values.type != ids.type:
        values, ids = values.cast(pa.large_string()), ids.cast(pa.large_string())
    if (by_number := _rows_by_number(values, ids)) is not None:
        return by_number, values
    found = pc.index_in(values, value_set=ids)
    return numpy_numbers(pc.fill_null(found, -1) if found.null_count else found).astype(np.int64), values


def _rows_by_number(values: pa.Array, ids: pa.Array) -> NDArray[np.int64] | None:
    """Return what `_rows_of_ends` does for ids that are numbers after one prefix, as `Q42`; None where it cannot.

    An array by number takes one access to memory for a lookup; a hash table of texts takes several, which all wait.
    """
    if not pa.types.is_int64(ids.type) and len(ids):
        first, last = pc.min_max(ids).as_py().values()
        n_equal = next((n for n, pair in enumerate(zip(first, last, strict=False)) if len({*pair}) == 2), len(first))
        prefix = first[:n_equal].rstrip("0123456789")
        values, ids = (_without_prefix(each, prefix) for each in (values, ids))
    if not (len(ids) and pa.types.is_int64(ids.type) and pa.types.is_int64(values.type)) or values.null_count:
        return None
    numbers, known = numpy_numbers(values), numpy_numbers(ids)
    low, high = int(known.min()), int(known.max())
    if high - low >= 4 * len(known):
        return None
    rows = np.full(high - low + 2, -1, np.int64)  # the last one for numbers beyond
    rows[known - low] = np.arange(len(known))
    found: NDArray[np.int64] = rows[np.clip(numbers, low - 1, high + 1) - low]  # which is the place -1, too
    return found


def _without_prefix(texts: pa.Array, prefix: str) -> pa.Array:
    """Return the canonical numbers after a prefix that all texts have; the texts where one has none."""
    if pc.all(pc.starts_with(texts, prefix)).as_py():
        rest = pc.utf8_slice_codeunits(texts, len(prefix))
        with suppress(pa.ArrowInvalid):
            numbers = rest.cast(pa.int64())
            if numbers.cast(rest.type).equals(rest):
                return numbers
    return texts


def without_zeros(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return ids of integer nodes without the ".0" of integers that became floats on their way into csv."""
    if pa.types.is_integer(column.type) or not pc.any(pc.match_substring(column, ".")).as_py():
        return column
    return pc.replace_substring_regex(column, r"^(-?[0-9]+)\.0+$", r"\1")


def is_dense(ids: pa.Array) -> bool:
    """Whether the ids are 0, 1, 2 ... in row order, so that id and row are the same."""
    return pa.types.is_int64(ids.type) and np.array_equal(numpy_numbers(ids), np.arange(len(ids)))


def _numbered_names(schema: pa.Table | None, kind: str, used: pa.ChunkedArray, what: str) -> list[str]:
    """Return the names of the node types or relations by number."""
    distinct = pc.unique(used)
    if distinct.null_count or "" in (names := distinct.to_pylist()):
        raise DataError(f"A row has no {what}; expected a name in every row. Fill the column.")
    if schema is None:
        return sorted(names)
    listed = sorted(
        (row["id"], row["name"]) for row in schema.select(SCHEMA_COLUMNS).to_pylist() if row["kind"] == kind
    )
    order = [name for _, name in listed]
    if [number for number, _ in listed] != list(range(len(listed))) or len(set(order)) != len(order):
        raise DataError(f"The schema numbers its {what}s {listed}; expected 0, 1, 2 ... each with its own name.")
    if strangers := sorted(set(names) - set(order)):
        raise DataError(f"The schema does not list the {what} {', '.join(map(repr, strangers))}. Add it to the schema.")
    return order


def _name_numbers(column: pa.ChunkedArray, names: list[str]) -> NDArray[np.int64]:
    encoded = column.combine_chunks().dictionary_encode()
    places = {name: number for number, name in enumerate(names)}
    numbers = np.array([places[name] for name in encoded.dictionary.to_pylist()], np.int64)
    of_rows: NDArray[np.int64] = numbers[numpy_numbers(encoded.indices)]
    return of_rows
