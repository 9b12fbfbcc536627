"""A graph subset with invented names: every film and person renamed wherever it stands, years moved by a constant."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kbbench_hf.benchmarks.ska_bench.construction.invented_names import (
    WORD,
    Renamed,
    invent,
    key_of,
    replaced,
    years_later,
)
from kbbench_hf.benchmarks.ska_bench.graph_programs import Fact, index, is_variable, matches
from kbbench_hf.benchmarks.ska_bench.programs import Program
from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, Pool

NAMED = frozenset({"directed by", "written by", "starred actors"})
"""The relations whose tails are people; the heads of all relations are films."""
DATED = "release year"
KEPT = frozenset("a an and as at by for from in of on or the to vs with ii iii iv vi vii viii ix xi xii".split())
"""Words that stay in a name, unless it has no others."""
LONGEST = 12
"""No name of more words is looked for inside a text."""
_TOKEN = re.compile(r"\w+")


class GraphNames:
    """What every name of a graph is called now, alone and inside a text."""

    def __init__(self, triples: Iterable[Cells], vocabulary: Iterable[str], seed: str) -> None:
        self._later = years_later(seed)
        self.names: set[str] = set()
        self.years: set[str] = set()
        known = {key_of(word) for text in vocabulary for word in WORD.findall(text)}
        for head, relation, tail in triples:
            self.names |= {head, tail} if relation in NAMED else {head}
            self.years |= {tail} if relation == DATED and tail.isdigit() else set()
            known |= {key_of(word) for cell in (head, tail) for word in WORD.findall(cell)}
        words = {key_of(word) for name in self.names for word in WORD.findall(name)}
        wordless = {name.casefold() for name in self.names if not WORD.search(name)}
        invented = invent(words | wordless, seed, avoid=known)
        self._new: dict[str, str] = {}
        taken: set[str] = set()
        for name in sorted(self.names):
            if name.casefold() not in self._new:
                new = _renamed(name, invented)
                while new.casefold() in taken:  # two names that differ in marks alone
                    new = f"{new} {invent([f'{name}|{new}'], seed, known)[f'{name}|{new}'].capitalize()}"
                taken.add(new.casefold())
                self._new[name.casefold()] = new
        self._inside = {_core(name): _core(new, fold=False) for name, new in self._new.items()}

    def cell(self, cell: str, *, year: bool | None = None) -> str:
        """Return a cell as it is now; whether it is a year is seen from it where nobody says."""
        if cell in self.years and (year or (year is None and cell.casefold() not in self._new)):
            return str(int(cell) + self._later)
        new = self._new.get(cell.casefold())
        return self.text(cell) if new is None else new.casefold() if cell == cell.casefold() else new

    def triple(self, triple: Cells) -> Cells:
        """Return a triple as it is now."""
        head, relation, tail = triple
        return (self.cell(head), relation, self.cell(tail, year=relation == DATED))

    def program(self, program: Program) -> Program:
        """Return a program about the same entities and years."""
        where = []
        for head, relation, tail in program["where"]:
            new = [term if is_variable(term) else self.cell(term, year=relation == DATED) for term in (head, tail)]
            where.append([new[0], relation, new[1]])
        return {**program, "where": where}

    def text(self, text: str, only: Sequence[str] | None = None) -> str:
        """Return a text with all names of several words renamed, the longest first, or only these, of one word too."""
        also = {_core(name) for name in only or ()}
        tokens = list(_TOKEN.finditer(text))
        parts, place, n = [], 0, 0
        while n < len(tokens):
            for last in range(min(n + LONGEST, len(tokens)) - 1, n - 1, -1):
                found = text[tokens[n].start() : tokens[last].end()]
                if found in also and found in self.years:
                    new: str | None = self.cell(found, year=True)
                else:
                    sought = last > n if only is None else found.casefold() in also
                    new = self._inside.get(found.casefold()) if sought else None
                if new is not None:
                    parts += [text[place : tokens[n].start()], new]
                    place, n = tokens[last].end(), last
                    break
            n += 1
        return "".join([*parts, text[place:]])


def rename_graph(instances: Sequence[Instance], pool: Pool, seed: str) -> Renamed:
    """Return the instances on triples with invented names, and who was left out: whose gold no longer follows."""
    triples = [triple for group in pool.sk.values() for triple in group]
    names = GraphNames(triples, [instance.question for instance in instances], seed)
    new = replace(pool, sk={group: [names.triple(triple) for triple in units] for group, units in pool.sk.items()})
    facts = index((Fact(h, t, None), relation) for group in new.sk.values() for h, relation, t in group)
    kept, left_out = [], dict[str, str]()
    for instance in instances:
        renamed = _instance(instance, names)
        program = renamed.program
        found = {match.binding[program["find"]] for match in matches(program, facts)} if program else set()
        if found != set(renamed.answers):
            left_out[instance.id] = "its program gives other answers"
        else:
            kept.append(renamed)
    return Renamed(kept, new, left_out)


def _instance(instance: Instance, names: GraphNames) -> Instance:
    dated = instance.answer_type == "date"
    return replace(
        instance,
        question=names.text(instance.question, instance.topics),
        answers=tuple(names.cell(answer, year=dated) for answer in instance.answers),
        answer_aliases=tuple(tuple(names.cell(each, year=dated) for each in of) for of in instance.answer_aliases),
        topics=tuple(map(names.cell, instance.topics)),
        decoys=tuple(map(names.cell, instance.decoys)),
        split_key=names.cell(instance.split_key),
        title=names.text(instance.title),
        program=names.program(instance.program) if instance.program else None,
    )


def _renamed(name: str, invented: Mapping[str, str]) -> str:
    """Return a name of invented words in the old one's form: small words stay where others go."""
    if name.casefold() in invented and not WORD.search(name):
        return invented[name.casefold()].capitalize()
    keys = {key_of(word) for word in WORD.findall(name)}
    return replaced(name, invented, keys - KEPT or keys)


def _core(name: str, *, fold: bool = True) -> str:
    """Return a name from its first word to its last, as it is found inside a text."""
    tokens = list(_TOKEN.finditer(name))
    core = name[tokens[0].start() : tokens[-1].end()] if tokens else name
    return core.casefold() if fold else core
