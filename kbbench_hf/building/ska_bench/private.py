"""The private split: `kg` and `table` again, with invented names and other years, as only who has the seed can make it.

A model that knows the public questions by heart knows nothing of these: the difference of its scores on both says how
much of them it had learned by heart. Whoever is named is renamed by a bijection of words that a key decides
(`invented_names`), the same in question, gold, aliases, triples and cells; years move by a constant; every program is
executed again on all units. An instance whose program no longer gives its gold, or whose question could not be renamed
as literally as its cells, is left out and counted. The hybrid subsets rest on articles, in which nobody can rename
everything; they have no private split.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.configs import configs
from kbbench_hf.benchmarks.ska_bench.graph_programs import Fact, index, is_variable, matches
from kbbench_hf.benchmarks.ska_bench.programs import Program
from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, Pool, Release
from kbbench_hf.building.ska_bench.dataset import build, write_audit
from kbbench_hf.building.ska_bench.invented_names import (
    WORD,
    Renamed,
    invent,
    key_of,
    replaced,
    years_later,
)
from kbbench_hf.building.ska_bench.private_tables import rename_tables
from kbbench_hf.building.ska_bench.public_files import download
from kbbench_hf.building.ska_bench.sources import make
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import DatasetFolder

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


RENAMERS: Mapping[str, Callable[[Sequence[Instance], Pool, str], Renamed]] = {
    "kg": rename_graph,
    "table": rename_tables,
}
_CARD = Path(__file__).with_name("private_card.md")


def rename(release: Release, seed: str) -> tuple[Release, dict[str, str]]:
    """Return the release with invented names, without its hybrid subsets, and why instances were left out, by id."""
    parts = {
        subset: renamer([each for each in release.instances if each.subset == subset], release.pools[subset], seed)
        for subset, renamer in RENAMERS.items()
        if subset in release.pools
    }
    instances = [instance for part in parts.values() for instance in part.instances]
    left_out = {name: why for part in parts.values() for name, why in part.left_out.items()}
    return Release(instances, {subset: part.pool for subset, part in parts.items()}), left_out


def build_private(source: Path | None, out: Path, wanted: Sequence[str] | None, seed: str) -> None:
    """Build the private split of `ska-open` that a seed makes, from a folder as `build_open` takes it, or from None.

    The seed itself is stored nowhere.

    Raises:
        UsageError: an empty seed, or a config of a hybrid subset.
        DataError: a file of the source is absent or malformed; nothing is written.
        KBBenchError: the audit has a figure above its limit that the card does not waive; the dataset stands.
    """
    if not seed.strip():
        raise UsageError("The seed is empty; expected a secret that is hard to guess. Name one with --private.")
    known = configs()
    for name in wanted or ():
        if name in known and known[name].subset not in RENAMERS:
            raise UsageError(
                f"{name} is of a hybrid subset, which has no private split; expected configs of kg or table."
            )
    release, left_out = rename(make(download() if source is None else source, tuple(RENAMERS)), seed)
    counted = "".join(f"- {n:,} instances: {why}\n" for why, n in Counter(left_out.values()).most_common())
    card = _CARD.read_text(encoding="utf-8").replace("LEFT OUT", counted or "- none\n")
    build(card, release, out, wanted)
    if wanted is None:
        write_audit(DatasetFolder(out))
