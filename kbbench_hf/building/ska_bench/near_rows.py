"""Near rows: real rows of a table with exactly one cell replaced by another value of its column.

They are noise that looks like evidence: some meet a part of the question's conditions, some mention a named cell in
another column. None meets all the conditions, in a strict or in a generous reading, so no answer follows from them.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import product, zip_longest

from kbbench_hf.benchmarks.ska_bench.mentions import mentions
from kbbench_hf.benchmarks.ska_bench.programs import Program
from kbbench_hf.benchmarks.ska_bench.table_programs import TESTS, alternatives, freedom, meets, normal, split
from kbbench_hf.benchmarks.ska_bench.units import SEED, Cells, write_row

SWAPS = 8
"""For each positive row, how many rows that differ from it in one condition cell alone."""
MOST_OTHERS = 150
"""How many of the other rows become decoys."""
DECOYS = 24
"""How many rows at the front mention what the question names, where they can."""


def near_rows(
    name: str, question: str, program: Program, positives: Sequence[Cells], others: Sequence[Cells], enough: int
) -> list[Cells]:
    """Return up to `enough` near rows for an instance, in the order in which contexts take them.

    First stand `DECOYS` in turn of three kinds: rows that gained a named cell, those that hold most of them first;
    positive rows with one condition cell changed; other rows given one condition's value. Then follow the rest of the
    swaps, `SWAPS` for each positive row, and rows with any cell replaced.

    Args:
        name: the instance's id, from which the order follows.
        question: its words say which cells are named.
        program: what a near row must not meet.
        positives: the rows that the program reads.
        others: the other real rows that it may be asked on.
        enough: how many.
    """
    maker = _Maker(name, normal(question), program, positives, others)
    front = [row for turn in zip_longest(maker.mentioning(), maker.swapped(1), maker.given()) for row in turn if row]
    made: dict[Cells, None] = {}
    for row in _chained(front[:DECOYS], maker.swapped(SWAPS), front[DECOYS:], maker.resampled()):
        if row not in made:
            made[row] = None
            if len(made) == enough:
                break
    return list(made)


def looks_like_evidence(program: Program, row: Cells) -> bool:
    """Say whether a row of noise meets some of a program's conditions, or names the value of a single one elsewhere.

    >>> looks_like_evidence({"type": "count", "where": [[0, "oslo"], [1, ">", "3"]]}, ("Oslo", "2"))
    True
    >>> looks_like_evidence({"type": "count", "where": [[0, "oslo"]]}, ("Lund", "by train from Oslo"))
    True
    """
    for where in alternatives(program):
        if len(where) > 1 and any(meets([condition], row) for condition in where):
            return True
        if len(where) == 1:
            column, test, value = split(where[0])
            others = (normal(cell) for n, cell in enumerate(row) if n != column)
            if test in ("=", "contains") and any(mentions(cell, value) for cell in others):
                return True
    return False


def _chained(*parts: Iterable[Cells]) -> Iterator[Cells]:
    for part in parts:
        yield from part


class _Maker:
    """Makes the near rows of one instance."""

    def __init__(
        self, name: str, asked: str, program: Program, positives: Sequence[Cells], others: Sequence[Cells]
    ) -> None:
        self._name, self._asked, self._program, self._positives = name, asked, program, positives
        self._is_free = freedom(program)
        self._real = {*positives, *others}
        self._others = self._in_order(row for row in dict.fromkeys(others) if row not in set(positives))
        columns = list(zip(*positives, *others, strict=True))
        self._values = [sorted(set(column)) for column in columns]
        self._named = [{value for value in values if self._is_named(value)} for values in self._values]

    def _in_order(self, rows: Iterable[Cells]) -> list[Cells]:
        return sorted(rows, key=lambda row: _hash(f"{self._name}|{write_row(row)}"))

    def _replaced(self, row: Cells, column: int, value: str) -> Cells | None:
        """Return a row with one cell replaced, or None where that is no near row."""
        made = (*row[:column], value, *row[column + 1 :])
        return made if made not in self._real and self._is_free(made) else None

    def _is_named(self, cell: str) -> bool:
        return len(normal(cell)) > 1 and mentions(self._asked, normal(cell))

    def _naming(self, row: Cells) -> int:
        """Return how many of its cells the question names."""
        return sum(cell in named for cell, named in zip(row, self._named, strict=True))

    def mentioning(self) -> list[Cells]:
        """Return rows that gained a named cell in a column; those that hold most named cells first."""
        found = [
            made
            for row in [*self._positives, *self._others[:MOST_OTHERS]]
            for column, values in enumerate(self._named)
            for value in sorted(values)
            if value != row[column] and (made := self._replaced(row, column, value))
        ]
        return sorted(self._in_order(dict.fromkeys(found)), key=self._naming, reverse=True)

    def swapped(self, each: int) -> list[Cells]:
        """Return up to `each` rows for each positive row that differ from it in one condition cell alone."""
        found = []
        for row in self._positives:
            columns = sorted({split(c)[0] for where in alternatives(self._program) if meets(where, row) for c in where})
            left = each
            for column, value in self._turns(row, columns):
                if left and value and value != row[column] and (made := self._replaced(row, column, value)):
                    found.append(made)
                    left -= 1
        return found

    def _turns(self, row: Cells, columns: Sequence[int]) -> Iterator[tuple[int, str]]:
        """Yield the values of these columns, column by column in turn, from a place that the row's hash says."""
        start = _hash(f"{self._name}|{write_row(row)}")
        for turn in range(max(len(self._values[column]) for column in columns)):
            for column in columns:
                values = self._values[column]
                if turn < len(values):
                    yield column, values[(start + turn) % len(values)]

    def given(self) -> list[Cells]:
        """Return other rows that now meet one condition of several."""
        found = []
        for column, test, value in {split(c): None for where in alternatives(self._program) for c in where}:
            fitting = [cell for cell in self._values[column] if TESTS[test](cell, value)][:2]
            for row, cell in product(self._others[:MOST_OTHERS], fitting):
                if cell != row[column] and (made := self._replaced(row, column, cell)):
                    found.append(made)
        return self._in_order(dict.fromkeys(found))

    def resampled(self) -> Iterator[Cells]:
        """Yield rows with any one cell replaced, row after row in turn, until every value has had its turn."""
        base = self._in_order([*self._positives, *self._others])
        width = len(self._values)
        for turn in range(width * max(map(len, self._values))):
            for row in base:
                pick = _hash(f"{self._name}|{turn}|{write_row(row)}")
                column = pick % width
                values = self._values[column]
                value = values[pick // width % len(values)]
                if value != row[column] and (made := self._replaced(row, column, value)):
                    yield made


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{SEED}|near|{name}".encode()).digest()[:8], "big")
