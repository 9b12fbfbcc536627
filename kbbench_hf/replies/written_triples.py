"""Triples written otherwise than as JSON: tables, labelled lines, XML, RDF, Cypher, arrows, tuples, pairs."""

import csv
import html
import re
from collections.abc import Callable, Collection, Iterable, Iterator

from kbbench_hf.replies.reading import Triple
from kbbench_hf.replies.triple_parts import by_role, in_order, is_format, role_of, same

_MARKER = re.compile(
    r"^[\s>]*(?:[-–—*•·▪+]\s+|\(?\d{1,3}[.):\]]\s*|\(?[a-z][.)]\s+|#{1,6}\s+)*(?:[*_]{0,2}(?:triple|triplet|fact|"
    r"relation|statement|sub-?triple|tripel|"
    r"三元组)\s*(?:no\.?\s*)?#?\s*\d{1,3}[*_]{0,2}\s*[:.)：\-–—]\s*[*_]{0,2}\s*)?",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"\s+(?:#|//|--\s|<!--|\(explicit|\(implied|\(stated|\[explicit).*$|\s+[✓✔✅].*$", re.IGNORECASE)
_QUOTES = "\"'`“”„‘’«»"
_ARROW = r"(?:→|⟶|⟹|⇒|➔|➜|➝|➡️?|▶|»|-{1,3}>|={1,3}>|—>|–>)"
_ARROWS = re.compile(rf"\s*{_ARROW}\s*")
_EDGE = re.compile(r"^(.+?)\s*(?:-{1,3}|—|–|=)\s*[\[(]\s*:?\s*(.+?)\s*[\])]\s*(?:-{1,3}|—|–|=)*>?\s*(?:→|>)?\s*(.+)$")
_DASHED_EDGE = re.compile(r"^(.+?)\s+-{2,3}\s*([^-<>\[\]]+?)\s*-{1,3}>\s*(.+)$")
_RELATION_FIRST = re.compile(rf"^([^:|]{{1,80}}?)\s*[:：]\s*([^|]+?)\s*{_ARROW}\s*(.+)$")
_RELATION_LAST = re.compile(rf"^(.+?)\s*(?:{_ARROW}|↔)\s*(.+?)\s*(?:[:：]|\()\s*([^()]{{1,100}}?)\)?$")
_CALL = re.compile(r"^([\w/'’-]{1,60}(?: [\w/'’-]{1,40}){0,3})\s?\((.+)\)$")
_BRACKETED = re.compile(r"^(?:\((.+)\)|<([^<>]+)>|⟨(.+)⟩|〈(.+)〉|\[(.+)\]|\{(.+)\})$")
_SEPARATORS: tuple[tuple[str, "re.Pattern[str]", bool], ...] = (
    ("pipes", re.compile(r"\s*[|｜¦]\s*"), False),
    ("tabs", re.compile(r"\t+"), False),
    ("colons", re.compile(r"\s*::\s*"), False),
    ("semicolons", re.compile(r"\s*[;；]\s*"), True),
    ("dashes", re.compile(r"\s+[—–]+\s+|\s+-{2,}\s+"), True),
    ("hyphens", re.compile(r"\s+-\s+"), True),
)
"""Name, what parts a triple, and whether it also occurs in prose: then every line must be a triple."""
_MARK = re.compile(r"[^\w .,'’]")
"""What no written triple is without: names and sentences of plain words need no further look."""
_LONGEST_PART = 300


def written_triple(text: str, relations: Collection[str] = (), *, weak: bool = True) -> Triple | None:
    """Return the triple that a line, or a text in JSON, is; None where it is none.

    Without `weak`, what parts it must be something that names do not hold: no dashes and no semicolons.

    >>> written_triple("1. **Up** → *director* → **Pete**"), written_triple("(Up; director; Pete)")
    (('Up', 'director', 'Pete'), ('Up', 'director', 'Pete'))
    >>> written_triple("(Up)-[:director]->(Pete)"), written_triple("<Up> <director> <Pete> .")
    (('Up', 'director', 'Pete'), ('Up', 'director', 'Pete'))
    >>> written_triple("director(Up, Pete)"), written_triple("director: Up -> Pete")
    (('Up', 'director', 'Pete'), ('Up', 'director', 'Pete'))
    """
    if not _MARK.search(text):
        return None
    line = _bare_line(text)
    if not line or len(line) > 4 * _LONGEST_PART:
        return None
    for read in (_cypher, _rdf, _arrows, _separated, _bracketed, _labelled_line, _call):
        if read is _separated and not weak and not re.search(r"[|｜¦\t]|::", line):
            continue
        if (found := read(line, relations)) is not None:
            return None if is_format(found) or not all(len(part) <= _LONGEST_PART for part in found) else found
    return None


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
    items = [line for line in lines if _MARKER.match(line) and _MARKER.match(line)[0].strip()] or lines  # type: ignore[index]
    triples = [written_triple(line, relations) or _commas(line) for line in items]
    return ([each for each in triples if each is not None], "lines") if items and all(triples) else ([], "")


