"""Graphs in RDF and OBO: N-Triples line by line, Turtle, JSON-LD and RDF/XML with rdflib, OBO with fastobo.

For RDF and OBO there is a detector of one file and a reader, which adds the nodes and edges of all its files to a
collector. `graph_formats.FORMATS` lists them. N-Triples, the format of large graphs, are parsed here: rdflib needs more
time and memory, and refuses a file for one malformed line.
"""

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import pyarrow as pa

from kbbench_hf.building.graph_formats.collector import GraphCollector
from kbbench_hf.building.graph_formats.graph_files import KNOWN, GraphFile
from kbbench_hf.building.own_extraction.ontologies import local_name, rdf_triples
from kbbench_hf.errors import missing_extra
from kbbench_hf.files.arrow import arrow_array, arrow_numbers
from kbbench_hf.files.packing import decoded, text_lines
from kbbench_hf.files.table_files import file_errors

_IRI, _BLANK = r"<([^\x00-\x20<>\"{}|^`]*)>", r"_:[^\s<>\"]+"
_LITERAL = r'"((?:[^"\\\n\r]|\\.)*)"(?:@([A-Za-z]+(?:-[A-Za-z0-9]+)*)|\^\^<[^>]*>)?'
_LINE = re.compile(
    rf"\s*(?:{_IRI}|({_BLANK}))\s*{_IRI}\s*(?:{_IRI}|({_BLANK})|{_LITERAL})\s*(?:(?:<[^>]*>|{_BLANK})\s*)?\.\s*(?:#.*)?\s*"
)
"""A line of N-Triples or N-Quads: subject (IRI, blank node), predicate, object (IRI, blank node, literal, language)."""
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_ESCAPED = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}
_TURTLE = re.compile(r"(?im)\A(?:\s|#.*\n)*(?:@?(?:prefix|base)\s|<[^>\s]+>\s+(?:a|<[^>\s]+>)\s)")
_EDGES = 1 << 20
"""Edges in one chunk of text columns, which hold at most 2 GB."""
RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_NO_TYPES = ("http://www.w3.org/2002/07/owl#NamedIndividual", "http://www.w3.org/2002/07/owl#Thing")
"""Types that every individual may have; others come first."""
_NAMES = ("prefLabel", "label", "name", "title")
_TEXTS = ("comment", "description", "abstract", "definition", "IAO_0000115", "summary", "text")
_OBO = re.compile(r"(?m)^(format-version:|\[(Term|Typedef|Instance)\])")
_WORD = re.compile(r"[^\W\d_]{2,}")

Triple = tuple[str, str, str, str | None]
"""Subject, predicate, object, and the language of a literal: "" for none; None where the object is no literal."""


def is_rdf(file: GraphFile) -> bool:
    """Return whether a file is RDF: N-Triples, Turtle, RDF/XML or JSON-LD."""
    if file.kind == "xml":
        return "<rdf:RDF" in file.head or "http://www.w3.org/1999/02/22-rdf-syntax-ns#" in file.head
    if file.kind in ("json", "json lines"):
        return bool({"@context", "@graph", "@id"} & set(file.columns))
    return file.kind in ("text", "csv") and bool(_TURTLE.search(file.head) or _is_ntriples(file.head))


def _is_ntriples(head: str) -> bool:
    """Return whether most of the first 20 lines are triples, comments and empty lines aside."""
    lines = [line for line in head.split("\n")[:-1] or [head] if line.strip() and not line.lstrip().startswith("#")]
    return 2 * sum(_LINE.fullmatch(line) is not None for line in lines[:20]) > len(lines[:20])


def read_rdf(files: Sequence[GraphFile], graph: GraphCollector) -> None:
    """Add RDF files: labels become names, classes types, other literals lines of text, other triples edges."""
    triples = _TripleCollector()
    for number, file in enumerate(files):
        with file_errors(file.path, KNOWN), closing(file.open()) as opened:
            scope = f"_:f{number + 1}." if number else "_:"  # a label of a blank node is valid in its file
            if file.kind not in ("xml", "json") and _is_ntriples(file.head):
                triples.add(_ntriples(text_lines(opened), graph, scope))
            else:
                triples.add(_rdflib_triples(file, decoded(opened.read(), 1), scope))
    triples.write(graph)


