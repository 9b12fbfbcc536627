"""Readers of a user's files for an extraction dataset: ontology, triples, sentences, and pairs of both.

`dataset` reads with them what `kbbench build NAME --ontology` gets. Their errors name the file and the row.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from reprlib import repr as short_repr
from typing import Any

from kbbench_hf.building.own_extraction.ontologies import (
    LITERALS,
    OwnOntology,
    cut_name,
    is_json_ontology,
    language_rank,
    parse_rdf,
    read_json_ontology,
    read_rdf,
    some,
)
from kbbench_hf.errors import DataError
from kbbench_hf.files.datasets import Row
from kbbench_hf.files.table_files import read_table, read_text
from kbbench_hf.metrics.triples import name_key

PARTS = {"subject": "sub", "relation": "rel", "object": "obj"}
"""Column of a user's table -> part of a triple."""
_IDS = tuple(f"{column}_id" for column in PARTS)
"""Optional columns: the identifiers of the parts of a triple."""
_RDF = (".nt", ".ttl", ".rdf", ".n3", ".jsonld", ".owl")
_SHOWN = 5
"""Relations that a message names."""


def read_own_ontology(file: Path, name: str) -> OwnOntology:
    """Return the ontology of a file: Turtle, RDF/XML, N-Triples, JSON-LD, or JSON as Text2KGBench's release has it.

    Raises:
        UsageError: reading RDF needs rdflib, which is not installed.
        DataError: the file is none of these, or has no relation.
    """
    text = read_text(file, "an ontology in Turtle, RDF/XML or JSON, as UTF-8")
    ontology = (read_json_ontology if is_json_ontology(text) else read_rdf)(file, text, name)
    if not ontology.row["relations"]:
        raise DataError(
            f"{file} has no relation. Expected at least one owl:ObjectProperty, owl:DatatypeProperty or rdf:Property "
            "(in JSON: relations). Add those that sentences are to state."
        )
    known = {each["qid"] for each in ontology.row["concepts"]} | {"", *LITERALS}
    ends = {each[end] for each in ontology.row["relations"] for end in ("domain", "range")}
    if strange := sorted(ends - known):
        ontology.notes.append(f"Domains and ranges that are neither concepts nor kinds of literals: {some(strange)}.")
    if repeated := [label for label, n in Counter(each["label"] for each in ontology.row["concepts"]).items() if n > 1]:
        ontology.notes.append(f"{len(repeated)} labels are of several concepts: {some(repeated)}.")
    return ontology


@dataclass
class Relations:
    """Lookup of an ontology's relations in any spelling, with a count of the relations that it lacks."""

    ontology: OwnOntology
    unknown: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Fold all names of the relations."""
        names: dict[str, str] = {}
        for label, further in self.ontology.relation_names.items():
            names |= {name_key(each): label for each in further}
        self.names = names | {name_key(each): label for each, label in self.ontology.relation_ids.items()}

    def find(self, written: str) -> str | None:
        """Return the label of a relation in any spelling; None, and counted as unknown, where the ontology lacks it."""
        label = self.ontology.relation_ids.get(written) or self.names.get(name_key(written))
        if label is None:
            self.unknown[written] += 1
        return label


@dataclass
class Sentence:
    """A user's sentence with its table's other columns."""

    id: str
    text: str
    triples: list[Row] | None = None
    """The triples that it states; None where the table has none."""
    split: str = ""
    selected: bool | None = None


@dataclass
class Triples:
    """A user's triples with relations of the ontology, and further names of their entities."""

    rows: list[Row]
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)


def read_triples(file: Path, relations: Relations) -> Triples:
    """Return the triples of a table or an RDF file, in its order.

    A table has the columns `subject,relation,object` and, if wanted, `subject_id,relation_id,object_id`. In RDF an
    entity is its label, or its local name; its other labels are names of it.

    Raises:
        DataError: it is malformed, a cell is empty, or the ontology has none of its relations.
    """
    if file.suffix.lower() in _RDF:
        triples = _read_rdf_triples(file, relations)
    else:
        rows = enumerate(read_table(file, tuple(PARTS), _IDS).to_pylist(), start=1)
        found = (_parse_triple(row, relations, f"{file}, row {number}") for number, row in rows)
        triples = Triples([triple for triple in found if triple is not None])
    if not triples.rows:
        met = ", ".join(repr(name) for name, _ in relations.unknown.most_common(_SHOWN)) or "none"
        known = ", ".join(map(repr, relations.ontology.relations[:_SHOWN]))
        raise DataError(
            f"{file} has no triple with a relation of the ontology; its relations are {met}, the ontology's {known}. "
            "Use the relations of the ontology."
        )
    return triples


def _parse_triple(row: Mapping[str, Any], relations: Relations, where: str) -> Row | None:
    """Return the triple in the columns `subject,relation,object`; None where the ontology lacks the relation.

    Raises:
        DataError: one of them is empty, or neither text nor a number.
    """
    cells = {part: _cell_text(row[column], column, where) for column, part in PARTS.items()}
    if empty := [column for column, part in PARTS.items() if not cells[part]]:
        raise DataError(f"{where}: no {empty[0]}; expected a subject, a relation and an object. Fill in the cell.")
    label = relations.find(cells["rel"])
    if label is None:
        return None
    ids = {f"{part}_id": str(value) if (value := row.get(f"{column}_id")) else None for column, part in PARTS.items()}
    return cells | {"rel": label} | ids


def _cell_text(value: object, column: str, where: str) -> str:
    """Return a part of a triple as text; a whole float is its integer, null is empty."""
    if isinstance(value, dict | list | tuple | bytes):
        raise DataError(
            f"{where}: {column} {short_repr(value)}; expected text or a number. Write each part of a triple as text."
        )
    whole = isinstance(value, float) and value.is_integer()
    return "" if value is None else str(int(value) if whole else value).strip()  # type: ignore[call-overload]


