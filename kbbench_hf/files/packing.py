"""Opener of files: packed with gzip, zstandard, bzip2, xz or zip, and of any Unicode encoding.

All importers of users' files open them here, and uploads too: their decompressed size is bounded before it is in
memory, and only gzip is decompressed. A damaged file is refused in words, whatever its library raises.
"""

import bz2
import codecs
import gzip
import io
import lzma
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO
from zipfile import BadZipFile, ZipFile, ZipInfo

import pyarrow as pa

from kbbench_hf.errors import first_of
from kbbench_hf.files import STDIN, shown_name
from kbbench_hf.files.rows import Unreadable

HEAD = 1 << 16
"""Number of the first bytes that formats are detected from."""
OWN_LINE_BYTES = 100_000_000
"""The longest line of a user's own file."""
SAVE_AS_UTF8 = (
    "Save it as UTF-8, or convert it: iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW (if it was Latin-1 or Windows-1252)."
)
_ZSTANDARD = 93
"""The number of this compression in zip files, which `zipfile` does not read before Python 3.14."""
_NESTED = 3
"""Passes over nested packings; the last one must find none, so that two may be nested."""
_BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError, BadZipFile, struct.error, NotImplementedError, RuntimeError)
"""Errors of the libraries for damaged or unsupported files; RuntimeError is zipfile's for a password."""


@dataclass
class OpenedFile:
    """A decompressed file: its name and a stream of its bytes; or an archive that is a format of its own."""

    name: str
    stream: io.BufferedReader
    packed: str = ""
    """Its compression, as messages name it; empty for none."""
    archive: ZipFile | None = None
    """The archive of an `.eval` log."""

    @property
    def head(self) -> bytes:
        """The first bytes, at most `HEAD`; they stay in the stream."""
        return self.stream.peek(HEAD)[:HEAD]

    def read(self) -> bytes:
        """Return all bytes that were not read yet."""
        return self.stream.read()

    def close(self) -> None:
        """Close the file."""
        self.stream.close()
        if self.archive is not None:
            self.archive.close()


def open_unpacked(file: Path, max_bytes: int | None = None) -> OpenedFile:
    """Open a file and decompress it: gzip, zstandard, bzip2, xz, or a zip archive of one file.

    With `max_bytes`, no more bytes can be read, decompressed or not, and only gzip is decompressed: the others need an
    unknown amount of memory. An `.eval` log keeps its archive.

    Raises:
        Unreadable: it is damaged, a spreadsheet, or an archive of several files.
    """
    pipe = _pipe_content(file, max_bytes)
    opened = OpenedFile(shown_name(file), buffered(file.open("rb") if pipe is None else pipe, max_bytes))
    packings = _PACKINGS if max_bytes is None else _PACKINGS[:1]
    for _ in range(_NESTED):
        head = opened.head
        if head.startswith(b"PK\x03\x04") and max_bytes is None:
            opened = _open_archive(opened, io.BytesIO(opened.read()) if opened.packed or pipe else file)
            if opened.archive is not None:
                return opened
        elif compression := next((each for each in packings if head.startswith(each[0])), None):
            _, name, decompress = compression
            opened = OpenedFile(opened.name, buffered(decompress(opened.stream), max_bytes), name)
        else:
            return opened
    raise Unreadable(f"more than {_NESTED - 1} packings inside each other", "Unpack it.")


def _pipe_content(file: Path, max_bytes: int | None) -> io.BytesIO | None:
    """Return the bytes of standard input or a pipe; None for a regular file."""
    n = -1 if max_bytes is None else max_bytes + 1
    if str(file) == STDIN:
        return io.BytesIO(sys.stdin.buffer.read(n) if sys.stdin else b"")
    if file.is_file():
        return None
    with file.open("rb") as source:
        return io.BytesIO(source.read(n))


def read_member(archive: ZipFile, name: str) -> bytes:
    """Return the bytes of a member of a zip file, compressed with deflate or zstandard.

    Raises:
        Unreadable: it is damaged or needs a password.
    """
    member = archive.getinfo(name)
    if member.flag_bits & 1:
        raise Unreadable(f"the member {name!r} needs a password", "Unpack it.")
    try:
        with _open_member(archive, member) as source:
            content: bytes = source.read()
    except _BROKEN as error:
        raise Unreadable(f"the member {name!r} cannot be unpacked: {error}", "Copy the file again.") from None
    if zlib.crc32(content) != member.CRC:
        raise Unreadable(f"the member {name!r} is damaged: its checksum differs", "Copy the file again.")
    return content


def _open_member(archive: ZipFile, member: ZipInfo) -> BinaryIO:
    """Return the stream of a member's decompressed bytes; of zstandard, its header is skipped by hand."""
    if member.compress_type != _ZSTANDARD:
        return archive.open(member)  # type: ignore[return-value]
    source = archive.fp
    assert source is not None  # noqa: S101 (an archive is not closed while it is read)
    source.seek(member.header_offset)
    name_length, extra_length = struct.unpack("<26xHH", source.read(30))
    source.seek(name_length + extra_length, io.SEEK_CUR)
    return _zstandard(io.BytesIO(source.read(member.compress_size)))


