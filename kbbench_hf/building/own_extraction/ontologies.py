"""A user's own ontology: parser of the release's JSON, and of RDF (rdflib).

Of RDF: classes, properties, domain and range (each member of a union), labels, subclasses. A property without domain
or range has those of its superproperty. Nothing is downloaded. `inputs` reads ontologies and triples with it, the RDF
reader of `graph_formats` triples and local names.
"""

import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from warnings import catch_warnings, simplefilter

from kbbench_hf.errors import DataError, missing_extra
from kbbench_hf.files.datasets import Row

if TYPE_CHECKING:
    from rdflib import Graph

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
    """Return whether a text is an ontology in the release's JSON: an object with `concepts` and `relations`."""
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
    """Return the row of `ontologies` with these concepts (`qid label`) and relations (`pid label domain range`)."""
    return {
        "ontology_id": name,
        "title": title,
        "concepts": [{"subclass_of": [], **each, "source": OWN} for each in concepts],
        "relations": [{**each, "source": OWN} for each in relations],
    }


def some(names: Sequence[str], show: Callable[[str], str] = repr) -> str:
    """Return the first five of the names, and how many more there are."""
    return ", ".join(map(show, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


MOST_SIGNATURES = 6
"""A relation with more pairs of domain and range has neither: prompts would only list them."""
_FORMATS = {"ttl": "turtle", "n3": "n3", "nt": "nt", "rdf": "xml", "owl": "xml", "xml": "xml", "jsonld": "json-ld"}
_HUMPS = re.compile(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[_\-\s]+")
LITERALS = {
    "number": "integer int long short byte decimal float double nonNegativeInteger positiveInteger unsignedInt "
    "negativeInteger nonPositiveInteger unsignedLong unsignedShort unsignedByte rational real Number Integer Float",
    "date": "date dateTime dateTimeStamp Date DateTime",
    "year": "gYear gYearMonth",
    "string": "string normalizedString token language langString Literal PlainLiteral anyURI Text URL HTML XMLLiteral",
}
"""Kind of literal, as the released ontologies name it -> its datatypes."""
_KIND_OF_LITERAL = {name: kind for kind, names in LITERALS.items() for name in names.split()}


def parse_rdf(file: Path, text: str) -> "Graph":
    """Return the graph of an RDF file, as rdflib's; errors as `rdf_triples`."""
    triples = rdf_triples(file, text)
    from rdflib import Graph

    graph = Graph()
    for triple in triples:
        graph.add(triple)
    return graph


def rdf_triples(file: Path, text: str, form: str = "") -> Iterable[Any]:
    """Return the triples of an RDF file in rdflib's format `form`, in their order, those of named graphs too.

    Nothing is fetched, neither imports nor contexts. rdflib's own graphs have another order in each process.

    Raises:
        UsageError: rdflib is not installed.
        DataError: the file is no RDF that it reads.
    """
    try:
        from rdflib import Dataset, Graph
        from rdflib.plugins.stores.memory import Memory
    except ImportError:
        raise missing_extra("rdflib", "ontology") from None
    form = form or _detect_format(file, text)
    if form == "json-ld" and re.search(r'"@context"\s*:\s*(?:"|\[\s*")', text):
        raise DataError(f"{file}: its @context is an address, which is not fetched. Write it as Turtle.")
    ordered: dict[Any, None] = {}

    class OrderedStore(Memory):
        def add(self, triple: Any, context: Any, quoted: bool = False) -> None:
            ordered[triple] = None

    log = logging.getLogger("rdflib.term")
    was, log.disabled = log.disabled, True  # it logs a traceback for every literal that violates its datatype
    base = f"file:///{quote(file.name)}"  # of relative IRIs; it does not depend on the folder
    try:
        with catch_warnings():  # rdflib's own, on its parser of JSON-LD
            simplefilter("ignore", DeprecationWarning)
            sink = Dataset(OrderedStore()) if form == "json-ld" else Graph(OrderedStore())
            sink.parse(data=text, format=form, publicID=base)
    except Exception as error:  # each parser has its own
        what = " ".join(str(error).split())[:200]
        raise DataError(
            f"{file} cannot be read as {form}: {what}. Expected Turtle, RDF/XML, N-Triples or JSON-LD."
        ) from error
    finally:
        log.disabled = was
    return ordered


def _detect_format(file: Path, text: str) -> str:
    """Return the format of an RDF file by its first characters, else by its name."""
    start = text.lstrip()[:200]
    if start.startswith("<?xml") or "<rdf:RDF" in start:
        return "xml"
    if re.match(r"(?:Prefix|Ontology)\s*[(:]", start):
        raise DataError(f"{file} is in OWL's functional or Manchester syntax. Expected RDF: save it as Turtle.")
    if re.match(r"(?:#.*\n\s*)*@?(?:prefix|base)\b", start, re.IGNORECASE):
        return "turtle"
    if start.startswith(("{", "[")) and file.suffix in (".json", ".jsonld"):
        return "json-ld"
    form = _FORMATS.get(file.suffix.lower().lstrip("."), "turtle")
    return "turtle" if form == "xml" else form


def read_rdf(file: Path, text: str, name: str) -> OwnOntology:
    """Return the ontology in the text of an RDF file; see `parse_rdf` for what is refused."""
    return _OntologyParser(parse_rdf(file, text), name).parse()


class _OntologyParser:
    """Parser of an RDF graph as an ontology."""

    def __init__(self, graph: "Graph", name: str) -> None:
        from rdflib import OWL, RDF, RDFS, SKOS, Namespace, URIRef

        self.graph, self.name = graph, name
        self.rdf, self.rdfs, self.owl, self.skos, self.uri = RDF, RDFS, OWL, SKOS, URIRef
        self.schema = [Namespace("https://schema.org/"), Namespace("http://schema.org/")]
        self.notes: list[str] = []

    def parse(self) -> OwnOntology:
        """Return the ontology; classes that only domains and ranges name come last among its concepts."""
        owl, rdf = self.owl, self.rdf
        no_relations = {*self.typed(owl.AnnotationProperty, owl.OntologyProperty)}
        declared = self.typed(owl.ObjectProperty, owl.DatatypeProperty, rdf.Property, owl.FunctionalProperty)
        properties = [each for each in declared if each not in no_relations]
        no_concepts = (owl.Thing, owl.Nothing)
        declared = self.typed(owl.Class, self.rdfs.Class)
        classes = [each for each in declared if each not in no_concepts and not self.is_datatype(each)]
        old = {each for each in (*properties, *classes) if self.is_deprecated(each)}
        if old:
            self.notes.append(f"{len(old)} deprecated terms were left out: {some(sorted(map(local_name, old)))}.")
        properties, classes = ([each for each in terms if each not in old] for terms in (properties, classes))
        signatures = {each: self.signatures(each) for each in properties}
        used = {end for pairs in signatures.values() for pair in pairs for end in pair if end is not None}
        outside = sorted(end for end in used if end not in set(classes) and not self.is_datatype(end))
        classes += outside
        terms = dict.fromkeys([*classes, *properties])
        shared = Counter(map(local_name, terms))
        self.ids = {each: local_name(each) if shared[local_name(each)] == 1 else str(each) for each in terms}
        concepts = [
            {"qid": self.ids[each], "label": self.label(each), "subclass_of": self.superclasses(each, set(classes))}
            for each in classes
        ]
        relations = [
            {"pid": self.ids[each], "label": self.label(each), "domain": self.end(first), "range": self.end(second)}
            for each in properties
            for first, second in signatures[each]
        ]
        ids = {str(each): self.label(each) for each in properties}
        ids |= {self.ids[each]: self.label(each) for each in reversed(properties)}
        ids |= {self.label(each): self.label(each) for each in properties}
        names = {self.label(each): further for each in properties if (further := self.further_labels(each))}
        row = ontology_row(self.name, self.title(), concepts, relations)
        return OwnOntology(row, ids, names, self.notes)

    def typed(self, *kinds: Any) -> list[Any]:
        """Return the named terms of these kinds, sorted by IRI: parsers keep no order."""
        terms = {each for kind in kinds for each in self.graph.subjects(self.rdf.type, kind)}
        return sorted(each for each in terms if isinstance(each, self.uri))

    def is_deprecated(self, term: Any) -> bool:
        kinds = {*self.graph.objects(term, self.rdf.type)}
        flag = str(self.graph.value(term, self.owl.deprecated) or "").lower()
        return flag in ("true", "1") or not kinds.isdisjoint((self.owl.DeprecatedProperty, self.owl.DeprecatedClass))

    def is_datatype(self, term: Any) -> bool:
        """Return whether a term is a type of literals: declared so, or one of XML Schema, RDF or schema.org."""
        if (term, self.rdf.type, self.rdfs.Datatype) in self.graph:
            return True
        builtin = str(term).startswith(("http://www.w3.org/2001/XMLSchema#", str(self.rdf), str(self.rdfs)))
        schema = any(term == space[kind] for space in self.schema for kind in _KIND_OF_LITERAL)
        undeclared = (term, self.rdf.type, None) not in self.graph and local_name(term) in LITERALS
        return undeclared or ((builtin or schema) and local_name(term) in _KIND_OF_LITERAL)

    def signatures(self, term: Any) -> list[tuple[Any, Any]]:
        """Return each pair of a domain and a range, None for none; of too many, only an end that all share."""
        domains, ranges = self.ends(term, "domain"), self.ends(term, "range")
        if len(domains) * len(ranges) > MOST_SIGNATURES:
            self.notes.append(
                f"{local_name(term)!r} goes from {len(domains)} to {len(ranges)} kinds of things; those of which it "
                "has several are left open."
            )
            domains, ranges = (ends if len(ends) == 1 else [None] for ends in (domains, ranges))
        return list(product(domains, ranges))

    def ends(self, term: Any, side: str) -> list[Any]:
        """Return the classes at one end of a property, its own or its superproperties'; [None] for none."""
        waiting, seen = [term], set()
        while waiting:
            each = waiting.pop(0)
            seen.add(each)
            found = [*self.graph.objects(each, self.rdfs[side])]
            found += [end for space in self.schema for end in self.graph.objects(each, space[f"{side}Includes"])]
            named = sorted({name for end in found for name in self.members(end)} - {self.owl.Thing, self.rdfs.Resource})
            if named:
                return named
            above = self.graph.objects(each, self.rdfs.subPropertyOf)
            waiting += sorted(up for up in above if isinstance(up, self.uri) and up not in seen)
        return [None]

    def members(self, end: Any) -> Iterator[Any]:
        """Yield a class, or the classes of a union."""
        if isinstance(end, self.uri):
            yield end
        elif union := self.graph.value(end, self.owl.unionOf) or self.graph.value(end, self.owl.oneOf):
            for each in self.graph.items(union):
                yield from self.members(each)

    def superclasses(self, term: Any, known: set[Any]) -> list[str]:
        """Return the ids of a class's direct superclasses among the known ones, sorted by IRI."""
        above: list[Any] = [each for each in self.graph.objects(term, self.rdfs.subClassOf) if each in known]
        return [self.ids[each] for each in sorted(above) if each != term]

    def end(self, term: Any) -> str:
        """Return the id of a domain or range, or its kind of literal, or its local name; "" for none."""
        if term is None:
            return ""
        kind = local_name(term)
        return self.ids.get(term) or _KIND_OF_LITERAL.get(kind, kind)

    def label(self, term: Any) -> str:
        """Return a term's English label, or one in no or another language, or its local name cut into words."""
        for kind in (self.rdfs.label, self.skos.prefLabel):
            labels = self.by_language(term, kind)
            if text := next((" ".join(str(each).split()) for each in labels if str(each).strip()), ""):
                return text
        return cut_name(local_name(term))

    def further_labels(self, term: Any) -> list[str]:
        """Return the other names of a term, sorted: labels in English or no language, and its local name as words."""
        kinds = (self.rdfs.label, self.skos.prefLabel, self.skos.altLabel)
        labels = {str(each) for kind in kinds for each in self.graph.objects(term, kind) if language_rank(each)[0] < 2}
        return sorted({*labels, cut_name(local_name(term))} - {self.label(term)})

    def title(self) -> str:
        """Return the ontology's own title, or else the name of the dataset."""
        for ontology in self.typed(self.owl.Ontology):
            for kind in (self.rdfs.label, self.uri(f"{_DC}terms/title"), self.uri(f"{_DC}elements/1.1/title")):
                if titles := self.by_language(ontology, kind):
                    return " ".join(str(titles[0]).split())
        return self.name

    def by_language(self, term: Any, kind: Any) -> list[Any]:
        """Return the values of a property of a term: English ones first, then those without a language."""
        return sorted(self.graph.objects(term, kind), key=lambda each: (language_rank(each), str(each)))


_DC = "http://purl.org/dc/"


def local_name(iri: str) -> str:
    """Return the last part of an IRI.

    >>> local_name("http://example.org/ns#knows"), local_name("http://example.org/Rome/"), local_name("urn:x:y")
    ('knows', 'Rome', 'y')
    """
    return re.split(r"[#/:]", iri.rstrip("#/"))[-1] or str(iri)


def cut_name(name: str) -> str:
    """Return the words of a name in camel case or with underscores.

    >>> cut_name("birthPlace"), cut_name("has_author"), cut_name("HTTPServer")
    ('birth place', 'has author', 'HTTP server')
    """
    words = [word for word in _HUMPS.split(name) if word]
    return " ".join(word if word.isupper() and len(word) > 1 else word[0].lower() + word[1:] for word in words)


def language_rank(label: Any) -> tuple[int, str]:
    """Return the sort key of a label's language: English, none, any other."""
    language = (getattr(label, "language", None) or "").lower()
    return (0 if language.startswith("en") else 2 if language else 1), language