def _read_rdf_triples(file: Path, relations: Relations) -> Triples:
    """Return the triples of an RDF file with relations of the ontology, in the order of their IRIs."""
    from rdflib import RDFS, SKOS, Literal, URIRef

    graph = parse_rdf(file, read_text(file, "triples in RDF, as UTF-8"))
    rows: list[Row] = []
    names: dict[str, list[str]] = {}

    def name_of(term: Any) -> str:
        """Return the name of an entity, and store its other names."""
        labels = [
            " ".join(each.split())
            for kind in (RDFS.label, SKOS.prefLabel, SKOS.altLabel)
            for each in sorted(str(label) for label in graph.objects(term, kind) if language_rank(label)[0] < 2)
        ] or [cut_name_of(str(term))]
        names[labels[0]] = list(dict.fromkeys(labels[1:]))
        return labels[0]

    for subject, predicate, obj in sorted(graph):
        label = relations.find(str(predicate)) if isinstance(subject, URIRef) else None
        if label is not None and isinstance(obj, URIRef | Literal) and str(obj).strip():
            literal = isinstance(obj, Literal)
            rows.append(
                {"sub": name_of(subject), "rel": label, "obj": " ".join(str(obj).split()) if literal else name_of(obj)}
                | {"sub_id": str(subject), "rel_id": str(predicate), "obj_id": None if literal else str(obj)}
            )
    return Triples(rows, {name: further for name, further in names.items() if further})


def cut_name_of(address: str) -> str:
    """Return the words of an IRI's local name.

    >>> cut_name_of("http://dbpedia.org/resource/Alan_Bean"), cut_name_of("http://example.org/a#leekSoup")
    ('Alan Bean', 'leek soup')
    """
    local = address.rstrip("#/").replace("#", "/").rsplit("/", 1)[-1]
    return local.replace("_", " ") if "_" in local else local if local[:1].isupper() else cut_name(local)


def read_sentences(file: Path, relations: Relations) -> list[Sentence]:
    """Return the sentences of a file, in its order: one a line, or a table.

    A table has the columns `id,sentence` and, if wanted, `triples` (a JSON list of [subject, relation, object]),
    `split` and `selected`. Sentences of a text file are numbered by their lines.

    Raises:
        DataError: it is malformed, or an id stands twice.
    """
    if file.suffix.lower() in (".txt", ""):
        lines = read_text(file, "sentences, one a line, as UTF-8").split("\n")
        sentences = [Sentence(f"s{number}", text.strip()) for number, text in enumerate(lines, start=1) if text.strip()]
    else:
        sentences = list(_parse_sentence_table(file, relations))
    if repeated := [name for name, n in Counter(each.id for each in sentences).items() if n > 1]:
        raise DataError(f"{file}: sentence {repeated[0]!r} occurs twice. Give each its own id.")
    return sentences


def _parse_sentence_table(file: Path, relations: Relations) -> Iterator[Sentence]:
    """Yield the sentences of a table."""
    table = read_table(file, ("id", "sentence"), ("triples", "split", "selected"))
    for number, row in enumerate(table.to_pylist(), start=1):
        where, text = f"{file}, row {number}", row["sentence"].strip()
        given = row.get("triples")
        triples = None if given in (None, "") else _parse_triples(given, relations, where)
        split, selected = str(row.get("split") or ""), row.get("selected")
        yield Sentence(str(row["id"]), text, triples, split, None if selected is None else _parse_bool(selected, where))


def _parse_bool(value: object, where: str) -> bool:
    """Return a cell of `selected` as a bool; an empty one is False."""
    text = str(value).strip().lower()
    if text not in ("true", "1", "yes", "false", "0", "no", ""):
        raise DataError(f"{where}: selected {value!r}; expected true or false. Correct the cell.")
    return text in ("true", "1", "yes")


def _parse_triples(given: Any, relations: Relations, where: str) -> list[Row]:
    """Return the triples of a cell, JSON where it is text, without those whose relation the ontology lacks."""
    try:
        listed = json.loads(given) if isinstance(given, str) else given
        rows = [
            dict(zip(PARTS, each, strict=True)) if isinstance(each, list) else {c: each[p] for c, p in PARTS.items()}
            for each in listed
        ]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DataError(
            f"{where}: triples {short_repr(given)}; expected a JSON list like "
            '[["Kiki", "director", "Hayao Miyazaki"]]. Correct the cell.'
        ) from error
    return [triple for row in rows if (triple := _parse_triple(row, relations, where))]


def read_pairs(file: Path, relations: Relations, ids: Iterable[str]) -> dict[str, list[Row]]:
    """Return id of a sentence -> the triples that it states, from a table `id,subject,relation,object` of pairs.

    Triples whose relation the ontology lacks are left out, and so are sentences without any other.

    Raises:
        DataError: it is malformed, or a sentence that it names is not there; the first five are listed.
    """
    known = set(ids)
    stated: dict[str, list[Row]] = {}
    lost: list[str] = []
    for number, row in enumerate(read_table(file, ("id", *PARTS), _IDS).to_pylist(), start=1):
        name = str(row["id"])
        if name not in known:
            lost.append(f"{name!r} in row {number}")
        elif triple := _parse_triple(row, relations, f"{file}, row {number}"):
            stated.setdefault(name, []).append(triple)
    if lost:
        raise DataError(
            f"{file}: {len(lost)} pairs name no sentence: {some(lost, str)}. Expected ids of the "
            "sentences; of a text file these are s1, s2 and so on, by its lines."
        )
    return stated
