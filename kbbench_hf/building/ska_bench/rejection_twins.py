"""Rejection twins: one context from which a question can be answered and one from which it cannot, otherwise alike.

Both are a standard context without a few units. The unanswerable one lost a smallest cut: the fewest positives
without which the answer does not follow. The answerable one lost as many units of noise, of the same section, similar
in length and in the words that they share with the question. A table loses no row: in both twins the same row with a
cell emptied takes its place, the cell of the column that the answer is read from, or that leads to the passage with
the answer. So the question cannot be answered although all its words are there.

From revision 2 on, the unanswerable twin is proven to be so as a generous reader would try it. Where there are texts,
it loses texts alone: all that name an answer, or the thing that is asked about. No row or triple may name an answer,
and nothing that stays may let a reader guess one. A cell of a `table` is emptied only if its value does not follow
from others (`cell_inference`). Questions for which this is not possible have no twins.

Neither twin shows noise from which a reader learns what one of them lost. A reader finds an emptied cell in a copy of
its row, and in any row that names its value beside another rare cell of it. A title or a tag says what a removed triple
says.

`testbeds.RowMaker` makes the twins of each instance. Of equal cuts, and of equally similar units of noise, the first is
taken: the order of every list here is part of the built testbeds.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.ska_bench.testbeds import NEWEST
from kbbench_hf.benchmarks.ska_bench.units import UNKNOWN, Cells, Instance, Program, UnitPool
from kbbench_hf.building.ska_bench.cell_inference import cell_follows, order_follows
from kbbench_hf.building.ska_bench.emptied_rows import TOTALS, has_answer
from kbbench_hf.building.ska_bench.evidence import positive_units, smallest_cuts
from kbbench_hf.building.ska_bench.name_matching import content_words, mentions, normal_name, normalize_cell
from kbbench_hf.building.ska_bench.noise import ContextUnits, looks_like_evidence
from kbbench_hf.building.ska_bench.programs import COMPARISONS
from kbbench_hf.building.ska_bench.unit_orders import Units
from kbbench_hf.text.dates import ORDINALS

FEWEST_OF_TOPIC = 3
"""How many units of noise about a topic stay in both twins."""
WORLD = 24 * 1024
"""A pool whose noise has fewer tokens is an example with few facts about each topic; there the rule above is waived."""
MOST_REMOVED = 8
"""The most units that a twin loses: what more texts name is known to every reader."""
LONGEST_TITLE = 2
"""A title of more different words describes what it names: "Texas Wesleyan University"."""
USUAL = 0.05
"""A cell in more than this share of the rows of its table, and in more than two, is not rare."""
COPIED = 2
"""A made row with this many of a row's rare cells is a copy of it."""
SHORT = 2
"""Cells of so few characters are looked for in their own column alone."""
_WORD = re.compile(r"\w+")
_TITLE_END = re.compile(r" \(|, ")
"""Where the qualifier of a title begins: "Up (film)", "Oslo, Norway"."""
_RATIO = re.compile(r"percent|proportion|densit|\bper capita\b|\b(?:rate|ratio) of\b", re.IGNORECASE)
"""Questions for a number that a reader can calculate from others."""
_BORN = re.compile(r"^.{0,200}\bborn\b")
"""What the first words of a person's page say."""
_NUMBER = re.compile(r"\d\d")
_ARTICLES = frozenset({"the", "a", "an"})
_WHO = re.compile(r"(?:^|, )who(?:se)?\b", re.IGNORECASE)
_PLACE = re.compile(r"^where\b|\bwhere\b.*\blocated\b|\b(?:in|of|from) (?:which|what) \w+\?", re.IGNORECASE)
_LONG_NUMBER = re.compile(r"\d[\d,.]{2,}")
_YEAR = re.compile(r"(?:1\d|20)\d\d")
_QUANTITY = re.compile(r"(\d[\d,]*(?:\.\d+)?)[- ]([a-z]+)")
Place = tuple[bool, int]
"""A unit of an instance: whether it is in the text section, and its number."""
Removed = dict[Place, Place | None]
"""Removed unit -> the row that takes its place; None where none does."""


