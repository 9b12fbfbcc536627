"""Answer programs: conditions on table rows, or patterns on triples, whose execution gives the gold answers.

A program is a JSON object with a `type` of `TABLE_TYPES` (below) or of `graph_programs.GRAPH_TYPES`. A condition is
`[column, value]`, a cell equal to the value in normal form, or `[column, test, value]` with one of `TESTS`: the cell
holds the value as whole words, or its number compares with it.

- `lookup`: the `select` cells of the rows that meet all of `where`; `count`: how many rows; `sum`: of their `select`.
- `compare`, `diff`: the rows whose `key` is one of two `values` (or holds it, by `test`) and that meet `where`, if
  given: which key has the larger (`op` `argmax2`) or smaller number in column `by`, or the difference of the numbers.
- `cells`: one cell for each of `reads`, pairs of conditions and a column; `arithmetic`: a `formula` over their numbers.

Programs are a stored column of the datasets, and everything that makes or checks table instances executes them. What
`parse_number`, the tests and `execute` return is therefore part of the built datasets.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from kbbench_hf.benchmarks.ska_bench.units import Program
from kbbench_hf.building.ska_bench.graph_programs import GRAPH_TYPES, execute_on_triples
from kbbench_hf.building.ska_bench.name_matching import mentions, normalize_cell
from kbbench_hf.errors import DataError
from kbbench_hf.metrics.answers import wtq_normal, wtq_number
from kbbench_hf.text.dates import MONTH_NUMBER

Row = Sequence[str]
Condition = Sequence[Any]
DASHES = frozenset({"-", "--", "---"})
"""How accounts write 0, in normal form."""
TABLE_TYPES = frozenset({"lookup", "count", "sum", "compare", "diff", "cells", "arithmetic"})

_NUMBER = re.compile(r"(\(?)([-+]?)([$€£]?)(\d[\d,]*(?:\.\d+)?|\.\d+)(\)?)(%?)( [a-z .%/²]+)?")
_DATE = re.compile(rf"\b(?:{'|'.join(MONTH_NUMBER)})[a-z]*\b.*?\b(1[5-9]\d\d|20\d\d)\b")
_OPERATORS: dict[type, Callable[[float, float], float]]
_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


@lru_cache(maxsize=1 << 18)
def parse_number(cell: str) -> float | None:
    """Return the number of a cell, with its unit if any; the year of a date; None for anything else.

    Thousands separators and currency signs are dropped; a number in parentheses is negative, as in accounts. Magnitudes
    are not read (`$15 million` is 15), unlike in `text.quantities`: the answers of built programs depend on it.

    >>> parse_number("$ 1,234.5"), parse_number("(126)"), parse_number("12 km"), parse_number("May 3, 2001")
    (1234.5, -126.0, 12.0, 2001.0)
    >>> parse_number("2-1") is None
    True
    """
    text = wtq_normal(f"|{cell}|").strip("| *†‡§").replace("$ ", "$").replace("€ ", "€").replace("- ", "-")
    if found := _NUMBER.fullmatch(text):
        opened, sign, _, digits, closed, *_ = found.groups()
        value = float(digits.replace(",", ""))
        if bool(opened) != bool(closed):
            return None
        return -value if opened or sign == "-" else value
    return float(dated[1]) if (dated := _DATE.search(text)) else None


def _comparison(test: Callable[[float, float], bool]) -> Callable[[str, str], bool]:
    """Return a test of a cell's number; a cell without one meets no bound."""
    return lambda cell, value: (stated := parse_number(cell)) is not None and test(stated, float(value))


_ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
COMPARISONS = {name: _comparison(test) for name, test in _ORDERS.items()}
"""Tests of bounds: functions of a cell and a number as text."""
TESTS: dict[str, Callable[[str, str], bool]] = {
    "=": lambda cell, value: normalize_cell(cell) == value,
    "contains": lambda cell, value: mentions(normalize_cell(cell), value),
    **COMPARISONS,
}
"""Name of a test -> whether a cell meets a condition's value, which is in normal form."""


def _lenient(test: Callable[[str, str], bool]) -> Callable[[str, str], bool]:
    return lambda cell, value: test(cell, value) or (parse_number(cell) is None and any(map(str.isdigit, cell)))


_LENIENT_TESTS = TESTS | {"=": TESTS["contains"]} | {name: _lenient(test) for name, test in COMPARISONS.items()}
"""Tests as a generous reader makes them: digits that are no number may meet any bound."""


def split_condition(condition: Condition) -> tuple[int, str, str]:
    """Return a condition's column, test and value.

    >>> split_condition([0, "oslo"]), split_condition([1, ">", "3"])
    ((0, '=', 'oslo'), (1, '>', '3'))
    """
    column, *test, value = condition
    return column, test[0] if test else "=", value


def meets(where: Iterable[Condition], row: Row) -> bool:
    """Return whether a row meets all of these conditions.

    >>> meets([[0, "oslo"], [1, ">=", "3"]], ["Oslo", "3 m"])
    True
    """
    return all(TESTS[test](row[column], value) for column, test, value in map(split_condition, where))


def alternatives(program: Program) -> list[list[Condition]]:
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