def _ntriples(lines: Iterable[str], graph: GraphCollector, scope: str) -> Iterator[Triple]:
    """Yield the triples of N-Triples or N-Quads; a line that is none is counted. Blank nodes begin with `scope`."""
    parse = _LINE.fullmatch
    for number, line in enumerate(lines, start=1):
        match = parse(line)
        if match is None:
            if line.strip() and not line.lstrip().startswith("#"):
                graph.skip("Lines that are no triple", f"line {number}, {line.strip()}")
            continue
        subject, blank, predicate, iri, other_blank, literal, language = match.groups()
        if "\\" in line:
            subject, predicate, iri, literal = (each and _unescape(each) for each in (subject, predicate, iri, literal))
        head = scope + blank[2:] if subject is None else subject
        if literal is not None:
            yield head, predicate, literal, language or ""
        else:
            yield head, predicate, scope + other_blank[2:] if iri is None else iri, None


def _unescape(text: str) -> str:
    r"""Return a text without the escapes of N-Triples.

    >>> _unescape(r"caf\u00E9\n\"")
    'café\n"'
    """

    def character(escape: re.Match[str]) -> str:
        return chr(int(escape[1] or escape[2], 16)) if escape[3] is None else _ESCAPED.get(escape[3], escape[3])

    return _ESCAPE.sub(character, text)


def _rdflib_triples(file: GraphFile, text: str, scope: str) -> Iterator[Triple]:
    """Yield the triples that rdflib parses, with blank nodes numbered in their order."""
    form = "xml" if file.kind == "xml" else "json-ld" if file.kind in ("json", "json lines") else "turtle"
    parsed = rdf_triples(file.path, text, form)
    from rdflib import BNode, Literal

    blanks: dict[Any, str] = {}

    def named(term: Any) -> str:
        return blanks.setdefault(term, f"{scope}b{len(blanks)}") if isinstance(term, BNode) else str(term)

    for subject, predicate, value in parsed:
        is_literal = isinstance(value, Literal)
        language = (getattr(value, "language", None) or "") if is_literal else None
        yield named(subject), str(predicate), str(value) if is_literal else named(value), language


