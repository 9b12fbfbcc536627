"""Reader of STaRK's knowledge bases: the released archive of pickles to tables of nodes, edges and schema.

No pickle is opened in this process: `archive_program` reads the archive in a separate process, which writes Arrow and
NumPy files. `release` builds the STaRK datasets from the tables; their order, types and names of columns stay.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kbbench_hf.errors import DataError
from kbbench_hf.knowledge_base.tables import numbered_schema

MEMBERS = (
    *("node_type_dict.pkl", "edge_type_dict.pkl", "node_types.pt", "edge_types.pt"),
    *("edge_index.pt", "node_info.pkl"),
)
NAMES_IN: Mapping[str, Sequence[str]] = {
    "name": ("", "nan"),
    "title": (),
    "DisplayName": ("-1",),
    **dict.fromkeys(("brand_name", "category_name", "color_name"), ()),
}
"""Key of a node's record that holds its name, over all three releases -> the texts that the authors' code takes for
none: it drops "nan" from Prime's records and skips "-1" in MAG's, but prints them as titles and names elsewhere."""
_EDGES_PER_CHUNK = 1 << 20
_MOST_EDGES = 100_000_000
"""Bound on the edges of a release whose number of edges is not known."""
_RECORD_BYTES = 1 << 15
"""A release's records take less than this each, on average."""
_EDGE_BYTES = 24
"""The authors' code for MAG saves ends and types of edges as views of one tensor, and so the whole of it twice."""
_SPARE_BYTES = 1 << 16
"""What a member may have beside its numbers or records: headers, names of types."""
_START = "import sys; sys.path += sys.argv[1:]; from kbbench_hf.building.stark.archive_program import main; main()"
PACKAGES = [str(Path(__file__).parents[3]), str(Path(np.__file__).parents[1]), str(Path(pa.__file__).parents[1])]
"""The program's import path: itself, NumPy and Arrow, and no user packages."""


@dataclass(frozen=True)
class Archive:
    """What is known of a released archive: the folder of its members, and what they must hold."""

    folder: str
    node_types: tuple[str, ...]
    relations: tuple[str, ...]
    n_nodes: int
    n_edges: int | None = None
    """As released, before upstream adds the reverse of each; None where it is not known."""
    nodes_by_type: Mapping[str, int] = field(default_factory=dict)
    without_type_names: bool = False
    """Whether the two members that name the types may be absent: the authors' code for MAG writes and reads none."""
    part: bool = False
    """Whether the archive may be smaller than the release and hold other counts."""


