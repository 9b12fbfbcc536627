"""Units that leak what a rejection twin lost: an emptied cell or a removed triple.

A reader finds an emptied cell in a copy of its row, and in any row that names its value beside another rare cell of it.
A title or a tag says what a removed triple says.
"""

from collections import Counter
from collections.abc import Collection, Sequence

from kbbench_hf.benchmarks.ska_bench.units import Cells
from kbbench_hf.building.ska_bench.name_matching import mentions, normal_name, normalize_cell

USUAL = 0.05
"""A cell in more than this share of the rows of its table, and in more than two, is not rare."""
COPIED = 2
"""A made row with this many of a row's rare cells is a copy of it."""
SHORT = 2
"""Cells of so few characters are looked for in their own column alone."""


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