class _TripleCollector:
    """Collector of triples: terms are numbered, edges are three arrays of numbers."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._predicates: dict[str, int] = {}
        self._edges = (array("i"), array("i"), array("i"))
        self._types: dict[int, list[str]] = {}
        self._literals: dict[int, list[tuple[str, str, str]]] = {}

    def add(self, triples: Iterable[Triple]) -> None:
        """Add triples."""
        ids, predicates, (heads, relations, tails) = self._ids, self._predicates, self._edges
        for subject, predicate, value, language in triples:
            head = ids.setdefault(subject, len(ids))
            if language is not None:
                self._literals.setdefault(head, []).append((predicate, value, language))
            elif predicate == RDF_TYPE:
                self._types.setdefault(head, []).append(value)
            else:
                heads.append(head)
                relations.append(predicates.setdefault(predicate, len(predicates)))
                tails.append(ids.setdefault(value, len(ids)))

    def write(self, graph: GraphCollector) -> None:
        """Add the nodes and edges to a graph.

        A class or property is a node where an edge leads to or from it; else it only names types and relations.
        """
        heads, relations, tails = (np.frombuffer(each, np.int32) for each in self._edges)
        linked = np.zeros(len(self._ids), bool)
        linked[heads], linked[tails] = True, True
        named = {kind for kinds in self._types.values() for kind in kinds} | self._predicates.keys()
        names = self._short_names(named)
        for iri, number in self._ids.items():
            if iri in named and not linked[number]:
                if self._name_and_text(number)[1]:
                    graph.skip("Classes and properties without edges, whose texts are left out", names[iri])
                continue
            kinds = sorted(dict.fromkeys(self._types.get(number, ())), key=_NO_TYPES.__contains__)
            name, text = self._name_and_text(number)
            kind = [names[each] for each in kinds]
            graph.add_node(iri, {}, kind, name or (iri if iri.startswith("_:") else local_name(iri)), text)
        codes = (heads.astype(np.int64) * len(self._predicates) + relations) * len(self._ids) + tails
        first = np.sort(np.unique(codes, return_index=True)[1])  # a graph is a set of triples
        if len(first) < len(codes):
            graph.notes.append(f"Triples that occur again, and count once: {len(codes) - len(first):,}.")
            heads, relations, tails = heads[first], relations[first], tails[first]
        ids = pa.array(list(self._ids), pa.large_string())
        short = arrow_array([names[each] for each in self._predicates], pa.string())
        for start in range(0, len(heads), _EDGES):
            columns = zip((heads, relations, tails), (ids, short, ids), strict=True)
            head, relation, tail = (
                pa.DictionaryArray.from_arrays(arrow_numbers(numbers[start : start + _EDGES]), values)
                for numbers, values in columns
            )
            graph.add_edges(pa.table({"head": head, "relation": relation, "tail": tail}))

    def _name_and_text(self, number: int) -> tuple[str, str]:
        """Return the name of a node, and its other literals as lines: descriptions first, English before others."""
        literals = sorted(self._literals.get(number, ()), key=_literal_order)
        name = literals[0][1] if literals and local_name(literals[0][0]) in _NAMES else ""
        lines = []
        for predicate, value, language in literals[1:] if name else literals:
            key = local_name(predicate)
            if value != name:
                heading = f"{key} ({language})" if language else key
                lines.append(value if key in _TEXTS else f"{heading}: {value}")
        return " ".join(name.split()), "\n".join(lines)

    def _short_names(self, iris: Iterable[str]) -> dict[str, str]:
        """Return IRI -> its local name, or its label where that is a code; the IRI where two would be equal."""
        names: dict[str, str] = {}
        for iri in iris:
            local = local_name(iri)
            label = self._name_and_text(self._ids[iri])[0] if iri in self._ids and not _WORD.search(local) else ""
            names[iri] = label or local
        count = Counter(names.values())
        return {iri: name if count[name] == 1 else iri for iri, name in names.items()}


def _literal_order(literal: tuple[str, str, str]) -> tuple[int, int, int]:
    """Return the sort key of a literal: names before descriptions before others; English, no language, others."""
    predicate, _, language = literal
    key = local_name(predicate)
    rank = 0 if key in _NAMES else 1 if key in _TEXTS else 2
    spoken = 0 if language.lower().startswith("en") else 1 if not language else 2
    return rank, spoken, _NAMES.index(key) if rank == 0 else 0


def is_obo(file: GraphFile) -> bool:
    """Return whether a text is OBO: it has the version of the format, or a frame."""
    return file.kind in ("text", "csv") and _OBO.search(file.head) is not None


def read_obo(files: Sequence[GraphFile], graph: GraphCollector) -> None:
    """Add the terms of OBO files: is_a and relationships become edges, the namespace is the type.

    Raises:
        UsageError: fastobo is not installed.
        SyntaxError, ValueError: a file is not OBO.
    """
    try:
        import fastobo
    except ImportError:
        raise missing_extra("fastobo", "ontology") from None
    for file in files:
        with closing(file.open()) as opened:
            try:
                document = fastobo.load(opened.stream)
            except OSError as error:  # as fastobo calls bytes that are no UTF-8
                raise ValueError(str(error)) from error
        spaces = [str(each.namespace) for each in document.header if each.raw_tag() == "default-namespace"]
        for frame in document:
            _add_obo_frame(graph, frame, spaces[0] if spaces else "")


def _add_obo_frame(graph: GraphCollector, frame: Any, default: str) -> None:
    """Add the node and the edges of a term; `default` is the type of terms without a namespace."""
    if type(frame).__name__ != "TermFrame":
        if type(frame).__name__ != "TypedefFrame":
            graph.skip("Frames that are no terms, which fastobo does not read", "[Instance]")
        return
    kind, node_id = default or "Term", str(frame.id)
    name, lines, details = "", list[str](), dict[str, Any]()
    for clause in frame:
        tag = clause.raw_tag()
        if tag == "name":
            name = clause.name
        elif tag == "def":
            lines.insert(0, clause.definition)
        elif tag == "comment":
            lines.append(clause.comment)
        elif tag == "namespace":
            kind = str(clause.namespace)
        elif tag in ("is_a", "relationship"):
            graph.add_edge(node_id, str(clause.term), {}, tag if tag == "is_a" else str(clause.typedef))
        elif tag == "synonym":
            details.setdefault("synonyms", []).append(clause.synonym.desc)
        else:
            details.setdefault(tag, []).append(clause.raw_value())
    graph.add_node(node_id, details, kind, name or [], "\n".join(lines))
