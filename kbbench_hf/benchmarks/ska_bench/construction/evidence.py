"""Whether the evidence of an instance is sufficient, necessary and unique, over the whole pool of its subset.

A program is executed on everything that could state what it asks for: each triple read both ways, names compared
without case, marks and punctuation, and every passage that names both sides of a pattern. Each way in which an answer
follows is a *derivation*. The evidence is *sufficient* if the positives hold a derivation of every gold answer,
*necessary* if without any one of them they no longer do, and *unique* if no derivation in the pool leads elsewhere.
What holds for the pool holds for every context, because a context is a part of it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

from kbbench_hf.benchmarks.ska_bench.graph_programs import SAYS, Fact, Facts, index, is_variable, matches
from kbbench_hf.benchmarks.ska_bench.mentions import normal_name
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
        self._facts: dict[str, Facts] = {}

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
        for match in matches(program, self._of_group(instance.group)):
            units = frozenset(unit for unit in match.units if isinstance(unit, Unit))
            found |= set(self._read(program, match.binding, units))
        return sorted(found, key=lambda derivation: (derivation.answer, sorted(derivation.units)))

    def _read(self, program: Program, binding: Mapping[str, str], units: frozenset[Unit]) -> Iterator[Derivation]:
        if "read" not in program:
            yield Derivation(binding[program["find"]], units)
            return
        about, span = program["read"]
        entity = binding.get(about, about)
        stated = [n for n in self._about.get(entity, ()) if _says(self._words[n], span)]
        for number in stated:
            yield Derivation(span, units | {Unit(True, number)})
        if not stated:
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

    def _of_group(self, group: str) -> Facts:
        if group not in self._facts:
            self._facts[group] = self._facts_of(group)
        return self._facts[group]

    def _facts_of(self, group: str) -> Facts:
        triples = [tuple(map(normal_name, cells)) for cells in self._pool.sk[group]]
        stated = index(
            (Fact(*ends, Unit(False, number)), relation)
            for number, (head, relation, tail) in enumerate(triples)
            for ends in ((head, tail), (tail, head))
        )
        nodes = {name for head, _, tail in triples for name in (head, tail)}
        naming = self._naming(nodes) if self._pool.text else {}
        named: defaultdict[int, list[str]] = defaultdict(list)
        for name, passages in naming.items():
            for number in passages:
                named[number].append(name)

        def passages_naming(name: str) -> set[int]:
            if name not in naming and name not in nodes:  # a name of a program that is no node
                naming[name] = {number for number, text in enumerate(self._words) if f" {name} " in text}
            return naming.get(name, set())

        def look_up(head: str | None, relation: str, tail: str | None) -> Iterable[Fact]:
            if relation == SAYS:
                return self._saying(head, tail or "")
            if head is not None and tail is not None:
                both = passages_naming(head) & passages_naming(tail)
                said = [Fact(head, tail, Unit(True, number)) for number in both]
            else:
                known = head if head is not None else tail or ""
                pairs = [(n, other) for n in passages_naming(known) for other in named[n] if other != known]
                said = [
                    Fact(*((other, known) if head is None else (known, other)), Unit(True, number))
                    for number, other in pairs
                ]
            return [*stated(head, relation, tail), *said]

        return look_up

    def _saying(self, about: str | None, words: str) -> Iterator[Fact]:
        for title, passages in self._about.items() if about is None else [(about, self._about.get(about, ()))]:
            for number in passages:
                if _says(self._words[number], words):
                    yield Fact(title, words, Unit(True, number))

    @cached_property
    def _words(self) -> list[str]:
        return [f" {normal_name(' '.join(cells))} " for cells in self._pool.text]

    @cached_property
    def _about(self) -> dict[str, list[int]]:
        about: defaultdict[str, list[int]] = defaultdict(list)
        for number, (title, _) in enumerate(self._pool.text):
            about[normal_name(title)].append(number)
        return dict(about)

    def _naming(self, names: Collection[str]) -> dict[str, set[int]]:
        """Return, for each of these names, the passages that name it as whole words."""
        longest: defaultdict[str, int] = defaultdict(int)
        for name in names:
            words = name.split()
            if words:
                longest[words[0]] = max(longest[words[0]], len(words))
        naming: defaultdict[str, set[int]] = defaultdict(set)
        for number, text in enumerate(self._words):
            words = text.split()
            for start, word in enumerate(words):
                for end in range(start + 1, start + 1 + longest.get(word, 0)):
                    name = " ".join(words[start:end])
                    if name in names:
                        naming[name].add(number)
        return dict(naming)


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


def _says(text: str, words: str) -> bool:
    return all(f" {word} " in text for word in words.split())
