"""KnowledgeBase: nodes, texts and edges, looked up by id, name, type, value and relation; stored and memory-mapped.

A store is written atomically, from the published tables of a dataset folder. Benchmarks, retrievers, agents, reports
and synthesis open knowledge bases here. The files of a store and the content hash, which runs and caches record, stay
for each `FORMAT`.
"""

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from kbbench_hf.addresses import imported
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files import user_path
from kbbench_hf.files.arrow import arrow_numbers, numpy_numbers
from kbbench_hf.files.datasets import MANIFEST
from kbbench_hf.files.table_files import DETAILS, read_table
from kbbench_hf.files.writing import new_folder
from kbbench_hf.knowledge_base import tables
from kbbench_hf.knowledge_base.graph import Adjacency, Direction, Graph, Neighbors, Rows, official_graph

FORMAT = 1
"""Format of a store's files; stores of other formats are refused."""
FACTS = "knowledge_base.json"
"""The file of a store with its facts: format, content hash, node types, relations."""
CACHE = ".knowledge_base"
"""The folder of a dataset with its stores, by revision."""
FIND_DATASET = "kbbench_hf.benchmarks:find_dataset"
"""What finds a dataset's folder by its name; benchmarks come after knowledge bases in the import order."""


def map_store(store: Path) -> tuple[pa.Table, pa.Table, Graph, str]:
    """Open a store through memory maps: nodes, edges, the graph and the content hash.

    Raises:
        DataError: the store was written by another version.
    """
    facts = _read_facts(store)
    sides = [
        Adjacency(
            _map_array(store, f"{side}.indptr"), _map_array(store, f"{side}.indices"), max(len(facts["relations"]), 1)
        )
        for side in (["out"] if facts["symmetric"] else ["out", "in"])
    ]
    node_types, relations = tuple(facts["node_types"]), tuple(facts["relations"])
    graph = Graph(node_types, relations, _map_array(store, "types"), sides[0], sides[-1])
    return _read_arrow(store / "nodes.arrow"), _read_arrow(store / "edges.arrow"), graph, facts["hash"]


def is_dataset(folder: Path) -> bool:
    """Whether a folder holds the Parquet files of nodes and edges."""
    return all(any((folder / "data" / config).glob("*.parquet")) for config in ("nodes", "edges"))


def stores_of(folder: Path) -> list[Path]:
    """Return where the store of a dataset folder may be, the best place first.

    That is in the folder, unless it is in a Python package, and then under `$XDG_CACHE_HOME` (`~/.cache`). All folders
    share that, so it needs the revision of a manifest.
    """
    digest = revision(folder)
    packaged = any((parent / "__init__.py").is_file() for parent in folder.resolve().parents)
    stores = [] if packaged else [folder / CACHE / digest]
    if (folder / MANIFEST).is_file():
        with suppress(RuntimeError):  # no home folder
            cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
            stores.append(cache / "kbbench-hf" / "knowledge_base" / f"{digest}-{FORMAT}")
    return stores


