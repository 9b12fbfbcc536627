"""Triples of a reply: in JSON, as calls, tables, arrows or lines, or none in words.

The `careful` parsers of benchmarks of extraction, a metric module and the LLM judges call `parse_triples`.
JSON is tried first, then calls, then other text; the first that gives a triple decides.
"""

import re
from collections.abc import Collection, Mapping, Sequence

from kbbench_hf.parsing import cues
from kbbench_hf.parsing.call_triples import parse_calls
from kbbench_hf.parsing.cues import word_lists
from kbbench_hf.parsing.final_answer import AnswerVersion, Piece, parse_final_answer
from kbbench_hf.parsing.lenient_json import (
    Bare,
    CutList,
    CutObject,
    Value,
    extract_json,
    normalize_key,
    normalize_members,
)
from kbbench_hf.parsing.line_triples import (
    assign_roles,
    is_denied,
    is_placeholder,
    is_relation,
    normalize_relation,
    order_parts,
    parse_line,
)
from kbbench_hf.parsing.parsed_reply import ParsedReply, ParseError, Triple
from kbbench_hf.parsing.text_triples import one_per_line, parse_graph, parse_text_triples, resolve_node_ids

_JOINED_CALLS = re.compile(r"\)\s*(?:[∧⋀·•+]|&&|\band\b)\s*(?=[\w\\]+(?: \w+){0,4}\()")
"""What joins two calls: a sign of logic, a bullet, a word."""
_JOINED = re.compile(r"[\s,;.|&+/·•∧⋀*#-]*")
_LISTS_NODES = re.compile(r"\b(?:nodes|entities|vertices|[\w@]*id)[\"'”]?\s*[:=]", re.IGNORECASE)
_SENTENCES = re.compile(r"(?<=[.!?;。！？；])\s*|\n+")
_DITTO = re.compile(word_lists("triples")["ditto"], re.IGNORECASE)
_TYPE = re.compile(r"\s*[A-Z][A-Z_/ -]*\s*|\s*[A-Z][A-Za-z]+\s*")


def parse_triples(
    reply: str, source: str = "", relations: Collection[str] = (), *, partial: bool = True, single: bool = False
) -> ParsedReply[list[Triple]]:
    """Return the triples of the final answer in a reply, as written, in order.

    Args:
        reply: what a model sent.
        source: the text that the triples are of; it settles which of several inputs is the model's, and where names
            with commas end.
        relations: the relations of the task, where they are known.
        partial: whether the complete triples of a list that breaks off count; not where their number matters.
        single: whether "it is a single fact" says that there are none.

    Raises:
        ParseError: it gives none and does not say so, or so that two people could read it differently.

    >>> parse_triples('<think>[["a", "r", "b"]]?</think>{"triples": [["c", "r", "d"]]}').answer
    [('c', 'r', 'd')]
    >>> parse_triples("Der Text nennt keine Relationen.")
    ParsedReply(answer=[], rule='none, in words', thought='')
    """
    known = frozenset(map(normalize_relation, relations))

    def read(version: AnswerVersion) -> tuple[list[Triple], str] | None:
        answer = _parse_version(version, source, known, partial, single)
        return answer and (_resolve_names(answer[0], answer[1], version, source, known), answer[1])

    failure = "no triples, and no word that there are none"
    return parse_final_answer(reply, read, failure, source=source, repeated=source)


def _resolve_names(
    triples: list[Triple], rule: str, version: AnswerVersion, source: str, relations: frozenset[str]
) -> list[Triple]:
    """Return triples with the names of nodes in place of their ids.

    Raises:
        ParseError: an id has no name, a part is a ditto mark, or the only triple is a list of names.
    """
    values = [each.value for each in extract_json(version.whole)] if _LISTS_NODES.search(version.whole) else []
    for name in (part for triple in triples for part in triple):
        if _DITTO.fullmatch(name) and not (name in source and name[-1].isalpha()):
            raise ParseError(f"a ditto mark {name!r}; expected the name itself")
    named = resolve_node_ids(triples, values, version.whole, source)
    if named is None:
        raise ParseError("triples of nodes by their ids, and no names for these")
    is_list = len(named) == 1 and rule in ("json", "lines") and _lists_names(named[0], source, relations)
    if is_list and not _NESTED.search(version.whole):
        raise ParseError("a list of three names, none of which is a relation")
    return [(_add_ordinal(subject, version.whole, source), relation, obj) for subject, relation, obj in named]


