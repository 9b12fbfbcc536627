"""Whether the value of an emptied table cell follows from the other cells, as a generous reader would find it.

A number follows if a calculation on other cells gives it and also holds elsewhere in the table: sums, differences,
ratios and unit conversions along its row, its neighbors in a sequence, totals along its column. Any value follows from
a cell of its row that names it, and from rows that share a cell with its row wherever such rows agree. A calculation
that could hold by chance does not count: the more of them are tried, the more cells must confirm one.

Only `rejection_twins` uses it, from revision 2 on: a question whose emptied cell follows has no twins. The thresholds
therefore decide which instances the built testbeds have.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.ska_bench.units import Cells
from kbbench_hf.building.ska_bench.name_matching import content_words, normalize_cell

CHANCE = 0.5
"""The most calculations that may be expected to hold by chance; generous, because a false alarm costs one question."""
RELATIVE = 0.01
"""How far a product or ratio may be from the number."""
AGREE = 0.8
"""The share of rows, or of pairs of rows, in which a calculation, or an order, must hold."""
MOST_TERMS, MOST_ROWS = 30, 200
"""With more numbers beside a cell, sums of three are not tried; in longer tables, totals are not."""
_DIGITS = re.compile(r"\d[\d,]*(?:\.\d+)?")
_NEGATIVE = re.compile(r"[$€£ ]*(?:[-−][$€£ ]*\d|\([$€£ ]*[\d.,]+\)?%?$)")
DASHES = frozenset({"-", "--", "---", "–", "—"})
Numbers = NDArray[np.float64]


def cell_follows(rows: Sequence[Cells], place: int, column: int) -> bool:
    """Return whether the cell of a row (its place) in a column follows from the other cells of these rows.

    The rows are those of the instance's own table, in their order; the cell is not empty.

    >>> rows = [("Ann", "3", "4", "7"), ("Bo", "1", "5", "6"), ("Cy", "2", "9", "11"), ("Di", "8", "5", "13")]
    >>> cell_follows(rows, 1, 3), cell_follows([row[::2] for row in rows], 1, 1)
    (True, False)
    """
    if _is_named(rows, place, column) or _is_shared(rows, place, column):
        return True
    grid = np.array([[_numbers(cell) for cell in row] for row in rows])
    numbers = grid[:, column, 0]
    if np.isnan(numbers[place]):
        return False
    # the last decimal of the number: what its table may have rounded
    digits = next(iter(_DIGITS.findall(rows[place][column])), "0").partition(".")[2]
    unit = 10.0 ** -len(digits)
    close = unit * (1.01 if abs(numbers[place]) >= 100 * unit else 0.01)  # addends of large numbers are rounded
    beside = [grid[:, other, part] for other in range(grid.shape[1]) for part in (0, 1) if other != column]
    near = [np.append(np.nan, numbers[:-1]), np.append(numbers[1:], np.nan)]
    first = grid[:, :, 0]
    if _is_combined(numbers, np.array([*beside, *near]), place, close, unit):  # along its row, or from its neighbors
        return True
    other_rows = np.delete(first, place, axis=0)
    if len(rows) <= MOST_TERMS and _is_combined(first[place], other_rows, column, close, unit):  # along its column
        return True
    if len(rows) <= MOST_ROWS and _is_total(first, place, column, close, unit):
        return True
    is_neighbors = numbers[place] in [each[place] for each in near]
    return _is_carried(first, place, column) or (is_neighbors and order_follows(rows, column))


def order_follows(rows: Sequence[Cells], column: int) -> bool:
    """Return whether another column, or the order of the rows, tells which numbers of a column are larger.

    >>> order_follows([("1", "Lhotse", "8516"), ("2", "Makalu", "8485"), ("3", "Cho Oyu", "8188")], 2)
    True
    """
    grid = np.array([[_numbers(cell)[0] for cell in row] for row in rows])
    others = [np.arange(len(rows), dtype=np.float64), *(grid[:, n] for n in range(grid.shape[1]) if n != column)]
    above = np.triu_indices(len(rows), 1)
    own, *steps = (np.sign(np.subtract.outer(each, each)[above]) for each in (grid[:, column], *others))
    agree = [each[~np.isnan(each) & (each != 0)] for each in (own * step for step in steps)]
    # signs that agree in a share s of the pairs have the mean 2 s - 1; the reverse order tells as much
    return any(len(each) > 1 and abs(each.mean()) >= 2 * AGREE - 1 for each in agree)


def _is_named(rows: Sequence[Cells], place: int, column: int) -> bool:
    """Return whether other cells of the row hold at least half of the words that are particular to this cell."""
    usual = Counter(word for row in rows for word in content_words(row[column]))
    words = {word for word in content_words(rows[place][column]) if usual[word] <= max(1, len(rows) // 5)}
    words = {word for word in words if not word.isdigit() or len(word) > 2}
    shown = content_words(" ".join(cell for n, cell in enumerate(rows[place]) if n != column))
    return bool(words) and 2 * len(words & shown) >= len(words)


def _is_shared(rows: Sequence[Cells], place: int, column: int) -> bool:
    """Return whether rows with one cell in common have this cell in common as well, here and nearly everywhere."""
    for other in range(len(rows[place])):
        groups = defaultdict[str, list[int]](list)
        for n, row in enumerate(rows):
            groups[normalize_cell(row[other])].append(n)
        same = groups[normalize_cell(rows[place][other])]
        several = [len({rows[n][column] for n in group}) == 1 for group in groups.values() if len(group) > 1]
        is_known = len(same) > 1 and len({rows[n][column] for n in same}) == 1
        if other != column and rows[place][other] and is_known and len(several) > 1 and np.mean(several) >= AGREE:
            return True
    return False


def _numbers(cell: str) -> tuple[float, float]:
    """Return the first two numbers of a cell, NaN for those that it has not; a dash is 0, as in accounts.

    The first one is negative with a minus or in parentheses.
    """
    if cell.strip("$€£ ") in DASHES:
        return 0.0, np.nan
    found = [float(each.replace(",", "")) for each in _DIGITS.findall(cell)]
    first, second = (*found, np.nan, np.nan)[:2]
    return (-first if _NEGATIVE.match(cell) else first), second


def _is_combined(numbers: Numbers, beside: Numbers, place: int, close: float, unit: float) -> bool:
    """Return whether up to three numbers beside each one give it, by + and - or by * and /, maybe with a constant.

    `beside` has a row for each other series, as long as `numbers`. Products are sums of logarithms.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = [np.where(each > 0, np.log(np.where(each > 0, each, 1.0)), np.nan) for each in (numbers, beside)]
    # how many values a number may take: the odds that a wrong calculation hits one
    levels = max(2.0, float(np.nanmedian(np.abs(numbers))) / (2 * close + unit))
    return _has_sum(numbers, beside, place, close, levels) or (
        bool(numbers[place] > 0) and _has_sum(logs[0], logs[1], place, RELATIVE, 1 / (2 * RELATIVE))
    )


