"""Rejection twins: one context from which a question can be answered, and one from which it cannot, alike but for that.

Both are the standard context with a few units less. The unanswerable one has lost a smallest cut: the fewest positives
without which the answer does not follow. The answerable one has lost as many units of noise, of the same section, like
them in length and in the words that they share with the question. Of a table no row is lost: the same row with a cell
emptied takes its place, in both twins, the cell of the column that the answer is read from.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.ska_bench.table_programs import TYPES, Program
from kbbench_hf.benchmarks.ska_bench.unit_arrays import Units
from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, Pool
from kbbench_hf.building.ska_bench.emptied_rows import TOTALS, finds
from kbbench_hf.building.ska_bench.evidence import positive_units, smallest_cuts
from kbbench_hf.building.ska_bench.noise import Candidates

FEWEST_OF_TOPIC = 3
"""So many units of noise about a topic stay in both twins."""
WORLD = 24 * 1024
"""A world whose noise has fewer tokens is an example, in which little is said of each topic: there, what there is."""
_WORD = re.compile(r"\w+")
Place = tuple[bool, int]
"""A unit of an instance: whether it stands in the text section, and its number."""
Swap = tuple[Place, int | None]
"""A unit and the number of the row that takes its place, if one does."""
Likeness = Mapping[Place, NDArray[np.float64]]


@dataclass(frozen=True)
class Twin:
    """What a twin's context has less than the standard one, and what stands in its place."""

    answerable: bool
    removed: Mapping[Place, int | None]
    """Unit -> the number of the row that takes its place; None where nothing does."""

    def of(self, section: Units, others: Units) -> Units:
        """Return a section of the standard context as this twin has it; the rows that stand in are among the others."""
        stand_ins = others[
            ~others.in_text & np.isin(others.numbers, [n for n in self.removed.values() if n is not None])
        ]
        both = section + stand_ins
        row_of = {number: len(section) + n for n, number in enumerate(stand_ins.numbers.tolist())}
        kept = []
        for n, place in enumerate(_places(section)):
            number = self.removed.get(place)
            if place not in self.removed:
                kept.append(n)
            elif number is not None:
                kept.append(row_of[number])
        return both[np.array(kept, dtype=np.int64)]

    @property
    def names(self) -> list[str]:
        """The units that were removed, as `sk:12` or `text:3`."""
        return [f"{'text' if in_text else 'sk'}:{number}" for in_text, number in sorted(self.removed)]


def twins(instance: Instance, pool: Pool, candidates: Candidates, noise: Units) -> tuple[Twin, Twin] | None:
    """Return the unanswerable and the answerable twin of a standard context; None where the question has none.

    Args:
        instance: the question.
        pool: its subset's pool.
        candidates: what its contexts are made of.
        noise: the noise of the standard context.
    """
    cut = smallest_cut(instance, pool, candidates, noise)
    if not cut:
        return None
    stand_in, cells = _stand_ins(instance, pool, candidates, noise), pool.structured(instance)
    if len(candidates.emptied) and not all(in_text or number in stand_in for in_text, number in cut):
        return None
    shown = _places(noise)
    like = _likeness(instance, pool, [*_places(candidates.positives), *shown])
    lost: dict[Place, int | None] = {}
    matched: dict[Place, int | None] = {}
    of_topic = {place for place in shown if not instance.is_table and _is_about(instance, pool, place)}
    if not instance.is_table and len(of_topic) < FEWEST_OF_TOPIC and candidates.noise.tokens.sum() >= WORLD:
        return None
    for unit in cut:
        lost[unit] = None if unit[0] else stand_in.get(unit[1])
        pairs: list[Swap] = [
            (place, None if lost[unit] is None else stand_in[place[1]])
            for place in shown
            if place[0] == unit[0] and place not in matched and (lost[unit] is None or place[1] in stand_in)
        ]
        if len(of_topic - matched.keys()) <= FEWEST_OF_TOPIC:
            pairs = [pair for pair in pairs if pair[0] not in of_topic]
        if not pairs:
            return None

        chosen = min(pairs, key=partial(_unlike, like, unit))
        matched[chosen[0]] = chosen[1]
    rows = [[cells[n] for n in removed.values() if n is not None] for removed in (lost, matched)]
    return None if any(len(set(each)) < len(each) for each in rows) else (Twin(False, lost), Twin(True, matched))


