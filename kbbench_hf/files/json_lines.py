"""Parser of JSON Lines: one object per line; an invalid line is a problem, and parsing continues.

`formats` uses it for users' files and for uploads of unknown origin: bounds on lines and depth protect the board.
"""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from math import isfinite

from kbbench_hf.files.packing import HEAD, OWN_LINE_BYTES, SAVE_AS_UTF8, OpenedFile
from kbbench_hf.files.rows import LONG_NUMBER, ParsedFile, ParsedRow, Problem, ReadSettings, Unreadable

MAX_LINE_BYTES = 1_000_000
"""The longest line of an uploaded file."""
MAX_DEPTH = 8
"""Maximum levels of lists and objects in an answer."""
_LOOKED_AT = 50
"""Lines from which the format is detected; some may be damaged."""


def is_json_lines(head: bytes) -> bool:
    """Return whether a text has one JSON value per line: some of its first lines are whole objects."""
    text = head.lstrip()
    lines = text.split(b"\n")[: _LOOKED_AT + 1]
    whole = lines[:-1] if len(head) >= HEAD else lines
    if text.startswith(b"["):  # an array, unless each line is one
        return _has_any(whole[:1], list) and _has_any(whole[1:2], list)
    return (text.startswith(b"{") and len(lines) == 1) or _has_any(whole, dict)


def _has_any(lines: list[bytes], kind: type) -> bool:
    """Return whether one of the lines is a whole JSON value of a type, perhaps with a comma after it."""
    for line in lines:
        with suppress(ValueError, RecursionError):
            if isinstance(json.loads(line.strip().rstrip(b",")), kind):
                return True
    return False


def parse_json_lines(opened: OpenedFile, settings: ReadSettings) -> ParsedFile:
    """Return the values of JSON Lines; a line that is not JSON is a problem."""
    return ParsedFile("JSON Lines", read_lines(opened, OWN_LINE_BYTES))


def read_lines(opened: OpenedFile, longest: int) -> Iterator[ParsedRow]:
    """Yield the value, or the problem, of every line that is not blank.

    Raises:
        Unreadable: a line has more than `longest` bytes.
    """
    for number in count(1):
        if not (text := opened.stream.readline(longest + 1)):
            return
        if len(text) > longest:
            raise Unreadable(f"longer than {longest:,} bytes; one example is one line", line=number)
        if not text.strip():
            continue
        try:
            yield ParsedRow(number, parse(text))
        except Unreadable as error:
            cut = "" if text.endswith(b"\n") else "The last line has no end: was the file cut off? Write it again."
            shown = text.decode("utf-8", "replace").strip()[:160]
            yield ParsedRow(number, Problem(opened.name, number, error.message, error.remedy or cut, shown))


def parse(text: bytes) -> object:
    """Return the value of JSON text without duplicate keys; `check_plain` checks NaN, infinity and depth.

    Raises:
        Unreadable: it is not JSON or not UTF-8, has a key twice, is too deep, or a number is too long.
    """
    try:
        return json.loads(text.decode("utf-8"), object_pairs_hook=unique_keys)
    except UnicodeDecodeError as error:
        raise Unreadable(f"not UTF-8 at byte {error.start}", SAVE_AS_UTF8) from None
    except RecursionError:
        raise Unreadable("nested too deeply") from None
    except Unreadable:
        raise
    except json.JSONDecodeError as error:
        rest = error.doc[error.pos :].strip()
        if error.msg == "Extra data" and rest == ",":
            remedy = "JSON Lines have no comma between lines: remove it, or put all of them in [ ] as one array."
            raise Unreadable("not JSON: a comma after the object", remedy) from None
        raise Unreadable(f"not JSON: {error.msg} at column {error.colno}", python_remedy(error.doc)) from None
    except ValueError:
        raise Unreadable(LONG_NUMBER) from None


def python_remedy(text: str) -> str:
    """Return the remedy for a text that looks like a printed Python object; empty for others."""
    python = text.lstrip()[:2] in ("{'", "['") or "{'" in text[:200]
    return "It looks like Python's own text (single quotes); write it with json.dumps instead." if python else ""


def check_plain(value: object, depth: int = MAX_DEPTH) -> None:
    """Check that a value has no NaN or infinity, and at most `depth` levels.

    Raises:
        ValueError: it has; the text is the message for the user.
    """
    if isinstance(value, float) and not isfinite(value):
        raise ValueError(f"{value} is not JSON; expected a finite number")
    if isinstance(value, dict | list):
        if depth == 0:
            raise ValueError(f"nested more than {MAX_DEPTH} levels deep")
        items = value.values() if isinstance(value, dict) else value
        if {*map(type, items)} & {float, dict, list}:  # skips the items of rankings, which may be long
            for item in items:
                check_plain(item, depth - 1)


def unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object's members as a dictionary.

    Raises:
        Unreadable: a key occurs twice.
    """
    result = dict(pairs)
    if len(result) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise Unreadable(f"key {next(key for key in counts if counts[key] > 1)!r} occurs twice in one object")
    return result
