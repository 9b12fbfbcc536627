"""TAT-QA (CC BY 4.0): questions whose cells people marked, with the calculation that gives the answer.

The columns of years of a table are kept if no two are of one year, so that tables of the same years lend each other
rows. A question is kept if all its cells have a label that no other row has, and its calculation, executed on them,
gives the gold answer. Paragraphs are not shown, so answers are in the table's unit; with the unit's name they are right
too. `table` reads it with `read_tables`, the same in all revisions.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, Program, clean
from kbbench_hf.building.ska_bench.name_matching import content_words, mentions, normalize_cell
from kbbench_hf.building.ska_bench.programs import DASHES, calculate, execute, format_number, parse_number
from kbbench_hf.building.ska_bench.source_files import DataSource, SourceTable, TableSource, read_json_lines
from kbbench_hf.errors import DataError
from kbbench_hf.files.datasets import Row

FILE = "tatqa_test_gold.jsonl.gz"
SOURCE = DataSource("TAT-QA", "NExTplusplus/TAT-QA @870accc", "CC BY 4.0")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_BARE_LABELS = frozenset({"total", "totals", "other", "others", "net", "basic", "diluted", "current", "deferred"})
"""Labels without meaning unless the heading above them is read."""
_SUPERLATIVE = re.compile(r"\b(top|largest|smallest|highest|lowest|most|least|biggest|main|major|first|last)\b")
"""Its evidence would be the whole table, which other tables' rows change."""
_CHANGE = re.compile(r"[( ]*-? ?\(?-?c(\d+)\)?[ )]*- [-( ]*c(\d+)")
_RATIO = re.compile(r"\(? ?\(?-?c(\d+)\)? / \(?-?c(\d+)\)? ?\)?(?: \* 100)?")
"""Formulas that begin with a difference of two cells, and those that are one ratio, maybe in percent."""


def read_tables(folder: Path) -> TableSource:
    """Return the tables by years, and the questions on them that are their calculation, by document.

    Of a table with more years than others, its columns of the others' years are tables too, to lend rows:
    `tatqa/<uid>@2019+2018`.

    Raises:
        DataError: the file is absent or malformed.
    """
    documents = read_json_lines(folder / FILE, {"table": dict, "questions": list})
    try:
        return _convert(sorted(documents, key=lambda document: str(document["table"]["uid"])))
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
        raise DataError(f"{FILE}: a document is malformed ({error!r}); get the file again.") from error


def _convert(documents: Sequence[Row]) -> TableSource:
    tables: dict[str, SourceTable] = {}
    questions = []
    for document in documents:
        name = f"tatqa/{document['table']['uid']}"
        if found := _by_year([[clean(cell) for cell in row] for row in document["table"]["table"]]):
            tables[name], columns, numbers = found
            made = (_question(each, name, tables[name], columns, numbers) for each in document["questions"])
            questions += [question for question in made if question]
    kinds = sorted({table.kind for table in tables.values()})
    for name, table in list(tables.items()):
        for kind in kinds:
            if set(kind) < set(table.kind):
                chosen = [table.kind.index(year) for year in kind]
                rows = [tuple(row[column] for column in chosen) for row in table.rows]
                tables[f"{name}@{'+'.join(kind[1:])}"] = SourceTable(kind, rows)
    return TableSource(SOURCE, tables, questions, sum(len(document["questions"]) for document in documents))


def _by_year(grid: Sequence[Sequence[str]]) -> tuple[SourceTable, dict[int, int], list[int]] | None:
    """Return a table with its years as header, its columns by those in the grid, and its rows' numbers in the grid.

    None where two columns share a year, or fewer than two have one.
    """
    top = next((n for n, row in enumerate(grid) if any(map(_is_amount, row[1:]))), len(grid))
    named = {n: {*chain(*(_YEAR.findall(row[n]) for row in grid[:top]))} for n in range(1, len(grid[0]))}
    years = {column: of_column.pop() for column, of_column in named.items() if len(of_column) == 1}
    if len(years) < 2 or len(set(years.values())) < len(years):
        return None
    ordered = sorted(years, key=lambda column: years[column], reverse=True)
    numbers = [n for n in range(top, len(grid)) if grid[n][0] and all(grid[n][column] for column in ordered)]
    rows = [(grid[n][0], *(grid[n][column] for column in ordered)) for n in numbers]
    columns = {0: 0} | {column: place for place, column in enumerate(ordered, start=1)}
    return SourceTable(("", *(years[column] for column in ordered)), rows), columns, numbers


def _is_amount(cell: str) -> bool:
    """Return whether a cell states an amount, or a dash for 0, and not a year: where it does, the header has ended."""
    bare = normalize_cell(f"|{cell}|").strip("|$€£% ")
    return bare in DASHES or (parse_number(cell) is not None and not _YEAR.search(cell))