_NESTED = re.compile(r"\[\s*[\[(]|[\"']?(?:triple|relation|fact)\w*[\"']?\s*[:：=]", re.IGNORECASE)


def _lists_names(triple: Triple, source: str, relations: frozenset[str]) -> bool:
    """Whether three parts are three names of the text, and the middle one is no relation."""
    words = triple[1].split()
    is_name = all(word[:1].isupper() or word[:1].isdigit() or len(word) < 4 for word in words) and words[0][0].isupper()
    return not is_relation(triple[1], relations) and is_name and all(part in source for part in triple)


def _add_ordinal(name: str, response: str, source: str) -> str:
    """Return a name with the number that the text has before it (`1. FC Magdeburg`), where the reply has it too."""
    match = re.search(rf"\b\d{{1,2}}\. ?{re.escape(name)}(?!\w)", source) if source and len(name) < 200 else None
    return match[0] if match and match[0] in response else name


def _is_name_list(text: str, start: int, relations: frozenset[str]) -> bool:
    """Whether a value is a list of names (`entities = [...]`), or the arguments of a call named after a relation."""
    before = text[max(0, start - 80) : start]
    if text[start] == "[":
        return _NAMES_BEFORE.search(before) is not None and not _NESTED.match(text, start)
    word = re.search(r"([\w\\]+(?: [\w\\]+){0,4})\s?$", before) if text[start] == "(" else None
    return word is not None and any(is_relation(part, relations) for part in (word[1], word[1].split()[-1]))


_NAMES_BEFORE = re.compile(
    r"\b(?:entit|node|name|place|person|people|location|mention)\w*\W{0,4}[=:]\s*$", re.IGNORECASE
)


def without_types(triples: Sequence[Triple]) -> list[Triple]:
    """Return triples without the types behind the last colon of their entities.

    >>> without_types([("Bleach: Hell Verse:WORK", "director", "Noriyuki Abe:PERSON")])
    [('Bleach: Hell Verse', 'director', 'Noriyuki Abe')]
    """
    return [(_strip_type(subject), relation, _strip_type(obj)) for subject, relation, obj in triples]


def _strip_type(name: str) -> str:
    head, colon, kind = name.rpartition(":")
    return head.rstrip() if colon and head.strip() and _TYPE.fullmatch(kind) else name


def _parse_version(
    version: AnswerVersion, source: str, relations: frozenset[str], partial: bool, single: bool
) -> tuple[list[Triple], str] | None:
    """Return the triples of one version and the name of the rule, stored with each prediction; None without triples."""
    if graph := parse_graph(version.text):
        return graph, "graph"
    pieces = [piece for piece in version.pieces if not _is_name_list(version.text, piece.start, relations)]
    readings = [(piece, json_triples(piece.value, relations)) for piece in pieces]
    readable = [(piece, triples) for piece, triples in readings if triples is not None]
    values = _standalone_values(version, readable) or readable
    triples: list[Triple] = []
    for _, parsed in values:
        met = set(triples)
        triples += [each for each in parsed if each not in met]
    cut = any(piece.is_cut for piece in version.pieces)
    if cut and not partial:
        return None
    if triples:
        return triples, "json, cut off" if cut else "json"
    text = one_per_line(_JOINED_CALLS.sub("); ", _blank_objects(version)), relations)
    if not any(piece.stands for piece, _ in values):
        for read in (_parse_call_lines(text, source, relations), parse_text_triples(text, relations)):
            if read[0]:
                return read
    if values:
        return [], "json"
    if cut:
        return None
    return ([], "none, in words") if says_none(text, single=single) else None


def _standalone_values(
    version: AnswerVersion, readable: list[tuple[Piece, list[Triple]]]
) -> list[tuple[Piece, list[Triple]]]:
    """Return the values outside of sentences, and those that only signs join to one of them."""
    values: list[tuple[Piece, list[Triple]]] = []
    for each in readable:
        if each[0].stands or (values and _JOINED.fullmatch(version.text, values[-1][0].end, each[0].start)):
            values.append(each)
    return values


