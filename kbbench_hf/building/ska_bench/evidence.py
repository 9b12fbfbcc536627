"""Evidence of an instance: whether its positive units are sufficient, necessary and unique over the whole pool.

A program is executed on everything that could state its patterns: each triple in both directions, names compared
without case, marks and punctuation, and every passage that names both ends of a pattern. Each way in which an answer
follows is a *derivation*. The evidence is *sufficient* if the positives hold a derivation of every gold answer,
*necessary* if they no longer do without any one of them, and *unique* if no derivation in the pool leads elsewhere.
What holds for the pool holds for every context, because a context is a part of it.

The makers of graph instances keep a question only if `Evidence.problems` finds none, and `noise` leaves out every unit
of a derivation. More or fewer derivations change the built datasets.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations
from typing import NamedTuple, TypeVar

from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, Program, UnitPool
from kbbench_hf.building.ska_bench import graph_programs as graphs
from kbbench_hf.building.ska_bench.name_matching import mentions, normal_name

T = TypeVar("T")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^\W_a-z])")


class UnitId(NamedTuple):
    """A unit of a pool: a structured one of the instance's group, or a passage."""

    in_text: bool
    number: int


class Derivation(NamedTuple):
    """One way in which an answer follows: the answer in normal form (`normal_name`), and the units it follows from."""

    answer: str
    units: frozenset[UnitId]


class Evidence:
    """Checks the instances of one subset on its pool.

    >>> pool = UnitPool({"films": [("Ada", "directed by", "Ann"), ("Ben", "directed by", "Ann")]})
    >>> program = {"type": "match", "find": "?film", "where": [["?film", "directed by", "Ann"]]}
    >>> asked = Instance("q", "kg", "What did Ann direct?", ("Ada",), "films", positive_sk=(0,), program=program)
    >>> Evidence(pool).problems(asked)
    ["not unique: 'ben' answers it too"]
    """

    def __init__(self, pool: UnitPool) -> None:
        self._pool = pool
        self._index = cache(lambda group: FactIndex(pool.sk[group], pool.text))

    def problems(self, instance: Instance) -> list[str]:
        """Return what is wrong with the evidence of an instance on a graph, in words; an empty list if nothing is.

        An instance without a program has no derivation, so that its evidence is not sufficient.
        """
        gold, found = {normal_name(answer) for answer in instance.answers}, self.derivations(instance)
        positives, others = positive_units(instance), {derivation.answer for derivation in found} - gold
        problems = [f"not unique: {answer!r} answers it too" for answer in sorted(others)]
        if answers_from(found, positives) != gold:
            problems.append("not sufficient: the positive units do not give the gold answers")
        for unit in sorted(positives):
            if answers_from(found, positives - {unit}) == gold:
                units: Sequence[Cells] = self._pool.text if unit.in_text else self._pool.sk[instance.group]
                problems.append(f"not necessary: {tuple(units[unit.number])} can be left out")
        return problems

    def derivations(self, instance: Instance) -> list[Derivation]:
        """Return every way in which an answer follows from the pool by the instance's program on a graph.

        They are sorted by answer and units. Of a table, or without a program, there are none.
        """
        if instance.program is None or instance.is_table:
            return []
        program, index = _normalize(instance.program), self._index(instance.group)
        found = {
            derivation
            for match in graphs.find_matches(program, index.look_up(program))
            for derivation in index.read_answers(program, match.binding, match.units)
        }
        return sorted(found, key=lambda derivation: (derivation.answer, sorted(derivation.units)))

    def rival_passages(self, instance: Instance) -> list[str]:
        """Return the titles of passages, of no answer's, that name all that an instance's program on a graph names.

        The graph may lack what they are about, which may be one more answer.
        """
        names = graphs.program_names(_normalize(instance.program or {"where": []}))
        known = {normal_name(answer) for answer in instance.answers} | {""}
        found = []
        for number in sorted(self._index(instance.group).names.passages_with(" ".join(names))):
            title, text = self._pool.text[number]
            about = normal_name(title.partition(" (")[0])
            if about not in known and all(mentions(f"{about} {normal_name(text)}", name) for name in names):
                found.append(title)
        return found


