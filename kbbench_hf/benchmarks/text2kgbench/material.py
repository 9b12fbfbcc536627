"""Loader of Text2KGBench's examples (ontologies, demonstrations, gold triples), and metrics beyond its paper.

These are domain and range conformance, and hallucination with name variants.

The benchmark, its prompts and `building` use it. Which rows are demonstrations of which examples decides the prompts of
stored runs.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import nan

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.base import Example, Examples
from kbbench_hf.files.datasets import DatasetFolder, Row
from kbbench_hf.metrics.triples import (
    Ontology,
    Signature,
    Triple,
    TypedOntology,
    entity_form,
    name_key,
    triple_key,
    underscore_spaces,
)
from kbbench_hf.text.tokens import stem_text
from kbbench_hf.text.words import remove_blanks, separate_units


@dataclass(frozen=True)
class Demonstrations:
    """The rows of a train split, candidates for demonstrations."""

    rows: Mapping[str, Row]
    """By id."""
    other_sentences: frozenset[str] = frozenset()
    """The sentences of the other splits, folded: a leak-free demonstration has none of them."""

    @cached_property
    def ids_by_ontology(self) -> dict[str, list[str]]:
        """The ids of each ontology's rows, in order."""
        ids: dict[str, list[str]] = {}
        for name, row in self.rows.items():
            ids.setdefault(row["ontology_id"], []).append(name)
        return ids

    @cached_property
    def triples_by_sentence(self) -> dict[tuple[str, str], list[Row]]:
        """The triples of all rows with the same ontology and sentence, as the release has one triple a row."""
        triples: dict[tuple[str, str], list[Row]] = {}
        for row in self.rows.values():
            known = triples.setdefault((row["ontology_id"], row["sentence"]), [])
            known += [each for each in row["triples_repaired"] if each not in known]
        return triples

    def written_triples(self, row: Row) -> list[Triple]:
        """Return the triples of a row's sentence as the sentence writes them; none if it does not mention all ends."""
        from kbbench_hf.metrics.triple_values import find_gold_mentions

        triples = self.triples_by_sentence[row["ontology_id"], row["sentence"]]
        separated = [(separate_units(each["sub"]), each["rel"], separate_units(each["obj"])) for each in triples]
        found = find_gold_mentions(separate_units(row["sentence"]), separated)
        written = [(one.words or sub, rel, other.words or obj) for (sub, rel, obj), one, other in found]
        all_mentioned = all(each.is_mentioned for each in found)
        return [(remove_blanks(sub), rel, remove_blanks(obj)) for sub, rel, obj in written] if all_mentioned else []

    def shows_its_sentence(self, row: Row, example: Example) -> bool:
        """Return whether a train row's sentence is the example's, or that of any row of another split."""
        sentence = name_key(row["sentence"])
        return sentence == name_key(example["sentence"]) or sentence in self.other_sentences

    def shows_its_gold(self, row: Row, example: Example) -> bool:
        """Return whether a train row, or another one with its sentence, has a gold triple of the example."""
        shown = [*row.get("triples", ()), *self.triples_by_sentence.get((row["ontology_id"], row["sentence"]), ())]
        gold = [*example.get("triples", ()), *example.get("triples_repaired", ())]
        return not {_key(each) for each in shown}.isdisjoint(_key(each) for each in gold)


def _key(triple: Row) -> str:
    return triple_key((triple["sub"], triple["rel"], triple["obj"]))


@dataclass(frozen=True)
class Material:
    """The ontologies and train rows for scoring and prompting, loaded on first use."""

    folder: DatasetFolder
    ontologies: Mapping[str, Row]
    """Rows of the config `ontologies`, by ontology id."""

    @cached_property
    def demonstrations(self) -> Demonstrations:
        """The train rows, loaded when a prompt first needs them."""
        others = [split for split in self.folder.configs()["sentences"] if split != "train"]
        return Demonstrations(
            {row["id"]: row for row in self.folder.rows("sentences", "train")},
            frozenset(name_key(row["sentence"]) for name in others for row in self.folder.rows("sentences", name)),
        )

    @cached_property
    def released(self) -> dict[str, Ontology]:
        """The ontologies of the release's JSON, for prompts and mode `reference`."""
        return {name: _ontology(row, without={"ttl"}) for name, row in self.ontologies.items()}

    @cached_property
    def complete(self) -> dict[str, Ontology]:
        """The same with the relations that only the Turtle files have, for our own modes."""
        return {name: _ontology(row) for name, row in self.ontologies.items()}

    @cached_property
    def typed_by_train(self) -> dict[str, TypedOntology]:
        """The ontologies' domains and ranges, with the types of entities from the train split."""
        return typed_by(list(self.demonstrations.rows.values()), self.ontologies, overlapping=True)


