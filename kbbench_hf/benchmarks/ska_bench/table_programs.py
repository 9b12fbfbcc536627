"""Answer programs on table rows: what is read from the rows that meet some conditions.

A condition is `[column, value]`, a cell that equals the value in normal form, or `[column, test, value]` with one of
`TESTS`: the cell holds the value as whole words, or its number compares with it. `programs` says what a program is.

- `lookup`: the `select` cells of the rows that meet all of `where`; `count`: how many rows; `sum`: of their `select`.
- `compare`, `diff`: the rows whose `key` is one of two `values` (or holds it, by `test`) and that meet `where`, if
  given: which of the two keys has the larger (`op` `argmax2`) or smaller number in column `by`, or their difference.
- `cells`: one cell for each of `reads`, pairs of conditions and a column; `arithmetic`: a `formula` over their numbers.
"""

import ast
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from kbbench_hf.benchmarks.ska_bench.mentions import mentions
from kbbench_hf.metrics.answers import wtq_normal
from kbbench_hf.text.dates import MONTH_NUMBER

Program = Mapping[str, Any]
Cells = Sequence[str]
TYPES = frozenset({"lookup", "count", "sum", "compare", "diff", "cells", "arithmetic"})

_NUMBER = re.compile(r"(\(?)([-+]?)([$€£]?)(\d[\d,]*(?:\.\d+)?|\.\d+)(\)?)(%?)( [a-z .%/²]+)?")
_DATE = re.compile(rf"\b(?:{'|'.join(MONTH_NUMBER)})[a-z]*\b.*?\b(1[5-9]\d\d|20\d\d)\b")
_OPERATORS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}

normal = lru_cache(maxsize=1 << 18)(wtq_normal)
"""The normal form of a cell, remembered: every program reads the same cells again."""


@lru_cache(maxsize=1 << 18)
def number(cell: str) -> float | None:
    """Return the number that a cell states, with its unit if any; of a date its year; None of anything else.

    Thousands separators and currency signs go; a number in parentheses is negative, as accounts write it. The answers
    of built programs depend on these rules, which know no magnitudes (`$15 million` is 15): `text.quantities` does.

    >>> number("$ 1,234.5"), number("(126)"), number("12 km"), number("May 3, 2001"), number("2-1")
    (1234.5, -126.0, 12.0, 2001.0, None)
    """
    text = wtq_normal(f"|{cell}|").strip("| *†‡§").replace("$ ", "$").replace("€ ", "€").replace("- ", "-")
    if found := _NUMBER.fullmatch(text):
        opened, sign, _, digits, closed, *_ = found.groups()
        value = float(digits.replace(",", ""))
        return None if bool(opened) != bool(closed) else -value if opened or sign == "-" else value
    return float(dated[1]) if (dated := _DATE.search(text)) else None


def _compares(test: Callable[[float, float], bool]) -> Callable[[str, str], bool]:
    def holds(cell: str, value: str) -> bool:
        stated = number(cell)
        return stated is not None and test(stated, float(value))

    return holds


TESTS: dict[str, Callable[[str, str], bool]] = {
    "=": lambda cell, value: normal(cell) == value,
    "contains": lambda cell, value: mentions(normal(cell), value),
    "<": _compares(operator.lt),
    "<=": _compares(operator.le),
    ">": _compares(operator.gt),
    ">=": _compares(operator.ge),
}


def _loosely(test: str) -> Callable[[str, str], bool]:
    def may_hold(cell: str, value: str) -> bool:
        return TESTS[test](cell, value) or (number(cell) is None and any(map(str.isdigit, cell)))

    return may_hold


_LOOSELY = {"=": TESTS["contains"], **{test: _loosely(test) for test in ("<", "<=", ">", ">=")}}
"""Tests as a generous reader makes them."""


def split(condition: Sequence[Any]) -> tuple[int, str, str]:
    """Return a condition's column, test and value.

    >>> split([0, "oslo"]), split([1, ">", "3"])
    ((0, '=', 'oslo'), (1, '>', '3'))
    """
    column, *test, value = condition
    return column, test[0] if test else "=", value


def meets(where: Iterable[Sequence[Any]], row: Cells) -> bool:
    """Say whether a row meets all of these conditions.

    >>> meets([[0, "oslo"], [1, ">=", "3"]], ["Oslo", "3 m"])
    True
    """
    return all(TESTS[test](row[column], value) for column, test, value in map(split, where))


def alternatives(program: Program) -> list[list[Sequence[Any]]]:
    """Return the conjunctions of conditions of which a row that the program reads meets at least one.

    >>> alternatives({"type": "diff", "key": 0, "by": 2, "values": ["a", "b"]})
    [[[0, 'a']], [[0, 'b']]]
    """
    if "reads" in program:
        return [list(where) for where, _ in program["reads"]]
    shared = list(program.get("where", ()))
    if "values" in program:
        test = [program["test"]] if "test" in program else []
        return [[[program["key"], *test, value], *shared] for value in program["values"]]
    return [shared]


