"""Into which facts a triple might split, by the way it is written; whether it does, a judge decides."""

import re
from collections.abc import Iterator
from itertools import product

Triple = tuple[str, str, str]

_PREPOSITIONS = (
    r"about|above|across|after|against|along|among|around|as|at|because of|before|behind|below|beneath|beside|between|"
    r"beyond|by|during|except|for|from|in|inside|into|like|near|of|off|on|onto|opposite|outside|over|per|since|through|"
    r"throughout|to|towards?|under|until|upon|up|via|within|without|with"
)
_CLAUSES = r"that|which|whom|whose|who|where|when|while|because|but|than|if"
_JOINT = re.compile(r"\s*(?:[,;/&]|\bas well as\b|\band\b|\bor\b)\s*", re.IGNORECASE)
_CUT = re.compile(
    rf"(?<=\S)(?:\s+(?P<word>{_PREPOSITIONS}|{_CLAUSES})(?=\s)|\s*[()\[\]:–]|\s-\s)\s*(?=\S)", re.IGNORECASE
)
_PREPOSITION = re.compile(_PREPOSITIONS, re.IGNORECASE)
_AUXILIARIES = frozenset(
    "is are was were be been being has have had will would can could may might must should does do did not".split()
)
_ARTICLES = frozenset("a an the his her its their".split())


def decompositions(triple: object) -> list[list[Triple]]:
    """Return the sets of sub-triples that a triple might stand for, each of two or more; none for a simple one.

    A triple is taken apart at the commas and conjunctions of its elements, at the prepositions, clauses and brackets of
    its ends, between the verb of its relation and what follows, and, for want of these, between the words of its tail
    where they are no name. Every way stands for itself; the last puts several together.

    >>> for parts in decompositions(["Bo", "paints", "birds and boats in Rome"]):
    ...     print(parts)
    [('Bo', 'paints', 'birds'), ('Bo', 'paints', 'boats in Rome')]
    [('Bo', 'paints', 'birds and boats'), ('birds and boats', 'in', 'Rome')]
    [('Bo', 'paints', 'birds'), ('Bo', 'paints', 'boats'), ('birds', 'in', 'Rome'), ('boats', 'in', 'Rome')]
    """
    if not isinstance(triple, list | tuple) or len(triple) != 3:
        return []
    head, relation, tail = map(str, triple)
    found: list[list[Triple]] = [
        [*product(_joined(head), _joined(relation), _joined(tail))],
        *([(head, relation, left), (left, word, right)] for left, word, right in _cuts(tail)),
        *([(left, relation, tail), (left, word, right)] for left, word, right in _cuts(head)),
        *_verb_apart(head, relation, tail),
        *([(head, relation, left), (head, relation, right)] for left, right in _words_apart(tail)),
        _all_at_once(head, relation, tail),
    ]
    whole = [[part for part in dict.fromkeys(parts) if all(part)] for parts in found]
    return [parts for n, parts in enumerate(whole) if len(parts) > 1 and parts not in whole[:n]]


def _joined(text: str) -> list[str]:
    """Return what commas and conjunctions join."""
    return [part for part in _JOINT.split(text) if part.strip()] or [text]


def _cuts(text: str) -> Iterator[Triple]:
    """Yield (before, word, after) at each preposition, clause or bracket inside a text; brackets stand for "is"."""
    for match in _CUT.finditer(text):
        left, right = text[: match.start()].strip(" ()[]"), text[match.end() :].strip(" ()[]")
        if left and right:
            yield left, match["word"] or "is", right


def _verb_apart(head: str, relation: str, tail: str) -> Iterator[list[Triple]]:
    """Yield [head, filed, lawsuits] and [head, filed in, court] for [head, filed lawsuits in, court]."""
    words = relation.split()
    verb = next((n for n, word in enumerate(words) if word.lower() not in _AUXILIARIES), len(words)) + 1
    end = len(words) - 1 if words and _PREPOSITION.fullmatch(words[-1]) else len(words)
    if words[verb:end]:
        said = words[:verb]
        yield [(head, " ".join(said), " ".join(words[verb:end])), (head, " ".join(said + words[end:]), tail)]


def _words_apart(text: str) -> Iterator[tuple[str, str]]:
    """Yield the first word and the others, and the others and the last, where a text is not cut inside a name."""
    words = [] if _CUT.search(text) or len(_joined(text)) > 1 else text.split()
    for cut in sorted({1, len(words) - 1}) if len(words) > 1 else ():
        article = cut == 1 and words[0].lower() in _ARTICLES
        if not article and (words[cut - 1][0].islower() or words[cut][0].islower()):
            yield " ".join(words[:cut]), " ".join(words[cut:])


def _all_at_once(head: str, relation: str, tail: str) -> list[Triple]:
    """Return what all cuts of the tail and all conjunctions make together."""
    cuts = list(_CUT.finditer(tail))
    starts, ends = [0, *(cut.end() for cut in cuts)], [*(cut.start() for cut in cuts), len(tail)]
    pieces = [_joined(tail[start:end].strip(" ()[]")) for start, end in zip(starts, ends, strict=True)]
    words = [cut["word"] or "is" for cut in cuts]
    parts = [*product(_joined(head), _joined(relation), pieces[0])]
    for before, word, after in zip(pieces, words, pieces[1:], strict=False):
        parts += product(before, [word], after)
    return parts
