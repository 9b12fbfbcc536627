"""Relative clauses for relations, by the form of a relation's name, the types of its ends and its cardinality."""

import re
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from kbbench_hf.building.synthesis import english
from kbbench_hf.building.synthesis.english import VERBAL, WORDS, fill, is_person, plural, singular, with_article

GRAMMAR = tomllib.loads(Path(__file__).with_name("grammar.toml").read_text(encoding="utf-8"))
_SIGN = re.compile(r"[,;.:!?/\"()]")
_LINKS = ("interaction", "relation", "relationship", "association", "connection", "link", "border", "similarity")
_ROLE_ENDINGS = ("er", "or", "ist", "ant", "ment", "tion", "ship", "ee", "ary")


@dataclass(frozen=True)
class RelationEnds:
    """What the ends of a relation's edges are: the words of their types, and how many there are."""

    head: str = "thing"
    tail: str = "thing"
    one_head: bool = False
    """Whether a tail has one head at most (an inverse functional relation)."""
    one_tail: bool = False
    """Whether a head has one tail at most (a functional relation)."""
    is_mutual: bool = False
    """Whether every edge has its reverse, so that nothing distinguishes the ends."""

    @property
    def reversed(self) -> "RelationEnds":
        """The ends of the inverse relation."""
        return RelationEnds(self.tail, self.head, self.one_tail, self.one_head, self.is_mutual)


@lru_cache(maxsize=4096)
def clauses_of(relation: str, direction: str, ends: RelationEnds = RelationEnds()) -> list[str]:
    """Return relative clauses about the node that a relation leads `to`, its tail, or comes `from`, its head.

    `{x}` is the node at the other end. Of `[is|are]`, the second is for several. A clause that begins with "the" takes
    the place of the type of the node.

    >>> clauses_of("guards", "from"), clauses_of("made with", "to"), clauses_of("directed_by", "to")
    (['that [guards|guard] {x}'], ['that {x} [is|are] made with'], ['that directed {x}'])
    >>> town = RelationEnds("town", "country", one_tail=True)
    >>> clauses_of("country", "to", town), clauses_of("country", "from", town)
    (['that {x} [is|are] in'], ['that [is|are] in {x}'])
    >>> film = RelationEnds("film", "country")
    >>> clauses_of("country", "to", film), clauses_of("country", "from", film)
    (['that {x} [is|are] from'], ['that [is|are] from {x}'])
    >>> clauses_of("member of", "from", RelationEnds("player", "club")), clauses_of("hasAuthor", "to")
    (['the [member|members] of {x}'], ['the [author|authors] of {x}'])
    """
    to = direction == "to"
    words = _relation_words(relation, ends)
    head, tail = ends.head.split(), ends.tail.split()
    # Named like its source, which the tail has; of a mutual relation: the side effect, one of the effects.
    is_named = bool(words) and ends.is_mutual and (words[-1] in head) != (words[-1] in tail)
    if words[-1] in head if is_named else words == head != tail:
        ends, to = ends.reversed, not to
    form, slots = _form(words, ends)
    if slots.get("reversed"):
        ends, to = ends.reversed, not to
    if ends.is_mutual and not is_named:
        is_role, is_same = form in ("noun", "role"), ends.head == ends.tail
        linked = "link" if slots.get("noun", "").endswith(_LINKS) else "linked"
        form = linked if is_role and not is_same else "mutual" if form == "quoted" else form
        to = is_role
    if form in ("noun", "role"):
        form = f"the_{form}" if ends.one_tail or english.head_of(slots["noun"]) in WORDS["places"] else f"a_{form}"
    slots = {"r": english.name_words(relation) or relation} | slots
    return [fill(variant, slots) for variant in GRAMMAR["forms"][form]["to" if to else "from"]]


def _relation_words(relation: str, ends: RelationEnds) -> list[str]:
    """Return the words of a relation without auxiliary verbs, and without the types of its ends.

    The types only tell which ends it joins: `paper___cites___paper`, `lives in town`, `film_director`.
    """
    parts = relation.split("___")
    words = english.name_words(parts[1] if len(parts) == 3 else relation).split()
    while len(words) > 1 and words[0] in ("has", "have", "is", "are", "was", "were", "been"):
        words = words[1:]
    head, tail = ends.head.split(), ends.tail.split()
    if words[: len(head)] == head and words[len(head) :]:
        words = [*head, "of"] if words[len(head)] == "of" else words
        words = words if words[len(head)] in WORDS["prepositions"] else words[len(head) :]
    rest = words[: -len(tail)]
    if rest and words[-len(tail) :] == tail and _tag(rest[-1]) in "poysdnu":
        words = rest
    if len(words) == len(tail) == 1 and words[0].startswith(tail[0]) and len(tail[0]) > 4 and _tag(words[0]) in "xr":
        words = tail  # the instrument, which the instrumentation is made of
    return VERBAL.get(" ".join(words), " ".join(words)).split()


