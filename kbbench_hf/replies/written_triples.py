"""Triples written otherwise than as JSON, line by line or as one text: tables, labels, XML, Cypher, Turtle, pairs."""

import csv
import html
import re
from collections.abc import Callable, Collection, Iterable, Iterator

from kbbench_hf.replies.labelled_triples import LABEL, in_cycles, labelled
from kbbench_hf.replies.reading import Triple
from kbbench_hf.replies.triple_parts import by_role, in_order, is_format, role_of, unmarked
from kbbench_hf.replies.written_triple import ARROWS, MARKER, bare_line, cypher, predicate, term_name, written_triple


def written_triples(text: str, relations: Collection[str] = ()) -> tuple[list[Triple], str]:
    """Return the triples of a text that is not JSON, and the rule that read them; none and "" where it has none."""
    for rule, read in _BLOCKS.items():
        if found := [each for each in read(text, relations) if not is_format(each)]:
            return found, rule
    return _lines(text, relations)


def _lines(text: str, relations: Collection[str]) -> tuple[list[Triple], str]:
    """Return the triples of lines; where what parts them occurs in prose too, all items must be triples."""
    lines = [line for line in text.splitlines() if line.strip() and not line.rstrip().endswith((":", "："))]
    found = [triple for line in lines if _strong(line) and (triple := written_triple(line, relations)) is not None]
    if found:
        return found, "lines"
    items = [line for line in lines if MARKER.match(line) and MARKER.match(line)[0].strip()] or lines  # type: ignore[index]
    triples = [written_triple(line, relations) or _commas(line) for line in items]
    return ([each for each in triples if each is not None], "lines") if items and all(triples) else ([], "")


def _strong(line: str) -> bool:
    """Whether a line is written as only triples are: with arrows, pipes, tabs, edges or whole in brackets."""
    bare = bare_line(line)
    return bool(
        ARROWS.search(bare)
        or re.search(r"[|｜\t]|::|\]-|^\(.+[,;|].+\)$|^<.+>$|^⟨|^\[", bare)
        or len(LABEL.findall(bare)) >= 3
    )


def _commas(line: str) -> Triple | None:
    """Return the triple of an item `head, relation, tail`: what further commas part belongs to the tail."""
    marker = MARKER.match(line)
    if not marker or not re.search(r"\d", marker[0]):
        return None
    match = re.fullmatch(r"([^,(]+),([^,(]+),(.+)", bare_line(line))
    return (
        (match[1].strip(), match[2].strip(), match[3].strip())
        if match and all(each.strip() for each in match.groups())
        else None
    )


def _xml(text: str, relations: Collection[str]) -> Iterator[Triple]:
    values = [
        (role, html.unescape(match[2]).strip())
        for match in re.finditer(r"<([A-Za-z][\w:-]{0,40})(?:\s[^<>]{0,200})?>([^<>]*)</\1\s*>", text)
        if (role := role_of(match[1].rpartition(":")[2])) is not None
    ]
    yield from in_cycles(values)


_VARIABLE = re.compile(r"\((\w+)\s*(?::\s*[\w`|]+)?\s*\{[^{}]*?(?:name|label|title|id)\s*:\s*(['\"])(.*?)\2[^{}]*\}\)")
_USED = re.compile(r"\((\w+)\)(\s*<?-+\s*\[[^\]]+\]\s*-+>?\s*)\((\w+)\)")


def _cypher_block(text: str, relations: Collection[str]) -> Iterator[Triple]:
    """Yield the triples of statements that first name their nodes."""
    names = {match[1]: match[3] for match in _VARIABLE.finditer(text)}
    if not names:
        return
    for match in _USED.finditer(text):
        if match[1] in names and match[3] in names:
            found = cypher(
                f'(n {{name: "{names[match[1]]}"}}){match[2].strip()}(n {{name: "{names[match[3]]}"}})', relations
            )
            if found:
                yield found


def _turtle(text: str, relations: Collection[str]) -> Iterator[Triple]:
    """Yield the triples of RDF in which a subject is followed by several predicates, parted by semicolons."""
    term = r"(?:<[^<>\n]+>|\"[^\"\n]*\"(?:@\w+|\^\^\S+)?|\w*:[\w%.,()/'’-]*[\w%)])"
    if not re.search(rf"^\s*{term}\s+{term}\s+{term}\s*;", text, re.MULTILINE):
        return
    for statement in re.split(r"\s\.(?:\s|$)", re.sub(r"^@prefix.*$", "", text, flags=re.MULTILINE)):
        pieces = [re.findall(term, part) for part in statement.split(";")]
        if pieces and len(pieces[0]) == 3:
            for terms in [pieces[0][1:], *pieces[1:]]:
                if len(terms) == 2:
                    yield term_name(pieces[0][0]), predicate(terms[0]), term_name(terms[1])


def _tables(text: str, relations: Collection[str]) -> Iterator[Triple]:
    """Yield the triples of tables with a heading, whatever parts their cells, and of tables with three columns."""
    text = re.sub(r"</t[dh]>\s*<t[dh][^>]{0,60}>", " | ", text)
    text = re.sub(r"<t[rdh][^>]{0,60}>|</t[rdh]>|</?t(?:able|body|head)[^>]{0,60}>", "\n", text)
    columns: dict[int, int] = {}
    ruled = False
    for line in text.splitlines():
        cells = _cells(line, columns)
        if cells is None:
            columns, ruled = ({}, False) if line.strip() else (columns, ruled)
            continue
        if all(re.fullmatch(r":?[-=—]{1,}:?", cell) for cell in cells):
            ruled = True
            continue
        roles = by_role(cells)
        if roles.keys() == {0, 1, 2} and len(cells) <= 8:
            columns, ruled = {role: cells.index(name) for role, name in roles.items()}, False
        elif columns and max(columns.values()) < len(cells):
            parts = [unmarked(cells[columns[role]]) for role in range(3)]
            if all(parts) and (triple := in_order(parts)) is not None:
                yield triple
        elif ruled and len(cells) == 3 and (triple := in_order(list(map(unmarked, cells)), relations)) is not None:
            yield triple


def _cells(line: str, columns: dict[int, int]) -> list[str] | None:
    """Return the cells of a row; None where a line is none."""
    for mark in ("|", "\t"):
        if line.count(mark) >= 2:
            return [cell.strip() for cell in line.strip().strip(mark).split(mark)]
    for mark in (",", ";"):
        if line.count(mark) >= 2 and (columns or by_role(line.split(mark)).keys() == {0, 1, 2}):
            row = next(csv.reader([line], delimiter=mark, skipinitialspace=True), [])
            return (
                [cell.strip() for cell in row]
                if not columns or len(row) == 3 or max(columns.values()) < len(row) < 9
                else None
            )
    return None


def _pairs(text: str, relations: Collection[str]) -> Iterator[Triple]:
    """Yield the triples of lines `["A", "B"]: relation`."""
    for line in text.splitlines():
        bare = bare_line(line)
        match = re.fullmatch(
            r"[\[(<]\s*([\"“'`])(.+?)[\"”'`]\s*[,;|]\s*([\"“'`])(.+?)[\"”'`]\s*[\])>]\s*(?:[:：=]|->|→|-+|—|–|"
            r"=>)+\s*(.+)",
            bare,
        )
        if match and (found := in_order([match[2], unmarked(match[5]), match[4]])):
            yield found


_BLOCKS: dict[str, Callable[[str, Collection[str]], Iterable[Triple]]] = {
    "table": _tables,
    "xml": _xml,
    "cypher": _cypher_block,
    "turtle": _turtle,
    "pairs": _pairs,
    "labels": labelled,
}
