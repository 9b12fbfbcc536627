"""Test whether a sentence mentions an entity (Text2KGBench, modes `reference`, `paper` and `repaired`)."""

import re
from functools import lru_cache

from kbbench_hf.text.dates import MONTHS, parse_date
from kbbench_hf.text.folding import strip_accents
from kbbench_hf.text.quantities import NUMERAL
from kbbench_hf.text.words import WORD

_DATE = re.compile(r"\d{4}-\d\d-\d\d|\d\d? [A-Za-z]* ?\d{4}")
_SMALL = frozenset({"a", "an", "and", "de", "for", "in", "of", "on", "the", "to"})


def is_mentioned(sentence: str, entity: str) -> bool:
    """Return whether a sentence mentions an entity by its name or another form of it.

    Names are compared word by word, without case, accents and punctuation; underscores are spaces. Other forms are:

    - a name without its qualifier or quotes: `Totoro (film)`, `"Totoro"`;
    - an acronym of words in a row (`UN`), and words for their acronym (`U.S.`);
    - a number by its value: `1099.0`, `23.27 (square kilometres)`;
    - a date by its parts, in any order: `1989-05-02`, `02 May 1989`. If day and month are 00 or 01 January, which are
      unknown in TekGen, by its year;
    - a person or place by a family name or last word alone, if it and the whole name are capitalized.

    An entity without words is always mentioned.

    >>> sentence = "The U.S. hosts NASA's 1,099 labs since May 2, 1989."
    >>> [is_mentioned(sentence, entity) for entity in ("United_States", "1099.0", "1989-05-02", "Nasa (agency)", "ESA")]
    [True, True, True, True, False]
    """
    text = _sentence_forms(sentence)
    name = entity.replace("_", " ").strip().strip('"')
    plain = re.sub(r"\s*\([^()]*\)$", "", name)
    words = _words(name)
    return (
        not words
        or text.has_words(words)
        or (plain != name and text.has_words(_words(plain)))
        or text.has_number(plain)
        or text.has_date(plain)
        or text.has_acronym(plain)
        or text.has_last_word(plain)
    )


class _SentenceForms:
    """A sentence, in the forms in which names are found."""

    def __init__(self, sentence: str) -> None:
        self.written = [stripped for word in sentence.split() if (stripped := re.sub(r"^\W+|(?:'s)?\W*$", "", word))]
        """The words as written, without surrounding punctuation."""
        self.words = _words(sentence)
        self.numbers = frozenset(float(match.replace(",", "")) for match in re.findall(NUMERAL, sentence))
        self.joined = f" {' '.join(self.words)} "

    def has_words(self, words: tuple[str, ...]) -> bool:
        return bool(words) and f" {' '.join(words)} " in self.joined

    def has_number(self, name: str) -> bool:
        return bool(re.fullmatch(NUMERAL, name)) and float(name.replace(",", "")) in self.numbers

    def has_date(self, name: str) -> bool:
        dates = parse_date(name) if _DATE.fullmatch(name) else ()
        if not dates or str(dates[0].year) not in self.words:
            return False
        _, month, day = dates[0]
        if (month, day) == (1, 1) or not month:
            return True
        named = MONTHS[month - 1] in self.words or MONTHS[month - 1][:3] in self.words
        return named and (not day or bool({str(day), f"{day:02}"} & set(self.words)))

    def has_acronym(self, name: str) -> bool:
        words = name.split()
        if len(words) > 1:
            initials = "".join(word[0] for word in _words(name) if word not in _SMALL)
            return len(initials) > 1 and initials in {_letters(word) for word in self.written if word.isupper()}
        letters = _letters(name)
        if not (name.isupper() and 2 <= len(letters) <= 6):
            return False
        capitals = "".join(
            word[0].lower() if word[0].isupper() else "" if word in _SMALL else " " for word in self.written
        )
        initials = "".join(word[0] for word in self.words if word not in _SMALL)
        return letters in capitals or (len(letters) > 2 and letters in initials)

    def has_last_word(self, name: str) -> bool:
        words = name.split()
        if len(words) < 2 or not all(word[0].isupper() for word in words if word.lower() not in _SMALL):
            return False
        positions = (position for position, word in enumerate(self.written) if word == words[-1])
        around = ((self.written[max(n - 1, 0) : n] + self.written[n + 1 : n + 2]) for n in positions)
        return any(not any(other[0].isupper() for other in others) for others in around)


_sentence_forms = lru_cache(maxsize=2**13)(_SentenceForms)


def _words(text: str) -> tuple[str, ...]:
    return tuple(WORD.findall(strip_accents(text).casefold()))


def _letters(word: str) -> str:
    return word.replace(".", "").casefold()
