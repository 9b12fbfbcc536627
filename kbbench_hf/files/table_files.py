"""Opener of table files: csv, Parquet and JSON Lines as Arrow tables with columns of any type; `--map` of columns."""

import csv
import io
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from kbbench_hf.errors import DataError
from kbbench_hf.files.json_documents import JsonText
from kbbench_hf.files.json_lines import parse
from kbbench_hf.files.packing import OWN_LINE_BYTES, OpenedFile, as_utf8, buffered, decoded, open_unpacked, text_lines
from kbbench_hf.files.rows import Unreadable
from kbbench_hf.files.tables import DELIMITERS, delimiter_of

Row = dict[str, Any]
"""A row of a table: column -> value."""
CHUNK = 1 << 16
"""Rows that are converted to Arrow together."""
_AROUND_NAMES = " \t\xa0\u200b\ufeff"
"""Characters that editors and spreadsheets leave around column names: blanks and byte-order marks."""
_FIRST_LINE = re.compile(rb"[\r\n]")
_CONSTANT = re.compile(r"""(['"])(.*)\1""")


@contextmanager
def file_errors(path: Path, expected: str) -> Iterator[None]:
    """Add the file's name to errors; their commands for a conversion write a new file into the current folder."""
    try:
        yield
    except Unreadable as error:
        place = f"{path}, line {error.line}" if error.line else str(path)
        new = f"{shlex.quote(str(path))} > {shlex.quote(path.stem)}.utf8{path.suffix}"
        remedy = error.remedy.replace("OLD > NEW", new)
        if path.suffix in (".gz", ".zip", ".bz2", ".xz", ".zst"):
            remedy = remedy.partition(", or convert it")[0].removesuffix(".") + "."
        raise DataError(f"{place}: {error.message}. Expected {expected}. {remedy}".rstrip(" .") + ".") from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}. Expected {expected}. Write it again.") from error


def open_text(path: Path, encoding: str = "") -> OpenedFile:
    """Open a file, decompressed, and as UTF-8 where it is text; `encoding` is that of the file, where it is known.

    Raises:
        Unreadable: it has another encoding.
    """
    opened = open_unpacked(path)
    if opened.head.startswith(b"PAR1"):
        return opened
    if encoding:
        try:
            text = opened.read().decode(encoding)
        except UnicodeDecodeError as error:
            raise Unreadable(f"not {encoding} at byte {error.start}", "Name its own: --encoding NAME.") from None
        opened.stream = buffered(io.BytesIO(text.removeprefix("\ufeff").encode("utf-8", "surrogatepass")))
    as_utf8(opened)
    return opened


def arrow_table(opened: OpenedFile, path: Path, known: Sequence[str]) -> pa.Table:
    """Return the table of an open csv, Parquet or JSON Lines file; the columns `known` of csv are text.

    Raises:
        Unreadable: it is none, or damaged.
    """
    if opened.head.startswith(b"PAR1"):
        import pyarrow.parquet as pq

        source: Any = io.BytesIO(opened.read()) if opened.packed else path
        texts = ["type", "relation"]
        return pq.read_table(source, memory_map=not opened.packed, read_dictionary=texts, partitioning=None)
    if opened.head.lstrip()[:1] in (b"{", b"["):
        return table_of_rows(json_rows(opened))
    delimiter, names = csv_columns(opened, known)
    renamed = known_names(names, known, path)
    return read_csv(opened, path, delimiter, [name for name in names if renamed.get(name, name) in (*known, "details")])


def csv_columns(opened: OpenedFile, known: Sequence[str]) -> tuple[str, list[str]]:
    """Return the delimiter and the column names of an open csv file; its first line stays, but for `sep=`."""
    first = decoded(_FIRST_LINE.split(opened.head, maxsplit=1)[0], 1)
    if not first.strip():
        raise Unreadable("no column names: the first line is empty", "Begin the file with a line of column names.", 1)
    if re.fullmatch(r"(?i)sep=.", first.strip()):  # how spreadsheets name the delimiter
        opened.stream.readline()
        delimiter, first = first.strip()[4], decoded(_FIRST_LINE.split(opened.head, maxsplit=1)[0], 2)
    elif not any(each in first for each in DELIMITERS):
        raise Unreadable("a first line of one column", f"Begin the file with the columns {','.join(known)}.", 1)
    else:
        delimiter = delimiter_of([first], known[0] if known else "")
    return delimiter, next(csv.reader(io.StringIO(first), delimiter=delimiter))


def csv_options(delimiter: str, texts: Iterable[str], block_size: int = 64 << 20, quote: Any = '"') -> Row:
    """Return the options of Arrow's csv readers, with columns that are text whatever they hold."""
    from pyarrow import csv as arrow_csv

    named = [name for text in texts for name in (text, text.removeprefix("\ufeff"))]  # Arrow drops a second mark
    return {
        "read_options": arrow_csv.ReadOptions(block_size=block_size, use_threads=False),
        "parse_options": arrow_csv.ParseOptions(delimiter=delimiter, quote_char=quote, newlines_in_values=True),
        "convert_options": arrow_csv.ConvertOptions(column_types=dict.fromkeys(named, pa.string())),
    }


