"""HybridQA's questions on OTT-QA's tables with linked passages, read for both hybrid subsets, and whose is which.

The released text is tokenised ("Tom 's horse , in 1945"); it is written here as people write it, in question, answer,
cells and passages alike.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.units import SEED, Cells, Origin, clean
from kbbench_hf.building.ska_bench.raw_files import Source, read_json_lines, written
from kbbench_hf.errors import DataError
from kbbench_hf.files.datasets import Row

SOURCE = Source("HybridQA", "wenhuchen/HybridQA @db22fda, wenhuchen/OTT-QA @b289bcc", "MIT; text Wikipedia, CC BY-SA")
ORIGIN = Origin(SOURCE.name, SOURCE.licence)
TABLES, QUESTIONS = "hybridqa_tables.jsonl.gz", "hybridqa_questions.jsonl.gz"
_PERSON = re.compile(r"[A-Z]\S*(?: [A-Z]\S*)+")


@dataclass(frozen=True)
class Table:
    """A table whose cells link to passages."""

    name: str
    title: str
    section: str
    header: Cells
    rows: tuple[Cells, ...]
    links: tuple[tuple[tuple[str, ...], ...], ...]
    """Of each cell: the links whose passages are there, without repetition."""
    passages: Mapping[str, str]
    """Link -> text."""


@dataclass(frozen=True)
class Question:
    """A question whose answer lies in one row of a table, or in a passage that the row links to."""

    id: str
    text: str
    answer: str
    table: str
    row: int
    quoted: tuple[int, ...]
    """The columns whose cell in the row is quoted in the question."""
    answer_passages: tuple[str, ...]
    """The links of the row whose passages hold the answer; empty where it is a cell's."""
    bridges: tuple[str, ...]
    """Links of the row whose passages hold words of the question that nothing else in the evidence does."""
    bridge_hits: int
    """How many of the table's passages hold them as well as those do."""
    answer_in_table: bool


def title_of(link: str) -> str:
    """Return the title of the page behind a link.

    >>> title_of("/wiki/Saving_Grace_(TV_series)")
    'Saving Grace (TV series)'
    """
    return clean(link.removeprefix("/wiki/").replace("_", " "))


def listed(answer: str) -> list[str]:
    """Return what an answer lists: people, or three things and more; one that lists nothing, or only may, alone.

    >>> listed("Jennifer Aniston and Paul Rudd"), listed("strawberries, apples, lettuce")
    (['Jennifer Aniston', 'Paul Rudd'], ['strawberries', 'apples', 'lettuce'])
    >>> listed("paranoia and delirium"), listed("New York City, New York")
    (['paranoia and delirium'], ['New York City, New York'])
    """
    parts = re.split(r", and | and |, ", answer)
    several = " and " in answer or answer.islower()
    return parts if several and (len(parts) > 2 or all(map(_PERSON.fullmatch, parts))) else [answer]


def read(folder: Path) -> tuple[list[Question], dict[str, Table]]:
    """Return the questions by id, and the tables by name.

    Raises:
        DataError: a file is absent or malformed, or a question names a table or a row that is not there.
    """
    columns = {"table": str, "title": str, "section": str, "header": list, "rows": list, "passages": dict}
    tables = {row["table"]: _table(row) for row in read_json_lines(folder / TABLES, columns)}
    fields = {"id": str, "question": str, "answer": str, "table": str, "row": int, "row_cells_quoted": list}
    lists = {"answer_passages": list, "bridge_passages": list, "bridge_hits_in_table": int, "answer_in_table": bool}
    questions = []
    for row in read_json_lines(folder / QUESTIONS, {**fields, **lists}):
        table = tables.get(row["table"])
        if table is None or not 0 <= row["row"] < len(table.rows):
            raise DataError(f"{row['id']} needs row {row['row']} of {row['table']!r}, which {TABLES} does not have.")
        questions.append(
            Question(
                row["id"],
                written(row["question"]),
                written(row["answer"]),
                row["table"],
                row["row"],
                tuple(row["row_cells_quoted"]),
                tuple(row["answer_passages"]),
                tuple(row["bridge_passages"]),
                row["bridge_hits_in_table"],
                row["answer_in_table"],
            )
        )
    return sorted(questions, key=lambda question: question.id), dict(sorted(tables.items()))


def subset_of(questions: Sequence[Question]) -> dict[str, str]:
    """Return the subset of each table that has questions: `kg_text` or `table_text`, halves by the hash of its name."""
    names = sorted({question.table for question in questions})
    return {name: "table_text" if _share(name) < 0.5 else "kg_text" for name in names}


def _share(name: str) -> float:
    return int.from_bytes(hashlib.sha256(f"{SEED}|subset|{name}".encode()).digest()[:6]) / 2**48


def _table(row: Row) -> Table:
    passages = {link: text for link, tokens in sorted(row["passages"].items()) if (text := written(tokens))}
    try:
        rows = tuple(tuple(written(text) for text, _ in cells) for cells in row["rows"])
        links = tuple(
            tuple(tuple(dict.fromkeys(link for link in linked if link in passages)) for _, linked in cells)
            for cells in row["rows"]
        )
    except (TypeError, ValueError) as error:
        raise DataError(f"{row['table']}: a cell is not [text, links] ({error}). Get {TABLES} again.") from error
    header = tuple(map(written, row["header"]))
    if any(len(cells) != len(header) for cells in rows):
        raise DataError(f"{row['table']}: a row has not {len(header)} cells, as the header has. Get {TABLES} again.")
    return Table(row["table"], written(row["title"]), written(row["section"]), header, rows, links, passages)
