"""Answer programs on triples and passages: patterns that must all match, as in SPARQL.

`{"type": "match", "find": "?film", "where": [["?film", "directed by", "Ann"], ["?film", "has genre", "Drama"]]}`. A
term that begins with `?` is a variable, the others are names. No variable takes a name that the program mentions, so
that a path never comes back to its topic. Two patterns are read from passages: `["?film", "says", "set in Oslo"]` holds
where the passage about the film has these words, and `"read": ["?film", "Silent Tom"]` says that the answer is this
span (or these, if more follow) of the passage about the film, so that another film that matches is another answer.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Program = Mapping[str, Any]
Cells = Sequence[str]
TYPES = frozenset({"match", "follow", "intersect", "conj"})
SAYS = "says"
"""The relation of a pattern that is read from the passage about its first term."""


class Fact(NamedTuple):
    """One statement of a relation, and the unit that makes it."""

    head: str
    tail: str
    unit: Hashable


class Match(NamedTuple):
    """One way in which all patterns of a program hold: what the variables stand for, and the units that say so."""

    binding: Mapping[str, str]
    units: frozenset[Hashable]


Facts = Callable[[str | None, str, str | None], Iterable[Fact]]
"""Returns the statements of a relation about a head, a tail, or both; None leaves one open."""


def is_variable(term: str) -> bool:
    """Say whether a term of a pattern is a variable."""
    return term.startswith("?")


def names(program: Program) -> list[str]:
    """Return the names that a program mentions: its topics.

    >>> names({"where": [["?film", "directed by", "Ann"], ["?film", "says", "set in Oslo"]]})
    ['Ann']
    """
    found = [term for head, relation, tail in program["where"] for term in (head, *([tail] * (relation != SAYS)))]
    return [name for name in dict.fromkeys(found) if not is_variable(name)]


def execute(program: Program, triples: Iterable[Cells]) -> list[str]:
    """Return what `find` can stand for in these triples, sorted; an empty list where the patterns do not match.

    >>> execute({"type": "match", "find": "?sex", "where": [["Ann", "child", "?x"], ["?x", "sex", "?sex"]]},
    ...         [["Ann", "child", "Bea"], ["Bea", "sex", "female"]])
    ['female']
    """
    if program["type"] != "match":
        return sorted(_have_both(program, triples) if program["type"] == "conj" else _reached(program, triples))
    wanted = {relation for _, relation, _ in program["where"]}
    stated = index((Fact(head, tail, None), relation) for head, relation, tail in triples if relation in wanted)
    return sorted({match.binding[program["find"]] for match in matches(program, stated)})


def index(facts: Iterable[tuple[Fact, str]]) -> Facts:
    """Return a look-up of (fact, relation) pairs by head or by tail."""
    by_head, by_tail = defaultdict[tuple[str, str], list[Fact]](list), defaultdict[tuple[str, str], list[Fact]](list)
    for fact, relation in facts:
        by_head[fact.head, relation].append(fact)
        by_tail[fact.tail, relation].append(fact)

    def look_up(head: str | None, relation: str, tail: str | None) -> Iterable[Fact]:
        if head is not None:
            return [fact for fact in by_head.get((head, relation), ()) if tail is None or fact.tail == tail]
        return by_tail.get((tail, relation), ()) if tail is not None else ()

    return look_up


def matches(program: Program, facts: Facts) -> Iterator[Match]:
    """Yield the ways in which all patterns hold: next comes the one with the fewest facts about its known terms."""
    yield from _extended(tuple(program["where"]), facts, {}, frozenset(), frozenset(names(program)))


def _extended(
    patterns: Sequence[Sequence[str]],
    facts: Facts,
    binding: dict[str, str],
    units: frozenset[Hashable],
    taken: frozenset[str],
) -> Iterator[Match]:
    if not patterns:
        yield Match(binding, units)
        return

    def value(term: str) -> str | None:
        return binding.get(term) if is_variable(term) else term

    known = [n for n, (head, _, tail) in enumerate(patterns) if value(head) is not None or value(tail) is not None]
    stated = {n: list(facts(value(patterns[n][0]), patterns[n][1], value(patterns[n][2]))) for n in known}
    chosen = min(known, key=lambda n: len(stated[n]), default=None)
    if chosen is None:
        return
    head, _, tail = patterns[chosen]
    rest = (*patterns[:chosen], *patterns[chosen + 1 :])
    for fact in stated[chosen]:
        found = {term: name for term, name in ((head, fact.head), (tail, fact.tail)) if is_variable(term)}
        if not taken & set(found.values()):
            yield from _extended(rest, facts, binding | found, units | {fact.unit}, taken)


def _have_both(program: Program, triples: Iterable[Cells]) -> set[str]:
    heads: dict[tuple[str, str], set[str]] = {(program[r], program[o]): set() for r, o in (("r1", "o1"), ("r2", "o2"))}
    for head, relation, tail in triples:
        if (relation, tail) in heads:
            heads[relation, tail].add(head)
    return set.intersection(*heads.values())


def _reached(program: Program, triples: Iterable[Cells]) -> set[str]:
    tails: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    followed = {relation for relations in program["relations"] for relation in relations}
    for head, relation, tail in triples:
        if relation in followed:
            tails[head, relation].add(tail)
    reached = []
    for topic, relations in zip(program["topics"], program["relations"], strict=True):
        entities = {topic}
        for relation in relations:
            entities = {tail for entity in entities for tail in tails.get((entity, relation), ())}
        reached.append(entities)
    return set.intersection(*reached) if program["type"] == "intersect" else set.union(*reached)
