"""Alignment of sentences with triples by distant supervision, each pair with a grade.

TekGen's rule: a triple is aligned with a sentence that names its subject and its object. It is noisy: two names can be
in a sentence by chance. Every pair is therefore graded. `dataset` builds datasets with it, and stores the grades; the
guide of own ontologies shows `align`.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

from kbbench_hf.files.datasets import Row
from kbbench_hf.metrics.mention_forms import Mention, find_forms, find_mention, index_sentence, label_dates
from kbbench_hf.metrics.triples import name_key
from kbbench_hf.text.folding import fold, repair_text
from kbbench_hf.text.name_matching import NO_FAMILY_NAMES, Label, Span
from kbbench_hf.text.name_variants import QUALIFIER, SMALL_WORDS, find_country, strip_ending
from kbbench_hf.text.porter import stem
from kbbench_hf.text.quantities import parse_quantity
from kbbench_hf.text.words import find_shared_part, remove_blanks, separate_units

Grade = Literal["mentioned", "both_verbatim", "relation_cued", "given"]
"""Evidence for a pair, weakest first: the sentence names both ends in some form; both word for word; it also has a word
of the relation; a person states that it expresses the triple."""
GRADES: tuple[Grade, ...] = get_args(Grade)
_HUMP = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_NO_CUE = SMALL_WORDS | frozenset(
    "are as be been do does has have is it its not or than that was were which who".split()
)
"""Words of a relation that are no cue for it."""
_NO_KEY = SMALL_WORDS | NO_FAMILY_NAMES
"""Words that identify no entity alone: a sentence with "league" is not searched for every league."""


Names = Mapping[str, Sequence[str]]
"""The name of an entity or relation -> its further names."""
_NO_NAMES: Names = {}


class Alignment(NamedTuple):
    """A triple that a sentence may state, by its place in the table of triples."""

    triple: int
    grade: Grade


def align(
    sentences: Iterable[str], triples: Sequence[Row], entity_names: Names = _NO_NAMES, relation_names: Names = _NO_NAMES
) -> list[list[Alignment]]:
    """Return for each sentence the triples whose subject and object it names, in the order of the table; [] for none.

    `metrics.mention_forms` has the rules for mentions. A name that is only part of another entity's longer name is no
    mention. Subject and object differ, and equal triples count once. `entity_names` and `relation_names` are further
    names by the name in the table.

    >>> triples = [{"sub": "Kiki", "rel": "directedBy", "obj": each} for each in ("Hayao Miyazaki", "Isao Takahata")]
    >>> align(["Kiki was directed by Miyazaki.", "Miyazaki wrote."], triples)
    [[Alignment(triple=0, grade='relation_cued')], []]
    """
    separated = [each | {end: separate_units(each[end]) for end in ("sub", "obj")} for each in triples]
    names = {separate_units(name): [*map(separate_units, others)] for name, others in entity_names.items()}
    finder = _TripleFinder(separated, names, relation_names)
    return [finder.in_sentence(separate_units(sentence)) for sentence in sentences]


def relation_cue(sentence: str, relation: str, others: Iterable[str] = (), but: Iterable[str] = ()) -> str:
    """Return a word of the sentence that a relation's name, or another one of it, has in some form; "" where none is.

    Aliases are cut at capitals and underscores; words that say nothing (of, is, has) are left out, unless there are no
    others. `but` are stretches of the sentence that do not count: the names of the subject and the object.

    >>> relation_cue("The film was directed by Ann Court.", "film director", but=["Ann Court"])
    'film'
    >>> relation_cue("It is part of Rome.", "isPartOf"), relation_cue("Ann was here.", "birthPlace")
    ('part', '')
    """
    text = index_sentence(sentence)
    taken = {position for words in but for span in text.places(Label.of(words)) for position in range(*span)}
    wanted = {key for name in (relation, *others) for key in _cue_keys(name)}
    for position, word in enumerate(text.words):
        if position not in taken and not wanted.isdisjoint(_forms(word)):
            return text.written[position]
    rest = remove_blanks(" ".join("|" if place in taken else word for place, word in enumerate(text.written)))
    return next((part for name in (relation, *others) if (part := find_shared_part(name, rest))), "")


@lru_cache(maxsize=2**12)
def _cue_keys(relation: str) -> frozenset[str]:
    """Return the forms of the words in a relation's name, without `_NO_CUE` unless it has no others."""
    words = [fold(word) for word in _HUMP.findall(repair_text(relation))]
    telling = [word for word in words if word not in _NO_CUE] or words
    return frozenset(form for word in telling for form in _forms(word))


@lru_cache(maxsize=2**15)
def _forms(word: str) -> frozenset[str]:
    """Return the forms that related words share: the stem without the suffix of an agent noun, and the root."""
    root = stem(word, "3.10")
    for ending in ("or", "er", "ion", "ed", "e", "i"):
        if root.endswith(ending) and len(root) - len(ending) >= 4:
            root = root.removesuffix(ending)
            break
    return frozenset((root, strip_ending(word)))


