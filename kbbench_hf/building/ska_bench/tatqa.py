"""Questions from TAT-QA (CC BY 4.0): people marked the cells that each one needs, and wrote down the calculation.

Of a table the columns of years are kept, if no two are of one year, so that tables of the same years lend each other
rows.
A question is kept if all its cells have a label that no other row has, and its calculation, executed on them, gives the
gold answer. What a paragraph says is not shown, so answers are in the table's unit; with the unit's name they are right
too.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.mentions import mentions
from kbbench_hf.benchmarks.ska_bench.programs import execute
from kbbench_hf.benchmarks.ska_bench.table_programs import Program, calculate, normal, number, written
from kbbench_hf.benchmarks.ska_bench.units import Cells, clean
from kbbench_hf.building.ska_bench.evidence_words import Words
from kbbench_hf.building.ska_bench.raw_files import Source, read_json_lines
from kbbench_hf.building.ska_bench.table_questions import Table, TableQuestion, Tables
from kbbench_hf.errors import DataError
from kbbench_hf.files.datasets import Row

FILE = "tatqa_test_gold.jsonl.gz"
SOURCE = Source("TAT-QA", "NExTplusplus/TAT-QA @870accc", "CC BY 4.0")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_BARE_LABELS = frozenset({"total", "totals", "other", "others", "net", "basic", "diluted", "current", "deferred"})
"""Labels that mean nothing without the heading above them."""
_SUPERLATIVE = re.compile(r"\b(top|largest|smallest|highest|lowest|most|least|biggest|main|major|first|last)\b")
"""Its evidence would be the whole table, which other tables' rows change."""
_CHANGE = re.compile(r"[( ]*-? ?\(?-?c(\d+)\)?[ )]*- [-( ]*c(\d+)")
_RATIO = re.compile(r"\(? ?\(?-?c(\d+)\)? / \(?-?c(\d+)\)? ?\)?(?: \* 100)?")
_DASHES = frozenset({"-", "--", "---"})


def read(folder: Path) -> Tables:
    """Return the tables by years, and the questions on them.

    Raises:
        DataError: the file is absent or malformed.
    """
    documents = read_json_lines(folder / FILE, {"table": dict, "questions": list})
    try:
        return _read(sorted(documents, key=lambda document: str(document["table"]["uid"])))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DataError(f"{FILE}: a document is malformed ({error!r}); get the file again.") from error


def _read(documents: Sequence[Row]) -> Tables:
    tables: dict[str, Table] = {}
    asked_on = []
    for document in documents:
        name = f"tatqa/{document['table']['uid']}"
        if found := _by_year([[clean(cell) for cell in row] for row in document["table"]["table"]]):
            tables[name], columns, numbers = found
            asked_on.append((name, columns, numbers, document["questions"]))
    questions = [
        question
        for name, columns, numbers, asked in asked_on
        for each in asked
        if (question := _question(each, name, tables[name], columns, numbers))
    ]
    years = sorted({table.kind for table in tables.values()})
    for name, table in list(tables.items()):
        for kind in years:
            if set(kind) < set(table.kind):
                tables[f"{name}@{'+'.join(kind[1:])}"] = _projected(table, kind)
    return Tables(SOURCE, tables, questions, sum(len(document["questions"]) for document in documents))


def _by_year(grid: Sequence[Sequence[str]]) -> tuple[Table, dict[int, int], list[int]] | None:
    """Return a table with its years as header, its columns by those in the grid, and its rows' numbers in the grid.

    None where two columns share a year, or fewer than two have one.
    """
    top = 0
    while top < len(grid) and not any(_is_amount(cell) for cell in grid[top][1:]):
        top += 1
    years = {}
    for column in range(1, len(grid[0])):
        named = {year for row in grid[:top] for year in _YEAR.findall(row[column])}
        if len(named) == 1:
            years[column] = named.pop()
    if len(years) < 2 or len(set(years.values())) < len(years):
        return None
    ordered = sorted(years, key=lambda column: years[column], reverse=True)
    numbers = [n for n in range(top, len(grid)) if grid[n][0] and all(grid[n][column] for column in ordered)]
    rows = [(grid[n][0], *(grid[n][column] for column in ordered)) for n in numbers]
    columns = {0: 0} | {column: place for place, column in enumerate(ordered, start=1)}
    return Table(("", *(years[column] for column in ordered)), rows), columns, numbers


def _is_amount(cell: str) -> bool:
    bare = normal(f"|{cell}|").strip("|$€£% ")
    return bare in _DASHES or (number(cell) is not None and not _YEAR.search(cell))


def _projected(table: Table, kind: Cells) -> Table:
    columns = [table.kind.index(name) for name in kind]
    return Table(kind, [tuple(row[column] for column in columns) for row in table.rows])


