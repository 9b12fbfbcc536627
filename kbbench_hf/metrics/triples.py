"""Scores of extracted triples against gold triples, ontology and sentence (Text2KGBench, `reference` and `repaired`).

Source: Mihindukulasooriya et al., "Text2KGBench", ISWC 2023, and its release (cenguix/Text2KGBench at 50a3d25), whose
script is the mode "reference": where paper and script differ, the script produced the published scores.

Also: whether a sentence mentions an entity (these modes), and domain and range conformance (future work of the paper).
Types of entities are not annotated. They follow from gold triples: a subject is of the relation's domain, an object of
its range. The benchmark, the module `text2kg` and `building` use it. `score_reference` must give the script's values.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from math import nan
from typing import NamedTuple

from kbbench_hf.text.dates import MONTHS, parse_date
from kbbench_hf.text.folding import TYPEWRITER, strip_accents
from kbbench_hf.text.quantities import NUMERAL
from kbbench_hf.text.tokens import stem_text
from kbbench_hf.text.words import WORD

Triple = tuple[str, str, str]
"""Subject, relation, object."""


@dataclass(frozen=True)
class Ontology:
    """The labels of an ontology's concepts and relations, verbatim: a blank at the end of a label matters."""

    concepts: tuple[str, ...]
    relations: tuple[str, ...]

    @cached_property
    def relation_names(self) -> frozenset[str]:
        """The relations with underscores for spaces, as in prompts and in the reference."""
        return frozenset(map(underscore_spaces, self.relations))

    @cached_property
    def loose_relations(self) -> dict[str, str]:
        """Key of a relation -> its name in prompts, the first of equal keys."""
        return {relation_key(label): underscore_spaces(label) for label in reversed(self.relations)}

    @cached_property
    def folded_relations(self) -> frozenset[str]:
        """The keys of the relations by `name_key`, which ignores how they are split into words."""
        return frozenset(map(name_key, self.relations))

    @cached_property
    def joined_concepts(self) -> str:
        """The text of the concepts that the reference appends to a sentence."""
        return " ".join(self.concepts)

    @cached_property
    def stripped_concepts(self) -> str:
        """The text of the concepts that the repaired modes append to a sentence."""
        return " ".join(label.strip() for label in self.concepts).replace("_", " ")


class TripleScores(NamedTuple):
    """The seven values of a sentence, in the order of the paper's tables; NaN if not scored."""

    precision: float
    recall: float
    f1: float
    ontology_conformance: float
    subject_hallucination: float
    relation_hallucination: float
    object_hallucination: float


