"""Parsers of Text2KGBench responses: the clean-ups of the published runs, and parsers for new ones."""

import json
import re
from collections.abc import Callable, Iterator

from kbbench_hf.metrics.triples import Triple
from kbbench_hf.parsing.call_triples import parse_calls
from kbbench_hf.parsing.parsed_reply import ParseError

_RELEASED = re.compile(r"(\w+)\(([^,]+),([^)]+)\)")


def parse_md(text: str) -> list[Triple]:
    r"""Return the triples of a response as the release read those to Wikidata-TekGen: `\_` is `_`, nothing is stripped.

    >>> parse_md(r"cast\_member(Totoro,human)")
    [('Totoro', 'cast_member', 'human')]
    """
    return parse_id(text.replace(r"\_", "_"))


def parse_id(text: str) -> list[Triple]:
    """Return the triples of a response by the release's expression alone; an object keeps the space before it.

    The expression cuts a relation to its last word, a subject at its first comma and an object at its first ")".

    >>> parse_id("areaTotal(Leiden, Holland, 23.27 (square kilometres))")
    [('Leiden', 'areaTotal', ' Holland, 23.27 (square kilometres')]
    """
    return [(subject, relation, obj) for relation, subject, obj in _RELEASED.findall(text)]


def parse_quotes(text: str) -> list[Triple]:
    """Return the triples of a response as the release read those to the unseen sentences and most of DBpedia-WebNLG.

    Each field is stripped and then loses every quotation mark, in this order: a space inside quotes survives.

    >>> parse_quotes("author(Dune, ' Frank Herbert')")
    [('Dune', 'author', ' Frank Herbert')]
    """
    return [(_unquoted(subject), _unquoted(relation), _unquoted(obj)) for subject, relation, obj in parse_id(text)]


def _unquoted(field: str) -> str:
    return field.strip().replace('"', "").replace("'", "")


HISTORICAL_PARSERS: dict[str, Callable[[str], list[Triple]]] = {"md": parse_md, "quotes": parse_quotes, "id": parse_id}
"""The profiles that together parse all 12,936 published responses to their published triples."""


def parse_balanced(text: str, sentence: str = "") -> list[Triple]:
    r"""Return the triples of a response, written as JSON or as `relation(subject, object)`; none where it has none.

    Loses nothing: see `calls.parse_calls` for the rules, and for what `sentence` is good for.

    >>> parse_balanced("areaTotal(Leiden, Holland, 23.27 (square kilometres))\ncountry(Leiden, Holland, Netherlands)")
    [('Leiden, Holland', 'areaTotal', '23.27 (square kilometres)'), ('Leiden, Holland', 'country', 'Netherlands')]
    """
    return _json_triples(text) or parse_calls(text, sentence)


def parse_json(text: str) -> list[Triple]:
    """Return the triples of the first JSON in a response that has some; text or a code fence may surround it.

    A triple is a list of three, or an object with `subject`, `relation` and `object` (or `sub`, `rel`, `obj`, or
    `predicate` for the relation). Triples come in a list, alone or under the key `triples`, or as objects in a row.

    Raises:
        ParseError: no JSON in the text is a list of triples.

    >>> parse_json('Here: {"triples": [{"subject": "Up", "relation": "director", "object": "Pete Docter"}]}')
    [('Up', 'director', 'Pete Docter')]
    """
    triples = _json_triples(text)
    if triples is None:
        raise ParseError(f'no JSON list of triples in {text[:80]!r}; expected {{"triples": [...]}}')
    return triples


_JSON_NAMES = (("subject", "sub"), ("relation", "rel", "predicate"), ("object", "obj"))
_JSON_START = re.compile(r"""\{(?=\s*")|\[(?=\s*(?:\{\s*"|\[\s*["\d-]|\]))""")


def _json_triples(text: str) -> list[Triple] | None:
    """Return the triples of JSON in a text; None where no JSON is a list of triples, not even an empty one."""
    in_a_row: list[Triple] = []
    found_empty = False
    for value in _json_values(text):
        listed = value.get("triples") if isinstance(value, dict) else value
        if isinstance(listed, list):
            triples = [triple for each in listed if (triple := _json_triple(each)) is not None]
            if triples and len(triples) == len(listed):
                return triples
            found_empty = found_empty or not listed
        elif isinstance(value, dict) and (triple := _json_triple(value)) is not None:
            in_a_row.append(triple)
    return in_a_row or ([] if found_empty else None)


def _json_values(text: str) -> Iterator[object]:
    """Yield every object and list in a text that is JSON and not inside another one."""
    decoder = json.JSONDecoder()
    position = 0
    while match := _JSON_START.search(text, position):
        position = match.start() + 1
        try:
            value, position = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        yield value


def _json_triple(value: object) -> Triple | None:
    if isinstance(value, dict):
        parts = [next((value[name] for name in names if name in value), None) for names in _JSON_NAMES]
    elif isinstance(value, list):
        parts = value
    else:
        return None
    if len(parts) != 3 or not all(type(part) in (str, int, float) for part in parts):
        return None
    subject, relation, obj = map(str, parts)
    return subject, relation, obj