def _question(
    asked: Row, name: str, table: Table, columns: Mapping[int, int], numbers: Sequence[int]
) -> TableQuestion | None:
    places = [mapping["table"] for mapping in asked["mappings"] if "table" in mapping]
    if len(places) < len(asked["mappings"]) or any(row not in numbers or c not in columns for row, c in places):
        return None
    cells = [(numbers.index(row), columns[column]) for row, column in places]
    labels = [normal(row[0]) for row in table.rows]
    positive = tuple(sorted({row for row, _ in cells}))
    if _named_rows(asked["question"], table.rows) - set(positive) or not _speaks_of(asked["question"], table, positive):
        return None
    if _SUPERLATIVE.search(normal(asked["question"])) or any(
        labels.count(labels[row]) > 1 or labels[row] in _BARE_LABELS for row in positive
    ):
        return None
    named = set(_YEAR.findall(asked["question"]))
    if named and not named >= {table.header[column] for _, column in cells if column}:
        return None  # the number of a year that the question does not name stands for that of another one
    stated = {(row, column): number(table.rows[row][column]) for row in positive for _, column in cells}
    if any(
        stated[cell] == amount
        for cell in cells
        for (row, column), amount in stated.items()
        if row != cell[0] and column == cell[1] and amount
    ):
        return None  # one of two rows that state the number would do
    reads = [[[[0, labels[row]]], column] for row, column in cells]
    answers = [str(answer) for answer in asked["answer"]] if isinstance(asked["answer"], list) else []
    program: Program
    aliases: tuple[Cells, ...]
    if asked["answer_type"] == "arithmetic" and (formula := _formula(asked["derivation"], table, cells)):
        program = {"type": "arithmetic", "reads": reads, "formula": formula}
        answers = execute(program, table.rows)
        if not answers or abs(float(answers[0]) - float(asked["answer"])) > 0.0101:
            return None
        read = [(table.rows[row][0], table.header[column]) for row, column in cells]
        if not _is_as_asked(asked["question"], formula, read):
            return None
        aliases = (_aliases(formula, [table.rows[row][column] for row, column in cells], asked["scale"]),)
    elif asked["answer_type"] == "multi-span" and all(column for _, column in cells):
        program = {"type": "cells", "reads": reads}
        answers = execute(program, table.rows)
        if sorted(answers) != sorted(clean(str(answer)) for answer in asked["answer"]):
            return None
        aliases = tuple((f"{answer} {asked['scale']}",) if asked["scale"] else () for answer in answers)
    else:
        return None
    return TableQuestion(
        f"tatqa-{asked['uid']}", clean(asked["question"]), tuple(answers), "number", aliases, name, program, positive
    )


def _named_rows(question: str, rows: Sequence[Cells]) -> set[int]:
    return {n for n, row in enumerate(rows) if mentions(normal(question), normal(row[0]))}


def _speaks_of(question: str, table: Table, positive: Sequence[int]) -> bool:
    """Say whether the question has half of the words of each row's label, and all of no other one's."""
    words = Words(())
    asked, labels = words.of(question), [words.of(row[0]) for row in table.rows]
    half = all(2 * len(labels[n] & asked) >= len(labels[n]) for n in positive)
    return half and not any(label and label <= asked for n, label in enumerate(labels) if n not in positive)


def _is_as_asked(question: str, formula: str, read: Sequence[tuple[str, str]]) -> bool:
    """Say whether a formula on cells, each with label and year, is not one that its question turns around.

    "The ratio of A to B" is A / B, a change that is no decrease is from the earlier year to the later one.

    >>> read = [("Costs", "2018"), ("Sales", "2018"), ("Sales", "2019")]
    >>> _is_as_asked("What is the ratio of sales to costs in 2018?", "c0 / c1", read)
    False
    >>> _is_as_asked("What was the change in sales between 2018 and 2019?", "c1 - c2", read)
    False
    """
    if change := _CHANGE.match(formula):
        later, earlier = (read[int(place)][1] for place in change.groups())
        return not re.search(r"\b(?:change|increase)\b(?! ?/)", question) or later >= earlier
    if not (ratio := _RATIO.fullmatch(formula)) or "ratio" not in question:
        return True
    over, under = (read[int(place)][0] for place in ratio.groups())
    words = Words(())
    said = [words.of(word) for word in normal(question).split()]
    first, second = (
        next((n for n, word in enumerate(said) if word & (words.of(label) - words.of(other))), None)
        for label, other in ((over, under), (under, over))
    )
    return first is None or second is None or first < second


def _formula(derivation: str, table: Table, cells: Sequence[tuple[int, int]]) -> str | None:
    """Return a calculation with its numbers replaced by the cells that state them, or None where one is nowhere."""
    stated = [number(table.rows[row][column]) for row, column in cells]
    used: set[int] = set()
    parts: list[str] = []
    for token in _tokens(derivation):
        if not token[0].isdigit():
            parts.append(token)
            continue
        value = float(token.replace(",", ""))
        fitting = [n for n, amount in enumerate(stated) if amount is not None and abs(amount) == value]
        if fitting:
            place = next((n for n in fitting if n not in used), fitting[0])
            used.add(place)
            parts.append(f"c{place}" if (stated[place] or 0) >= 0 else f"(-c{place})")
        elif value in {*range(13), 100}:
            parts.append(token)
        else:
            return None
    formula = " ".join(parts)
    return formula if parts and used == set(range(len(cells))) else None


def _tokens(derivation: str) -> Iterator[str]:
    plain = derivation.translate(str.maketrans("[]−–×", "()--*")).replace("%", "").replace("$", "")
    return (found[0] for found in re.finditer(r"\d[\d,]*(?:\.\d+)?|[-+*/()]|\S", plain))


def _aliases(formula: str, cells: Sequence[str], scale: str) -> tuple[str, ...]:
    """Return the answer rounded elsewhere, as long as it stays within half a percent, and with its unit's name."""
    exact = calculate(formula, [0.0 if normal(cell).strip("$ ") in _DASHES else number(cell) or 0.0 for cell in cells])
    rounded = [written(round(exact, digits)) for digits in (2, 0, 1, 3, 4)]
    near = [text for text in rounded if abs(float(text) - exact) <= 0.005 * abs(exact)]
    named = [f"{text} {scale}" for text in near if scale and scale != "percent"]
    return tuple(dict.fromkeys([*near, *named]))