def _has_sum(numbers: Numbers, beside: Numbers, place: int, close: float, levels: float) -> bool:
    """Return whether the number at a place is a sum of up to three signed terms, maybe with a constant."""
    terms = beside[~np.isnan(beside[:, place])]
    signed = np.concatenate([terms, -terms])
    for size in (1, 2, 3) if len(terms) <= MOST_TERMS else (1, 2):
        chosen = np.array(list(combinations(range(len(signed)), size)), dtype=np.int64).reshape(-1, size)
        kinds = np.sort(chosen % max(1, len(terms)), axis=1)
        chosen = chosen[(np.diff(kinds, axis=1) > 0).all(axis=1)]  # no term beside its opposite
        missed = numbers - signed[chosen].sum(axis=1)
        known = np.delete(missed, place, axis=1)
        fitted = np.nanmedian(np.where(np.isnan(known).all(axis=1, keepdims=True), 0.0, known), axis=1)
        if _holds(missed, place, close, levels) or _holds(missed - fitted[:, None], place, close, levels, cost=2):
            return True
    return False


def _holds(errors: Numbers, place: int, close: float, levels: float, cost: int = 1, share: float = AGREE) -> bool:
    """Return whether one of some calculations gives the number at a place, and others more often than by chance.

    `errors` has a row for each calculation: by how much it misses each number. A constant costs one confirmation,
    because it is fitted. All calculations together may be expected to hold `CHANCE` times by chance.
    """
    known, right = ~np.isnan(errors), np.abs(errors) <= close
    others, confirmed = known.sum(axis=1) - known[:, place], right.sum(axis=1) - right[:, place]
    is_found = right[:, place] & (confirmed >= share * others) & (confirmed >= cost)
    return bool((is_found & (len(errors) < CHANCE * levels ** np.minimum(20, confirmed + 2.0 - cost))).any())


def _is_total(grid: Numbers, place: int, column: int, close: float, unit: float) -> bool:
    """Return whether the number is in a total along its column that also holds in another column.

    That is a sum of consecutive rows, or a number minus such a sum, or the difference of two numbers minus one. The sum
    of the whole column may be in any other one.
    """
    whole = float(np.nansum(grid[:, column]))
    if whole >= 100 and (np.delete(grid, column, axis=1) == whole).any():
        return True
    cells = grid[:, ~np.isnan(grid[place])]
    at = int((~np.isnan(grid[place, :column])).sum())
    levels = max(2.0, abs(cells[place, at]) / (2 * close + unit))
    return any(_holds(cells[place] - each, at, close, levels, share=0.5) for each in _totals(cells, place))


def _totals(cells: Numbers, place: int) -> Iterator[Numbers]:
    """Yield what the numbers of a row would be by each kind of total, one calculation a row."""
    n = len(cells)
    sums = np.concatenate([np.zeros((1, cells.shape[1])), np.cumsum(np.nan_to_num(cells), axis=0)])
    blocks = [(start, end) for start in range(n) for end in range(start + 1, n + 1)]
    outside = [sums[end] - sums[start] for start, end in blocks if not start <= place < end and end > start + 1]
    yield np.array(outside).reshape(-1, cells.shape[1])
    within = [(start, end) for start, end in blocks if start <= place < end]
    rest = [sums[end] - sums[start] - np.nan_to_num(cells[place]) for start, end in within]
    others = [cells[[m for m in range(n) if not start <= m < end]] for start, end in within]
    yield np.concatenate([some - left for left, some in zip(rest, others, strict=True)])
    if n <= MOST_TERMS:
        pairs = [some[:, None] - some[None] - left for left, some in zip(rest, others, strict=True)]
        yield np.concatenate([each.reshape(-1, cells.shape[1]) for each in pairs])


def _is_carried(grid: Numbers, place: int, column: int) -> bool:
    """Return whether another row has the number in a column beside: what one period ends with, the next begins with.

    Small numbers and years are equal by chance.
    """
    number = grid[place, column]
    beside = [n for n in (column - 1, column + 1) if 0 < n < grid.shape[1]]  # the first column holds labels
    is_year = number == int(number) and 1500 <= number < 2100
    return abs(number) >= 100 and not is_year and bool((np.delete(grid, place, axis=0)[:, beside] == number).any())
