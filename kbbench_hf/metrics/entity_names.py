"""What two written names of one entity share."""

import re
import unicodedata
from functools import lru_cache

_PLAIN = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛´`ʼʹ′", "'"),
        **dict.fromkeys("“”„‟″«»", '"'),
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict(zip("øØłŁđĐıðÐ", "oOlLdDidD", strict=True)),
        **dict(zip("æÆœŒþÞ", ("ae", "Ae", "oe", "Oe", "th", "Th"), strict=True)),
        "_": " ",
    }
)
_QUALIFIER = re.compile(r"\s*\([^()]*\)\.?$")
_FOOTNOTE = re.compile(r"\s*\[[^\[\]]{1,3}\]\.?\s*$")
_GROUPS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_ARTICLE = re.compile(r"^(?:the|an?)\s+(?!the\W*$)(?=.*\w)")
_APOSTROPHE = re.compile(r"\s?'(?=s\b)|'")
_PUNCTUATION = re.compile(r"(?<![\w+#])[+#]|(?<=[^\W\d])\.|\.(?!\d)|(?<!^)-|-(?!\d)|[^\w\s+#.-]")
"""What becomes a blank: not a decimal point, the sign of a number, or `+` and `#` inside a word."""
_INITIALS = re.compile(r"\b[^\W\d](?: [^\W\d]\b)+")

_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
_ORDINAL = {word: f"{n}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(n, 'th') }" for n, word in enumerate(_ORDINALS.split(), 1)}


@lru_cache(maxsize=1 << 18)
def plain(text: str) -> str:
    """Return a text without marks, in lower case, with plain quotes and dashes, single blanks and no footnote mark.

    >>> plain("“Łódź”–1 [2]")
    '"lodz"-1'
    """
    marked = unicodedata.normalize("NFKD", text.translate(_PLAIN)).translate(_PLAIN)
    unmarked = "".join(c for c in marked if unicodedata.category(c) != "Mn")
    return " ".join(_FOOTNOTE.sub("", unmarked).casefold().split()) or text.strip()


@lru_cache(maxsize=1 << 18)
def without_qualifier(text: str) -> str:
    """Return a text, plainly written, without what stands in parentheses at its end.

    >>> without_qualifier("Skyfall (2012 film)"), without_qualifier("(35.8)")
    ('skyfall', '(35.8)')
    """
    whole = plain(text)
    name = _QUALIFIER.sub("", whole)
    return name if re.search(r"\w", name) else whole


@lru_cache(maxsize=1 << 18)
def entity_key(text: str) -> str:
    """Return what two names of one entity share; itself where nothing but punctuation is in it.

    >>> entity_key("The Rock ’n’ Roll A. B. Café"), entity_key("Guns & Roses"), entity_key("C++"), entity_key("The")
    ('rock n roll ab cafe', 'guns and roses', 'c++', 'the')
    """
    name = _ARTICLE.sub("", plain(text).lstrip("\"'"))
    key = _PUNCTUATION.sub(" ", _APOSTROPHE.sub("", _GROUPS.sub("", name)).replace("&", " and "))
    key = _INITIALS.sub(lambda initials: initials[0].replace(" ", ""), " ".join(key.split()))
    return " ".join(_ORDINAL.get(word, word) for word in key.split()) or plain(text)
