"""Decoding of text files: encoding by byte-order mark, else UTF-8; errors with line numbers."""

import codecs
import io
from collections.abc import Iterator

from kbbench_hf.files.json_lines import OWN_LINE_BYTES, SAVE_AS_UTF8
from kbbench_hf.files.packing import OpenedFile, buffered
from kbbench_hf.files.rows import Unreadable

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
        raise Unreadable(
            f"not UTF-8: byte {text[error.start]:#04x}; which 8-bit code this is cannot be known",
            SAVE_AS_UTF8,
            number,
            shown,
        ) from None


def text_lines(opened: OpenedFile) -> Iterator[str]:
    """Yield the lines of a text with their line ends.

    Raises:
        Unreadable: it is not UTF-8, or a line is too long.
    """
    number = 0
    while line := opened.stream.readline(OWN_LINE_BYTES + 1):
        number += 1
        if len(line) > OWN_LINE_BYTES:
            raise Unreadable(f"longer than {OWN_LINE_BYTES:,} bytes; one example is one line", line=number)
        yield decoded(line, number)
