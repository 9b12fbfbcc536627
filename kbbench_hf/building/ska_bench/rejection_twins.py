"""Rejection twins: one context from which a question can be answered and one from which it cannot, otherwise alike.

Both are the standard context without a few units. The unanswerable one lost a smallest cut: the fewest positives
without which the answer does not follow. The answerable one lost as many units of noise, of the same section, similar
in length and in the words that they share with the question. A table loses no row: in both twins the same row with a
cell emptied takes its place, the cell of the column that the answer is read from, or that leads to the passage with
the answer. So the question cannot be answered although all its words are there.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, InstanceSet, Origin, Program, UnitPool
from kbbench_hf.building.ska_bench.evidence import positive_units, smallest_cuts
from kbbench_hf.building.ska_bench.name_matching import normalize_cell
from kbbench_hf.building.ska_bench.noise import ContextUnits
from kbbench_hf.building.ska_bench.program_induction import columns_in_question
from kbbench_hf.building.ska_bench.programs import TABLE_TYPES, execute, reads
from kbbench_hf.building.ska_bench.unit_orders import Units

TOTALS = frozenset({"count", "sum"})
"""Programs that give another answer, and not none, where a row lacks a cell: their questions have no twins."""
FEWEST_OF_TOPIC = 3
"""How many units of noise about a topic stay in both twins."""
WORLD = 24 * 1024
"""A pool whose noise has fewer tokens is an example with few facts about each topic; there the rule above is waived."""
_WORD = re.compile(r"\w+")
Place = tuple[bool, int]
"""A unit of an instance: whether it is in the text section, and its number."""
Removed = dict[Place, int | None]
"""Removed unit -> the number of the row that takes its place; None where none does."""


def add_emptied_rows(release: InstanceSet) -> InstanceSet:
    """Return a release whose `table` instances have, after all other rows, their own rows with a cell emptied.

    It is the cell of one column: the first without which the program reads the positives and finds nothing. Where the
    words of a comparison do not name its column, another column might still tell, and there is no such row.
    """
    if "table" not in release.pools:
        return release
    pool, columns = release.pools["table"], dict[str, Sequence[int]]()
    for instance in release.instances:
        program = instance.program
        if instance.subset == "table" and program and program["type"] in TABLE_TYPES - TOTALS:
            question, header = normalize_cell(instance.question), pool.headers[instance.group]
            if program["type"] == "compare" and program["by"] not in columns_in_question(question, header):
                continue
            rows = pool.sk[instance.group]
            column = _answer_column(program, [rows[number] for number in instance.positive_sk])
            columns |= {} if column is None else {instance.id: (column,)}
    instances, pool = empty_columns(columns, release.instances, pool)
    return release._replace(instances=instances, pools={**release.pools, "table": pool})


def empty_columns(
    columns: Mapping[str, Sequence[int]], instances: Sequence[Instance], pool: UnitPool
) -> tuple[list[Instance], UnitPool]:
    """Return instances, and their pool, with a last group of their own rows in which these columns are empty.

    Args:
        columns: instance id -> columns of its table; instances without any stay as they are.
        instances: the instances of a release.
        pool: the pool of those with columns.
    """
    sk, origins, found = dict(pool.sk), dict(pool.origins), list(instances)
    for place, instance in enumerate(instances):
        if chosen := columns.get(instance.id):
            group = instance.emptied_group
            sk[group] = [_without_cells(row, chosen) for row in pool.sk[instance.group]]
            origins[group] = pool.origins.get(instance.group, Origin("", ""))._replace(made=True)
            found[place] = replace(instance, noise_groups=(*instance.noise_groups, group))
    return found, replace(pool, sk=sk, origins=origins)


def _without_cells(row: Cells, columns: Sequence[int]) -> Cells:
    return tuple("" if column in columns else cell for column, cell in enumerate(row))


def has_answer(program: Program, rows: Iterable[Cells]) -> bool:
    """Return whether a program finds anything in these rows but empty cells."""
    return any(answer.strip() for answer in execute(program, rows))


def _answer_column(program: Program, positives: Sequence[Cells]) -> int | None:
    for column in range(len(positives[0])):
        without = [_without_cells(row, [column]) for row in positives]
        if all(reads(program, row) for row in without) and not has_answer(program, without):
            return column
    return None


@dataclass(frozen=True)
class Twin:
    """Which units a twin's context lacks of the standard one, and what takes their places."""

    answerable: bool
    removed: Removed

    def apply(self, section: Units, emptied: Units) -> Units:
        """Return a section of the standard context as this twin has it; stand-ins are among the emptied rows."""
        number_of = {number: len(section) + n for n, number in enumerate(emptied.numbers.tolist())}
        kept = []
        for n, place in enumerate(_places(section)):
            number = self.removed.get(place)
            if place not in self.removed or number is not None:
                kept.append(n if number is None else number_of[number])
        return (section + emptied)[np.array(kept, dtype=np.int64)]

    @property
    def names(self) -> list[str]:
        """The units that were removed, as `sk:12` or `text:3`."""
        return [f"{'text' if in_text else 'sk'}:{number}" for in_text, number in sorted(self.removed)]


