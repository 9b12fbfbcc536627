"""Output to a terminal of any encoding and width: text, tables, spinners; control characters are escaped.

All verbs print with it. Names and texts come from files and models: they must not control the terminal, and no
character may end a command with an error. rich is imported only when something is printed with it.
"""

import codecs
import json
import os
import shlex
import shutil
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

IN_ASCII = dict(zip("↓↑→←·•–—−×…‘’“”─│┼━┃\xa0", "v^><-*---x.''\"\"-|+-| ", strict=True)) | {
    "±": "+/-",
    "≤": "<=",
    "≥": ">=",
    "≈": "~=",
}
"""Typographic character -> ASCII equivalent of the same width, for encodings without it."""
_HANDLER = "kbbench-ascii"


def prepare() -> None:
    """Prepare the standard streams: output must not fail for its encoding or for an invalid width.

    A character that the encoding lacks becomes its ASCII equivalent, or its escape as in Python's `repr`. COLUMNS and
    LINES are ignored unless they are positive numbers. The descriptor of a closed standard stream is opened on the
    null device; otherwise the next opened file would get its number, and with it the output.
    """
    codecs.register_error(_HANDLER, _in_ascii)  # type: ignore[arg-type]  # only output has it
    _printed.clear()
    for number, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)):
        if stream is None:
            _open_null_device(number)
        elif number and (reconfigure := getattr(stream, "reconfigure", None)):
            reconfigure(errors=_HANDLER)
    for name in ("COLUMNS", "LINES"):
        if not (os.environ.get(name, "").isdecimal() and 0 < int(os.environ[name]) < 100_000):
            os.environ.pop(name, None)


def finish() -> OSError | None:
    """Flush the output; if that fails (a full disk), drop the rest and return the error."""
    found = None
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError as error:
            found = found or error
            _open_null_device(stream.fileno())
    return found


def visible(text: str) -> str:
    r"""Return a text with characters escaped that are not printable, except line ends and tabs.

    >>> visible("tidy \x1b[2J\u202e")
    'tidy \\x1b[2J\\u202e'
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in "\n\t" else repr(each)[1:-1] for each in text)


def echo(text: str = "", *, err: bool = False) -> None:
    """Print a line to standard output or error with `visible`; use `click.echo` for machine-readable output."""
    stream = sys.stderr if err else sys.stdout
    if stream is not None:
        stream.write(f"{visible(text)}\n")
        stream.flush()


_printed: list[bool] = []
"""Not empty if this process has printed a JSON document since `prepare`."""


def print_json(value: object, indent: int | None = 2, ensure_ascii: bool = True) -> None:
    """Print a JSON document to standard output, for `--json`; a command prints one."""
    sys.stdout.write(json.dumps(value, indent=indent, ensure_ascii=ensure_ascii) + "\n")
    _printed.append(True)


def has_printed_json() -> bool:
    """Return whether the command has printed its JSON document, so that an error must not add another one."""
    return bool(_printed)


@contextmanager
def waiting(title: str) -> Iterator[None]:
    """Show `title` and a spinner on standard error while the block runs, after a second and only on a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    shown: list[Status] = []

    def show() -> None:
        from rich.console import Console  # imported only when the wait is long

        shown.append(Console(stderr=True).status(f"{title} ..."))
        shown[0].start()

    timer = threading.Timer(1.0, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        for status in shown:
            status.stop()


def called_as() -> str:
    """Return the command as it was called, to print commands that can be pasted: `kbbench`, `.venv/bin/kbbench`."""
    given = Path(sys.argv[0])
    if given.name == "__main__.py":
        return "python -m kbbench_hf.cli"
    found = shutil.which(given.name)
    same = found is not None and given.is_file() and Path(found).samefile(given)
    return given.name if same or given == Path(given.name) else shlex.quote(str(given))


def console() -> "Console":
    """Return a rich console that escapes control characters."""
    from rich.console import Console
    from rich.text import Text

    class Visible(Console):
        def render_str(self, text: str, **how: Any) -> Text:
            return super().render_str(visible(text), **how)

    return Visible(highlight=False)


class Best(str):
    """A table cell in bold."""


def print_table(on: "Console", headings: Sequence[str], rows: Sequence[Sequence[str]], n_words: int = 1) -> None:
    """Print a table: the first `n_words` columns aligned left, numbers aligned right. No cell is truncated.

    Columns that exceed the width follow below, in another table that repeats the first column. A name that is wider
    than half of the terminal has a line of its own.
    """
    from rich.cells import cell_len
    from rich.markup import escape

    best = [[isinstance(cell, Best) for cell in row] for row in (headings, *rows)]
    cells = [[visible(cell) for cell in row] for row in (headings, *rows)]
    names = [row[0] for row in cells]
    most = max(cell_len(headings[0]), on.width // 2)
    width = max(size for name in names if (size := cell_len(name)) <= most)
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    line = partial(on.print, soft_wrap=True, crop=False)

    def padded(row: Sequence[str], bold: Sequence[bool], chosen: range) -> str:
        name = row[0] if cell_len(row[0]) <= width else ""
        shown = [escape(name) + " " * (width - cell_len(name))]
        for column in chosen:
            space = " " * (widths[column] - cell_len(row[column]))
            cell = f"[bold]{escape(row[column])}[/bold]" if bold[column] else escape(row[column])
            shown.append(cell + space if column < n_words else space + cell)
        return "  ".join(shown).rstrip()

    start = 1
    while start < len(widths):
        end = start + 1
        while end < len(widths) and width + sum(each + 2 for each in widths[start : end + 1]) <= on.width:
            end += 1
        if start > 1:
            line()
        line(f"[bold]{padded(cells[0], best[0], range(start, end))}[/bold]")
        for row, bold in zip(cells[1:], best[1:], strict=True):
            if cell_len(row[0]) > width:
                line(escape(row[0]))
            line(padded(row, bold, range(start, end)))
        start = end


def _in_ascii(error: UnicodeEncodeError) -> tuple[str, int]:
    """Return the replacement of characters that an encoding lacks, and where encoding continues."""
    failed = error.object[error.start : error.end]
    return "".join(IN_ASCII.get(each) or ascii(each)[1:-1] for each in failed), error.end


def _open_null_device(number: int) -> None:
    """Open the null device as a descriptor with this number."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    if nowhere != number:
        os.dup2(nowhere, number)
        os.close(nowhere)
