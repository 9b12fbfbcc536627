"""Find the words of a name in a sentence: in a row, alone, with a capital.

Used by `metrics` to find how a sentence mentions an entity (Text2KGBench), and by `building` to align and audit
extraction data. Positions are those of words, not of characters. Scores of `repaired-2` and `repaired-3` depend on the
rules and on the lists of words.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from kbbench_hf.text.dates import Date, find_dates
from kbbench_hf.text.folding import fold, repair_text
from kbbench_hf.text.name_variants import SMALL_WORDS, STARTING_WORDS, TITLES, find_country, normalize_word, singularize
from kbbench_hf.text.quantities import Quantity, find_quantities
from kbbench_hf.text.words import WORD

Span = tuple[int, int]
"""The position of the first word, and of the word after the last."""
PARTICLES = frozenset("de da di du dos la le van von der den del el al bin ibn o".split())
"""Words in lower case that belong to the family name after them."""
KINDS = frozenset(
    "album animal architecture asteroid band book cheese city club company corporation county cuisine currency dialect "
    "dish district drink filming film food group instrument island lake language magazine mountain movie music "
    "narrative newspaper novel party people plant province region river sauce series song soup state style svg team "
    "town village".split()
)
"""Last words that a name may have or lack: "Italian language"."""
NO_FAMILY_NAMES = KINDS | frozenset(
    "academy agency airport army association awards board bridge cathedral centre center championship championships "
    "church college commission committee conference cup dam department election empire federation festival force "
    "foundation games government grounds hall house institute islands journal kingdom league library mountains museum "
    "navy office open organization park prix project race records republic research review road school season service "
    "show society stadium station story street system theatre tour trophy union university war works world".split()
)
"""Last words of labels that are never family names."""


class Label(NamedTuple):
    """A name and its words."""

    name: str
    written: tuple[str, ...]
    """The words as written."""
    words: tuple[str, ...]
    """The words, folded."""

    @classmethod
    def of(cls, name: str) -> "Label":
        """Split a name into words."""
        written = tuple(WORD.findall(name.replace("&", " and ")))
        return cls(name, written, tuple(map(fold, written)))

    def part(self, start: int, end: int | None = None) -> "Label":
        """Return a range of the words as a label."""
        return Label(" ".join(self.written[start:end]), self.written[start:end], self.words[start:end])

    @property
    def is_name(self) -> bool:
        """Whether all words but small ones are capitalized or numbers."""
        return all(not word[0].islower() for word in self.name.split() if word.lower() not in SMALL_WORDS)

    @property
    def is_person(self) -> bool:
        """Whether it can be a person's name: two to six capitalized words, the last no nation or institution."""
        middle = {word for word in self.written[1:-1] if word[0].islower()}
        return (
            2 <= len(self.words) <= 6
            and self.is_name
            and middle <= PARTICLES | {"s", "y"}
            and not re.search(r"[:,!?&\d]|'s\b| ' s|^(?:The|A|An)\b|(?:[A-Z]\.){2,}$", self.name)
            and self.words[-1] not in NO_FAMILY_NAMES | STARTING_WORDS | SMALL_WORDS
            and not find_country(self.words[-1])
        )

    @property
    def senses(self) -> list[tuple[str, Span]]:
        """The words in the singular, nations in any form as one, without small words and "national"."""
        return [each for each in _senses(self.written) if each[0] not in SMALL_WORDS and each[0] != "national"]


