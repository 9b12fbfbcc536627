"""Triples in text that is not JSON: tables, labels, XML, Turtle, pairs, and lines."""

import csv
import html
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator

from kbbench_hf.parsing.graph_syntax import turtle
from kbbench_hf.parsing.line_triples import (
    ARROWS,
    LABEL,
    MARKER,
    assign_roles,
    bare_line,
    in_cycles,
    is_denied,
    is_placeholder,
    is_relation,
    order_parts,
    parse_labels,
    parse_line,
    role_of,
    split_at_commas,
    strip_marks,
)
from kbbench_hf.parsing.parsed_reply import Triple


def parse_text_triples(text: str, relations: Collection[str] = ()) -> tuple[list[Triple], str]:
    """Return the triples of a text that is not JSON, and the rule that read them; none and "" where it has none."""
    for rule, read in _BLOCKS.items():
        if results := [each for each in read(text, relations) if not is_placeholder(each)]:
            return results, rule
    return _lines(text, relations)


_CONJUNCTION = r"(?:and|und|et|y|e|ed|en|och|og|i|и|和|以及|及|と)"
_BETWEEN = re.compile(
    rf"(?:[\s,;，；、.。|/&+·•∧⋀*#–—-]|\b{_CONJUNCTION}\b|(?<![\w(])(?:\d{{1,3}}[.):\]]|\(\d{{1,3}}\))\s)*",
    re.IGNORECASE,
)
_GROUP = re.compile(
    r"\([^()]{0,200}\)\s?<?-{1,2}\s?\[[^\[\]]{1,200}\]\s?-{1,2}>?\s?\([^()]{0,200}\)"
    r"|(?:\b[A-Z]\w{0,30})?\((?:[^()]|\([^()]{0,200}\)){1,400}\)|（[^（）]{1,400}）|<[^<>]{1,400}>|\[[^\[\]]{1,400}\]|\{[^{}]{1,400}\}"
    r"|⟨[^⟨⟩]{1,400}⟩|〈[^〈〉]{1,400}〉"
)
_SPLITS = [
    re.compile(pattern, re.IGNORECASE)
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
    return "\n".join("\n".join(_items(line, relations) or [line]) for line in text.splitlines())


def _items(line: str, relations: Collection[str]) -> list[str]:
    """Return the triples of a line that holds several; none of any other line."""
    if len(line) > _LONGEST_LINE or len(_HINT.findall(line)) < 4:
        return []
    body = MARKER.sub("", line, count=1).strip()
    for candidate in dict.fromkeys((_INTRODUCTION.sub("", body, count=1), body)):
        bare = candidate.strip("*_ ")
        if results := _groups(bare, relations):
            return results
        for split in _SPLITS:
            parts = [part for part in split.split(bare) if part.strip(" .")]
            items = list(itertools.takewhile(bool, (_item(part, relations) for part in parts)))
            if len(items) == len(parts) > 1:
                return items
    return []


def _item(part: str, relations: Collection[str]) -> str:
    """Return a part of a line where it is a triple, else ""; three names with commas need brackets to be read later."""
    bare = MARKER.sub("", part, count=1).strip()
    names = split_at_commas(bare)
    if len(names) == 3 and is_relation(names[1], relations) and order_parts(names) and names[0][0] not in "([{<":
        return f"({bare})"
    return part if ("=" in part or not _PLAIN_CALL.match(part)) and parse_line(part, relations) is not None else ""


_PLAIN_CALL = re.compile(r"[\w ]+\([^()]*\)\s*$")


def _groups(line: str, relations: Collection[str]) -> list[str]:
    """Return the items of a line that holds only triples in brackets and words that join them."""
    groups, position = [], _BETWEEN.match(line).end()  # type: ignore[union-attr]
    while match := _GROUP.match(line, position):
        groups.append(match[0])
        position = _BETWEEN.match(line, match.end()).end()  # type: ignore[union-attr]
    if len(groups) < 2 or line[position:].strip("*_ ") or not all(map(_SEPARATOR.search, groups)):
        return []
    return groups if any(parse_line(group, relations) for group in groups) else []


def _lines(text: str, relations: Collection[str]) -> tuple[list[Triple], str]:
    """Return the triples of lines; where the separator also occurs in prose, all items must be triples."""
    lines = _RULED_TABLE.sub("", text).splitlines()
    lines = [line for line in lines if line.strip() and not line.rstrip().endswith((":", "："))]
    results = [triple for line in lines if _strong(line) and (triple := parse_line(line, relations)) is not None]
    if results:
        return results, "lines"
    items = [line for line in lines if MARKER.match(line) and MARKER.match(line)[0].strip()] or lines  # type: ignore[index]
    triples = [parse_line(line, relations) or _commas(line) for line in items]
    return ([each for each in triples if each is not None], "lines") if items and all(triples) else ([], "")


_EMPTY = re.compile(r"[-–—.…]+")
_ROW = r"(?=[^\n|\t]*[|\t])[^\n]*"
_RULED_TABLE = re.compile(rf"^{_ROW}\n(?=[ \t|:]*[=—-])[ \t|:=—-]+\n(?:{_ROW}(?:\n|$))*", re.MULTILINE)
"""A table with a rule under its heading; `_tables` parses those that hold triples."""


def _strong(line: str) -> bool:
    """Whether a line is written as only triples are: with arrows, pipes, tabs, edges or whole in brackets."""
    bare = bare_line(line).removesuffix(" .")
    return bool(
        ARROWS.search(bare)
        or re.search(r"[|｜\t]|::|\]-|^\(.+[,;|].+\)$|^<.+>$|^⟨|^\[", bare)
        or len(LABEL.findall(bare)) >= 3
    )


def _commas(line: str) -> Triple | None:
    """Return the triple of an item `head, relation, tail`; further commas belong to the tail."""
    marker = MARKER.match(line)
    if not marker or not re.search(r"\d", marker[0]):
        return None
    match = re.fullmatch(r"([^,(]+),([^,(]+),(.+)", bare_line(line))
    parts = [each.strip() for each in match.groups()] if match else []
    return (parts[0], parts[1], parts[2]) if parts and all(parts) else None


def _xml(text: str, relations: Collection[str]) -> Iterator[Triple]:
    values = [
        (role, html.unescape(match[2]).strip())
        for match in re.finditer(r"<([A-Za-z][\w:-]{0,40})(?:\s[^<>]{0,200})?>([^<>]*)</\1\s*>", text)
        if (role := role_of(match[1].rpartition(":")[2])) is not None
    ]
    yield from in_cycles(values)


def _tables(text: str, relations: Collection[str]) -> Iterator[Triple]:
    """Yield the triples of tables with a heading, whatever parts their cells, and of tables with three columns."""
    text = re.sub(r"</t[dh]>\s*<t[dh][^>]{0,60}>", " | ", text)
    text = re.sub(r"<t[rdh][^>]{0,60}>|</t[rdh]>|</?t(?:able|body|head)[^>]{0,60}>", "\n", text)
    columns: dict[int, int] = {}
    flags: dict[int, str] = {}
    ruled, subject = False, ""
    for line in text.splitlines():
        cells = _cells(line, columns)
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


def _cells(line: str, columns: dict[int, int]) -> list[str] | None:
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


def _pairs(text: str, relations: Collection[str]) -> Iterator[Triple]:
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


_BLOCKS: dict[str, Callable[[str, Collection[str]], Iterable[Triple]]] = {
    "table": _tables,
    "xml": _xml,
    "turtle": turtle,
    "pairs": _pairs,
    "labels": parse_labels,
}