def _open_archive(opened: OpenedFile, source: Path | io.BytesIO) -> OpenedFile:
    """Return the only file of a zip archive, opened; of an `.eval` log the file with its archive.

    Hidden files and those that macOS adds do not count.

    Raises:
        Unreadable: it is damaged, a spreadsheet, or has several files.
    """
    try:
        archive = ZipFile(source)
    except _BROKEN as error:
        message = f"a zip file that cannot be opened: {error}; it was cut off or damaged"
        raise Unreadable(message, "Copy it again.") from None
    names = [each for each in archive.namelist() if not each.endswith("/") and not each.startswith("__MACOSX/")]
    if any(name in ("xl/workbook.xml", "content.xml", "xl/workbook.bin") for name in names):
        raise Unreadable("a spreadsheet (a workbook, which may hold formulas)", "Save the sheet as CSV UTF-8.")
    if "_journal/start.json" in names or "header.json" in names:
        return OpenedFile(opened.name, opened.stream, opened.packed, archive)
    files = [name for name in names if not PurePosixPath(name).name.startswith(".")]
    if len(files) != 1:
        shown = first_of(files, 5)
        raise Unreadable(f"a zip file of {len(files):,} files ({shown})", "Unpack it and name one of them.")
    return OpenedFile(opened.name, buffered(io.BytesIO(read_member(archive, files[0]))), "zip")


class _BoundedStream(io.RawIOBase):
    """A stream that raises `Unreadable` where it is too long or damaged."""

    def __init__(self, source: BinaryIO, limit: int | None) -> None:
        self.source, self._limit, self._n = source, limit, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            chunk = self.source.read(len(buffer))
        except _BROKEN as error:
            raise Unreadable(f"cannot be read: {error}; it was cut off or damaged", "Copy it again.") from None
        self._n += len(chunk)
        if self._limit is not None and self._n > self._limit:
            raise Unreadable(f"more than {self._limit:,} bytes when expanded", "Send a smaller file.")
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        self.source.close()
        super().close()


def buffered(source: BinaryIO, limit: int | None = None) -> io.BufferedReader:
    """Return a stream with `peek` that raises `Unreadable` where it is too long or damaged."""
    return io.BufferedReader(_BoundedStream(source, limit), HEAD)


def _zstandard(source: BinaryIO) -> BinaryIO:
    unpacked: BinaryIO = pa.input_stream(source, compression="zstd")
    return unpacked


_PACKINGS: tuple[tuple[bytes, str, Callable[[Any], Any]], ...] = (
    (b"\x1f\x8b", "gzip", gzip.open),
    (b"\x28\xb5\x2f\xfd", "zstandard", _zstandard),
    (b"BZh", "bzip2", bz2.open),
    (b"\xfd7zXZ\x00", "xz", lzma.open),
)
"""First bytes, name and opener of each compression."""


_MARKS = (
    (codecs.BOM_UTF8, "utf-8", "UTF-8 with BOM"),
    (codecs.BOM_UTF32_LE, "utf-32", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16", "UTF-16"),
)


def as_utf8(opened: OpenedFile) -> str:
    """Convert an open file to UTF-8 without a byte-order mark; return the name of another encoding, or an empty text.

    Raises:
        Unreadable: it is not text, or UTF-16 without a mark.
    """
    head = opened.head
    for mark, encoding, name in _MARKS:
        if head.startswith(mark):
            if encoding == "utf-8":
                opened.stream.read(len(mark))
                return ""
            try:
                text = opened.read().decode(encoding)
            except UnicodeDecodeError as error:
                raise Unreadable(f"not {name} at byte {error.start}", "Save it as UTF-8.") from None
            opened.stream = buffered(io.BytesIO(text.encode("utf-8", "surrogatepass")))
            return name
    if b"\x00" in head:
        start = head[:200]
        wide = next((name for odd, name in enumerate(("BE", "LE")) if start[odd::2].count(0) > len(start) / 4), None)
        if wide is None:
            raise Unreadable("no text: it holds zero bytes", "Write it as text in UTF-8, or as Parquet.")
        remedy = f"Save it as UTF-8, or convert it: iconv -f UTF-16{wide} -t UTF-8 OLD > NEW"
        raise Unreadable("UTF-16 without a byte-order mark", remedy)
    return ""


def decoded(text: bytes, line: int) -> str:
    """Return UTF-8 bytes as text; `line` is the number of their first line, for errors.

    Raises:
        Unreadable: they are not UTF-8.
    """
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        number = line + text.count(b"\n", 0, error.start)
        start = text.rfind(b"\n", 0, error.start) + 1
        shown = text[start : start + 160].partition(b"\n")[0].decode("utf-8", "replace").strip()
        message = f"not UTF-8: byte {text[error.start]:#04x}; which 8-bit code this is cannot be known"
        raise Unreadable(message, SAVE_AS_UTF8, number, shown) from None


def text_lines(opened: OpenedFile) -> Iterator[str]:
    """Yield the lines of a text with their line ends.

    Raises:
        Unreadable: it is not UTF-8, or a line is too long.
    """
    for number, line in enumerate(iter(lambda: opened.stream.readline(OWN_LINE_BYTES + 1), b""), start=1):
        if len(line) > OWN_LINE_BYTES:
            raise Unreadable(f"longer than {OWN_LINE_BYTES:,} bytes; one example is one line", line=number)
        yield decoded(line, number)
