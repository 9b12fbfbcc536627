"""The rows that a table instance can be asked on, by number: its own, donated ones, and rows made without a model.

First come the table's own rows, then the rows of tables with the same header (donors), then near misses, then resampled
rows, without end. The last two kinds are recipes: their cells follow from the instance's id and their number alone, so
that a testbed of a million tokens stores numbers only.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.ska_bench import table_programs
from kbbench_hf.benchmarks.ska_bench.units import SEED, Cells, Instance, Pool
from kbbench_hf.metrics.answers import wtq_normal

BLOCK = 1024
"""Resampled rows are drawn in blocks of this many, each from its own stream."""


def literals(instance: Instance, pool: Pool) -> tuple[frozenset[str], frozenset[str]]:
    """Return the normal forms that a made row may not have as a cell, and those that no cell of it may mention.

    With an answer program: its conditions may not be mentioned. Without one, which cells the question relies on is not
    known: no cell of a positive row may come again, and no answer may be mentioned.
    """
    if instance.program and instance.program["type"] in table_programs.TYPES:
        return frozenset(), frozenset(value for _, value in table_programs.conditions(instance.program))
    rows = [pool.sk[instance.group][number] for number in instance.positive_sk]
    cells = frozenset(wtq_normal(cell) for row in rows for cell in row)
    return cells - {""}, frozenset(wtq_normal(answer) for answer in instance.answers) - {""}


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


class TableRows:
    """The rows of one table instance by number: real, donated, near misses, resampled.

    A *near miss* is a positive row in which every cell that mentions a condition of the answer program is redrawn. A
    *resampled* row takes each cell from its column's values, here and in the donors. Neither draws a value that
    `literals` forbids; a column without any other value stays blank.
    """

    def __init__(self, instance: Instance, pool: Pool) -> None:
        self._id = instance.id
        self._unwanted, self._unmentionable = literals(instance, pool)
        self._positives = [pool.sk[instance.group][number] for number in instance.positive_sk]
        self._has_program = bool(instance.program)
        self._blocks: dict[int, list[Cells]] = {}
        self._near_misses: dict[int, Cells] = {}
        self._allowed: dict[str, bool] = {}
        self.real: Sequence[Cells] = pool.sk[instance.group]
        self.donated = pool.donors(instance.group)
        columns = zip(*self.real, *self.donated, strict=True)
        self._values = [[v for v in sorted(set(column)) if self.allows(v)] or [""] for column in columns]
        self.first_donated = len(self.real)
        self.first_near_miss = self.first_donated + len(self.donated)
        self.first_resampled = self.first_near_miss + len(self.real)

    def allows(self, cell: str) -> bool:
        """Say whether a made row may hold this cell."""
        if cell not in self._allowed:
            normal = wtq_normal(cell)
            mentioned = any(mentions(normal, literal) for literal in self._unmentionable)
            self._allowed[cell] = normal not in self._unwanted and not mentioned
        return self._allowed[cell]

    def mentions_answer(self, row: Cells) -> bool:
        """Say whether a row of an instance without a program mentions an answer; False where there is a program."""
        normal = [wtq_normal(cell) for cell in row]
        return not self._has_program and any(mentions(c, literal) for c in normal for literal in self._unmentionable)

    def cells(self, number: int) -> Cells:
        """Return the cells of one row."""
        if number < self.first_donated:
            return self.real[number]
        if number < self.first_near_miss:
            return self.donated[number - self.first_donated]
        if number < self.first_resampled:
            if number not in self._near_misses:
                self._near_misses[number] = self._near_miss(number - self.first_near_miss)
            return self._near_misses[number]
        block, place = divmod(number - self.first_resampled, BLOCK)
        return self.resampled(block)[place]

    def resampled(self, block: int) -> list[Cells]:
        """Return one block of resampled rows."""
        if block not in self._blocks:
            width = len(self._values)
            draws = _stream(f"{self._id}|resampled|{block}", BLOCK * width).reshape(BLOCK, width)
            columns = [
                [values[place] for place in (draws[:, c] % len(values)).tolist()]
                for c, values in enumerate(self._values)
            ]
            self._blocks[block] = list(zip(*columns, strict=True))
        return self._blocks[block]

    def _near_miss(self, place: int) -> Cells:
        row = self._positives[place % len(self._positives)]
        draws = _stream(f"{self._id}|near-miss|{place}", len(row))
        return tuple(
            cell if self.allows(cell) else values[int(draw) % len(values)]
            for cell, values, draw in zip(row, self._values, draws, strict=True)
        )

    def has_near_misses(self) -> bool:
        """Say whether near misses exist: they need a program that names its conditions."""
        return self._has_program and bool(self._positives)


def _stream(name: str, count: int) -> NDArray[np.uint32]:
    """Return the first `count` draws of a named stream; a longer stream begins with a shorter one."""
    digest = hashlib.shake_256(f"{SEED}|{name}".encode()).digest(4 * count)
    return np.frombuffer(digest, dtype="<u4")
