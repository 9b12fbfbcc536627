"""Whether the induced programs read the rows that people's logical forms of the same questions read. A minute.

    python -m tests.endurance.logical_forms ../shared/data/ska_open_v1

WikiTableQuestions has such a form for some questions. Forms with other operators than those below are not read.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from kbbench_hf.building.ska_bench import source_files, wikitablequestions
from kbbench_hf.building.ska_bench.name_matching import normalize_cell
from kbbench_hf.building.ska_bench.programs import COMPARISONS, parse_number

Form = str | list["Form"]


def main(source: Path) -> int:
    """Print how many programs have a form, and those that one proves wrong; return whether there is one."""
    rows = source_files.read_json_lines(source / wikitablequestions.QUESTIONS, {"id": str})
    forms = {f"wtq-{row['id']}": row["logical_form"] for row in rows if row.get("logical_form")}
    wrong = []
    for revision in (1, 2):
        found = wikitablequestions.read_tables(source, revision)
        stated = [each for each in found.questions if each.id in forms]
        wrong += [e.id for e in stated if contradicts(forms[e.id], found.tables[e.group], e.positive_sk)]
        print(f"revision {revision}: {len(found.questions):,} programs, {len(stated):,} with a form")
    print("proven wrong:", ", ".join(wrong) or "none")
    return int(bool(wrong))


def contradicts(form: str, table: source_files.SourceTable, positive: Sequence[int]) -> bool:
    """Return whether a logical form reads other rows than these; False where it is absent or has other operators.

    >>> table = source_files.SourceTable(("Name", "City"), [("Ann", "Oslo"), ("Bo", "Lund")])
    >>> contradicts("(count (r.city c.oslo))", table, [0]), contradicts("(count (r.city c.oslo))", table, [1])
    (False, True)
    """
    if not form:
        return False
    try:
        return set().union(*_joins(_parse(form), table)) != set(positive)
    except (LookupError, ValueError):
        return False


def _parse(form: str) -> Form:
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


def _joins(form: Form, table: source_files.SourceTable) -> list[set[int]]:
    """Return the sets of rows that the outermost joins of a form select.

    Raises:
        ValueError: the form has an operator that is not supported.
    """
    match form:
        case str():
            return []
        case [str(head), *_] if head.startswith("r.") or head in ("and", "or"):
            return [_rows(form, table)]
        case [str(head), *parts] if head.startswith(("!r.", "@!p.")) or head in ("count", "sum", "-", "max", "min"):
            return [rows for part in parts for rows in _joins(part, table)]
    raise ValueError(f"{form!r} is not supported")


def _rows(form: Form, table: source_files.SourceTable) -> set[int]:
    match form:
        case ["and", one, other]:
            return _rows(one, table) & _rows(other, table)
        case ["or", one, other]:
            return _rows(one, table) | _rows(other, table)
        case [str(relation), value] if relation.startswith("r."):
            column = [_identifier(name) for name in table.header].index(relation.removeprefix("r."))
            return {n for n, row in enumerate(table.rows) if _holds(row[column], value)}
    raise ValueError(f"{form!r} is not supported")


def _holds(cell: str, value: Form) -> bool:
    match value:
        case str(name) if name.startswith("c."):
            return _identifier(cell) == name.removeprefix("c.")
        case ["or", one, other]:
            return _holds(cell, one) or _holds(cell, other)
        case ["@p.num", [str(test), str(limit)]] if test in COMPARISONS:
            return COMPARISONS[test](cell, limit)
        case ["@p.num", str(wanted)]:
            return parse_number(cell) == float(wanted)
        case ["@p.part", str(part)] if part.startswith("q."):
            return f"_{part.removeprefix('q.')}_" in f"_{_identifier(cell)}_"
    raise ValueError(f"{value!r} is not supported")


def _identifier(text: str) -> str:
    """Return the name that a header or cell has in a form.

    >>> _identifier("Ukraine (UKR)"), _identifier("1st")
    ('ukraine_ukr', '1st')
    """
    return re.sub(r"[^a-z0-9]+", "_", normalize_cell(f"{text}|").strip("|")).strip("_")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
