"""Words of a text, and word breaks in scripts without blanks: Chinese, Japanese, Thai, Lao, Khmer, Burmese, Korean.

Texts in Latin, Greek and Cyrillic letters are never changed: published scores depend on their words.
The retrievers index and search the terms of `break_words`; `metrics` and `building` find names with `separate_units`.
"""

import re
import unicodedata
from itertools import pairwise

from kbbench_hf.text.folding import lazy_pattern


def _marks(*ranges: tuple[int, int]) -> str:
    """Return the combining marks of some ranges of Unicode."""
    points = (chr(point) for start, stop in ranges for point in range(start, stop))
    return "".join(each for each in points if unicodedata.category(each) in ("Mn", "Mc"))


MARKS = _marks((0x0900, 0x1AB0), (0x1B00, 0x1D00), (0xA800, 0xAC00)) + "\u200d"
"""Vowel signs and other marks, of Indic scripts for example: parts of words that `\\w` does not match."""
WORD = re.compile(rf"[^\W_]+(?:[{MARKS}]+[^\W_]*)*")
"""A word: a run of letters and digits with their marks."""
_HAN = "々〇〻㐀-䶿一-鿿\U00020000-\U000323af"
_UNSPACED = (
    f"{_HAN}ぁ-ゖゝ-ゟァ-ヺー-ヿㇰ-ㇿㄅ-ㄯ가-힣"  # Japanese, Bopomofo, Korean
    "\u0e00-\u0eff\u1000-\u109f\uaa60-\uaa7f"  # Thai, Lao, Burmese
    "\u1780-\u17d3\u17d7\u17dc\u17dd\u1950-\u19df\u1a20-\u1aad\ua980-\ua9df"  # Khmer, Tai, Javanese
)
"""Scripts without blanks between words, and Korean, whose particles follow the word without a blank."""
_EASTERN = lazy_pattern("[\u0590-\u1cff\u2e80-\ud7ff\uf900-\ufaff\ufb07-\uffef\U00016000-\U0003ffff]+")
"""Characters that are normalized first (NFKC), such as full-width letters and digits."""
_VOWEL_POINTS = lazy_pattern(
    "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed]"
)
"""Vowel points of Hebrew and Arabic, which most texts omit, and the Arabic tatweel, which stretches a word."""
_RUN = lazy_pattern(f"[{_UNSPACED}][{_UNSPACED}{MARKS}\u200b]*")
_UNIT = lazy_pattern(f"[^{MARKS}\u200b][{MARKS}]*")
_SINGLE = lazy_pattern(f"[{_HAN}]|[\u1000-\u109f\u1780-\u17d3][{MARKS}]+")
"""Units that are often words: Chinese characters, Burmese and Khmer syllables."""
_UNSPACED_UNIT = lazy_pattern(f"[ァ-ヺー-ヿㇰ-ㇿ]+|(?![가-힣])[{_UNSPACED}][{MARKS}]*")
_SEPARATED = lazy_pattern(f"(?:^| )(?![가-힣])[{_UNSPACED}][{MARKS}]* (?![가-힣])[{_UNSPACED}][{MARKS}]*(?: |$)")
_BLANK = lazy_pattern(f"(?<=[{_UNSPACED}{MARKS}]) +(?=[{_UNSPACED}])")
_TELLING_PAIR = lazy_pattern(rf"(?=([{_HAN}]{{2}}))|\b([가-힣]{{2}})")
_KOREAN_WORD = lazy_pattern(r"\w*[가-힣]+\b")
_PARTICLES = lazy_pattern(
    "(?:은|는|이|가|을|를|의|에|께|에서|에게|에게서|한테|으로|로|와|과|랑|이랑|하고|부터|까지|처럼|보다|마다|밖에|조차|마저|이나|나|께서|에서부터|으로부터|로부터)?"
    "(?:은|는|도|만|의|이|가|라도|이라도|이다|다|이며|며|이고|고|이었다|였다|입니다|이라는|라는|이라고|라고|인)?"
)
"""One or two particles or forms of the copula that follow a Korean noun."""
TERM = rf"\b\w[\w{MARKS}]+|[{_UNSPACED}]"
"""The pattern of bm25s (`\\b\\w\\w+\\b`) for other scripts; a character of a script without blanks is a term."""


