"""Triples in text that is not JSON: tables, labels, XML, lines, Cypher, Turtle, REBEL's linear form, LightRAG records.

A node without a name is written as `_:id`, as RDF writes blank nodes. Triples that name nodes by id are resolved, or
refused where an id has no name. `triples` alone uses this. The order of the notations decides where a text fits
several.
"""

import csv
import html
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from kbbench_hf.parsing.lenient_json import Bare, Value, normalize_key, normalize_members
from kbbench_hf.parsing.line_triples import (
    ARROWS,
    LABEL,
    MARKER,
    UNNAMED,
    assign_roles,
    bare_line,
    in_cycles,
    is_denied,
    is_placeholder,
    is_relation,
    node_name,
    order_parts,
    parse_labels,
    parse_line,
    predicate,
    role_of,
    split_at_commas,
    strip_marks,
    term_name,
)
from kbbench_hf.parsing.parsed_reply import ParseError, Triple
from kbbench_hf.text.folding import ignoring_case


def parse_text_triples(text: str, relations: Collection[str] = ()) -> tuple[list[Triple], str]:
    """Return the triples of a text that is not JSON, and the rule that read them; none and "" where it has none."""
    blocks = {
        "table": _parse_tables,
        "xml": _parse_xml,
        "turtle": turtle,
        "pairs": _parse_pairs,
        "labels": parse_labels,
    }
    for rule, read in blocks.items():
        if results := [each for each in read(text, relations) if not is_placeholder(each)]:
            return results, rule
    return _parse_lines(text, relations)


_CONJUNCTION = r"(?:and|und|et|y|e|ed|en|och|og|i|и|和|以及|及|と)"
_BETWEEN = ignoring_case(
    rf"(?:[\s,;，；、.。|/&+·•∧⋀*#–—-]|\b{_CONJUNCTION}\b|(?<![\w(])(?:\d{{1,3}}[.):\]]|\(\d{{1,3}}\))\s)*"
)
_GROUP = re.compile(
    r"\([^()]{0,200}\)\s?<?-{1,2}\s?\[[^\[\]]{1,200}\]\s?-{1,2}>?\s?\([^()]{0,200}\)"
    r"|(?:\b[A-Z]\w{0,30})?\((?:[^()]|\([^()]{0,200}\)){1,400}\)|（[^（）]{1,400}）|<[^<>]{1,400}>|\[[^\[\]]{1,400}\]|\{[^{}]{1,400}\}"
    r"|⟨[^⟨⟩]{1,400}⟩|〈[^〈〉]{1,400}〉"
)
_SPLITS = [
    ignoring_case(pattern)
    for pattern in (
        r"\s*[;；]\s*",
        r"\s*(?:\|\||##|[∧⋀•])\s*",
        rf"\s*,?\s+{_CONJUNCTION}\s+",
        r"(?:^|[\s,;.]+)\(?\d{1,3}[.)]\s+",
        r"\s*[,，、]\s*",
        r"\.\s+",
        r"\s*[|/&·+]\s*",
        r"\s{2,}",
    )
]
_INTRODUCTION = re.compile(
    r"^[^:：(<\[{⟨|→]{1,80}[:：]\s*|^[^:：(<\[{⟨|→,;]{1,60}\b(?:is|are|sind|sont|son)\s+(?=[(<\[{⟨])"
)
_SEPARATOR = re.compile(rf"[,;|，；｜]|{ARROWS.pattern}|\]\s*-")
_HINT = re.compile(r"[,;|→>\"“\t–—，；｜（-]")
_LONGEST_LINE = 20_000


def one_per_line(text: str, relations: Collection[str] = ()) -> str:
    r"""Return a text in which each of several triples in a line has a line of its own.

    >>> one_per_line("1. (Up, director, Pete); (Up, genre, comedy) and (Up, country, US).")
    '(Up, director, Pete)\n(Up, genre, comedy)\n(Up, country, US)'
    """
    return "\n".join("\n".join(_split_line(line, relations) or [line]) for line in text.splitlines())


