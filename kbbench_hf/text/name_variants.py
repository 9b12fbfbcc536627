"""Variants of English names: spelling, plurals, nations, nicknames, qualifiers, and words that are not part of one.

Used by `metrics` to compare names (SKA-Bench `typed`, Text2KGBench), by `building` and by the prompts of Text2KGBench.
The lists of nations, nicknames and equal words are in `data`. Scores depend on all of them.
"""

import re
from functools import cache, lru_cache
from importlib.resources import files

from kbbench_hf.text.dates import MONTHS, ORDINALS, WEEKDAYS
from kbbench_hf.text.folding import fold, fold_typography
from kbbench_hf.text.quantities import THOUSANDS

SMALL_WORDS = frozenset(
    "a al an and at by d da das de del den der des di do dos du el en et for from in into la le les los of on or s "
    "the to un und v van von vs with y zu".split()
)
"""Words that a name may have in lower case, and that acronyms omit."""
STARTING_WORDS = frozenset(
    "about after again all also although another as at because before both but during each even finally first "
    "following for former from furthermore he hence her here his how however i if in instead it its last later like "
    "many meanwhile most moreover new no not now of on once one only other our out over she since so some soon still "
    "such that their then there these they this those though through thus to today together under unlike until up "
    "upon was we were what when where whether which while who whose why with within without yet you your "
    "born released directed written produced based starring".split()
).union(MONTHS, WEEKDAYS)
"""Capitalized words at the start of sentences and in dates; no name begins with one."""
TITLES = frozenset(
    "actor actress admiral archbishop astronaut author baron baroness bishop brigadier brother captain cardinal "
    "chancellor coach colonel commander composer congressman corporal count countess dame director doctor dr duchess "
    "duke earl emperor empress father general governor judge justice king lady lieutenant lord madam major manager "
    "marquess marshal master mayor minister miss mother mr mrs ms president prince princess prof professor queen rabbi "
    "rapper representative rev reverend saint secretary senator sergeant sheikh singer sir sister st sultan tsar "
    "viscount writer".split()
)
"""Words before a family name that are not part of a longer name."""
_ROMAN = {
    "II": "2", "III": "3", "IV": "4", "VI": "6", "VII": "7", "VIII": "8", "IX": "9", "XI": "11", "XII": "12",
    "XIII": "13", "XIV": "14", "XV": "15", "XVI": "16", "XVII": "17", "XVIII": "18", "XIX": "19", "XX": "20",
}  # fmt: skip
"""Roman numerals that are no initials; I, V and X could be."""
QUALIFIER = re.compile(r"\s*\([^()]*\)\s*$")
"""The parentheses at the end of a name, which tell it apart from others."""
_QUALIFIER_AND_STOP = re.compile(r"\s*\([^()]*\)\.?$")
_ARTICLE = re.compile(r"^(?:the|an?)\s+(?!the\W*$)(?=.*\w)")
_APOSTROPHE = re.compile(r"\s?'(?=s\b)|'")
_PUNCTUATION = re.compile(r"(?<![\w+#])[+#]|(?<=[^\W\d])\.|\.(?!\d)|(?<!^)-|-(?!\d)|[^\w\s+#.-]")
"""Characters that become blanks: no decimal point, sign of a number, or `+` and `#` inside a word."""
_INITIALS = re.compile(r"\b[^\W\d](?: [^\W\d]\b)+")
_ORDINAL = {word: f"{n}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(n, 'th') }" for word, n in ORDINALS.items() if n <= 12}


@lru_cache(maxsize=1 << 18)
def strip_qualifier(text: str) -> str:
    """Return a text with typography folded, without the parentheses at its end.

    >>> strip_qualifier("Skyfall (2012 film)"), strip_qualifier("(35.8)")
    ('skyfall', '(35.8)')
    """
    whole = fold_typography(text)
    name = _QUALIFIER_AND_STOP.sub("", whole)
    return name if re.search(r"\w", name) else whole


@lru_cache(maxsize=1 << 18)
def entity_key(text: str) -> str:
    """Return the form that names of one entity share; the name itself if it has only punctuation.

    >>> entity_key("The Rock ’n’ Roll A. B. Café"), entity_key("Guns & Roses"), entity_key("C++"), entity_key("The")
    ('rock n roll ab cafe', 'guns and roses', 'c++', 'the')
    """
    name = _ARTICLE.sub("", fold_typography(text).lstrip("\"'"))
    key = _PUNCTUATION.sub(" ", _APOSTROPHE.sub("", re.sub(THOUSANDS, "", name)).replace("&", " and "))
    key = _INITIALS.sub(lambda initials: initials[0].replace(" ", ""), " ".join(key.split()))
    return " ".join(_ORDINAL.get(word, word) for word in key.split()) or fold_typography(text)


