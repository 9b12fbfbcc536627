"""English names of types and relations: number of nouns, forms of verbs, relative clauses for relations.

`wording` writes questions with it; `english.toml` has the words, `grammar.toml` the rules and forms. A change of either
changes the questions of synthesized datasets.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from kbbench_hf.text.name_variants import singularize

_LEXICON = tomllib.loads(Path(__file__).with_name("english.toml").read_text(encoding="utf-8"))
WORDS = {name: frozenset(words) for name, words in _LEXICON.items() if isinstance(words, list)}
"""Sets of words by name, such as `prepositions` and `places`."""
VERBAL: dict[str, str] = _LEXICON["verbal"]
"""Verbs with prepositions, by nouns that say the same."""
_PLURALS: dict[str, str] = _LEXICON["plurals"]
_SINGULARS = {many: one for one, many in _PLURALS.items()}
_ALTERNATIVES = re.compile(r"\[([^][|]*)\|([^][|]*)\]")
_VOWEL = "aeiou"
_MEN = re.compile(r"\w+(?:[hkrst]|[celr]e|\wse)men")
"""Plurals of compounds with "man" (firemen, horsemen), but not specimen, lumen or abdomen."""


def name_words(name: str) -> str:
    """Return the words of a name in a schema.

    >>> [name_words(name) for name in ("in_district", "parentTaxon", "DNA test", "has-part", "ACTED_IN")]
    ['in district', 'parent taxon', 'DNA test', 'has part', 'acted in']
    """
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", re.sub(r"[_\s-]+", " ", name)).split()
    shouted = sum(len(word) > 1 and word.isupper() for word in parted) == len(parted) and (
        len(parted) > 1 or len(name) > 3
    )
    parted = [word if word.isupper() and len(word) > 1 and not shouted else word.lower() for word in parted]
    return " ".join(word.upper() if word in WORDS["acronyms"] else word for word in parted)


def singular(noun: str) -> str:
    """Return the singular of a noun phrase, whose head is before the first preposition; one in the singular stays."""
    return _inflect(noun, _singular_word)


def plural(noun: str) -> str:
    """Return the plural of a noun phrase, whose head is before the first preposition.

    >>> [plural(noun) for noun in ("dish", "part of the body", "gene or protein", "person", "species", "cities", "CVE")]
    ['dishes', 'parts of the body', 'genes or proteins', 'people', 'species', 'cities', 'CVEs']
    >>> [singular(noun) for noun in ("dishes", "parts of the body", "people", "bus", "CVEs")]
    ['dish', 'part of the body', 'person', 'bus', 'CVE']
    """
    return _inflect(singular(noun), _plural_word)


def with_article(noun: str) -> str:
    """Return a noun after its indefinite article; without one, a noun that cannot be counted.

    >>> [with_article(noun) for noun in ("ingredient", "unit", "hour", "town", "NGO")]
    ['an ingredient', 'a unit', 'an hour', 'a town', 'an NGO']
    """
    if noun.split()[-1] in WORDS["mass"]:
        return noun
    first = noun.lower()
    vowel = first.startswith((*_VOWEL, "hour", "honour", "honor", "heir")) and not first.startswith(
        ("uni", "use", "eu", "one", "ura")
    )
    spelled = noun[:2].isupper() and len(noun) > 1
    return f"{'an' if (noun[0] in 'AEFHILMNORSX' if spelled else vowel) else 'a'} {noun}"


def agree(text: str, *, many: bool) -> str:
    """Return a text with the alternatives `[singular|plural]` of one number.

    >>> agree("that [is a member|are members] of it", many=True)
    'that are members of it'
    """
    return _ALTERNATIVES.sub(lambda found: found[2 if many else 1], text)


def fill(text: str, slots: Mapping[str, str]) -> str:
    """Return a text with its `{slots}` filled; those that are not in `slots` stay."""
    return re.sub(r"\{(\w+)\}", lambda found: slots.get(found[1], found[0]), text)


def with_plural(clause: str) -> str:
    """Return a relative clause in the singular with both numbers.

    >>> with_plural("that is made with {x}"), with_plural("that {x} wrote"), with_plural("that never zings {x}")
    ('that [is|are] made with {x}', 'that {x} wrote', 'that never [zings|zing] {x}')
    >>> with_plural("that is a target of {x}"), with_plural("that may cause {x}")
    ('that [is a target|are targets] of {x}', 'that may cause {x}')
    """
    clause = re.sub(r"\bits\b", "[its|their]", clause)
    parts = re.match(r"(that (?:\{x\} )?(?:(?:never|always|often|also|only|sometimes) )?)(\w+)(.*)", clause)
    if not parts or not parts[2].endswith("s") or verb_form(parts[2])[1] == "past":
        return clause
    many = {"was": "were", "is": "are", "has": "have", "does": "do"}.get(parts[2]) or _singular_word(parts[2])
    of = re.match(r" an? ((?:\w+ ){1,3}?)(?=(?:of|in|on|for|at|to|with) )", parts[3])
    if of and parts[2] in ("is", "was"):
        rest = parts[3][of.end() :]
        return f"{parts[1]}[{parts[2]}{of[0].rstrip()}|{many} {plural(of[1].strip())}] {rest}"
    return f"{parts[1]}[{parts[2]}|{many}]{parts[3]}"


def is_person(noun: str) -> bool:
    """Return whether a noun phrase in the singular is of a person.

    >>> is_person("film director"), is_person("river"), is_person("head of state")
    (True, False, True)
    """
    return head_of(singular(noun)).lower() in WORDS["persons"]


def head_of(noun: str) -> str:
    """Return the word of a noun phrase that has its number: the one before the first preposition, "" for none."""
    words = noun.split()
    of = next((place for place, word in enumerate(words) if word in WORDS["prepositions"]), len(words))
    return words[of - 1] if of else ""


def is_clause(name: str) -> bool:
    """Return whether a name has a verb within, so that a sentence around it would be misread.

    >>> is_clause("NOTCH4 Domain Regulates Transcription"), is_clause("Aldwick Records"), is_clause("Works of Mercy")
    (True, False, False)
    """
    words = name.lower().split()
    return any(
        word in ("is", "are", "was", "were") or (verb_form(word)[1] == "present" and after not in WORDS["prepositions"])
        for word, after in pairwise(words[1:])
    )


@lru_cache(maxsize=4096)
def verb_form(word: str) -> tuple[str, str]:
    """Return the base and the tense (`base`, `present`, `ing`, `past`, `participle`) of a known verb; else "" and "".

    A form that is past and participle is `past`; the participle of an unknown regular verb has no base.

    >>> verb_form("contains"), verb_form("wrote"), verb_form("written"), verb_form("members"), verb_form("zinged")
    (('contain', 'present'), ('write', 'past'), ('write', 'participle'), ('', ''), ('', 'past'))
    """
    if word in _VERBS:
        return _VERBS[word]
    if len(word) > 6 and word.endswith(("izes", "ifies", "lates", "vates")):  # regulates, not candidates
        return (f"{word[:-3]}y" if word.endswith("ies") else word[:-1]), "present"
    return "", "past" if len(word) > 4 and word.endswith("ed") else ""


def past_forms(base: str) -> tuple[str, str]:
    """Return the past and the participle of a verb.

    >>> past_forms("write"), past_forms("carry"), past_forms("star"), past_forms("cite")
    (('wrote', 'written'), ('carried', 'carried'), ('starred', 'starred'), ('cited', 'cited'))
    """
    if base in _LEXICON["past"]:
        past, participle = _LEXICON["past"][base]
        return past, participle
    if base[-1] == "y" and base[-2] not in _VOWEL:
        return (f"{base[:-1]}ied",) * 2
    doubled = base[-1] if base in WORDS["doubled"] else ""
    return (f"{base}d" if base.endswith("e") else f"{base}{doubled}ed",) * 2


def passive_of(base: str) -> str:
    """Return the participle of a verb with its preposition, "by" for most; "" where it has no passive.

    >>> passive_of("guard"), passive_of("contain"), passive_of("belong")
    ('guarded by', 'contained in', '')
    """
    return str(_LEXICON["passives"].get(base, f"{past_forms(base)[1]} by"))


def third_person(base: str) -> str:
    """Return the third person of a verb, from its base: `writes`."""
    return "has" if base == "have" else _plural_word(base)


def _inflect(noun: str, inflect: Callable[[str], str]) -> str:
    """Return a noun phrase with its head inflected, the word before the first preposition, on both sides of an "or"."""
    parts = []
    for part in noun.split(" or "):
        words = part.split()
        of = next((place for place, word in enumerate(words) if place and word in WORDS["prepositions"]), len(words))
        parts.append(" ".join([*words[: of - 1], *map(inflect, words[of - 1 : of]), *words[of:]]))
    return " or ".join(parts)


def _singular_word(word: str) -> str:
    if _MEN.fullmatch(word):
        return f"{word[:-2]}an"
    if (
        word in _SINGULARS
        or word in _PLURALS
        or word.casefold() in WORDS["unchanged"] | WORDS["mass"]
        or not word.endswith("s")
    ):
        return _SINGULARS.get(word, word)
    if word[:-1].isupper() and len(word) > 2:  # CVEs
        return word[:-1]
    return word if word.isupper() else singularize(word)


def _plural_word(word: str) -> str:
    if word in _PLURALS or word in WORDS["unchanged"] | WORDS["mass"]:
        return _PLURALS.get(word, word)
    if word[-1:] == "y" and word[-2:-1] not in _VOWEL and len(word) > 1:
        return f"{word[:-1]}ies"
    if word.endswith("sis"):
        return f"{word[:-2]}es"
    if word.endswith("man") and word != "human":
        return f"{word[:-3]}men"
    return f"{word}es" if word.endswith(("s", "x", "z", "ch", "sh", "go", "do")) else f"{word}s"


def _verb_forms() -> dict[str, tuple[str, str]]:
    """Return all forms of the known verbs; of a base that is another one's past ("found"), the base."""
    forms: dict[str, tuple[str, str]] = {}
    for base in sorted(WORDS["verbs"]):
        stem = base[:-1] if base.endswith("e") and not base.endswith(("ee", "ie")) else base
        stem = f"{base[:-2]}y" if base.endswith("ie") else stem
        doubled = base[-1] if base in WORDS["doubled"] or base in ("run", "win", "sit") else ""
        past, participle = past_forms(base)
        forms.setdefault(base, (base, "base"))
        forms[third_person(base)] = (base, "present")
        forms[f"{stem}{doubled}ing"] = (base, "ing")
        forms[past] = (base, "past")
        if participle != past:
            forms[participle] = (base, "participle")
    return forms | {"born": ("bear", "participle")}