def _split_line(line: str, relations: Collection[str]) -> list[str]:
    """Return the triples of a line that holds several; none of any other line."""
    if len(line) > _LONGEST_LINE or len(_HINT.findall(line)) < 4:
        return []
    body = MARKER.sub("", line, count=1).strip()
    for candidate in dict.fromkeys((_INTRODUCTION.sub("", body, count=1), body)):
        bare = candidate.strip("*_ ")
        if results := _split_groups(bare, relations):
            return results
        for split in _SPLITS:
            parts = [part for part in split.split(bare) if part.strip(" .")]
            items = list(itertools.takewhile(bool, (_bracket_item(part, relations) for part in parts)))
            if len(items) == len(parts) > 1:
                return items
    return []


def _bracket_item(part: str, relations: Collection[str]) -> str:
    """Return a part of a line where it is a triple, else ""; three names with commas need brackets to be read later."""
    bare = MARKER.sub("", part, count=1).strip()
    names = split_at_commas(bare)
    if len(names) == 3 and is_relation(names[1], relations) and order_parts(names) and names[0][0] not in "([{<":
        return f"({bare})"
    return part if ("=" in part or not _PLAIN_CALL.match(part)) and parse_line(part, relations) is not None else ""


_PLAIN_CALL = re.compile(r"[\w ]+\([^()]*\)\s*$")


def _split_groups(line: str, relations: Collection[str]) -> list[str]:
    """Return the items of a line that holds only triples in brackets and words that join them."""
    groups, position = [], _BETWEEN.match(line).end()  # type: ignore[union-attr]
    while match := _GROUP.match(line, position):
        groups.append(match[0])
        position = _BETWEEN.match(line, match.end()).end()  # type: ignore[union-attr]
    if len(groups) < 2 or line[position:].strip("*_ ") or not all(map(_SEPARATOR.search, groups)):
        return []
    return groups if any(parse_line(group, relations) for group in groups) else []


def _parse_lines(text: str, relations: Collection[str]) -> tuple[list[Triple], str]:
    """Return the triples of lines; where the separator also occurs in prose, all items must be triples."""
    lines = _RULED_TABLE.sub("", text).splitlines()
    lines = [line for line in lines if line.strip() and not line.rstrip().endswith((":", "："))]
    written = [parse_line(line, relations) for line in lines if _is_written_as_triple(line)]
    if results := [triple for triple in written if triple is not None]:
        return results, "lines"
    items = [line for line in lines if MARKER.match(line) and MARKER.match(line)[0].strip()] or lines  # type: ignore[index]
    triples = [parse_line(line, relations) or _parse_commas(line) for line in items]
    return ([each for each in triples if each is not None], "lines") if items and all(triples) else ([], "")


_EMPTY = re.compile(r"[-–—.…]+")
_ROW = r"(?=[^\n|\t]*[|\t])[^\n]*"
_RULED_TABLE = re.compile(rf"^{_ROW}\n(?=[ \t|:]*[=—-])[ \t|:=—-]+\n(?:{_ROW}(?:\n|$))*", re.MULTILINE)
"""A table with a rule under its heading; `_parse_tables` parses those that hold triples."""


def _is_written_as_triple(line: str) -> bool:
    """Whether a line is written as only triples are: with arrows, pipes, tabs, edges or whole in brackets."""
    bare = bare_line(line).removesuffix(" .")
    marked = ARROWS.search(bare) or re.search(r"[|｜\t]|::|\]-|^\(.+[,;|].+\)$|^<.+>$|^⟨|^\[", bare)
    return marked is not None or len(LABEL.findall(bare)) >= 3


def _parse_commas(line: str) -> Triple | None:
    """Return the triple of an item `head, relation, tail`; further commas belong to the tail."""
    marker = MARKER.match(line)
    if not marker or not re.search(r"\d", marker[0]):
        return None
    match = re.fullmatch(r"([^,(]+),([^,(]+),(.+)", bare_line(line))
    parts = [each.strip() for each in match.groups()] if match else []
    return (parts[0], parts[1], parts[2]) if parts and all(parts) else None


def _parse_xml(text: str, relations: Collection[str]) -> Iterator[Triple]:
    """Yield the triples of elements that are named after the parts of a triple."""
    elements = re.findall(r"<([A-Za-z][\w:-]{0,40})(?:\s[^<>]{0,200})?>([^<>]*)</\1\s*>", text)
    values = [(role_of(name.rpartition(":")[2]), html.unescape(value).strip()) for name, value in elements]
    return in_cycles((role, value) for role, value in values if role is not None)