def _strong(line: str) -> bool:
    """Whether a line is written as only triples are: with arrows, pipes, tabs, edges or whole in brackets."""
    bare = _bare_line(line)
    return bool(
        _ARROWS.search(bare)
        or re.search(r"[|｜\t]|::|\]-|^\(.+[,;|].+\)$|^<.+>$|^⟨|^\[", bare)
        or len(_LABEL.findall(bare)) >= 3
    )


def _commas(line: str) -> Triple | None:
    """Return the triple of an item `head, relation, tail`: what further commas part belongs to the tail."""
    marker = _MARKER.match(line)
    if not marker or not re.search(r"\d", marker[0]):
        return None
    match = re.fullmatch(r"([^,(]+),([^,(]+),(.+)", _bare_line(line))
    return (
        (match[1].strip(), match[2].strip(), match[3].strip())
        if match and all(each.strip() for each in match.groups())
        else None
    )


def _bare_line(text: str) -> str:
    line = _MARKER.sub("", text, count=1).strip()
    line = _COMMENT.sub("", line).strip()
    line = re.sub(r"</?triples?t?>", " ", line).strip()
    return line.rstrip(",;").removesuffix(".").rstrip() if not line.endswith((" .", "...")) else line


def _part(text: str) -> str:
    """Return a name without the marks around it."""
    part = text.strip()
    for _ in range(3):
        before = part
        for mark in ("**", "__", "*", "`"):
            if (
                len(part) > 2 * len(mark)
                and part.startswith(mark)
                and part.endswith(mark)
                and mark not in part[len(mark) : -len(mark)]
            ):
                part = part[len(mark) : -len(mark)].strip()
        if len(part) > 2 and part[0] == "_" == part[-1] and "_" not in part[1:-1]:
            part = part[1:-1].strip()
        if (
            len(part) > 1
            and part[0] in _QUOTES
            and part[-1] in _QUOTES
            and not any(mark in part[1:-1] for mark in (part[0], part[-1]))
        ):
            part = part[1:-1].strip()
        if part == before:
            break
    return part


def _parts(pattern: "re.Pattern[str]", line: str) -> list[str]:
    return [_part(part) for part in pattern.split(line)]


def _cypher(line: str, relations: Collection[str]) -> Triple | None:
    match = re.fullmatch(
        r"(?:(?:CREATE|MERGE|"
        r"MATCH)\s+)?\(([^()]*(?:\([^()]*\)[^()]*)*)\)\s*(<?)-{1,2}\s*\[\s*(?:\w*\s*:)?\s*`?([^\]`{]+?)`?\s*(?:\{[^}]*\})?\]\s*-{1,2}(>?)\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)",
        line.rstrip(";"),
    )
    if match is None:
        return None
    one, other = _node(match[1]), _node(match[5])
    if match[2] and not match[4]:
        one, other = other, one
    return (one, match[3].strip(), other) if one and other else None


def _node(text: str) -> str:
    if named := re.search(r"(?:name|label|title|id)\s*:\s*(['\"])(.*?)\1", text):
        return named[2]
    text = (
        re.sub(r"^\w*\s*:\s*", "", text.strip())
        if re.match(r"^\w*\s*:`?\S", text.strip()) and "://" not in text
        else text
    )
    return _part(text.replace("`", ""))


def _rdf(line: str, relations: Collection[str]) -> Triple | None:
    term = r"(<[^<>]+>|\"[^\"]*\"(?:@\w+|\^\^\S+)?|\w*:[\w%.,()/'’-]+)"
    match = re.fullmatch(rf"{term}\s+{term}\s+{term}\s*\.?", line)
    if match is None or not (match[1].startswith("<") or ":" in match[1]):
        return None
    return _term(match[1]), _predicate(match[2]), _term(match[3])


def _term(term: str) -> str:
    """Return the name in a term of RDF; an underscore stands for a blank in it."""
    if term.startswith('"'):
        return term[1 : term.rindex('"')]
    name = term.strip("<>")
    is_name = term.startswith("<") and not re.match(r"https?://", name)
    return name if is_name else _predicate(term).replace("_", " ")