class EmptiedRow:
    """A row of a table with some columns emptied, and what another row must not tell of it."""

    def __init__(self, row: Cells, columns: Collection[int], table: Sequence[Cells]) -> None:
        cells = [*map(normalize_cell, row)]
        usual = [Counter(map(normalize_cell, column)) for column in zip(*table, strict=True)]
        most = max(2, USUAL * len(table))
        self._lost = {column: cells[column] for column in columns}
        self._rare = {n: cell for n, cell in enumerate(cells) if len(cell) > SHORT and usual[n][cell] <= most}

    def is_leaked_by(self, row: Cells, made: bool) -> bool:
        """Return whether another row tells a lost cell.

        A made row does if it is a copy, or names the cell. A real one does if it names the cell and has a rare cell of
        the row in any column.

        >>> table = [("Ann", "May 1, 1861", "Oslo"), ("Bo", "June 2, 1870", "Oslo")]
        >>> emptied = EmptiedRow(table[0], [0], table)
        >>> [emptied.is_leaked_by(("Cy", date, "with Ann"), made=False) for date in ("May 1, 1861", "")]
        [True, False]
        >>> common = EmptiedRow(("Ann", "Oslo"), [1], [(name, "Oslo") for name in ("Ann", "Bo", "Cy")])
        >>> common.is_leaked_by(("Di", "Oslo"), made=True), common.is_leaked_by(("Di", "Oslo"), made=False)
        (True, False)
        """
        cells = [*map(normalize_cell, row)]
        if made and sum(cells[n] == cell for n, cell in self._rare.items()) >= COPIED:
            return True
        text = " | ".join(cells)
        named = (cells[n] == lost or (len(lost) > SHORT and mentions(text, lost)) for n, lost in self._lost.items())
        return any(named) and (made or any(cell in cells for cell in self._rare.values()))


def leaks_triple(triple: Cells, lost: Cells) -> bool:
    """Return whether a triple joins the ends of a lost one, or says one end of its head by name or last name.

    So does any tag of a film without its genre: a film on baseball is a baseball film.

    >>> leaks_triple(("Imagine", "has tags", "lennon"), ("Imagine", "starred actors", "John Lennon"))
    True
    """
    is_kind = lost[1] == "has genre" and triple[1] == "has tags"
    return (triple[0] == lost[0] and (is_kind or has_name(triple[2], lost[2]))) or any(
        near in triple[::2] and mentions(normal_name(" ".join(triple[::2])), normal_name(far))
        for near, far in (lost[::2], lost[::-2])
    )


def has_name(text: str, name: str) -> bool:
    """Return whether a text has a name or its last word, if that has four letters.

    >>> has_name("The U.S. vs. John Lennon", "John Lennon"), has_name("Ed Wood", "Tim Burton")
    (True, False)
    """
    text, name = normal_name(text), normal_name(name)
    last = name.split(" ")[-1]
    return bool(name) and (mentions(text, name) or (len(last) > 3 and mentions(text, last)))


@dataclass(frozen=True)
class Twin:
    """Which units a twin's context lacks of the standard one, and what takes their places."""

    answerable: bool
    removed: Removed

    def apply(self, section: Units, emptied: Units) -> Units:
        """Return a section of the standard context as this twin has it: units removed, or replaced by emptied rows."""
        whole = section + emptied
        number_of = {place: n for n, place in enumerate(_places(whole))}
        shown = (self.removed.get(place, place) for place in _places(section))
        return whole[np.array([number_of[place] for place in shown if place], dtype=np.int64)]

    @property
    def names(self) -> list[str]:
        """The units that were removed, as `sk:12` or `text:3`."""
        return [f"{'text' if in_text else 'sk'}:{number}" for in_text, number in sorted(self.removed)]


