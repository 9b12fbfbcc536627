"""Scores of triples by value: names in any form, dates, numbers (Text2KGBench, modes `repaired-2` and `repaired-3`).

The second and third version of our own mode. A gold triple cannot be extracted if the sentence does not mention its
subject or object. Precision, recall and F1 leave out such triples, and are given over all triples as well.
The benchmark and the module `text2kg` call both scores; `building` stores mentions and demonstrations find their words.
"""

import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from math import nan
from typing import NamedTuple

from kbbench_hf.metrics.mention_forms import Mention, find_forms, find_mention, find_mentions, is_stated, label_dates
from kbbench_hf.metrics.triples import (
    EMPTY_ANSWER,
    Ontology,
    Triple,
    TripleScores,
    entity_form,
    name_key,
    normalize_name,
)
from kbbench_hf.text.dates import find_dates, parse_date
from kbbench_hf.text.folding import repair_text
from kbbench_hf.text.name_matching import Label
from kbbench_hf.text.name_variants import QUALIFIER, find_country, is_country
from kbbench_hf.text.quantities import Quantity, find_quantities, parse_quantity
from kbbench_hf.text.tokens import stem_text
from kbbench_hf.text.words import separate_units

_COUNTED = re.compile(r"[^\d]{0,4}[\d,.]+(?: [a-z]+){0,5}|\w+(?: (?:and )?[a-z0-9]+){0,7}")
"""A number and the counted things: "248 pages", "58 minutes and 41 seconds"."""


_PLACE = re.compile(r"([^,]*[^,\s])(?:, ?[A-Z][^,]*){1,2}")
"""A name with its location: "Faversham, Kent, England"."""


class GoldTriple(NamedTuple):
    """A gold triple, and how its sentence mentions its subject and object."""

    triple: Triple
    subject: Mention
    object: Mention

    @property
    def is_mentioned(self) -> bool:
        """Whether the sentence mentions both."""
        return self.subject.found and self.object.found


class ValueScores(NamedTuple):
    """The values of a sentence over the gold triples that it mentions, and three over all; NaN if not scored."""

    mentioned: TripleScores
    all_triples: tuple[float, float, float]
    """Precision, recall and F1."""
    n_not_named: int
    """Number of gold triples whose subject or object the sentence does not mention."""


def find_gold_mentions(sentence: str, gold: Sequence[Triple], *, version: int = 3) -> list[GoldTriple]:
    """Return gold triples with the mentions of their subjects and objects in the sentence.

    `version` is that of the mode: 2 knows no paraphrases, and nothing of names inside longer names.

    >>> gold = [("Heat", "director", "Michael Mann"), ("Heat", "medium", "Hardcover")]
    >>> for version in (2, 3):
    ...     print([each.object.form for each in find_gold_mentions("Heat, a hardback by Mann.", gold, version=version)])
    ['short', 'absent']
    ['short', 'alias']
    """
    find = find_forms if version == 2 else find_mentions
    return [GoldTriple(triple, *find(sentence, triple[0], triple[2])) for triple in gold]


def score_repaired_3(
    predicted: Sequence[Triple], gold: Sequence[Triple], sentence: str, ontology: Ontology
) -> ValueScores:
    """Return the values of one sentence with triples compared by value; our own mode, version 3.

    Differs from `repaired-2`:

    - `normalize_name` replaces RDF literals and typographic characters in predictions, gold and sentence. Names are
      found in sentences without blanks (`separate_units`).
    - Mentions are those of `find_mentions`: paraphrases ("hardback" for "Hardcover") are mentions, names inside the
      longer name of something else are not, and no words are the mention of both ends of a triple.
    - A date or number is also equal to the one in the sentence, in the words of the sentence.
    - A subject or object is never hallucinated if the prediction matches a gold triple whose subject or object the
      sentence mentions: no triple is both right and hallucinated.
    - A gold triple that `empty_gold_restored` restored is left out if the sentence has no word for its relation.

    >>> ontology = Ontology(("film",), ("director",))
    >>> sentence, gold = "Ocean's Eleven is by Hans.", [("Ocean's Eleven", "director", "Hans")]
    >>> predicted = [("Ocean’s Eleven", "director", '"Hans"@de')]
    >>> for score in (score_repaired_2, score_repaired_3):
    ...     values = score(predicted, gold, sentence, ontology).mentioned
    ...     print(values.f1, values.subject_hallucination, values.object_hallucination)
    1.0 1.0 1.0
    1.0 0.0 0.0
    """

    def plain(text: str) -> str:
        return separate_units(normalize_name(text))

    plain_predicted, plain_gold = (
        [(plain(subject), relation, plain(obj)) for subject, relation, obj in triples] for triples in (predicted, gold)
    )
    return _score_by_value(plain_predicted, plain_gold, plain(sentence), ontology, version=3)