class _TripleFinder:
    """Index of triples by the words of their names; finds the triples that a sentence may state."""

    def __init__(self, triples: Sequence[Row], entity_names: Names, relation_names: Names) -> None:
        self.triples, self.entity_names, self.relation_names = triples, entity_names, relation_names
        self.by_subject: dict[str, list[int]] = defaultdict(list)
        seen: set[tuple[str, ...]] = set()
        for position, each in enumerate(triples):
            names = tuple(name_key(each[part]) for part in ("sub", "rel", "obj"))
            if names not in seen and names[0] != names[2]:
                seen.add(names)
                self.by_subject[each["sub"]].append(position)
        entities = dict.fromkeys(each[part] for each in triples for part in ("sub", "obj"))
        self.by_key: dict[str, list[str]] = defaultdict(list)
        for entity in entities:
            for key in {key for name in self.all_names(entity) for key in _name_keys(name)}:
                self.by_key[key].append(entity)

    def all_names(self, entity: str) -> tuple[str, ...]:
        return (entity, *self.entity_names.get(entity, ()))

    def in_sentence(self, sentence: str) -> list[Alignment]:
        """Return the triples that a sentence may state, in the order of the table."""
        possible = {entity for key in _sentence_keys(sentence) for entity in self.by_key.get(key, ())}
        ends_of: dict[int, tuple[Mention, Mention]] = {}
        for subject in possible & self.by_subject.keys():
            places = [place for place in self.by_subject[subject] if self.triples[place]["obj"] in possible]
            if places and self.mention(sentence, subject).found:
                for place in places:
                    ends = self.ends(sentence, subject, self.triples[place]["obj"])
                    if all(end.found for end in ends):
                        ends_of[place] = ends
        longer = _longer_names(sentence, possible) if ends_of else {}
        return [
            Alignment(place, self.grade(sentence, place, ends))
            for place, ends in sorted(ends_of.items())
            if not any(_is_inside(sentence, end, longer, self.triples[place]["sub"]) for end in ends)
        ]

    def mention(self, sentence: str, entity: str) -> Mention:
        """Return the mention of the first of an entity's names that the sentence has."""
        mentions = (find_mention(sentence, name) for name in self.all_names(entity))
        return next((each for each in mentions if each.found), Mention("absent"))

    def ends(self, sentence: str, subject: str, obj: str) -> tuple[Mention, Mention]:
        """Return the mentions of a subject and an object; further names count where the first one is not mentioned."""
        of_subject, of_object = find_forms(sentence, subject, obj)
        if not of_subject.found and len(self.all_names(subject)) > 1:
            of_subject = self.mention(sentence, subject)
        return of_subject, of_object if of_object.found else self.mention(sentence, obj)

    def grade(self, sentence: str, place: int, ends: tuple[Mention, Mention]) -> Grade:
        relation = self.triples[place]["rel"]
        words = [end.words for end in ends if end.words]
        if relation_cue(sentence, relation, self.relation_names.get(relation, ()), words):
            return "relation_cued"
        return "both_verbatim" if all(end.form == "verbatim" for end in ends) else "mentioned"


def _longer_names(sentence: str, names: Iterable[str]) -> dict[str, list[Span]]:
    """Return the spans of the names of several words that the sentence has word for word."""
    text = index_sentence(sentence)
    labels = {name: Label.of(QUALIFIER.sub("", name.replace("_", " "))) for name in names}
    spans_of = {name: list(text.places(label)) for name, label in labels.items() if len(label.words) > 1}
    return {name: spans for name, spans in spans_of.items() if spans}


def _is_inside(sentence: str, end: Mention, longer: Mapping[str, Sequence[Span]], subject: str) -> bool:
    """Return whether an end is mentioned only inside longer names.

    The triple's own subject does not count if it has a comma: "Austin, Texas" names Texas as well.
    """
    spans = list(index_sentence(sentence).places(Label.of(end.words))) if end.form == "verbatim" else []
    outer = [span for name, places in longer.items() if name != subject or "," not in name for span in places]
    return bool(spans) and all(
        any(start <= first and last <= stop and stop - start > last - first for start, stop in outer)
        for first, last in spans
    )


def _name_keys(name: str) -> Iterator[str]:
    """Yield the keys of a name; a sentence that names it has at least one of them."""
    bare = QUALIFIER.sub("", " ".join(repair_text(name).replace("_", " ").replace('"', "").split())) or name
    if not bare.isdigit() and (dates := label_dates(bare)):
        yield from {f"year {date.year}" for date in dates}
    if parse_quantity(bare):
        yield "a number"
    label = Label.of(bare)
    words = [word for word in label.words if word not in _NO_KEY] or label.words
    yield from (strip_ending(word) for word in words)
    if country := find_country(bare):
        yield f"nation {country}"
    if len(words) > 1:
        yield "".join(word[0] for word in words)
        yield "".join(word[0] for word in label.words)
    yield "".join(label.words)


@lru_cache(maxsize=2**10)
def _sentence_keys(sentence: str) -> frozenset[str]:
    """Return the keys of all names that a sentence may have: see `_name_keys`."""
    text = index_sentence(sentence)
    keys = {strip_ending(word) for word in text.words} | {*text.words}
    keys |= {f"nation {country}" for country, _ in text.senses}
    keys |= {f"year {date.year}" for date in text.dates}
    keys |= {first + second for first, second in zip(text.words, text.words[1:], strict=False)}
    return frozenset(keys | ({"a number"} if text.quantities else set()))
