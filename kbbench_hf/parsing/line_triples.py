"""Triple in one line that is not JSON (arrows, Cypher, RDF, tuples, calls, labels), and the parts of triples.

`text_triples` and `triples` use it. The order of the notations in `parse_line` decides where a line fits several.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from kbbench_hf.parsing.cues import word_lists
from kbbench_hf.parsing.lenient_json import normalize_key
from kbbench_hf.parsing.parsed_reply import Triple
from kbbench_hf.text.folding import ignoring_case
from kbbench_hf.text.quantities import THOUSANDS

MARKER = re.compile(
    r"^[\s>]*(?:[-–—*•·▪+]\s+|#{1,6}\s+)*(?:\(\d{1,3}\)\s*|\d{1,3}[.):\]]\s*|\([a-z]\)\s+|[a-z][.)]\s+)?(?:[-–—*•·▪+]\s+)?(?:[*_]{0,2}(?:triple|triplet|fact|"
    r"relation|statement|sub-?triple|tripel|"
    r"三元组)\s*(?:no\.?\s*)?#?\s*\d{1,3}[*_]{0,2}\s*[:.)：\-–—]\s*[*_]{0,2}\s*)?",
    re.IGNORECASE,
)
_COMMENT = re.compile(
    r"\s*[\[(](?:confidence|score|prob\w*|valid|supported|correct)\b[^()\[\]]*[\])]$|\s+(?:#|//|--\s|<!--|\(explicit|\(implied|\(stated|\[explicit).*$|\s+[✓✔✅].*$",
    re.IGNORECASE,
)
_ARROW = r"(?:→|⟶|⟹|⇒|➔|➜|➝|➡️?|▶|»|-{1,3}>|={1,3}>|—>|–>)"
ARROWS = re.compile(rf"\s*{_ARROW}\s*")
_EDGE = re.compile(r"^(.+?)\s*(?:-{1,3}|—|–|=)\s*[\[(]\s*:?\s*(.+?)\s*[\])]\s*(?:-{1,3}|—|–|=)*>?\s*(?:→|>)?\s*(.+)$")
_DASHED_EDGE = re.compile(r"^(.+?)\s+-{2,3}\s*([^-<>\[\]]+?)\s*-{1,3}>\s*(.+)$")
_RELATION_FIRST = re.compile(rf"^([^:|]{{1,80}}?)\s*[:：]\s*([^|]+?)\s*{_ARROW}\s*(.+)$")
_CALL = re.compile(r"^([\w/'’-]{1,60}(?: [\w/'’-]{1,40}){0,3})\s?\((.+)\)$")
_BRACKETED = re.compile(r"^(?:\((.+)\)|（(.+)）|<([^<>]+)>|⟨(.+)⟩|〈(.+)〉|\[(.+)\]|\{(.+)\})$")
_SEPARATORS = (
    (re.compile(r"\s*[|｜¦]\s*"), False),
    (re.compile(r"\t+"), False),
    (re.compile(r"\s*::\s*"), False),
    (re.compile(r"\s*[;；]\s*"), True),
    (re.compile(r"\s+[—–]+\s+|\s+-{2,}\s+"), True),
    (re.compile(r"\s+-\s+"), True),
)
"""Separator, and whether it also occurs in prose: then every line must be a triple."""
_LABEL = re.compile(r"^(?:A|answer|output|triples?|result|response)\s*[:：]\s*(?=[(<\[{⟨（])", re.IGNORECASE)
_MARK = re.compile(r"[^\w .,'’]")
"""What no written triple is without: names and sentences of unmarked words need no further look."""
_LONGEST_PART = 300
_DENIED_LINE = ignoring_case(
    r"[\[(](?:invalid|unsupported|not (?:supported|valid|stated)|incorrect|false|rejected|negated)[\])]\s*$|\s[✗✘❌]"
)
_LEFT = r"(?:←|⟵|⟸|⇐|<-{1,3}|<—|<=)"


def parse_line(text: str, relations: Collection[str] = (), *, weak: bool = True) -> Triple | None:
    """Return the triple that a line, or a text in JSON, is; None where it is none.

    Without `weak`, what parts it must be something that names do not hold: no dashes and no semicolons.

    >>> parse_line("1. **Up** → *director* → **Pete**"), parse_line("(Up; director; Pete)")
    (('Up', 'director', 'Pete'), ('Up', 'director', 'Pete'))
    >>> parse_line("(Up)-[:director]->(Pete)"), parse_line("<Up> <director> <Pete> .")
    (('Up', 'director', 'Pete'), ('Up', 'director', 'Pete'))
    >>> parse_line("director(Up, Pete)"), parse_line("director: Up -> Pete")
    (('Up', 'director', 'Pete'), ('Up', 'director', 'Pete'))
    """
    if not _MARK.search(text) or _DENIED_LINE.search(text):
        return None
    line = bare_line(text)
    if not line or len(line) > 4 * _LONGEST_PART:
        return None
    for read in (
        cypher,
        _parse_rdf,
        _parse_quoted,
        _parse_arrows,
        _parse_separated,
        _parse_bracketed,
        _parse_labelled,
        _parse_call,
    ):
        if read is _parse_separated and not weak and not re.search(r"[|｜¦\t]|::", line):
            continue
        if (result := read(line, relations)) is not None:
            long_or_several = any(len(part) > _LONGEST_PART or _is_triple(part) for part in result)
            return None if is_placeholder(result) or long_or_several else result
    return None


def bare_line(text: str) -> str:
    """Return a line without the number or bullet before it and the comment after it."""
    line = _LABEL.sub("", MARKER.sub("", text, count=1).strip())
    line = _COMMENT.sub("", line).strip()
    line = re.sub(r"</?triples?t?>", " ", line).strip()
    return line.rstrip(",;").removesuffix(".").rstrip() if not line.endswith((" .", "...")) else line


def _split_parts(pattern: "re.Pattern[str]", line: str) -> list[str]:
    return [strip_marks(part) for part in pattern.split(line)]


UNNAMED = "_:unnamed"
"""A node of Cypher with neither name nor variable, such as `({age: 3})`, as RDF writes blank nodes."""


def cypher(line: str, relations: Collection[str]) -> Triple | None:
    """Return the triple of an edge of Cypher, in either direction; an end without a name is `UNNAMED`."""
    match = re.fullmatch(
        r"(?:(?:CREATE|MERGE|"
        r"MATCH)\s+)?\(([^()]*(?:\([^()]*\)[^()]*)*)\)\s*(<?)-{1,2}\s*\[\s*(?:\w*\s*:)?\s*`?([^\]`{]+?)`?\s*(?:\{[^}]*\})?\]\s*-{1,2}(>?)\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)",
        line.rstrip(";"),
    )
    if match is None:
        return None
    one, other = (node_name(match[end]) or UNNAMED for end in (1, 5))
    if match[2] and not match[4]:
        one, other = other, one
    return one, match[3].strip(), other


_PROPERTY = re.compile(r"(\w+)\s*:\s*(?:'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\")")


def node_name(text: str) -> str:
    """Return the name in the pattern of a node of Cypher: its property for names, or the words themselves.

    It is "" where the node has properties and none of them is a name.
    """
    properties = {match[1].casefold(): match[2] or match[3] or "" for match in _PROPERTY.finditer(text)}
    for key in ("name", "fullname", "full_name", "title", "label", "value", "text", "id"):
        if properties.get(key):
            return re.sub(r"\\(.)", r"\1", properties[key])
    if "{" in text:
        return ""
    text = text.strip()
    if re.match(r"^\w*\s*:`?\S", text) and "://" not in text:
        text = re.sub(r"^\w*\s*:\s*", "", text)
    return strip_marks(text.replace("`", ""))


def _parse_rdf(line: str, relations: Collection[str]) -> Triple | None:
    term = r"(<[^<>]+>|\"[^\"]*\"(?:@\w+|\^\^\S+)?|\w*:[\w%.,()/'’-]+)"
    match = re.fullmatch(rf"{term}\s+{term}\s+{term}\s*\.?", line)
    if match is None or not (match[1].startswith("<") or ":" in match[1]):
        return None
    return term_name(match[1]), predicate(match[2]), term_name(match[3])


_QUOTED = re.compile(r"\s*[,，]?\s*(?:\"([^\"]+)\"|“([^“”]+)”|'([^']+)'|`([^`]+)`|«([^«»]+)»|<([^<>,;|]+)>)")


def _parse_quoted(line: str, relations: Collection[str]) -> Triple | None:
    """Return the triple of three names in quotation marks, with blanks or commas between them."""
    return order_parts(parts, relations) if (parts := quoted_names(line)) and len(parts) == 3 else None


def quoted_names(line: str) -> list[str]:
    """Return the names of a line that holds nothing but names in quotation or angle marks; none of any other line."""
    names, position = [], 0
    while match := _QUOTED.match(line, position):
        names.append(next(name for name in match.groups() if name is not None))
        position = match.end()
    return names if not line[position:].strip(" .") else []


def term_name(term: str) -> str:
    """Return the name in a term of RDF; an underscore stands for a blank in it."""
    if term.startswith('"'):
        return term[1 : term.rindex('"')]
    name = term.strip("<>")
    if name.startswith("_:"):
        return name
    is_name = term.startswith("<") and not re.match(r"https?://", name)
    return name if is_name else predicate(term).replace("_", " ")


def predicate(term: str) -> str:
    """Return the relation in a term of RDF, as it is written."""
    name = term.strip("<>")
    if re.match(r"https?://", name):
        return re.split(r"[/#]", name.rstrip("/"))[-1]
    return name if term.startswith("<") else name.partition(":")[2]


def _parse_arrows(line: str, relations: Collection[str]) -> Triple | None:
    """Return the triple of a line with arrows to the right, or with a relation on an edge (`A -[r]-> B`)."""
    if re.search(_LEFT, line):
        return None
    if (inner := _inside_brackets(line)) and _is_balanced(inner):
        line = inner
    if edge := _EDGE.fullmatch(line) or _DASHED_EDGE.fullmatch(line):
        parts = [strip_marks(re.sub(r"^\(([^()]+)\)$", r"\1", part.strip())) for part in edge.groups()]
        return order_parts(parts) if not any(ARROWS.search(part) for part in parts) else None
    parts = _split_parts(ARROWS, line)
    if len(parts) == 3:
        return order_parts(parts, relations)
    if len(parts) == 2:
        if (match := _RELATION_FIRST.fullmatch(line)) and (
            not relations or is_relation(strip_marks(match[1]), relations)
        ):
            return order_parts([strip_marks(match[2]), strip_marks(match[1]), strip_marks(match[3])])
        return _parse_pair(parts)
    return None


def _parse_pair(parts: list[str]) -> Triple | None:
    """Return the triple of `(A, B) -> relation`."""
    pair = re.fullmatch(r"[(\[<](.+?)\s*[,;|]\s*(.+)[)\]>]", parts[0])
    return order_parts([strip_marks(pair[1]), parts[1], strip_marks(pair[2])]) if pair and "," not in pair[2] else None


def _parse_separated(line: str, relations: Collection[str]) -> Triple | None:
    """Return the triple of three parts between bars, tabs, double colons, semicolons or dashes, tried in this order."""
    inner = line.strip("|｜ ") if line.count("|") > 2 else line
    inner = _inside_brackets(inner) or inner
    for pattern, weak in _SEPARATORS:
        parts = _split_parts(pattern, inner)
        if len(parts) == 3:
            known = [any(name in normalize_relation(part) for name in relations) for part in parts]
            have_inner = all(each or _INNER.search(part) for part, each in zip(parts, known, strict=True))
            several = weak and have_inner and not is_relation(parts[1], relations)
            return None if several else order_parts(parts, relations)
        if len(parts) > 3:
            return None
    return None


_INNER = re.compile(r"\w\s?[:：]\s|\w\s/\s\w|^[(（<\[].*[,，;；|].*[)）>\]]$")
"""What a part holds that is a triple, or a pair, itself."""


def _parse_bracketed(line: str, relations: Collection[str]) -> Triple | None:
    inner = _inside_brackets(line)
    return order_parts([strip_marks(part) for part in _split_top_level(inner)], relations) if inner else None


def _inside_brackets(line: str) -> str:
    """Return the text in the brackets that a line begins and ends with; "" where it has none."""
    match = _BRACKETED.fullmatch(line)
    return next(filter(None, match.groups())) if match else ""


def _split_top_level(text: str) -> Iterator[str]:
    """Yield the parts between commas that are in no brackets and no quotes."""
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
        elif character in ",，" and depth <= 0 and not is_part_of_name(text, position):
            yield text[start:position]
            start = position + 1
    yield text[start:]


def _parse_call(line: str, relations: Collection[str]) -> Triple | None:
    """Return the triple of `relation(subject, object)`, or of named arguments; no sentence with brackets."""
    match = _CALL.fullmatch(line)
    if match is None:
        return None
    is_sentence = not is_relation(match[1], relations) and is_relation(match[1].split()[-1], relations)
    if match[2].count("(") != match[2].count(")") or not _is_balanced(match[2]) or is_sentence:
        return None
    if (named := _named_arguments(match[2])) is not None:
        return (named[0], named.get(1, match[1].strip()), named[2]) if named else None
    parts = [strip_marks(part) for part in _split_top_level(match[2])]
    return (parts[0], match[1].strip(), parts[1]) if len(parts) == 2 and all(parts) else None


def _is_balanced(text: str) -> bool:
    depth = 0
    for character in text:
        depth += (character in "([{<⟨") - (character in ")]}⟩" or (character == ">" and depth > 0))
        if depth < 0:
            return False
    return not depth


def _is_triple(part: str) -> bool:
    """Whether a part is a whole triple: then its line holds several."""
    several = re.search(r"[,;|].*[,;|]", part) and (_BRACKETED.fullmatch(part) or not _is_balanced(part))
    return bool(several) or re.search(r"[-=]>|\]\s*-+>?\s*\(", part) is not None


def _named_arguments(body: str) -> dict[int, str] | None:
    """Return the parts of `subject="A", object="B"` by role; other names of two arguments say nothing.

    Empty where one of the named arguments is; None where not all arguments are named.
    """
    pairs = [_ARGUMENT.fullmatch(part.strip()) for part in _split_top_level(body)]
    named = [(match[1], strip_marks(match[2])) for match in pairs if match]
    result = {role: value for name, value in named if (role := role_of(name)) is not None}
    if len(named) == len(pairs) and len(result) == len(pairs) and result.keys() in ({0, 2}, {0, 1, 2}):
        return result if all(result.values()) else {}
    if len(named) == len(pairs) == 2 and not result:
        return {0: named[0][1], 2: named[1][1]} if all(value for _, value in named) else {}
    return None


_ARGUMENT = re.compile(r"([a-z_]\w*)\s*(?:=|:(?=\s))\s*(.+)")


def _parse_labelled(line: str, relations: Collection[str]) -> Triple | None:
    result = list(parse_labels(line, relations))
    return result[0] if len(result) == 1 else None


_NAMES = word_lists("triples")["label"]
LABEL = re.compile(
    rf"(?:^|(?<=[\s,;，；、。|({{\[*\-•\"'`]))[*_\"'`]{{0,3}}(?:({_NAMES})|(?:subject|object|head|tail)[ _]type|type|"
    rf"confidence|evidence|explanation|reason|note|score|source text|"
    rf"((?:is[_ ]?)?(?:valid|supported|correct|negated|negation|verified|rejected|status|polarity|verdict)))"
    rf"[*_\"'`]{{0,3}}\s{{0,3}}[:：=][*_]{{0,2}}(?![:=/])",
    re.IGNORECASE | re.MULTILINE,
)


_DENIED_ROLE = 3
"""The role of a label which says that the triple does not hold."""


def parse_labels(text: str, relations: Collection[str]) -> Iterator[Triple]:
    """Yield the triples of labels and values, in one line or in several."""
    labels = list(LABEL.finditer(text))
    values: list[tuple[int, str]] = []
    for number, label in enumerate(labels):
        end = labels[number + 1].start() if number + 1 < len(labels) else len(text)
        value = text[label.end() : end].split("\n")[0]
        if label[2] and is_denied(label[2], value.strip(" ,;|}])\"'")):
            values.append((_DENIED_ROLE, "denied"))
        if label[1] and (role := role_of(label[1])) is not None:
            value = re.sub(r"\s+#\s.*$", "", value).strip()
            ending = r"(?:\s*[/\-*]*>|[\s,;，；、|(\[{)\]}*\-•]+)$"
            value = value.rstrip(" ,;，；、|*-•") if "(" in value else re.sub(ending, "", value)
            values.append((role, strip_marks(value)))
    yield from in_cycles(values)


def in_cycles(values: Iterable[tuple[int, str]]) -> Iterator[Triple]:
    """Yield a triple for each run of values in which no role comes twice."""
    cycles: list[dict[int, str]] = [{}]
    for role, value in values:
        if role in cycles[-1]:
            cycles.append({})
        cycles[-1][role] = value
    for parts in cycles:
        if parts.keys() == {0, 1, 2} and all(parts.values()):
            yield parts[0], parts[1], parts[2]


_LISTS = {name: re.compile(rf"(?:{rows})", re.IGNORECASE) for name, rows in word_lists("triples").items()}
_ROLES = tuple(_LISTS[role] for role in ("subject", "relation", "object"))
_PLACEHOLDER = re.compile(rf"\W*(?:{_LISTS['placeholder'].pattern})?\W*", re.IGNORECASE)
_QUOTES = "\"'`“”„‘’«»"
_CONFIDENCE = re.compile(r"(?:(?:confidence|score|prob\w*)\s*[:=]\s*)?(?:0?\.\d+|[01](?:\.0+)?|\d{1,3}\s?%)", re.I)
_PART_OF_NAME = re.compile(rf"{THOUSANDS}|[,，](?=_)")
"""A comma inside a number or a name written with underscores."""
_FLAG = re.compile(
    rf"(?:is|was)?(?:(?P<holds>{_LISTS['holds'].pattern})|{_LISTS['denied'].pattern})(?:bytext|intext|bysentence)?"
)
"""The name of a member which says whether a triple holds."""
_LIST = re.compile(r"""[\[{(]\s*["'“\[{]""")


def role_of(name: str) -> int | None:
    """Return 0, 1 or 2 for the name of a subject, a relation or an object; None for any other name.

    >>> role_of("Predicate"), role_of("tail"), role_of("evidence")
    (1, 2, None)
    """
    key = normalize_key(name)
    return next((position for position, names in enumerate(_ROLES) if names.fullmatch(key)), None)


def assign_roles(names: Sequence[str]) -> dict[int, str]:
    """Return role -> the name that has it, the most telling one of several."""
    name_of_role: dict[int, str] = {}
    for name in sorted(names, key=lambda name: _LISTS["least_telling"].fullmatch(normalize_key(name)) is not None):
        if (role := role_of(name)) is not None:
            name_of_role.setdefault(role, name)
    return name_of_role


def normalize_relation(relation: str) -> str:
    """Return a relation normalized: without case, blanks, underscores and hyphens.

    >>> normalize_relation("cast member") == normalize_relation("Cast_Member")
    True
    """
    return re.sub(r"[\s_-]+", "", relation.casefold())


def is_relation(name: str, relations: Collection[str]) -> bool:
    """Whether a name is one of the known relations, which are normalized."""
    return normalize_relation(name) in relations


def is_placeholder(triple: Sequence[str]) -> bool:
    """Whether a triple only shows the format: its names say what belongs in their places, or have no letter and digit.

    >>> [is_placeholder((name, "is", "object")) for name in ("subject", "---", "Subject matter")]
    [True, True, False]
    """
    return bool(_PLACEHOLDER.fullmatch(triple[0]) and _PLACEHOLDER.fullmatch(triple[2]))


def is_denied(name: str, value: object) -> bool:
    """Whether a member of a triple says that the triple does not hold: `valid: false`, `negated: true`.

    >>> is_denied("is_valid", False), is_denied("negated", "yes"), is_denied("status", "accepted")
    (True, True, False)
    """
    match = _FLAG.fullmatch(normalize_key(name))
    if match is None or not isinstance(value, str | bool | int | float | None):
        return False
    says_no = _LISTS["no"].fullmatch(str(value).strip(" .[]()")) is not None
    return says_no if match["holds"] else not says_no and str(value).strip() != ""


def split_at_commas(text: str) -> list[str]:
    """Return the parts between commas, but not commas inside a number (`1,234,567`) or before an underscore."""
    return [part.replace("\ue001", ",") for part in _PART_OF_NAME.sub("\ue001", text).split(",")]


def is_part_of_name(text: str, comma: int) -> bool:
    """Whether a comma is inside a number or before an underscore."""
    return _PART_OF_NAME.match(text, comma) is not None


def order_parts(parts: Sequence[str], relations: Collection[str] = ()) -> Triple | None:
    """Return three parts as a triple: subject first, unless another part alone is a known relation; None if incomplete.

    More than three parts are a triple where one in the middle is a known relation: names may hold commas.

    >>> order_parts(["director", "Up", "Pete"], {"director"}), order_parts(["Up", "director", "Pete"])
    (('Up', 'director', 'Pete'), ('Up', 'director', 'Pete'))
    >>> order_parts(["Leiden", "Holland", "country", "NL"], {"country"})
    ('Leiden, Holland', 'country', 'NL')
    """
    parts = [part.strip() for part in parts]
    if len(parts) == 4 and _CONFIDENCE.fullmatch(parts[3]):
        parts.pop()
    if not all(parts):
        return None
    if len(parts) > 3:
        known = [position for position in range(1, len(parts) - 1) if is_relation(parts[position], relations)]
        if len(known) != 1:
            return None
        parts = [", ".join(parts[: known[0]]), parts[known[0]], ", ".join(parts[known[0] + 1 :])]
    if len(parts) != 3 or is_placeholder(parts) or any(_LIST.match(part) for part in parts):
        return None
    first, second, third = parts
    if relations and not is_relation(second, relations) and is_relation(first, relations):
        return second, first, third
    return first, second, third


def strip_marks(text: str) -> str:
    """Return a name without the marks around it, and without the language or type of a literal."""
    part = re.sub(r'^("[^"]*")(?:\^\^\S+|@[A-Za-z]{2,3}(?:-\w+)*)$', r"\1", text.strip())
    for _ in range(3):
        before = part
        for mark in ("**", "__", "*", "`"):
            inner = part[len(mark) : -len(mark)]
            if inner and part == f"{mark}{inner}{mark}" and mark not in inner:
                part = inner.strip()
        if len(part) > 2 and part[0] == "_" == part[-1] and "_" not in part[1:-1]:
            part = part[1:-1].strip()
        if len(part) > 1 and {part[0], part[-1]} <= set(_QUOTES) and not {part[0], part[-1]} & set(part[1:-1]):
            part = part[1:-1].strip()
        if part == before:
            break
    return part
