"""Reader of users' tables (csv, Parquet, JSON Lines) as Arrow tables, their columns as stored; `--map` of columns.

Builders of a user's own knowledge base or extraction data read with it. Ids and texts must come out as they are in the
file: what an import would change (long integers, dates, spreadsheets' numbers) is refused or kept as text. The datasets
that users have built have revisions made of these columns.
"""

import csv
import io
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.datasets import RELEVANCE
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
    """Convert errors inside the block into a DataError with the file's name and what was `expected`.

    Commands for a conversion in a remedy get the names of the old and a new file in the current folder.
    """
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
        Unreadable: it is none of them, or damaged.
        DataError: two columns have one name.
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
    """Return the delimiter and the column names of an open csv file; its header stays unread, a line `sep=` does not.

    Raises:
        Unreadable: it has no header of several columns.
    """
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
    """Return the options of Arrow's csv readers; the columns `texts` are text, whatever they hold."""
    from pyarrow import csv as arrow_csv

    named = [name for text in texts for name in (text, text.removeprefix("\ufeff"))]  # Arrow drops a second mark
    return {
        "read_options": arrow_csv.ReadOptions(block_size=block_size, use_threads=False),
        "parse_options": arrow_csv.ParseOptions(delimiter=delimiter, quote_char=quote, newlines_in_values=True),
        "convert_options": arrow_csv.ConvertOptions(column_types=dict.fromkeys(named, pa.string())),
    }


def read_csv(opened: OpenedFile, path: Path, delimiter: str, texts: Iterable[str]) -> pa.Table:
    """Return the table of an open csv file.

    Raises:
        Unreadable: it is not a table; the message has the line if it is not UTF-8.
    """
    from pyarrow import csv as arrow_csv

    try:
        return arrow_csv.read_csv(opened.stream, **csv_options(delimiter, texts))
    except pa.ArrowInvalid as error:
        with closing(open_text(path)) as again:
            for _ in text_lines(again):  # names the line that is not UTF-8
                pass
        remedy = f"Put quotes around cells that hold {delimiter!r} or quotes."
        raise Unreadable(f"cannot be read as a table: {error}", remedy) from None


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
    """Return the value of a line, by the fast parser if it can read it.

    Raises:
        Unreadable: it is not JSON.
    """
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode(line)
    try:
        return parse(line)  # NaN, and the message for what is no JSON
    except Unreadable as error:
        raise Unreadable(error.message, error.remedy, number) from None


def table_of_rows(rows: Iterable[Row]) -> pa.Table:
    """Return objects as a table, its columns in the order of their first occurrence; absent values are null.

    Values of several types become text, and objects without members JSON.

    >>> table_of_rows([{"id": 1}, {"id": "a", "tags": ["x"]}]).to_pylist()
    [{'id': '1', 'tags': None}, {'id': 'a', 'tags': ['x']}]
    """
    every = [*rows]
    names = dict.fromkeys(name for row in every for name in row)
    return pa.table({name: _infer_column([row.get(name) for row in every]) for name in names})


def _infer_column(values: list[Any]) -> pa.ChunkedArray:
    """Return values as a column of the type that Arrow infers; else as text."""
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
    """Return column -> known name, for columns that differ from it in case, blanks or a byte-order mark only.

    Raises:
        DataError: two columns have the same name, or several could have a known one.
    """
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


ID_COLUMNS = ("id", "head", "tail")
"""Columns whose integers stay integers; the other known columns are text."""
LIST_COLUMNS = ("answer_ids", RELEVANCE, "triples")
"""Columns that hold lists: text in csv, unchanged from Parquet. Their readers check the items."""
MAY_BE_EMPTY = ("name", "text")
DETAILS = "details"
_SEPARATOR = {"text": "\n"}
"""Column -> separator that joins the values of a list; other columns have one value per row."""
_SHORTENED = r"^[+-]?\d[.,]\d+[eE]\+\d+$"
"""The form of long numbers in spreadsheets, 1.23457E+11, without their last digits."""


