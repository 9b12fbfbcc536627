"""Triples whose parts have labels, in one line or in several: "subject: Up, relation: director, object: Pete"."""

import re
from collections.abc import Collection, Iterable, Iterator

from kbbench_hf.parsing.parsed_reply import Triple
from kbbench_hf.parsing.triple_parts import is_denied, role_of, strip_marks

_NAMES = (
    r"(?:subject|head|object|tail|source|target)(?:[ _]?(?:entity|name|node))?|sub|subj|rel|obj|pred|"
    r"relation(?:ship)?(?:[ _]?(?:type|name))?|predicate|property"
    r"|entity[ _]?[12]|subjekt|prädikat|beziehung|objekt|sujet|prédicat|objet|sujeto|relación|predicado|objeto|"
    r"soggetto|relazione|predicato|oggetto|sujeito|relação|onderwerp|relatie|voorwerp"
    r"|主语|主体|主語|谓语|谓词|述語|关系|関係|宾语|客体|目的語|субъект|отношение|предикат|объект"
)
LABEL = re.compile(
    rf"(?:^|(?<=[\s,;，；、。|({{\[*\-•\"'`]))[*_\"'`]{{0,3}}(?:({_NAMES})|(?:subject|object|head|tail)[ _]type|type|"
    rf"confidence|evidence|explanation|reason|note|score|source text|"
    rf"((?:is[_ ]?)?(?:valid|supported|correct|negated|negation|verified|rejected|status|polarity|verdict)))"
    rf"[*_\"'`]{{0,3}}\s{{0,3}}[:：=][*_]{{0,2}}(?![:=/])",
    re.IGNORECASE | re.MULTILINE,
)


_DENIED = 3
"""The role of a label which says that the triple does not hold."""


def parse_labels(text: str, relations: Collection[str]) -> Iterator[Triple]:
    """Yield the triples of labels and values, in one line or in several."""
    labels = list(LABEL.finditer(text))
    values: list[tuple[int, str]] = []
    for number, label in enumerate(labels):
        end = labels[number + 1].start() if number + 1 < len(labels) else len(text)
        value = text[label.end() : end].split("\n")[0]
        if label[2] and is_denied(label[2], value.strip(" ,;|}])\"'")):
            values.append((_DENIED, "denied"))
        if label[1] and (role := role_of(label[1])) is not None:
            value = re.sub(r"\s+#\s.*$", "", value).strip()
            values.append(
                (
                    role,
                    strip_marks(
                        re.sub(r"(?:\s*[/\-*]*>|[\s,;，；、|(\[{)\]}*\-•]+)$", "", value)
                        if "(" not in value
                        else value.rstrip(" ,;，；、|*-•")
                    ),
                )
            )
    yield from in_cycles(values)


def in_cycles(values: Iterable[tuple[int, str]]) -> Iterator[Triple]:
    """Yield a triple for each run of values in which no role comes twice."""
    current: dict[int, str] = {}
    for role, value in values:
        if role in current:
            if current.keys() == {0, 1, 2} and all(current.values()):
                yield current[0], current[1], current[2]
            current = {}
        current[role] = value
    if current.keys() == {0, 1, 2} and all(current.values()):
        yield current[0], current[1], current[2]
