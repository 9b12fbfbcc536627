"""Names of the nodes of a graph: triples that name nodes by id are resolved, or refused where an id has no name."""

import re
from collections.abc import Iterable, Iterator, Mapping

from kbbench_hf.parsing.lenient_json import Value, normalize_key, normalize_members
from kbbench_hf.parsing.parsed_reply import Triple
from kbbench_hf.parsing.triple_parts import assign_roles

_IDS = ("id", "nodeid", "entityid", "identifier", "key", "eid", "uid", "uuid", "elementid", "ref")
_NAMES = (
    "name fullname entityname nodename text mention title surface canonicalname preflabel displayname entity value term"
).split()
_HELD_IN = ("properties", "props", "attributes", "attrs", "data")
_NODES = re.compile(r"node|entit|vertices|vertex|concept|propert|relationtype|predicate")
_KINDS = ("type", "types", "group", "category", "class", "kind", "entitytype", "labels")
_LOCAL = r"(?:<?(?:https?://[^\s<>]*[/#])?|_?[\w.-]*:)([\w.-]+)>?"
_LABELED_IN_RDF = re.compile(
    rf"{_LOCAL}\s+(?:[^.\"\n]{{0,200}}?;\s*)?<?[\w:/.#-]{{0,60}}?(?:label|name|title|prefLabel)>?\s+\"([^\"\n]+)\"",
)
_LABELED_IN_LINES = re.compile(
    r"^[\s>*•-]*(?:id\s*[:=]\s*)?[\[(]?([A-Za-z]{1,10}[_-]?\d{1,4}|\d{1,3})[\])]?\s*"
    r"(?:[:=.)]\s*|\s[-–—]\s|\n\s+(?:name|label|text)\s*:\s*|(?<=\])\s*)([^\n:|,;→(){}\[\]]{2,80})$",
    re.MULTILINE,
)
_LABEL_RELATIONS = frozenset({"label", "name", "title", "preflabel"})
_ID = re.compile(
    r"_:[\w.-]+|(?:node|entity|ent|vertex|person|place|org|obj|item|id)[_-]?\d{1,4}|[a-zA-Z][_-]?\d{1,4}|[PQ]\d+"
    r"|\d{1,3}|[a-z]|[0-9a-f]{4,8}(?:-[0-9a-f]{2,12})+",
)
_SURE_ID = re.compile(r"_:[\w.-]+|(?:node|entity|vertex)[_-]?\d{1,4}|n\d{1,4}")
"""What is an id even where the text that it is missing from is not known."""
_PREFIXED = re.compile(r"\A(?:n|e|node|entity|ent)[_-]?\d{1,4}\s*:\s*(?=\S)", re.IGNORECASE)


def resolve_node_ids(triples: list[Triple], values: Iterable[Value], response: str, source: str) -> list[Triple] | None:
    """Return triples with the names of nodes in place of their ids; None where an id has no name.

    Args:
        triples: as they were read.
        values: the JSON of the reply, in which nodes may be listed.
        response: the reply, in which nodes may be listed in another form.
        source: the text that the triples are of; what it contains is no id.

    >>> nodes = [{"id": "n1", "properties": {"name": "Up"}}, {"id": "n2", "properties": {"name": "Pete"}}]
    >>> resolve_node_ids([("n1", "director", "n2")], [nodes], "", "")
    [('Up', 'director', 'Pete')]
    >>> resolve_node_ids([("n1", "director", "n3")], [nodes], "", "") is None
    True
    """
    names: dict[str, str] = {}
    for value in values:
        for node, name in _named_nodes(value, source):
            names.setdefault(node, name)
    used = {name for subject, _, obj in triples for name in (subject, obj)}
    if any(_is_id(name, source) for name in used - names.keys()):
        for pattern in (_LABELED_IN_RDF, _LABELED_IN_LINES):
            for match in pattern.finditer(response):
                names.setdefault(match[1], match[2].strip())
    resolved: list[Triple] = []
    for subject, relation, obj in triples:
        if normalize_key(relation) in _LABEL_RELATIONS and names.get(_bare(subject)) == obj and _is_id(subject, source):
            continue
        pair = [_resolved(name, names, source) for name in (subject, obj)]
        if all(_is_id(name, source) for name in pair) or any(
            _is_id(name, "") and not _occurs(name, source) for name in pair
        ):
            return None
        resolved.append((pair[0], names.get(relation, relation), pair[1]))
    return resolved


def _resolved(name: str, names: Mapping[str, str], source: str) -> str:
    if _occurs(name, source) and not _occurs(names.get(name, name), source):
        return name
    return names.get(name, names.get(_bare(name), _PREFIXED.sub("", name)))


def _bare(name: str) -> str:
    return name.removeprefix("_:")


def _occurs(name: str, source: str) -> bool:
    return bool(source) and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", source) is not None


def _is_id(name: str, source: str) -> bool:
    """Whether a name is only an id: it looks like one, and the text does not contain it."""
    return (_ID if source else _SURE_ID).fullmatch(name) is not None and not _occurs(name, source)


def _named_nodes(value: Value, source: str, key: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the id and the name of each node that a value lists, in whatever form."""
    if depth > 8:
        return
    if isinstance(value, dict):
        members = normalize_members(value)
        node = next((str(members[name]) for name in _IDS if isinstance(members.get(name), str | int)), None)
        in_text = "" if key.startswith(("propert", "predicate", "relationtype")) else source
        if node is not None and not {0, 2} <= assign_roles(list(value)).keys() and (name := _name(members, in_text)):
            yield node, name
        for inner, each in value.items():
            if _NODES.search(key):  # the id is the key
                own = normalize_members(each) if isinstance(each, dict) else {"name": each}
                if (name := _name(own, source)) and inner != name:
                    yield inner, name
            yield from _named_nodes(each, source, normalize_key(inner), depth + 1)
    elif isinstance(value, list):
        for position, each in enumerate(value):
            if isinstance(each, dict) and _NODES.search(key):
                members = normalize_members(each)
                if not members.keys() & {*_IDS, *_HELD_IN} and (name := _name(members, source)):
                    yield str(position), name  # links refer to the place in the list
            elif (
                isinstance(each, list)
                and _NODES.search(key)
                and len(each) == 2
                and all(isinstance(member, str) for member in each)
            ):
                yield str(each[0]), str(each[1])
            yield from _named_nodes(each, source, key, depth + 1)


def _name(members: Mapping[str, Value], source: str) -> str:
    """Return the name of a node, "" where it has none; a label may also be its type."""
    for holder in _HELD_IN:
        if isinstance(member := members.get(holder), dict):
            inner = normalize_members(member)
            if name := _name({key: each for key, each in inner.items() if key != "label" or holder == "data"}, source):
                return name
    for key in _NAMES:
        if isinstance(named := members.get(key), str) and named.strip():
            return named.strip()
    label = members.get("label")
    if isinstance(label, str) and (_occurs(label, source) or not source or any(kind in members for kind in _KINDS)):
        return label.strip()
    return ""
