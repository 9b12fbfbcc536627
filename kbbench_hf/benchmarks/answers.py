"""Kinds of answers (ids, triples, strings): their field in predictions, validation and display.

A benchmark has one kind; a plug-in may make its own. `scoring` validates each prediction by it, and predictions files
of users depend on the names of fields and on what is accepted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any

Answer = Any
"""What a model answered, parsed: ranked ids, triples, or a list of answers, as the benchmark's kind says."""
Id = int | str
"""The id of an example or of a candidate."""


class ShapeError(ValueError):
    """An answer that is malformed for its kind; the message has the problem."""


@dataclass(frozen=True)
class AnswerKind:
    """A kind of answers: its field, parser, example line and display."""

    field: str
    """The field of a predictions file that holds the parsed answer."""
    read: Callable[[Mapping[str, object]], Answer]
    """A prediction with that field -> its answer as it is scored; ShapeError where it is malformed."""
    example: str
    """An example line of a predictions file."""
    words: Callable[[Answer], list[str]]
    """An answer -> its parts as text."""
    separable: bool = False
    """Whether text such as `a; b` may be an answer: its items are single values without brackets."""
    ranked: bool = False
    """Whether it is a ranking of candidates; a mapping from candidate to score is one, too."""
    parts: tuple[tuple[str, ...], ...] = ()
    """Column names of the parts of an item in a table with one item a row; empty where there is no such table."""
    gold: str = ""
    """The column of examples that holds the gold answer, where it isn't `field`."""


PARTS = (
    ("sub", "subject", "head", "s"),
    ("rel", "relation", "predicate", "property", "p"),
    ("obj", "object", "tail", "o"),
)
"""Names of the parts of a triple."""


def _parse_list(row: Mapping[str, object], field: str) -> list[object]:
    """Return the list of a field; ShapeError where it is none."""
    answer = row[field]
    if answer is None:
        raise ShapeError(
            f"'{field}' is null: no answer, or an empty one? Write [] if it is empty; else leave the line out"
        )
    if not isinstance(answer, list):
        raise ShapeError(f"'{field}' is {type(answer).__name__}; expected a list")
    return answer


def _parse_ids(row: Mapping[str, object]) -> list[object]:
    """Return the ids of a prediction; ShapeError where one is no integer or string, or the scores do not fit."""
    ids = _parse_list(row, "ids")
    if (scores := row.get("scores")) is not None:
        _check_scores(scores, len(ids))
    for item in ids if not {*map(type, ids)} <= {int, str} else ():
        if isinstance(item, bool) or not isinstance(item, int | str):
            raise ShapeError(f"candidate {item!r} is neither an integer nor a string")
    return ids


def _check_scores(scores: object, n: int) -> None:
    """Raise ShapeError where scores are not `n` finite numbers that never rise."""
    if not (isinstance(scores, list) and len(scores) == n):
        raise ShapeError(f"'scores' does not have one number for each of the {n} ids")
    if any(isinstance(score, bool) or not isinstance(score, int | float) or not isfinite(score) for score in scores):
        raise ShapeError("'scores' holds something that is not a finite number")
    worse = next((k for k in range(1, n) if scores[k] > scores[k - 1]), None)
    if worse is not None:
        raise ShapeError(f"'scores' rises at position {worse}; expected the best candidate first")


def _parse_triples(strict: bool, row: Mapping[str, object]) -> list[object]:
    """Return the triples of a prediction as lists; with `strict`, ShapeError where one is not three strings."""
    triples = [_triple_parts(each) if isinstance(each, dict) else each for each in _parse_list(row, "triples")]
    for position, triple in enumerate(triples):
        if isinstance(triple, list) and triple and all(isinstance(part, list) for part in triple):
            raise ShapeError(f"triple {position} is {triple!r}; expected [subject, relation, object], three strings")
    for position, triple in enumerate(triples if strict else ()):
        if not (isinstance(triple, list) and len(triple) == 3 and all(isinstance(part, str) for part in triple)):
            raise ShapeError(f"triple {position} is {triple!r}; expected [subject, relation, object], three strings")
    return triples


def _triple_parts(triple: Mapping[str, object]) -> list[object]:
    """Return the parts of a triple that is an object; an absent one is None.

    REBEL's names are `head`, `type` and `tail`; with other names, `type` is an entity type.
    """
    if triple.keys() == {"head", "type", "tail"}:
        return [triple["head"], triple["type"], triple["tail"]]
    if not any(name in triple for names in PARTS for name in names):
        raise ShapeError(f"a triple has the keys {sorted(triple)[:5]}; expected 'sub', 'rel' and 'obj'")
    return [next((triple[name] for name in names if name in triple), None) for names in PARTS]


def _parse_answers(row: Mapping[str, object]) -> list[str]:
    answers = []
    for item in _parse_list(row, "answers"):
        if isinstance(item, bool) or not isinstance(item, str | int | float):
            raise ShapeError(f"answer {item!r} is not a string; expected a list of strings")
        answers.append(str(item))
    return answers


def _join_parts(triples: Sequence[object]) -> list[str]:
    return [" | ".join(map(str, each)) if isinstance(each, list | tuple) else str(each) for each in triples]


def _strings(answer: Sequence[object]) -> list[str]:
    return [str(item) for item in answer]


IDS = AnswerKind(
    "ids",
    _parse_ids,
    '{"id": 12, "ids": [5092, 77, 1301]}',
    _strings,
    separable=True,
    ranked=True,
    gold="answer_ids",
)
"""Candidates, best first; `scores`, where they are given, fall."""
TRIPLES = AnswerKind(
    "triples",
    partial(_parse_triples, True),
    '{"id": "ont_1_movie_test_1", "triples": [["subject", "relation", "object"]]}',
    _join_parts,
    parts=PARTS,
)
"""Triples of three strings."""
ANY_TRIPLES = AnswerKind("triples", partial(_parse_triples, False), TRIPLES.example, _join_parts, parts=PARTS)
"""Triples whose metric defines the score of malformed ones."""
ANSWERS = AnswerKind("answers", _parse_answers, '{"id": "q1", "answers": ["Paris"]}', _strings, separable=True)
"""A list of answers, each a string; numbers become strings."""
