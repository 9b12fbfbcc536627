"""Registry of file formats of predictions, detected by content: JSON Lines, JSON, csv, Parquet, TREC, tool outputs.

`scoring`, uploads and `annotate` read files with it; `score_rows` logs of scores. Formats are tried in the order of
`BINARY` and `TEXT`: the later ones accept more, so that a new one must come before them. A file is never read in
another form without a word: what is ambiguous is refused.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from kbbench_hf.errors import UsageError
from kbbench_hf.files import STDIN, harness, json_documents, json_lines, shown_name, tables, trec
from kbbench_hf.files.packing import OpenedFile, as_utf8, open_unpacked
from kbbench_hf.files.rows import ParsedFile, ParsedRow, ReadSettings, Unreadable, numbered, until_unreadable


class FileFormat(NamedTuple):
    """A format: its detector (of the first bytes) and its parser."""

    matches: Callable[[bytes], bool]
    parse: Callable[[OpenedFile, ReadSettings], ParsedFile]


BINARY = (
    FileFormat(lambda head: head.startswith(b"PAR1"), tables.parse_parquet),
    FileFormat(lambda head: head.startswith((b"ARROW1", b"\xff\xff\xff\xff")), tables.parse_arrow),
)
TEXT = (
    FileFormat(harness.is_webnlg, harness.parse_webnlg),
    FileFormat(json_lines.is_json_lines, json_lines.parse_json_lines),
    FileFormat(json_documents.is_json, json_documents.parse_json),
    FileFormat(trec.is_trec_run, trec.parse_trec_run),
    FileFormat(trec.is_qrels, trec.refuse_qrels),
    FileFormat(lambda head: True, tables.parse_delimited),
)
"""The first format that matches the first bytes is taken."""
_OTHER_SUFFIXES = frozenset({".csv", ".tsv", ".parquet", ".arrow", ".eval", ".run", ".trec"})
"""Suffixes of other predictions files, which make a folder of JSON Lines or Parquet files ambiguous."""
UNSUPPORTED = {
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    **dict.fromkeys((b"\x80\x03", b"\x80\x04", b"\x80\x05"), "a pickle, which could run any program"),
    b"\x93NUMPY": "a NumPy array, which has no ids",
    b"\x89HDF": "HDF5",
    b"%PDF": "a PDF",
    b"SQLite format 3": "an SQLite database",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"<http": "RDF triples, which no example owns",
    b"<": "HTML or XML (a page that was saved in place of the file?)",
    b"version https://git-lfs": "a pointer of Git LFS, not the file (git lfs pull)",
}
"""First bytes -> format, of files that are often sent and not supported."""


def read_file(path: Path, settings: ReadSettings | None = None, max_bytes: int | None = None) -> ParsedFile:
    """Detect the format of a file or saved dataset, and return its rows and problems, which are read lazily.

    An error that ends reading is the last row, as a `Problem`. With `max_bytes` the file is an upload: it must be JSON
    Lines, perhaps compressed with gzip.
    """
    opened = None
    try:
        if path.is_dir():
            parsed = tables.parse_saved_dataset(path)
        else:
            opened = open_unpacked(path, max_bytes)
            parsed = _parse(opened, settings or ReadSettings()) if max_bytes is None else _parse_upload(opened)
    except Unreadable as error:
        parsed = ParsedFile("nothing known", iter([ParsedRow(error.line, error.problem(shown_name(path)))]))
    parsed.lines = _closed_after(opened, until_unreadable(shown_name(path), parsed.lines))
    return parsed


def _parse(opened: OpenedFile, settings: ReadSettings) -> ParsedFile:
    """Return the rows of a user's own file.

    Raises:
        Unreadable: it is damaged, or of a format that is not supported.
    """
    encoding = ""
    if opened.archive is not None:
        parsed = harness.parse_inspect_archive(opened.archive)
    elif binary := next((each for each in BINARY if each.matches(opened.head)), None):
        try:
            parsed = binary.parse(opened, settings)
        except (pa.ArrowException, OSError) as error:
            raise Unreadable(f"cannot be read: {error}; it was cut off or damaged", "Write it again.") from None
    else:
        name = next((name for start, name in UNSUPPORTED.items() if opened.head.startswith(start)), None)
        if name and not harness.is_webnlg(opened.head):
            raise Unreadable(f"this is {name}", "Send JSON Lines, JSON, csv, Parquet or a TREC run.")
        encoding = as_utf8(opened)
        if not opened.head.strip():
            parsed = ParsedFile("an empty file", iter(()))
        else:
            text_format = next(each for each in TEXT if each.matches(opened.head))
            parsed = _detect_tool(text_format.parse(opened, settings), settings)
    packed = ", ".join(each for each in (encoding, opened.packed) if each)
    parsed.format += f", {packed}" if packed else ""
    return parsed


def _parse_upload(opened: OpenedFile) -> ParsedFile:
    """Return the rows of an upload.

    Raises:
        Unreadable: it is not JSON Lines.
    """
    is_text = b"\x00" not in opened.head
    if is_text:
        as_utf8(opened)
    if not is_text or (opened.head.strip() and not json_lines.is_json_lines(opened.head)):
        remedy = "Write them with: kbbench validate FILE --benchmark NAME --out answers.jsonl"
        raise Unreadable("no JSON Lines; nothing else is read here", remedy)
    return ParsedFile("JSON Lines", json_lines.read_lines(opened, json_lines.MAX_LINE_BYTES))


def _detect_tool(parsed: ParsedFile, settings: ReadSettings) -> ParsedFile:
    """Return the rows in the format that their fields show; a single object may be a document of a tool."""
    if parsed.fields or parsed.cells is not None or not (first := next(parsed.lines, None)):
        return parsed
    start, value = [first], first.value
    tool = None if settings.whole_rows else harness.detect_tool(value)
    if not settings.whole_rows and parsed.columns is None and harness.is_lm_eval(value):
        return harness.parse_lm_eval(chain(start, parsed.lines))
    if tool:
        return harness.parse_tool_output(tool, chain(start, parsed.lines))
    if parsed.columns is None and parsed.format == "JSON Lines":
        if second := next(parsed.lines, None):
            start.append(second)
        elif isinstance(value, dict) and isinstance(value.get(settings.id_field, {}), list | dict):
            return json_documents.parse_document(value, settings)
    parsed.lines = chain(start, parsed.lines)
    return parsed


def _closed_after(opened: OpenedFile | None, lines: Iterator[ParsedRow]) -> Iterator[ParsedRow]:
    """Yield lines, and close their file after the last one or when the reader stops."""
    try:
        yield from lines
    finally:
        if opened is not None:
            opened.close()


def prediction_files(paths: Iterable[Path]) -> list[Path]:
    """Return the predictions files of paths; of a folder its `.jsonl` and `.jsonl.gz` files, or a saved dataset itself.

    Raises:
        UsageError: a path does not exist, or a folder has no predictions.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += _folder_files(path)
        elif path.exists() or str(path) == STDIN:  # a pipe is no regular file
            files.append(path)
        else:
            raise UsageError(f"{path} does not exist; expected a predictions file or folder. Check the path.")
    return files