def _predicate(term: str) -> str:
    """Return the relation in a term of RDF, as it is written."""
    name = term.strip("<>")
    if re.match(r"https?://", name):
        return re.split(r"[/#]", name.rstrip("/"))[-1]
    return name if term.startswith("<") else name.partition(":")[2]


def _arrows(line: str, relations: Collection[str]) -> Triple | None:
    if edge := _EDGE.fullmatch(line) or _DASHED_EDGE.fullmatch(line):
        parts = [_part(re.sub(r"^\(([^()]+)\)$", r"\1", part.strip())) for part in edge.groups()]
        return in_order(parts) if not any(_ARROWS.search(part) for part in parts) else None
    parts = _parts(_ARROWS, line)
    if len(parts) == 3:
        return in_order(parts, relations)
    if len(parts) == 2:
        if (match := _RELATION_FIRST.fullmatch(line)) and (not relations or same(_part(match[1])) in relations):
            return in_order([_part(match[2]), _part(match[1]), _part(match[3])])
        if (match := _RELATION_LAST.fullmatch(line)) and (not relations or same(_part(match[3])) in relations):
            return in_order([_part(match[1]), _part(match[3]), _part(match[2])])
        return _pair_and_relation(parts)
    return None


def _pair_and_relation(parts: list[str]) -> Triple | None:
    """Return the triple of `(A, B) -> relation`."""
    pair = re.fullmatch(r"[(\[<](.+?)\s*[,;|]\s*(.+)[)\]>]", parts[0])
    return in_order([_part(pair[1]), parts[1], _part(pair[2])]) if pair and "," not in pair[2] else None


def _separated(line: str, relations: Collection[str]) -> Triple | None:
    inner = line.strip("|｜ ") if line.count("|") > 2 else line
    match = _BRACKETED.fullmatch(inner)
    if match is not None:
        inner = next(each for each in match.groups() if each is not None)
    for _, pattern, _ in _SEPARATORS:
        parts = _parts(pattern, inner)
        if len(parts) == 3:
            return in_order(parts, relations)
        if len(parts) > 3:
            return None
    return None


def _bracketed(line: str, relations: Collection[str]) -> Triple | None:
    match = _BRACKETED.fullmatch(line)
    if match is None:
        return None
    inner = next(each for each in match.groups() if each is not None)
    parts = [_part(part) for part in _top_level(inner)]
    return in_order(parts, relations)


def _top_level(text: str) -> Iterator[str]:
    """Yield what commas part that stand in no brackets and no quotes."""
    depth, start, quote = 0, 0, ""
    for position, character in enumerate(text):
        if quote:
            quote = "" if character == quote and text[position + 1 : position + 2] in {"", ",", " "} else quote
        elif character in '"“' and not text[start:position].strip():
            quote = "”" if character == "“" else '"'
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character in ",，" and depth <= 0:
            yield text[start:position]
            start = position + 1
    yield text[start:]


def _call(line: str, relations: Collection[str]) -> Triple | None:
    match = _CALL.fullmatch(line)
    if match is None:
        return None
    if match[2].count("(") != match[2].count(")") or not _is_balanced(match[2]):
        return None
    if named := _named_arguments(match[2]):
        return named[0], match[1].strip(), named[1]
    parts = [_part(part) for part in _top_level(match[2])]
    return (parts[0], match[1].strip(), parts[1]) if len(parts) == 2 and all(parts) else None


def _is_balanced(text: str) -> bool:
    depth = 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            return False
    return not depth


def _named_arguments(body: str) -> tuple[str, str] | None:
    """Return subject and object of `subject="A", object="B"`."""
    found: dict[int, str] = {}
    for part in _top_level(body):
        name, equals, value = part.partition("=") if "=" in part else part.partition(":")
        role = role_of(name) if equals else None
        if role is None or not _part(value):
            return None
        found[role] = _part(value)
    return (found[0], found[2]) if found.keys() == {0, 2} else None


