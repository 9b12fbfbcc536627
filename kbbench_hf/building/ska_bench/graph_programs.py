"""Answer programs on triples and passages: conjunctions of patterns with variables, as in SPARQL.

`{"type": "match", "find": "?film", "where": [["?film", "directed by", "Ann"], ["?film", "has genre", "Drama"]]}`. A
term that begins with `?` is a variable, the others are names. No variable takes a name that the program mentions, so
a path never returns to its topic. Two patterns are read from passages: `["?film", "says", "set in Oslo"]` holds where
the passage about the film has these words. `"read": ["?film", "Silent Tom"]` makes this span (or these, if more follow)
of the passage about the film the answer, so another film that matches is another answer.

Programs are a stored column of the datasets. `evidence` executes them on a whole pool, `programs.execute` on triples
alone. `says` and `read` are read from passages, which only `evidence` does.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from kbbench_hf.benchmarks.ska_bench.units import Program

GRAPH_TYPES = frozenset({"match"})
SAYS = "says"
"""The relation of a pattern that is read from the passage about its first term."""


class Fact(NamedTuple):
    """One statement of a relation, and the unit that makes it."""

    head: str
    tail: str
    unit: Any


class Match(NamedTuple):
    """One way in which all patterns hold: the values of the variables, and the units that state it."""

    binding: Mapping[str, str]
    units: frozenset[Any]


FactLookup = Callable[[str | None, str, str | None], Iterable[Fact]]
"""Returns the statements of a relation about a head, a tail, or both; None leaves one open."""


def is_variable(term: str) -> bool:
    """Return whether a term of a pattern is a variable."""
    return term.startswith("?")


def program_names(program: Program) -> list[str]:
    """Return the names that a program mentions: its topics.

    >>> program_names({"where": [["?film", "directed by", "Ann"], ["?film", "says", "set in Oslo"]]})
    ['Ann']
    """
    # what a passage says is no name
    ends = [(head,) if relation == SAYS else (head, tail) for head, relation, tail in program["where"]]
    terms = chain.from_iterable(ends)
    return [name for name in dict.fromkeys(terms) if not is_variable(name)]


def execute_on_triples(program: Program, triples: Iterable[Sequence[str]]) -> list[str]:
    """Return the values of `find` in these triples, sorted; an empty list where the patterns do not match.

    >>> program = {"find": "?sex", "where": [["Ann", "child", "?x"], ["?x", "sex", "?sex"]]}
    >>> execute_on_triples(program, [["Ann", "child", "Bea"], ["Bea", "sex", "female"]])
    ['female']
    """
    facts = index_facts((Fact(head, tail, None), relation) for head, relation, tail in triples)
    return sorted({match.binding[program["find"]] for match in find_matches(program, facts)})


def index_facts(facts: Iterable[tuple[Fact, str]]) -> FactLookup:
    """Return a look-up of (fact, relation) pairs by head or by tail, in their order; nothing where both are open."""
    by_head, by_tail = defaultdict[tuple[str, str], list[Fact]](list), defaultdict[tuple[str, str], list[Fact]](list)
    for fact, relation in facts:
        by_head[fact.head, relation].append(fact)
        by_tail[fact.tail, relation].append(fact)

    def look_up(head: str | None, relation: str, tail: str | None) -> Iterable[Fact]:
        if head is not None:
            return [fact for fact in by_head.get((head, relation), ()) if tail is None or fact.tail == tail]
        return by_tail.get((tail, relation), ()) if tail is not None else ()

    return look_up


def find_matches(program: Program, facts: FactLookup) -> Iterator[Match]:
    """Yield the ways in which all patterns hold; the pattern with the fewest facts about its known terms comes next.

    A pattern is never matched without a known term: patterns that share no term with the others are never reached, and
    the program has no match.
    """
    yield from _extend(tuple(program["where"]), facts, Match({}, frozenset()), frozenset(program_names(program)))


def _extend(
    patterns: Sequence[Sequence[str]], facts: FactLookup, match: Match, taken: frozenset[str]
) -> Iterator[Match]:
    if not patterns:
        yield match
        return

    def value(term: str) -> str | None:
        return match.binding.get(term) if is_variable(term) else term

    stated = {
        n: list(facts(value(head), relation, value(tail)))
        for n, (head, relation, tail) in enumerate(patterns)
        if value(head) is not None or value(tail) is not None
    }
    chosen = min(stated, key=lambda n: len(stated[n]), default=None)
    if chosen is None:  # no pattern that is left has a known term
        return
    head, _, tail = patterns[chosen]
    rest = (*patterns[:chosen], *patterns[chosen + 1 :])
    for fact in stated[chosen]:
        found = {term: name for term, name in ((head, fact.head), (tail, fact.tail)) if is_variable(term)}
        if not taken & set(found.values()):
            yield from _extend(rest, facts, Match({**match.binding, **found}, match.units | {fact.unit}), taken)