def _blank_objects(version: AnswerVersion) -> str:
    """Return the text without the values that are objects or cut off."""
    text = version.text
    for piece in version.pieces:
        if piece.is_cut or (isinstance(piece.value, dict) and piece.stands):
            text = text[: piece.start] + " " * (piece.end - piece.start) + text[piece.end :]
    return text


def says_none(text: str, *, single: bool = False) -> bool:
    """Whether a text says in words that there are no triples, and holds nothing that could be some.

    >>> says_none("The sentence expresses no relations."), says_none("None of the other relations apply.")
    (True, False)
    """
    if any(re.match(r"\s*(?:[-*•]|\d+[.)])\s+\S+\s+\S", line) for line in text.splitlines()):
        return False
    sentences = filter((cues.SINGLE if single else cues.NONE).search, _SENTENCES.split(text))
    return any((single or not cues.OTHERS.search(each)) and not cues.REFUSAL.search(each) for each in sentences)


_NOT_OF_THE_CALL = re.compile(
    r"(?:¬|(?<!~)~|\bNOT )\s*\w[\w ]{0,60}\([^()\n]*\)|,\s*(?:confidence|score|prob\w*)\s*[=:]\s*[\d.%]+\s*(?=\))"
)
"""A call that is negated, and a confidence among the arguments of a call."""
_LABELLED = re.compile(r"^[\w ]{0,30}[:：]\s*")
_CALL_LINE = re.compile(r"^[*_`\"'\\]{0,3}([\w/&'’\\-]+(?:(?:,? |,(?=\\?_))[\w/&'’\\-]+){0,7})[*_`\"']{0,3}\s?\(")
_MARKER = re.compile(r"^[\s>]*(?:(?:[-=]?>|→|[-–—*•·▪+]|\(?\d{1,3}[.):\]]|\(?[a-z][.)])\s+)*")
_TAIL = re.compile(r"[\s,;.|&*`\"'✓✔✅]*(?:(?:and|und|et|y|e)\s*)?")
_REMARK = re.compile(r"\s*(?:#|//|--|[-–—]\s|\(|\[|<!--|%|:|✓|✔|✅|/\*|because\b|since\b).*$", re.DOTALL)
_TRIPLE_NAMES = re.compile(r"(?:triples?t?|fact|relation(?:ship)?|statement|edge)", re.IGNORECASE)


def _parse_call_lines(text: str, source: str, relations: frozenset[str]) -> tuple[list[Triple], str]:
    """Return the triples written as `relation(subject, object)`: in lines of their own, or with a known relation."""
    text = _drop_cut_call(_NOT_OF_THE_CALL.sub("", text))
    lines: list[str] = []
    named: list[Triple] = []
    goes_on = False
    for line in text.splitlines():
        if goes_on:
            lines[-1] += line
        elif isinstance(read := _call_line(line, relations), tuple):
            named.append(read)
        elif read:
            lines.append(read)
        else:
            continue
        goes_on = bool(lines) and lines[-1].rstrip().endswith((",", "(")) and (goes_on or isinstance(read, str))
    calls = [each for each in parse_calls("\n".join(lines), source) if not is_placeholder(each)]
    return [each for each in calls if not _has_third(each, source)] + named, "calls"


def _has_third(triple: Triple, source: str) -> bool:
    """Whether a call had a third argument: a subject, an object and a number were taken for two names."""
    subject, _, obj = triple
    first, comma, second = subject.partition(", ")
    is_pair = bool(comma) and subject not in source and second in source
    kind_or_value = (first.islower() and first not in source) or re.fullmatch(r"\d{4}|0?\.\d+|[01](?:\.0)?", obj)
    return '", "' in subject + obj or (is_pair and bool(kind_or_value))


def _drop_cut_call(text: str) -> str:
    """Return a text without the call at its very end that breaks off."""
    line = text.rstrip().rpartition("\n")[2]
    opening = line.rfind("(")
    if opening < 0 or line.count("(") <= line.count(")") or ")" in line[opening:]:
        return text
    before = line[:opening]
    complete = before[: max(before.rfind(")") + 1, 0)]
    return text.rstrip()[: len(text.rstrip()) - len(line)] + complete


