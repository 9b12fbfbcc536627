"""Parser of JSON documents: array of rows, object id -> answer, columns, concatenated objects; with line numbers.

`formats` uses it for predictions and logs, `table_files` for tables. Line numbers go into messages.
"""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import cast

from kbbench_hf.files import harness
from kbbench_hf.files.json_lines import python_remedy, unique_keys
from kbbench_hf.files.packing import OpenedFile, decoded
from kbbench_hf.files.rows import LONG_NUMBER, KeyedAnswer, ParsedFile, ParsedRow, ReadSettings, Unreadable, numbered

_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys)
_SPACE = re.compile(r"\s*")


def is_json(head: bytes) -> bool:
    """Return whether a text starts like an array or an object."""
    return head.lstrip()[:1] in (b"[", b"{")


def parse_json(opened: OpenedFile, settings: ReadSettings) -> ParsedFile:
    """Return the rows of JSON text that starts with a bracket or a brace.

    Raises:
        Unreadable: it is not UTF-8, or the first value is not JSON; later errors come when rows are read.
    """
    text = JsonText(decoded(opened.read(), 1))
    start = text.skip_space(0)
    if text.text.startswith("[", start):
        return ParsedFile("a JSON array", text.items(start), empty="its array is empty")
    values = text.concatenated(start)
    first, second = next(values), next(values, None)
    if second is not None:
        return ParsedFile("JSON objects one after another", chain([first, second], values))
    assert isinstance(first.value, dict)  # noqa: S101 (it begins with a brace)
    return parse_document(first.value, settings, text.member_lines(start))


def parse_document(
    document: dict[str, object], settings: ReadSettings, lines: Sequence[int] | None = None
) -> ParsedFile:
    """Return the rows of a file that is one object: a log, one row, columns, a list under a key, id -> answer.

    The first of these forms that fits is taken. `lines` are the line numbers of the members.

    Raises:
        Unreadable: these are scores without predictions, or columns of different lengths (when rows are read).
    """
    harness.refuse_summary(document)
    log = harness.parse_inspect_log(document) or harness.parse_mteb(document, any_splits=settings.whole_rows)
    if log := log or harness.parse_tool_document(document):
        return log
    if settings.id_field in document and not isinstance(document[settings.id_field], list | dict):
        return ParsedFile("one JSON object", iter([ParsedRow(1, document)]))
    if settings.id_field in document:
        return ParsedFile("columns in JSON", _transposed(document))
    under = [key for key, value in document.items() if _is_rows(value, settings.id_field)]
    if len(under) == 1:
        return ParsedFile(f"the JSON list under {under[0]!r}", numbered(cast(list[object], document[under[0]])))
    numbers = lines or [1] * len(document)
    keyed = (ParsedRow(number, KeyedAnswer(*member)) for number, member in zip(numbers, document.items(), strict=True))
    return ParsedFile("a JSON object id -> answer", keyed, empty="its object is empty")


def _is_rows(value: object, id_field: str) -> bool:
    """Return whether a value is a list of objects with ids, at least one."""
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) and id_field in row for row in value)


def _transposed(columns: dict[str, object]) -> Iterator[ParsedRow]:
    """Yield the rows of an object column -> values, each a list or an object row -> value (pandas)."""
    listed: dict[str, dict[object, object]] = {}
    for name, column in columns.items():
        if not isinstance(column, list | dict):
            message = f"{name!r} is {type(column).__name__}, where other columns are lists"
            raise Unreadable(message, "Write one object per example.")
        listed[name] = column if isinstance(column, dict) else dict(enumerate(column))
    keys = list(next(iter(listed.values())))
    if any(list(column) != keys for column in listed.values()):
        raise Unreadable("its columns have not the same rows", "Write one object per example.")
    for number, key in enumerate(keys, start=1):
        yield ParsedRow(number, {name: column[key] for name, column in listed.items()})