def _question(
    record: Row, name: str, table: SourceTable, columns: Mapping[int, int], numbers: Sequence[int]
) -> Instance | None:
    """Return a question with its program, or None where its cells or its calculation are not clear."""
    places = [mapping["table"] for mapping in record["mappings"] if "table" in mapping]
    if len(places) < len(record["mappings"]) or any(row not in numbers or c not in columns for row, c in places):
        return None
    cells = [(numbers.index(row), columns[column]) for row, column in places]
    if not _is_clear(record["question"], table, cells):
        return None
    shown = [table.rows[row][column] for row, column in cells]
    reads = [[[[0, normalize_cell(table.rows[row][0])]], column] for row, column in cells]
    aliases: tuple[Cells, ...]
    if record["answer_type"] == "arithmetic" and (formula := _formula(record["derivation"], shown)):
        program: Program = {"type": "arithmetic", "reads": reads, "formula": formula}
        answers = execute(program, table.rows)
        if not answers or abs(float(answers[0]) - float(record["answer"])) > 0.0101:
            return None
        read = [(table.rows[row][0], table.header[column]) for row, column in cells]
        if not _has_direction(record["question"], formula, read):
            return None
        aliases = (_aliases(formula, shown, record["scale"]),)
    elif record["answer_type"] == "multi-span" and all(column for _, column in cells):
        program = {"type": "cells", "reads": reads}
        answers = execute(program, table.rows)
        if sorted(answers) != sorted(clean(str(answer)) for answer in record["answer"]):
            return None
        aliases = tuple((f"{answer} {record['scale']}",) if record["scale"] else () for answer in answers)
    else:
        return None
    text, positive = clean(record["question"]), tuple(sorted({row for row, _ in cells}))
    fields = SOURCE.fields(record["uid"]) | {"program": program, "positive_sk": positive}
    return Instance(f"tatqa-{record['uid']}", "table", text, tuple(answers), name, "number", aliases, **fields)


def _is_clear(question: str, table: SourceTable, cells: Sequence[tuple[int, int]]) -> bool:
    """Return whether the words of a question identify these cells: their rows by label, their columns by year."""
    text, words, labels = normalize_cell(question), content_words(question), [row[0] for row in table.rows]
    normal, positive = [normalize_cell(label) for label in labels], {row for row, _ in cells}
    for n, label in enumerate(labels):
        stems, is_bare = content_words(label), normal.count(normal[n]) > 1 or normal[n] in _BARE_LABELS
        is_named = 2 * len(stems & words) >= len(stems) and not is_bare
        is_named_whole = mentions(text, normal[n]) or (stems and stems <= words)
        if (n in positive and not is_named) or (n not in positive and is_named_whole):
            return False
    if _SUPERLATIVE.search(text):
        return False
    named = set(_YEAR.findall(question))
    if named and not named >= {table.header[column] for _, column in cells if column}:
        return False  # the number of a year that the question does not name stands for that of another one
    return not any(  # one of two rows that state the number would do
        amount and amount == parse_number(table.rows[other][column])
        for row, column in cells
        for amount in [parse_number(table.rows[row][column])]
        for other in positive - {row}
    )


def _has_direction(question: str, formula: str, read: Sequence[tuple[str, str]]) -> bool:
    """Return whether a formula on cells, each with label and year, has the direction of its question.

    "The ratio of A to B" is A / B, a change that is no decrease is from the earlier year to the later one.

    >>> read = [("Costs", "2018"), ("Sales", "2018"), ("Sales", "2019")]
    >>> _has_direction("What is the ratio of sales to costs in 2018?", "c0 / c1", read)
    False
    >>> _has_direction("What was the change in sales between 2018 and 2019?", "c1 - c2", read)
    False
    """
    if change := _CHANGE.match(formula):
        later, earlier = (read[int(place)][1] for place in change.groups())
        return not re.search(r"\b(?:change|increase)\b(?! ?/)", question) or later >= earlier
    if not (ratio := _RATIO.fullmatch(formula)) or "ratio" not in question:
        return True
    over, under = (content_words(read[int(place)][0]) for place in ratio.groups())
    stems = [content_words(word) for word in normalize_cell(question).split()]
    first, second = (
        next((n for n, word in enumerate(stems) if word & distinct), None) for distinct in (over - under, under - over)
    )
    return first is None or second is None or first < second


def _formula(derivation: str, cells: Sequence[str]) -> str | None:
    """Return a calculation with its numbers replaced by the cells that state them, or None where one is nowhere."""
    stated = [parse_number(cell) for cell in cells]
    used: set[int] = set()
    parts: list[str] = []
    for token in _tokens(derivation):
        if not token[0].isdigit():
            parts.append(token)
            continue
        value = float(token.replace(",", ""))
        if fitting := [n for n, amount in enumerate(stated) if amount is not None and abs(amount) == value]:
            place = next((n for n in fitting if n not in used), fitting[0])
            used.add(place)
            parts.append(f"c{place}" if (stated[place] or 0) >= 0 else f"(-c{place})")
        elif value in {*range(13), 100}:  # 1 + growth, averages of a few, months; percent
            parts.append(token)
        else:
            return None
    return " ".join(parts) if parts and used == set(range(len(cells))) else None


def _tokens(derivation: str) -> Iterator[str]:
    """Yield the numbers and signs of a derivation, brackets and dashes in ASCII, without % and $."""
    ascii_signs = derivation.translate(str.maketrans("[]−–×", "()--*")).replace("%", "").replace("$", "")
    return (found[0] for found in re.finditer(r"\d[\d,]*(?:\.\d+)?|[-+*/()]|\S", ascii_signs))


def _aliases(formula: str, cells: Sequence[str], scale: str) -> Cells:
    """Return the answer rounded to other digits, where within half a percent, and each with its unit's name.

    The answer itself (two digits) is the first, if it is close enough.
    """
    exact = calculate(formula, [parse_number(cell) or 0.0 for cell in cells])
    rounded = [format_number(round(exact, digits)) for digits in (2, 0, 1, 3, 4)]
    near = [text for text in rounded if abs(float(text) - exact) <= 0.005 * abs(exact)]
    named = [f"{text} {scale}" for text in near if scale and scale != "percent"]
    return tuple(dict.fromkeys([*near, *named]))