def _call_line(line: str, relations: frozenset[str]) -> Triple | str | None:
    """Return a line of calls as it is to be read; a triple where its arguments are named or its name is "triple"."""
    bare = _MARKER.sub("", line)
    match = _CALL_LINE.match(bare)
    if match is None and (label := _LABELLED.match(bare)):
        bare = bare[label.end() :]
        match = _CALL_LINE.match(bare)
    if match is None:
        return None
    if relations and not is_relation(match[1], relations) and is_relation(match[1].split()[-1], relations):
        return None  # a sentence that names a call
    body_end = _find_closing(bare, match.end() - 1)
    body = bare[match.end() : body_end]
    if re.match(r"\s*\w+\s*=\s*\S|\s*[a-z_]\w*: [^,]+, [a-z_]\w*: ", body):
        return parse_line(bare[: body_end + 1], relations)
    parts = [part.strip(" \"'") for part in body.split(",")]
    if _TRIPLE_NAMES.fullmatch(match[1].strip()) and len(parts) == 3:
        return order_parts(parts, relations)
    rest = bare[body_end + 1 :]
    n_calls = 1
    while further := _CALL_LINE.match(rest := _TAIL.sub("", rest, count=1)):
        rest, n_calls = rest[_find_closing(rest, further.end() - 1) + 1 :], n_calls + 1
    known = is_relation(match[1].replace("\\", ""), relations)
    breaks_off = n_calls > 1 and len(rest.split()) < 4
    if rest.strip() and not (known or breaks_off or _REMARK.match(rest)):
        return None
    return bare[: len(bare) - len(rest)] if _REMARK.match(rest) or known else bare


def _find_closing(text: str, opening: int) -> int:
    depth = 0
    for position in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if not depth:
            return position
    return len(text)


_NAMES = "name text mention label title value entity id surface canonicalname string".split()
_HOLDER = re.compile(word_lists("triples")["holder"])
_ASIDE = re.compile(word_lists("triples")["aside"])
"""Members that hold no answer."""
_NO_TRIPLES = re.compile(r"\W*(?:none|n/?a|nil|null|empty|no (?:triples|relations))?\W*", re.IGNORECASE)
_LAST = re.compile(r"final|corrected|revised")
_MOST_NESTED = 8
_WANTS_OBJECT = re.compile(
    r"\b(?:of|in|on|at|by|for|to|from|with|as|under|over|between|into|about|against|through|than|prior|a|an|the|is|are"
    r"|was|were|be|been|has|have|had|its|their|his|her|and|or)$|^\w+ of \w+$",
    re.IGNORECASE,
)
"""A relation that is incomplete without an object."""


def json_triples(value: Value, relations: Collection[str] = ()) -> list[Triple] | None:
    """Return the triples that a value lists, [] where it lists none, None where it is no list of triples.

    Args:
        value: what a reply holds.
        relations: the relations of the task, where they are known; they tell which name is which where only
            the order could.

    >>> json_triples({"facts": [{"head": {"name": "Up"}, "type": "director", "tail": ["Pete", "Bob"]}]})
    [('Up', 'director', 'Pete'), ('Up', 'director', 'Bob')]
    >>> json_triples({"Up": {"director": "Pete"}}), json_triples({"triples": []}), json_triples({"a": 1})
    ([('Up', 'director', 'Pete')], [], None)
    """
    return _TripleParser(relations).read(value, 0)


