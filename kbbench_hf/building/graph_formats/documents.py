"""Graphs in documents: APOC csv and JSON, GraphML, node-link JSON of networkx, LlamaIndex property graphs.

For each format there is a detector of one file and a reader, which adds the nodes and edges of all its files to a
collector. `graph_formats.FORMATS` lists them.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from itertools import chain
from typing import Any
from xml.etree import ElementTree

from kbbench_hf.building.graph_formats.collector import GraphCollector, id_text, split_labels, undirected_note
from kbbench_hf.building.graph_formats.graph_files import KNOWN, GraphFile
from kbbench_hf.errors import DataError
from kbbench_hf.files.rows import Unreadable
from kbbench_hf.files.table_files import file_errors

_LINKS = ("links", "edges")
"""Names of the list of edges in node-link JSON, before networkx 3.4 and since."""
_ENDS = (("source", "target"), ("from", "to"), ("start", "end"), ("head", "tail"), ("subject", "object"))
"""Names of the ends of an edge in node-link JSON."""
_SCALARS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("int", "long"), int),
    **dict.fromkeys(("float", "double"), float),
    "boolean": lambda text: text.strip().lower() in ("true", "1"),
}
"""Types of GraphML's keys that are not text."""


def is_apoc(file: GraphFile) -> bool:
    """Return whether a table or document is an export of APOC."""
    if file.kind in ("csv", "parquet"):
        return file.has("_id", "_labels") or file.has("_start", "_end", "_type")
    return file.has("nodes", "rels") or (file.has("type", "id") and (file.has("labels") or file.has("start", "end")))


def read_apoc(files: Sequence[GraphFile], graph: GraphCollector) -> None:
    """Add exports of `apoc.export.csv` and `apoc.export.json` (JSON Lines, an array, or one object).

    Source: APOC's manual, "Export to CSV" and "Export to JSON".
    """
    ends: dict[str, Any] = {}
    for file in files:
        document = file.document
        is_whole = isinstance(document, dict) and "rels" in document
        parts = [document[part] for part in ("nodes", "rels")] if is_whole else [file.rows()]
        for row in chain.from_iterable(part.values() if isinstance(part, dict) else part for part in parts):
            _add_apoc_row(graph, row, ends)
    for node_id, row in ends.items():  # nodes that were exported with their relationships only
        if node_id not in graph.row_of_id:
            _add_apoc_row(graph, row, {})


def _add_apoc_row(graph: GraphCollector, row: dict[str, Any], ends: dict[str, Any]) -> None:
    """Add a node or an edge; `ends` gets the nodes that an edge describes and that have not been added yet."""
    if "_id" in row or "_start" in row:  # csv: all properties of all labels are columns
        node_id, labels, start, end, kind = (
            row.pop(f"_{name}", "") for name in ("id", "labels", "start", "end", "type")
        )
        properties = {name: _apoc_value(value) for name, value in row.items() if value}
        if start or end:
            graph.add_edge(start, end, properties, kind or [])
        else:
            graph.add_node(node_id, properties, split_labels(labels, ":;"))
    elif "start" in row:
        nodes = [row[end] if isinstance(row[end], dict) else {"id": row[end]} for end in ("start", "end")]
        head, tail = (node.get("id") for node in nodes)
        for node in nodes:
            node_id = id_text(node.get("id"))
            if node_id not in graph.row_of_id and (node.get("labels") or node.get("properties")):
                ends[node_id] = ends.get(node_id, {}) | node
        graph.add_edge(head, tail, row.get("properties") or {}, row.get("label") or [])
    else:
        graph.add_node(row.get("id"), row.get("properties") or {}, row.get("labels") or [])


def _apoc_value(text: Any) -> Any:
    """Return a list in a cell of APOC's csv as a list."""
    if isinstance(text, str) and text.startswith("["):
        with suppress(ValueError):
            return json.loads(text)
    return text


