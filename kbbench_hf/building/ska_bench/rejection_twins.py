"""Rejection twins: one context from which a question can be answered and one from which it cannot, otherwise alike.

Both are a standard context without a few units. The unanswerable one lost a smallest cut: the fewest positives
without which the answer does not follow. The answerable one lost as many units of noise, of the same section, similar
in length and in the words that they share with the question. A table loses no row: in both twins the same row with a
cell emptied takes its place, the cell of the column that the answer is read from, or that leads to the passage with
the answer. So the question cannot be answered although all its words are there.

From revision 2 on, the unanswerable twin is proven to be so as a generous reader would try it. Where there are texts,
it loses every unit that states an answer: the positives that name one, and all other units that name it beside an
entity or most words of the question. A cell is emptied only if its value does not follow from others
(`cell_inference`). Neither twin shows noise from which a reader learns what one of them lost (`leaks`).
Questions for which this is not possible have no twins.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.ska_bench.testbeds import NEWEST
from kbbench_hf.benchmarks.ska_bench.units import UNKNOWN, Cells, Instance, Program, UnitPool
from kbbench_hf.building.ska_bench.cell_inference import DASHES, cell_follows, facts_as_table, order_follows
from kbbench_hf.building.ska_bench.emptied_rows import TOTALS, has_answer
from kbbench_hf.building.ska_bench.evidence import positive_units, smallest_cuts
from kbbench_hf.building.ska_bench.hybridqa_graph import LISTED
from kbbench_hf.building.ska_bench.leaks import (
    EmptiedRow,
    abbreviates,
    has_name,
    is_next_day,
    leaks_triple,
    mentions_rival,
)
from kbbench_hf.building.ska_bench.name_matching import (
    WordWeights,
    content_words,
    mentions,
    normal_name,
)
from kbbench_hf.building.ska_bench.noise import ContextUnits, looks_like_evidence
from kbbench_hf.building.ska_bench.programs import COMPARISONS
from kbbench_hf.building.ska_bench.unit_orders import Units
from kbbench_hf.text.dates import ORDINALS

FEWEST_OF_TOPIC = 3
"""How many units of noise about a topic stay in both twins."""
WORLD = 24 * 1024
"""A pool whose noise has fewer tokens is an example with few facts about each topic; there the rule above is waived."""
MOST_REMOVED = 6
"""The most units that a twin loses."""
MOST_NAMING = 8
"""A name in more units of a context is too common to connect a unit with the question."""
MOST_WORDS = 0.5
"""The share of the weight of a question's words from which on a unit is about the question."""
_WORD = re.compile(r"\w+")
_YEAR = re.compile(r"\b(?:1\d|20)\d\d\b")
_TITLE_END = re.compile(r" \(|, ")
_RATIO = re.compile(r"percent|proportion|densit|\bper capita\b|\b(?:rate|ratio) of\b", re.IGNORECASE)
_BORN = re.compile(r"^.{0,200}\bborn\b")
_NAME = re.compile(r"(?<!^)\b[A-Z]\w{4,}")
_QUANTITY = re.compile(r"\d[\d,.]{2,}")
Place = tuple[bool, int]
"""A unit of an instance: whether it is in the text section, and its number."""
Removed = dict[Place, int | None]
"""Removed unit -> the number of the row that takes its place; None where none does."""


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

    def __init__(
        self, instance: Instance, pool: UnitPool, units: ContextUnits, noise: Units, revision: int = NEWEST
    ) -> None:
        self._instance, self._pool, self._units, self._revision = instance, pool, units, revision
        self._positives, self._noise = _places(units.positives), _places(noise)
        self._cells = cells = pool.structured(instance)
        self._question = _words(instance.question)
        shown = {cells[n] for in_text, n in (*self._positives, *self._noise) if not in_text}
        emptied = enumerate(units.emptied.numbers.tolist())
        self._emptied_row = cache(lambda n: EmptiedRow(cells[n], self._emptied_columns(n), pool.sk[instance.group]))
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

    def _shows_dashes(self, program: Program) -> bool:
        """Return whether noise has a dash for a number that a lookup compares: a reader computes it from the row."""
        compared = [column for column, *test in program.get("where", ()) if test[0] in COMPARISONS]
        rows = [self._cells[n] for in_text, n in self._noise if not in_text]
        return any(row[column].strip() in DASHES for row in rows for column in compared if column < len(row))

    def _is_told(self, lost: Place, row: Cells, made: bool = False) -> bool:
        """Return whether a row or a triple says what a context without a unit lacks."""
        if self._instance.subset == "kg":
            return leaks_triple(row, self._unit(lost))
        return self._instance.is_table and not lost[0] and self._emptied_row(lost[1]).is_leaked_by(row, made)

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
            return self._removable(self.stating_units())
        if self._units.derivations:
            derived = smallest_cuts(self._units.derivations, positive_units(instance))
            cuts: list[list[Place]] = [list(cut) for cut in derived]
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
                if any(rivals) or self._shows_dashes(program) or any(map(self._follows, self._positives)):
                    cuts = []
        if self._revision > 1:
            cuts = [cut for cut in cuts if not self._leaks(cut)]
        cheapest = min(cuts, key=self._cost, default=list[Place]())
        return sorted(cheapest)

    def _cost(self, cut: Sequence[Place]) -> int:
        """Return how many words of the question a cut has."""
        return sum(len(self._question & _words(self._text(unit))) for unit in cut)

    def _follows(self, unit: Place) -> bool:
        """Return whether what a row loses with its emptied cell, or a graph with a triple, follows from others."""
        rows, number = self._pool.sk[self._instance.group], unit[1]
        if not self._instance.is_table:
            rows, number, lost = facts_as_table(rows, number)
        else:
            lost = self._emptied_columns(number)
        is_compared = (self._instance.program or {}).get("type") == "compare"
        return any(
            cell_follows(rows, number, column) or (is_compared and order_follows(rows, column)) for column in lost
        )

    def stating_units(self) -> list[Place]:
        """Return the units of the context that state an answer; none of a subset without texts.

        These are the positives that name an answer, the texts about one, and others that name it beside the question:
        rows that name what the question names, other units that name an entity of the evidence, any that hold most
        words of the question.
        """
        if not self._instance.subset.endswith("_text"):
            return []
        shown = [*self._positives, *self._noise]
        text = {place: f" {_join_initials(normal_name(self._text(place)))} " for place in shown}
        answers = {*map(_join_initials, self._answer_names())}
        naming = {place for place in shown if any(mentions(text[place], name) for name in answers)}
        naming |= {place for place in shown if any(abbreviates(name, text[place]) for name in self._instance.answers)}
        words = {place: content_words(text[place]) for place in shown}
        weights = WordWeights(text.values())
        asked = content_words(self._instance.question) - content_words(" ".join(answers))
        entities = [
            name
            for name in map(_join_initials, self._evidence_names())
            if not any(mentions(name, answer) or mentions(answer, name) for answer in answers)
            and sum(mentions(each, name) for each in text.values()) <= MOST_NAMING
        ]
        question = f" {normal_name(self._instance.question)} "

        def is_about(place: Place) -> bool:
            near = [name for name in entities if mentions(text[place], name)]
            if self._instance.is_table and not place[0]:
                near = [name for name in near if mentions(question, name)]
            if place[0] and _join_initials(normal_name(_TITLE_END.split(self._unit(place)[0])[0])) in answers:
                return True
            return bool(near) or weights.sum(words[place] & asked) >= MOST_WORDS * weights.sum(asked)

        return sorted(place for place in naming if place in self._positives or is_about(place))

    def _removable(self, cut: list[Place]) -> list[Place]:
        """Return a cut, or none of it where rows that lose a cell still name an answer, or anything else gives one."""
        answers = self._answer_names()
        rows = [place for place in cut if self._instance.is_table and not place[0]]
        left_units = {*self._positives, *self._noise} - set(cut)
        left = [normal_name(" ".join(self._cells[self._stand_ins[n]])) for _, n in rows if n in self._stand_ins]
        stay = [normal_name(self._text(place)) for place in self._positives if place not in cut]
        if (
            len(left) < len(rows)
            or any(mentions(f" {text} ", word) for text in (*left, *stay) for word in self._telling_words())
            or any(mentions(f" {row} ", name) for row in left for name in answers)
            or any(self._follows(place) for place in cut if not place[0])
            or len(cut) > MOST_REMOVED
            or self._leaks(cut)
            or self._suggests_another(cut)
            or self._counts_emptied(cut)
            or self._is_only_one_without(cut)
            or self._is_dated()
            or self._has_other_name()
            or self._states_one_condition(cut)
            or self._has_list_of_kind(cut)
            or self._has_namesake(cut)
            or any(self._resembles_answer(self._text(place)) for place in left_units)
            or any(is_next_day(answer, self._text(place)) for answer in self._instance.answers for place in left_units)
            or not set(cut) & set(self._positives)
        ):
            return []
        return cut

    def _answer_names(self) -> set[str]:
        """Return what a unit may call an answer, in normal form: its names, and the numbers in them."""
        instance = self._instance
        names = [*instance.answers, *(name for names in instance.answer_aliases for name in names)]
        names += [number for name in names for number in _QUANTITY.findall(name)]
        if instance.answer_type == "number":
            names += [word for word, number in ORDINALS.items() if str(number) in names]
        return {normal_name(re.sub(r"^(?:the|an?) ", "", name, flags=re.IGNORECASE)) for name in names} - {""}

    def _resembles_answer(self, text: str) -> bool:
        """Return whether a text has an answer of several words, but for endings or a blank between its first two.

        Such as "Public Ivy" for "Public Ivies", or "TVCine" for "TV Cine HD".
        """
        names = self._answer_names() if self._instance.answer_type == "entity" else ()
        several = [words for words in map(str.split, names) if len(words) > 1]
        forms = [" ".join(rf"\b{re.escape(word[: max(2, len(word) - 3)])}\w*" for word in words) for words in several]
        forms += [rf"\b{re.escape(first + second)}\b" for first, second, *_ in several if len(first + second) > 5]
        return any(re.search(form, normal_name(text)) for form in forms)

    def _has_list_of_kind(self, cut: Sequence[Place]) -> bool:
        """Return whether a list that stays is about one thing of a kind in the question.

        A reader answers "Preseli transmitting station" where the station of one of its rows is asked for.
        """
        left = [self._unit(place) for place in self._positives if not place[0] and place not in cut]
        titles = [unit[2].partition(":")[0] for unit in left if len(unit) == 3 and unit[1] == LISTED]
        kinds = {title.rpartition(" ")[2] for title in titles}
        return any(kind.islower() and kind in self._question for kind in kinds)

    def _states_one_condition(self, cut: Sequence[Place]) -> bool:
        """Return whether what stays says one of two conditions, which leads a reader to whom it says it of."""
        topics = [name for name in map(normal_name, self._instance.topics) if len(self._instance.topics) > 1]
        left = [normal_name(self._text(place)) for place in (*self._positives, *self._noise) if place not in cut]
        lost = [name for name in topics if any(mentions(f" {normal_name(self._text(u))} ", name) for u in cut if u[0])]
        return any(mentions(f" {text} ", name) for text in left for name in lost)

    def _telling_words(self) -> set[str]:
        """Return the words of names that are answers without those of the question: a reader guesses the rest."""
        asked, kind = normal_name(self._instance.question).split(), self._instance.answer_type
        names = self._answer_names() if kind == "entity" else ()
        return {word for name in names for word in name.split() if len(word) > 3 and word not in asked}

    def _evidence_names(self) -> set[str]:
        """Return the names in the evidence, in normal form: topics, cells of rows, ends of triples, titles of texts."""
        names = list(self._instance.topics)
        for place in self._positives:
            cells = self._unit(place)
            names += cells[:1] if place[0] else cells if self._instance.is_table else cells[::2]
        names += [name.partition(" (")[0] for name in names]
        return {name for name in map(normal_name, names) if len(name) > 2 or not name.isdigit()} - {""}

    def _is_dated(self) -> bool:
        """Return whether two rows are compared and one has a year, which may tell who was born earlier."""
        rows = [self._text(place) for place in self._positives if self._instance.is_table and not place[0]]
        return len(rows) > 1 and any(map(_YEAR.search, rows))

    def _has_other_name(self) -> bool:
        """Return whether the question or a topic has a form of an answer: "Gran Canaria" of the Canary Islands.

        The symbol "D", whose name is asked for, begins the answer "Deuterium".
        """
        short = [name for name in (normal_name(topic.partition(" (")[0]) for topic in self._instance.topics) if name]
        asked = {word[:5].casefold() for word in _NAME.findall(self._instance.question)}
        return any(
            name.startswith(tuple(short)) or any(word[:5] in asked for word in name.split() if len(word) > 4)
            for name in self._answer_names()
        )

    def _has_namesake(self, cut: Sequence[Place]) -> bool:
        """Return whether a text that stays is about a person with the last name of one whose text is lost."""
        texts = [place for place in {*self._positives, *self._noise} if place[0] and _BORN.search(self._text(place))]
        names = {place: _TITLE_END.split(self._unit(place)[0])[0].rpartition(" ")[2] for place in texts}
        lost = {name for place, name in names.items() if place in cut} - {""}  # sentences have no title
        return any(name in lost for place, name in names.items() if place not in cut)

    def _suggests_another(self, cut: Sequence[Place]) -> bool:
        """Return whether a text that stays may name another answer: it speaks of what a removed cell or triple states.

        Without "(Heat, director, Ann)", the text "Ann is the director of ..." may list another film that fits.
        """
        if self._instance.answer_type != "entity":
            return False
        labels = set[str]()
        for place in cut:
            if self._instance.is_table and not place[0]:
                header = self._pool.headers[self._instance.group]
                labels |= content_words(" ".join(header[n] for n in self._emptied_columns(place[1])))
            elif not place[0] and any(
                mentions(normal_name(self._unit(place)[0]), name) for name in self._answer_names()
            ):
                labels |= content_words(self._unit(place)[1])
        left = [place for place in self._positives if place[0] and place not in cut]
        if any(labels & content_words(self._text(place)) for place in left):
            return True
        answers, evidence = self._answer_names(), self._evidence_names()
        left += [place for place in self._noise if place[0] and place not in cut and self._is_on(place, evidence)]
        return any(mentions_rival(self._text(place), self._instance.question, answers) for place in left)

    def _counts_emptied(self, cut: Sequence[Place]) -> bool:
        """Return whether a positive that stays counts what an emptied cell did: "22 appearances" for Apps."""
        emptied = [n for in_text, n in cut if not in_text] if self._instance.is_table else []
        header = self._pool.headers.get(self._instance.group, ())
        stems = {
            re.escape(word.removesuffix("s"))
            for number in emptied
            for column in self._emptied_columns(number)
            for word in normal_name(header[column]).split()
            if len(word) > 3
        }
        counted = re.compile(rf" \d+ (?:\w+ )?(?:{'|'.join(stems)})")
        left = [place for place in self._positives if place not in cut] if stems else []
        return any(counted.search(f" {normal_name(self._text(place))}") for place in left)

    def _is_only_one_without(self, cut: Sequence[Place]) -> bool:
        """Return whether of the shown members of a list only the one that lost a relation is without it.

        A reader concludes that this is the one that is asked for.
        """
        if self._instance.subset != "kg_text":
            return False
        shown = [self._unit(place) for place in (*self._positives, *self._noise) if not place[0] and place not in cut]
        for head, relation, _ in (self._unit(place) for place in cut if not place[0]):
            lists = {tail for other, label, tail in shown if (other, label) == (head, LISTED)}
            members = {other for other, label, tail in shown if label == LISTED and tail in lists} - {head}
            if members and members <= {other for other, label, _ in shown if label == relation}:
                return True
        return False

    def _is_on(self, place: Place, evidence: Iterable[str]) -> bool:
        """Return whether the title of a text is in the evidence."""
        title = normal_name(_TITLE_END.split(self._unit(place)[0])[0])
        return len(title) > 3 and any(mentions(name, title) for name in evidence)

    def _emptied_columns(self, number: int) -> list[int]:
        rows = self._pool.sk[self._instance.group]
        emptied = self._cells[self._stand_ins[number]] if number in self._stand_ins else rows[number]
        return [n for n, cell in enumerate(rows[number]) if cell != emptied[n]]

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


def _join_initials(name: str) -> str:
    """Return a name in normal form with initials as one word: "csd municipal" for "c s d municipal"."""
    return re.sub(r"\b([^\W\d]) (?=[^\W\d]\b)", r"\1", name)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _places(units: Units) -> list[Place]:
    return list(zip(units.in_text.tolist(), units.numbers.tolist(), strict=True))