def score_repaired_2(
    predicted: Sequence[Triple], gold: Sequence[Triple], sentence: str, ontology: Ontology
) -> ValueScores:
    """Return the values of one sentence with triples compared by value; our own mode, version 2.

    Differs from upstream, beyond what `score_repaired` does:

    - Subjects and objects are compared by `same_entity`; relations without case, blanks and underscores.
    - Precision, recall and F1 are over the gold triples whose subject and object the sentence mentions. A prediction
      of another gold triple is neither right nor wrong. All three are NaN if the sentence mentions no gold triple.
    - Predictions of the same gold triple count once.
    - A date or number with a value in the sentence is no hallucination.

    >>> ontology = Ontology(("film",), ("publication date", "director"))
    >>> gold = [("Totoro", "publication date", "01 January 1988"), ("Kiki", "director", "Hayao Miyazaki")]
    >>> predicted = [("My_Totoro", "director", "Miyazaki"), ("Totoro", "PublicationDate", "1988")]
    >>> scores = score_repaired_2(predicted, gold, "Totoro of 1988 was directed by him.", ontology)
    >>> scores.mentioned[:3], scores.all_triples
    ((1.0, 1.0, 1.0), (0.5, 0.5, 0.5))
    """
    return _score_by_value(predicted, gold, sentence, ontology, version=2)


def _score_by_value(
    predicted: Sequence[Triple], gold: Sequence[Triple], sentence: str, ontology: Ontology, *, version: int
) -> ValueScores:
    """Return the values of one sentence by the rules of a version of the mode."""
    golds = find_gold_mentions(sentence, gold, version=version)
    mentioned = {position for position, each in enumerate(golds) if each.is_mentioned}
    n_not_named = len(golds) - len(mentioned)
    distinct = list(dict.fromkeys(predicted))
    matches = [(triple, _match_gold(triple, golds, sentence)) for triple in distinct]
    of_mentioned, of_all = (_score_matches(matches, golds, wanted) for wanted in (mentioned, range(len(golds))))
    if not distinct:
        return ValueScores(TripleScores(*of_mentioned, *EMPTY_ANSWER[3:]), of_all, n_not_named)
    context = stem_text(f"{repair_text(sentence)} {ontology.stripped_concepts}".replace("_", " "))
    conformance = sum(name_key(relation) in ontology.folded_relations for _, relation, _ in distinct) / len(distinct)
    subjects = objects = 0.0
    for (subject, _, obj), positions in matches:
        trusted = [golds[position] for position in positions] if version > 2 else []
        subjects += not (any(each.subject.found for each in trusted) or _is_supported(subject, sentence, context))
        objects += not (any(each.object.found for each in trusted) or _is_supported(obj, sentence, context))
    subjects, objects = subjects / len(distinct), objects / len(distinct)
    values = TripleScores(*of_mentioned, conformance, subjects, 1 - conformance, objects)
    return ValueScores(values, of_all, n_not_named)


def _match_gold(triple: Triple, gold: Sequence[GoldTriple], sentence: str) -> frozenset[int]:
    """Return the positions of the gold triples that a prediction matches."""
    subject, relation, obj = triple
    same = ((n, each) for n, each in enumerate(gold) if name_key(relation) == name_key(each.triple[1]))
    same = ((n, each) for n, each in same if same_entity(subject, each.triple[0], sentence, each.subject))
    return frozenset(n for n, each in same if same_entity(obj, each.triple[2], sentence, each.object))


def _score_matches(
    matches: Sequence[tuple[Triple, frozenset[int]]], gold: Sequence[GoldTriple], wanted: Collection[int]
) -> tuple[float, float, float]:
    """Return precision, recall and F1 over the wanted gold triples; NaN if there are none."""
    if not wanted:
        return nan, nan, nan
    relations = {name_key(gold[position].triple[1]) for position in wanted}
    right, wrong = set(), set()
    for triple, positions in matches:
        if hits := positions.intersection(wanted):
            right.add(hits)
        elif name_key(triple[1]) in relations and not positions:
            wrong.add(tuple(_key(part) for part in triple))
    if not right:
        return 0.0, 0.0, 0.0
    precision = len(right) / (len(right) + len(wrong))
    recall = len(frozenset.union(*right)) / len(wanted)
    return precision, recall, 2 * precision * recall / (precision + recall)