def _parse_tables(text: str, relations: Collection[str]) -> Iterator[Triple]:
    """Yield the triples of tables with a heading, whatever parts their cells, and of tables with three columns."""
    text = re.sub(r"</t[dh]>\s*<t[dh][^>]{0,60}>", " | ", text)
    text = re.sub(r"<t[rdh][^>]{0,60}>|</t[rdh]>|</?t(?:able|body|head)[^>]{0,60}>", "\n", text)
    columns: dict[int, int] = {}
    flags: dict[int, str] = {}
    ruled, subject = False, ""
    for line in text.splitlines():
        cells = _split_cells(line, columns)
        if cells is None:
            columns, ruled = ({}, False) if line.strip() else (columns, ruled)
            continue
        if all(re.fullmatch(r":?[-=—]{1,}:?", cell) for cell in cells):
            ruled = True
            continue
        roles = assign_roles(cells)
        if roles.keys() == {0, 1, 2} and len(cells) <= 8:
            columns, ruled, subject = {role: cells.index(name) for role, name in roles.items()}, False, ""
            flags = {position: name for position, name in enumerate(cells) if position not in columns.values()}
        elif columns and max(columns.values()) < len(cells):
            parts = [strip_marks(cells[columns[role]]) for role in range(3)]
            parts[0] = subject = parts[0] or subject  # a blank cell below a subject stands for it
            denied = any(position < len(cells) and is_denied(name, cells[position]) for position, name in flags.items())
            if (triple := order_parts(parts)) and not denied and not any(map(_EMPTY.fullmatch, parts)):
                yield triple
        elif ruled and len(cells) == 3 and is_relation(cells[1], relations):
            yield from filter(None, [order_parts([*map(strip_marks, cells)], relations)])


def _split_cells(line: str, columns: dict[int, int]) -> list[str] | None:
    """Return the cells of a row; None where a line is none."""
    for mark in ("|", "\t"):
        if line.count(mark) >= 2:
            return [cell.strip() for cell in line.strip().strip(mark).split(mark)]
    for mark in (",", ";"):
        if line.count(mark) >= 2 and (columns or assign_roles(line.split(mark)).keys() == {0, 1, 2}):
            row = next(csv.reader([line], delimiter=mark, skipinitialspace=True), [])
            fits = not columns or len(row) == 3 or max(columns.values()) < len(row) < 9
            return [cell.strip() for cell in row] if fits else None
    return None


def _parse_pairs(text: str, relations: Collection[str]) -> Iterator[Triple]:
    """Yield the triples of lines `["A", "B"]: relation`."""
    for line in text.splitlines():
        bare = bare_line(line)
        match = re.fullmatch(
            r"[\[(<]\s*([\"“'`])(.+?)[\"”'`]\s*[,;|]\s*([\"“'`])(.+?)[\"”'`]\s*[\])>]\s*(?:[:：=]|->|→|-+|—|–|"
            r"=>)+\s*(.+)",
            bare,
        )
        if match and (results := order_parts([match[2], strip_marks(match[5]), match[4]])):
            yield results


_NODE = r"\(((?:[^()\"']|\"[^\"]*\"|'(?:[^'\\]|\\.)*')*)\)"
_NODES = re.compile(_NODE)
_EDGE = re.compile(r"\s*(<?)\s*-{1,2}\s*\[\s*\w*\s*:?\s*`?([^\]`{]+?)`?\s*(?:\{[^}]*\})?\s*\]\s*-{1,2}\s*(>?)\s*")
_STATEMENT = re.compile(r"\b(?:CREATE|MERGE|MATCH)\b\s*(?:\w+\s*=\s*)?\(")
_SET = re.compile(r"\b(\w+)\.(?:name|title|label)\s*=\s*(['\"])(.*?)\2")
_VARIABLE = re.compile(r"\s*(\w+)\s*(?:$|:|\{)")
_REBEL = re.compile(r"<triplet>([^<]*)((?:\s*<subj>[^<]*<obj>[^<]*)+)")
_RECORD = re.compile(r"\(?\W{0,3}(?:relation|relationship)\W{0,3}<\|#?\|?>(.*?)(?=\)?\s*(?:##|\n|<\|COMPLETE\|>|\Z))")
"""A relationship of LightRAG (source, target, keywords, description) or of GraphRAG, between delimiters."""
_UNPARSED = {
    "annotations of brat": re.compile(r"^[^\w\n]*T\d+\t\S+ \d+ \d+|\bArg\d:[TE]\d", re.MULTILINE),
    "a graph in DOT": re.compile(r"[\w\"']\s?\[(?:[^\]\n(]{0,200}[\s,;])?label\s?="),
    "a graph in Mermaid": re.compile(
        r"^[^\w\n]*(?:graph|flowchart)\s+(?:TD|TB|BT|LR|RL)\b|[-=]{2}>\s*\||\b[A-Z]\d?\[[^\]\n]{1,200}\]\s?[-=]{2,3}>",
        re.MULTILINE,
    ),
    "arrows to the left": re.compile(r"(?:[←⟵⟸⇐]|<-{1,3})[^\n<>←⟵⟸⇐]+(?:[←⟵⟸⇐]|<-|-(?!\s*\()\s)"),
    "a ditto mark": re.compile(r"(?:^|[(|\t→>])[ ]?(?:[\"“”〃″]|'')[ ]?(?=[|;\t→]|,\s?\w|-+>)", re.MULTILINE),
}
"""Notations whose triples other parsers would misread."""


