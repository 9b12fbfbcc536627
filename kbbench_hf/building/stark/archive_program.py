"""The program that reads a STaRK archive of pickles, in a process of its own, and writes Arrow and NumPy files.

`archives` starts it. The job comes as JSON on standard input (its keys: `archives._run_program`); what happens goes to
standard output, one JSON object a line: `{"reading": member}` before each member, then `{"done": ...}` or
`{"refused": why}`. It imports NumPy, Arrow and `unpickle` only, since its memory and import path are limited.
"""

import io
import json
import sys
import zipfile
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kbbench_hf.building.stark.unpickle import (
    Capped,
    Items,
    ReferredBack,
    RefusedArchive,
    audit,
    check_names,
    limit,
    read_tensor,
)
from kbbench_hf.files.arrow import arrow_array, arrow_numbers

NODES_PER_BATCH = 8_192
"""Nodes that are in memory together."""
TYPE_NAMES = {"node_types": "node_type_dict.pkl", "relations": "edge_type_dict.pkl"}
"""What is listed -> the member that lists it."""
DAMAGED = (zipfile.BadZipFile, OSError, ValueError, MemoryError, NotImplementedError)
"""What opening a zip file that is none can raise."""


@contextmanager
def member(archive: zipfile.ZipFile, name: str, cap: int) -> Iterator[io.BufferedReader]:
    """Open a member of an archive for at most `cap` bytes; whatever goes wrong is refused under its name."""
    say({"reading": name})
    if name not in archive.namelist():
        there = ", ".join(sorted(archive.namelist())[:10]) or "nothing"
        raise RefusedArchive(f"there is no member {name!r}; there is {there}")
    try:
        info = archive.getinfo(name)
        if info.file_size > cap:
            raise RefusedArchive(f"unpacks to {info.file_size:,} bytes; at most {cap:,} were expected")
        with archive.open(info) as stream:
            yield io.BufferedReader(Capped(stream, cap), 1 << 20)
    except ReferredBack:
        raise
    except RefusedArchive as why:
        raise RefusedArchive(f"{name!r} {why}") from None
    except MemoryError:
        raise RefusedArchive(f"{name!r} needs more memory than a release does") from None
    except Exception as error:  # whatever the content of a hostile file can raise
        raise RefusedArchive(f"{name!r} is damaged: {type(error).__name__}: {error}") from None


def write_nodes(
    items: Iterable[tuple[object, object]], n_bytes: int, names_in: Mapping[str, list[str]], out: Path
) -> None:
    """Write `nodes.arrow`: number, name and record as JSON (`id name details`) of each node, in the archive's order.

    A pickle can name one list a thousand times in a thousand others; its records are therefore not written once they
    count more items than the pickle has bytes.
    """
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("details", pa.string())])
    numbers = array("q")
    with pa.OSFile(str(out / "nodes.arrow"), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        left = iter(items)
        while batch := list(islice(left, NODES_PER_BATCH)):
            names, details = [], []
            for node, record in batch:
                if type(node) is not int:
                    raise RefusedArchive(f"has a node {node!r}; expected numbers")
                if type(record) is not dict:
                    raise RefusedArchive(f"has a {type(record).__name__} for node {node}; expected a dictionary")
                n_bytes -= count_items(record, n_bytes)
                names.append(name_of(record, names_in))
                details.append(json.dumps(record, ensure_ascii=False))
                numbers.append(node)
            columns = [arrow_numbers(np.array(numbers[-len(batch) :], np.int64))]
            # a lone surrogate, which a pickle can hold and Arrow cannot, becomes "?"
            columns += [arrow_array(texts, pa.string(), errors="replace") for texts in (names, details)]
            writer.write_batch(pa.record_batch(columns, schema))
    if not numbers or not np.array_equal(np.sort(numbers), np.arange(len(numbers))):
        raise RefusedArchive(f"has {len(numbers):,} nodes that are not numbered from 0")


def count_items(record: object, most: int) -> int:
    """Return how many values a record holds at all depths; refuse more than `most`."""
    n, left = 0, [record]
    while left:
        value = left.pop()
        n += 1
        if n > most:
            raise RefusedArchive("unpacks to more values than it has bytes")
        if isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, list | tuple):
            left.extend(value)
    return n


def name_of(record: Mapping[object, object], names: Mapping[str, list[str]]) -> str:
    """Return the text of the first key that the record has; "" where it is no text, or one that stands for no name.

    >>> [name_of(record, {"title": [], "DisplayName": ["-1"]}) for record in ({"title": "-1"}, {"DisplayName": "-1"})]
    ['-1', '']
    """
    for key, nothing in names.items():
        if key in record:
            value = record[key]
            return value if isinstance(value, str) and value not in nothing else ""
    return ""


def types(names: Mapping[object, object]) -> list[str]:
    """Return the names of types in the order of their numbers."""
    order = [names.get(number) for number in range(len(names))]
    if not all(isinstance(name, str) for name in order):
        raise RefusedArchive("does not number its types from 0, each with a name")
    return [str(name) for name in order]


def convert(job: dict[str, Any]) -> dict[str, list[str]]:
    """Read the archive and write its content to the job's folder; return the names of types that it lists."""
    out, caps = Path(job["out"]), job["caps"]
    with zipfile.ZipFile(job["archive"]) as archive:
        check_names(archive)

        def read(name: str) -> AbstractContextManager[io.BufferedReader]:
            return member(archive, f"{job['folder']}/{name}", caps[name])

        there, listed = set(archive.namelist()), {}
        for what, name in TYPE_NAMES.items():
            if f"{job['folder']}/{name}" in there or not job["without_type_names"]:
                with read(name) as stream:
                    listed[what] = types(dict(Items(stream)))
        for name, dimensions in (("node_types", 1), ("edge_types", 1), ("edge_index", 2)):
            with read(f"{name}.pt") as stream:
                np.save(out / f"{name}.npy", read_tensor(stream, dimensions))
        for keep in (False, True):  # again, where a record refers back to what was let go
            with suppress(ReferredBack), read("node_info.pkl") as stream:
                n_bytes = archive.getinfo(f"{job['folder']}/node_info.pkl").file_size
                write_nodes(Items(stream, keep), n_bytes, job["names_in"], out)
                break
    return listed


def say(message: Mapping[str, object]) -> None:
    """Write one line to whoever started this process."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Do the job that stands on standard input."""
    job = json.loads(sys.stdin.read())
    limit(job["memory_bytes"], job["cpu_seconds"])
    sys.addaudithook(audit)
    try:
        say({"done": convert(job)})
    except RefusedArchive as why:
        say({"refused": str(why)})
    except DAMAGED as error:
        say({"refused": f"the archive is damaged: {error or type(error).__name__}"})
