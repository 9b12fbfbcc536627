"""Parts of triples: names of their roles, their order, flags, and the marks around them."""

import re
from collections.abc import Collection, Sequence

from kbbench_hf.parsing.cues import word_lists
from kbbench_hf.parsing.lenient_json import normalize_key
from kbbench_hf.parsing.parsed_reply import Triple
from kbbench_hf.text.quantities import THOUSANDS

_LISTS = {name: re.compile(rf"(?:{rows})", re.IGNORECASE) for name, rows in word_lists("triples").items()}
_ROLES = tuple(_LISTS[role] for role in ("subject", "relation", "object"))
_PLACEHOLDER = re.compile(rf"\W*{_LISTS['placeholder'].pattern}\W*", re.IGNORECASE)
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
    """Whether a triple only shows the format: its names say what belongs in their places.

    >>> is_placeholder(["subject", "relation", "object"]), is_placeholder(["Subject matter", "is", "object"])
    (True, False)
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
