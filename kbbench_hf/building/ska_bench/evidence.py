"""Whether the evidence of an instance is sufficient, necessary and unique, over the whole pool of its subset.

A program is executed on everything that could state what it asks for: each triple read both ways, names compared
without case, marks and punctuation, and every passage that names both sides of a pattern. Each way in which an answer
follows is a *derivation*. The evidence is *sufficient* if the positives hold a derivation of every gold answer,
*necessary* if without any one of them they no longer do, and *unique* if no derivation in the pool leads elsewhere.
What holds for the pool holds for every context, because a context is a part of it.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from kbbench_hf.benchmarks.ska_bench.graph_programs import SAYS, Fact, Facts, index, is_variable, matches, names
from kbbench_hf.benchmarks.ska_bench.mentions import mentions, normal_name
from kbbench_hf.benchmarks.ska_bench.programs import Program, execute, same_answers
from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, Pool


class Unit(NamedTuple):
    """A unit of a pool: a structured one of the instance's group, or a passage."""

    in_text: bool
    number: int


class Derivation(NamedTuple):
    """One way in which an answer follows: the answer in normal form, and the units that it follows from."""

    answer: str
    units: frozenset[Unit]


class Evidence:
    """Judges the instances of one subset on its pool.

    >>> pool = Pool({"films": [("Ada", "directed by", "Ann"), ("Ben", "directed by", "Ann")]})
    >>> program = {"type": "match", "find": "?film", "where": [["?film", "directed by", "Ann"]]}
    >>> asked = Instance("q", "kg", "What did Ann direct?", ("Ada",), "films", positive_sk=(0,), program=program)
    >>> Evidence(pool).problems(asked)
    ["not unique: 'ben' answers it too"]
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._stated: dict[str, _Stated] = {}

    def problems(self, instance: Instance) -> list[str]:
        """Say what is wrong with the evidence of an instance that has a program; an empty list if nothing is."""
        if instance.program is None:
            return []
        if instance.is_table:
            return self._problems_on_rows(instance, instance.program)
        gold, found = {normal_name(answer) for answer in instance.answers}, self.derivations(instance)
        positives = positive_units(instance)
        others = sorted({derivation.answer for derivation in found} - gold)
        problems = [f"not unique: {answer!r} answers it too" for answer in others]
        if answers_from(found, positives) != gold:
            problems.append("not sufficient: the positive units do not give the gold answers")
        for unit in sorted(positives):
            if answers_from(found, positives - {unit}) == gold:
                problems.append(f"not necessary: {self._line(instance, unit)} can be left out")
        return problems

    def derivations(self, instance: Instance) -> list[Derivation]:
        """Return every way in which an answer follows from the pool by the instance's program on a graph."""
        if instance.program is None or instance.is_table:
            return []
        program, found = _normal(instance.program), set[Derivation]()
        for match in matches(program, self._of_group(instance.group).facts(program)):
            units = frozenset(unit for unit in match.units if isinstance(unit, Unit))
            found |= set(self._read(instance.group, program, match.binding, units))
        return sorted(found, key=lambda derivation: (derivation.answer, sorted(derivation.units)))

    def told_of_others(self, instance: Instance) -> list[str]:
        """Return the titles of passages, of no answer's, that name all that an instance's program on a graph names.

        The graph may not know what they are about, which may be one more answer.
        """
        asked = names(_normal(instance.program or {"where": []}))
        known = {normal_name(answer) for answer in instance.answers} | {""}
        found = []
        for number in sorted(self._of_group(instance.group).naming.saying(" ".join(asked))):
            title, text = self._pool.text[number]
            about = normal_name(title.partition(" (")[0])
            if about not in known and all(mentions(f"{about} {normal_name(text)}", name) for name in asked):
                found.append(title)
        return found

    def _read(
        self, group: str, program: Program, binding: Mapping[str, str], units: frozenset[Unit]
    ) -> Iterator[Derivation]:
        if "read" not in program:
            yield Derivation(binding[program["find"]], units)
            return
        about, *spans = program["read"]
        entity = binding.get(about, about)
        naming = self._of_group(group).naming
        pages = set(naming.about(entity))
        stated = sorted(pages.intersection(*map(naming.saying, spans)))
        yield from (Derivation(span, units | {Unit(True, number)}) for number in stated for span in spans)
        if pages and not stated:
            yield Derivation(f"what is said of {entity}", units)

    def _problems_on_rows(self, instance: Instance, program: Program) -> list[str]:
        rows = self._pool.sk[instance.group]
        positives = [rows[number] for number in instance.positive_sk]
        problems = []
        if not same_answers(execute(program, positives), instance.answers):
            problems.append("not sufficient: the positive rows do not give the gold answers")
        everywhere = self._pool.structured(instance)
        if not same_answers(execute(program, everywhere), instance.answers):
            problems.append("not unique: with the other rows the program gives another answer")
        for number, left_out in enumerate(positives):
            rest = positives[:number] + positives[number + 1 :]
            if same_answers(execute(program, rest), instance.answers):
                problems.append(f"not necessary: {left_out} can be left out")
        return problems

    def _line(self, instance: Instance, unit: Unit) -> str:
        units: Sequence[Cells] = self._pool.text if unit.in_text else self._pool.sk[instance.group]
        return str(tuple(units[unit.number]))

    def _of_group(self, group: str) -> "_Stated":
        if group not in self._stated:
            self._stated[group] = _Stated(self._pool.sk[group], self._pool.text)
        return self._stated[group]


