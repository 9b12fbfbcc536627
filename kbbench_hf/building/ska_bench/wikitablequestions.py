"""Questions from WikiTableQuestions (CC BY-SA 4.0): people asked them and gave the answer; programs are induced.

Where people also wrote the question's logical form, the program must read the rows that the form reads.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.table_programs import normal, number
from kbbench_hf.benchmarks.ska_bench.units import Cells, clean
from kbbench_hf.building.ska_bench.program_induction import induce
from kbbench_hf.building.ska_bench.raw_files import Source, read_json_lines
from kbbench_hf.building.ska_bench.table_questions import Table, TableQuestion, Tables
from kbbench_hf.errors import DataError
from kbbench_hf.metrics.answers import wtq_number

TABLES, QUESTIONS = "wtq_tables.jsonl.gz", "wtq_questions.jsonl.gz"
SOURCE = Source("WikiTableQuestions", "ppasupat/WikiTableQuestions @7d455a5", "CC BY-SA 4.0")
FEWEST_COLUMNS, FEWEST_ROWS = 6, 8
"""The paper's smallest tables."""
_SUMMARIES = frozenset({"total", "totals", "overall total", "grand total", "career total", "sum", "average"})


def read(folder: Path) -> Tables:
    """Return the tables, without rows that sum up other rows, and the questions that one program answers.

    Raises:
        DataError: a file is absent or malformed.
    """
    stored = read_json_lines(folder / TABLES, {"table": str, "header": list, "rows": list})
    tables = {row["table"]: _table(row["header"], row["rows"]) for row in sorted(stored, key=lambda row: row["table"])}
    fields = {"id": str, "question": str, "table": str, "answers": list}
    questions = []
    asked = sorted(read_json_lines(folder / QUESTIONS, fields), key=lambda row: row["id"])
    for row in asked:
        if row["table"] not in tables:
            raise DataError(f"{row['id']} needs {row['table']!r}, which {TABLES} does not have. Get both files again.")
        table = tables[row["table"]]
        if len(table.header) < FEWEST_COLUMNS or len(table.rows) < FEWEST_ROWS:
            continue
        found = induce(row["question"], table.header, table.rows, row["answers"])
        if found and not contradicts(row.get("logical_form") or "", table, found.positive):
            answers = tuple(map(clean, row["answers"]))
            words = (f"wtq-{row['id']}", clean(row["question"]), answers, _answer_type(answers), ())
            questions.append(TableQuestion(*words, row["table"], found.program, found.positive))
    return Tables(SOURCE, tables, questions, len(asked))


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    cells: list[Cells] = [tuple(map(clean, row)) for row in rows if len(row) == len(header)]
    return Table(
        tuple(map(clean, header)),
        [row for row in cells if not any(normal(cell).strip(":") in _SUMMARIES for cell in row[:2])],
    )


def _answer_type(answers: Sequence[str]) -> str:
    """Return how the answers are compared: as numbers if all are, otherwise as names.

    >>> _answer_type(["1,024"]), _answer_type(["1994-95"])
    ('number', 'entity')
    """
    return "number" if all(wtq_number(answer) is not None for answer in answers) else "entity"


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
