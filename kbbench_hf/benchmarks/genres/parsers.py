"""Parsers of GenRES responses: the careful one, the historical one of the published scores, and the lenient one.

The historical parser drops what is not strict JSON (unquoted or curly-quoted triples, escaped underscores) and the
first triple of a truncated list; 478 of 800 published answers of one model are empty only because of this. The lenient
parser keeps the triples of the historical one, parses the rest again and counts its repairs. What the historical parser
returns must stay, mistakes included: published scores are of its triples.
"""

import json
import re
from collections import Counter
from typing import NamedTuple

from kbbench_hf.benchmarks.base import Example
from kbbench_hf.metrics.generative_re import Triple
from kbbench_hf.parsing.parsed_reply import ParsedReply, ParseError
from kbbench_hf.parsing.triples import parse_triples, without_types

ANSWER_MARKS = ("\nASSISTANT:", "[/INST]", "\n<|assistant|>\n", "GPT4 Correct Assistant:")
"""The words after which an answer begins where a stored response repeats its prompt (Vicuna and WizardLM, Llama and
Mistral, Zephyr, OpenChat)."""

_SHORTEST = re.compile(r"\[.*?\]", re.DOTALL)
_SHORTEST_LIST = re.compile(r"\[\[.*?\]\]", re.DOTALL)
_GROUP = re.compile(r"\[(?:[^\[\]]|\[[^\[\]]*\]){1,2000}\]")
_ELEMENT = re.compile(
    r"""\s*(?:["“”](?P<double>.*?)["“”]|['‘’`´](?P<single>.*?)['‘’`´]|(?P<bare>[^,]*?))\s*(?:,|$)""", re.DOTALL
)
_NUMBERED = re.compile(r"^[ \t]*\d{1,3}[.)][ \t]+(.+)$", re.MULTILINE)
_PLAIN_TRIPLE = re.compile(r"([^,(]+),([^,(]+),(.+)")
_FORMAT_ECHO = ("entity 1", "relationship", "entity 2")


class LenientTriples(NamedTuple):
    """The triples that the lenient parser finds in a text, with its repairs."""

    triples: list[Triple]
    repairs: Counter[str]
    """Kind of repair -> triples that the historical reader had lost to it: `quotes`, `unquoted`, `comma` (in an
    unquoted tail), `escape`, `list` (sound, but lost with its list), `numbered` (no brackets)."""


def careful(response: str, example: Example) -> ParsedReply[list[Triple]]:
    """Return the triples that a response gives as its answer; see `parsing.triples`, which reads all benchmarks'.

    Raises:
        ParseError: it gives none and does not say so, or can be read in two ways.
    """
    parsed = parse_triples(response, example["text"])
    return ParsedReply([list(triple) for triple in parsed.answer], parsed.rule, parsed.thought)


def careful_semi_open(response: str, example: Example) -> ParsedReply[list[Triple]]:
    """Return the triples of `careful` for the release's semi-open prompt, entities without the type behind their name.

    Raises:
        ParseError: as `careful`.
    """
    parsed = parse_triples(response, example["text"])
    return ParsedReply([list(triple) for triple in without_types(parsed.answer)], parsed.rule, parsed.thought)


def answer_of(response: str) -> str:
    """Return the model's own part of a stored response; all of it where it repeats no prompt.

    >>> answer_of("<s> Extract triples. [/INST] [[]]")
    ' [[]]'
    """
    for mark in ANSWER_MARKS:
        if mark in response:
            return response.split(mark)[1]
    return response


def historical(response: str) -> list[Triple]:
    """Return the triples that the release's parser finds in a stored response, empty where it finds none.

    It has two passes. The first takes every shortest `[...]`, which fails on the first triple of a `[[...` list; the
    second every shortest `[[...]]`, with each triple that was not found exactly once. So the first triple of a list
    comes last, is lost where the list was never closed, and a triple found twice gets another copy.

    >>> historical('[["a", "r", "b"], ["c", "r", "d"]]')
    [['c', 'r', 'd'], ['a', 'r', 'b']]
    >>> historical('[["a", "r", "b"], ["c", "r"')
    []
    """
    return _parse_historical(answer_of(response))


def historical_semi_open(response: str) -> list[Triple]:
    """Return the triples that the release's parser finds in a semi-open answer, with types after a colon removed.

    >>> historical_semi_open("[['Pusterla:PERSON', 'Work For', 'Confederation:ORGANIZATION'], ['a:X', 'r', 'b:Y']]")
    [['a', 'r', 'b'], ['Pusterla', 'Work For', 'Confederation']]
    """
    triples = _parse_historical(answer_of(response).replace("'", '"'))
    return [[_before_colon(head), relation, _before_colon(tail)] for head, relation, tail in triples]


def lenient(response: str) -> list[Triple]:
    """Return the triples of `parse_lenient`, for new and stored answers.

    Raises:
        ParseError: the text holds neither a triple nor an empty list.

    >>> lenient("1. [Lepidostroma, is a genus in, family Lepidostromataceae]")
    [['Lepidostroma', 'is a genus in', 'family Lepidostromataceae']]
    >>> lenient("[]")
    []
    """
    triples = parse_lenient(response).triples
    if not triples and not re.search(r"\[\s*\]", answer_of(response)):
        raise ParseError("no triple [head, relation, tail] and no empty list")
    return triples