class TwinMaker:
    """Makes the rejection twins of one instance, from the units and the noise of its standard context."""

    def __init__(self, instance: Instance, pool: UnitPool, units: ContextUnits, noise: Units) -> None:
        self._instance, self._pool, self._units = instance, pool, units
        self._positives, self._noise = _places(units.positives), _places(noise)
        self._cells = cells = pool.structured(instance)
        self._question = _words(instance.question)
        shown = {cells[n] for in_text, n in (*self._positives, *self._noise) if not in_text}
        emptied = enumerate(units.emptied.numbers.tolist())
        self._stand_ins = {n: other for n, other in emptied if cells[n] != cells[other] and cells[other] not in shown}
        """Own row -> the row with cells emptied that can take its place, and is not shown yet."""

    def make_twins(self) -> tuple[Twin, Twin] | None:
        """Return the twins; None where no cut is possible or no unit of noise is similar."""
        instance, cut = self._instance, self.find_cut()
        if not cut or (len(self._units.emptied) and any(not t and n not in self._stand_ins for t, n in cut)):
            return None
        of_topic = {place for place in self._noise if not instance.is_table and self._names_topic(place)}
        if not instance.is_table and len(of_topic) < FEWEST_OF_TOPIC and self._units.noise.n_tokens >= WORLD:
            return None
        features = self._features()
        lost, matched = Removed(), Removed()
        for unit in cut:
            stand_in = lost[unit] = None if unit[0] else self._stand_ins.get(unit[1])
            like = [place for place in self._noise if place[0] == unit[0] and place not in matched]
            if stand_in is not None:
                like = [place for place in like if place[1] in self._stand_ins]
            if len(of_topic - matched.keys()) <= FEWEST_OF_TOPIC:
                like = [place for place in like if place not in of_topic]
            if not like:
                return None
            distances = [float(np.abs(features[unit] - features[place]).sum()) for place in like]
            chosen = like[distances.index(min(distances))]
            matched[chosen] = None if stand_in is None else self._stand_ins[chosen[1]]
        for removed in (lost, matched):
            rows = [self._cells[n] for n in removed.values() if n is not None]
            if len(set(rows)) < len(rows):
                return None
        return Twin(False, lost), Twin(True, matched)

    def find_cut(self) -> list[Place]:
        """Return the fewest positives without which no answer follows; none for programs of `TOTALS`.

        None either where a program reads a table without emptied rows. Of cuts of one size it is the one that shares
        fewest words with the question. Without a program see `_answering_units`.
        """
        program, instance = self._instance.program, self._instance
        if self._units.derivations:
            derived = smallest_cuts(self._units.derivations, positive_units(instance))
            cuts: list[list[Place]] = [list(cut) for cut in derived]
        elif not program or not instance.is_table:
            return self._answering_units()
        elif program["type"] in TOTALS or not len(self._units.emptied):
            return []
        else:
            cuts = self._cuts_of_rows(program)
        return sorted(min(cuts, key=lambda cut: sum(len(self._question & _words(self._text(unit))) for unit in cut)))

    def _cuts_of_rows(self, program: Program) -> list[list[Place]]:
        cells, emptied, positive = self._cells, self._units.emptied.numbers.tolist(), self._instance.positive_sk
        for size in range(1, len(positive) + 1):
            cuts = []
            for cut in combinations(positive, size):
                left = [n for n in positive if n not in cut] + [emptied[n] for n in cut]
                if not has_answer(program, [cells[n] for n in left]):
                    cuts.append([(False, number) for number in cut])
            if cuts:
                return cuts
        return []

    def _answering_units(self) -> list[Place]:
        """Return the positives that state the answer of a question without a program; all of them where none does.

        That is the row whose emptied cell states it, or else the passages that do. Where no passage of noise shares as
        many words with the question as such a passage, its absence would show: the cell that leads to it is emptied.
        """
        rows = [place for place in self._positives if not place[0] and place[1] in self._stand_ins]
        for _, n in rows:
            emptied = self._cells[self._stand_ins[n]]
            if self._states_answer(" ".join(c for c, left in zip(self._cells[n], emptied, strict=True) if not left)):
                return [(False, n)]
        passages = [p for p in self._positives if p[0] and self._states_answer(self._pool.text[p[1]][1])]
        if passages and rows:
            features = self._features()
            others = [place for place in self._noise if place[0]]
            close = all(any((features[o][:2] >= features[p][:2]).all() for o in others) for p in passages)
            return passages if close else rows
        return passages or self._positives

    def _features(self) -> Mapping[Place, NDArray[np.float64]]:
        """Return for each unit: the question's words in it, the sum of their idf, the log of its length."""
        texts = {place: self._text(place) for place in (*self._positives, *self._noise)}
        shared = {place: self._question & _words(text) for place, text in texts.items()}
        frequency = Counter(word for words in shared.values() for word in words)
        idf = {word: math.log((1 + len(texts)) / (1 + frequency[word])) for word in self._question}
        return {
            place: np.array([len(words), sum(idf[word] for word in sorted(words)), math.log(1 + len(texts[place]))])
            for place, words in shared.items()
        }

    def _states_answer(self, text: str) -> bool:
        return any(answer.casefold() in text.casefold() for answer in self._instance.answers)

    def _unit(self, place: Place) -> Cells:
        return (self._pool.text if place[0] else self._cells)[place[1]]

    def _names_topic(self, place: Place) -> bool:
        return any(topic in self._unit(place) for topic in self._instance.topics)

    def _text(self, place: Place) -> str:
        return " ".join(self._unit(place))


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _places(units: Units) -> list[Place]:
    return list(zip(units.in_text.tolist(), units.numbers.tolist(), strict=True))
