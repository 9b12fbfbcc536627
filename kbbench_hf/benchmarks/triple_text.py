"""Model texts read as triples: the clean-ups that the published runs went through, and a parser that loses nothing."""

import re
from collections.abc import Callable

Triple = tuple[str, str, str]
"""Subject, relation, object."""

_RELEASED = re.compile(r"(\w+)\(([^,]+),([^)]+)\)")


def parse_md(text: str) -> list[Triple]:
    r"""Return the triples of a response as the release read those to Wikidata-TekGen: `\_` is `_`, nothing is stripped.

    >>> parse_md(r"cast\_member(Keyboard Cat,human)")
    [('Keyboard Cat', 'cast_member', 'human')]
    """
    return parse_id(text.replace(r"\_", "_"))


def parse_id(text: str) -> list[Triple]:
    """Return the triples of a response by the release's expression alone; an object keeps the space before it.

    The expression cuts a relation to its last word, a subject at its first comma and an object at its first ")".

    >>> parse_id("areaTotal(Austin, Texas, 703.95 (square kilometres))")
    [('Austin', 'areaTotal', ' Texas, 703.95 (square kilometres')]
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


HISTORICAL_PARSERS: dict[str, Callable[[str], list[Triple]]] = {
    "md": parse_md,
    "quotes": parse_quotes,
    "id": parse_id,
}
"""The profiles that together read all 12,936 published responses to their published triples."""