def list_words(text: str) -> list[str]:
    """Return the words of a text, casefolded.

    >>> list_words("Salt-baked, twice: l'Étoile"), list_words("हिन्दी_2")
    (['salt', 'baked', 'twice', 'l', 'étoile'], ['हिन्दी', '2'])
    """
    return WORD.findall(text.casefold())


def break_words(text: str) -> str:
    """Return a text with blanks between the words of scripts that are written without blanks.

    Their words cannot be found without a dictionary. Therefore each run becomes its overlapping pairs of characters,
    and the units of `_SINGLE`. Everything else is unchanged.

    >>> break_words("iPhone手机壳"), break_words("서울에서"), break_words("ＡＢＣ１２"), break_words("naïve")
    ('iPhone 手机 机壳 手 机 壳 ', ' 서울 울에 에서 ', 'ABC12', 'naïve')
    """
    if text.isascii() or not _EASTERN.search(text):
        return text
    composed = _EASTERN.sub(lambda run: unicodedata.normalize("NFKC", run[0]), text)
    return _RUN.sub(_overlapping_pairs, _VOWEL_POINTS.sub("", composed))


def separate_units(text: str) -> str:
    """Return a text with blanks wherever a name may begin or end.

    Each character of a script without blanks becomes a word; a run of katakana is one word. Korean words are split
    before possible particles. Everything else is unchanged.

    >>> [separate_units(text) for text in ("青山灯塔は古い", "サントリーの本社", "서울에서는 BTS를", "naïve")]
    ['青 山 灯 塔 は 古 い', 'サントリー の 本 社', '서울 에서 는 BTS 를', 'naïve']
    """
    if text.isascii() or not _RUN.search(text):
        return text
    apart = _UNSPACED_UNIT.sub(r" \g<0> ", unicodedata.normalize("NFC", text))
    return " ".join(_KOREAN_WORD.sub(_split_particles, apart).split())


def is_separated(text: str) -> bool:
    """Return whether a text has two single characters of a script without blanks in a row, as `separate_units` writes.

    >>> is_separated("青 山"), is_separated("青山"), is_separated("naïve")
    (True, False, False)
    """
    return bool(_SEPARATED.search(text))


def remove_blanks(text: str) -> str:
    """Return a text without the blanks between characters of scripts that have none, as `separate_units` adds them.

    >>> remove_blanks("青 山 灯 塔 of 1904")
    '青山灯塔 of 1904'
    """
    return _BLANK.sub("", text)


def find_shared_part(name: str, text: str) -> str:
    """Return a distinctive part of a name in a script without blanks that a text contains; "" if there is none.

    It is the whole name, a pair of its Chinese characters, or the first two syllables of a Korean word.

    >>> find_shared_part("青山灯塔", "旧青山"), find_shared_part("青山灯塔", "山"), find_shared_part("Petrel", "Petrel")
    ('青山', '', '')
    """
    if not _RUN.search(name):
        return ""
    parts = [name, *("".join(pair) for pair in _TELLING_PAIR.findall(name))]
    return next((part for part in parts if part in text), "")


def _split_particles(word: re.Match[str]) -> str:
    """Return a Korean word with a blank before each ending that can be one or two particles."""
    places = [position for position in range(1, len(word[0])) if _PARTICLES.fullmatch(word[0], position)]
    return " ".join(word[0][start:stop] for start, stop in pairwise([0, *places, len(word[0])]))


def _overlapping_pairs(run: re.Match[str]) -> str:
    """Return the pairs of neighboring units of a run, then its units that are words alone; blanks around each."""
    units = _UNIT.findall(run[0])
    doubles = ["".join(pair) for pair in pairwise(units)] or units
    single = [unit for unit in units if _SINGLE.fullmatch(unit)] if len(units) > 1 else []
    return f" {' '.join([*doubles, *single])} "
