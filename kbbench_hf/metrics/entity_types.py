"""Whether subjects and objects are of the concepts that a relation's domain and range ask for.

The paper leaves this to future work. Types of entities are not annotated; they are learnt from gold, where each triple
tells that its subject is of the relation's domain and its object of its range.
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
"""Ranges that are no concepts but kinds of literal -> what such a literal holds."""
_ANYTHING = {"", "string"}
"""Domains and ranges that rule nothing out."""


class Signature(NamedTuple):
    """A relation's label, and its domain and range: concepts, kinds of literal, or "" where there is none."""

    relation: str
    domain: str
    range: str


@dataclass(frozen=True)
class TypedOntology:
    """Relations with domain and range, and what gold tells of the types of entities."""

    signatures: Sequence[Signature]
    gold: Iterable[Triple]
    broader: Mapping[str, frozenset[str]]
    """Concept -> all concepts above it."""
    overlapping: bool = False
    """Whether concepts that gold has one entity of do not exclude each other: being of one says nothing of the other.
    Gold of other sentences knows only some of an entity's types."""

    @cached_property
    def _slots(self) -> dict[str, tuple[set[str], set[str]]]:
        """Loose relation -> its domains and ranges; a label that stands twice has those of both."""
        slots: dict[str, tuple[set[str], set[str]]] = {}
        for signature in self.signatures:
            domains, ranges = slots.setdefault(relation_key(signature.relation), (set(), set()))
            domains.update({signature.domain} - _ANYTHING)
            ranges.update({signature.range} - _ANYTHING)
        return slots

    @cached_property
    def _types(self) -> dict[str, set[str]]:
        """Folded entity -> the concepts that gold has it as."""
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

        Judged are entities that gold knows, and literals by their form, under relations that the ontology has with a
        domain (a range). NaN where none can be judged: an entity that gold never names is neither right nor wrong.

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
        """Return whether an entity is of one of the concepts; None where that cannot be told."""
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
        """The pairs of concepts that gold has some entity of both of; none where concepts exclude each other."""
        if not self.overlapping:
            return frozenset()
        return frozenset(pair for known in self._types.values() for pair in product(known, known))


def _share(judgements: Iterable[bool | None]) -> float:
    judged = [each for each in judgements if each is not None]
    return sum(judged) / len(judged) if judged else nan
