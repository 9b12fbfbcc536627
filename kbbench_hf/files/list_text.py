"""Parser of lists in text: JSON, printed Python or NumPy lists, items with separators, triples with bars.

Readers of predictions and of users' tables use it. Nothing is evaluated but quoted texts: a cell may have any content.
A text that is no list for sure is refused, since a guess would change scores.
"""

import ast
import json
import re
from collections import deque
from contextlib import suppress

from kbbench_hf.files.json_lines import MAX_DEPTH
from kbbench_hf.files.rows import LONG_NUMBER

SEPARATORS = {";": "semicolons", "|": "bars", ",": "commas", "\t": "tabs", "\n": "line ends"}
"""Separator of items -> its name."""
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)
    |(?P<word>None|True|False|nan)|(?P<gap>\.\.\.)|(?P<option>dtype=[\w.<>]+)|(?P<mark>[\[\](){},:])|(?P<wrap>(?:np\.|numpy\.)?\w+(?=\()))\s*""",
    re.VERBOSE | re.DOTALL,
)
_WORDS: dict[str, object] = {"None": None, "True": True, "False": False, "nan": None}
_CLOSING = {"[": "]", "(": ")"}
_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,17})")
"""An integer of up to 18 digits, which fits into 64 bits."""


class ListTextError(ValueError):
    """A text that starts like a list and is none; the message says why."""


def is_bracketed(text: str) -> bool:
    """Return whether a text starts like a list, a tuple, an array or an object.

    >>> [is_bracketed(text) for text in ("[1, 2]", " ('a',)", "array([1])", "a; b")]
    [True, True, True, False]
    """
    return re.match(r"\s*(?:(?:np\.|numpy\.)?array)?[\[({]", text) is not None


def parse_list(text: str) -> object:
    r"""Return the value of a bracketed text: JSON, or printed by Python or NumPy.

    >>> parse_list('["a", "b"]'), parse_list("['it\\'s', ('a', 2)]"), parse_list("[1 2\n 3]"), parse_list("['a' 'b']")
    (['a', 'b'], ["it's", ['a', 2]], [1, 2, 3], ['a', 'b'])

    Raises:
        ListTextError: it is none of them, a set (without order), or was abbreviated with `...`.
    """
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    tokens = _scan(text)
    value = _parse_value(tokens, 0)
    if tokens:
        raise ListTextError(f"there is text after the end of the list: {text[-40:]!r}")
    return value


def whole_number(text: object) -> int | None:
    """Return the integer of a text in canonical form; else None.

    >>> whole_number("92"), whole_number("092"), whole_number("9.2"), whole_number(92)
    (92, None, None, None)
    """
    return int(text) if isinstance(text, str) and _WHOLE.fullmatch(text) else None


def split_readings(text: str) -> dict[str, list[str]]:
    """Return separator -> items for each separator in a text without brackets; '' -> the text as one item.

    The order is that of `SEPARATORS`. Spaces separate whole numbers only.

    >>> split_readings("92;84")
    {'': ['92;84'], ';': ['92', '84']}
    >>> split_readings("New York, NY")
    {'': ['New York, NY'], ',': ['New York', 'NY']}
    """
    readings = {"": [text.strip()]}
    for separator in SEPARATORS:
        if separator in text.strip():
            readings[separator] = split(text, separator)
    words = text.split()
    if len(words) > 1 and all(whole_number(word) is not None for word in words):
        readings[" "] = words
    return readings


def split(text: str, separator: str) -> list[str]:
    """Return the items between separators, stripped, without an empty last one."""
    items = [item.strip() for item in (text.split(separator) if separator else [text])]
    return items[:-1] if len(items) > 1 and not items[-1] else items


def barred_triples(text: str) -> list[list[str]] | None:
    """Return triples whose parts are separated by bars, and triples by &&, ||, semicolons or line ends; else None.

    >>> barred_triples("Ada | born in | Oslo && Ada | died in | Rome")
    [['Ada', 'born in', 'Oslo'], ['Ada', 'died in', 'Rome']]
    >>> barred_triples("Ada, born in, Oslo")
    """
    for separator in (r"\s*(?:&&|\|\||\n|<br ?/?>|\[SEP\])\s*", r"\s*(?:&&|\|\||\n|<br ?/?>|\[SEP\]|;)\s*"):
        items = [item for item in re.split(separator, text.strip()) if item]
        triples = [[part.strip() for part in item.strip("() ").split("|")] for item in items]
        if triples and all(len(parts) == 3 and all(parts) for parts in triples):
            return triples
    return None


Tokens = deque[tuple[str, str]]
"""Kind and text of each part of Python literals, and of printed NumPy arrays, which have no commas."""


def _scan(text: str) -> Tokens:
    """Return the tokens of a text.

    Raises:
        ListTextError: a part is none of the known ones.
    """
    tokens, position = Tokens(), 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ListTextError(f"no list: {text[position : position + 30]!r} cannot be read")
        position, kind = match.end(), match.lastgroup or ""
        tokens.append((kind, match[kind]))
    return tokens


def _take(tokens: Tokens) -> tuple[str, str]:
    """Remove and return the next token.

    Raises:
        ListTextError: there is none.
    """
    if not tokens:
        raise ListTextError("the list has no end")
    return tokens.popleft()


def _take_if(tokens: Tokens, mark: str) -> bool:
    """Remove the next token if it is this mark; return whether it was."""
    return bool(tokens) and tokens[0] == ("mark", mark) and bool(tokens.popleft())


def _parse_value(tokens: Tokens, depth: int) -> object:
    """Remove the tokens of the next value, and return the value.

    Raises:
        ListTextError: they are no value.
    """
    kind, text = _take(tokens)
    if depth > MAX_DEPTH:
        raise ListTextError(f"nested more than {MAX_DEPTH} levels deep")
    match kind, text:
        case "text", _:
            return ast.literal_eval(text.replace("\n", "\\n"))
        case "number", _:
            try:
                return int(text) if text.lstrip("+-").isdecimal() else float(text)
            except ValueError:
                raise ListTextError(LONG_NUMBER) from None
        case "word", _:
            return _WORDS[text]
        case "gap", _:
            raise ListTextError("'...': it was shortened when it was printed, and the middle is lost")
        case "wrap", _:
            return _parse_call(tokens, depth)
        case "mark", "[" | "(":
            return _parse_items(tokens, _CLOSING[text], depth)
        case "mark", "{":
            return _parse_members(tokens, depth)
    raise ListTextError(f"not a list: {text!r} where an item was expected")


def _parse_call(tokens: Tokens, depth: int) -> object:
    """Return the first argument of a call, such as array([...], dtype=object)."""
    _take(tokens)
    value = _parse_value(tokens, depth + 1)
    while _take(tokens) != ("mark", ")"):
        pass
    return value


def _parse_items(tokens: Tokens, closing: str, depth: int) -> list[object]:
    """Return the items up to the closing bracket; NumPy prints no commas between them."""
    items: list[object] = []
    n_commas = 0
    while not _take_if(tokens, closing):
        items.append(_parse_value(tokens, depth + 1))
        n_commas += _take_if(tokens, ",")
    if closing == ")" and len(items) == 1 and not n_commas:
        raise ListTextError("one thing in parentheses, which is not a tuple")
    return items


def _parse_members(tokens: Tokens, depth: int) -> object:
    """Return the members up to the closing brace; keys become text."""
    members: dict[str, object] = {}
    while not _take_if(tokens, "}"):
        key = _parse_value(tokens, depth + 1)
        if not _take_if(tokens, ":"):
            raise ListTextError("a set, whose items have no order")
        members[str(key)] = _parse_value(tokens, depth + 1)
        _take_if(tokens, ",")
    return members