def parse_graph(text: str) -> list[Triple]:
    """Return the triples of a text in Cypher, in REBEL's linear form or in LightRAG's records; none of any other text.

    >>> parse_graph("CREATE (p:Film {id: 1, name: 'Up'}) CREATE (q {name: 'Pete'}) CREATE (p)-[:DIRECTOR]->(q)")
    [('Up', 'DIRECTOR', 'Pete')]
    >>> parse_graph("<triplet> Up <subj> Pete <obj> director <subj> comedy <obj> genre")
    [('Up', 'director', 'Pete'), ('Up', 'genre', 'comedy')]

    Raises:
        ParseError: the text is in another notation for graphs, or has ditto marks.
    """
    if "<triplet>" in text and "<subj>" in text:
        return list(_parse_rebel(text))
    if "<|" in text and (records := _RECORD.findall(text)):
        return [_parse_record(record) for record in records]
    if _STATEMENT.search(text):
        return list(_parse_cypher(text))
    for notation, pattern in _UNPARSED.items():
        if match := pattern.search(text):
            raise ParseError(f"{notation}: {match[0].strip()[:40]!r}; expected one subject, relation, object per line")
    return []


def _parse_record(record: str) -> Triple:
    """Return source, relation and target of a record: its relation is the shorter of keywords and description.

    Raises:
        ParseError: a record of GraphRAG, which has a description alone; or several keywords.
    """
    source, target, *texts = (part.strip(" \"'()") for part in re.split(r"<\|#?\|?>", record))
    texts = sorted((each for each in texts if not re.fullmatch(r"[\d.]+", each)), key=lambda each: len(each.split()))
    is_label = len(texts) == 2 and "," not in texts[0] and len(texts[0].split()) < len(texts[1].split())
    if not (is_label and source and target and texts[0]):
        shown = record.strip()[:40]
        raise ParseError(f"a record {shown!r} of GraphRAG or LightRAG; expected a relation and its description")
    return source, texts[0], target


def _parse_rebel(text: str) -> Iterator[Triple]:
    """Yield the triples of REBEL's linear form: a subject, then pairs of an object and a relation."""
    for match in _REBEL.finditer(text):
        for pair in re.finditer(r"<subj>([^<]*)<obj>([^<]*)", match[2]):
            triple = (match[1].strip(), pair[2].strip(), pair[1].strip())
            if all(triple):
                yield triple


def _parse_cypher(text: str) -> Iterator[Triple]:
    """Yield the edges of statements, in either direction; a node may be named where it is first used."""
    names = {match[1]: match[3] for match in _SET.finditer(text)}
    nodes = list(_NODES.finditer(text))
    for node in nodes:
        if (variable := _VARIABLE.match(node[1])) and "{" in node[1] and (name := node_name(node[1])):
            names[variable[1]] = name

    def named(node: "re.Match[str]") -> str:
        """Return the name of a node: that of its variable, its own, or `_:` and the variable without a name."""
        variable = _VARIABLE.match(node[1])
        if variable and variable[1] in names:
            return names[variable[1]]
        has_properties = "{" in node[1]
        if has_properties and (inline := node_name(node[1])):
            return inline
        if variable:
            return f"_:{variable[1]}"
        words = "" if has_properties else node[1].strip(" :`\"'")
        return words or UNNAMED

    for one, other in itertools.pairwise(nodes):
        if edge := _EDGE.fullmatch(text, one.end(), other.start()):
            ends = (named(one), named(other))
            subject, obj = ends if edge[3] or not edge[1] else ends[::-1]
            yield subject, edge[2].strip(), obj


