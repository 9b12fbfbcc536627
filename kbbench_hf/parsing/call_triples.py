r"""Triples written as `relation(subject, object)`, read without losing anything.

`triples` and the parser `balanced` of a benchmark call `parse_calls`; stored scores depend on its rules:

- The relation is what stands right before the bracket: a word, or all words since the line's start, list marker, colon
  or triple before, where they are only words (`LCCN number`, `languages spoken, written or signed`). Its spaces become
  underscores, as in the ontology's names, and `\_` is `_`.
- Brackets inside a field are balanced; a triple whose bracket never closes ends with its line. A triple without a
  subject or without an object says nothing and is left out.
- A field in double quotes may hold anything. Quotes around both fields are punctuation and are removed (the fields are
  JSON strings), as are those around a subject that holds a comma or a bracket. Other quotes are data and stay:
  literals of DBpedia have them (`name(Totoro, "Tonari")`).
- Subject and object are parted by a comma outside quotes and brackets. Where there are several:
  not one that an underscore follows (`Leiden,_Holland`), nor one inside a number or date, if others are left;
  not one after a space, if others are left (`Here , There,Leiden`);
  the first without a space after it (`Paris, Texas,USA`); the first of those that only numbers follow (`Leiden, 71`).
- Where several are left, the reading of the whole response counts that has the fewest distinct names, then the fewest
  distinct subjects, the shortest names, as many commas in the subject as in the object, the most letters in names that
  the sentence holds verbatim, and the shortest subjects.

Written as the release's prompts write triples, all gold of the release is read back without loss; that of
DBpedia-WebNLG with the help of the sentence. Without it, 4 of 2,014 answers differ, each a single triple such as
`timeZone(Leiden, Holland, Central European Time)`.
"""

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kbbench_hf.parsing.parsed_reply import Triple


class Fields(NamedTuple):
    """One way to parse the text between the brackets."""

    subject: str
    object: str


def parse_calls(text: str, sentence: str = "") -> list[Triple]:
    r"""Return the triples of a text, in order; none where it has none. Every text can be read.

    Args:
        text: what a model wrote.
        sentence: the sentence that it was given; it only decides where names with commas can be read in two ways.

    >>> parse_calls('1. **located in**(Leiden, Holland, Netherlands)\n2. country("Haarlem, Holland", "Netherlands")')
    [('Leiden, Holland', 'located_in', 'Netherlands'), ('Haarlem, Holland', 'country', 'Netherlands')]
    >>> parse_calls("located_in(Leiden, Holland, Netherlands)", "Leiden, Holland is in the Netherlands.")
    [('Leiden, Holland', 'located_in', 'Netherlands')]
    """
    calls = list(_find_calls(text.replace(r"\_", "_")))
    choices = _choose_fields([readings for _, readings in calls], sentence)
    return [(subject, relation, obj) for (relation, _), (subject, obj) in zip(calls, choices, strict=True)]


def _find_calls(text: str) -> Iterator[tuple[str, list[Fields]]]:
    """Yield the relation of each triple, and the ways to read its fields."""
    for line in _logical_lines(text):
        done = 0
        for bracket in sorted(_round_brackets(line)):
            if bracket.opening < done:
                continue
            relation = _find_relation(line[max(done, bracket.opening - _LONGEST_RELATION) : bracket.opening])
            readings = _possible_fields(line[bracket.opening + 1 : bracket.closing], bracket) if relation else []
            if readings:
                yield relation, readings
                done = bracket.closing + 1


def _logical_lines(text: str) -> Iterator[str]:
    """Yield the lines of a text; one that ends in an opening bracket or a comma goes on in the next."""
    pending = ""
    for line in text.splitlines():
        pending += line
        if not pending.rstrip().endswith((",", "(")):
            yield pending
            pending = ""
    if pending:
        yield pending


class _Bracket(NamedTuple):
    """A pair of round brackets: their positions in the line, and the commas that are in no inner pair."""

    opening: int
    closing: int
    commas: list[int]


_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_PARTNERS = {")": "(", "]": "[", "}": "{"}


def _round_brackets(line: str) -> Iterator[_Bracket]:
    """Yield the round brackets of a line, inner ones first. One that never closes ends with the line.

    Square and curly brackets hold commas together as well; where unclosed, brackets are characters like any other.
    """
    stack: list[tuple[str, int, list[int]]] = []
    position = 0
    field_starts = False
    while position < len(line):
        character = line[position]
        if character == '"' and field_starts and (string := _STRING.match(line, position)):
            position = string.end()
            field_starts = False
            continue
        if character in "([{":
            stack.append((character, position, []))
        elif character in ")]}" and any(_PARTNERS[character] == kind for kind, _, _ in stack[-_DEPTH:]):
            while stack[-1][0] != _PARTNERS[character]:
                _, _, commas = stack.pop()
                stack[-1][2].extend(commas[:_MOST_COMMAS])
            kind, opening, commas = stack.pop()
            if kind == "(":
                yield _Bracket(opening, position, commas)
        elif character == "," and stack:
            stack[-1][2].append(position)
        field_starts = character in "(," or (field_starts and character == " ")
        position += 1
    while stack:
        kind, opening, commas = stack.pop()
        if kind == "(":
            yield _Bracket(opening, len(line), commas)
        if stack:
            stack[-1][2].extend(commas[:_MOST_COMMAS])


