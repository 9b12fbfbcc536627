"""Questions from WikiTableQuestions (CC BY-SA 4.0): people asked them and gave the answer; programs are induced.

Where people also wrote the question's logical form, the program must read the rows that the form reads.
"""

from collections.abc import Sequence
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.construction.logical_forms import contradicts
from kbbench_hf.benchmarks.ska_bench.construction.program_induction import induce
from kbbench_hf.benchmarks.ska_bench.construction.raw_files import Source, read_json_lines
from kbbench_hf.benchmarks.ska_bench.construction.table_questions import Table, TableQuestion, Tables
from kbbench_hf.benchmarks.ska_bench.table_programs import normal
from kbbench_hf.benchmarks.ska_bench.units import Cells, clean
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
            raise DataError(
                f"{row['id']} asks on {row['table']!r}, which {TABLES} does not have. Get both files again."
            )
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