def read_table(
    path: Path,
    columns: Sequence[str],
    optional: Sequence[str] = (),
    sources: Mapping[str, str] | None = None,
    encoding: str = "",
) -> pa.Table:
    """Read a csv, Parquet or JSON Lines file that must have `columns`, and may have `optional` ones.

    Ids become integers where they are integers or whole floats, else text; known `details` become JSON. All else
    becomes text. Further columns are inferred from csv; from the others they are kept, as JSON where `datasets` does
    not have their type. Names of columns are found in any case, and with blanks around them; `sources` are those of
    columns with other names, see `table_files.mapped`. The delimiter of csv is recognized, and so is the encoding where
    it is Unicode; `encoding` names others. Compressed files are read.

    Raises:
        UsageError: the file does not exist.
        DataError: the file is malformed, a column is missing, one of `columns` has an empty cell (`name` and `text`
            may have), or its values are neither text nor numbers. The message names the column, and the row if it can.
    """
    path = Path(path)
    if not path.is_file():
        raise UsageError(f"There is no file {path}. Expected a table with the columns {', '.join(columns)}.")
    known = (*columns, *optional)
    with file_errors(path, "csv, Parquet or JSON Lines"), closing(open_text(path, encoding)) as opened:
        table = arrow_table(opened, path, (*known, *(sources or {}).values()))
    return stored_table(mapped(table, sources, path) if sources else table, columns, known, path)


def stored_table(table: pa.Table, columns: Sequence[str], known: Sequence[str], path: Path) -> pa.Table:
    """Return a table with its columns in the form that datasets store, see `read_table`."""
    names = table.column_names
    renamed = known_names(names, known, path)
    table = table.rename_columns([renamed.get(name, name) for name in names])
    require_columns(table, columns, str(path))
    for number, name in enumerate(table.column_names):
        table = table.set_column(number, name, _stored_column(table[name], name, known, f"{path}: column {name!r}"))
    for name in columns:
        if name not in MAY_BE_EMPTY:
            _refuse_empty(table[name], name, path)
    return table


def read_text(path: Path, expected: str) -> str:
    """Return the text of a user's file, with its lines ended by a line feed each; its encoding is recognized.

    Raises:
        DataError: it is neither UTF-8 nor marked as UTF-16 or UTF-32.
    """
    with file_errors(path, expected), closing(open_text(path)) as opened:
        return decoded(opened.read(), 1).replace("\r\n", "\n").replace("\r", "\n")


def require_columns(table: pa.Table, columns: Sequence[str], what: str) -> None:
    """Check that a table has these columns; `what` names it in the message.

    Raises:
        DataError: it lacks one.
    """
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        raise DataError(
            f"{what} has no column {', '.join(map(repr, missing))}; it has {', '.join(table.column_names)}. "
            f"Expected at least {', '.join(columns)}. Rename its columns, or add what is missing."
        )


