"""Types of parsed files: rows with line numbers, problems, notes; access to fields by dotted paths.

All importers return them, and `scoring` reads them. Users write paths (`--map`, `--where`), so their meaning stays.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple


@dataclass(frozen=True)
class Problem:
    """One error in a predictions file: `file`, `line` (from 1; None for the whole file) and message."""

    file: str
    line: int | None
    message: str
    remedy: str = ""
    """How to correct it, in a sentence; the same for all problems of a kind, so that messages show it once."""
    shown: str | None = None
    """The line, to be shown next to an example of a correct one."""

    def __str__(self) -> str:
        """Render as `file:line: message`."""
        return f"{self.file}{f':{self.line}' if self.line else ''}: {self.message}"


_INDEX = re.compile(r"\[(-?\d+)\]")
LONG_NUMBER = f"a number of more than {sys.get_int_max_str_digits():,} digits"
"""The message for a number that is valid JSON, and still too long for Python."""


class Unreadable(ValueError):
    """An error at which reading of a file, or in a `try` of one row, ends: message, line and remedy."""

    def __init__(self, message: str, remedy: str = "", line: int | None = None, shown: str | None = None) -> None:
        super().__init__(message)
        self.message, self.remedy, self.line, self.shown = message, remedy, line, shown

    def problem(self, file: str) -> Problem:
        """Return the error as a problem of a file."""
        return Problem(file, self.line, self.message, self.remedy, self.shown)


class Note(NamedTuple):
    """A note on a file that may affect its scores."""

    code: str
    message: str
    remedy: str = ""
    n_examples: int = 0
    severity: Literal["note", "warning"] = "warning"


class KeyedAnswer(NamedTuple):
    """A member of an object id -> answer."""

    id: str
    answer: object


class ParsedRow(NamedTuple):
    """One row: the line where it begins (its number, where the format has no lines), and its value."""

    number: int | None
    value: object
    """An object, a `KeyedAnswer`, a `Problem`, or any other JSON value."""


FieldPath = str | Callable[[Mapping[str, object]], object]
"""The path of a field, or a function of the row that raises KeyError where the field is absent."""


class ReadSettings(NamedTuple):
    """Options of parsing, set by the user."""

    id_field: str = "id"
    """The field of ids, or the first part of its path."""
    scores: Literal["similarity", "distance", "rank"] | None = None
    """How candidates of a run are ordered; None to detect it."""
    whole_rows: bool = False
    """Whether rows keep the fields of their file, which readers of logged scores need."""


@dataclass
class ParsedFile:
    """A file of a detected format. Rows are read lazily; the notes are complete after the last one."""

    format: str
    """The detected format, as messages name it."""
    lines: Iterator[ParsedRow]
    notes: list[Note] = field(default_factory=list)
    columns: Sequence[str] | None = None
    """The columns of a table; None for rows with their own field names."""
    fields: Mapping[str, FieldPath] = field(default_factory=dict)
    """Field -> its path in this format."""
    cells: Iterator[list[str]] | None = None
    """Of tab-separated text: the cells of all lines, for a table without a header."""
    one_of: str | None = None
    """A path whose value must be constant (a filter, an epoch): else an example has several answers."""
    judgments: Literal["no", "maybe", "likely"] = "maybe"
    """Whether candidates with small whole scores may be qrels, judged by the columns."""
    separator: str = ","
    """The delimiter of a table in text."""
    title: str = ""
    """The task of a log."""
    stated: dict[str, tuple[float | None, bool | None]] = field(default_factory=dict)
    """Metric -> its score over all examples, and whether lower is better, as the log itself says."""
    only_text: bool = False
    """Whether the format has only text, so that whole numbers are text too."""
    empty: str = "it is empty"
    """The message for a file without rows."""


def until_unreadable(file: str, lines: Iterator[ParsedRow]) -> Iterator[ParsedRow]:
    """Yield rows; an `Unreadable` that ends reading becomes the last row, as a problem."""
    try:
        yield from lines
    except Unreadable as error:
        yield ParsedRow(error.line, error.problem(file))


def numbered(rows: Iterable[object]) -> Iterator[ParsedRow]:
    """Yield rows with their numbers, from 1."""
    return (ParsedRow(number, row) for number, row in enumerate(rows, start=1))


def value_at(value: object, path: str) -> object:
    """Return the value at a dotted path in nested objects and lists.

    A key that contains dots comes first. In a list, a number is an index (`[0]` too; negative ones count from the end);
    a name is looked up in each of its objects.

    Raises:
        KeyError: the path does not exist.

    >>> value_at({"pred": [{"names": ["a"]}]}, "pred.0.names")
    ['a']
    >>> value_at({"found": [{"node": 7}, {"node": 3}]}, "found.node")
    [7, 3]
    >>> value_at({"choices": [{"text": "Yes"}], "messages": ["a", "b"]}, "choices[0].text")
    'Yes'
    >>> value_at(["a", "b"], "-1")
    'b'
    """
    if isinstance(value, dict) and path in value:
        return value[path]
    first, _, rest = _INDEX.sub(r".\1", path).removeprefix(".").partition(".")
    if isinstance(value, dict) and first in value:
        inner = value[first]
    elif isinstance(value, list) and (is_index := first.removeprefix("-").isdecimal()) and _has_index(value, first):
        inner = value[int(first)]
    elif isinstance(value, list) and not is_index:
        return [value_at(item, path) for item in value]
    else:
        raise KeyError(first)
    return value_at(inner, rest) if rest else inner


def _has_index(value: Sequence[object], index: str) -> bool:
    """Return whether a list has an index, which may be negative."""
    return -len(value) <= int(index) < len(value)


def value_or_none(value: object, path: str) -> object:
    """Return the value at a dotted path; None where the path does not exist."""
    try:
        return value_at(value, path)
    except KeyError:
        return None