def reads(program: Program, row: Cells) -> bool:
    """Say whether a program's answer can depend on this row: whether it meets the conditions.

    >>> reads({"type": "lookup", "where": [[0, "1993"], [1, "orlando"]], "select": 2}, ["1993", "Tampa", "9"])
    False
    """
    return any(meets(where, row) for where in alternatives(program))


def is_free_of(program: Program, row: Cells) -> bool:
    """Say whether a row leaves a program's answer as it is, even where a reader takes part of a cell for the whole.

    A cell whose digits are no number may meet any bound.

    >>> program = {"type": "count", "where": [[0, "oslo"], [1, ">", "3"]]}
    >>> is_free_of(program, ["Oslo, Norway", "4"]), is_free_of(program, ["Lund", "Oslo"])
    (False, True)
    """
    return freedom(program)(row)


def freedom(program: Program) -> Callable[[Cells], bool]:
    """Return `is_free_of` for one program, to be asked of many rows."""
    loose = [
        [(column, _LOOSELY.get(test, TESTS[test]), value) for column, test, value in map(split, where)]
        for where in alternatives(program)
    ]

    def is_free(row: Cells) -> bool:
        for where in loose:
            for column, test, value in where:
                if not test(row[column], value):
                    break
            else:
                return False
        return True

    return is_free


def execute(program: Program, rows: Iterable[Cells]) -> list[str]:
    """Return the answers of a program of one of these `TYPES`; an empty list where it has none.

    Where a program wants one row for each of its alternatives (`compare`, `diff`, `cells`, `arithmetic`), it has no
    answer if one has none or several, or lacks the number that is needed.

    >>> rows = [["Stade Toulousain", "19"], ["CA Brive", "10"]]
    >>> execute({"type": "diff", "key": 0, "by": 1, "values": ["stade toulousain", "ca brive"]}, rows)
    ['9']
    """
    read = [row for row in rows if reads(program, row)]
    match program["type"]:
        case "lookup":
            return list(dict.fromkeys(row[program["select"]] for row in read))
        case "count":
            return [str(len(read))]
        case "sum":
            return _sum(read, program["select"])
        case "compare" | "diff":
            return _two_rows(read, program)
    cells = [_one([row for row in read if meets(where, row)], column) for where, column in program["reads"]]
    if None in cells or not cells:
        return []
    stated = [cell for cell in cells if cell is not None]
    return _calculated(program["formula"], stated) if program["type"] == "arithmetic" else stated


def written(value: float) -> str:
    """Return a number as an answer is written: without a needless fraction or exponent.

    >>> written(9.0), written(0.1 + 0.2)
    ('9', '0.3')
    """
    text = f"{value:.10f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def calculate(formula: str, values: Sequence[float]) -> float:
    """Return the value of a formula of numbers, `c0`, `c1`, ... (the values), + - * / and parentheses.

    >>> calculate("(c0 - c1) / c1 * 100", [3, 2])
    50.0

    Raises:
        ValueError: the formula holds anything else, or divides by zero.
    """

    def value(node: ast.AST) -> float:
        match node:
            case ast.Constant(value=int() | float() as stated):
                return float(stated)
            case ast.Name(id=name) if re.fullmatch(r"c\d+", name) and int(name[1:]) < len(values):
                return values[int(name[1:])]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](value(left), value(right))
        raise ValueError(f"{formula!r} holds more than numbers, cells and + - * /")

    try:
        return value(ast.parse(formula, mode="eval").body)
    except (SyntaxError, ZeroDivisionError) as error:
        raise ValueError(f"{formula!r} has no value ({error})") from error


def _one(rows: Sequence[Cells], column: int) -> str | None:
    return rows[0][column] if len(rows) == 1 else None


def _sum(rows: Sequence[Cells], column: int) -> list[str]:
    numbers = [number(row[column]) for row in rows]
    stated = [value for value in numbers if value is not None]
    return [written(sum(stated))] if stated and len(stated) == len(numbers) else []


def _two_rows(rows: Sequence[Cells], program: Program) -> list[str]:
    found: list[tuple[float, str]] = []
    for where in alternatives(program):
        matching = [row for row in rows if meets(where, row)]
        value = number(matching[0][program["by"]]) if len(matching) == 1 else None
        if value is None:
            return []
        found.append((value, matching[0][program["key"]]))
    (one, _), (other, _) = found
    if program["type"] == "diff":
        return [written(abs(one - other))]
    return [] if one == other else [(max if program["op"] == "argmax2" else min)(found)[1]]


def _calculated(formula: str, cells: Sequence[str]) -> list[str]:
    values = [0.0 if normal(cell).strip("$€£ ") in {"-", "--", "---"} else number(cell) for cell in cells]
    stated = [value for value in values if value is not None]
    try:
        return [written(round(calculate(formula, stated), 2))] if len(stated) == len(values) else []
    except ValueError:
        return []