def _tag(word: str) -> str:
    """Return a letter for what a word is in the name of a relation; the rules of the grammar have them."""
    if word in WORDS["prepositions"] or word in ("a", "an", "the"):
        return {"of": "o", "by": "y", "a": "a", "an": "a", "the": "a"}.get(word, "p")
    base, tense = english.verb_form(word)
    if tense == "past" and (base in WORDS["intransitive"] or (base and word != english.past_forms(base)[1])):
        return "i"  # died, or a past that is no participle: flew
    if tense == "past" and base in WORDS["intransitive_of_persons"]:
        return "e"
    if tense == "base" and base in WORDS["nouns_too"]:
        return "r" if is_person(word) else "B"
    if tense:
        return {"present": "s", "ing": "g", "base": "b", "past": "d" if base else "u", "participle": "n"}[tense]
    if word in WORDS["adjectives"] or (len(word) <= 3 and word.islower() and word not in WORDS["short_nouns"]):
        return "j"
    return "r" if is_person(word) or word.endswith(_ROLE_ENDINGS) else "x"


def _form(words: list[str], ends: RelationEnds) -> tuple[str, dict[str, str]]:
    """Return the form of a relation with that name, and what fills its clauses; "quoted" where no form is right."""
    name, tags = " ".join(words), "".join(map(_tag, words))
    noun = singular(name)
    if WORDS["prepositions"].isdisjoint(words) and (noun == ends.tail or is_person(noun)):
        tags = "r" * len(tags) if is_person(noun) else "x" * len(tags)
    if tags[:1] == "x" and words[0].endswith("s") and tags[1:2] in ("p", "y"):  # nests along
        tags = f"s{tags[1:]}"
    persons = "".join("P" if is_person(kind) else "T" for kind in (ends.head, ends.tail))
    tags = f"{persons}{'=' if name in WORDS['pairs'] else _place_sign(noun, ends)}{tags}"
    for rule in () if _SIGN.search(name) else GRAMMAR["rules"]:
        if match := next(filter(None, (re.fullmatch(each, tags) for each in rule["tags"])), None):
            start = len(tags) - len(words)
            spans = {group: match.span(group) for group in match.groupdict() if match[group] is not None}
            groups = {group: " ".join(words[one - start : end - start]) for group, (one, end) in spans.items()}
            slots = _slots(rule["form"], groups) | rule
            return ("active" if not slots["passive"] else rule["form"]), slots
    return "quoted", {}


def _place_sign(noun: str, ends: RelationEnds) -> str:
    """Return "@" if a noun means the place that the head of a relation is in, "~" if it is from there, else ""."""
    if not {noun, ends.tail} <= WORDS["places"]:
        return ""
    is_within = ends.head in WORDS["places"]  # a country has cities, a city is in it
    is_in = ends.one_tail if is_within else ends.head in WORDS["buildings"] or noun == "location"
    is_from = noun in WORDS["origins"] and not is_within
    return "@" if is_in else "~" if is_from else ""


def _slots(form: str, found: dict[str, str]) -> dict[str, str]:
    """Return what fills the clauses of a form: verbs, nouns and articles of the words that a rule found."""
    base, tense = english.verb_form(found.get("verb", ""))
    base, tense = (base, tense) if tense or "verb" not in found else (singular(found["verb"]), "present")
    is_past = tense in ("past", "participle") and (base in WORDS["past_events"] or (not base and form != "participle"))
    past, participle = english.past_forms(base) if base else (found.get("verb", ""),) * 2
    is_past |= tense == "past" and (form in ("active", "transitive") or past != participle)
    after, kind, noun = (found.get(group, "") for group in ("after", "kind", "noun"))
    if " " in after and after.split()[0] not in WORDS["mass"] and singular(after.split()[0]) == after.split()[0]:
        after = with_article(after)  # shares a border with
    verb = past if is_past else f"[{english.third_person(base)}|{base}]" if base else ""
    passive = english.passive_of(base) if base and form == "transitive" else f"{participle} by"
    return {
        "verb": f"{verb} {after}".rstrip(),
        "be": "[was|were]" if is_past else "[is|are]",
        "passive": passive,
        "noun": singular(noun),
        "nouns": plural(noun) if noun else "",
        "a_noun": with_article(singular(noun)) if noun else "",
        "other": found.get("other", ""),
        "others": plural(found.get("other", "")),
        "kind": f" the {kind}" if kind else "",
    } | {"r": (r := found.get("r") or f"{found.get('verb', '')} {after}".strip() or "of"), "preposition": r.split()[0]}
