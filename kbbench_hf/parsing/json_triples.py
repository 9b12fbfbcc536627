"""Triples in JSON values of any nesting and with any names of members."""

import re
from collections.abc import Collection, Mapping

from kbbench_hf.parsing.cues import word_lists
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
from kbbench_hf.parsing.parsed_reply import ParseError, Triple

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
    def __init__(self, relations: Collection[str]) -> None:
        self.relations = frozenset(map(normalize_relation, relations))

    def read(self, value: Value, depth: int) -> list[Triple] | None:
        if depth > _MOST_NESTED:
            return None
        if isinstance(value, dict):
            return self._object(value, depth) if value or isinstance(value, CutObject) or depth else []
        return self._list(value, depth) if isinstance(value, list) else None

    def _list(self, value: list[Value], depth: int) -> list[Triple] | None:
        if not value:
            return None if isinstance(value, CutList) else []
        if all(isinstance(each, str) for each in value):
            return self._strings(value)
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

    def _strings(self, value: list[Value]) -> list[Triple] | None:
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

    def _object(self, value: Mapping[str, Value], depth: int) -> list[Triple] | None:
        roles = assign_roles(list(value))
        if any(is_denied(key, each) for key, each in value.items() if key not in roles.values()):
            return [] if depth else None
        if roles.keys() == {0, 1, 2}:
            if value[roles[1]] in ("relationship", "relation", "edge", "link"):  # the kind of record
                rest = assign_roles([name for name in value if name != roles[1]])
                roles = roles | {1: rest.get(1, roles[1])}
            parts = (_join_tokens(roles[role], value[roles[role]]) for role in range(3))
            return [] if isinstance(value, CutObject) else self._members(*parts)
        members = normalize_members(value)
        if roles.keys() == {0, 2} and isinstance(members.get("name"), str) and not isinstance(value, CutObject):
            return self._members(value[roles[0]], members["name"], value[roles[2]])
        if 1 in roles and isinstance(pair := members.get("pair"), list) and len(pair) == 2:
            return self._members(pair[0], value[roles[1]], pair[1])
        if 0 in roles and 2 not in roles and (own := self._of_one_subject(value, roles[0])):
            return own
        return self._held(value, members, depth)

    def _members(self, subject: Value, relation: Value, obj: Value) -> list[Triple]:
        """Return the triples of three members: one, or one for each of several names; none where one is empty."""
        subjects, objects = _names(subject), _names(obj)
        relations = _names(relation) or (_names(relation.get("type")) if isinstance(relation, dict) else [])
        rows = [(one, each, other) for one in subjects for each in relations for other in objects]
        if len(relations) > 1:  # parallel lists
            lists = [names * len(relations) if len(names) == 1 else names for names in (subjects, relations, objects)]
            if len({len(names) for names in lists}) > 1:
                raise ParseError(f"{relations!r:.60} in one triple; expected one relation")
            rows = list(zip(*lists, strict=True))
        return [row for row in rows if all(row) and not is_placeholder(row)]

    def _of_one_subject(self, value: Mapping[str, Value], subject: str) -> list[Triple]:
        """Return the triples of an object that names a subject and holds its relations in another member."""
        names = _names(value[subject])
        results: list[Triple] = []
        for key, each in value.items():
            if key == subject or _ASIDE.search(normalize_key(key)) or len(names) != 1:
                continue
            if isinstance(each, dict):
                results += [(names[0], relation, obj) for relation, member in each.items() for obj in _names(member)]
            for item in each if isinstance(each, list) else ():
                roles = assign_roles(list(item)) if isinstance(item, dict) else {}
                if isinstance(item, dict) and {1, 2} <= roles.keys():
                    results += self._members(names[0], item[roles[1]], item[roles[2]])
        return results

    def _held(self, value: Mapping[str, Value], named: Mapping[str, Value], depth: int) -> list[Triple] | None:
        """Return the triples in the members of an object that is none itself."""
        members = {key: each for key, each in named.items() if not _ASIDE.search(key)}
        holders = [key for key in members if _HOLDER.fullmatch(key)]
        for keys in ([key for key in members if _LAST.search(key)], holders):
            if results := [each for key in keys if (each := self._member(members[key], depth)) is not None]:
                return [triple for each in results for triple in each]
        if any(members[key] is None for key in holders):
            return []
        if (grouped := self._grouped(value)) is not None:
            return grouped
        inner = [each for key in members if (each := self._member(members[key], depth))]
        return [triple for each in inner for triple in each] or None

    def _member(self, value: Value, depth: int) -> list[Triple] | None:
        if isinstance(value, str):
            inner = extract_json(value) if value.lstrip()[:1] in {"[", "{"} else []
            if inner:
                return self.read(inner[0].value, depth + 1)
            triple = parse_line(value, self.relations)
            return [triple] if triple else [] if _NO_TRIPLES.fullmatch(value) else None
        if isinstance(value, dict) and 0 not in assign_roles(list(value)) and (grouped := self._grouped(value)):
            return grouped
        return self.read(value, depth + 1)

    def _grouped(self, value: Mapping[str, Value]) -> list[Triple] | None:
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
                pairs = [[_names(one), _names(other)] for one, other in rows]
                if not all(len(names) == 1 for pair in pairs for names in pair):
                    return None
                results += [(one[0], key, other[0]) if by_relation else (key, one[0], other[0]) for one, other in pairs]
            elif isinstance(member, dict) and by_relation and {0, 2} <= (roles := assign_roles(list(member))).keys():
                results += self._members(member[roles[0]], key, member[roles[2]])
            elif isinstance(member, dict) and not any(
                isinstance(each, dict) and not _names(each) for each in member.values()
            ):
                named = [(name, obj) for name, each in member.items() for obj in _names(each)]
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


def _names(value: Value) -> list[str]:
    """Return the names in a member: a text, an object's name, or those of a list; empty ones are left out."""
    if isinstance(value, str):
        return [value.strip()] if value.strip() else []
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, list):
        return [name for each in value for name in _names(each)] if not isinstance(value, CutList) else []
    if isinstance(value, dict) and not isinstance(value, CutObject):
        members = normalize_members(value)
        key = next((key for key in _NAMES if key in members), None)
        if key == "label" and isinstance(node := members.get("id"), str) and re.fullmatch(r"[A-Z][^\d_]+|.* .*", node):
            return [node]  # the label is its type
        if key == "value" and isinstance(unit := members.get("unit"), str) and isinstance(members[key], str):
            return [f"{members[key]} {unit}"]
        return _names(members[key]) if key and not isinstance(members[key], dict) else []
    return []
