"""Answer programs on table rows: what is read from the rows that meet some conditions.

`lookup`, `lookup2`: the `select` cells of the rows that match `where`; `count`: their number; `diff` and `compare`: the
numbers in column `by` of the two rows whose `key` cell is one of `values`. `programs` says what a program is.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kbbench_hf.metrics.answers import wtq_normal, wtq_number

Program = Mapping[str, Any]
Cells = Sequence[str]
TYPES = frozenset({"lookup", "lookup2", "count", "diff", "compare"})


def conditions(program: Program) -> list[tuple[int, str]]:
    """Return the (column, normal form) pairs that decide which rows a program reads.

    >>> conditions({"type": "diff", "key": 0, "by": 2, "values": ["a", "b"]})
    [(0, 'a'), (0, 'b')]
    """
    if "where" in program:
        return [(column, value) for column, value in program["where"]]
    return [(program["key"], value) for value in program["values"]]


def reads(program: Program, row: Cells) -> bool:
    """Say whether a program's answer can depend on this row: whether it meets the conditions.

    >>> reads({"type": "lookup2", "where": [[0, "1993"], [1, "orlando"]], "select": 2}, ["1993", "Tampa", "9"])
    False
    """
    test = all if "where" in program else any
    return test(wtq_normal(row[column]) == value for column, value in conditions(program))


def execute(program: Program, rows: Iterable[Cells]) -> list[str]:
    """Return the answers of a program of one of these `TYPES`; an empty list where it has none.

    `diff` and `compare` have an answer only where each of their two values has exactly one row with a number.

    >>> rows = [["Stade Toulousain", "19"], ["CA Brive", "10"]]
    >>> execute({"type": "diff", "key": 0, "by": 1, "values": ["stade toulousain", "ca brive"]}, rows)
    ['9']
    """
    read = [row for row in rows if reads(program, row)]
    match program["type"]:
        case "lookup" | "lookup2":
            return list(dict.fromkeys(row[program["select"]] for row in read))
        case "count":
            return [str(len(read))]
    found: list[tuple[float, str]] = []
    for value in program["values"]:
        matching = [row for row in read if wtq_normal(row[program["key"]]) == value]
        number = wtq_number(matching[0][program["by"]]) if len(matching) == 1 else None
        if number is None:
            return []
        found.append((number, matching[0][program["key"]]))
    if program["type"] == "diff":
        return [f"{abs(found[0][0] - found[1][0]):.12g}"]
    if found[0][0] == found[1][0]:
        return []
    return [(max if program["op"] == "argmax2" else min)(found)[1]]