class _Stated:
    """What the triples and passages of a pool state, whichever way round.

    A sentence that names two entities is taken to state any relation between them. Where one is only looked for, it has
    to play that role somewhere in the graph, or else every name in the sentence would do; what is looked for by a name
    of the question may be the head of any triple.
    """

    def __init__(self, triples: Sequence[Cells], passages: Sequence[Cells]) -> None:
        normal = [(normal_name(head), normal_name(relation), normal_name(tail)) for head, relation, tail in triples]
        self._triples = index(
            (Fact(*ends, Unit(False, number)), relation)
            for number, (head, relation, tail) in enumerate(normal)
            for ends in ((head, tail), (tail, head))
        )
        self._playing: defaultdict[tuple[str, bool], set[str]] = defaultdict(set)
        for head, relation, tail in normal:
            self._playing[relation, False].add(head)
            self._playing[relation, True].add(tail)
        self._heads = {head for head, _, _ in normal}
        self.naming = Naming(passages, {name for head, _, tail in normal for name in (head, tail)})

    def facts(self, program: Program) -> Facts:
        """Return the look-up by which a program is executed."""
        asked = frozenset(names(program))

        def look_up(head: str | None, relation: str, tail: str | None) -> Iterable[Fact]:
            if relation == SAYS:
                return self._saying(head, tail or "")
            stated = list(self._triples(head, relation, tail))
            if head is not None and tail is not None:
                return stated + [Fact(head, tail, unit) for _, unit in self._beside(head, tail)]
            if head is not None:
                found = self._beside(head, None, self._playing[relation, True])
                return stated + [Fact(head, name, unit) for name, unit in found]
            allowed = self._heads if tail in asked else self._playing[relation, False]
            return stated + [Fact(name, tail or "", unit) for name, unit in self._beside(tail or "", None, allowed)]

        return look_up

    def _saying(self, about: str | None, words: str) -> list[Fact]:
        units = ((self.naming.title(number), Unit(True, number)) for number in sorted(self.naming.saying(words)))
        return [Fact(title, words, unit) for title, unit in units if about in (None, title)]

    def _beside(self, name: str, other: str | None, allowed: Collection[str] = ()) -> Iterator[tuple[str, Unit]]:
        beside = self.naming.beside(name)
        for found in beside if other is None else [other]:
            if other is not None or found in allowed:
                for number in beside.get(found) or self.naming.beside(found).get(name, ()):
                    yield found, Unit(True, number)


def positive_units(instance: Instance) -> frozenset[Unit]:
    """Return the positive units of an instance, of both sections."""
    return frozenset(
        [Unit(False, number) for number in instance.positive_sk]
        + [Unit(True, number) for number in instance.positive_text]
    )


def answers_from(derivations: Iterable[Derivation], units: Collection[Unit]) -> set[str]:
    """Return the answers that follow from these units."""
    return {derivation.answer for derivation in derivations if derivation.units <= set(units)}


