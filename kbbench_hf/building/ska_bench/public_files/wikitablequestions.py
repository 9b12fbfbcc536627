"""WikiTableQuestions as it is released: tables as CSV, questions as TSV, logical forms of three hundred of them."""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.units import clean
from kbbench_hf.building.ska_bench.raw_files import lines_of, write_json_lines
from kbbench_hf.building.ska_bench.wikitablequestions import (
    FEWEST_COLUMNS,
    FEWEST_ROWS,
    QUESTIONS,
    TABLES,
)
from kbbench_hf.files.datasets import Row

SPLITS = ("training", "pristine-unseen-tables")
_ESCAPED = {"n": " ", "p": "|"}


def write(checkout: Path, folder: Path) -> None:
    """Write the questions on tables that are large enough, and these tables."""
    forms = logical_forms(lines_of(checkout / "data" / "annotated-all.examples"))
    asked = [row for split in SPLITS for row in _questions(checkout / "data" / f"{split}.tsv", forms)]
    tables = {name: _table(checkout / name) for name in sorted({row["table"] for row in asked})}
    large = {
        name: cells for name, cells in tables.items() if len(cells[0]) >= FEWEST_COLUMNS and len(cells) > FEWEST_ROWS
    }
    stored = ({"table": name, "header": header, "rows": rows} for name, (header, *rows) in large.items())
    write_json_lines(folder / TABLES, stored)
    write_json_lines(folder / QUESTIONS, (row for row in asked if row["table"] in large))


def _questions(file: Path, forms: Mapping[str, str]) -> Iterator[Row]:
    for line in islice(lines_of(file), 1, None):
        name, text, table, answers = line.split("\t")
        row = {"id": name, "split": file.stem, "question": unescaped(text), "table": table}
        yield row | {"answers": [unescaped(answer) for answer in answers.split("|")], "logical_form": forms.get(name)}


def unescaped(text: str) -> str:
    r"""Return a cell of the released TSV files as it was written.

    >>> unescaped(r"AC\pDC\nback to back \\ 1980")
    'AC|DC back to back \\ 1980'
    """
    return clean(re.sub(r"\\(.)", lambda found: _ESCAPED.get(found[1], found[1]), text))


def _table(file: Path) -> list[list[str]]:
    with file.open(encoding="utf-8", newline="") as rows:
        return [[clean(cell) for cell in row] for row in csv.reader(rows, doublequote=False, escapechar="\\")]


def logical_forms(examples: Iterable[str]) -> dict[str, str]:
    """Return the logical forms that people wrote, by the id of their question.

    >>> logical_forms(['(example (id nt-3) (utterance "how many?") (targetFormula (count (r.year c.1990))))'])
    {'nt-3': '(count (r.year c.1990))'}
    """
    forms = {}
    for example in examples:
        name, form = re.search(r"\(id (\S+)\)", example), example.partition("(targetFormula ")[2]
        if name and form:
            forms[name[1]] = _balanced(form)
    return forms


def _balanced(text: str) -> str:
    depth = 0
    for end, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth <= 0:
            return text[: end + (depth == 0 and character == ")")]
    return text
