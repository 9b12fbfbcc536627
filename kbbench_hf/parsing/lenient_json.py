"""Lenient JSON parser: lists and objects anywhere in a text, with the mistakes of models, and marked where cut off.

Read are strict JSON and what people take for it: Python's literals, quotes of any kind or none, quotes inside names
that were not escaped, comments, commas too many or too few, tuples, `=` or `=>` for a colon. A text that ends inside a
value gives what was whole until there, marked as cut. Numbers stay as they were written.

All parsers of `parsing` use it, and `building` for the replies of models that word questions. It never raises, and the
work is bounded by the length of the text.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kbbench_hf.text.quantities import THOUSANDS

MOST_NESTED = 40
"""Brackets nested deeper than this hold nothing that a person would read."""
_STEPS_PER_CHARACTER = 12
"""How much may be tried for each character of a text; text made to be hard is given up, not waited for."""


class Bare(str):
    """A value that stood without quotes: a number, or words."""

    __slots__ = ()


class CutList(list["Value"]):
    """A list that the end of the text cuts off."""


class CutObject(dict[str, "Value"]):
    """An object that the end of the text cuts off."""


Value = str | bool | None | list["Value"] | dict[str, "Value"]


class JsonSpan(NamedTuple):
    """A list or an object, with its span in the text."""

    value: Value
    start: int
    end: int


def extract_json(text: str) -> list[JsonSpan]:
    """Return the outermost lists and objects of a text, in order; none where it has none.

    >>> [found.value for found in extract_json("So {'a': [1, “b”,]} and [x, y")]
    [{'a': ['1', 'b']}, ['x']]
    """
    return list(_Scanner(text).values())


def normalize_key(name: str) -> str:
    """Return a member's name without case, blanks and marks.

    >>> normalize_key("Head_Entity")
    'headentity'
    """
    return re.sub(r"[\W_]+", "", name.casefold())


def normalize_members(value: Mapping[str, Value]) -> dict[str, Value]:
    """Return the members of an object by their normalized names; a text that is JSON of an object is parsed.

    >>> normalize_members({"Tool Input": '{"score": 1}', "score": "2"})
    {'toolinput': {'score': '1'}, 'score': '2'}
    """
    members: dict[str, Value] = {}
    for name, each in value.items():
        is_json = isinstance(each, str) and re.match(r"\s*\{\s*[\"']", each)
        inner = extract_json(each) if is_json and isinstance(each, str) else []
        members.setdefault(normalize_key(name), inner[0].value if inner else each)
    return members


class _NotAValueError(Exception):
    """The text here is not JSON, even leniently; the search goes on at `at`."""

    def __init__(self, at: int = 0) -> None:
        self.at = at


class _CutOffError(Exception):
    """The text ends inside a value before any part of it is complete."""


_OPENING = re.compile(r"""[{\[]|\((?=\s*["'“‘`(])""")
_CLOSING = "]})"
_QUOTES = {
    '"': '"', "'": "'", "`": "`'", "“": '”“"', "”": '”"', "„": '“”"', "‘": "’‘'", "’": "’'",
    "«": "»", "＂": "＂", "「": "」", "『": "』",
}  # fmt: skip
"""Opening quote -> those that close it."""
_BLANK = re.compile(r"(?:\s+|//[^\n]*|/\*.{0,300}?\*/|#(?=[\s\w])[^\n]*|<!--.{0,300}?-->)+", re.DOTALL)
_AFTER_VALUE = re.compile(r"\s*(?:[,，;}\])]|$|//|/\*|#\s|\n\s*[\"'“‘`{\[])")
_NEXT_KEY = re.compile(r"""\s+["'“„«][^"'“”„«»\n:]{1,40}["'”“»]\s*[:：]""")
_AFTER_KEY = re.compile(r"\s*(?:[:：]|=>?)")
_BARE_KEY = re.compile(r"""[^\s"'{}\[\](),:：=][^"{}\[\](),:：=\n]{0,60}?(?=\s*(?:[:：]|=>?))""")
_LONGEST_BARE = 400
_IN_NAME = re.compile(rf"{THOUSANDS}|,(?=_)")
"""A comma inside a number or a name written with underscores."""
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|u[\da-fA-F]{4}|.)", re.DOTALL)
_WORDS: dict[str, bool | None] = {
    "true": True, "True": True, "false": False, "False": False,
    "null": None, "None": None, "undefined": None, "nil": None,
}  # fmt: skip


def _make_object(pairs: list[tuple[str, Value]]) -> Value:
    """Return an object; several objects where all its keys repeat, as where braces are missing between two of them."""
    names = dict.fromkeys(name for name, _ in pairs)
    if 3 <= len(names) < len(pairs) and not len(pairs) % len(names):
        rows = [pairs[at : at + len(names)] for at in range(0, len(pairs), len(names))]
        if all(dict(row).keys() == names.keys() for row in rows):
            return [dict(row) for row in rows]
    return dict(pairs)


_STRICT = json.JSONDecoder(
    strict=False, parse_int=Bare, parse_float=Bare, parse_constant=Bare, object_pairs_hook=_make_object
)


def _unescape(escape: str) -> str:
    try:
        return str(json.loads(f'"{escape}"'))
    except ValueError:  # no escape of JSON's
        return escape[1:]


class _Scanner:
    """Parser of one text. Its methods return a value and the position behind it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.left = _STEPS_PER_CHARACTER * len(text) + 10_000

    def values(self) -> Iterator[JsonSpan]:
        """Yield the outermost values, in order, until the budget of the text is spent."""
        position = 0
        while self.left > 0 and (match := _OPENING.search(self.text, position)):
            start = match.start()
            try:
                value, position = self._parse_outermost(start)
            except (_CutOffError, _NotAValueError) as error:
                position = max(getattr(error, "at", 0), start + 1)
                continue
            yield JsonSpan(value, start, position)

    def _parse_outermost(self, start: int) -> tuple[Value, int]:
        """Return the value that starts here, by the strict parser where it can parse it."""
        if self.text[start] != "(":
            try:
                value, end = _STRICT.raw_decode(self.text, start)
                return value, end
            except (ValueError, RecursionError) as error:
                self._spend(max(getattr(error, "pos", start) - start, 1))
        return self._parse_container(start, 0)

    def _spend(self, steps: int = 1) -> None:
        """Take steps from the budget of the text; give up where none are left."""
        self.left -= steps
        if self.left < 0:
            raise _NotAValueError

    def _skip_blanks(self, position: int) -> int:
        match = _BLANK.match(self.text, position)
        if match is None:
            return position
        self._spend(1 + (match.end() - position) // 16)
        return match.end()

    def _parse_container(self, start: int, depth: int, *, braced: bool = True) -> tuple[Value, int]:
        """Return the list or object that starts here; a `{` without keys is a list, as Python's sets are.

        Without `braced`, an object starts after `start` whose brace is missing.
        """
        if depth > MOST_NESTED:
            raise _NotAValueError(start)
        items: list[Value] = []
        members: dict[str, Value] = {}
        is_object = self.text[start] == "{" or not braced
        position, cut, elided = start + 1, False, False
        while True:
            self._spend()
            position = self._skip_blanks(position)
            if position >= len(self.text):
                cut = True
                break
            character = self.text[position]
            if character in _CLOSING:
                position += braced or character == "}"
                break
            if character == "{" and is_object and members and depth:  # the closing brace is missing
                break
            if character in ",，;、":
                position += 1
                continue
            if self.text.startswith(("...", "…"), position):
                position += 3 if character == "." else 1
                elided = True
                continue
            try:
                key = None
                if (named := self._parse_key(position)) is not None and (is_object or self.text[start] == "("):
                    key, position = named
                elif named is not None and character in _QUOTES:
                    value, position = self._parse_container(position - 1, depth + 1, braced=False)
                    items.append(value)
                    continue
                value, position = self._parse_value(position, depth)
            except _CutOffError:
                position, cut = len(self.text), True
                break
            if key is not None:
                members.setdefault(key, value)
            elif not is_object or not members:
                items.append(value)
            else:
                raise _NotAValueError
            if isinstance(value, CutList | CutObject):
                cut = True
                break
        if elided and not members and not items:
            items.append(Bare("..."))
        if members and not items:
            return (CutObject(members) if cut else members), position
        if is_object and not items and not members:
            return (CutObject() if cut else {}), position
        if members:
            raise _NotAValueError
        return (CutList(items) if cut else items), position

    def _parse_key(self, position: int) -> tuple[str, int] | None:
        """Return a member's name and where its value begins."""
        if self.text[position] in _QUOTES:
            try:
                key, end = self._parse_string(position, of_key=True)
            except (_NotAValueError, _CutOffError):
                return None
        elif match := _BARE_KEY.match(self.text, position):
            self._spend(1 + len(match[0]) // 16)
            key, end = match[0].strip(), match.end()
        else:
            return None
        separator = _AFTER_KEY.match(self.text, end)
        return (key, self._skip_blanks(separator.end())) if separator else None

    def _parse_value(self, position: int, depth: int) -> tuple[Value, int]:
        """Return the container, string or bare text that starts here."""
        if position >= len(self.text):
            raise _CutOffError
        character = self.text[position]
        if character in "{[" or (character == "(" and _OPENING.match(self.text, position)):
            return self._parse_container(position, depth + 1)
        if character in _QUOTES:
            return self._parse_string(position)
        return self._parse_bare(position)

    def _parse_string(self, start: int, *, of_key: bool = False) -> tuple[str, int]:
        """Return the text in quotes; a quote closes it where a name or a value may end after it."""
        closing = _QUOTES[self.text[start]]
        written: list[str] = []
        position = start + 1
        while position < len(self.text):
            self._spend()
            character = self.text[position]
            if character == "\\" and position + 1 < len(self.text):
                escape = _ESCAPE.match(self.text, position)
                written.append(_unescape(escape[0]) if escape else character)
                position = escape.end() if escape else position + 1
                continue
            if character in closing and self._ends_string(position, character, of_key):
                return "".join(written), position + 1
            if of_key and (character == "\n" or position - start > 200):
                raise _NotAValueError
            written.append(character)
            position += 1
        raise _CutOffError

    def _ends_string(self, position: int, quote: str, of_key: bool) -> bool:
        """Return whether a quote closes its string: what may follow a value or a key follows it."""
        after = position + 1
        if of_key:
            return _AFTER_KEY.match(self.text, after) is not None
        ending = _AFTER_VALUE.match(self.text, after)
        if ending is None:
            return _NEXT_KEY.match(self.text, after) is not None
        at = ending.end() - 1
        if ending[0][-1:] not in {",", "，", ";"}:
            return True
        follows = self._next_character(at + 1)
        if not follows or follows in _QUOTES or follows in "{[(]}),，.…-" or follows.isdigit():
            return True
        # a word follows: the string has ended if the next quote opens another one, and not if it closes this one
        self._spend(4)
        following = self.text.find(quote, at + 1, at + 1 + _LONGEST_BARE)
        if following < 0:
            return True
        before = self.text[at:following].rstrip()[-1:]
        return before in {",", "，", ";", ":", "[", "{", "(", "="} or self.text[following + 1 : following + 2] == ":"

    def _next_character(self, position: int) -> str:
        position = self._skip_blanks(position)
        return self.text[position : position + 1]

    def _parse_bare(self, start: int) -> tuple[Value, int]:
        """Return the unquoted text up to a comma or a closing bracket; its own brackets are balanced."""
        depth, position = 0, start
        while position < len(self.text):
            self._spend()
            character = self.text[position]
            if character in "([{":
                depth += 1
            elif character in _CLOSING and depth:
                depth -= 1
            elif character in _CLOSING:
                break
            elif character in ",，;" and not depth:
                if not _IN_NAME.match(self.text, position):
                    break
            elif character == "\n" or position - start > _LONGEST_BARE:
                if position - start > _LONGEST_BARE or not _AFTER_VALUE.match(self.text, position):
                    raise _NotAValueError
                break
            position += 1
        else:
            raise _CutOffError
        word = self.text[start:position].strip()
        if "//" in word and re.search(r"\s//\s", word):
            word = word.partition("//")[0].strip()
        return _WORDS[word] if word in _WORDS else Bare(word), position
