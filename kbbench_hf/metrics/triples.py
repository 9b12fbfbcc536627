"""Scores of extracted triples against gold triples, ontology and sentence (Text2KGBench, `reference` and `repaired`).

Source: Mihindukulasooriya et al., "Text2KGBench", ISWC 2023, and its release (cenguix/Text2KGBench at 50a3d25), whose
script is the mode "reference": where paper and script differ, the script produced the published scores.
"""

import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import nan
from typing import NamedTuple

from kbbench_hf.text.folding import TYPEWRITER
from kbbench_hf.text.tokens import stem_text

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
    """Return the keys of subject, relation and object in one string, by which triples are compared."""
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
    context = stem_text(sentence + ontology.joined_concepts)
    names = ontology.relation_names
    n = len(predicted)
    conformance = sum(relation in names for _, relation, _ in predicted) / n
    subjects = sum(entity_form(subject) not in context for subject, _, _ in predicted) / n
    objects = sum(entity_form(obj) not in context for _, _, obj in predicted) / n
    matched = precision_recall_f1(kept, set(map(triple_key, gold)))
    return TripleScores(*matched, conformance, subjects, 1 - conformance, objects)


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
    context = stem_text(f"{sentence} {ontology.stripped_concepts}".replace("_", " "))
    n = len(predicted)
    conformance = sum(relation_key(relation) in ontology.loose_relations for _, relation, _ in predicted) / n
    subjects = sum(entity_form(subject.replace("_", " ")) not in context for subject, _, _ in predicted) / n
    objects = sum(entity_form(obj.replace("_", " ")) not in context for _, _, obj in predicted) / n
    matched = precision_recall_f1(kept, keys) if keys else (nan, nan, nan)
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
