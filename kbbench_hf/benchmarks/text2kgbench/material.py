"""The rows of Text2KGBench's datasets as examples, with what scoring and prompting need beside them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from kbbench_hf.benchmarks.base import Example, Examples
from kbbench_hf.benchmarks.text2kgbench import prompts
from kbbench_hf.benchmarks.text2kgbench.beyond import typed_by
from kbbench_hf.files.datasets import DatasetFolder, Row
from kbbench_hf.metrics.entity_types import TypedOntology
from kbbench_hf.metrics.triples import Ontology, Triple, name_key, underscore_spaces


@dataclass(frozen=True)
class Material:
    """What scoring and prompting need beside the examples."""

    folder: DatasetFolder
    ontologies: Mapping[str, Row]
    """Rows of the config `ontologies`, by ontology id."""

    @cached_property
    def demonstrations(self) -> prompts.Demonstrations:
        """The train rows, read when a prompt first asks for them."""
        others = [split for split in self.folder.configs()["sentences"] if split != "train"]
        return prompts.Demonstrations(
            {row["id"]: row for row in self.folder.rows("sentences", "train")},
            frozenset(name_key(row["sentence"]) for name in others for row in self.folder.rows("sentences", name)),
        )

    @cached_property
    def released(self) -> dict[str, Ontology]:
        """The ontologies as the release's JSON has them: what prompts show and `reference` scores by."""
        return {name: _ontology(row, without={"ttl"}) for name, row in self.ontologies.items()}

    @cached_property
    def complete(self) -> dict[str, Ontology]:
        """The same with the relations that only the Turtle files have, by which our own modes score."""
        return {name: _ontology(row) for name, row in self.ontologies.items()}

    @cached_property
    def typed_by_train(self) -> dict[str, TypedOntology]:
        """The ontologies' domains and ranges, with the types of entities that the train split tells."""
        return typed_by(list(self.demonstrations.rows.values()), self.ontologies, overlapping=True)


def _ontology(row: Row, without: Collection[str] = ()) -> Ontology:
    return Ontology(
        concepts=tuple(each["label"] for each in prompts.in_prompts(row["concepts"])),
        relations=tuple(each["label"] for each in row["relations"] if each["source"] not in without),
    )


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
    column = "triples_repaired" if mode.startswith("repaired") else "triples"
    return [(each["sub"], each["rel"], each["obj"]) for each in row[column]]


def underscored_gold(row: Example, mode: str = "reference") -> list[Triple]:
    """Return the gold of a row with underscores for the spaces of relations, as answers have them."""
    return [(subject, underscore_spaces(relation), obj) for subject, relation, obj in gold_triples(row, mode)]
