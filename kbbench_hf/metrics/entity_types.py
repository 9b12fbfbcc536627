"""Whether subjects and objects are of the concepts that a relation's domain and range ask for.

The paper leaves this to future work. Types of entities are not annotated; they are learnt from gold, where each triple
tells that its subject is of the relation's domain and its object of its range.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import nan
from typing import NamedTuple

from kbbench_hf.metrics.triples import Triple, fold, loose

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

    @cached_property
    def _slots(self) -> dict[str, tuple[set[str], set[str]]]:
        """Loose relation -> its domains and ranges; a label that stands twice has those of both."""
        slots: dict[str, tuple[set[str], set[str]]] = {}
        for signature in self.signatures:
            domains, ranges = slots.setdefault(loose(signature.relation), (set(), set()))
            domains.update({signature.domain} - _ANYTHING)
            ranges.update({signature.range} - _ANYTHING)
        return slots

    @cached_property
    def _types(self) -> dict[str, set[str]]:
        """Folded entity -> the concepts that gold has it as."""
        types: dict[str, set[str]] = {}
        for subject, relation, obj in self.gold:
            for entity, concepts in zip((subject, obj), self._slots.get(loose(relation), ((), ())), strict=True):
                known = types.setdefault(fold(entity), set())
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
            domains, ranges = self._slots.get(loose(relation), (set(), set()))
            subjects.append(self._is_one_of(subject, domains))
            objects.append(self._is_one_of(obj, ranges))
        return _share(subjects), _share(objects)

    def _is_one_of(self, entity: str, concepts: set[str]) -> bool | None:
        """Return whether an entity is of one of the concepts; None where that cannot be told."""
        forms = [pattern for concept in concepts if (pattern := _LITERALS.get(concept.lower()))]
        if forms:
            return any(pattern.search(entity) for pattern in forms)
        known = self._types.get(fold(entity))
        return None if not concepts or not known else not concepts.isdisjoint(known)


def _share(judgements: Iterable[bool | None]) -> float:
    judged = [each for each in judgements if each is not None]
    return sum(judged) / len(judged) if judged else nan