def _ontology(row: Row, without: Collection[str] = ()) -> Ontology:
    """Return the ontology of a row, without the relations of some sources; concepts are always those of prompts."""
    return Ontology(
        concepts=tuple(each["label"] for each in in_prompts(row["concepts"])),
        relations=tuple(each["label"] for each in row["relations"] if each["source"] not in without),
    )


def in_prompts(parts: Sequence[Row]) -> list[Row]:
    """Return the concepts or relations in prompts: those of the release's JSON files."""
    return [each for each in parts if each["source"] != "ttl"]


def load(folder: DatasetFolder, config: str, split: str) -> Examples:
    """Return the rows of a split, each with the relations of its ontology, and the ontologies as context."""
    ontologies = {row["ontology_id"]: row for row in folder.rows("ontologies", "full")}
    relations = {
        name: [underscore_spaces(each["label"].strip()) for each in row["relations"]]
        for name, row in ontologies.items()
    }
    rows = [{**row, "relations": relations[row["ontology_id"]]} for row in folder.rows(config, split)]
    return Examples(rows, Material(folder, ontologies))


def gold_triples(row: Example, mode: str = "reference") -> list[Triple]:
    """Return the gold of a row of `sentences` that a mode scores against."""
    if mode == "repaired-3" and restores_unstated(row):
        return []
    column = "triples_repaired" if mode.startswith("repaired") else "triples"
    return [(each["sub"], each["rel"], each["obj"]) for each in row[column]]


_MEMBERS = (
    "activist|active|admitted|affiliated|appointed|artists? of|associated|bassist|belong|chair|director|elected|fellow|"
    "fighter|form(?:ed|s)|found|frontman|guitar|head of|join|leader|led|left|member|musician|part of|player|"
    "played|plenipotentiary|president|recorded|secretary|singer|toured|trained|vocal"
)
_RELATION_WORDS = {
    "Member of": rf"\b(?:co-?)?(?:{_MEMBERS})",
    "mountains classification": r"\bmountains?\b[^.;]{0,40}\b(?:classification|jersey|prize)|king of the mountains",
}
"""Relation -> the words by which a sentence states it, for the relations that restored triples often lack words for."""


def restores_unstated(row: Example) -> bool:
    """Return whether a row's gold is a restored triple (`empty_gold_restored`) whose relation its sentence lacks.

    >>> restored = {"repairs": [{"kind": "empty_gold_restored"}], "sentence": "Inge Scholl wrote books on White Rose."}
    >>> triple = {"sub": "Inge Scholl", "rel": "Member of", "obj": "White Rose"}
    >>> restores_unstated(restored | {"triples_repaired": [triple]})
    True
    """
    if not any(each["kind"] == "empty_gold_restored" for each in row["repairs"]):
        return False
    triple = row["triples_repaired"][0]
    words = _RELATION_WORDS.get(triple["rel"], "")
    return not re.search(words, row["sentence"].replace(triple["obj"], ""), re.IGNORECASE)


def underscored_gold(row: Example, mode: str = "reference") -> list[Triple]:
    """Return the gold of a row with underscores for the spaces of relations, as answers have them."""
    return [(subject, underscore_spaces(relation), obj) for subject, relation, obj in gold_triples(row, mode)]


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
    """Return the signatures and concepts of an ontology's row, with gold triples, from which types follow."""
    above = {each["qid"]: set(each.get("subclass_of") or ()) for each in ontology["concepts"]}
    return TypedOntology(
        signatures=[Signature(each["label"], each["domain"], each["range"]) for each in ontology["relations"]],
        gold=gold,
        broader={concept: _ancestors(concept, above) for concept in above},
        overlapping=overlapping,
    )


def _ancestors(concept: str, above: Mapping[str, set[str]], known: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return `known` and all concepts above a concept; cycles are allowed."""
    for each in above.get(concept, set()) - known:
        known = _ancestors(each, above, known | {each})
    return known