EMPTY_ANSWER = TripleScores(0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
"""Values of a prediction without triples: nothing found, nothing hallucinated."""
ALL_ZERO = TripleScores(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
"""Values of a missing prediction in the release's averages: not scored, but counted in the divisor."""


def underscore_spaces(relation: str) -> str:
    """Return a relation's label with underscores for spaces, as in prompts.

    >>> underscore_spaces("cast member")
    'cast_member'
    """
    return relation.replace(" ", "_")


@lru_cache(maxsize=2**12)
def relation_key(relation: str) -> str:
    """Return a relation in lower case with single spaces for spaces and underscores, by which near misses are found.

    >>> relation_key("Cast_member ")
    'cast member'
    """
    return " ".join(relation.replace("_", " ").split()).lower()


@lru_cache(maxsize=2**15)
def name_key(text: str) -> str:
    """Return a text in lower case without white space and underscores: equal names have equal keys.

    >>> name_key("My_Neighbor  Totoro")
    'myneighbortotoro'
    """
    return "".join(text.replace("_", " ").split()).lower()


def triple_key(triple: Triple) -> str:
    """Return the keys of subject, relation and object in one string, by which triples are compared.

    The keys are joined without a separator, as in the release's script.

    >>> triple_key(("My_Totoro", "cast member", "Satsuki"))
    'mytotorocastmembersatsuki'
    """
    subject, relation, obj = triple
    return name_key(subject) + name_key(relation) + name_key(obj)


def score_reference(
    predicted: Sequence[Triple], gold: Sequence[Triple], sentence: str, ontology: Ontology
) -> TripleScores:
    """Return the values of one sentence as the release's script computes them.

    - Precision, recall and F1 compare sets, without predictions whose relation is not in the gold of this sentence
      (exact match, spaces as underscores). All are 0 if none is left.
    - Ontology conformance is the share of predicted triples, with duplicates, whose relation is in the ontology (exact
      match); relation hallucination is the rest.
    - A subject or object is hallucinated if its stems do not occur in the stems of the sentence followed, without a
      separator, by the concepts. White space is ignored, and so is "01 January" in an entity.

    An empty answer conforms (1) and hallucinates nothing (0).

    Differs from upstream: a text outside the release is never cut into sentences before it is tokenised.

    >>> ontology = Ontology(("film", "film genre"), ("publication date", "director"))
    >>> sentence = "My Neighbor Totoro is a 1988 Japanese animated film directed by Hayao Miyazaki."
    >>> gold = [("My Neighbor Totoro", "publication date", "01 January 1988")]
    >>> predicted = [("My Neighbor Totoro", "publication_date", "1988"), ("My_Neighbors_Totoro", "directed", "films")]
    >>> score_reference(predicted, gold, sentence, ontology)._asdict()  # doctest: +NORMALIZE_WHITESPACE
    {'precision': 0.0, 'recall': 0.0, 'f1': 0.0, 'ontology_conformance': 0.5, 'subject_hallucination': 0.5,
     'relation_hallucination': 0.5, 'object_hallucination': 0.0}
    """
    if not predicted:
        return EMPTY_ANSWER
    used = {underscore_spaces(relation) for _, relation, _ in gold}
    kept = {triple_key(triple) for triple in predicted if triple[1] in used}
    matched = precision_recall_f1(kept, set(map(triple_key, gold)))
    n_known = sum(relation in ontology.relation_names for _, relation, _ in predicted)
    return _with_shares(matched, n_known, predicted, stem_text(sentence + ontology.joined_concepts))


def score_repaired(
    predicted: Sequence[Triple], gold: Sequence[Triple], sentence: str, ontology: Ontology
) -> TripleScores:
    """Return the values of one sentence without the bugs of the script; version 1.

    Differs from upstream: relations are compared without case, and with underscores as spaces; a repeated triple counts
    once; underscores are spaces, in entities and in the text; a space precedes the concepts, whose labels are stripped;
    precision, recall and F1 are NaN without gold.

    >>> ontology = Ontology(("film ",), ("publication date", "director"))
    >>> predicted = [("Totoro", "Director", "Hayao_Miyazaki"), ("Totoro", "Director", "Hayao_Miyazaki")]
    >>> score_repaired(predicted, [("Totoro", "director", "Hayao Miyazaki")], "Totoro by Hayao Miyazaki.", ontology)
    ... # doctest: +NORMALIZE_WHITESPACE
    TripleScores(precision=1.0, recall=1.0, f1=1.0, ontology_conformance=1.0, subject_hallucination=0.0,
                 relation_hallucination=0.0, object_hallucination=0.0)
    """
    keys = {triple_key(triple) for triple in gold}
    if not predicted:
        return EMPTY_ANSWER if keys else EMPTY_ANSWER._replace(precision=nan, recall=nan, f1=nan)
    used = {relation_key(relation) for _, relation, _ in gold}
    predicted = list(dict.fromkeys(predicted))
    kept = {triple_key(triple) for triple in predicted if relation_key(triple[1]) in used}
    matched = precision_recall_f1(kept, keys) if keys else (nan, nan, nan)
    n_known = sum(relation_key(relation) in ontology.loose_relations for _, relation, _ in predicted)
    spaced = [(subject.replace("_", " "), relation, obj.replace("_", " ")) for subject, relation, obj in predicted]
    context = stem_text(f"{sentence} {ontology.stripped_concepts}".replace("_", " "))
    return _with_shares(matched, n_known, spaced, context)


def _with_shares(
    matched: tuple[float, float, float], n_known: int, predicted: Sequence[Triple], context: str
) -> TripleScores:
    """Return the values of a sentence: precision, recall and F1, and the shares of its predicted triples.

    `n_known` of them have a relation of the ontology; subjects and objects are looked for in the stems of `context`.
    """
    n, conformance = len(predicted), n_known / len(predicted)
    subjects = sum(entity_form(subject) not in context for subject, _, _ in predicted) / n
    objects = sum(entity_form(obj) not in context for _, _, obj in predicted) / n
    return TripleScores(*matched, conformance, subjects, 1 - conformance, objects)


def precision_recall_f1(predicted: Collection[str], gold: Collection[str]) -> tuple[float, float, float]:
    """Return precision, recall and F1 of a set against a set; all 0 if either is empty.

    >>> precision_recall_f1({"a", "b"}, {"a", "c", "d"})  # 1/2, 1/3, 2 * (1/6) / (5/6)
    (0.5, 0.3333333333333333, 0.4)
    """
    found = sum(key in gold for key in predicted)
    if not found:
        return 0.0, 0.0, 0.0
    precision, recall = found / len(predicted), found / len(gold)
    return precision, recall, 2 * precision * recall / (precision + recall)


def count_defects(predicted: Sequence[Triple], gold: Sequence[Triple], ontology: Ontology) -> dict[str, int]:
    """Return counts of defects of a prediction that its values do not show.

    - `n_empty`: 1 if there are no triples. Such a prediction conforms and hallucinates nothing.
    - `n_filtered_out`: 1 if there are triples, but none with a relation in the gold of this sentence.
    - `n_duplicate_triples`: triples that repeat an earlier one of the prediction.
    - `n_near_miss_relations`: triples whose relation differs from the ontology's only in case, spaces or underscores.

    >>> ontology = Ontology((), ("cast member",))
    >>> count_defects([("Totoro", "Cast member", "Miyazaki")], [("Totoro", "cast member", "Miyazaki")], ontology)
    {'n_empty': 0, 'n_filtered_out': 1, 'n_duplicate_triples': 0, 'n_near_miss_relations': 1}
    """
    used = {underscore_spaces(relation) for _, relation, _ in gold}
    names, near = ontology.relation_names, ontology.loose_relations
    return {
        "n_empty": int(not predicted),
        "n_filtered_out": int(bool(predicted) and not any(relation in used for _, relation, _ in predicted)),
        "n_duplicate_triples": len(predicted) - len(set(map(triple_key, predicted))),
        "n_near_miss_relations": sum(
            relation not in names and relation_key(relation) in near for _, relation, _ in predicted
        ),
    }


@lru_cache(maxsize=2**15)
def entity_form(entity: str) -> str:
    """Return the stems of an entity as the reference compares them with a sentence, without "01 January".

    >>> entity_form("01 January 1988")
    '1988'
    """
    return stem_text(entity).replace("01januari", "")


_LITERAL = re.compile(r'"(.*)"(?:@[A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8})*|\^\^<?\S+?>?)', re.DOTALL)
"""An RDF literal with its language tag or datatype."""
_TIMESTAMP = re.compile(r"\+?0*(\d{1,4}-\d\d-\d\d)T00:00:00(?:\.0+)?(?:Z|[+-]00:00)?")
"""A day as Wikidata and XML Schema write it, with the time 0."""
_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"))
"""Soft hyphens, joiners and blanks without width, which are removed."""


@lru_cache(maxsize=2**15)
def normalize_name(text: str) -> str:
    """Return a text with typewriter quotes, dashes and single blanks; an RDF literal without its tag or datatype.

    >>> [normalize_name(text) for text in ('"Hans"@de', '"41.0"^^xsd:double', "+2001-04-25T00:00:00Z", "Jean‑Luc’s")]
    ['Hans', '41.0', '2001-04-25', "Jean-Luc's"]
    """
    literal = _LITERAL.fullmatch(text.strip())
    plain = unicodedata.normalize("NFC", literal[1] if literal else text).translate(TYPEWRITER | _INVISIBLE)
    timestamp = _TIMESTAMP.fullmatch(plain.strip())
    return " ".join((timestamp[1] if timestamp else plain).split())


_LITERAL_RANGES = {"number": re.compile(r"[+-]?\d"), "date": re.compile(r"\d{4}"), "year": re.compile(r"\d{4}")}
"""Ranges that are kinds of literal, not concepts -> pattern that such a literal contains."""
_ANYTHING = {"", "string"}
"""Domains and ranges that allow every entity."""


class Signature(NamedTuple):
    """A relation's label, and its domain and range: concepts, kinds of literal, or "" if there is none."""

    relation: str
    domain: str
    range: str


@dataclass(frozen=True)
class TypedOntology:
    """Relations with domain and range, and gold triples, from which the types of entities follow."""

    signatures: Sequence[Signature]
    gold: Iterable[Triple]
    broader: Mapping[str, frozenset[str]]
    """Concept -> all concepts above it."""
    overlapping: bool = False
    """Whether concepts that share an entity in gold do not exclude each other. Gold of other sentences has only some of
    an entity's types."""

    @cached_property
    def _slots(self) -> dict[str, tuple[set[str], set[str]]]:
        """Key of a relation -> its domains and ranges, those of all signatures with its label."""
        slots: dict[str, tuple[set[str], set[str]]] = {}
        for signature in self.signatures:
            domains, ranges = slots.setdefault(relation_key(signature.relation), (set(), set()))
            domains.update({signature.domain} - _ANYTHING)
            ranges.update({signature.range} - _ANYTHING)
        return slots

    @cached_property
    def _types(self) -> dict[str, set[str]]:
        """Key of an entity -> its concepts in gold."""
        types: dict[str, set[str]] = {}
        for subject, relation, obj in self.gold:
            slots = self._slots.get(relation_key(relation), ((), ()))
            for entity, concepts in zip((subject, obj), slots, strict=True):
                known = types.setdefault(name_key(entity), set())
                for concept in concepts:
                    known |= {concept, *self.broader.get(concept, ())}
        return types

    def conformance(self, predicted: Sequence[Triple]) -> tuple[float, float]:
        """Return the share of subjects that are of the domain, and of objects that are of the range.

        Entities in gold and literals (by their form) are judged, under relations of the ontology with a domain (a
        range). NaN if none can be judged: an entity that is not in gold is neither right nor wrong.

        >>> signatures = [Signature("director", "film", "human"), Signature("genre", "film", "genre")]
        >>> typed = TypedOntology(signatures, [("Up", "director", "Pete Docter"), ("Up", "genre", "comedy")], {})
        >>> typed.conformance([("Up", "director", "comedy"), ("Pete Docter", "director", "Up"), ("It", "genre", "It")])
        (0.5, 0.0)
        """
        subjects, objects = [], []
        for subject, relation, obj in predicted:
            domains, ranges = self._slots.get(relation_key(relation), (set(), set()))
            subjects.append(self._is_one_of(subject, domains))
            objects.append(self._is_one_of(obj, ranges))
        return _share(subjects), _share(objects)

    def _is_one_of(self, entity: str, concepts: set[str]) -> bool | None:
        """Return whether an entity is of one of the concepts; None if unknown."""
        forms = [pattern for concept in concepts if (pattern := _LITERAL_RANGES.get(concept.lower()))]
        if forms:
            return any(pattern.search(entity) for pattern in forms)
        known = self._types.get(name_key(entity))
        if not concepts or not known:
            return None
        if not concepts.isdisjoint(known):
            return True
        return None if any((one, other) in self._overlaps for one in known for other in concepts) else False

    @cached_property
    def _overlaps(self) -> frozenset[tuple[str, str]]:
        """Pairs of concepts that share an entity in gold; empty if concepts exclude each other."""
        if not self.overlapping:
            return frozenset()
        return frozenset(pair for known in self._types.values() for pair in product(known, known))


def _share(judgements: Iterable[bool | None]) -> float:
    """Return the share of True among those that are not None; NaN where all are."""
    judged = [each for each in judgements if each is not None]
    return sum(judged) / len(judged) if judged else nan


_DATE = re.compile(r"\d{4}-\d\d-\d\d|\d\d? [A-Za-z]* ?\d{4}")
_SMALL = frozenset({"a", "an", "and", "de", "for", "in", "of", "on", "the", "to"})


def is_mentioned(sentence: str, entity: str) -> bool:
    """Return whether a sentence mentions an entity by its name or another form of it.

    Names are compared word by word, without case, accents and punctuation; underscores are spaces. Other forms are:

    - a name without its qualifier or quotes: `Totoro (film)`, `"Totoro"`;
    - an acronym of words in a row (`UN`), and words for their acronym (`U.S.`);
    - a number by its value: `1099.0`, `23.27 (square kilometres)`;
    - a date by its parts, in any order: `1989-05-02`, `02 May 1989`. If day and month are 00 or 01 January, which are
      unknown in TekGen, by its year;
    - a person or place by a family name or last word alone, if it and the whole name are capitalized.

    An entity without words is always mentioned.

    >>> sentence = "The U.S. hosts NASA's 1,099 labs since May 2, 1989."
    >>> [is_mentioned(sentence, entity) for entity in ("United_States", "1099.0", "1989-05-02", "Nasa (agency)", "ESA")]
    [True, True, True, True, False]
    """
    text = _sentence_forms(sentence)
    name = entity.replace("_", " ").strip().strip('"')
    plain = re.sub(r"\s*\([^()]*\)$", "", name)
    words = _words(name)
    if not words or text.has_words(words) or (plain != name and text.has_words(_words(plain))):
        return True
    return text.has_number(plain) or text.has_date(plain) or text.has_acronym(plain) or text.has_last_word(plain)


class _SentenceForms:
    """A sentence, in the forms in which names are found."""

    def __init__(self, sentence: str) -> None:
        self.written = [stripped for word in sentence.split() if (stripped := re.sub(r"^\W+|(?:'s)?\W*$", "", word))]
        """The words as written, without surrounding punctuation."""
        self.words = _words(sentence)
        self.numbers = frozenset(float(match.replace(",", "")) for match in re.findall(NUMERAL, sentence))
        self.joined = f" {' '.join(self.words)} "

    def has_words(self, words: tuple[str, ...]) -> bool:
        return bool(words) and f" {' '.join(words)} " in self.joined

    def has_number(self, name: str) -> bool:
        return bool(re.fullmatch(NUMERAL, name)) and float(name.replace(",", "")) in self.numbers

    def has_date(self, name: str) -> bool:
        """Return whether the sentence has the year of a date, and its month and day where they are known."""
        dates = parse_date(name) if _DATE.fullmatch(name) else ()
        if not dates or str(dates[0].year) not in self.words:
            return False
        _, month, day = dates[0]
        if (month, day) == (1, 1) or not month:
            return True
        named = MONTHS[month - 1] in self.words or MONTHS[month - 1][:3] in self.words
        return named and (not day or bool({str(day), f"{day:02}"} & set(self.words)))

    def has_acronym(self, name: str) -> bool:
        """Return whether the sentence has the acronym of a name, or the words for which an acronym stands."""
        words = name.split()
        if len(words) > 1:
            initials = "".join(word[0] for word in _words(name) if word not in _SMALL)
            return len(initials) > 1 and initials in {_letters(word) for word in self.written if word.isupper()}
        letters = _letters(name)
        if not (name.isupper() and 2 <= len(letters) <= 6):
            return False
        capitals = "".join(
            word[0].lower() if word[0].isupper() else "" if word in _SMALL else " " for word in self.written
        )
        initials = "".join(word[0] for word in self.words if word not in _SMALL)
        return letters in capitals or (len(letters) > 2 and letters in initials)

    def has_last_word(self, name: str) -> bool:
        words = name.split()
        if len(words) < 2 or not all(word[0].isupper() for word in words if word.lower() not in _SMALL):
            return False
        positions = (position for position, word in enumerate(self.written) if word == words[-1])
        around = ((self.written[max(n - 1, 0) : n] + self.written[n + 1 : n + 2]) for n in positions)
        return any(not any(other[0].isupper() for other in others) for others in around)


_sentence_forms = lru_cache(maxsize=2**13)(_SentenceForms)


def _words(text: str) -> tuple[str, ...]:
    return tuple(WORD.findall(strip_accents(text).casefold()))


def _letters(word: str) -> str:
    return word.replace(".", "").casefold()