class JsonText:
    """JSON text, parsed value by value, with the line of each; positions are offsets in the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._seen, self._line = 0, 1

    def skip_space(self, position: int) -> int:
        """Return the next position without white space."""
        match = _SPACE.match(self.text, position)
        return match.end() if match else position

    def line(self, position: int) -> int:
        """Return the line of a position, from 1; positions must not decrease from call to call."""
        self._line += self.text.count("\n", self._seen, position)
        self._seen = position
        return self._line

    def value(self, position: int) -> tuple[object, int]:
        """Return the value at a position, and the position after it.

        Raises:
            Unreadable: it is not JSON, too deep, has a key twice or a number that is too long.
        """
        try:
            return _DECODER.raw_decode(self.text, position)
        except RecursionError:
            raise Unreadable("nested too deeply", line=self.line(position)) from None
        except json.JSONDecodeError as error:
            raise self._syntax_error(error.msg, error.pos) from None
        except Unreadable as error:
            raise Unreadable(error.message, error.remedy, self.line(position)) from None
        except ValueError:
            raise Unreadable(LONG_NUMBER, line=self.line(position)) from None

    def _syntax_error(self, message: str, position: int) -> Unreadable:
        """Return the error at a position, with its line and what mends it, if that is known."""
        number = self.text.count("\n", 0, position) + 1
        start = self.text.rfind("\n", 0, position) + 1
        shown = self.text[start : start + 160].partition("\n")[0].strip()
        before, after = self.text[:position].rstrip()[-1:], self.text[position:].lstrip()[:1]
        if not after or message.startswith("Unterminated string"):
            return Unreadable("not JSON: the file ends in the middle; was it cut off?", "Write it again.", number)
        if "," in (before, after) and self.text[position:].lstrip(", \t\r\n")[:1] in ("]", "}"):
            return Unreadable("not JSON: a comma before the closing bracket", "Remove that comma.", number, shown)
        remedy = python_remedy(self.text[: self.skip_space(0) + 300])
        return Unreadable(f"not JSON: {message} at column {position - start + 1}", remedy, number, shown)

    def items(self, start: int) -> Iterator[ParsedRow]:
        """Yield the items of the array at a position.

        Raises:
            Unreadable: an item is not JSON, or text follows the array.
        """
        position = self.skip_space(start + 1)
        while not self.text.startswith("]", position):
            number = self.line(position)
            item, end = self.value(position)
            yield ParsedRow(number, item)
            position = self.skip_space(end)
            if self.text.startswith(",", position):
                position = self.skip_space(position + 1)
                if self.text.startswith("]", position):
                    raise self._syntax_error("comma", position)
            elif not self.text.startswith("]", position):
                raise self._syntax_error("Expecting ',' delimiter", position)
        if self.text[(end := self.skip_space(position + 1)) :]:
            raise Unreadable("there is text after the end of the array", "Remove it.", self.line(end))

    def concatenated(self, position: int) -> Iterator[ParsedRow]:
        """Yield the objects from a position on, which follow each other without commas.

        Raises:
            Unreadable: something is not an object, or a comma follows one.
        """
        while position < len(self.text):
            number = self.line(position)
            value, end = self.value(position)
            if not isinstance(value, dict):
                raise self._syntax_error("Expecting an object", position)
            yield ParsedRow(number, value)
            position = self.skip_space(end)
            if self.text.startswith(",", position):
                remedy = "Remove the commas, or put all of it in [ ]."
                raise Unreadable("not JSON: a comma between objects outside an array", remedy, self.line(position))

    def member_lines(self, start: int) -> list[int]:
        """Return the line of each member of the object at a position, which `value` has accepted before."""
        self._seen, self._line = 0, 1
        numbers, position = [], self.skip_space(start + 1)
        while not self.text.startswith("}", position):
            numbers.append(self.line(position))
            _, end = self.value(position)
            _, end = self.value(self.skip_space(self.skip_space(end) + 1))
            position = self.skip_space(end)
            if self.text.startswith(",", position):
                position = self.skip_space(position + 1)
        return numbers