def _folder_files(folder: Path) -> list[Path]:
    """Return the predictions files of a folder: of a run its own, else all files of one format, by name.

    Raises:
        UsageError: there are none, files of two formats, or a run that is not finished.
    """
    own = folder / "predictions.jsonl"
    if own.is_file():
        return [own]
    if tables.is_saved_dataset(folder):
        return [folder]
    if any(folder.glob("journal*.jsonl")):
        raise UsageError(
            f"{folder} is a run that is not finished: it holds a journal and no {own.name}. Expected a finished run. "
            "Run the same command again to finish it."
        )
    for endings in (("*.jsonl", "*.jsonl.gz"), ("*.parquet", "data/*.parquet")):
        if group := sorted(file for ending in endings for file in folder.glob(ending)):
            others = [file for file in folder.glob("*") if file.suffix in _OTHER_SUFFIXES and file not in group]
            if others:
                raise UsageError(
                    f"{folder} holds {group[0].name} and {min(others).name}, files of two formats: do both hold "
                    "predictions? Expected one format. Name the files."
                )
            return group
    raise UsageError(f"{folder} holds no .jsonl file; expected predictions in JSON Lines. Name the file.")


def parsed_rows(rows: Iterable[object]) -> ParsedFile:
    """Return objects in memory as if they were parsed from JSON Lines."""
    return ParsedFile("JSON Lines", numbered(rows))