class FactIndex:
    """The facts that the triples and passages of a pool state, in both directions.

    A sentence that names two entities counts as stating any relation between them. An entity that is only looked for
    must have that role somewhere in the graph, or every name in the sentence would do. What is looked for by a name of
    the question may be the head of any triple.
    """

    def __init__(self, triples: Sequence[Cells], passages: Sequence[Cells]) -> None:
        normal = [tuple(map(normal_name, triple)) for triple in triples]
        self._triples = graphs.index_facts(
            (graphs.Fact(*ends, UnitId(False, number)), relation)
            for number, (head, relation, tail) in enumerate(normal)
            for ends in ((head, tail), (tail, head))
        )
        self._heads, self._tails = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
        for head, relation, tail in normal:
            self._heads[relation].add(head)
            self._tails[relation].add(tail)
        self._all_heads = {head for head, _, _ in normal}
        self.names = NameIndex(passages, {name for head, _, tail in normal for name in (head, tail)})

    def look_up(self, program: Program) -> graphs.FactLookup:
        """Return the look-up by which a program in normal form is executed: triples first, then sentences."""
        topics = frozenset(graphs.program_names(program))

        def find_facts(head: str | None, relation: str, tail: str | None) -> Iterable[graphs.Fact]:
            if relation == graphs.SAYS:  # of the passage itself, whose title its head is
                titles = ((self.names.titles[n], UnitId(True, n)) for n in sorted(self.names.passages_with(tail or "")))
                return [graphs.Fact(title, tail or "", unit) for title, unit in titles if head in (None, title)]
            stated = list(self._triples(head, relation, tail))
            if head is None:
                allowed = self._all_heads if tail in topics else self._heads[relation]
                near = list(self._named_with(tail or "", allowed))
                return stated + [graphs.Fact(name, tail or "", unit) for name, unit in near]
            near = list(self._named_with(head, self._tails[relation] if tail is None else {tail}))
            if tail is not None and not near:  # a name of the question that is no entity is found from its own side
                near = [(tail, unit) for _, unit in self._named_with(tail, {head})]
            return stated + [graphs.Fact(head, name, unit) for name, unit in near]

        return find_facts

    def _named_with(self, name: str, allowed: Collection[str]) -> Iterator[tuple[str, UnitId]]:
        near = self.names.named_with(name)
        return ((other, UnitId(True, number)) for other in near.keys() & allowed for number in near[other])

    def read_answers(
        self, program: Program, binding: Mapping[str, str], units: frozenset[UnitId]
    ) -> Iterator[Derivation]:
        """Yield the answers of a match: the value of `find`, or the spans of `read` in the passages about the value."""
        if "read" not in program:
            yield Derivation(binding[program["find"]], units)
            return
        about, *spans = program["read"]
        entity = binding.get(about, about)
        pages = set(self.names.passages_about(entity))
        stated = sorted(pages.intersection(*map(self.names.passages_with, spans)))
        yield from (Derivation(span, units | {UnitId(True, number)}) for number in stated for span in spans)
        if pages and not stated:
            yield Derivation(f"what is said of {entity}", units)


