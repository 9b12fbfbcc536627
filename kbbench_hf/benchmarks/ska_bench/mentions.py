"""Names as they are compared, and whether a cell, row or passage mentions one."""

import re
from functools import lru_cache

from kbbench_hf.text.folding import strip_accents

_APOSTROPHES = re.compile("['’‘ʼ]+")
_BREAKS = re.compile(r"(?:[^\w+#&$]|_)+")


@lru_cache(maxsize=1 << 20)
def normal_name(text: str) -> str:
    """Return a name or a text as words in lower case, without marks and punctuation, except `+`, `#`, `&` and `$`.

    >>> normal_name("Amélie (2001)"), normal_name("C++"), normal_name("O'Brien")
    ('amelie 2001', 'c++', 'obrien')
    """
    return " ".join(_BREAKS.sub(" ", _APOSTROPHES.sub("", strip_accents(text).casefold())).split())


def mentions(text: str, literal: str) -> bool:
    """Say whether a text in normal form holds the literal as whole words.

    >>> mentions("1 may 1993", "1993"), mentions("21", "1")
    (True, False)

    The empty literal is mentioned by the empty text alone.
    """
    if not literal:
        return not text
    start = text.find(literal)
    while start >= 0:
        end = start + len(literal)
        before, after = text[start - 1 : start], text[end : end + 1]
        if not (before.isalnum() and literal[0].isalnum()) and not (after.isalnum() and literal[-1].isalnum()):
            return True
        start = text.find(literal, start + 1)
    return False