def text_column(column: pa.ChunkedArray, what: str, separator: str | None = None) -> pa.ChunkedArray:
    """Return a column as text, null where a value is null or NaN.

    Whole floats and decimals are written as integers, and no number with an exponent; dates and times as ISO 8601.
    A list of one value is that value; several are joined by the separator where there is one.

    Raises:
        DataError: it holds objects, lists of several values, infinite numbers or bytes that are not UTF-8.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        of_texts = _is_text(kind.value_type)
        return column if of_texts else text_column(column.cast(kind.value_type), what, separator)
    if isinstance(kind, pa.BaseExtensionType):
        if _extension(kind) == "arrow.uuid":
            return _text_array(map(str, column.to_pylist()), column)
        return text_column(column.cast(kind.storage_type), what, separator)
    if _is_text(kind):
        return column
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _text_array(_number_texts(column, what), column)
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return _time_texts(column)
    if pa.types.is_nested(kind) and "list" in str(kind).partition("<")[0]:  # lists of all widths, and list views
        return _text_array(_list_texts(column, what, separator), column)
    try:
        if pa.types.is_nested(kind) or pa.types.is_duration(kind) or pa.types.is_interval(kind):
            raise pa.ArrowNotImplementedError(f"no text for {kind}")
        return column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise _type_error(kind, what) from None


def _stored_column(column: pa.ChunkedArray, name: str, known: Sequence[str], what: str) -> pa.ChunkedArray:
    """Return a column in the form that datasets store, see `read_table`."""
    kind = column.type
    try:
        if name not in known:
            if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
                pc.min_max(column).as_py()  # fails now, not when rows are read, where Python has no such date
            if _is_stored(kind):
                return column
            as_text = _extension(kind) == "arrow.uuid" or pa.types.is_decimal(kind)
            return text_column(column, what) if as_text else _json_column(column, what)
        if name == DETAILS:
            return _json_column(column, what)
        if name in LIST_COLUMNS:
            if pa.types.is_nested(kind) or pa.types.is_temporal(kind):
                column.to_pylist()  # fails here where Python has no such value
            return column
        return _id_column(column, what) if name in ID_COLUMNS else text_column(column, what, _SEPARATOR.get(name))
    except (pa.ArrowException, KeyError, TypeError, ValueError, OverflowError) as error:  # a time zone, say
        raise _type_error(kind, what) from error


def _id_column(column: pa.ChunkedArray, what: str) -> pa.ChunkedArray:
    """Return a column of ids as integers or text.

    Raises:
        DataError: it has truth values, dates, fractions, floats that are several integers, or shortened numbers.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _id_column(column.cast(kind.value_type), what)
    if pa.types.is_boolean(kind) or pa.types.is_temporal(kind):
        raise _type_error(kind, what)
    if pa.types.is_integer(kind):
        return column
    if pa.types.is_floating(kind):
        exact = 2 ** (np.finfo(kind.to_pandas_dtype()).nmant + 1)
        for row, value in enumerate(column.to_pylist(), start=1):
            if value is not None and value == value and not (abs(value) < exact and value == int(value)):
                raise DataError(
                    f"{what}, row {row}: {value!r} is not an id; expected text or integers, or whole floats below "
                    f"{exact:,}, where a float is one integer. Write the ids as integers or as text."
                )
        return text_column(column, what).cast(pa.int64())
    ids = text_column(column, what)
    if _is_text(ids.type):
        matches = pc.match_substring_regex(ids, _SHORTENED)
        if pc.any(matches).as_py():
            shortened = pc.index(matches, True).as_py()
            raise DataError(
                f"{what}, row {shortened + 1}: {ids[shortened].as_py()!r} is an id that a spreadsheet shortened: its "
                "last digits are lost; expected whole ids. Format the column as text, and write the file again."
            )
    return ids


def _json_column(column: pa.ChunkedArray, what: str) -> pa.ChunkedArray:
    """Return a column of objects as JSON; a column of text is unchanged.

    Raises:
        TypeError: keys of an object are no text.
    """
    kind = column.type
    if _extension(kind) == "arrow.json":
        return column.cast(kind.storage_type)
    if pa.types.is_null(kind) or pa.types.is_dictionary(kind) or _is_text(kind):
        return text_column(column, what)
    values = column.to_pylist(maps_as_pydicts="lossy")
    return _text_array((json.dumps(value, ensure_ascii=False, default=_to_text) for value in values), column)