def turtle(text: str, relations: Collection[str]) -> Iterator[Triple]:
    """Yield the triples of RDF in which a subject is followed by several predicates, with semicolons between them."""
    term = r"(?:<[^<>\n]+>|\"[^\"\n]*\"(?:@\w+|\^\^\S+)?|\w*:[\w%.,()/'’-]*[\w%)]|\ba\b)"
    if not re.search(rf"^[ \t]*{term}\s+{term}\s+{term}\s*;", text, re.MULTILINE):
        return
    for statement in re.split(r"\s\.(?:\s|$)", re.sub(r"^@prefix.*$", "", text, flags=re.MULTILINE)):
        pieces = [re.findall(term, part) for part in statement.split(";")]
        if pieces and len(pieces[0]) == 3 and not pieces[0][0].startswith('"'):
            for terms in [pieces[0][1:], *pieces[1:]]:
                if len(terms) == 2 and terms[0] != "a":
                    yield term_name(pieces[0][0]), predicate(terms[0]), term_name(terms[1])


_IDS = ("id", "nodeid", "entityid", "identifier", "key", "eid", "uid", "uuid", "elementid", "ref")
_NAMES = (
    "name fullname entityname nodename text mention title surface canonicalname preflabel displayname entity value term"
).split()
_HELD_IN = ("properties", "props", "attributes", "attrs", "data")
_NODE_LISTS = re.compile(r"node|entit|vertices|vertex|concept|propert|relationtype|predicate")
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
        names_node = normalize_key(relation) in _LABEL_RELATIONS and names.get(_strip_blank_node(subject)) == obj
        if names_node and _is_id(subject, source):  # ("n1", "name", "Up") says nothing of Up
            continue
        pair = [_resolve_name(name, names, source) for name in (subject, obj)]
        is_sure = any(_is_id(name, "") and not _occurs(name, source) for name in pair)
        if is_sure or all(_is_id(name, source) for name in pair):
            return None
        resolved.append((pair[0], names.get(relation, relation), pair[1]))
    return resolved


def _resolve_name(name: str, names: Mapping[str, str], source: str) -> str:
    """Return the name of an id; the text itself where the source has it, or no name is known."""
    if _occurs(name, source) and not _occurs(names.get(name, name), source):
        return name
    return names.get(name, names.get(_strip_blank_node(name), _PREFIXED.sub("", name)))


def _strip_blank_node(name: str) -> str:
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
        is_edge = {0, 2} <= assign_roles(list(value)).keys()
        if node is not None and not is_edge and (name := _find_name(members, in_text)):
            yield node, name
        for inner, each in value.items():
            if _NODE_LISTS.search(key):  # the id is the key
                own = normalize_members(each) if isinstance(each, dict) else {"name": each}
                if (name := _find_name(own, source)) and inner != name:
                    yield inner, name
            yield from _named_nodes(each, source, normalize_key(inner), depth + 1)
    elif isinstance(value, list):
        lists_nodes = _NODE_LISTS.search(key)
        for position, each in enumerate(value):
            if isinstance(each, dict) and lists_nodes:
                members = normalize_members(each)
                if not members.keys() & {*_IDS, *_HELD_IN} and (name := _find_name(members, source)):
                    yield str(position), name  # links refer to the place in the list
            elif isinstance(each, list) and lists_nodes and {*map(type, each)} <= {str, Bare} and len(each) == 2:
                yield str(each[0]), str(each[1])
            yield from _named_nodes(each, source, key, depth + 1)


def _find_name(members: Mapping[str, Value], source: str) -> str:
    """Return the name of a node, "" where it has none; a label may also be its type."""
    for holder in _HELD_IN:
        if isinstance(member := members.get(holder), dict):
            inner = normalize_members(member)
            if holder != "data":
                inner.pop("label", None)  # the node's type
            if name := _find_name(inner, source):
                return name
    for key in _NAMES:
        if isinstance(named := members.get(key), str) and named.strip():
            return named.strip()
    label = members.get("label")
    if isinstance(label, str) and (_occurs(label, source) or not source or any(kind in members for kind in _KINDS)):
        return label.strip()
    return ""