class SentenceWords:
    """The words of a sentence, in the forms in which names are found."""

    def __init__(self, sentence: str) -> None:
        """Split a sentence into words."""
        self.sentence = repair_text(sentence).replace("&", " and ")
        matches = list(WORD.finditer(self.sentence))
        self.spans = [match.span() for match in matches]
        self.written = [match[0] for match in matches]
        self.words = [fold(word) for word in self.written]
        self.joined = "".join(self.words)
        bounds = [0, *accumulate(map(len, self.words))]
        self.starts = {start: position for position, start in enumerate(bounds[:-1])}
        """Start of a word in `joined` -> its position."""
        self.ends = {end: position for position, end in enumerate(bounds[1:], start=1)}
        """End of a word in `joined` -> the next position."""

    @cached_property
    def keys(self) -> list[str]:
        """The words in one form for all conventions of spelling."""
        return [normalize_word(word) for word in self.written]

    @cached_property
    def senses(self) -> list[tuple[str, Span]]:
        """The words in the singular, nations in any form as one, without "national" and the s of the genitive."""
        return [each for each in _senses(self.written) if each[0] not in ("national", "s")]

    @cached_property
    def dates(self) -> tuple[Date, ...]:
        """The dates of the sentence."""
        return find_dates(self.sentence)

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """The numbers of the sentence."""
        return find_quantities(self.sentence)

    def quote(self, span: Span) -> str:
        """Return a span as the sentence has it, with the dot of an initial at its end."""
        start, end = self.spans[span[0]][0], self.spans[span[1] - 1][1]
        has_dot = len(self.written[span[1] - 1]) == 1 and self.sentence[end : end + 1] == "."
        return self.sentence[start : end + has_dot]

    def gap(self, position: int) -> str:
        """Return the text between a word and the one before it; a full stop before the first and after the last."""
        if not 0 < position < len(self.spans):
            return "."
        return self.sentence[self.spans[position - 1][1] : self.spans[position][0]]

    def has_capital(self, position: int) -> bool:
        """Return whether a word exists and is capitalized."""
        return position < len(self.written) and self.written[position][0].isupper()

    def places(self, label: Label) -> Iterator[Span]:
        """Yield the spans of a label's words in a row, in order, however they are split: "AC" is "A.C."."""
        sought = "".join(label.words)
        place = self.joined.find(sought)
        while sought and place >= 0:
            start, end = self.starts.get(place), self.ends.get(place + len(sought))
            if start is not None and end is not None:
                yield start, end
            place = self.joined.find(sought, place + 1)

    def in_a_row(self, label: Label) -> Span | None:
        """Return the first span of a label's words in a row, in any convention of spelling; None where it has none."""
        for span in self.places(label):
            if self.is_whole(label, span):
                return span
        return self.row_of([normalize_word(word) for word in label.written], self.keys, label)

    def row_of(self, sought: Sequence[str], words: Sequence[str], label: Label) -> Span | None:
        """Return the first span of the sought keys in a row, `words` being the keys of the sentence's; else None."""
        n = len(sought)
        for start, word in enumerate(words):
            if word == sought[0] and list(words[start : start + n]) == list(sought):
                span = start, start + n
                if self.is_whole(label, span):
                    return span
        return None

    def is_whole(self, label: Label, span: Span) -> bool:
        """Return whether a span is the label, and not part of a number or office or a common word."""
        start, end = span
        if self.is_deputy(start):
            return False
        if len(label.words) > 1:
            return True
        if label.words[0].isdigit():
            return end - start == 1 and not re.search(r"\d[.,]$", self.sentence[: self.spans[start][0]])
        common = label.words[0] in SMALL_WORDS | STARTING_WORDS and label.written[0].istitle()
        return not common or (self.has_capital(start) and start > 0 and "." not in self.gap(start))

    def is_deputy(self, start: int) -> bool:
        """Return whether the word before makes it the end of another office, such as "vice"."""
        return start > 0 and self.words[start - 1] in ("vice", "deputy", "assistant", "anti", "non")

    def is_alone(self, span: Span) -> bool:
        """Return whether a name at a span is no part of a longer one, and no description."""
        start, end = span
        before = start - 1
        while before > 0 and self.gap(before) == "-":
            before -= 1  # "Co-operative Championship"
        if self.gap(start) == "-":
            return False
        if not self.gap(start).strip(" ("):
            word, lower = self.written[before], self.words[before]
            if lower in ("a", "an", "the", "this", "that", "its", "their", "his", "her", "first", "last", "next"):
                return False
            known = lower in SMALL_WORDS | STARTING_WORDS | TITLES
            if word[0].isupper() and not known and not word.isdigit():
                return False
            inside = lower in ("of", "in", "on", "d", "de", "du", "di") and not self.gap(before).strip()
            if inside and self.has_capital(before - 1) and self.words[before - 1] not in STARTING_WORDS:
                return False
        if end < len(self.words) and not self.gap(end).strip():
            longer = self.has_capital(end) or self.written[end].isdigit()
            return not longer or self.words[end] in SMALL_WORDS | STARTING_WORDS
        return True


def _senses(written: Sequence[str]) -> list[tuple[str, Span]]:
    """Return words in the singular with their spans; a nation of one to three words in capitals as its country."""
    results: list[tuple[str, Span]] = []
    position = 0
    while position < len(written):
        key, size = singularize(normalize_word(written[position])), 1
        if written[position][0].isupper():
            for n in (3, 2, 1):
                if country := find_country(" ".join(written[position : position + n])):
                    key, size = country, min(n, len(written) - position)
                    break
        results.append((key, (position, position + size)))
        position += size
    return results