def lenient_semi_open(response: str) -> list[Triple]:
    """Return the triples of `lenient`, entities cut at the colon that starts their type.

    >>> lenient_semi_open("[[’Bruno Pusterla:PERSON’, ’Work For’, ’Confederation:ORGANIZATION’]]")
    [['Bruno Pusterla', 'Work For', 'Confederation']]
    """
    return [[_before_colon(head), relation, _before_colon(tail)] for head, relation, tail in lenient(response)]


def parse_lenient(response: str) -> LenientTriples:
    """Return the historical triples and, after them, the ones it lost, with a count of the repairs.

    A triple is a bracketed group of three elements in any kind of quotes or none; commas beyond the second belong to an
    unquoted tail. Where nothing is bracketed and every numbered line reads `1. head, relation, tail`, these are taken.

    >>> parse_lenient('[["a", "r", "b"], [“c”, “r”, “d”], [e, born on, May 10, 1810]]').repairs
    Counter({'list': 1, 'quotes': 1, 'comma': 1})
    """
    answer = answer_of(response)
    triples = _parse_historical(answer)
    repairs: Counter[str] = Counter()
    found = _find_bracketed(answer)
    if not triples and not found:
        found = _find_numbered(answer)
    for triple, repair in found:
        if triple not in triples and tuple(str(element).lower() for element in triple) != _FORMAT_ECHO:
            triples.append(triple)
            repairs[repair] += 1
    return LenientTriples(triples, repairs)


def _parse_historical(answer: str) -> list[Triple]:
    """Return the triples of both passes of the release's parser, in its order; see `historical`."""
    triples: list[Triple] = []
    met: Counter[str] = Counter()
    for group in _SHORTEST.findall(answer, 0, answer.rfind("]") + 1):  # nothing closes after: do not search in vain
        whole = _load_list(group)
        if whole is not None and len(whole) == 3:
            triples.append(whole)
            met[str(whole)] += 1
    for group in _SHORTEST_LIST.findall(answer, 0, answer.rfind("]]") + 2):
        for triple in _load_list(group) or []:
            key = str(triple)
            if met[key] != 1 and isinstance(triple, list | str) and len(triple) == 3:
                triples.append(triple)
            met[key] += 1
    return triples


def _find_bracketed(answer: str) -> list[tuple[Triple, str]]:
    """Return every triple in brackets with the repair it needed; `list` where it is sound JSON."""
    found: list[tuple[Triple, str]] = []
    decoder = json.JSONDecoder()
    position = answer.find("[")
    while position >= 0:
        end = position + 1
        if answer.startswith("[[[", position):
            position = end
            continue
        try:
            value, end = decoder.raw_decode(answer, position)
            rows = value if all(isinstance(row, list) for row in value) else [value]
            found += [(row, "list") for row in rows if _is_sound(row)]
        except (ValueError, RecursionError):
            group = _GROUP.match(answer, position)
            if group and not answer[position + 1 : group.end()].lstrip().startswith("["):
                if mended := _mend(group[0][1:-1]):
                    found.append(mended)
                end = group.end()
        position = answer.find("[", end)
    return found


def _find_numbered(answer: str) -> list[tuple[Triple, str]]:
    """Return the triples of numbered lines; none where one of the lines is no triple."""
    lines = [_PLAIN_TRIPLE.fullmatch(line.strip().removesuffix("</s>")) for line in _NUMBERED.findall(answer)]
    triples = [[part.strip() for part in line.groups()] for line in lines if line]
    return [(triple, "numbered") for triple in triples] if len(triples) == len(lines) else []


def _mend(content: str) -> tuple[Triple, str] | None:
    """Return the three elements of a bracketed group that is no JSON, and the repair, or None where it is no triple."""
    unescaped = content.replace("\\_", "_")
    elements, quoted, start = [], 0, 0
    while start < len(unescaped):
        match = _ELEMENT.match(unescaped, start)
        if match is None or match.end() == start:
            break
        elements.append(next(text for text in match.groups() if text is not None).strip(' \t\n"“”'))
        quoted += match["bare"] is None
        start = match.end()
    repair = "escape" if unescaped != content else "quotes" if quoted else "unquoted"
    if len(elements) > 3 and not quoted:
        elements, repair = [*elements[:2], ", ".join(elements[2:])], "comma"
    if len(elements) != 3 or not all(elements):
        return None
    return list(elements), repair


def _load_list(text: str) -> list[object] | None:
    """Return the list that a text is as JSON; None where it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list) else None


def _is_sound(row: object) -> bool:
    return isinstance(row, list) and len(row) == 3 and all(isinstance(e, str | int | float) and e != "" for e in row)


def _before_colon(element: object) -> object:
    return element.split(":")[0] if isinstance(element, str) else element
