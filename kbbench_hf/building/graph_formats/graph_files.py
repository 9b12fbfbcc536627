"""Files of a graph: their kind (table, JSON, XML, text), and the columns of tables or keys of documents.

`probe` reads the beginning of a file, of a JSON document all; the detectors of graph formats decide by what it returns,
and their readers open the file again.
"""

import csv
import io
import json
import re
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec
import pyarrow as pa

from kbbench_hf.files.packing import OpenedFile
from kbbench_hf.files.rows import Unreadable
from kbbench_hf.files.table_files import (
    CHUNK,
    Row,
    csv_columns,
    file_errors,
    json_rows,
    open_text,
    read_csv,
    table_of_rows,
)

KNOWN = "one of the formats neo4j, apoc, primekg, kgx, graphrag, beir, graphml, llamaindex, node-link, rdf, obo, ogb"
"""What messages on files that cannot be read expect: the names in `FORMATS`."""
_N_PROBED = 20
"""Rows of JSON whose keys are the columns: the first may lack keys that others have."""
_DELIMITED = re.compile(r"[^\n]*[,;|\t][^\n]*")
"""A first line with a delimiter of csv."""
_ID_COLUMN = re.compile(r'"?[^\n":,;|\t]*:ID(\([^\n"()]*\))?(\{[^\n"{}]*\})?"?[ \r]*(?=\n|\Z)')
"""The header of Neo4j's import of nodes that have ids alone: a table whose lines have no delimiter."""


@dataclass(frozen=True)
class GraphFile:
    """One file: its kind, its first characters, and the columns of a table or the keys of a JSON document."""

    path: Path
    kind: Literal["parquet", "csv", "json lines", "json", "xml", "text", "folder"]
    head: str
    columns: tuple[str, ...]
    encoding: str = ""

    @property
    def is_table(self) -> bool:
        """Whether it has rows: csv, Parquet, JSON Lines, or JSON, which may be a list of objects or one."""
        return self.kind in ("parquet", "csv", "json lines", "json")

    def has(self, *columns: str) -> bool:
        """Return whether a table has these columns, or a JSON document these keys."""
        return set(columns) <= set(self.columns)

    def open(self) -> OpenedFile:
        """Open it again."""
        return open_text(self.path, self.encoding)

    @cached_property
    def document(self) -> Any:
        """The value of a JSON document; None for other files."""
        return _parse_document(self) if self.kind == "json" else None

    def table(self) -> pa.Table:
        """Return all rows as a table; cells of csv are text.

        Raises:
            DataError: it is no table, or damaged.
        """
        with file_errors(self.path, KNOWN), closing(self.open()) as opened:
            if self.kind == "csv" and len(self.columns) != 1:
                delimiter, names = csv_columns(opened, ())
                return read_csv(opened, self.path, delimiter, names)
            if self.kind in ("csv", "text"):  # lines of one cell, in which no delimiter is found
                return read_csv(opened, self.path, ",", _first_cells(self.head))
            if self.kind == "parquet":
                return _parquet(opened, self.path).read()
        return table_of_rows(self.rows())

    def rows(self) -> Iterator[Row]:
        """Yield the rows of a table; of JSON, its objects.

        Raises:
            DataError: it is no table, or damaged.
        """
        with file_errors(self.path, KNOWN), closing(self.open()) as opened:
            if self.kind == "parquet":
                for batch in _parquet(opened, self.path).iter_batches(CHUNK):
                    yield from batch.to_pylist()
            elif self.kind == "json lines":
                yield from json_rows(opened)
            elif self.kind == "json":
                yield from (row for row in _as_list(self.document) if isinstance(row, dict))
            else:
                for batch in self.table().to_batches(CHUNK):
                    yield from batch.to_pylist()


def _parquet(opened: OpenedFile, path: Path) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetFile(io.BytesIO(opened.read()) if opened.packed else path)


def probe(path: Path, encoding: str = "") -> GraphFile:
    """Open a file and return what it is; a folder is of the kind `folder`.

    Raises:
        DataError: it is damaged, or not text of a known encoding.
    """
    if path.is_dir():
        return GraphFile(path, "folder", "", ())
    with file_errors(path, KNOWN), closing(open_text(path, encoding)) as opened:
        if opened.head.startswith(b"PAR1"):
            return GraphFile(path, "parquet", "", tuple(_parquet(opened, path).schema_arrow.names), encoding)
        head = opened.head.decode("utf-8", "ignore")
        start = head.lstrip()
        if re.match(r'\{|\[\s*[\[{"\d-]', start):  # not `[Term]` of OBO, nor `[ a :Type ]` of Turtle
            return _probe_json(path, start, encoding)
        if re.match(r"<(\?xml|!--|!DOCTYPE|[A-Za-z_][\w.-]*(:[\w.-]+)?[\s>])", start):
            return GraphFile(path, "xml", start, (), encoding)
        columns = tuple(_first_cells(start)) if _ID_COLUMN.match(start) else ()
        if _DELIMITED.match(start) and not start.startswith(("@", "#", "<")):
            with suppress(Unreadable):
                columns = tuple(name.strip() for name in csv_columns(opened, ())[1])
        return GraphFile(path, "csv" if columns else "text", head, columns, encoding)


def _first_cells(text: str) -> list[str]:
    """Return the cells of the first line of a csv file with commas."""
    return next(csv.reader([text.partition("\n")[0].strip()]))


def _probe_json(path: Path, start: str, encoding: str) -> GraphFile:
    first, *lines = start.split("\n")
    kind: Literal["json lines", "json"] = "json"
    with suppress(ValueError, RecursionError):
        kind = "json lines" if isinstance(json.loads(first), dict) and any(map(str.strip, lines)) else "json"
    rows = _as_list(GraphFile(path, "json", start, (), encoding).document) if kind == "json" else []
    for line in [first, *lines][:_N_PROBED] if kind == "json lines" else ():
        with suppress(ValueError):  # the last line in the head may be cut
            rows.append(json.loads(line))
    keys = dict.fromkeys(key for row in rows[:_N_PROBED] if isinstance(row, dict) for key in row)
    return GraphFile(path, kind, start, tuple(keys), encoding)


def _parse_document(file: GraphFile) -> Any:
    """Return the value of a JSON document, which may hold NaN.

    Raises:
        DataError: it is no JSON.
    """
    with file_errors(file.path, KNOWN), closing(file.open()) as opened:
        content = opened.read()
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return msgspec.json.decode(content)
        try:
            return json.loads(content)  # NaN
        except RecursionError:
            raise Unreadable("nested too deeply") from None
        except json.JSONDecodeError as error:
            raise Unreadable(
                f"not JSON: {error.msg} at column {error.colno}", "Write it again.", error.lineno
            ) from None


def _as_list(document: Any) -> list[Any]:
    return document if isinstance(document, list) else [document]
