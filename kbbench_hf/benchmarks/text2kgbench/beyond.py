"""Metrics beyond Text2KGBench's paper: domain and range conformance, and hallucination with name variants."""

from collections.abc import Callable, Mapping, Sequence
from math import nan

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.files.datasets import Row
from kbbench_hf.metrics.triples import Ontology, Signature, Triple, TypedOntology, entity_form
from kbbench_hf.text.tokens import stem_text

BEYOND_PAPER = {
    "domain_conformance": "DC",
    "range_conformance": "RC",
    "subject_hallucination_aliases": "SH aliases",
    "object_hallucination_aliases": "OH aliases",
}
"""Result key -> label in tables."""


def beyond_paper(
    rows: Sequence[Row],
    answers: Sequence[Sequence[Sequence[str]] | None],
    typed: Mapping[str, TypedOntology],
    ontologies: Mapping[str, Ontology],
    is_named: Callable[[str, str], bool],
) -> dict[str, NDArray[np.float64]]:
    """Return the further columns: one value per sentence, NaN without answer or triples.

    - `domain_conformance`, `range_conformance`: see `TypedOntology.conformance`.
    - `subject_hallucination_aliases`, `object_hallucination_aliases`: the share of triples whose subject or object the
      paper's rule calls hallucinated and that (sentence, name) `is_named` does not find in the sentence either.
    """
    values = np.full((len(rows), len(BEYOND_PAPER)), nan)
    for position, (row, answer) in enumerate(zip(rows, answers, strict=True)):
        if not answer:
            continue
        name, sentence = row["ontology_id"], row["sentence"]
        context = stem_text(sentence + ontologies[name].joined_concepts)
        invented = [
            [entity_form(entity) not in context and not is_named(sentence, entity) for entity in (subject, obj)]
            for subject, _, obj in answer
        ]
        triples = [(subject, relation, obj) for subject, relation, obj in answer]
        values[position] = (*typed[name].conformance(triples), *np.mean(invented, axis=0))
    return dict(zip(BEYOND_PAPER, values.T, strict=True))


def typed_by(
    rows: Sequence[Row], ontology_rows: Mapping[str, Row], *, overlapping: bool = False
) -> dict[str, TypedOntology]:
    """Return each ontology's relations with domain and range, and the entity types from the repaired gold of rows."""
    gold: dict[str, list[Triple]] = {name: [] for name in ontology_rows}
    for row in rows:
        gold[row["ontology_id"]] += [(each["sub"], each["rel"], each["obj"]) for each in row["triples_repaired"]]
    return {name: _typed(ontology, gold[name], overlapping) for name, ontology in ontology_rows.items()}


def _typed(ontology: Row, gold: Sequence[Triple], overlapping: bool) -> TypedOntology:
    above = {each["qid"]: set(each.get("subclass_of") or ()) for each in ontology["concepts"]}
    return TypedOntology(
        signatures=[Signature(each["label"], each["domain"], each["range"]) for each in ontology["relations"]],
        gold=gold,
        broader={concept: frozenset(_ancestors(concept, above)) for concept in above},
        overlapping=overlapping,
    )


def _ancestors(concept: str, above: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(above.get(concept, ()))
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting += above.get(each, ())
    return found
