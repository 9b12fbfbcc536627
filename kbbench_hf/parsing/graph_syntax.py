"""Triples written in a language for graphs: Cypher, Turtle, REBEL's linear form, records of LightRAG.

A node without a name is written as `_:id`, as RDF writes blank nodes, and refused later unless its name is found.
"""

import itertools
import re
from collections.abc import Collection, Iterator

from kbbench_hf.parsing.line_triples import node_name, predicate, term_name
from kbbench_hf.parsing.parsed_reply import ParseError, Triple

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
        return list(_rebel(text))
    if "<|" in text and (records := _RECORD.findall(text)):
        return [_of_record(record) for record in records]
    if _STATEMENT.search(text):
        return list(_cypher(text))
    for notation, pattern in _UNPARSED.items():
        if match := pattern.search(text):
            raise ParseError(f"{notation}: {match[0].strip()[:40]!r}; expected one subject, relation, object per line")
    return []


def _of_record(record: str) -> Triple:
    """Return source, relation and target of a record: its relation is the shorter of keywords and description.

    Raises:
        ParseError: a record of GraphRAG, which has a description alone; or several keywords.
    """
    source, target, *texts = (part.strip(" \"'()") for part in re.split(r"<\|#?\|?>", record))
    texts = sorted((each for each in texts if not re.fullmatch(r"[\d.]+", each)), key=lambda each: len(each.split()))
    is_label = len(texts) == 2 and "," not in texts[0] and len(texts[0].split()) < len(texts[1].split())
    if not (is_label and source and target and texts[0]):
        found = "several keywords" if len(texts) == 2 else "a description alone"
        raise ParseError(
            f"a record {record.strip()[:40]!r} of GraphRAG or LightRAG; expected a relation, found {found}"
        )
    return source, texts[0], target


def _rebel(text: str) -> Iterator[Triple]:
    for match in _REBEL.finditer(text):
        for pair in re.finditer(r"<subj>([^<]*)<obj>([^<]*)", match[2]):
            triple = (match[1].strip(), pair[2].strip(), pair[1].strip())
            if all(triple):
                yield triple


def _cypher(text: str) -> Iterator[Triple]:
    """Yield the edges of statements, in either direction; a node may be named where it is first used."""
    names = {match[1]: match[3] for match in _SET.finditer(text)}
    nodes = list(_NODES.finditer(text))
    for node in nodes:
        if (variable := _VARIABLE.match(node[1])) and "{" in node[1] and (name := node_name(node[1])):
            names[variable[1]] = name

    def named(node: "re.Match[str]") -> str:
        variable = _VARIABLE.match(node[1])
        if variable and variable[1] in names:
            return names[variable[1]]
        inline = node_name(node[1]) if "{" in node[1] else ""
        if inline or not variable:
            return inline or node[1].strip(" :`\"'")
        return f"_:{variable[1]}"

    for one, other in itertools.pairwise(nodes):
        if edge := _EDGE.fullmatch(text, one.end(), other.start()):
            ends = (named(one), named(other))
            subject, obj = ends if edge[3] or not edge[1] else ends[::-1]
            if subject and obj:
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
