"""What every format is read as: rows with the line that each stands on, and what should be known of the reading."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a predictions file: where (`file`, `line`, counted from 1) and what."""

    file: str
    line: int | None
    message: str
    remedy: str = ""
    """What mends it, in a sentence; the same for all problems of a kind."""
    shown: str | None = None
    """The line as it is, where an example of one as it should be helps."""

    def __str__(self) -> str:
        """Render as `file:line: message`."""
        return f"{self.file}{f':{self.line}' if self.line else ''}: {self.message}"


LONG_NUMBER = f"a number of more than {sys.get_int_max_str_digits():,} digits"
"""What is wrong where Python refuses a number for its length: the one JSON that is JSON and still cannot be parsed."""


class Unreadable(ValueError):
    """What a reader raises where it cannot go on: what is wrong, on which line, and what mends it, in words."""

    def __init__(self, message: str, remedy: str = "", line: int | None = None, shown: str | None = None) -> None:
        super().__init__(message)
        self.message, self.remedy, self.line, self.shown = message, remedy, line, shown

    def problem(self, file: str) -> Problem:
        """Return it as a problem of a file."""
        return Problem(file, self.line, self.message, self.remedy, self.shown)


class Note(NamedTuple):
    """Something to know of a file before believing its figures."""

    code: str
    message: str
    remedy: str = ""
    n_examples: int = 0
    severity: Literal["note", "warning"] = "warning"


class Keyed(NamedTuple):
    """An answer that stands under its id, as in an object id -> answer."""

    id: str
    answer: object


class Line(NamedTuple):
    """One row: the line it begins on (or its number, where there are no lines), and what stands there."""

    number: int | None
    value: object
    """An object, a `Keyed` answer, a `Problem`, or something that is no row."""


Place = str | Callable[[Mapping[str, object]], object]
"""Where a row has a field: its path, or a function of the row that raises KeyError where it is absent."""


class How(NamedTuple):
    """What a reader is told by its user."""

    id_field: str = "id"
    """The field, or the first part of the path, under which ids stand."""
    scores: Literal["similarity", "distance", "rank"] | None = None
    """How the order of a run is known; None where only one way is plausible."""


@dataclass
class Reading:
    """A file that was recognised. Its lines are read as they are asked for; its notes are complete after the last."""

    words: str
    """What it was recognised as."""
    lines: Iterator[Line]
    notes: list[Note] = field(default_factory=list)
    columns: Sequence[str] | None = None
    """The columns of a table; None where rows name their own fields."""
    fields: Mapping[str, Place] = field(default_factory=dict)
    """Field -> where this format has it."""
    cells: Iterator[list[str]] | None = None
    """Of tab-separated text: the cells of each line, the first one among them, for a table without a header."""
    one_of: str | None = None
    """A path whose value must be the same throughout (a filter, an epoch): else an example has several answers."""
    judgements: Literal["no", "maybe", "likely"] = "maybe"
    """Whether candidates with small whole scores may be judgements (qrels): what the columns say of it."""
    separator: str = ","
    """What stands between the cells of a table in text."""
    only_text: bool = False
    """Whether its format has nothing but text, so that whole numbers are text, too."""
    empty: str = "it is empty"
    """What to say of it where it has no rows."""


def until_unreadable(file: str, lines: Iterator[Line]) -> Iterator[Line]:
    """Yield lines, the last one a problem where they cannot be read on."""
    try:
        yield from lines
    except Unreadable as error:
        yield Line(error.line, error.problem(file))


def at(value: object, path: str) -> object:
    """Return what stands at a dotted path in nested objects and lists.

    A key that has dots in it comes first. In a list a number is a place; a name is looked up in each of its objects.

    Raises:
        KeyError: nothing stands there.

    >>> at({"pred": [{"names": ["a"]}]}, "pred.0.names")
    ['a']
    >>> at({"found": [{"node": 7}, {"node": 3}]}, "found.node")
    [7, 3]
    """
    if isinstance(value, dict) and path in value:
        return value[path]
    first, _, rest = path.partition(".")
    if isinstance(value, dict) and first in value:
        found = value[first]
    elif isinstance(value, list) and first.isdecimal() and int(first) < len(value):
        found = value[int(first)]
    elif isinstance(value, list) and not first.isdecimal():
        return [at(item, path) for item in value]
    else:
        raise KeyError(first)
    return at(found, rest) if rest else found


def at_or_none(value: object, path: str) -> object:
    """Return what `at` returns; None where the path leads nowhere."""
    try:
        return at(value, path)
    except KeyError:
        return None
