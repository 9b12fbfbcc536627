"""A user's own ontology as a row of the config `ontologies`, and the parser of Text2KGBench's JSON ontologies."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kbbench_hf.errors import DataError
from kbbench_hf.files.datasets import Row

OWN = "own"
"""What `source` says of the concepts and relations of one's own ontology."""
MOST_PARTS = 100
"""Relations, or concepts, of an ontology that is shown whole; the largest of the release has 68 and 33."""


@dataclass
class OwnOntology:
    """A parsed ontology: its row, the names of its relations, and notes on what was changed."""

    row: Row
    """Its row of `ontologies`."""
    relation_ids: dict[str, str] = field(default_factory=dict)
    """Every id of a relation that triples may use (an IRI, a short id, a label) -> its label."""
    relation_names: dict[str, list[str]] = field(default_factory=dict)
    """Label of a relation -> its further labels."""
    notes: list[str] = field(default_factory=list)
    """What was left out or changed, in sentences."""

    @property
    def relations(self) -> list[str]:
        """The labels of its relations, each once, in order."""
        return list(dict.fromkeys(each["label"] for each in self.row["relations"]))

    def fit(self, used: Collection[str]) -> None:
        """Reduce a large ontology, because prompts show it whole and metrics search it.

        Of more than 100 relations, those that triples use are kept; of more than 100 concepts, the domains and ranges
        of these relations, and others from the most general down.
        """
        row, n_relations, n_concepts = self.row, len(self.relations), len(self.row["concepts"])
        if n_relations > MOST_PARTS:
            row["relations"] = [each for each in row["relations"] if each["label"] in used]
            self.notes.append(f"Of {n_relations:,} relations the {len(self.relations):,} are kept that triples use.")
        if n_concepts > MOST_PARTS:
            ends = {each[end] for each in row["relations"] for end in ("domain", "range")}
            general = _most_general(row["concepts"], {each["qid"] for each in row["concepts"]} & ends)
            row["concepts"] = [
                each | {"subclass_of": [qid for qid in each["subclass_of"] if qid in general]}
                for each in row["concepts"]
                if each["qid"] in general
            ]
            self.notes.append(
                f"Of {n_concepts:,} concepts the {len(row['concepts']):,} are kept that relations need, or are the "
                "most general."
            )


def _most_general(concepts: Sequence[Row], kept: Collection[str]) -> set[str]:
    """Return `kept` and the ids with the fewest superclasses, 100 in all where there are so many."""
    above = {each["qid"]: {*each["subclass_of"]} for each in concepts}
    general, level = {*kept}, {qid for qid, over in above.items() if not over}
    seen: set[str] = set()
    while level and len(general) < MOST_PARTS:
        general.update(sorted(level - general)[: MOST_PARTS - len(general)])
        seen |= level
        level = {qid for qid, over in above.items() if over & level} - seen
    return general


def is_json_ontology(text: str) -> bool:
    """Say whether a text is an ontology in the release's JSON."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        return {"concepts", "relations"} <= {*json.loads(text)}
    except (ValueError, RecursionError):
        return False


def read_json_ontology(file: Path, text: str, name: str) -> OwnOntology:
    """Return an ontology in the release's JSON, labels stripped and repeated parts removed.

    Raises:
        DataError: it lacks a field.
    """
    content = json.loads(text)
    try:
        concepts = [{"qid": each["qid"], "label": each["label"].strip()} for each in content["concepts"]]
        relations = [
            {"pid": each["pid"], "label": each["label"].strip(), "domain": each["domain"], "range": each["range"]}
            for each in content["relations"]
        ]
        title = str(content.get("title") or name)
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{file}: {error!r}. Expected title, concepts (qid, label) and relations (pid, label, domain, range)."
        ) from error
    given = [each["label"] for part in ("concepts", "relations") for each in content[part]]
    stripped = [label for label in given if label != label.strip()]
    notes = [f"Blanks around {len(stripped)} labels were taken off: {some(stripped)}."] if stripped else []
    ids = {each["pid"]: each["label"] for each in relations} | {each["label"]: each["label"] for each in relations}
    return OwnOntology(ontology_row(name, title, _distinct(concepts), _distinct(relations)), ids, {}, notes)


def _distinct(rows: list[Row]) -> list[Row]:
    return [row for position, row in enumerate(rows) if row not in rows[:position]]


def ontology_row(name: str, title: str, concepts: Sequence[Row], relations: Sequence[Row]) -> Row:
    """Return the row of `ontologies` of an ontology's parts."""
    return {
        "ontology_id": name,
        "title": title,
        "concepts": [{"subclass_of": [], **each, "source": OWN} for each in concepts],
        "relations": [{**each, "source": OWN} for each in relations],
    }


def some(names: Sequence[str]) -> str:
    """Return the first five of the names, and how many more there are."""
    return ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