_NAMES = (
    r"(?:subject|head|object|tail|source|target)(?:[ _]?(?:entity|name|node))?|sub|subj|rel|obj|pred|"
    r"relation(?:ship)?(?:[ _]?(?:type|name))?|predicate|property"
    r"|entity[ _]?[12]|subjekt|prädikat|beziehung|objekt|sujet|prédicat|objet|sujeto|relación|predicado|objeto|"
    r"soggetto|relazione|predicato|oggetto|sujeito|relação|onderwerp|relatie|voorwerp"
    r"|主语|主体|主語|谓语|谓词|述語|关系|関係|宾语|客体|目的語|субъект|отношение|предикат|объект"
)
_LABEL = re.compile(
    rf"(?:^|(?<=[\s,;，；、。|({{\[*\-•\"'`]))[*_\"'`]{{0,3}}(?:({_NAMES})|(?:subject|object|head|tail)[ _]type|type|"
    rf"confidence|evidence|explanation|reason|note|score|source text)"
    rf"[*_\"'`]{{0,3}}\s{{0,3}}[:：=][*_]{{0,2}}(?![:=/])",
    re.IGNORECASE | re.MULTILINE,
)


def _labelled_line(line: str, relations: Collection[str]) -> Triple | None:
    found = list(_labelled(line, relations))
    return found[0] if len(found) == 1 else None


def _labelled(text: str, relations: Collection[str]) -> Iterator[Triple]:
    """Yield the triples of labels and values, in one line or in several."""
    labels = list(_LABEL.finditer(text))
    values: list[tuple[int, str]] = []
    for number, label in enumerate(labels):
        end = labels[number + 1].start() if number + 1 < len(labels) else len(text)
        value = text[label.end() : end].split("\n")[0]
        if label[1] and (role := role_of(label[1])) is not None:
            value = re.sub(r"\s+#\s.*$", "", value).strip()
            values.append(
                (
                    role,
                    _part(
                        re.sub(r"(?:\s*[/\-*]*>|[\s,;，；、|(\[{)\]}*\-•]+)$", "", value)
                        if "(" not in value
                        else value.rstrip(" ,;，；、|*-•")
                    ),
                )
            )
    yield from _in_cycles(values)


def _in_cycles(values: Iterable[tuple[int, str]]) -> Iterator[Triple]:
    """Yield a triple for each run of values in which no role comes twice."""
    current: dict[int, str] = {}
    for role, value in values:
        if role in current:
            if len(current) == 3 and all(current.values()):
                yield current[0], current[1], current[2]
            current = {}
        current[role] = value
    if len(current) == 3 and all(current.values()):
        yield current[0], current[1], current[2]


def _xml(text: str, relations: Collection[str]) -> Iterator[Triple]:
    values = [
        (role, html.unescape(match[2]).strip())
        for match in re.finditer(r"<([A-Za-z][\w:-]{0,40})(?:\s[^<>]{0,200})?>([^<>]*)</\1\s*>", text)
        if (role := role_of(match[1].rpartition(":")[2])) is not None
    ]
    yield from _in_cycles(values)


_VARIABLE = re.compile(r"\((\w+)\s*(?::\s*[\w`|]+)?\s*\{[^{}]*?(?:name|label|title|id)\s*:\s*(['\"])(.*?)\2[^{}]*\}\)")
_USED = re.compile(r"\((\w+)\)(\s*<?-+\s*\[[^\]]+\]\s*-+>?\s*)\((\w+)\)")


def _cypher_block(text: str, relations: Collection[str]) -> Iterator[Triple]:
    """Yield the triples of statements that first name their nodes."""
    names = {match[1]: match[3] for match in _VARIABLE.finditer(text)}
    if not names:
        return
    for match in _USED.finditer(text):
        if match[1] in names and match[3] in names:
            found = _cypher(
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
                    yield _term(pieces[0][0]), _predicate(terms[0]), _term(terms[1])


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
            parts = [_part(cells[columns[role]]) for role in range(3)]
            if all(parts) and (triple := in_order(parts)) is not None:
                yield triple
        elif ruled and len(cells) == 3 and (triple := in_order([_part(cell) for cell in cells], relations)) is not None:
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
        bare = _bare_line(line)
        match = re.fullmatch(
            r"[\[(<]\s*([\"“'`])(.+?)[\"”'`]\s*[,;|]\s*([\"“'`])(.+?)[\"”'`]\s*[\])>]\s*(?:[:：=]|->|→|-+|—|–|"
            r"=>)+\s*(.+)",
            bare,
        )
        if match and (found := in_order([match[2], _part(match[5]), match[4]])):
            yield found


_BLOCKS: dict[str, Callable[[str, Collection[str]], Iterable[Triple]]] = {
    "table": _tables,
    "xml": _xml,
    "cypher": _cypher_block,
    "turtle": _turtle,
    "pairs": _pairs,
    "labels": _labelled,
}
