"""Porter stemmer with NLTK's extensions, without NLTK: published scores depend on every rule.

`text.tokens` stems with it, and `building` matches words by their stems. Tests compare it with NLTK itself.
Source: M. F. Porter, "An algorithm for suffix stripping", Program 14(3), 1980; the extensions are NLTK's (Apache-2.0).
"""

from collections.abc import Iterable
from typing import Literal

NltkVersion = Literal["3.9", "3.10"]
"""Version of NLTK: "3.9" is any version up to 3.9.2, "3.10" is 3.10.0 and later."""

_IRREGULAR = {"sky": "sky", "skies": "sky", "dying": "die", "lying": "lie", "tying": "tie"} | {
    form: form.removesuffix("s") for form in ("inning", "innings", "outing", "outings", "canning", "cannings")
}
_IRREGULAR |= {form: form for form in ("news", "howe", "proceed", "exceed", "succeed")}

# In each table the longest matching suffix decides, whether its condition holds or not.
_STEP_2 = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("bli", "ble"),
    ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"), ("ation", "ate"),
    ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"),
    ("iviti", "ive"), ("biliti", "ble"), ("fulli", "ful"), ("logi", "log"),
)  # fmt: skip
_STEP_3 = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", "")
)  # fmt: skip
_STEP_4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
)  # fmt: skip
_STEP_2_SUFFIXES = tuple(suffix for suffix, _ in _STEP_2)
_STEP_3_SUFFIXES = tuple(suffix for suffix, _ in _STEP_3)


class _Letters(dict[int, str]):
    """Vowels to "v", everything else to "c"; "y" stays, as its kind depends on the letter before it."""

    def __missing__(self, character: int) -> str:
        return "c"


_LETTERS = _Letters({ord(vowel): "v" for vowel in "aeiou"} | {ord("y"): "y"})


def stem(word: str, nltk: NltkVersion = "3.9") -> str:
    """Return the stem of a word, in lower case.

    The versions differ in words like "Sky": NLTK up to 3.9 looks irregular words up with their case and misses them;
    3.10 looks them up in lower case.

    >>> stem("animated"), stem("Sky"), stem("Sky", nltk="3.10"), stem("")
    ('anim', 'ski', 'sky', '')
    """
    lowered = word.lower()
    if (word if nltk == "3.9" else lowered) in _IRREGULAR:
        return _IRREGULAR[lowered]
    if len(word) <= 2:
        return lowered
    word = _step_1c(_step_1b(_step_1a(lowered)))
    return _step_5(_step_4(_step_3(_step_2(word))))


def _shape(word: str) -> str:
    """Return "c" for each consonant and "v" for each vowel; "y" after a consonant is a vowel."""
    shape = word.translate(_LETTERS)
    if "y" not in shape:
        return shape
    letters: list[str] = []
    for letter in shape:
        letters.append(letter if letter != "y" else "v" if letters and letters[-1] == "c" else "c")
    return "".join(letters)


def _measure(word: str) -> int:
    """Return m, the number of vowel-consonant turns in [C](VC)^m[V]."""
    return _shape(word).count("vc")


def _ends_short(word: str) -> bool:
    """Condition *o: consonant, vowel, consonant other than w, x, y; or a whole word of vowel and consonant."""
    shape = _shape(word)
    return (shape.endswith("cvc") and word[-1] not in "wxy") or shape == "vc"


def _step_1a(word: str) -> str:
    if word.endswith("ies"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("sses"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _step_1b(word: str) -> str:
    """Remove -ed and -ing where a vowel is before them, and mend the end of what is left."""
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    rest = word[:-2] if word.endswith("ed") else word[:-3] if word.endswith("ing") else ""
    if "v" not in _shape(rest):
        return word
    if rest.endswith(("at", "bl", "iz")):
        return rest + "e"
    if len(rest) > 1 and rest[-1] == rest[-2] and _shape(rest)[-1] == "c":
        return rest if rest[-1] in "lsz" else rest[:-1]
    return rest + "e" if _measure(rest) == 1 and _ends_short(rest) else rest


def _step_1c(word: str) -> str:
    return word[:-1] + "i" if word.endswith("y") and len(word) > 2 and _shape(word)[-2] == "c" else word


def _step_2(word: str) -> str:
    if not word.endswith(_STEP_2_SUFFIXES):
        return word
    if word.endswith("alli") and _measure(word[:-4]) > 0:
        return _step_2(word[:-2])
    return _replace_suffix(word, _STEP_2)


def _step_3(word: str) -> str:
    return _replace_suffix(word, _STEP_3) if word.endswith(_STEP_3_SUFFIXES) else word


def _replace_suffix(word: str, table: Iterable[tuple[str, str]]) -> str:
    """Return the word with its suffix in the table replaced, if the part before it has a measure."""
    suffix, replacement = next(entry for entry in table if word.endswith(entry[0]))
    rest = word[: -len(suffix)]
    return rest + replacement if _measure(word[:-3] if suffix == "logi" else rest) > 0 else word


def _step_4(word: str) -> str:
    if not word.endswith(_STEP_4):
        return word
    suffix = next(suffix for suffix in _STEP_4 if word.endswith(suffix))
    rest = word[: -len(suffix)]
    removable = _measure(rest) > 1 and (suffix != "ion" or rest[-1] in "st")
    return rest if removable else word


def _step_5(word: str) -> str:
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _ends_short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word