@contextmanager
def read_archive(file: Path, known: Archive, scratch: Path) -> Iterator[dict[str, pa.Table]]:
    """Yield the tables `nodes`, `edges` and `schema` of a released archive; they can be read while the block runs.

    `scratch` is a folder on a disk with room for the archive unpacked; nothing is left there.

    Raises:
        DataError: the archive is not what the release holds; the message names the member.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".kbbench-reading-", dir=scratch) as place:
        out = Path(place)
        listed = _run_program(file, known, out)
        _expect(file, "node types", tuple(listed.get("node_types", known.node_types)), known.node_types)
        _expect(file, "relations", tuple(listed.get("relations", known.relations)), known.relations)
        node_types, edge_types = np.load(out / "node_types.npy"), np.load(out / "edge_types.npy")
        ends = np.load(out / "edge_index.npy")
        with pa.memory_map(str(out / "nodes.arrow")) as source:
            records = pa.ipc.open_file(source).read_all()
            _check_counts(file, known, len(records), node_types, ends, edge_types)
            edges = pa.table({"head": ends[0], "relation": edge_types, "tail": ends[1]})
            yield {
                "nodes": _node_table(records, node_types, known),
                "edges": _edge_table(ends, edge_types, known),
                "schema": numbered_schema(known.node_types, known.relations, node_types, edges),
            }


def _run_program(file: Path, known: Archive, out: Path) -> dict[str, list[str]]:
    """Let a process of its own read the archive into `out`; return the names of node types and relations that it lists.

    Raises:
        DataError: the archive was refused, or the process died; the message names the member.
    """
    edges = known.n_edges or _MOST_EDGES
    sizes = dict.fromkeys(("edge_types.pt", "edge_index.pt"), _EDGE_BYTES * edges)
    sizes |= {"node_types.pt": 8 * known.n_nodes, "node_info.pkl": _RECORD_BYTES * known.n_nodes}
    caps = {name: sizes.get(name, 0) + _SPARE_BYTES for name in MEMBERS}
    size = _unpacked_bytes(file, {f"{known.folder}/{name}": cap for name, cap in caps.items()})
    job = {
        "archive": str(file.resolve()),
        "out": str(out),
        "folder": known.folder,
        "caps": caps,
        "names_in": NAMES_IN,
        "without_type_names": known.without_type_names,
        "memory_bytes": (1 << 30) + 16 * size,  # objects in memory against their pickle: up to about ten times
        "cpu_seconds": 60 + size // 1_000_000,
    }
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "SYSTEMROOT") if name in os.environ}
    with (
        (out / "errors").open("w") as errors,
        subprocess.Popen(  # noqa: S603 - this interpreter and a module of this package
            [sys.executable, "-I", "-S", "-B", "-c", _START, *PACKAGES],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**kept, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"},
            text=True,
        ) as process,
    ):
        try:
            last = _listen(process, json.dumps(job), file)
        finally:
            process.kill()
    if "done" in last:
        done: dict[str, list[str]] = last["done"]
        return done
    if "refused" in last:
        reason = last["refused"]
    else:
        ended = signal.Signals(-process.returncode).name if process.returncode < 0 else f"exit {process.returncode}"
        said = (out / "errors").read_text(errors="replace").strip().splitlines()[-1:]
        reason = f"{last.get('reading', 'the archive')!r} ended the reading process ({': '.join([ended, *said])})"
    raise DataError(
        f"{file}: {reason}. Expected the archive of snap-stanford/stark; nothing of it was run or kept. Fetch it again."
    )


def _listen(process: "subprocess.Popen[str]", job: str, file: Path) -> dict[str, Any]:
    """Give the process its job, show what it reads, and return its last message; {} where it sent none."""
    from rich.console import Console

    last: dict[str, Any] = {}
    assert process.stdin and process.stdout  # noqa: S101 (both are pipes)
    with suppress(BrokenPipeError):  # it died at once; its exit says why
        process.stdin.write(job)
        process.stdin.close()
    with Console(stderr=True).status(f"Reading {file.name}") as status:
        for line in process.stdout:
            last = json.loads(line)
            status.update(f"Reading {file.name}: {last.get('reading', '')}")
    process.wait()
    return last


def _unpacked_bytes(file: Path, caps: Mapping[str, int]) -> int:
    """Return what the members say they unpack to, none to more than its cap; 0 where that cannot be read."""
    with suppress(zipfile.BadZipFile, OSError, ValueError, NotImplementedError), zipfile.ZipFile(file) as archive:
        return sum(min(member.file_size, caps.get(member.filename, 0)) for member in archive.infolist())
    return 0


def _expect(file: Path, what: str, found: object, expected: object) -> None:
    if found != expected:
        raise DataError(
            f"{file}: {what} {found}; expected {expected}. Expected the archive of snap-stanford/stark. Fetch it again."
        )


def _check_counts(
    file: Path,
    known: Archive,
    n_nodes: int,
    node_types: NDArray[np.int64],
    ends: NDArray[np.int64],
    edge_types: NDArray[np.int64],
) -> None:
    """Refuse an archive whose counts are not the release's, or with a number of a type or node that does not exist."""
    if not known.part:
        _expect(file, "nodes", n_nodes, known.n_nodes)
    _expect(file, "types of nodes", len(node_types), n_nodes)
    _expect(file, "shape of the edges", ends.shape, (2, len(edge_types)))
    if known.n_edges is not None and not known.part:
        _expect(file, "edges", len(edge_types), known.n_edges)
    for what, numbers, bound in (
        ("node types", node_types, len(known.node_types)),
        ("edge types", edge_types, len(known.relations)),
        ("ends of edges", ends, n_nodes),
    ):
        wrong = (numbers < 0) | (numbers >= bound)
        if wrong.any():
            shown = ", ".join(map(str, np.unique(numbers[wrong])[:10].tolist()))
            raise DataError(
                f"{file}: {wrong.sum():,} {what} are not from 0 to {bound - 1:,}: {shown}. Expected the archive of "
                "snap-stanford/stark. Fetch it again."
            )
    counts = np.bincount(node_types, minlength=len(known.node_types)).tolist()
    by_type = dict(zip(known.node_types, counts, strict=True))
    for name, expected in known.nodes_by_type.items() if not known.part else ():
        _expect(file, f"nodes of type {name!r}", by_type[name], expected)


def _node_table(records: pa.Table, node_types: NDArray[np.int64], known: Archive) -> pa.Table:
    """Return the table of nodes, in the order of their numbers."""
    order = np.argsort(records["id"].to_numpy(), kind="stable")
    if not np.array_equal(order, np.arange(len(order))):
        records = records.set_column(2, "details", records["details"].cast(pa.large_string())).take(pa.array(order))
    kinds, texts = _type_names(node_types, known.node_types), pa.repeat("", len(records))
    columns = [np.arange(len(records)), kinds, records["name"], texts, records["details"]]
    return pa.table(columns, ["id", "type", "name", "text", "details"])


def _type_names(numbers: NDArray[np.int64], names: Sequence[str]) -> pa.Array:
    """Return the names of types from their numbers."""
    return pa.DictionaryArray.from_arrays(numbers.astype(np.int32), list(names)).cast(pa.string())


def _edge_table(ends: NDArray[np.int64], edge_types: NDArray[np.int64], known: Archive) -> pa.Table:
    """Return the edges in the released order and direction; names in chunks, for Arrow's strings end at 2 GB."""
    starts = range(0, len(edge_types), _EDGES_PER_CHUNK)
    relations = [_type_names(edge_types[start : start + _EDGES_PER_CHUNK], known.relations) for start in starts]
    return pa.table({"head": ends[0], "relation": pa.chunked_array(relations, pa.string()), "tail": ends[1]})