@lru_cache(maxsize=2**15)
def same_entity(predicted: str, gold: str, sentence: str, mention: Mention) -> bool:
    """Return whether a predicted subject or object equals a gold one that the sentence mentions as `mention`.

    - Dates are equal if no common part differs and the predicted date has every part that both gold and sentence have:
      "2001" equals "20 July 2001" if the sentence has only the year, but not if it has the day.
    - Numbers are equal if they have one value: "1,099" and "1099.0", "252 m" and "252000.0 (millimetres)". A rounded
      number is equal only if the sentence has no exact one.
    - Names are equal if they differ only in case, accents, punctuation, underscores, quotation marks, plural or
      spelling; in the qualifier at their end, the part after a comma, or the order of family and given name; as the
      adjective of a country, if the sentence does not have the gold name; or if the prediction is the mention.

    >>> same_entity("Austin", "Austin,_Texas", "In Austin.", Mention("short", "Austin"))
    True
    >>> [same_entity("2001", "20 July 2001", text, Mention("absent")) for text in ("In 2001.", "On July 20, 2001.")]
    [True, False]
    """
    if name_key(predicted) == name_key(gold):
        return True
    label, guess = (
        " ".join(repair_text(name).replace("_", " ").replace('"', "").split()) for name in (gold, predicted)
    )
    bare, key = QUALIFIER.sub("", label), _key(guess)
    if mention.form in ("date_form", "number_form") and mention.words and key == _key(mention.words):
        return True
    if not bare.isdigit() and label_dates(bare):
        return _same_date(guess, bare, sentence)
    if quantity := parse_quantity(label):
        return _same_quantity(guess, quantity, sentence)
    if len("".join(Label.of(bare).words)) < 3 and not find_country(bare):  # C++ is not C
        return key in (_key(label), _key(bare))
    if key == _key(label) or (mention.words and key == _key(mention.words)):
        return True
    both_qualified = QUALIFIER.search(guess) and bare != label
    if not both_qualified and _key(QUALIFIER.sub("", guess)) == _key(bare):
        return True
    last_first = re.fullmatch(r"([^,]+), ([^,]+)", guess)
    if last_first and _key(f"{last_first[2]} {last_first[1]}") == _key(label):
        return True
    longer, shorter = (_PLACE.fullmatch(name) for name in (guess, bare))
    if shorter and key == _key(shorter[1]):
        return True
    if longer and _key(longer[1]) == _key(label):
        return find_mention(sentence, predicted).form == "verbatim"
    if find_country(guess) and mention.form == "verbatim" and is_country(guess) != is_country(bare):
        return False
    senses = [[key for key, _ in Label.of(name).senses] for name in (guess, bare)]
    return senses[0] == senses[1] != []


def _key(name: str) -> str:
    """Return the folded letters and digits of a name; of a name with at most two of them, its `name_key`."""
    words = "".join(Label.of(repair_text(name).replace("_", " ")).words)
    return words if len(words) > 2 else name_key(repair_text(name))


def _same_date(predicted: str, gold: str, sentence: str) -> bool:
    """Return whether a prediction is the date that the sentence gives, as precisely as gold and sentence have it."""
    found = find_dates(sentence)
    readings = sorted(label_dates(gold), key=lambda date: -date.precision)
    vaguest = min(readings, key=lambda date: date.precision)
    wanted = next((date for date in readings if is_stated(date, found)), vaguest)
    known = max((date.precision for date in found if not date.contradicts(wanted)), default=wanted.precision)
    needed = min(wanted.precision, known)
    return any(not each.contradicts(wanted) and each.precision >= needed for each in label_dates(predicted))


def _same_quantity(predicted: str, gold: Quantity, sentence: str) -> bool:
    """Return whether a prediction has the gold number, which may be rounded where the sentence rounds it, or a year."""
    whole = parse_quantity(predicted)
    found = (whole,) if whole else find_quantities(predicted) if _COUNTED.fullmatch(predicted) else ()
    exact = any(gold.equals(each) for each in find_quantities(sentence))
    same = any(gold.equals(each, rounded=not exact) for each in found)
    dates = parse_date(predicted) if not same else ()
    return same or any(date.precision == 1 and date.year == gold.value for date in dates)


def _is_supported(entity: str, sentence: str, context: str) -> bool:
    """Return whether a sentence with the concepts has the stems of an entity, or its date or number."""
    return entity_form(repair_text(entity).replace("_", " ")) in context or find_mention(sentence, entity).form in (
        "date_form",
        "number_form",
    )
