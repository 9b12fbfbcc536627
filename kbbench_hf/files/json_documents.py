"""JSON that is no JSON Lines: an array of rows, an object id -> answer, objects of several lines one after another."""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import chain

from kbbench_hf.files import harness, tool_outputs
from kbbench_hf.files.json_lines import python_remedy, unique_keys
from kbbench_hf.files.packing import Opened
from kbbench_hf.files.rows import LONG_NUMBER, How, Keyed, Line, Reading, Unreadable
from kbbench_hf.files.texts import decoded

_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys)
_SPACE = re.compile(r"\s*")


def recognises(head: bytes) -> bool:
    """Say whether a text begins as an array or an object does."""
    return head.lstrip()[:1] in (b"[", b"{")


def read(opened: Opened, how: How) -> Reading:
    """Return the rows of JSON text: see the module."""
    text = _Text(decoded(opened.read(), 1))
    start = text.space(0)
    if text.text.startswith("[", start):
        return Reading("a JSON array", text.items(start), empty="its array is empty")
    values = text.one_after_another(start)
    first, second = next(values), next(values, None)
    if second is not None:
        return Reading("JSON objects one after another", chain([first, second], values))
    assert isinstance(first.value, dict)  # noqa: S101 (it begins with a brace)
    return of_object(first.value, how, text.member_lines(start))


def of_object(found: dict[str, object], how: How, lines: Sequence[int] | None = None) -> Reading:
    """Return the rows of a whole file that is one object: a log, one row, columns, a list under a key, id -> answer."""
    harness.refuse_summary(found)
    if harness.is_inspect_log(found):
        return harness.of_inspect_log(found)
    if of_tool := tool_outputs.of_document(found):
        return of_tool
    if how.id_field in found and not isinstance(found[how.id_field], list | dict):
        return Reading("one JSON object", iter([Line(1, found)]))
    if how.id_field in found:
        return Reading("columns in JSON", _transposed(found))
    under = [key for key, value in found.items() if _is_rows(value, how.id_field)]
    if len(under) == 1:
        rows = found[under[0]]
        assert isinstance(rows, list)  # noqa: S101 (so says _is_rows)
        return Reading(f"the JSON list under {under[0]!r}", (Line(n, row) for n, row in enumerate(rows, start=1)))
    numbers = lines or [1] * len(found)
    keyed = (Line(number, Keyed(*member)) for number, member in zip(numbers, found.items(), strict=True))
    return Reading("a JSON object id -> answer", keyed, empty="its object is empty")


def _is_rows(value: object, id_field: str) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) and id_field in row for row in value)


def _transposed(columns: dict[str, object]) -> Iterator[Line]:
    """Yield the rows of an object column -> values; the values are a list, or an object row -> value, as pandas has."""
    listed: dict[str, dict[object, object]] = {}
    for name, column in columns.items():
        if not isinstance(column, list | dict):
            raise Unreadable(
                f"{name!r} is {type(column).__name__}, where other columns are lists", "Write one object per example."
            )
        listed[name] = column if isinstance(column, dict) else dict(enumerate(column))
    keys = list(next(iter(listed.values())))
    if any(list(column) != keys for column in listed.values()):
        raise Unreadable("its columns have not the same rows", "Write one object per example.")
    for number, key in enumerate(keys, start=1):
        yield Line(number, {name: column[key] for name, column in listed.items()})


class _Text:
    """JSON text, read value by value, with the line of each."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._seen, self._line = 0, 1

    def space(self, position: int) -> int:
        """Return where the next value begins."""
        match = _SPACE.match(self.text, position)
        return match.end() if match else position

    def line(self, position: int) -> int:
        """Return the line of a position that is not before the last one asked for."""
        self._line += self.text.count("\n", self._seen, position)
        self._seen = position
        return self._line

    def value(self, position: int) -> tuple[object, int]:
        """Return the value that begins at a position, and where it ends."""
        try:
            return _DECODER.raw_decode(self.text, position)
        except RecursionError:
            raise Unreadable("nested too deeply", line=self.line(position)) from None
        except json.JSONDecodeError as error:
            raise self._broken(error.msg, error.pos) from None
        except Unreadable as error:
            raise Unreadable(error.message, error.remedy, self.line(position)) from None
        except ValueError:
            raise Unreadable(LONG_NUMBER, line=self.line(position)) from None

    def _broken(self, message: str, position: int) -> Unreadable:
        number = self.text.count("\n", 0, position) + 1
        start = self.text.rfind("\n", 0, position) + 1
        shown = self.text[start : start + 160].partition("\n")[0].strip()
        before, after = self.text[:position].rstrip()[-1:], self.text[position:].lstrip()[:1]
        if not after or message.startswith("Unterminated string"):
            return Unreadable("not JSON: the file ends in the middle; was it cut off?", "Write it again.", number)
        if "," in (before, after) and self.text[position:].lstrip(", \t\r\n")[:1] in ("]", "}"):
            return Unreadable("not JSON: a comma before the closing bracket", "Remove that comma.", number, shown)
        remedy = python_remedy(self.text[: self.space(0) + 300])
        return Unreadable(f"not JSON: {message} at column {position - start + 1}", remedy, number, shown)

    def items(self, start: int) -> Iterator[Line]:
        """Yield the items of the array that begins at a position; nothing may follow it."""
        position = self.space(start + 1)
        while not self.text.startswith("]", position):
            number = self.line(position)
            item, end = self.value(position)
            yield Line(number, item)
            position = self.space(end)
            if self.text.startswith(",", position):
                position = self.space(position + 1)
                if self.text.startswith("]", position):
                    raise self._broken("comma", position)
            elif not self.text.startswith("]", position):
                raise self._broken("Expecting ',' delimiter", position)
        if self.text[(end := self.space(position + 1)) :]:
            raise Unreadable("there is text after the end of the array", "Remove it.", self.line(end))

    def one_after_another(self, position: int) -> Iterator[Line]:
        """Yield the values that stand one after another."""
        while position < len(self.text):
            number = self.line(position)
            value, end = self.value(position)
            if not isinstance(value, dict):
                raise self._broken("Expecting an object", position)
            yield Line(number, value)
            position = self.space(end)
            if self.text.startswith(",", position):
                raise Unreadable(
                    "not JSON: a comma between objects outside an array",
                    "Remove the commas, or put all of it in [ ].",
                    self.line(position),
                )

    def member_lines(self, start: int) -> list[int]:
        """Return the line of each member of the object that begins at a position, which has been read before."""
        self._seen, self._line = 0, 1
        numbers, position = [], self.space(start + 1)
        while not self.text.startswith("}", position):
            numbers.append(self.line(position))
            _, end = self.value(position)
            _, end = self.value(self.space(self.space(end) + 1))
            position = self.space(end)
            if self.text.startswith(",", position):
                position = self.space(position + 1)
        return numbers