class _TripleParser:
    """Parser of JSON values as triples: None from a method means "no list of triples", [] an empty list."""

    def __init__(self, relations: Collection[str]) -> None:
        self.relations = frozenset(map(normalize_relation, relations))

    def read(self, value: Value, depth: int) -> list[Triple] | None:
        if depth > _MOST_NESTED:
            return None
        if isinstance(value, dict):
            return self._parse_object(value, depth) if value or isinstance(value, CutObject) or depth else []
        return self._parse_list(value, depth) if isinstance(value, list) else None

    def _parse_list(self, value: list[Value], depth: int) -> list[Triple] | None:
        """Return the triples of a list: of texts, of lists and objects, or one triple without its own brackets."""
        if not value:
            return None if isinstance(value, CutList) else []
        if all(isinstance(each, str) for each in value):
            return self._parse_strings(value)
        results: list[Triple] = []
        readable = False
        texts: list[Value] = [each for each in value if isinstance(each, str)]
        if texts in (value[:3], value[-3:]) and order_parts([*map(str, texts)], self.relations):  # brackets are missing
            rest = [each for each in value if not isinstance(each, str)]
            value = [texts, *rest] if texts == value[:3] else [*rest, texts]
        for each in value:
            listed = parse_line(each, self.relations) if isinstance(each, str) else None
            triples = [listed] if listed else None if isinstance(each, str) else self.read(each, depth + 1)
            readable = readable or triples is not None
            results += triples or []
        return results if results or (readable and all(each in ([], {}) for each in value)) else None

    def _parse_strings(self, value: list[Value]) -> list[Triple] | None:
        """Return the triple that three texts are, or the triples that each of several texts is."""
        texts = [str(each) for each in value]
        read = [parse_line(text, self.relations) for text in texts]
        if None in read:
            read = [parse_line(text, self.relations, weak=False) for text in texts]
        written = [triple for triple in read if triple is not None]
        if written and (len(written) == len(texts) or len(texts) != 3):
            return written
        if isinstance(value, CutList):
            return None
        if len(texts) > 3 and all(isinstance(each, Bare) for each in value) and not order_parts(texts, self.relations):
            texts = [*texts[:2], ", ".join(texts[2:])]  # commas beyond the second belong to the last name
        if len(texts) == 3 and texts[0] and not texts[2] and not self.relations and _states_alone(texts[1]):
            return [(texts[0], texts[1], "")]
        triple = order_parts(texts, self.relations)
        return None if triple is None else [triple]

    def _parse_object(self, value: Mapping[str, Value], depth: int) -> list[Triple] | None:
        """Return the triple that an object is by the names of its members, or the triples that its members hold."""
        roles = assign_roles(list(value))
        if any(is_denied(key, each) for key, each in value.items() if key not in roles.values()):
            return [] if depth else None
        if roles.keys() == {0, 1, 2}:
            if value[roles[1]] in ("relationship", "relation", "edge", "link"):  # the kind of record
                rest = assign_roles([name for name in value if name != roles[1]])
                roles = roles | {1: rest.get(1, roles[1])}
            parts = (_join_tokens(roles[role], value[roles[role]]) for role in range(3))
            return [] if isinstance(value, CutObject) else self._make_triples(*parts)
        members = normalize_members(value)
        if roles.keys() == {0, 2} and isinstance(members.get("name"), str) and not isinstance(value, CutObject):
            return self._make_triples(value[roles[0]], members["name"], value[roles[2]])
        if 1 in roles and isinstance(pair := members.get("pair"), list) and len(pair) == 2:
            return self._make_triples(pair[0], value[roles[1]], pair[1])
        if 0 in roles and 2 not in roles and (own := self._parse_one_subject(value, roles[0])):
            return own
        return self._parse_members(value, members, depth)

    def _make_triples(self, subject: Value, relation: Value, obj: Value) -> list[Triple]:
        """Return the triples of three members: one, or one for each of several names; none where one is empty."""
        subjects, objects = _list_names(subject), _list_names(obj)
        relations = _list_names(relation) or (_list_names(relation.get("type")) if isinstance(relation, dict) else [])
        rows = [(one, each, other) for one in subjects for each in relations for other in objects]
        if len(relations) > 1:  # parallel lists
            lists = [names * len(relations) if len(names) == 1 else names for names in (subjects, relations, objects)]
            if len({len(names) for names in lists}) > 1:
                raise ParseError(f"{relations!r:.60} in one triple; expected one relation")
            rows = list(zip(*lists, strict=True))
        return [row for row in rows if all(row) and not is_placeholder(row)]

    def _parse_one_subject(self, value: Mapping[str, Value], subject: str) -> list[Triple]:
        """Return the triples of an object that names a subject and holds its relations in another member."""
        names = _list_names(value[subject])
        results: list[Triple] = []
        for key, each in value.items():
            if key == subject or _ASIDE.search(normalize_key(key)) or len(names) != 1:
                continue
            if isinstance(each, dict):
                results += [
                    (names[0], relation, obj) for relation, member in each.items() for obj in _list_names(member)
                ]
            for item in each if isinstance(each, list) else ():
                roles = assign_roles(list(item)) if isinstance(item, dict) else {}
                if isinstance(item, dict) and {1, 2} <= roles.keys():
                    results += self._make_triples(names[0], item[roles[1]], item[roles[2]])
        return results

    def _parse_members(self, value: Mapping[str, Value], named: Mapping[str, Value], depth: int) -> list[Triple] | None:
        """Return the triples in the members of an object that is none itself."""
        members = {key: each for key, each in named.items() if not _ASIDE.search(key)}
        holders = [key for key in members if _HOLDER.fullmatch(key)]
        for keys in ([key for key in members if _LAST.search(key)], holders):
            if results := [each for key in keys if (each := self._parse_member(members[key], depth)) is not None]:
                return [triple for each in results for triple in each]
        if any(members[key] is None for key in holders):
            return []
        if (grouped := self._parse_groups(value)) is not None:
            return grouped
        inner = [each for key in members if (each := self._parse_member(members[key], depth))]
        return [triple for each in inner for triple in each] or None

    def _parse_member(self, value: Value, depth: int) -> list[Triple] | None:
        """Return the triples of a member that may hold some, JSON in a text included; [] for "none" in words."""
        if isinstance(value, str):
            inner = extract_json(value) if value.lstrip()[:1] in {"[", "{"} else []
            if inner:
                return self.read(inner[0].value, depth + 1)
            triple = parse_line(value, self.relations)
            return [triple] if triple else [] if _NO_TRIPLES.fullmatch(value) else None
        if isinstance(value, dict) and 0 not in assign_roles(list(value)) and (grouped := self._parse_groups(value)):
            return grouped
        return self.read(value, depth + 1)

    def _parse_groups(self, value: Mapping[str, Value]) -> list[Triple] | None:
        """Return the triples of `{subject: {relation: object}}`, or of `{relation: [[subject, object]]}`."""
        if not value or any(_HOLDER.fullmatch(key) or _ASIDE.search(key) for key in map(normalize_key, value)):
            return None
        results: list[Triple] = []
        by_relation = bool(self.relations) and all(is_relation(key, self.relations) for key in value)
        for key, member in value.items():
            if by_relation and isinstance(member, list) and member and not isinstance(member[0], list):
                member = [member]
            listed = member if isinstance(member, list) else []
            rows = [each for each in listed if isinstance(each, list) and len(each) == 2]
            if rows and len(rows) == len(listed):
                pairs = [[_list_names(one), _list_names(other)] for one, other in rows]
                if not all(len(names) == 1 for pair in pairs for names in pair):
                    return None
                results += [(one[0], key, other[0]) if by_relation else (key, one[0], other[0]) for one, other in pairs]
            elif isinstance(member, dict) and by_relation and {0, 2} <= (roles := assign_roles(list(member))).keys():
                results += self._make_triples(member[roles[0]], key, member[roles[2]])
            elif isinstance(member, dict) and not any(
                isinstance(each, dict) and not _list_names(each) for each in member.values()
            ):
                named = [(name, obj) for name, each in member.items() for obj in _list_names(each)]
                results += [(name, key, obj) if by_relation else (key, name, obj) for name, obj in named]
            else:
                return None
        return results or None


