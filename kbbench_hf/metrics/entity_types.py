"""Domain and range conformance of extracted triples (Text2KGBench's future work).

Types of entities are not annotated. They follow from gold triples: a subject is of the relation's domain, an object of
its range.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import nan
from typing import NamedTuple

from kbbench_hf.metrics.triples import Triple, name_key, relation_key

_LITERALS = {"number": re.compile(r"[+-]?\d"), "date": re.compile(r"\d{4}"), "year": re.compile(r"\d{4}")}
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
        forms = [pattern for concept in concepts if (pattern := _LITERALS.get(concept.lower()))]
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
    judged = [each for each in judgements if each is not None]
    return sum(judged) / len(judged) if judged else nan