def split_conditions(program: Program) -> list[list[tuple[int, str, str]]]:
    """Return the `alternatives` of a program, each condition as column, test and value.

    >>> split_conditions({"type": "count", "where": [[0, "oslo"], [1, ">", "3"]]})
    [[(0, '=', 'oslo'), (1, '>', '3')]]
    """
    return [list(map(split_condition, where)) for where in alternatives(program)]


def reads(program: Program, row: Row) -> bool:
    """Return whether a program's answer can depend on this row: whether the row meets the conditions.

    >>> reads({"type": "lookup", "where": [[0, "1993"], [1, "orlando"]], "select": 2}, ["1993", "Tampa", "9"])
    False
    """
    return any(meets(where, row) for where in alternatives(program))


def leaves_answer(program: Program) -> Callable[[Row], bool]:
    """Return a test whether a row leaves the answer as it is, even if part of a cell counts as the whole.

    >>> unread = leaves_answer({"type": "count", "where": [[0, "oslo"], [1, ">", "3"]]})
    >>> unread(["Oslo, Norway", "4"]), unread(["Lund", "Oslo"])
    (False, True)
    """
    lenient = split_conditions(program)

    def is_unread(row: Row) -> bool:
        return not any(all(_LENIENT_TESTS[test](row[n], v) for n, test, v in where) for where in lenient)

    return is_unread


def execute(program: Program, units: Iterable[Row]) -> list[str]:
    """Return the answers of a program on table rows or triples; an empty list where it has none.

    A `lookup` returns different cells in the order of their rows, as they are written. Of no rows a `count` is "0", and
    a `sum` has no answer; nor has a `sum` over a cell without a number. Where a program reads one row for each
    alternative (`compare`, `diff`, `cells`, `arithmetic`), it has no answer if an alternative has no row or several, or
    lacks the number that is needed.

    >>> rows = [["Stade Toulousain", "19"], ["CA Brive", "10"]]
    >>> execute({"type": "diff", "key": 0, "by": 1, "values": ["stade toulousain", "ca brive"]}, rows)
    ['9']

    Raises:
        DataError: the program's type is unknown.
    """
    kind = program.get("type")
    if kind in GRAPH_TYPES:
        return execute_on_triples(program, units)
    if kind not in TABLE_TYPES:
        known = ", ".join(sorted(TABLE_TYPES | GRAPH_TYPES))
        raise DataError(f"Unknown answer program {kind!r}; expected one of {known}. Correct the instance's 'program'.")
    rows = [row for row in units if reads(program, row)]
    if kind == "lookup":
        return list(dict.fromkeys(row[program["select"]] for row in rows))
    if kind == "count":
        return [str(len(rows))]
    if kind == "sum":
        numbers = _numbers([row[program["select"]] for row in rows])
        return [format_number(sum(numbers))] if numbers else []
    return _execute_on_single_rows(program, rows)


def _execute_on_single_rows(program: Program, rows: Sequence[Row]) -> list[str]:
    groups, kind = [[r for r in rows if meets(where, r)] for where in alternatives(program)], program["type"]
    if any(len(group) != 1 for group in groups):
        return []
    single = [row for [row] in groups]
    if "reads" in program:
        cells = [row[column] for row, (_, column) in zip(single, program["reads"], strict=True)]
        return _calculated(program["formula"], cells) if kind == "arithmetic" else cells
    if not (numbers := _numbers([row[program["by"]] for row in single])):
        return []
    one, other = numbers
    if kind == "diff":
        return [format_number(abs(one - other))]
    keys = [row[program["key"]] for row in single]
    best = max if program["op"] == "argmax2" else min
    return [] if one == other else [best(zip(numbers, keys, strict=True))[1]]


def _numbers(cells: Sequence[str]) -> list[float]:
    """Return the numbers of cells; an empty list if one has none."""
    stated = [number for cell in cells if (number := parse_number(cell)) is not None]
    return stated if len(stated) == len(cells) else []


def _calculated(formula: str, cells: Sequence[str]) -> list[str]:
    """Return the value of a formula on cells, rounded to two decimals; an empty list without numbers or a value."""
    numbers = _numbers(["0" if normalize_cell(cell).strip("$€£ ") in DASHES else cell for cell in cells])
    try:
        return [format_number(round(calculate(formula, numbers), 2))] if numbers else []
    except ValueError:
        return []


def format_number(value: float) -> str:
    """Return a number as an answer is written: with ten decimals at most, without a needless fraction or exponent.

    >>> format_number(9.0), format_number(0.1 + 0.2)
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


def same_answers(answers: Sequence[str], gold: Sequence[str]) -> bool:
    """Return whether two answer lists are equal: equal sets of normal forms, or both one and the same number.

    >>> same_answers(["12,467"], ["12467"]), same_answers([], ["12467"])
    (True, False)
    """
    if {wtq_normal(answer) for answer in answers} == {wtq_normal(answer) for answer in gold}:
        return True
    if len(answers) != 1 or len(gold) != 1:
        return False
    number, wanted = wtq_number(answers[0]), wtq_number(gold[0])
    return number is not None and wanted is not None and math.isclose(number, wanted, rel_tol=1e-12)