def is_node_link(file: GraphFile) -> bool:
    """Return whether a JSON document has lists of nodes and links, perhaps in cytoscape's `elements`."""
    document = _elements(file.document)
    return isinstance(document.get("nodes"), list) and any(isinstance(document.get(name), list) for name in _LINKS)


def _elements(document: Any) -> Mapping[str, Any]:
    """Return the object with the lists of nodes and links; an empty one where a document has none."""
    inner = document.get("elements", document) if isinstance(document, dict) else {}
    return inner if isinstance(inner, dict) else {}


def read_node_link(files: Sequence[GraphFile], graph: GraphCollector) -> None:
    """Add node-link data of networkx; ends may be positions of nodes, as in its first versions.

    Source: networkx 3.6, readwrite/json_graph/node_link.py.
    """
    for file in files:
        document = _elements(file.document)
        nodes = [_unwrap_data(node) for node in document["nodes"]]
        links, edges = (document.get(name) or [] for name in _LINKS)
        links = [_unwrap_data(link) for link in (links if links == edges else [*links, *edges])]
        names = ("id", "name", "key") if any("id" in node for node in nodes) else ("name", "key", "label")
        ids = [next((node[name] for name in names if node.get(name) is not None), None) for node in nodes]
        _refuse_equal_texts(file, ids)
        for node_id, node in zip(ids, nodes, strict=True):
            graph.add_node(node_id, {name: value for name, value in node.items() if name != "id"})
        ends = next((each for each in _ENDS if links and each[0] in links[0]), _ENDS[0])
        by_place = bool(links) and all(type(link.get(end)) is int for link in links for end in ends)
        by_place = by_place and not any(type(each) is int for each in ids)
        for link in links:
            head, tail = (link.get(end) for end in ends)
            if by_place:  # what is no position stays, and leads to no node
                head, tail = (ids[end] if 0 <= end < len(ids) else end for end in (head, tail))
            further = {name: value for name, value in link.items() if name not in (*ends, "id")}
            key = further.pop("key", None)
            graph.add_edge(head, tail, {"relation": key, **further} if isinstance(key, str) else further)
        if document.get("directed", file.document.get("directed")) is False:
            graph.notes.append(undirected_note(len(links)))


def _unwrap_data(item: Any) -> dict[str, Any]:
    """Return a node or an edge, from under `data` as in cytoscape's JSON."""
    if isinstance(item, dict):
        inner = item.get("data")
        return inner if isinstance(inner, dict) and len(item) <= 4 and "id" not in item else item
    return {"id": item}


def _refuse_equal_texts(file: GraphFile, ids: Sequence[object]) -> None:
    """Refuse ids such as 1 and "1", which are two nodes and would be one."""
    seen: dict[str, object] = {}
    for each in ids:
        if (first := seen.setdefault(id_text(each), each)) != each:
            raise DataError(
                f"{file.path}: the nodes {first!r} and {each!r} have one id as text; expected ids that differ as text. "
                "Write all ids as text."
            )


def is_llamaindex(file: GraphFile) -> bool:
    """Return whether a JSON document is a property graph store of LlamaIndex, or its older graph store."""
    document = file.document
    if not isinstance(document, dict):
        return False
    return (file.has("nodes", "relations") and isinstance(document["nodes"], dict)) or file.has("graph_dict")


def read_llamaindex(files: Sequence[GraphFile], graph: GraphCollector) -> None:
    """Add property graphs of LlamaIndex.

    Source: llama-index-core 0.14, graph_stores/types.py (LabelledPropertyGraph) and graph_stores/simple.py.
    """
    for file in files:
        document = file.document
        for node_id, node in document.get("nodes", {}).items():
            further = (node.get("properties") or {}) | ({"text": node["text"]} if node.get("text") else {})
            graph.add_node(node_id, further, node.get("label") or [], node.get("name") or None)
        for edge in document.get("relations", {}).values():
            graph.add_edge(edge["source_id"], edge["target_id"], edge.get("properties") or {}, edge.get("label") or [])
        for head, pairs in document.get("graph_dict", {}).items():
            for relation, tail in pairs:
                graph.add_edge(head, tail, {}, relation)