_VERBS = _verb_forms()


GRAMMAR = tomllib.loads(Path(__file__).with_name("grammar.toml").read_text(encoding="utf-8"))
_SIGN = re.compile(r"[,;.:!?/\"()]")
"""A sign in the name of a relation, which then is quoted."""
_LINKS = ("interaction", "relation", "relationship", "association", "connection", "link", "border", "similarity")
"""Nouns for an edge itself, such as "synergistic interaction": each end has one with the other."""
_ROLE_ENDINGS = ("er", "or", "ist", "ant", "ment", "tion", "ship", "ee", "ary")
"""Endings of unknown nouns that are read as roles."""


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
        form = f"the_{form}" if ends.one_tail or head_of(slots["noun"]) in WORDS["places"] else f"a_{form}"
    slots = {"r": name_words(relation) or relation} | slots
    return [fill(variant, slots) for variant in GRAMMAR["forms"][form]["to" if to else "from"]]


def _relation_words(relation: str, ends: RelationEnds) -> list[str]:
    """Return the words of a relation without auxiliary verbs, and without the types of its ends.

    The types only tell which ends it joins: `paper___cites___paper`, `lives in town`, `film_director`.
    """
    parts = relation.split("___")
    words = name_words(parts[1] if len(parts) == 3 else relation).split()
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
    """Return a letter for what a word is in the name of a relation; `grammar.toml` lists them before its rules."""
    if word in WORDS["prepositions"] or word in ("a", "an", "the"):
        return {"of": "o", "by": "y", "a": "a", "an": "a", "the": "a"}.get(word, "p")
    base, tense = verb_form(word)
    if tense == "past" and (base in WORDS["intransitive"] or (base and word != past_forms(base)[1])):
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
    base, tense = verb_form(found.get("verb", ""))
    base, tense = (base, tense) if tense or "verb" not in found else (singular(found["verb"]), "present")
    is_past = tense in ("past", "participle") and (base in WORDS["past_events"] or (not base and form != "participle"))
    past, participle = past_forms(base) if base else (found.get("verb", ""),) * 2
    is_past |= tense == "past" and (form in ("active", "transitive") or past != participle)
    after, kind, noun = (found.get(group, "") for group in ("after", "kind", "noun"))
    if " " in after and after.split()[0] not in WORDS["mass"] and singular(after.split()[0]) == after.split()[0]:
        after = with_article(after)  # shares a border with
    verb = past if is_past else f"[{third_person(base)}|{base}]" if base else ""
    passive = passive_of(base) if base and form == "transitive" else f"{participle} by"
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