def revision(folder: Path) -> str:
    """Return the revision of a dataset folder: its manifest's, else a hash of its files' sizes and times."""
    manifest = folder / MANIFEST
    if manifest.is_file():
        return str(json.loads(manifest.read_text(encoding="utf-8"))["revision"])
    files = sorted(
        file for config in ("nodes", "edges", "schema") for file in (folder / "data" / config).glob("*.parquet")
    )
    facts = [(str(file.relative_to(folder)), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:40]


def dataset_table(folder: Path, config: str) -> pa.Table | None:
    """Return `nodes`, `edges` or `schema` of a dataset folder; None where it has no such config."""
    columns = {"nodes": tables.NODE_COLUMNS, "edges": tables.EDGE_COLUMNS, "schema": tables.SCHEMA_COLUMNS}[config]
    files = sorted((folder / "data" / config).glob("*.parquet"))
    return pa.concat_tables([tables.read_dataset_table(file, columns) for file in files]) if files else None


def _write_batch(sink: object, table: pa.Table) -> None:
    """Write a table as one uncompressed record batch, so that each column can be mapped as one piece."""
    with pa.ipc.new_file(sink, table.schema) as writer:
        for batch in table.combine_chunks().to_batches():
            writer.write_batch(batch)


def _read_facts(store: Path) -> tables.Record:
    facts: tables.Record = json.loads((store / FACTS).read_text(encoding="utf-8"))
    if facts["format"] != FORMAT:
        raise DataError(f"{store} has format {facts['format']}; expected {FORMAT}. Remove it and build it again.")
    return facts


def _read_arrow(file: Path) -> pa.Table:
    with pa.memory_map(str(file)) as source:
        return pa.ipc.open_file(source).read_all()


def _map_array(store: Path, name: str) -> NDArray[np.integer]:
    """Map an array; as a plain ndarray, because slicing a `np.memmap` is ten times slower."""
    array: NDArray[np.integer] = np.load(store / f"{name}.npy", mmap_mode="r")
    return array.view(np.ndarray)


@dataclass(frozen=True, eq=False)
class KnowledgeBase:
    """A semi-structured knowledge base. Its nodes are row numbers; `rows` and `ids` lead to the ids and back.

    >>> nodes = pa.table({"id": ["a", "p", "q"], "type": ["author", "paper", "paper"], "name": ["Ada", "On P", "On Q"],
    ...                   "text": ["", "About P.", "About Q."]})
    >>> edges = pa.table({"head": ["a", "a", "q"], "relation": ["writes", "writes", "cites"], "tail": ["p", "q", "p"]})
    >>> kb = KnowledgeBase.from_arrow(nodes, edges)
    >>> kb.neighbors(0, "writes").tolist(), kb.neighbors(1, "cites", "in").tolist()
    ([1, 2], [2])
    >>> kb.ids(kb.of_type("paper")), kb.named("ada", fold_case=True).tolist()
    (['p', 'q'], [0])
    >>> kb
    <KnowledgeBase 3 nodes of 2 types, 3 edges of 2 relations>
    """

    nodes: pa.Table
    """Columns `id type name text [details]` and any further ones; one chunk each."""
    edges: pa.Table
    """Columns `head relation tail` as numbers, one row per edge as released, and any further ones."""
    graph: Graph
    stored_hash: str | None = None

    @classmethod
    def from_arrow(cls, nodes: pa.Table, edges: pa.Table, schema: pa.Table | None = None) -> Self:
        """Make a knowledge base in memory from the tables that `kbbench_hf.knowledge_base` describes.

        Raises:
            DataError: see `tables.number`; edges to unknown nodes are refused and listed.
        """
        return cls(*tables.number(nodes, edges, schema))

    @classmethod
    def from_tables(cls, nodes: Path | str, edges: Path | str, schema: Path | str | None = None) -> Self:
        """Make a knowledge base in memory from csv or Parquet files.

        Nodes need the columns `id,type,name,text`, edges `head,relation,tail`; further ones are kept.
        """
        listed = None if schema is None else read_table(Path(schema), tables.SCHEMA_COLUMNS)
        return cls.from_arrow(
            read_table(Path(nodes), tables.NODE_COLUMNS, [DETAILS]),
            read_table(Path(edges), tables.EDGE_COLUMNS, [DETAILS]),
            listed,
        )

    @classmethod
    def build(cls, nodes: pa.Table, edges: pa.Table, schema: pa.Table | None, out: Path | str) -> Self:
        """Write the store of a knowledge base to the folder `out` and open it. Equal tables give equal bytes."""
        cls.from_arrow(nodes, edges, schema).save(out)
        return cls.open(out)

    @classmethod
    def open(cls, name: Path | str) -> Self:
        """Open the knowledge base of a dataset, of its folder (`data/nodes`, `data/edges`), or a store's folder.

        The store of a dataset is made on first use; where it cannot be written, the knowledge base is made in memory.

        >>> KnowledgeBase.open("mini-stark").names([0])
        ['Aldermouth']

        Raises:
            UsageError: there is no dataset of this name, or the folder holds no knowledge base.
            DataError: the store was written by another version; it has to be made again.
        """
        path = user_path(name)
        if not path.is_dir():
            path = imported(FIND_DATASET)(str(name)).path
        if (path / FACTS).is_file():
            return cls(*map_store(path))
        if not is_dataset(path):
            raise UsageError(
                f"{path} holds no knowledge base: expected {FACTS}, or data/nodes and data/edges with Parquet "
                "files. Build it with: kbbench build"
            )
        stores = stores_of(path)
        for store in stores:
            if (store / FACTS).is_file():
                return cls(*map_store(store))
        made = cls.from_arrow(*(dataset_table(path, config) for config in ("nodes", "edges", "schema")))
        for store in stores:
            with suppress(OSError):  # read-only folder: the store only saves time
                made.save(store)
                return cls(*map_store(store))
        return made

    def save(self, out: Path | str) -> None:
        """Write the store to a folder that does not exist yet; it is there whole or not at all.

        Raises:
            UsageError: the folder has something else than this store.
        """
        out = Path(out)
        try:
            with new_folder(out) as partial:
                self._write_files(partial)
        except FileExistsError:
            if not (out / FACTS).is_file() or _read_facts(out)["hash"] != self.hash:
                raise UsageError(f"{out} is in the way; expected no such folder, or an empty one. Remove it.") from None

    def _write_files(self, folder: Path) -> None:
        graph = self.graph
        for name, table in (("nodes", self.nodes), ("edges", self.edges)):
            with pa.OSFile(str(folder / f"{name}.arrow"), "wb") as sink:
                _write_batch(sink, table)
        np.save(folder / "types.npy", graph.type_ids)
        for side, adjacency in (("out", graph.out), *([] if graph.symmetric else [("in", graph.into)])):
            np.save(folder / f"{side}.indptr.npy", adjacency.indptr)
            np.save(folder / f"{side}.indices.npy", adjacency.indices)
        facts = {"format": FORMAT, "hash": self.hash, "node_types": graph.node_types, "relations": graph.relations}
        facts["symmetric"] = graph.symmetric
        (folder / FACTS).write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    def __repr__(self) -> str:
        nodes = f"{len(self):,} nodes of {len(self.graph.node_types)} types"
        return f"<KnowledgeBase {nodes}, {len(self.edges):,} edges of {len(self.graph.relations)} relations>"

    def __len__(self) -> int:
        """Return the number of nodes."""
        return self.graph.n_nodes

    @cached_property
    def hash(self) -> str:
        """The content hash: sha256 over nodes, edges, types and relations; equal for equal content, stored or not."""
        if self.stored_hash:
            return self.stored_hash
        digest = hashlib.sha256(json.dumps([self.graph.node_types, self.graph.relations]).encode())
        hashing = SimpleNamespace(write=digest.update, flush=lambda: None, closed=False)  # nothing is stored
        sink = pa.PythonFile(hashing, "w")
        for table in (self.nodes, self.edges):
            _write_batch(sink, table)
        return digest.hexdigest()

    @cached_property
    def official(self) -> Graph:
        """The graph as its authors' code sees it: undirected, one relation per pair of nodes (see `official_graph`).

        It is `graph` itself where every edge has its reverse and none stands twice, as in Prime.
        """
        if self.graph.symmetric and self.graph.n_edges == len(self.edges):
            return self.graph
        return official_graph(self.graph, *(self.edges[name].to_numpy() for name in tables.EDGE_COLUMNS))

    def rows(self, ids: Iterable[int | str]) -> NDArray[np.int64]:
        """Return the row number of each id.

        Raises:
            DataError: ids that no node has; the message lists the first ten.
        """
        wanted = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
        rows = list(map(self.row_of, wanted))
        if unknown := [one for one, row in zip(wanted, rows, strict=True) if row is None]:
            raise DataError(
                f"{len(unknown)} ids are not in the knowledge base: {', '.join(map(repr, unknown[:10]))}. "
                f"Expected ids such as {self.nodes['id'][0].as_py()!r}."
            )
        return np.array(rows, np.int64)

    def row_of(self, node_id: int | str) -> int | None:
        """Return the row number of an id; None where no node has it."""
        if self._is_dense:
            return int(node_id) if isinstance(node_id, int | np.integer) and 0 <= node_id < len(self) else None
        return self._row_of.get(node_id)

    def ids(self, rows: ArrayLike | None = None) -> list[int | str]:
        """Return the ids of these rows, of all rows where None."""
        return self._values("id", rows)

    def names(self, rows: ArrayLike | None = None) -> list[str]:
        """Return the names of these rows, of all rows where None; "" where a node has none."""
        return self._values("name", rows)

    def texts(self, rows: ArrayLike | None = None) -> list[str]:
        """Return the column `text` of these rows, of all rows where None; "" where a node has none."""
        return self._values("text", rows)

    def types(self, rows: ArrayLike | None = None) -> list[str]:
        """Return the type of these rows, of all rows where None."""
        numbers = self.graph.type_ids if rows is None else self.graph.type_ids[self.graph.checked(rows)]
        return [self.graph.node_types[number] for number in numbers.tolist()]

    def details(self, row: int) -> tables.Record:
        """Return the record in a node's `details`; empty where it has none, text that is none under "details"."""
        if "details" not in self.nodes.column_names:
            return {}
        text = self.nodes["details"][int(self.graph.checked(row)[0])].as_py()
        return tables.parse_record(text) if text else {}

    def of_type(self, node_type: str) -> NDArray[np.int64]:
        """Return the nodes of a type, ascending."""
        return self.graph.of_type(node_type)

    def tuples(self) -> list[tuple[str, str, str, int]]:
        """Return each (head type, relation, tail type) that occurs, and its number of edges as released."""
        return tables.tuples(self.graph.node_types, self.graph.relations, self.graph.type_ids, self.edges)

    def named(self, name: str, fold_case: bool = False) -> NDArray[np.int64]:
        """Return the nodes with exactly this name, or with this name but for case; ascending, empty if none has it."""
        key, rows = (name.casefold(), self._rows_of_folded_name) if fold_case else (name, self._rows_of_name)
        return np.array(rows.get(key, []), np.int64)

    def with_value(self, node_type: str, key: str, value: object) -> NDArray[np.int64]:
        """Return the nodes of a type whose column `key`, or else `key` in their `details`, equals `value`; ascending.

        A dot in `key` leads into nested records: "details.source". What a node does not have equals nothing.
        """
        rows = self.of_type(node_type)
        if key in self.nodes.column_names:
            values = self._values(key, rows)
        else:
            records: Iterable[Any] = map(self.details, rows.tolist())
            for part in key.split("."):
                records = [each.get(part) if isinstance(each, dict) else None for each in records]
            values = list(records)
        return np.array([row for row, one in zip(rows, values, strict=True) if one is not None and one == value], int)

    def neighbors(self, node: int, relation: str | None = None, direction: Direction = "out") -> Rows:
        """Return the neighbors of a node; see `Graph.neighbors`."""
        return self.graph.neighbors(node, relation, direction)

    def neighbors_of(self, nodes: ArrayLike, relation: str | None = None, direction: Direction = "out") -> Neighbors:
        """Return the neighbors of many nodes; see `Graph.neighbors_of`."""
        return self.graph.neighbors_of(nodes, relation, direction)

    def _values(self, name: str, rows: ArrayLike | None) -> list[Any]:
        column = self.nodes[name].chunk(0)
        column = column if rows is None else column.take(arrow_numbers(self.graph.checked(rows)))
        values: list[Any] = column.to_pylist()
        return values

    @cached_property
    def _is_dense(self) -> bool:
        return tables.is_dense(self.nodes["id"].chunk(0))

    @cached_property
    def _row_of(self) -> dict[int | str, int]:
        return {one: row for row, one in enumerate(self.ids())}

    @cached_property
    def id_places(self) -> NDArray[np.int64] | None:
        """The place of each row's id among the sorted ids; None where the rows are in this order."""
        order = numpy_numbers(pc.array_sort_indices(self.nodes["id"].chunk(0)))
        if (order[1:] > order[:-1]).all():
            return None
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        return places

    @cached_property
    def _rows_of_name(self) -> dict[str, list[int]]:
        return _index_names(self.names())

    @cached_property
    def _rows_of_folded_name(self) -> dict[str, list[int]]:
        return _index_names([name.casefold() for name in self.names()])


def _index_names(names: list[str]) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    return rows
