"""Answers in JSON values: under a key for answers, in a list, or as objects with a name."""

import re
from collections.abc import Callable, Iterator

from kbbench_hf.parsing.lenient_json import CutList, CutObject, Value, normalize_key, normalize_members
from kbbench_hf.parsing.parsed_reply import ParseError
from kbbench_hf.parsing.word_lists import word_lists

Split = Callable[[str, bool], list[str]]
"""Splits a line into its answers, given the line and whether several are announced."""
_LISTS = word_lists("answers")
_KEYS = _LISTS["keys"].split("|")
_HOLDERS = "arguments parameters input args data output result response content final properties".split()
_NAMES = "name answer label text value title entity answertext".split()
_PLACEHOLDER = re.compile(rf"\W*(?:{_LISTS['placeholder']})?\W*", re.IGNORECASE)
_ASIDES = frozenset(
    "score confidence probability source sources evidence reason reasoning explanation id row rows index type rank "
    "note".split()
)
"""Members beside an answer that are none."""


def json_answers(value: Value, depth: int, question: str, split: Split) -> list[str] | None:
    """Return the answers in a value; None where it holds none."""
    if depth > 6 or isinstance(value, CutList | CutObject):
        return None if depth else ([] if isinstance(value, CutList | CutObject) else None)
    if isinstance(value, list):
        if not value:
            return []
        answers = list(_texts(value, question, split))
        return answers if answers and not all(map(_PLACEHOLDER.fullmatch, answers)) else None
    if not isinstance(value, dict):
        return None
    members = normalize_members(value)
    for key in _KEYS:
        if key in members:
            each = members[key]
            if isinstance(each, dict) and (inner := json_answers(each, depth + 1, question, split)) is not None:
                return inner
            answers = list(_texts(each, question, split))
            if isinstance(each, str) and answers:
                answers = split(answers[0], key.endswith("s"))
            return None if answers and all(map(_PLACEHOLDER.fullmatch, answers)) else answers
    for key in _HOLDERS:
        each = members.get(key)
        if isinstance(each, dict | list) and (inner := json_answers(each, depth + 1, question, split)) is not None:
            return inner
    return None


def _texts(value: Value, question: str, split: Split) -> Iterator[str]:
    """Yield the answers of a member: a text, a number, an entity's name, or those of a list; no empty ones."""
    if isinstance(value, bool):
        yield "yes" if value else "no"
    elif isinstance(value, str):
        if value.strip():
            yield value.strip()
    elif isinstance(value, list):
        if (
            len(value) == 1
            and isinstance(value[0], str)
            and re.fullmatch(r"[\d\s.,;&]+(?:and\b[\d\s.,]+)?", value[0].strip())
        ):
            yield from split(value[0].strip(), False)
            return
        for each in value:
            yield from _texts(each, question, split)
    elif isinstance(value, dict) and value:
        yield from _texts(_member(value, question), question, split)


def _member(value: dict[str, Value], question: str) -> Value:
    """Return the member of an object that is the answer: its name, its only member, or the one in the question.

    Raises:
        ParseError: it has several, or only one that is true or false.
    """
    members = normalize_members(value)
    if key := next((key for key in _NAMES if key in members), None):
        return members[key]
    rest = {key: each for key, each in value.items() if normalize_key(key) not in _ASIDES}
    numbers = [re.sub(r"^\D*", "", key) for key in rest]
    if len(rest) > 1 and numbers in ([str(n + first) for n in range(len(rest))] for first in (0, 1)):
        return list(rest.values())  # answer_1, answer_2
    source = [key for key in rest if _asks_for(question, key)] if len(rest) > 1 else list(rest)
    if len(source) != 1 or source[0].isdigit() or isinstance(rest[source[0]], bool | None):
        raise ParseError(f"an object with the members {', '.join(value)[:80]}; expected one answer or its name")
    return rest[source[0]]


def _asks_for(question: str, key: str) -> bool:
    noun = re.escape(key.replace("_", " ").casefold().removesuffix("s"))
    return bool(
        re.search(rf"\b(?:which|what|how many|how much|whose)\s+(?:\w+\s+)?{noun}(?:e?s)?\b", question.casefold())
    )
