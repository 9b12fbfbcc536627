"""The formats that are read, and how each is recognised: by its content, the first that fits."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from kbbench_hf.errors import UsageError
from kbbench_hf.files import STDIN, harness, json_documents, json_lines, shown_name, tables, tool_outputs, trec, webnlg
from kbbench_hf.files.packing import Opened, open_unpacked
from kbbench_hf.files.rows import How, Line, Reading, Unreadable, until_unreadable
from kbbench_hf.files.texts import as_utf8


class Format(NamedTuple):
    """A format: what tells it by the first bytes, and what reads it."""

    recognises: Callable[[bytes], bool]
    read: Callable[[Opened, How], Reading]


BINARY = (
    Format(lambda head: head.startswith(b"PAR1"), tables.read_parquet),
    Format(lambda head: head.startswith((b"ARROW1", b"\xff\xff\xff\xff")), tables.read_arrow),
)
TEXT = (
    Format(webnlg.recognises, webnlg.read),
    Format(json_lines.recognises, json_lines.read),
    Format(json_documents.recognises, json_documents.read),
    Format(trec.recognises, trec.read),
    Format(trec.are_qrels, trec.read_qrels),
    Format(lambda head: True, tables.read_delimited),
)
_ALSO = frozenset({".csv", ".tsv", ".parquet", ".arrow", ".eval", ".run", ".trec"})
"""How files end that hold predictions as likely as those of a folder that are read."""
NOT_READ = {
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"\x80\x03": "a pickle, which could run any program",
    b"\x80\x04": "a pickle, which could run any program",
    b"\x80\x05": "a pickle, which could run any program",
    b"\x93NUMPY": "a NumPy array, which has no ids",
    b"\x89HDF": "HDF5",
    b"%PDF": "a PDF",
    b"SQLite format 3": "an SQLite database",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"<http": "RDF triples, which no example owns",
    b"<": "HTML or XML (a page that was saved in place of the file?)",
    b"version https://git-lfs": "a pointer of Git LFS, not the file (git lfs pull)",
}
"""First bytes -> what it is, of files that are often sent and never read."""


def read_file(path: Path, how: How | None = None, max_bytes: int | None = None) -> Reading:
    """Recognise a file, or a folder that is one, and return its rows, problems among them.

    A file from a stranger, of which at most `max_bytes` are read, must be JSON Lines, packed or not: only these are
    read one line at a time.
    """
    opened = None
    try:
        if path.is_dir():
            reading = tables.read_saved_dataset(path)
        else:
            opened = open_unpacked(path, max_bytes)
            reading = _recognised(opened, how or How()) if max_bytes is None else _strangers(opened)
    except Unreadable as error:
        reading = Reading("nothing known", iter([Line(error.line, error.problem(shown_name(path)))]))
    reading.lines = _closed_after(opened, until_unreadable(shown_name(path), reading.lines))
    return reading


def _recognised(opened: Opened, how: How) -> Reading:
    encoding = ""
    if opened.archive is not None:
        reading = harness.read_inspect_archive(opened, how)
    elif found := next((each for each in BINARY if each.recognises(opened.head)), None):
        try:
            reading = found.read(opened, how)
        except (pa.ArrowException, OSError) as error:
            raise Unreadable(f"cannot be read: {error}; it was cut off or damaged", "Write it again.") from None
    else:
        unread = (words for start, words in NOT_READ.items() if opened.head.startswith(start))
        if (name := next(unread, None)) and not webnlg.recognises(opened.head):
            raise Unreadable(f"this is {name}", "Send JSON Lines, JSON, csv, Parquet or a TREC run.")
        encoding = as_utf8(opened)
        if not opened.head.strip():
            reading = Reading("an empty file", iter(()))
        else:
            reading = next(each for each in TEXT if each.recognises(opened.head)).read(opened, how)
            reading = _looked_into(reading, how)
    packed = ", ".join(each for each in (encoding, opened.packed) if each)
    reading.words += f", {packed}" if packed else ""
    return reading


def _strangers(opened: Opened) -> Reading:
    is_text = b"\x00" not in opened.head
    if is_text:
        as_utf8(opened)
    if not is_text or (opened.head.strip() and not json_lines.recognises(opened.head)):
        raise Unreadable(
            "no JSON Lines; nothing else is read here",
            "Write them with: kbbench validate FILE --benchmark NAME --out answers.jsonl",
        )
    return Reading("JSON Lines", json_lines.read_lines(opened, json_lines.MAX_LINE_BYTES))


def _looked_into(reading: Reading, how: How) -> Reading:
    """Return the reading of rows that tell what they are by their fields; one object alone may be a whole file."""
    if reading.fields or reading.cells is not None or not (first := next(reading.lines, None)):
        return reading
    if reading.columns is not None and not (tool_outputs.of_rows(first.value)):
        reading.lines = chain([first], reading.lines)
        return reading
    if harness.is_lm_eval(first.value):
        return harness.of_lm_eval(chain([first], reading.lines))
    if tool := tool_outputs.of_rows(first.value):
        return tool_outputs.reading(tool, chain([first], reading.lines))
    if reading.words != "JSON Lines":
        reading.lines = chain([first], reading.lines)
        return reading
    second = next(reading.lines, None)
    if second is None and isinstance(first.value, dict) and isinstance(first.value.get(how.id_field, {}), list | dict):
        return json_documents.of_object(first.value, how)
    reading.lines = chain([first], [second] if second else [], reading.lines)
    return reading


def _closed_after(opened: Opened | None, lines: Iterator[Line]) -> Iterator[Line]:
    try:
        yield from lines
    finally:
        if opened is not None:
            opened.close()


def prediction_files(paths: Iterable[Path]) -> list[Path]:
    """Return the files that paths stand for; a folder stands for its `.jsonl` and `.jsonl.gz` files, or for itself.

    Raises:
        UsageError: a path does not exist, or a folder holds nothing that is read.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += _in_folder(path)
        elif path.exists() or str(path) == STDIN:  # a pipe is no regular file
            files.append(path)
        else:
            raise UsageError(f"{path} does not exist; expected a predictions file or folder. Check the path.")
    return files


def _in_folder(folder: Path) -> list[Path]:
    own = folder / "predictions.jsonl"
    if own.is_file():
        return [own]
    if tables.is_saved_dataset(folder):
        return [folder]
    for endings in (("*.jsonl", "*.jsonl.gz"), ("*.parquet", "data/*.parquet")):
        if found := sorted(file for ending in endings for file in folder.glob(ending)):
            if others := sorted(file.name for file in folder.glob("*") if file.suffix in _ALSO and file not in found):
                raise UsageError(
                    f"{folder} holds {found[0].name} and {others[0]}, files of two formats: do both hold predictions? "
                    "Expected one format. Name the files.",
                )
            return found
    raise UsageError(f"{folder} holds no .jsonl file; expected predictions in JSON Lines. Name the file.")


def lines_of(rows: Iterable[object]) -> Reading:
    """Return objects at hand as a reading, as if they stood in JSON Lines."""
    return Reading("JSON Lines", (Line(number, row) for number, row in enumerate(rows, start=1)))
