"""Parsers of responses: a JSON list of answers, or yes or no."""

import json
import re
from collections.abc import Iterator

from kbbench_hf.parsing.parsed_reply import ParseError

LONGEST = 100_000
"""Only this many characters at the end of a response are parsed: the answer is in the last line."""
MOST_OBJECTS = 200
"""Only this many openings of an object, the last ones, are tried, so that hostile text costs no more time."""
_START = re.compile(r'\{\s*"')
_REASONING = r"think|thinking|thought|reasoning|analysis"
_END = re.compile(rf"</(?:{_REASONING})>", re.IGNORECASE)
_BEGIN = re.compile(rf"<(?:{_REASONING})>", re.IGNORECASE)
_KEYS = ("answer", "answers")


def parse_answers(response: str) -> list[str]:
    r"""Return the answers in a response's last JSON object with the key `answer`.

    Text before the end of a reasoning block (`<think>` and similar tags) is ignored; an unfinished block has no answer.
    A single value counts as a list of one, nested lists are flattened, numbers become text, blanks are removed.

    >>> parse_answers('<think>{"answer": ["a"]}</think> So:\n```json\n{"answer": ["Navy", 7]}\n```')
    ['Navy', '7']
    >>> parse_answers('{"answer": "no"}')
    ['no']

    Raises:
        ParseError: there is no such object, or its value is no list of values.
    """
    text = _BEGIN.split(_END.split(response[-LONGEST:])[-1], maxsplit=1)[0]
    found = [value for each in _objects(text) for key, value in each.items() if key.lower() in _KEYS]
    if not found:
        raise ParseError("no JSON object with the key 'answer'")
    return [answer for answer in _flattened(found[-1]) if answer]


def parse_verdict(answers: list[str] | None) -> str | None:
    """Return "yes" or "no" if that is the only answer, else None.

    >>> parse_verdict(["No."]), parse_verdict(["yes", "no"])
    ('no', None)
    """
    verdicts = [answer.strip().rstrip(".!").lower() for answer in answers or ()]
    return verdicts[0] if verdicts in (["yes"], ["no"]) else None


def _objects(text: str) -> Iterator[dict[str, object]]:
    """Yield the outermost JSON objects at the last openings of a text, in order."""
    decoder, end = json.JSONDecoder(), 0
    for start in [match.start() for match in _START.finditer(text)][-MOST_OBJECTS:]:
        if start < end:
            continue  # inside an object that was parsed already
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        yield value


def _flattened(value: object) -> Iterator[str]:
    match value:
        case None:
            return
        case list():
            for each in value:
                yield from _flattened(each)
        case bool():
            yield "yes" if value else "no"
        case str() | int() | float():
            yield str(value).strip()
        case _:
            raise ParseError(f"the answer is a JSON {type(value).__name__}; expected a list of values")
