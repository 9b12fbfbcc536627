"""Reader of users' tables (csv, Parquet, JSON Lines): columns of any type become text, ids or JSON, as stored."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.datasets import RELEVANCE
from kbbench_hf.files.packing import decoded
from kbbench_hf.files.table_files import arrow_table, file_errors, known_names, mapped, open_text

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
    """Refuse a table without one of these columns."""
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
    except (pa.ArrowException, KeyError, ValueError, OverflowError) as error:  # such as an unknown time zone
        raise _type_error(kind, what) from error


def _id_column(column: pa.ChunkedArray, what: str) -> pa.ChunkedArray:
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
    """Return a column of objects as JSON; a column of text is left as it is."""
    kind = column.type
    if _extension(kind) == "arrow.json":
        return column.cast(kind.storage_type)
    if pa.types.is_null(kind) or pa.types.is_dictionary(kind) or _is_text(kind):
        return text_column(column, what)
    values = column.to_pylist(maps_as_pydicts="lossy")
    try:
        texts = [json.dumps(value, ensure_ascii=False, default=_to_text) for value in values]
    except TypeError:
        message = f"{what} has keys that are not text (type {kind}); expected objects. Write it as JSON."
        raise DataError(message) from None
    return _text_array(texts, column)


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
    """Return times as text, whole seconds without a fraction; dates where all are midnight."""
    texts = pc.replace_substring_regex(column.cast(pa.string()), r"\.0+($|[Z+-])", r"\1")
    midnights = pc.all(pc.ends_with(texts, " 00:00:00"), min_count=0).as_py()
    return pc.replace_substring_regex(texts, " 00:00:00$", "") if midnights else texts


def _list_texts(column: pa.ChunkedArray, what: str, separator: str | None) -> list[str | None]:
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
    if pa.types.is_struct(kind) and kind.num_fields:
        fields = ", ".join(repr(field.name) for field in list(kind)[:5])
        return DataError(
            f"{what} holds objects; expected text. Write one of its fields ({fields}) as this column; a "
            f"column {DETAILS!r} may hold objects."
        )
    return DataError(f"{what} has the type {kind}; expected text or integers. Write it as text.")


def _refuse_empty(column: pa.ChunkedArray, name: str, path: Path) -> None:
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