_DEPTH = 50
"""How many open brackets back a closing one looks for its partner."""
_MOST_COMMAS = 20
"""How many commas of a triple may part its subject from its object."""
_LONGEST_RELATION = 200
"""How many characters before a bracket are looked at."""
_LEAD = re.compile(r"^(?:[\s,;.|&>•*+-]|(?:\d+|[a-z])[.)]\s|and\s)*")
_WORDS = re.compile(r"[\w/&'-]+(?:,? [\w/&'-]+){0,7}")


def _find_relation(before: str) -> str:
    """Return the relation at the end of the text before a bracket; "" where there is none."""
    ending = before.rstrip("*`\"'")
    if not ending.strip() or not (ending[-1].isalnum() or ending[-1] == "_"):
        single = _LEAD.sub("", before).split()
        return single[0] if len(single) == 1 and _WORDS.fullmatch(single[0]) else ""
    phrase = _LEAD.sub("", ending).rpartition(": ")[2].lstrip("*`\"'")
    last = ending.split()[-1]
    if _WORDS.fullmatch(phrase) and ("_" not in last or phrase == last):
        return phrase.replace(" ", "_")
    return re.sub(r"^\W+", "", last)


_NUMBERS = re.compile(r"[+-]?\d[\d.]*(?:, ?[+-]?\d[\d.]*)*(?: \([^()]*\))?")
_DATE = re.compile(r"\d{1,2}, \d{4}(?!\d)")


def _possible_fields(body: str, bracket: _Bracket) -> list[Fields]:
    """Return the ways to part a body into subject and object; none where it cannot be."""
    commas = [at - bracket.opening - 1 for at in bracket.commas[:_MOST_COMMAS]]
    commas = [at for at in commas if body[:at].strip() and body[at + 1 :].strip()]
    for keep in (
        [at for at in commas if body[at + 1] != "_"],
        [at for at in commas if not (body[at - 1].isdigit() and body[at + 1].isdigit())],
        [at for at in commas if not _DATE.match(body, max(at - 2, 0)) and not _DATE.match(body, at - 1)],
        [at for at in commas if body[at - 1] != " "],
        [at for at in commas if body[at + 1] != " "][:1],
        [at for at in commas if _NUMBERS.fullmatch(body[at + 1 :].strip())][:1],
    ):
        commas = [at for at in keep if at in commas] or commas
    return [_make_fields(body[:at].strip(), body[at + 1 :].strip()) for at in commas]


def _make_fields(subject: str, obj: str) -> Fields:
    """Return two fields without the quotes that are punctuation."""
    if _STRING.fullmatch(subject) and (_STRING.fullmatch(obj) or re.search(r"[,()]", subject)):
        return Fields(_strip_quotes(subject), _strip_quotes(obj))
    return Fields(subject, obj)


def _strip_quotes(field: str) -> str:
    """Return the text of a field that is a JSON string; any other field unchanged."""
    if not _STRING.fullmatch(field):
        return field
    try:
        return str(json.loads(field, strict=False))
    except ValueError:  # a backslash that JSON does not know
        return field[1:-1]


_MOST_COMBINATIONS = 1024
"""How many combinations of ways to read triples are compared at once, so that a hostile reply takes no time."""


def _choose_fields(readings: Sequence[Sequence[Fields]], sentence: str) -> list[Fields]:
    """Return the reading of each triple under which the response costs least.

    All combinations are compared, of so many triples at a time that there are at most `_MOST_COMBINATIONS`.
    """
    folded = sentence.casefold()
    choices = [each[0] for each in readings]
    names = {name for each in readings if len(each) == 1 for name in each[0]}
    subjects = {each[0].subject for each in readings if len(each) == 1}
    unsettled = [number for number, each in enumerate(readings) if len(each) > 1]
    while unsettled:
        size, product = 1, len(readings[unsettled[0]])
        while size < len(unsettled) and product * len(readings[unsettled[size]]) <= _MOST_COMBINATIONS:
            product *= len(readings[unsettled[size]])
            size += 1
        batch, unsettled = unsettled[:size], unsettled[size:]
        best = min(
            itertools.product(*(readings[number] for number in batch)),
            key=lambda combination: _cost(combination, names, subjects, folded),
        )
        for number, fields in zip(batch, best, strict=True):
            choices[number] = fields
        names.update(name for fields in best for name in fields)
        subjects.update(fields.subject for fields in best)
    return choices


def _cost(combination: Sequence[Fields], names: set[str], subjects: set[str], sentence: str) -> tuple[int, ...]:
    """Return what a combination adds to the settled names and subjects, in the order of the module's last rule."""
    new = {name for fields in combination for name in fields} - names
    return (
        len(new),
        len({subject for subject, _ in combination} - subjects),
        sum(map(len, new)),
        sum(abs(subject.count(",") - obj.count(",")) for subject, obj in combination),
        -sum(len(name) for fields in combination for name in fields if name.casefold() in sentence),
        sum(len(subject) for subject, _ in combination),
    )