class TwinMaker:
    """Makes the rejection twins of one instance, from the units and the noise of its standard context."""

    def __init__(
        self, instance: Instance, pool: UnitPool, units: ContextUnits, noise: Units, revision: int = NEWEST
    ) -> None:
        self._instance, self._pool, self._units, self._revision = instance, pool, units, revision
        self._positives, self._noise = _places(units.positives), _places(noise)
        self._cells = pool.structured(instance)
        self._question = _words(instance.question)
        shown, own = {self._unit(p) for p in (*self._positives, *self._noise) if not p[0]}, pool.sk[instance.group]
        self._emptied_row = cache(lambda row: EmptiedRow(self._unit(row), self._emptied_columns(row), own))
        emptied = (((False, n), other, self._unit(other)) for n, other in enumerate(_places(units.emptied)))
        self._stand_ins = {
            row: other for row, other, cells in emptied if cells != self._unit(row) and cells not in shown
        }
        """Own row -> the row with cells emptied that can take its place, and is not shown yet."""

    def make_twins(self) -> tuple[Twin, Twin] | None:
        """Return the unanswerable and the answerable twin, or None.

        None where there is no cut, no unit of noise of the same section that could go instead, too little noise about
        the topics, no row with an emptied cell to take a place, or where two of these would be equal.
        """
        instance, cut = self._instance, self.find_cut()
        if not cut or (len(self._units.emptied) and any(not unit[0] and unit not in self._stand_ins for unit in cut)):
            return None
        of_topic = {place for place in self._noise if not instance.is_table and self._names_topic(place)}
        if not instance.is_table and len(of_topic) < FEWEST_OF_TOPIC and self._units.noise.n_tokens >= WORLD:
            return None
        features = self._features()
        lost, matched = Removed(), Removed()
        for unit in cut:
            stand_in = lost[unit] = self._stand_ins.get(unit)
            like = [place for place in self._noise if place[0] == unit[0] and place not in matched]
            if stand_in:
                like = [place for place in like if place in self._stand_ins]
            if len(of_topic - matched.keys()) <= FEWEST_OF_TOPIC:
                like = [place for place in like if place not in of_topic]
            if not like:
                return None
            distances = [float(np.abs(features[unit] - features[place]).sum()) for place in like]
            chosen = like[distances.index(min(distances))]
            matched[chosen] = self._stand_ins[chosen] if stand_in else None
        for removed in (lost, matched):
            rows = [self._unit(row) for row in removed.values() if row]
            if len(set(rows)) < len(rows):
                return None
        return Twin(False, lost), Twin(True, matched)

    def find_telling(self, twins: Sequence[Twin], noise: Units) -> NDArray[np.bool_]:
        """Return for each unit of noise whether it tells what one of the twins lost, so that neither may show it."""
        pool, groups = self._pool, self._instance.noise_groups
        made = {row for group in groups if pool.origins.get(group, UNKNOWN).made for row in pool.sk[group]}
        lost = {unit for twin in twins for unit in twin.removed}

        def is_telling(place: Place, row: Cells) -> bool:
            return self._is_rival(row) or any(self._is_told(unit, row, row in made) for unit in lost - {place})

        return np.array([not place[0] and is_telling(place, self._unit(place)) for place in _places(noise)], dtype=bool)

    def _is_rival(self, row: Cells) -> bool:
        """Return whether a row meets a lookup's only condition in another column, and looks like evidence."""
        program = self._instance.program or {}
        is_single = program.get("type") == "lookup" and len(program["where"]) == 1
        return is_single and looks_like_evidence(program, row)

    def _is_told(self, lost: Place, row: Cells, made: bool = False) -> bool:
        """Return whether a row or a triple says what a context without a unit lacks."""
        if self._instance.subset == "kg":
            return leaks_triple(row, self._unit(lost))
        return self._instance.is_table and not lost[0] and self._emptied_row(lost).is_leaked_by(row, made)

    def _leaks(self, cut: Sequence[Place]) -> bool:
        """Return whether positives that stay tell what a cut takes, or the title of a triple does."""
        left = [self._unit(unit) for unit in self._positives if unit not in cut and not unit[0]]
        titled = self._instance.subset == "kg" and any(has_name(*self._unit(unit)[::2]) for unit in cut)
        return titled or any(self._is_told(lost, row) for lost in cut for row in left)

    def find_cut(self) -> list[Place]:
        """Return the fewest positives without which no answer follows; none for programs of `TOTALS`.

        None either where a program reads a table without emptied rows. Of cuts of one size it is the one that shares
        fewest words with the question. Without a program see `_answering_units`.
        """
        program, instance = self._instance.program, self._instance
        if self._revision > 1 and instance.answer_type == "number" and _RATIO.search(instance.question):
            return []  # a reader divides what other columns and texts say
        if self._revision > 1 and instance.id.startswith("tatqa-"):
            return []  # the other statements of a company have the same amounts as shares of totals
        if self._revision > 1 and instance.subset.endswith("_text"):
            return self._texts_on_answer()
        if self._units.derivations:
            given = positive_units(instance)
            routes = [derivation.units for derivation in self._units.derivations if derivation.units <= given]
            units = sorted(frozenset[Place]().union(*routes))
            cuts = smallest_cuts(units, lambda cut: all(not route.isdisjoint(cut) for route in routes))
        elif not program or not instance.is_table:
            return self._answering_units()
        elif program["type"] in TOTALS or not len(self._units.emptied):
            return []
        else:
            cuts = self._cuts_of_rows(program)
            if self._revision > 1 and any(map(str.islower, instance.answers)):
                cuts = []  # a common noun, such as "perfect fifth", follows from its row by what it means
            elif self._revision > 1:
                own = enumerate(self._pool.sk[instance.group])
                rivals = [self._is_rival(row) for n, row in own if n not in instance.positive_sk]
                # a row that a comparison finds is described by its other cells
                is_compared = any(test[0] in COMPARISONS for _, *test in program.get("where", ()))
                if any(rivals) or is_compared or any(map(self._follows, self._positives)):
                    cuts = []
        if self._revision > 1:
            cuts = [cut for cut in cuts if not self._leaks(cut)]
        return sorted(min(cuts, key=self._cost, default=()))

    def _cuts_of_rows(self, program: Program) -> list[tuple[Place, ...]]:
        """Return the smallest sets of positive rows whose emptied cells leave a program without an answer."""
        emptied = self._units.emptied.numbers.tolist()

        def is_cut(cut: Collection[Place]) -> bool:
            left = (emptied[row[1]] if row in cut else row[1] for row in self._positives)
            return not has_answer(program, map(self._cells.__getitem__, left))

        return smallest_cuts(self._positives, is_cut)

    def _cost(self, cut: Iterable[Place]) -> int:
        """Return how many words of the question a cut has."""
        return sum(len(self._question & _words(self._text(unit))) for unit in cut)

    def _follows(self, unit: Place) -> bool:
        """Return whether what a row loses with its emptied cell follows from other cells."""
        rows, number = self._pool.sk[self._instance.group], unit[1]
        is_compared = (self._instance.program or {}).get("type") == "compare"
        return any(
            cell_follows(rows, number, column) or (is_compared and order_follows(rows, column))
            for column in self._emptied_columns(unit)
        )

    def stating_units(self) -> list[Place]:
        """Return the units, of evidence and noise, that have all words of a name of an answer, sorted.

        None of a subset without texts.
        """
        if not self._instance.subset.endswith("_text"):
            return []
        names = [words for words in map(content_words, self._answer_names()) if words]
        words = {place: content_words(self._normal_text(place)) for place in (*self._positives, *self._noise)}
        return sorted(place for place, found in words.items() if any(name <= found for name in names))

    def _texts_on_answer(self) -> list[Place]:
        """Return the texts without which nothing tells an answer; none where a row or a triple, or a guess, does.

        These are the texts that state it, those that name the thing which a needed one of these is about, and those
        about a person with the last name of that thing.
        """
        stating = self.stating_units()
        titles = {self._title(place) for place in stating if place[0] and place in self._positives} - {""}
        last_names = {title.rpartition(" ")[2] for title in titles}

        def is_near(place: Place) -> bool:
            is_namesake = _BORN.search(self._text(place)) and self._title(place).rpartition(" ")[2] in last_names
            return bool(is_namesake) or any(mentions(self._normal_text(place), title) for title in titles)

        cut = {*stating, *(place for place in (*self._positives, *self._noise) if place[0] and is_near(place))}
        is_stated = len(cut) > MOST_REMOVED or not all(in_text for in_text, _ in cut)
        return [] if not titles or is_stated or self._is_guessed(titles, cut) else sorted(cut)

    def _is_guessed(self, titles: Collection[str], cut: Collection[Place]) -> bool:
        """Return whether a reader may guess an answer without the texts of a cut, which are about these titles.

        A number of a needed row or triple is taken for a number or a date. A word of the question or of a needed unit
        is completed to a name, a place that is named is taken for another one, and "Texas Wesleyan University" says
        what it is. Who did something is not guessed from a title. Of another thing with the same "3.0 billion", a
        reader tells what is asked for.
        """
        question, answers = self._instance.question, self._instance.answers
        others = {each for place in self._noise if place not in cut for each in _quantities(self._text(place))}
        if not others.isdisjoint(_quantities(question)):
            return True
        if self._instance.answer_type != "entity" or any(map(str.isdigit, "".join(answers))):
            return any(_NUMBER.search(self._text(place)) for place in self._positives if not place[0])
        left = [normal_name(question), *(self._normal_text(place) for place in self._positives if place not in cut)]
        describes = any(len({*title.split()} - _ARTICLES) > LONGEST_TITLE for title in titles)
        is_begun = not _beginnings(self._answer_names()).isdisjoint(_beginnings(left))
        return is_begun or bool(_PLACE.search(question)) or (describes and not _WHO.search(question))

    def _answer_names(self) -> set[str]:
        """Return what a unit may call an answer, in normal form: its names, and the numbers in them."""
        instance = self._instance
        names = [*instance.answers, *(name for names in instance.answer_aliases for name in names)]
        names += [number for name in names for number in _LONG_NUMBER.findall(name)]
        if instance.answer_type == "number":
            names += [word for word, number in ORDINALS.items() if str(number) in names]
        return {_join_initials(normal_name(re.sub(r"^(?:the|an?) ", "", each, flags=re.IGNORECASE))) for each in names}

    @cache  # noqa: B019 - a maker lives for one context
    def _emptied_columns(self, row: Place) -> list[int]:
        """Return the columns that a row's stand-in lacks; none where it has no stand-in."""
        emptied = self._unit(self._stand_ins.get(row, row))
        return [n for n, cell in enumerate(self._unit(row)) if cell != emptied[n]]

    def _answering_units(self) -> list[Place]:
        """Return the positives that state the answer of a question without a program; all of them where none does.

        That is the row whose emptied cell states it, or else the passages that do. Where no passage of noise shares as
        many words with the question as such a passage, its absence would show: the cell that leads to it is emptied.
        """
        rows = [place for place in self._positives if place in self._stand_ins]
        for row in rows:
            if self._states_answer(" ".join(self._unit(row)[n] for n in self._emptied_columns(row))):
                return [row]
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

    def _normal_text(self, place: Place) -> str:
        return _join_initials(normal_name(self._text(place)))

    def _title(self, place: Place) -> str:
        """Return what a text is about, in normal form; sentences have no title."""
        return _join_initials(normal_name(_TITLE_END.split(self._unit(place)[0])[0])) if place[0] else ""


def _join_initials(name: str) -> str:
    """Return a name in normal form with initials as one word: "csd municipal" for "c s d municipal"."""
    return re.sub(r"\b([^\W\d]) (?=[^\W\d]\b)", r"\1", name)


def _beginnings(texts: Iterable[str]) -> set[str]:
    """Return the first five letters of the words of four letters or more of texts in normal form."""
    return {word[:5] for text in texts for word in text.split() if len(word) > 3}


def _quantities(text: str) -> set[tuple[float, str]]:
    """Return the numbers of a text, except years, with the word in lower case after each.

    >>> _quantities("worth $3.0 billion in 1997 to him")
    {(3.0, 'billion')}
    """
    found = _QUANTITY.findall(text)
    return {(float(number.replace(",", "")), unit) for number, unit in found if not _YEAR.fullmatch(number)}


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _places(units: Units) -> list[Place]:
    return list(zip(units.in_text.tolist(), units.numbers.tolist(), strict=True))