def _states_alone(relation: str) -> bool:
    """Whether a relation of an open extraction says something without an object: `was assassinated`."""
    return len(relation.split()) > 1 and not _WANTS_OBJECT.search(relation.strip())


def _join_tokens(name: str, value: Value) -> Value:
    """Return the text of a list of tokens (`head_text` of GLiREL); another value as it is."""
    if not isinstance(value, list) or not normalize_key(name).endswith(("text", "tokens")):
        return value
    return " ".join(map(str, value)) if all(isinstance(each, str) for each in value) else value


def _list_names(value: Value) -> list[str]:
    """Return the names in a member: a text, an object's name, or those of a list; empty ones are left out."""
    if isinstance(value, str):
        return [value.strip()] if value.strip() else []
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, list):
        return [name for each in value for name in _list_names(each)] if not isinstance(value, CutList) else []
    if isinstance(value, dict) and not isinstance(value, CutObject):
        members = normalize_members(value)
        key = next((key for key in _NAMES if key in members), None)
        if key == "label" and isinstance(node := members.get("id"), str) and re.fullmatch(r"[A-Z][^\d_]+|.* .*", node):
            return [node]  # the label is its type
        if key == "value" and isinstance(unit := members.get("unit"), str) and isinstance(members[key], str):
            return [f"{members[key]} {unit}"]
        return _list_names(members[key]) if key and not isinstance(members[key], dict) else []
    return []