def is_graphml(file: GraphFile) -> bool:
    """Return whether XML is GraphML."""
    return file.kind == "xml" and re.search(r"<(\w+:)?graphml\b", file.head) is not None


def read_graphml(files: Sequence[GraphFile], graph: GraphCollector) -> None:
    """Add GraphML files, element by element; hyperedges are counted and left out.

    Source: the GraphML primer.
    """
    for file in files:
        with file_errors(file.path, KNOWN), closing(file.open()) as opened:
            if b"<!ENTITY" in opened.head:
                raise Unreadable("XML that defines entities, which are not expanded here", "Write it without them.")
            try:
                _GraphmlReader(graph).read(opened.stream)
            except ElementTree.ParseError as error:
                raise Unreadable(f"not XML: {error}", "Write it again.", error.position[0]) from None


class _GraphmlReader:
    """Reader of one GraphML file."""

    def __init__(self, graph: GraphCollector) -> None:
        self._graph = graph
        self._keys: dict[str, tuple[str, str, str]] = {}
        """Key -> (its name, type, what it is for)."""
        self._defaults: dict[str, Any] = {}
        self._n_undirected = 0

    def read(self, stream: Any) -> None:
        """Add all nodes and edges."""
        parents: list[Any] = []
        for event, element in ElementTree.iterparse(stream, ("start", "end")):  # noqa: S314 (without entities)
            tag = element.tag.rpartition("}")[2]
            if event == "start":
                parents.append(element)
                continue
            parents.pop()
            if tag == "key":
                self._add_key(element)
            elif tag == "node":
                labels = split_labels(element.get("labels"), ":")
                self._graph.add_node(element.get("id"), self._properties(element, "node"), labels or None)
            elif tag == "edge":
                default = "false" if parents[-1].get("edgedefault") == "undirected" else "true"
                self._n_undirected += element.get("directed", default) != "true"
                ends, properties = (element.get("source"), element.get("target")), self._properties(element, "edge")
                self._graph.add_edge(*ends, properties, element.get("label"))
            elif tag == "hyperedge":
                self._graph.skip("Hyperedges", element.get("id"))
            if tag in ("node", "edge", "hyperedge"):
                parents[-1].remove(element)
        if self._n_undirected:
            self._graph.notes.append(undirected_note(self._n_undirected))

    def _add_key(self, element: Any) -> None:
        key, domain = element.get("id"), element.get("for", "all")
        kind = element.get("attr.type", "string")
        drawn = "label" if "graphics" in element.get("yfiles.type", "") else key  # yEd keeps labels in its drawings
        self._keys[key] = (element.get("attr.name") or drawn, kind, domain)
        for default in (each for each in element if each.tag.endswith("default")):
            self._defaults[key] = self._value(key, default)

    def _value(self, key: str, element: Any) -> Any:
        """Return the text of an element in the type of its key; as text where it is no value of that type."""
        text = "".join(element.itertext()).strip()
        with suppress(ValueError):
            return _SCALARS.get(self._keys.get(key, ("", "", ""))[1], str)(text)
        return text

    def _properties(self, element: Any, what: str) -> dict[str, Any]:
        """Return the properties of a node or an edge (`what`) by their names, with the defaults of absent ones."""
        found = {
            self._keys[key][0]: value for key, value in self._defaults.items() if self._keys[key][2] in (what, "all")
        }
        for data in element:
            if data.tag.endswith("data"):
                key = data.get("key")
                found[self._keys.get(key, (key, "", ""))[0] or "label"] = self._value(key, data)
            elif data.tag.endswith("desc"):
                found.setdefault("description", self._value("", data))
        if isinstance(labels := found.get("labels"), str):
            found["labels"] = split_labels(labels, ":")
        return found