@lru_cache(maxsize=2**15)
def normalize_word(word: str) -> str:
    """Return a folded word, with one form for abbreviations, small numbers, Roman numerals and British spelling.

    >>> normalize_word("Saint"), normalize_word("second"), normalize_word("II"), normalize_word("Ii")
    ('st', '2nd', '2', 'ii')
    """
    if word in _ROMAN:
        return _ROMAN[word]
    folded = fold(word)
    return _same_words().get(folded, folded)


@lru_cache(maxsize=2**15)
def singularize(word: str) -> str:
    """Return the singular of a folded word by its ending; a final -ie becomes -y.

    >>> [singularize(word) for word in "sandwiches countries cookie tomatoes glass women is series".split()]
    ['sandwich', 'country', 'cooky', 'tomato', 'glass', 'woman', 'is', 'series']
    """
    if len(word) < 4 or word.endswith(("ss", "us", "is", "series", "species")):
        return word
    if word.endswith(("sses", "shes", "ches", "xes", "zes", "oes")):
        return word[:-2]
    if word.endswith("men"):
        return word[:-3] + "man"
    word = word.removesuffix("s")
    return word[:-2] + "y" if word.endswith("ie") and len(word) > 3 else word


@lru_cache(maxsize=2**15)
def strip_ending(word: str) -> str:
    """Return a folded word without a derivational ending (-ing, -ist, -ism, -ic, -er, -y); a short word is unchanged.

    >>> [strip_ending(word) for word in "singing singers botany botanist guitar guitarist".split()]
    ['sing', 'sing', 'botan', 'botan', 'guitar', 'guitar']
    >>> [strip_ending(word) for word in "democrats democratic bank banking king".split()]
    ['democrat', 'democrat', 'bank', 'bank', 'king']
    """
    word = singularize(word)
    for ending in ("ing", "ist", "ism", "ic", "er", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word.removesuffix(ending)
    return word


def find_nicknames(given_name: str) -> frozenset[str]:
    """Return the other names of people with a folded given name.

    >>> sorted(find_nicknames("theodore"))
    ['ted', 'teddy']
    """
    return _nicknames().get(given_name, frozenset())


@lru_cache(maxsize=2**15)
def find_country(name: str) -> str:
    """Return the country of a name, an adjective or a people; "" if there is none.

    >>> [find_country(name) for name in ("Italian", "the United States", "U S", "Americans", "Turin")]
    ['italy', 'unitedstates', 'unitedstates', 'unitedstates', '']
    """
    key = _letters(fold(name))
    return _nations().get(key) or _nations().get(singularize(key), "")


def is_country(name: str) -> bool:
    """Return whether a name is that of a country, not of its people, nor an adjective.

    >>> is_country("U.S."), is_country("American")
    (True, False)
    """
    return _letters(fold(name)) in _countries()


def _letters(name: str) -> str:
    """Return a name's letters and digits in lower case, without "the" before them."""
    return re.sub(r"[\W_]", "", name.lower().removeprefix("the "))


@cache
def _countries() -> frozenset[str]:
    """Return the letters of all names of countries."""
    columns = (line.split("\t")[:2] for line in _lines("nations.tsv"))
    return frozenset(_letters(each) for country, names in columns for each in (country, *names.split(", ")) if each)


@cache
def _nations() -> dict[str, str]:
    """Return the letters of each name, adjective and people of a country -> the letters of its first name."""
    result: dict[str, str] = {}
    for line in _lines("nations.tsv"):
        country, names, adjectives = (part.split(", ") for part in line.split("\t"))
        result |= {_letters(each): _letters(country[0]) for each in (*country, *names, *adjectives) if each}
    return result


@cache
def _nicknames() -> dict[str, frozenset[str]]:
    """Return given name -> the other names of its groups: a nickname may stand for several names."""
    result: dict[str, frozenset[str]] = {}
    for line in _lines("nicknames.txt"):
        group = frozenset(line.split())
        result |= {name: result.get(name, frozenset()) | (group - {name}) for name in group}
    return result


@cache
def _same_words() -> dict[str, str]:
    """Return word -> the first word of its group, for abbreviations, numerals and British spelling."""
    groups = (line.split() for line in _lines("same_words.txt"))
    return {other: first for first, *others in groups for other in others}


@cache
def same_phrases() -> list[list[str]]:
    """Return groups of phrases for one thing, in order; a phrase that must be capitalized in a text is so here."""
    return [line.replace("-", " ").split(", ") for line in _lines("same_phrases.txt")]


def _lines(name: str) -> list[str]:
    return (files("kbbench_hf.text") / "data" / name).read_text(encoding="utf-8").splitlines()