def _to_text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _text_array(texts: Iterable[str | None], column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return texts as a column, null where the original column is null."""
    valid = column.is_valid().to_pylist()
    texts = [text if there else None for text, there in zip(texts, valid, strict=True)]
    return pa.chunked_array([pa.array(texts, pa.string())])


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _extension(kind: pa.DataType) -> str:
    """Return the name of an extension type; empty for other types."""
    return str(kind.extension_name) if isinstance(kind, pa.BaseExtensionType) else ""


def _number_texts(column: pa.ChunkedArray, what: str) -> list[str | None]:
    """Return floats and decimals as text without exponents; whole ones as integers, NaN as None.

    Raises:
        DataError: one is infinite.
    """
    texts: list[str | None] = []
    values = column.to_pylist() if pa.types.is_decimal(column.type) else column.to_numpy()
    for row, value in enumerate(values, start=1):
        if isinstance(value, Decimal):
            texts.append(str(int(value)) if value == value.to_integral_value() else format(value, "f"))
        elif value is None or np.isnan(value):
            texts.append(None)
        elif np.isinf(value):
            raise DataError(f"{what}, row {row}: {value!s}; expected text or a finite number. Correct the cell.")
        else:
            texts.append(np.format_float_positional(value + 0, trim="-"))  # + 0: no "-0"
    return texts


def _time_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times as ISO text, whole seconds without a fraction; as dates if all are midnight."""
    texts = pc.replace_substring_regex(column.cast(pa.string()), r"\.0+($|[Z+-])", r"\1")
    midnights = pc.all(pc.ends_with(texts, " 00:00:00"), min_count=0).as_py()
    return pc.replace_substring_regex(texts, " 00:00:00$", "") if midnights else texts


def _list_texts(column: pa.ChunkedArray, what: str, separator: str | None) -> list[str | None]:
    """Return each list as one text; None for an empty one.

    Raises:
        DataError: without a separator, one has several values.
    """
    lists = column.combine_chunks()
    items = iter(text_column(pa.chunked_array([lists.flatten()]), what).to_pylist())
    texts: list[str | None] = []
    for row, length in enumerate(pc.list_value_length(lists).to_pylist(), start=1):
        values = [item for _, item in zip(range(length or 0), items, strict=False) if item is not None]
        if len(values) > 1 and separator is None:
            raise DataError(
                f"{what}, row {row}: a list of {len(values)} values, {', '.join(map(repr, values[:3]))}; "
                "expected one text. Write one value into each cell, and the others into a column of their own."
            )
        texts.append((separator or "").join(values) if values else None)
    return texts


def _is_stored(kind: pa.DataType) -> bool:
    """Return whether `datasets` supports a type; it supports no maps, list views and extensions."""
    if pa.types.is_dictionary(kind):
        return _is_stored(kind.value_type)
    tests = ("is_map", "is_list_view", "is_large_list_view", "is_decimal32", "is_decimal64", "is_interval")
    if _extension(kind) or any(getattr(pa.types, test)(kind) for test in tests):
        return False
    return all(_is_stored(kind.field(place).type) for place in range(kind.num_fields))


def _type_error(kind: pa.DataType, what: str) -> DataError:
    """Return the error for a column whose type has no text."""
    if pa.types.is_struct(kind) and kind.num_fields:
        fields = ", ".join(repr(field.name) for field in list(kind)[:5])
        return DataError(
            f"{what} holds objects; expected text. Write one of its fields ({fields}) as this column; a "
            f"column {DETAILS!r} may hold objects."
        )
    return DataError(f"{what} has the type {kind}; expected text or integers. Write it as text.")


def _refuse_empty(column: pa.ChunkedArray, name: str, path: Path) -> None:
    """Check that no cell of a column is null or blank.

    Raises:
        DataError: some are; the message names the first rows, counted from 1.
    """
    if pa.types.is_dictionary(column.type):
        if all(each and each.strip() for each in column.unique().to_pylist()):
            return
        column = column.cast(column.type.value_type)
    empty = column.is_null()
    if _is_text(column.type):
        empty = pc.or_kleene(empty, pc.invert(pc.utf8_length(pc.utf8_trim_whitespace(column)).cast(pa.bool_())))
    rows = [row + 1 for row in pc.indices_nonzero(empty).to_pylist()]
    if rows:
        more = f" (nor in row {', '.join(map(str, rows[1:5]))}{' ...' if len(rows) > 5 else ''})" if rows[1:] else ""
        raise DataError(
            f"{path}, row {rows[0]}: no {name}{more}; expected a value in every row. Fill in the column {name!r}, or "
            "remove the row."
        )
