"""Importers of tables: delimited text (csv, tsv, Excel's csv), Parquet, Arrow, and datasets saved to disk.

`formats` reads predictions and scores with them (`table_files` reads the tables of builders). Cells of text stay text;
`scoring.rows` decides what they mean. A delimiter or header that is not clear is refused: columns would be mixed up.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from kbbench_hf.files.packing import OWN_LINE_BYTES, OpenedFile, text_lines
from kbbench_hf.files.rows import ParsedFile, ParsedRow, Problem, ReadSettings, Unreadable

if TYPE_CHECKING:
    from _csv import Reader as _Reader

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
"""Delimiter -> its name in messages."""
_LOOKED_AT = 100
"""Lines from which delimiters are recognized."""
_LEAST_WIDTH = 3
"""The fewest columns of a table without a delimiter: lines of two words are more often something else."""


def parse_delimited(opened: OpenedFile, settings: ReadSettings) -> ParsedFile:
    """Return the rows of delimited text under its header, as text; an empty cell is None, an empty line no row.

    Raises:
        Unreadable: the header has fewer than two columns, or the delimiter is ambiguous.
    """
    lines = text_lines(opened)
    first = next(lines)
    named = first.strip().lower()
    skipped = 0
    if named.startswith("sep=") and len(named) == 5:  # Excel names the delimiter so
        delimiter, skipped, head = first.strip()[4], 1, []
    else:
        head = [first, *(line for _, line in zip(range(_LOOKED_AT), lines, strict=False))]
        if separators := _separators_of_two_kinds(head):
            head[0] = "\t".join(head[0].split(separators[0]))
            head[1:], lines = _replace_separators(head[1:], separators[1]), _replace_separators(lines, separators[1])
        delimiter = "\t" if separators else delimiter_of(head, settings.id_field)
    texts = chain(head, lines)
    reader = csv.reader(texts, delimiter=delimiter, strict=True)
    csv.field_size_limit(OWN_LINE_BYTES)
    columns = [name.strip() for name in next(reader, [])]
    if settings.whole_rows and columns and not columns[0] and "index" not in columns:
        columns[0] = "index"  # of pandas, which writes it without a name
    for place, cell in enumerate(columns):  # a number is not a name: there is no header, and its cells are kept
        columns[place] += " " * columns[:place].count(cell) if _is_number(cell) else ""
    kind = {",": "csv", "\t": "tsv"}.get(delimiter, "csv")
    words = f"a table ({kind}, {DELIMITERS.get(delimiter, repr(delimiter))} between cells)"
    return ParsedFile(
        words,
        _delimited_rows(opened.name, reader, columns, delimiter, skipped),
        columns=columns,
        separator=delimiter,
        only_text=True,
        cells=(line.rstrip("\r\n").split("\t") for line in chain(head[:1], texts)) if delimiter == "\t" else None,
        empty="it has only a header",
    )


def _is_number(cell: str) -> bool:
    return cell.lstrip("-").replace(".", "", 1).isdecimal()


def _separators_of_two_kinds(head: list[str]) -> tuple[str | None, str | None] | None:
    """Return the separators of the header and of the rows; None where one delimiter fits both.

    The cells of a run are separated by tabs or blanks (None: any whitespace), a header added later often by commas.
    """
    rows = [line.strip("\r\n") for line in head[1:] if line.strip()]
    fits = (len({line.count(each) for line in (head[0], *rows)}) == 1 and each in head[0] for each in DELIMITERS)
    if not rows or any(fits):
        return None
    for separator in ("\t", None):
        widths = {len(line.split(separator)) for line in rows}
        for of_header in (",", ";", "|", None):
            if any(each in line for each in (of_header or DELIMITERS) for line in (rows if of_header else head[:1])):
                continue
            if widths == {len(head[0].strip().split(of_header))} and min(widths) >= _LEAST_WIDTH:
                return of_header, separator
    return None


def _replace_separators(lines: Iterable[str], separator: str | None) -> Iterator[str]:
    """Yield lines with tabs in place of their separators."""
    for line in lines:
        yield "\t".join(line.strip("\r\n").split(separator)) + "\n"


def _delimited_rows(
    name: str, reader: "_Reader", columns: list[str], delimiter: str, skipped: int
) -> Iterator[ParsedRow]:
    """Yield the rows of a table after its header; a row of another width is a problem.

    `skipped` is the number of lines before the header.

    Raises:
        Unreadable: two columns have one name, or a line is not csv.
    """
    if repeated := [column for column, n in Counter(columns).items() if n > 1 and column]:
        remedy = "Give each column its own name, in a first line of names if the table has none."
        raise Unreadable(f"two columns are called {repeated[0]!r}", remedy, 1 + skipped)
    while True:
        number = reader.line_num + 1 + skipped
        try:
            cells = next(reader, None)
        except csv.Error as error:
            remedy = "Put quotes around cells that hold quotes, twice each."
            raise Unreadable(f"no table: {error}", remedy, number) from None
        if cells is None:
            return
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(columns):
            message, shown = f"{len(cells)} cells; the header has {len(columns)}", delimiter.join(cells)[:160]
            remedy = f"Put quotes around cells that hold {delimiter!r}."
            yield ParsedRow(number, Problem(name, number, message, remedy, shown))
            continue
        yield ParsedRow(number, {column: cell or None for column, cell in zip(columns, cells, strict=True) if column})


def delimiter_of(head: list[str], id_field: str) -> str:
    """Return the delimiter of a table, from its first lines; one that makes a column `id_field` is preferred.

    Raises:
        Unreadable: there is none, or two delimiters fit.
    """
    wide = {}
    for delimiter in DELIMITERS:
        try:
            rows = list(csv.reader(head, delimiter=delimiter))
        except csv.Error:
            continue
        columns = [cell.strip() for cell in rows[0]] if rows else []
        if len(columns) > 1:
            fitting = sum(len(row) == len(columns) for row in rows[1:])
            wide[delimiter] = (id_field in columns, fitting == len(rows) - 1, columns)
    if not wide:
        message = "not recognized: neither JSON nor a TREC run, nor a table of two columns or more"
        raise Unreadable(message, line=1, shown=head[0].strip()[:160])
    best = max(each[:2] for each in wide.values())
    chosen = [delimiter for delimiter, each in wide.items() if each[:2] == best]
    if "\t" in chosen and not best[0] and all("\t" in line for line in head if line.strip()):
        return "\t"  # texts without a header hold commas and bars, and no tabs
    if len(chosen) > 1:
        readings = " or ".join(f"{DELIMITERS[each]} (columns {', '.join(wide[each][2])})" for each in chosen)
        raise Unreadable(f"cells may be separated by {readings}", "Write it with tabs, or as JSON Lines.", 1)
    return chosen[0]


def parse_parquet(opened: OpenedFile, settings: ReadSettings) -> ParsedFile:
    """Return the rows of a Parquet file; a null is None."""
    from pyarrow import parquet

    file = parquet.ParquetFile(io.BytesIO(opened.read()))
    batches = file.iter_batches(batch_size=1024)
    return ParsedFile("Parquet", _batch_rows(batches), columns=file.schema_arrow.names, empty="its table has no rows")


def parse_arrow(opened: OpenedFile, settings: ReadSettings) -> ParsedFile:
    """Return the rows of an Arrow file or stream."""
    content = opened.read()
    open_it = pa.ipc.open_file if content.startswith(b"ARROW1") else pa.ipc.open_stream
    table = open_it(io.BytesIO(content)).read_all()
    rows = _batch_rows(table.to_batches())
    return ParsedFile("Arrow", rows, columns=table.column_names, empty="its table has no rows")


def is_saved_dataset(folder: Path) -> bool:
    """Return whether `datasets` wrote this folder with `save_to_disk`."""
    return (folder / "state.json").is_file() or (folder / "dataset_dict.json").is_file()


def parse_saved_dataset(folder: Path) -> ParsedFile:
    """Return the rows of a folder that `datasets` wrote with `save_to_disk`.

    Raises:
        Unreadable: it has several splits, a file is missing or damaged, or another program wrote the folder.
    """
    try:
        readers = [pa.ipc.open_stream(pa.memory_map(str(file))) for file in _saved_files(folder)]
    except Unreadable:
        raise
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        message = f"a saved dataset that cannot be read ({type(error).__name__}: {error})"
        raise Unreadable(message, "Save it again, or name a file of the folder.") from None
    columns = readers[0].schema.names if readers else []
    batches = (batch for reader in readers for batch in reader)
    return ParsedFile("a dataset saved to disk", _batch_rows(batches), columns=columns, empty="its table has no rows")


def _saved_files(folder: Path) -> list[Path]:
    """Return the files with the rows of a saved dataset, in order.

    Raises:
        Unreadable: it has several splits, an index of its rows, or lacks a file.
    """
    import json

    if (folder / "dataset_dict.json").is_file():
        splits = json.loads((folder / "dataset_dict.json").read_bytes())["splits"]
        if len(splits) != 1:
            raise Unreadable(f"a saved dataset of the splits {', '.join(splits)}", f"Name one: {folder / splits[0]}.")
        folder = folder / splits[0]
    state = json.loads((folder / "state.json").read_bytes())
    if state.get("_indices_data_files") or state.get("_indices_files"):
        raise Unreadable("a saved dataset with an index of its rows", "Save it again after flatten_indices().")
    files = [folder / each["filename"] for each in state["_data_files"]]
    if absent := next((file for file in files if not file.is_file()), None):
        raise Unreadable(f"a saved dataset without its file {absent.name}", "Copy the whole folder.")
    return files


def _batch_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[ParsedRow]:
    """Yield the rows of batches, numbered from 1.

    Raises:
        Unreadable: a batch is damaged.
    """
    number = 0
    try:
        for number, row in enumerate((row for batch in batches for row in batch.to_pylist()), start=1):
            yield ParsedRow(number, row)
    except (pa.ArrowException, OSError) as error:
        raise Unreadable(f"cannot be read after row {number:,}: {error}", "Write it again.") from None