def read_csv(opened: OpenedFile, path: Path, delimiter: str, texts: Iterable[str]) -> pa.Table:
    """Return the table of an open csv file."""
    from pyarrow import csv as arrow_csv

    try:
        return arrow_csv.read_csv(opened.stream, **csv_options(delimiter, texts))
    except pa.ArrowInvalid as error:
        with closing(open_text(path)) as again:
            for _ in text_lines(again):  # names the line that is not UTF-8
                pass
        raise Unreadable(
            f"cannot be read as a table: {error}", f"Put quotes around cells that hold {delimiter!r} or quotes."
        ) from None


def json_rows(opened: OpenedFile) -> Iterator[Row]:
    """Yield the objects of JSON Lines, or of a JSON array.

    Raises:
        Unreadable: a line is no JSON object.
    """
    if opened.head.lstrip().startswith(b"["):
        text = JsonText(decoded(opened.read(), 1))
        numbered: Iterable[tuple[Any, object]] = text.items(text.skip_space(0))
    else:
        lines = iter(lambda: opened.stream.readline(OWN_LINE_BYTES), b"")
        numbered = ((number, _json_line(line, number)) for number, line in enumerate(lines, start=1) if line.strip())
    for number, row in numbered:
        if not isinstance(row, dict):
            raise Unreadable(f"{str(row)[:40]!r} is not a JSON object", "Write one object per row.", number)
        yield row


def _json_line(line: bytes, number: int) -> object:
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode(line)
    try:
        return parse(line)  # NaN, and the message for what is no JSON
    except Unreadable as error:
        raise Unreadable(error.message, error.remedy, number) from None


def table_of_rows(rows: Iterable[Row]) -> pa.Table:
    """Return objects as a table; values of several types become text, and objects without members JSON.

    >>> table_of_rows([{"id": 1}, {"id": "a", "tags": ["x"]}]).to_pylist()
    [{'id': '1', 'tags': None}, {'id': 'a', 'tags': ['x']}]
    """
    every = [*rows]
    names = dict.fromkeys(name for row in every for name in row)
    return pa.table({name: _column([row.get(name) for row in every]) for name in names})


def _column(values: list[Any]) -> pa.ChunkedArray:
    with suppress(pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        column = pa.chunked_array([values])
        if not (pa.types.is_struct(column.type) and not column.type.num_fields):
            return column
    texts = [value if value is None or isinstance(value, str) else json_text(value) for value in values]
    return pa.chunked_array([pa.array(texts, pa.string())])


json_text = json.JSONEncoder(ensure_ascii=False, default=str).encode
"""Function that returns a value as JSON, in its own letters."""


def mapped(table: pa.Table, sources: Mapping[str, str], path: Path) -> pa.Table:
    r"""Return a table with columns made of its others: `a`, `a.b` in objects, `a+b` for lines of text, 'a constant'.

    Columns that were used are left out, unless a new one has their name.

    >>> rows = pa.table({"code": [7], "title": ["Rome"], "body": ["Old."], "about": [{"kind": "city"}]})
    >>> mapped(rows, {"id": "code", "text": "title+body", "type": "about.kind"}, Path("n.csv")).to_pylist()
    [{'id': 7, 'text': 'Rome\nOld.', 'type': 'city'}]

    Raises:
        DataError: there is no such column.
    """
    new, used = {}, set[str]()
    for name, source in sources.items():
        parts = [source] if source in table.column_names or _CONSTANT.fullmatch(source) else source.split("+")
        columns = [_source_column(table, part, path, used) for part in parts]
        if len(columns) > 1:
            texts = [each.cast(pa.string()) for each in columns]
            columns = [pc.binary_join_element_wise(*texts, "\n", null_handling="skip")]
        new[name] = columns[0]
    others = {name: table[name] for name in table.column_names if name not in used and name not in new}
    return pa.table(new | others)


def _source_column(table: pa.Table, source: str, path: Path, used: set[str]) -> pa.ChunkedArray:
    if constant := _CONSTANT.fullmatch(source):
        return pa.chunked_array([pa.repeat(constant[2], len(table))])
    top, *inner = [source] if source in table.column_names else source.split(".")
    try:
        column = table[top]
        for name in inner:
            column = pc.struct_field(column, name)
    except (KeyError, pa.ArrowException):
        raise DataError(
            f"--map names {source!r}, and {path} has no such column; it has {', '.join(table.column_names)}. Name one "
            "of them, or a constant in quotes."
        ) from None
    used.add(top)
    return column


def known_names(names: Sequence[str], known: Sequence[str], path: Path) -> Mapping[str, str]:
    """Return column -> known name, for columns that differ from it in case, blanks or a byte-order mark only."""
    repeated = [name for name, n in Counter(names).items() if n > 1]
    if repeated:
        raise DataError(f"{path} has two columns {repeated[0]!r}; expected one of each name. Rename one of them.")
    renamed: dict[str, str] = {}
    for name in names:
        plain = name.strip(_AROUND_NAMES).casefold()
        if plain != name and plain in known and plain not in names:
            if plain in renamed.values():
                raise DataError(f"{path} has several columns for {plain!r}; expected one. Rename the others.")
            renamed[name] = plain
    return renamed
