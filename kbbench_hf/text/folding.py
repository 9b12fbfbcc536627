"""Folding of case, accents and typography (NFKD, casefold), by which spellings compare equal; lazy patterns.

Used by `metrics`, `parsing`, `building`, `llm` and the other modules of `text`. `strip_accents` is the definition of
WikiTableQuestions' evaluator. Which names, answers and triples are equal, and so the scores, depends on each function.
"""

import re
import unicodedata
from functools import lru_cache
from html import unescape
from typing import Any, cast

TYPEWRITER = str.maketrans(
    {**dict.fromkeys("‘’‚‛ʼ′", "'"), **dict.fromkeys("“”„‟″", '"'), **dict.fromkeys("‐‑‒–—―−", "-")}
)
"""Typographic quotes, dashes and the minus sign -> those of a typewriter."""
_PUNCTUATION = TYPEWRITER | str.maketrans("´`ʹ«»_", "'''\"\" ")
"""The same, more quotes, and `_` -> a blank. Text with the wrong encoding has these characters inside its letters."""
_LETTERS = str.maketrans(
    {"ı": "i", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ð": "d", "Ð": "D", "þ": "th", "Þ": "Th",
     "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "ħ": "h", "Ħ": "H", "ŧ": "t", "Ŧ": "T", "ŋ": "n", "ĸ": "k",
     "ə": "a", "Ə": "A"}
)  # fmt: skip
"""Letters that Unicode does not decompose -> how they are written without a stroke or ligature."""
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_FOOTNOTE = re.compile(r"\s*\[[^\[\]]{1,3}\]\.?\s*$")


def strip_accents(text: str) -> str:
    """Return a text in compatibility form (NFKD) without nonspacing marks (category Mn), as WikiTableQuestions does.

    >>> strip_accents("Élan ＩＬ-10"), strip_accents("Łódź")
    ('Elan IL-10', 'Łodz')
    """
    if text.isascii():
        return text
    return "".join(each for each in unicodedata.normalize("NFKD", text) if unicodedata.category(each) != "Mn")


@lru_cache(maxsize=2**15)
def fold(text: str) -> str:
    """Return a text without case and accents, letters without decomposition included.

    >>> fold("Yıldız"), fold("Bjørklund"), fold("Straße")
    ('yildiz', 'bjorklund', 'strasse')
    """
    return text.lower() if text.isascii() else strip_accents(text).translate(_LETTERS).casefold()


@lru_cache(maxsize=1 << 18)
def fold_typography(text: str) -> str:
    """Return a text folded, with typewriter quotes and dashes, single blanks, `_` as a blank, and no footnote mark.

    >>> fold_typography("“Łódź”–1 [2]")
    '"lodz"-1'
    """
    # before folding, as NFKD writes an acute accent as a blank with a mark; after it, as it makes superscripts dashes
    plain = fold(text.translate(_PUNCTUATION)).translate(_PUNCTUATION)
    return " ".join(_FOOTNOTE.sub("", plain).split()) or text.strip()


def repair_text(text: str) -> str:
    """Return a text composed (NFC), without HTML entities, and with UTF-8 that was decoded as Latin-1 repaired.

    >>> repair_text("Fe" + chr(0x301) + "lix FÃ©lix &minus;7")
    'Félix Félix -7'
    """
    if "&" in text:
        text = unescape(text)
    if text.isascii():
        return text
    return unscramble(unicodedata.normalize("NFC", text)).replace(chr(0x2212), "-")


def unscramble(text: str) -> str:
    r"""Return a text in which runs of UTF-8 that were decoded as Latin-1 or Windows-1252 are decoded as UTF-8.

    >>> unscramble("by Gor\u00c5\u008d Miyazaki, in München")
    'by Gorō Miyazaki, in München'
    """

    def decode_again(run: re.Match[str]) -> str:
        for encoding in ("latin-1", "cp1252"):
            try:
                return run[0].encode(encoding).decode("utf-8")
            except UnicodeError:
                continue
        return run[0]

    return _NOT_ASCII.sub(decode_again, text)


class _LazyPattern:
    """Compiled at first use: compiling hundreds of expressions takes longer than a command's work."""

    def __init__(self, expression: str, flags: int) -> None:
        self.pattern, self._flags = expression, flags

    def __getattr__(self, name: str) -> Any:
        method = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, method)  # later lookups find the attribute and skip this function
        return method


def lazy_pattern(expression: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled when one of its methods is first looked up.

    >>> lazy_pattern("b+", re.IGNORECASE).sub("-", "aBBc")
    'a-c'
    """
    return cast("re.Pattern[str]", _LazyPattern(expression, int(flags)))


def ignoring_case(expression: str) -> re.Pattern[str]:
    """Return a pattern that is compiled at first use and ignores case.

    >>> ignoring_case("b+").sub("-", "aBBc")
    'a-c'
    """
    return lazy_pattern(expression, re.IGNORECASE)
