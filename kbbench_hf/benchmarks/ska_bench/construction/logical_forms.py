"""WikiTableQuestions' logical forms, lambda-DCS written by people: which rows a form speaks of.

Only forms without order, comparison of rows or functions are read: joins of a column with a value, their union and
intersection, and bounds on a column's number. All others are left aside.
"""

import re
from collections.abc import Sequence

from kbbench_hf.benchmarks.ska_bench.construction.table_questions import Table
from kbbench_hf.benchmarks.ska_bench.table_programs import normal, number

Form = str | list["Form"]


def contradicts(form: str, table: Table, positive: Sequence[int]) -> bool:
    """Say whether a form speaks of other rows than these; False where it is absent or is not read here.

    >>> table = Table(("Name", "City"), [("Ann", "Oslo"), ("Bo", "Lund")])
    >>> contradicts("(count (r.city c.oslo))", table, [0]), contradicts("(count (r.city c.oslo))", table, [1])
    (False, True)
    """
    if not form:
        return False
    try:
        found = set().union(*_joins(_parsed(form), table))
    except (LookupError, ValueError):
        return False
    return found != set(positive)


def _parsed(form: str) -> Form:
    stack: list[list[Form]] = [[]]
    for part in re.findall(r"[()]|[^\s()]+", form):
        if part == "(":
            stack.append([])
        elif part == ")":
            closed = stack.pop()
            stack[-1].append(closed)
        else:
            stack[-1].append(part)
    if len(stack) != 1 or len(stack[0]) != 1:
        raise ValueError(f"{form!r} is not one expression")
    return stack[0][0]


def _joins(form: Form, table: Table) -> list[set[int]]:
    """Return the sets of rows that the outermost joins of a form select.

    Raises:
        ValueError: the form uses what is not read here.
    """
    if isinstance(form, str):
        return []
    head = form[0]
    if (isinstance(head, str) and head.startswith("r.")) or head in ("and", "or"):
        return [_rows(form, table)]
    if isinstance(head, str) and (head.startswith(("!r.", "@!p.")) or head in ("count", "sum", "-", "max", "min")):
        return [rows for part in form[1:] for rows in _joins(part, table)]
    raise ValueError(f"{head!r} is not read")


def _rows(form: Form, table: Table) -> set[int]:
    match form:
        case ["and", one, other]:
            return _rows(one, table) & _rows(other, table)
        case ["or", one, other]:
            return _rows(one, table) | _rows(other, table)
        case [str(relation), value] if relation.startswith("r."):
            column = [_identifier(name) for name in table.header].index(relation.removeprefix("r."))
            return {n for n, row in enumerate(table.rows) if _holds(row[column], value)}
    raise ValueError(f"{form!r} is not read")


def _holds(cell: str, value: Form) -> bool:
    match value:
        case str(name) if name.startswith("c."):
            return _identifier(cell) == name.removeprefix("c.")
        case ["or", one, other]:
            return _holds(cell, one) or _holds(cell, other)
        case ["@p.num", [str(test), str(limit)]] if test in ("<", "<=", ">", ">="):
            stated = number(cell)
            return (
                stated is not None
                and {
                    "<": stated < float(limit),
                    "<=": stated <= float(limit),
                    ">": stated > float(limit),
                    ">=": stated >= float(limit),
                }[test]
            )
        case ["@p.num", str(wanted)]:
            return number(cell) == float(wanted)
        case ["@p.part", str(part)] if part.startswith("q."):
            return f"_{part.removeprefix('q.')}_" in f"_{_identifier(cell)}_"
    raise ValueError(f"{value!r} is not read")


def _identifier(text: str) -> str:
    """Return the name that a header or cell has in a form.

    >>> _identifier("Ukraine (UKR)"), _identifier("1st")
    ('ukraine_ukr', '1st')
    """
    return re.sub(r"[^a-z0-9]+", "_", normal(f"{text}|").strip("|")).strip("_")
