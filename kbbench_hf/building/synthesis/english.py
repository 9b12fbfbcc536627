"""English inflection of the names of types and relations: number of nouns, forms of verbs, nouns of persons."""

import re
import tomllib
from collections.abc import Callable, Mapping
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
    """Return the singular of a noun phrase; inverse of `plural`."""
    return _inflected(noun, _singular_word)


def plural(noun: str) -> str:
    """Return the plural of a noun phrase, whose head is before the first preposition.

    >>> [plural(noun) for noun in ("dish", "part of the body", "gene or protein", "person", "species", "cities", "CVE")]
    ['dishes', 'parts of the body', 'genes or proteins', 'people', 'species', 'cities', 'CVEs']
    >>> [singular(noun) for noun in ("dishes", "parts of the body", "people", "bus", "CVEs")]
    ['dish', 'part of the body', 'person', 'bus', 'CVE']
    """
    return _inflected(singular(noun), _plural_word)


def with_article(noun: str) -> str:
    """Return a noun after its indefinite article.

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
    """Return a text with its `{slots}` filled, those that are known."""
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
    """Return the third person of a verb."""
    return "has" if base == "have" else _plural_word(base)


def _inflected(noun: str, inflect: Callable[[str], str]) -> str:
    parts = []
    for part in noun.split(" or "):
        words = part.split()
        of = next((place for place, word in enumerate(words) if place and word in WORDS["prepositions"]), len(words))
        parts.append(" ".join([*words[: of - 1], *map(inflect, words[of - 1 : of]), *words[of:]]))
    return " or ".join(parts)


def _singular_word(word: str) -> str:
    if (
        word in _SINGULARS
        or word in _PLURALS
        or word.casefold() in WORDS["unchanged"] | WORDS["mass"]
        or not word.endswith("s")
    ):
        return _SINGULARS.get(word, word)
    return word[:-1] if word[:-1].isupper() and len(word) > 2 else word if word.isupper() else singularize(word)


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
