"""Units that leak what a rejection twin lost: an emptied cell, a removed triple, an answer in other words.

A reader finds an emptied cell in a copy of its row, and in any row that names its value beside another rare cell of it.
A title or a tag says what a removed triple says. A text may say an answer in full that a table abbreviates, or name
another thing of the kind that is asked for.
"""

import datetime
import re
from collections import Counter
from collections.abc import Collection, Sequence

from kbbench_hf.benchmarks.ska_bench.units import Cells
from kbbench_hf.building.ska_bench.name_matching import content_words, mentions, normal_name, normalize_cell
from kbbench_hf.text.dates import Date, find_dates, parse_date

USUAL = 0.05
"""A cell in more than this share of the rows of its table, and in more than two, is not rare."""
COPIED = 2
"""A made row with this many of a row's rare cells is a copy of it."""
SHORT = 2
"""Cells of so few characters are looked for in their own column alone."""
_ABBREVIATION = re.compile(r"[A-Z]{2,4}")
_KIND = re.compile(r"\b(?:which|what)\s+(\w{4,})", re.IGNORECASE)
_CAPITALIZED = r"((?:[A-Z][\w'’.-]*\s+)+)"


class EmptiedRow:
    """A row of a table with some columns emptied."""

    def __init__(self, row: Cells, columns: Collection[int], table: Sequence[Cells]) -> None:
        cells = [*map(normalize_cell, row)]
        usual = [Counter(map(normalize_cell, column)) for column in zip(*table, strict=True)]
        most = max(2, USUAL * len(table))
        self._lost = {column: cells[column] for column in columns}
        self._rare = {n: cell for n, cell in enumerate(cells) if len(cell) > SHORT and usual[n][cell] <= most}

    def is_leaked_by(self, row: Cells, made: bool) -> bool:
        """Return whether another row tells a lost cell.

        A made row does if it is a copy, or names the cell. A real one does if it names the cell and has a rare cell of
        the row in any column.

        >>> table = [("Ann", "May 1, 1861", "Oslo"), ("Bo", "June 2, 1870", "Oslo")]
        >>> emptied = EmptiedRow(table[0], [0], table)
        >>> [emptied.is_leaked_by(("Cy", date, "with Ann"), made=False) for date in ("May 1, 1861", "")]
        [True, False]
        >>> common = EmptiedRow(("Ann", "Oslo"), [1], [(name, "Oslo") for name in ("Ann", "Bo", "Cy")])
        >>> common.is_leaked_by(("Di", "Oslo"), made=True), common.is_leaked_by(("Di", "Oslo"), made=False)
        (True, False)
        """
        cells = [*map(normalize_cell, row)]
        if made and sum(cells[n] == cell for n, cell in self._rare.items()) >= COPIED:
            return True
        text = " | ".join(cells)
        named = (cells[n] == lost or (len(lost) > SHORT and mentions(text, lost)) for n, lost in self._lost.items())
        return any(named) and (made or any(cell in cells for cell in self._rare.values()))


def leaks_triple(triple: Cells, lost: Cells) -> bool:
    """Return whether a triple joins the ends of a lost one, or says one end of its head by name or last name.

    So does any tag of a film without its genre: a film on baseball is a baseball film.

    >>> leaks_triple(("Imagine", "has tags", "lennon"), ("Imagine", "starred actors", "John Lennon"))
    True
    """
    is_kind = lost[1] == "has genre" and triple[1] == "has tags"
    return (triple[0] == lost[0] and (is_kind or has_name(triple[2], lost[2]))) or any(
        near in triple[::2] and mentions(normal_name(" ".join(triple[::2])), normal_name(far))
        for near, far in (lost[::2], lost[::-2])
    )


def has_name(text: str, name: str) -> bool:
    """Return whether a text has a name or its last word, if that has four letters.

    >>> has_name("The U.S. vs. John Lennon", "John Lennon"), has_name("Ed Wood", "Tim Burton")
    (True, False)
    """
    text, name = normal_name(text), normal_name(name)
    last = name.split(" ")[-1]
    return bool(name) and (mentions(text, name) or (len(last) > 3 and mentions(text, last)))


def abbreviates(answer: str, text: str) -> bool:
    """Return whether an answer in capitals may stand for a word, or the first letters of words, in a text.

    >>> abbreviates("FB", "Mike Cox (fullback)"), abbreviates("QB", "Mike Cox (fullback)")
    (True, False)
    """
    letters = r"(?:\w*|\w* )".join(normal_name(answer))
    return bool(_ABBREVIATION.fullmatch(answer) and re.search(rf"\b{letters}", normal_name(text)))


def is_next_day(answer: str, text: str) -> bool:
    """Return whether a text has the day before or after a date: an office ends where the next holder's begins.

    >>> is_next_day("December 31, 1849", "Bronson took office January 1, 1850."), is_next_day("1849", "In 1850.")
    (True, False)
    """
    days = [_day(date) for date in parse_date(answer) if date.day]
    return bool(days) and any(abs(_day(date) - day) == 1 for date in find_dates(text) if date.day for day in days)


def _day(date: Date) -> int:
    """Return the number of a day since the year 1, 0 where there is no such day."""
    try:
        return datetime.date(date.year, date.month, date.day).toordinal()
    except ValueError:
        return 0


def mentions_rival(text: str, question: str, answers: Collection[str]) -> bool:
    """Return whether a text names something of the kind that is asked for, and none of the answers.

    Args:
        text: of any unit.
        question: its kind follows "which" or "what", or is a word of an answer, too.
        answers: their names in normal form.

    >>> mentions_rival("It is on the Olympic Peninsula.", "Which peninsula is it on?", ["kitsap peninsula"])
    True
    """
    shared = set(normal_name(question).split()) & set(" ".join(answers).split())
    for kind in {*map(str.lower, _KIND.findall(question)), *(word for word in shared if len(word) > 3)}:
        for found in re.finditer(rf"{_CAPITALIZED}(?i:{re.escape(kind)})\b", text):
            name = " ".join(word for word in normal_name(found[1]).split() if content_words(word))
            if name and not any(mentions(answer, name) or mentions(name, answer) for answer in answers):
                return True
    return False