class NameIndex:
    """Entity names in passages: a sentence names whole-word mentions, and the title that its passage is about.

    Names are in normal form.

    >>> index = NameIndex([("Ann", "She lives in Oslo. Bo came from Lund.")], {"ann", "oslo", "lund", "bo"})
    >>> sorted(index.named_with("ann")), sorted(index.named_with("lund"))
    (['bo', 'lund', 'oslo'], ['ann', 'bo'])
    """

    def __init__(self, passages: Sequence[Cells], names: Collection[str]) -> None:
        self._names = frozenset(names)
        self.titles = [normal_name(title) for title, _ in passages]
        """The title of each passage."""
        self._sentences = [
            (number, normal_name(sentence))
            for number, (_, text) in enumerate(passages)
            for sentence in _SENTENCE_END.split(text)
        ]
        most_words: defaultdict[str, int] = defaultdict(int)
        for first, *rest in (name.split() for name in self._names - {""}):
            most_words[first] = max(most_words[first], 1 + len(rest))
        self._mentions = [frozenset(self._find_names(text.split(), most_words)) for _, text in self._sentences]
        self._sentences_with, self._about = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
        self._passages_with = defaultdict[str, set[int]](set)
        self._passage_names: list[set[str]] = [set() for _ in passages]
        for number, title in enumerate(self.titles):
            self._about[title].append(number)
        for number, text in (*enumerate(self.titles), *self._sentences):
            for word in text.split():
                self._passages_with[word].add(number)
        for place, (number, _) in enumerate(self._sentences):
            self._passage_names[number] |= self._mentions[place]
            for name in self._mentions[place]:
                self._sentences_with[name].append(place)
        self.named_with = cache(self._named_with)
        """Return the names that a sentence names together with this one, each with the passages that do."""

    def passages_about(self, name: str) -> Sequence[int]:
        """Return the passages whose title is this name."""
        return self._about.get(name, ())

    def passages_with(self, words: str) -> set[int]:
        """Return the passages that hold all of these words, in title or text; none for no words."""
        found = [self._passages_with.get(word, set()) for word in words.split()]
        return set.intersection(*found) if found else set()

    def _named_with(self, name: str) -> Mapping[str, Collection[int]]:
        found: defaultdict[str, set[int]] = defaultdict(set)
        places: Iterable[int] = self._sentences_with.get(name, ())
        if name and name not in self._names:  # a name of a question that is no entity
            places = [n for n, (_, text) in enumerate(self._sentences) if f" {name} " in f" {text} "]
        for place in places:
            number = self._sentences[place][0]
            for other in (*self._mentions[place], self.titles[number]):
                found[other].add(number)
        for number in self.passages_about(name):
            for other in self._passage_names[number]:
                found[other].add(number)
        return {other: numbers for other, numbers in found.items() if other not in ("", name)}

    def _find_names(self, words: Sequence[str], most_words: Mapping[str, int]) -> Iterator[str]:
        for start, word in enumerate(words):
            for end in range(start + 1, min(start + most_words.get(word, 0), len(words)) + 1):
                if (name := " ".join(words[start:end])) in self._names:
                    yield name


def positive_units(instance: Instance) -> frozenset[UnitId]:
    """Return the positive units of an instance, of both sections."""
    structured = [UnitId(False, number) for number in instance.positive_sk]
    return frozenset(structured + [UnitId(True, number) for number in instance.positive_text])


def answers_from(derivations: Iterable[Derivation], units: Collection[UnitId]) -> set[str]:
    """Return the answers that follow from these units."""
    return {derivation.answer for derivation in derivations if derivation.units <= set(units)}


def smallest_cuts(units: Sequence[T], is_cut: Callable[[Collection[T]], bool]) -> list[tuple[T, ...]]:
    """Return the smallest sets of these units without which no answer follows from them, in their order.

    All of them have one size. None where not even all units are a cut.

    >>> routes = [{1, 2}, {1, 3}]
    >>> smallest_cuts([1, 2, 3], lambda cut: all(route & set(cut) for route in routes))
    [(1,)]
    """
    sizes = (filter(is_cut, combinations(units, size)) for size in range(1, len(units) + 1))
    return next(filter(None, map(list, sizes)), [])


def _normalize(program: Program) -> Program:
    """Return a program on a graph with its names in normal form; variables and `says` stay."""

    def term(text: str) -> str:
        return text if graphs.is_variable(text) else normal_name(text)

    where = [
        [term(head), relation if relation == graphs.SAYS else term(relation), term(tail)]
        for head, relation, tail in program["where"]
    ]
    read = {"read": list(map(term, program["read"]))} if "read" in program else {}
    return {**program, **read, "where": where}
