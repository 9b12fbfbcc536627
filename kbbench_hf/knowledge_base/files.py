"""Files of a knowledge base: its store, written atomically and memory-mapped, and its published tables."""

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.datasets import MANIFEST
from kbbench_hf.files.writing import new_folder
from kbbench_hf.knowledge_base import tables
from kbbench_hf.knowledge_base.graph import Adjacency, Graph

FORMAT = 1
FACTS = "knowledge_base.json"
CACHE = ".knowledge_base"

Stored = tuple[pa.Table, pa.Table, Graph, str]
"""What a store holds: nodes, edges, the graph and the content hash."""


def content_hash(nodes: pa.Table, edges: pa.Table, graph: Graph) -> str:
    """Return the sha256 over nodes, edges, and the names of types and relations."""
    digest = hashlib.sha256(json.dumps([graph.node_types, graph.relations]).encode())
    sink = pa.PythonFile(_Digest(digest), "w")
    for table in (nodes, edges):
        _stream(sink, table)
    return digest.hexdigest()


def write_store(out: Path, stored: Stored) -> None:
    """Write a store to a new folder; one with the same content may already be there."""
    try:
        with new_folder(out) as partial:
            _write_files(partial, stored)
    except FileExistsError:
        if not (out / FACTS).is_file() or _facts(out)["hash"] != stored[-1]:
            raise UsageError(f"{out} is in the way; expected no such folder, or an empty one. Remove it.") from None


def map_store(store: Path) -> Stored:
    """Open a store through memory maps.

    Raises:
        DataError: the store was written by another version.
    """
    facts = _facts(store)
    sides = [
        Adjacency(_map(store, f"{side}.indptr"), _map(store, f"{side}.indices"), max(len(facts["relations"]), 1))
        for side in (["out"] if facts["symmetric"] else ["out", "in"])
    ]
    node_types, relations = tuple(facts["node_types"]), tuple(facts["relations"])
    graph = Graph(node_types, relations, _map(store, "types"), sides[0], sides[-1])
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


class _Digest:
    """A sink for Arrow that only hashes what is written."""

    closed = False

    def __init__(self, digest: "hashlib._Hash") -> None:
        self.digest = digest

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return len(data)

    def flush(self) -> None:
        pass


def _write_files(folder: Path, stored: Stored) -> None:
    nodes, edges, graph, digest = stored
    for name, table in (("nodes", nodes), ("edges", edges)):
        with pa.OSFile(str(folder / f"{name}.arrow"), "wb") as sink:
            _stream(sink, table)
    sides = {"out": graph.out} | ({} if graph.symmetric else {"in": graph.into})
    arrays = {"types": graph.type_ids}
    for side, adjacency in sides.items():
        arrays |= {f"{side}.indptr": adjacency.indptr, f"{side}.indices": adjacency.indices}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    facts = {
        "format": FORMAT,
        "hash": digest,
        "node_types": graph.node_types,
        "relations": graph.relations,
        "symmetric": graph.symmetric,
    }
    (folder / FACTS).write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _stream(sink: object, table: pa.Table) -> None:
    """Write a table as one uncompressed record batch, so that each column can be mapped as one piece."""
    with pa.ipc.new_file(sink, table.schema) as writer:
        for batch in table.combine_chunks().to_batches():
            writer.write_batch(batch)


def _facts(store: Path) -> tables.Record:
    facts: tables.Record = json.loads((store / FACTS).read_text(encoding="utf-8"))
    if facts["format"] != FORMAT:
        raise DataError(f"{store} has format {facts['format']}; expected {FORMAT}. Remove it and build it again.")
    return facts


def _read_arrow(file: Path) -> pa.Table:
    with pa.memory_map(str(file)) as source:
        return pa.ipc.open_file(source).read_all()


def _map(store: Path, name: str) -> NDArray[np.integer]:
    """Map an array; as a plain ndarray, because slicing a `np.memmap` is ten times slower."""
    array: NDArray[np.integer] = np.load(store / f"{name}.npy", mmap_mode="r")
    return array.view(np.ndarray)