def smallest_cuts(derivations: Iterable[Derivation], units: Collection[Unit]) -> list[frozenset[Unit]]:
    """Return the smallest sets of these units without which no answer follows from them, in order of their numbers.

    >>> a, b, c = (Unit(False, number) for number in range(3))
    >>> smallest_cuts([Derivation("x", frozenset({a, b})), Derivation("y", frozenset({a, c}))], {a, b, c})
    [frozenset({Unit(in_text=False, number=0)})]
    """
    routes = [derivation.units for derivation in derivations if derivation.units <= set(units)]
    candidates = sorted(frozenset[Unit]().union(*routes))
    for size in range(len(candidates) + 1):
        cuts = [frozenset(cut) for cut in combinations(candidates, size) if all(route & set(cut) for route in routes)]
        if cuts:
            return cuts
    return []


def _normal(program: Program) -> Program:
    def term(text: str) -> str:
        return text if is_variable(text) else normal_name(text)

    where = [
        [term(head), relation if relation == SAYS else term(relation), term(tail)]
        for head, relation, tail in program["where"]
    ]
    read = {"read": list(map(term, program["read"]))} if "read" in program else {}
    return {**program, **read, "where": where}


_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^\W_a-z])")


class Naming:
    """Where names of entities stand in passages: a sentence names what it holds as whole words, and what it is about.

    A passage is about its title, which its sentences need not repeat. Names are in normal form.

    >>> naming = Naming([("Ann", "She lives in Oslo. Bo came from Lund.")], {"ann", "oslo", "lund", "bo"})
    >>> sorted(naming.beside("ann")), sorted(naming.beside("lund"))
    (['bo', 'lund', 'oslo'], ['ann', 'bo'])
    """

    def __init__(self, passages: Sequence[Cells], names: Collection[str]) -> None:
        self._names = frozenset(names)
        self._titles = [normal_name(title) for title, _ in passages]
        self._sentences = [
            [f" {normal_name(sentence)} " for sentence in _SENTENCE_END.split(text)] for _, text in passages
        ]
        self._named: list[list[frozenset[str]]] = []
        self._places: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        longest: defaultdict[str, int] = defaultdict(int)
        for name in self._names - {""}:
            words = name.split()
            longest[words[0]] = max(longest[words[0]], len(words))
        for number, sentences in enumerate(self._sentences):
            self._named.append([frozenset(self._in(sentence.split(), longest)) for sentence in sentences])
            for place, named in enumerate(self._named[-1]):
                for name in named:
                    self._places[name].append((number, place))
        self._about: defaultdict[str, list[int]] = defaultdict(list)
        for number, title in enumerate(self._titles):
            self._about[title].append(number)
        self._beside: dict[str, dict[str, set[int]]] = {}
        self._holding: defaultdict[str, set[int]] = defaultdict(set)
        for number, sentences in enumerate(self._sentences):
            for word in " ".join([self._titles[number], *sentences]).split():
                self._holding[word].add(number)

    def about(self, name: str) -> Sequence[int]:
        """Return the passages whose title is this name."""
        return self._about.get(name, ())

    def title(self, number: int) -> str:
        """Return the title of a passage."""
        return self._titles[number]

    def saying(self, words: str) -> set[int]:
        """Return the passages that hold all of these words."""
        return set.intersection(*(self._holding.get(word, set()) for word in words.split()))

    def beside(self, name: str) -> Mapping[str, Collection[int]]:
        """Return the names that a sentence names together with this one, each with the passages that do."""
        if name not in self._beside:
            found: defaultdict[str, set[int]] = defaultdict(set)
            for number, place in self._where(name):
                for other in (*self._named[number][place], self._titles[number]):
                    found[other].add(number)
            for number in self.about(name):
                for other in frozenset[str]().union(*self._named[number]):
                    found[other].add(number)
            self._beside[name] = {other: numbers for other, numbers in found.items() if other not in ("", name)}
        return self._beside[name]

    def _where(self, name: str) -> list[tuple[int, int]]:
        if name and name not in self._names and name not in self._places:  # a name of a question that is no entity
            self._places[name] = [
                (number, place)
                for number, sentences in enumerate(self._sentences)
                for place, sentence in enumerate(sentences)
                if f" {name} " in sentence
            ]
        return self._places.get(name, [])

    def _in(self, words: Sequence[str], longest: dict[str, int]) -> Iterator[str]:
        for start, word in enumerate(words):
            if word in longest:
                for end in range(start + 1, min(start + longest[word], len(words)) + 1):
                    if (name := " ".join(words[start:end])) in self._names:
                        yield name
