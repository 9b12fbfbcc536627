"""WikiTableQuestions (CC BY-SA 4.0): questions and answers by people; their programs are induced.

`table` reads it with `read_tables`. From revision 2 on questions with words that only a title could say are left out.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.testbeds import NEWEST
from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, Program, clean
from kbbench_hf.building.ska_bench import source_files
from kbbench_hf.building.ska_bench.name_matching import content_words, mentions, normal_name, normalize_cell
from kbbench_hf.building.ska_bench.program_induction import STOP_WORDS, induce_program
from kbbench_hf.errors import DataError
from kbbench_hf.files.datasets import Row
from kbbench_hf.metrics.answers import answer_type, wtq_number

TABLES, QUESTIONS = "wtq_tables.jsonl.gz", "wtq_questions.jsonl.gz"
SOURCE = source_files.DataSource("WikiTableQuestions", "ppasupat/WikiTableQuestions @7d455a5", "CC BY-SA 4.0")
FEWEST_COLUMNS, FEWEST_ROWS = 6, 8
"""The paper's smallest tables."""
USUAL = 5
"""A word that questions on so many tables have is no name."""
_YEAR, _LOWER = re.compile(r"(?:1[89]|20)\d\d"), re.compile(r"(?<![\w-])[a-z]{3,}(?![\w-])")
_EVENT = re.compile(
    r"\b(?:in|at|of|for|during) the ((?:\w+ )+)"
    r"(?:games|cup|olympics|championships?|tournament|league|season|series|elections?|festival|awards)\b"
)
"""What follows an event's name, which is the group: "at the asian games"."""
_SUMMARIES = frozenset({"total", "totals", "overall total", "grand total", "career total", "sum", "average"})
"""Labels of rows that sum up others."""


def read_tables(folder: Path, revision: int = NEWEST) -> source_files.TableSource:
    """Return the tables, without rows that sum up other rows, and the questions that one program answers, by id.

    Raises:
        DataError: a file is absent or malformed.
    """
    stored = source_files.read_json_lines(folder / TABLES, {"table": str, "header": [str], "rows": [[str]]})
    tables = {row["table"]: _table(row["header"], row["rows"]) for row in sorted(stored, key=lambda row: row["table"])}
    fields: dict[str, source_files.JsonKind] = {"id": str, "question": str, "table": str, "answers": [str]}
    records = sorted(source_files.read_json_lines(folder / QUESTIONS, fields), key=lambda row: row["id"])
    known = usual_words(tables.values(), records) if revision > 1 else frozenset()
    questions = []
    for row in records:
        if row["table"] not in tables:
            raise DataError(f"{row['id']} needs {row['table']!r}, which {TABLES} does not have. Get both files again.")
        if question := _question(row, tables[row["table"]], known, revision):
            questions.append(question)
    return source_files.TableSource(SOURCE, tables, questions, len(records))


def _question(row: Row, table: source_files.SourceTable, known: Collection[str], revision: int) -> Instance | None:
    """Return a question with its program, or None where none is settled, or the table is too small."""
    is_large = len(table.header) >= FEWEST_COLUMNS and len(table.rows) >= FEWEST_ROWS
    found = is_large and induce_program(row["question"], table.header, table.rows, row["answers"], revision)
    if not found:
        return None
    answers, aliases = tuple(map(clean, row["answers"])), tuple[Cells, ...]()
    kind = "number" if all(wtq_number(answer) is not None for answer in answers) else "entity"
    if revision > 1:
        shown = [table.header, *(table.rows[n] for n in found.positive_sk), [str(found.program)]]
        if unshown_words(row["question"], shown, known):
            return None
        if kind == "entity":
            kind = min(map(answer_type, answers), key=["entity", "date", "number"].index)
        aliases = option_names(row["question"], found.program, table.header, answers)
    name, text, fields = f"wtq-{row['id']}", clean(row["question"]), found._asdict() | SOURCE.fields(row["id"])
    return Instance(name, "table", text, answers, row["table"], kind, aliases, **fields)


def usual_words(tables: Iterable[source_files.SourceTable], questions: Iterable[Mapping[str, str]]) -> frozenset[str]:
    """Return the stems of words that are no names: in headers, many questions, or cells in lower case."""
    asked = defaultdict[str, set[str]](set)
    for each in questions:
        for word in content_words(each["question"]):
            asked[word].add(each["table"])
    tables = list(tables)
    cells = {cell for table in tables for row in table.rows for cell in row}
    lower = {word for cell in cells for word in _LOWER.findall(cell)}
    headers = {name for table in tables for name in table.header}
    usual = {word for word, names in asked.items() if len(names) >= USUAL}
    return content_words(" ".join([*lower, *headers])) | usual


def unshown_words(question: str, shown: Iterable[Sequence[str]], known: Collection[str]) -> set[str]:
    """Return the names, events and years of a question that no needed row has: only a title could say them.

    >>> shown = [("Driver", "Laps"), ("Ann", "59"), ("Bo", "7")]
    >>> sorted(unshown_words("how many laps did ann drive at the 2006 gran premio?", shown, {"drive"}))
    ['2006', 'gran', 'premio']
    >>> sorted(unshown_words("how many laps did ann drive in the asian games?", shown, {"drive", "asian", "game"}))
    ['asian']
    """
    held = {word for cells in shown for word in normal_name(" ".join(cells)).split()}
    starts = {word[:3] for word in held}

    def is_usual(word: str) -> bool:
        parts = {*content_words(word), *(word[:n] for n in range(4, len(word)))}
        return word in STOP_WORDS or word[:3] in starts or bool(parts & {*known}) or not word.isalpha()

    text = normal_name(question)
    words = {word for word in text.split() if len(word) > 2 and word not in held}
    events = {word for name in _EVENT.findall(text) for word in name.split()} - STOP_WORDS
    unshown = events if not any(word[:3] in starts for word in events) else set[str]()
    return unshown | {word for word in words if _YEAR.fullmatch(word) or not is_usual(word)}


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> source_files.SourceTable:
    cells: list[Cells] = [tuple(map(clean, row)) for row in rows if len(row) == len(header)]
    data_rows = [row for row in cells if not any(normalize_cell(cell).strip(":") in _SUMMARIES for cell in row[:2])]
    return source_files.SourceTable(tuple(map(clean, header)), data_rows)


def option_names(question: str, program: Program, header: Cells, answers: Cells) -> tuple[Cells, ...]:
    """Return the names by which a comparison offers its answer, where it is called otherwise in the table.

    >>> program = {"type": "compare", "key": 0, "test": "contains", "values": ["ascari", "chiron"]}
    >>> option_names("who came earlier, chiron or ascari?", program, ("Driver", "Pos"), ("Louis Chiron",))
    (('chiron',),)
    >>> program = {"type": "compare", "key": 0, "values": ["barry", "benton"]}
    >>> option_names("is barry county or benton county larger?", program, ("County", "Area"), ("Benton",))
    (('benton county',),)
    """
    if program["type"] != "compare":
        return ()
    text, [answer] = normalize_cell(question), answers
    options = [value for value in program["values"] if mentions(normalize_cell(answer), value)]
    with_key = [f"{value} {normalize_cell(header[program['key']])}" for value in options]
    aliases = [value for value in options if value != normalize_cell(answer)]
    aliases += [name for name in with_key if mentions(text, name)]
    return (tuple(aliases),) if aliases else ()