def smallest_cut(instance: Instance, pool: Pool, candidates: Candidates, noise: Units) -> list[Place]:
    """Return the fewest positives without which no answer follows; none for programs of `TOTALS`.

    None either where a program reads a table whose rows with a cell emptied are not there (`emptied_rows`). Of cuts of
    one size it is the one that shares fewest words with the question. Without a program see `_telling`.
    """
    program = instance.program
    if candidates.derivations:
        cuts: list[list[Place]] = [list(cut) for cut in smallest_cuts(candidates.derivations, positive_units(instance))]
    elif program and instance.is_table and (program["type"] in TOTALS or not len(candidates.emptied)):
        return []
    elif program and instance.is_table and program["type"] in TYPES:
        cuts = _cuts_of_rows(instance, pool, program, candidates.emptied.numbers.tolist())
    else:
        return _telling(instance, pool, candidates, noise)
    asked = _words(instance.question)
    return sorted(min(cuts, key=lambda cut: sum(len(asked & _words(_text(instance, pool, unit))) for unit in cut)))


def _telling(instance: Instance, pool: Pool, candidates: Candidates, noise: Units) -> list[Place]:
    """Return the positives that tell the answer of a question without a program; all of them where none does.

    That is the row whose emptied cell says it, or else the passages that do. Where no passage of noise shares as many
    words with the question as such a passage, its absence would show: the cell that leads to it is emptied instead.
    """
    positives, shown = _places(candidates.positives), _places(noise)
    stand_in, cells = _stand_ins(instance, pool, candidates, noise), pool.structured(instance)
    rows = [place for place in positives if not place[0] and place[1] in stand_in]
    for _, n in rows:
        gone = " ".join(cell for cell, left in zip(cells[n], cells[stand_in[n]], strict=True) if not left)
        if _tells(gone, instance.answers):
            return [(False, n)]
    told = [place for place in positives if place[0] and _tells(pool.text[place[1]][1], instance.answers)]
    if told and rows:
        like = _likeness(instance, pool, [*positives, *shown])
        close = all(any(o[0] and (like[o][:2] >= like[place][:2]).all() for o in shown) for place in told)
        return told if close else rows
    return told or positives


def _stand_ins(instance: Instance, pool: Pool, candidates: Candidates, noise: Units) -> dict[int, int]:
    """Return the number of the row with cells emptied that can take the place of each own row, and is not shown yet."""
    cells = pool.structured(instance)
    shown = {cells[n] for units in (candidates.positives, noise) for in_text, n in _places(units) if not in_text}
    emptied = enumerate(candidates.emptied.numbers.tolist())
    return {n: other for n, other in emptied if cells[n] != cells[other] and cells[other] not in shown}


def _cuts_of_rows(instance: Instance, pool: Pool, program: Program, emptied: Sequence[int]) -> list[list[Place]]:
    cells = pool.structured(instance)
    for size in range(1, len(instance.positive_sk) + 1):
        cuts = []
        for cut in combinations(instance.positive_sk, size):
            left = [n for n in instance.positive_sk if n not in cut] + [emptied[n] for n in cut if emptied]
            if not finds(program, [cells[n] for n in left]):
                cuts.append([(False, number) for number in cut])
        if cuts:
            return cuts
    return []


def _tells(text: str, answers: Cells) -> bool:
    return any(answer.casefold() in text.casefold() for answer in answers)


def _likeness(instance: Instance, pool: Pool, shown: Sequence[Place]) -> Likeness:
    """Return of each unit: the question's words in it, their inverse document frequencies summed, its length's log."""
    asked = _words(instance.question)
    texts = {place: _text(instance, pool, place) for place in shown}
    shared = {place: asked & _words(text) for place, text in texts.items()}
    frequency = Counter(word for place in shown for word in shared[place])
    weight = {word: math.log((1 + len(shown)) / (1 + frequency[word])) for word in asked}
    return {
        place: np.array([len(words), sum(weight[word] for word in sorted(words)), math.log(1 + len(texts[place]))])
        for place, words in shared.items()
    }


def _unlike(like: Likeness, unit: Place, swap: Swap) -> float:
    return float(np.abs(like[unit] - like[swap[0]]).sum())


def _is_about(instance: Instance, pool: Pool, place: Place) -> bool:
    cells = pool.text[place[1]] if place[0] else pool.structured(instance)[place[1]]
    return any(topic in cells for topic in instance.topics)


def _text(instance: Instance, pool: Pool, place: Place) -> str:
    return " ".join(pool.text[place[1]] if place[0] else pool.structured(instance)[place[1]])


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _places(units: Units) -> list[Place]:
    return list(zip(units.in_text.tolist(), units.numbers.tolist(), strict=True))
