"""Raw source files of ska-open: reading and writing JSON Lines and triples, detokenizing, and table sources.

The readers of each source use it, and `public_files` writes the same files. The fields of a `DataSource` are stored
columns of the datasets, and `join_tokens` decides every text of HybridQA and TekGen.
"""

import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, Origin, clean
from kbbench_hf.building.ska_bench.name_matching import normalize_cell
from kbbench_hf.errors import DataError
from kbbench_hf.files.datasets import Row

_JOINED = re.compile(r" ([,.;:!?%)\]}])|([(\[{$#]) | (n't|'(?:s|ll|re|ve|m|d))(?= |$)|(?<=s) (')(?= )")
"""Marks without a blank before or after them, and endings without one before them."""
_EDITORIAL = re.compile(r"\[ ?(?:citation needed|failed verification|nb \d+|update|\d+) ?\]")


class DataSource(NamedTuple):
    """A public source of instances: its name, repositories with commits, and license."""

    name: str
    commit: str
    """`owner/repo @commit`, several separated by ", ", as `public_files` parses it; a stored column."""
    licence: str

    @property
    def origin(self) -> Origin:
        """The origin of the source's units."""
        return Origin(self.name, self.licence)

    def fields(self, source_id: str) -> dict[str, Any]:
        """Return the fields of an `Instance` that say where it comes from."""
        return {"source": self.name, "source_id": source_id, "commit": self.commit, "licence": self.licence}


class SourceTable(NamedTuple):
    """A table of one source; cells are on one line."""

    header: Cells
    rows: list[Cells]

    @property
    def kind(self) -> Cells:
        """The header in normal form: tables of one kind lend each other rows."""
        return tuple(map(normalize_cell, self.header))


class TableSource(NamedTuple):
    """The tables of a source by name, and those questions on them that one program answers, with the rows it reads."""

    source: DataSource
    tables: Mapping[str, SourceTable]
    questions: list[Instance]
    n_asked: int
    """How many questions the source has, with a program or not."""


JsonKind = type | list[Any]
"""A type of JSON value; `[str]` is a list of strings, `[[str]]` one of lists of strings."""


def read_json_lines(file: Path, wanted: Mapping[str, JsonKind]) -> list[dict[str, Any]]:
    """Return the objects of a JSON Lines file, `.gz` or not, each with the `wanted` fields of the given kinds.

    They are in the order of the file, and may have further fields. Blank lines are skipped.

    Raises:
        DataError: the file is absent or cannot be read, or a line lacks a field or has another type in it.
    """
    rows = []
    for number, line in enumerate(lines_of(file), 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{file}:{number} is not JSON ({error}); get the file again.") from error
        for field, kind in wanted.items():
            value = row.get(field) if isinstance(row, dict) else row
            if not isinstance(row, dict) or not _is_of_kind(value, kind):
                raise DataError(
                    f"{file}:{number}: {field!r} is {value!r:.80}; expected {_kind_name(kind)}. Get the file again."
                )
        rows.append(row)
    return rows


def _kind_name(kind: JsonKind) -> str:
    """Return what a message calls a kind: "text", "list of text", "list of list of text"."""
    if isinstance(kind, list):
        return f"list of {_kind_name(kind[0])}"
    return {str: "text", int: "integer", bool: "true or false", dict: "object"}.get(kind, kind.__name__)


def _is_of_kind(value: object, kind: JsonKind) -> bool:
    if isinstance(kind, list):
        return isinstance(value, list) and all(_is_of_kind(each, kind[0]) for each in value)
    return isinstance(value, kind)


def read_triples(file: Path) -> list[Cells]:
    """Return the triples of a tab-separated file, one of each, sorted.

    Raises:
        DataError: the file is absent or cannot be read, or a line has not three cells, or an empty one.
    """
    triples = set()
    for number, line in enumerate(lines_of(file), 1):
        cells = tuple(clean(cell) for cell in line.split("\t"))
        if len(cells) != 3 or not all(cells):
            what = "an empty cell" if len(cells) == 3 else f"{len(cells)} cells"
            raise DataError(f"{file}:{number} has {what}; expected head, relation, tail. Repair the line.")
        triples.add(cells)
    return sorted(triples)


def join_tokens(text: str) -> str:
    """Return tokenized text as people write it, on one line, without editorial marks ("[ citation needed ]").

    >>> join_tokens("Tom 's horse ( born May 8 , 1945 ) did n't win $ 1.2 million .")
    "Tom's horse (born May 8, 1945) didn't win $1.2 million."
    """
    if "[" in text:
        text = _EDITORIAL.sub("", text)
    text = _JOINED.sub(r"\1\2\3\4", " ".join(clean(text).split()))
    text = _JOINED.sub(r"\1\2\3\4", text)  # of two marks in a row, the first match took the blank between them
    return text.replace("`` ", '"').replace(" ''", '"')


def lines_of(file: Path) -> Iterator[str]:
    """Yield the lines of a file, `.gz` or not, that are not blank.

    Raises:
        DataError: the file is absent or cannot be read.
    """
    try:
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        text = data.decode("utf-8")
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"{file} cannot be read ({error}); expected a file of ska-open's source folder.") from error
    return (line for line in text.split("\n") if line.strip())


def write_lines(file: Path, lines: Iterable[str]) -> None:
    """Write a `.gz` of lines; the same lines are the same bytes."""
    file.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0))


def write_json_lines(file: Path, rows: Iterable[Row]) -> None:
    """Write a `.gz` of JSON Lines; the same rows are the same bytes."""
    write_lines(file, (json.dumps(row, ensure_ascii=False, sort_keys=True) for row in rows))
