"""Which program answers a question on a table: all small programs that its wording allows are tried.

A question is settled if some of them give the gold answer and all that do read the same rows, which hold every cell
that the question names. Questions about the order of rows, about the best row, or about rows by what they are not, are
never settled: their evidence is the whole table.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import NamedTuple

from kbbench_hf.benchmarks.ska_bench.mentions import mentions
from kbbench_hf.benchmarks.ska_bench.programs import Program, execute, same_answers
from kbbench_hf.benchmarks.ska_bench.table_programs import is_free_of, meets, normal, number, reads
from kbbench_hf.building.ska_bench import question_words as words
from kbbench_hf.metrics.answers import wtq_number
from kbbench_hf.text.dates import MONTHS

MOST_ROWS = 12
"""The most rows that a question may need."""
MOST_NAMED = 4
"""The most cells that a question may name; with more, too many programs would fit."""
MOST_ANSWERS = 3

Conditions = list[list[object]]
Bound = list[tuple[str, str]]
Row = Sequence[str]


class Induced(NamedTuple):
    """A program that answers a question, and the rows that it reads."""

    program: Program
    positive: tuple[int, ...]


class _Named(NamedTuple):
    """Words of a question that name cells, or stand inside cells, and the conditions that they may mean."""

    text: str
    conditions: tuple[tuple[int, str, str], ...]
    whole: bool


def induce(question: str, header: Row, rows: Sequence[Row], answers: Sequence[str]) -> Induced | None:
    """Return the program that answers a question and the rows it reads, or None where that is not settled.

    >>> rows = [("Ann", "Oslo", "12"), ("Bo", "Lund", "17"), ("Cy", "Oslo", "9"), ("Di", "Oslo", "11")]
    >>> induce("how many people in oslo have an age over 10?", ("Name", "City", "Age"), rows, ["2"])
    Induced(program={'type': 'count', 'where': [[1, 'oslo'], [2, '>', '10']]}, positive=(0, 3))
    """
    asked = " ".join(re.sub(r"[?!]+$", "", normal(question)).split())
    bounds, rest = _bounds(asked)
    two_rows = bool(words.DIFFERENCE.search(rest) or words.COMPARED.search(rest))
    if any(said.search(rest) for said in (words.WHOLE_TABLE, words.DANGLING)):
        return None
    if len(bounds) > 1 or len(answers) > MOST_ANSWERS:
        return None
    if bounds if two_rows else (words.ORDERED.search(rest) or words.SUPERLATIVE.search(rest)):
        return None
    named = _named(asked, header, rows, {value for bound in bounds for _, value in bound})
    if (not named and not bounds) or len(named) > MOST_NAMED:
        return None
    tried = (
        _of_two_rows(rest, header, rows, named)
        if two_rows
        else _of_one_set(asked, header, rows, named, bounds, answers)
    )
    consistent: dict[tuple[int, ...], Program] = {}
    for program in tried:
        if same_answers(execute(program, rows), answers):
            consistent.setdefault(tuple(n for n, row in enumerate(rows) if reads(program, row)), program)
            if len(consistent) > 1:
                return None
    for positive, program in consistent.items():
        shown = [normal(cell) for n in positive for cell in rows[n]]
        held = all(any(mentions(cell, each.text) for cell in shown) for each in named if each.whole)
        clear = positive == tuple(n for n, row in enumerate(rows) if not is_free_of(program, row))
        needed = _each_is_needed(program, [rows[n] for n in positive], answers)
        if held and clear and needed and len(positive) <= MOST_ROWS:
            return Induced(program, positive)
    return None


def _each_is_needed(program: Program, rows: Sequence[Row], answers: Sequence[str]) -> bool:
    return not any(same_answers(execute(program, [*rows[:n], *rows[n + 1 :]]), answers) for n in range(len(rows)))


def _bounds(asked: str) -> tuple[list[Bound], str]:
    """Return the bounds that a question sets, each as (test, number) pairs, and the question without them."""
    bounds: list[Bound] = []
    if found := re.search(r"\b((?:1[5-9]|20)\d)0'?s\b", asked):
        bounds.append([(">=", f"{found[1]}0"), ("<=", f"{found[1]}9")])
        asked = f"{asked[: found.start()]} ; {asked[found.end() :]}"
    for pattern, tests in words.BOUNDS:
        while found := pattern.search(asked):
            values = [value.replace(",", "").replace("$", "") for value in found.groups()]
            bounds.append(list(zip(tests, values, strict=True)))
            asked = f"{asked[: found.start()]} ; {asked[found.end() :]}"
    return bounds, asked


def _named(asked: str, header: Row, rows: Sequence[Row], bounded: set[str]) -> list[_Named]:
    """Return what the question names: whole cells, the longest; then words that only stand inside cells."""
    cells = sorted({(column, normal(cell)) for row in rows for column, cell in enumerate(row)})
    options: defaultdict[str, list[tuple[int, str, str]]] = defaultdict(list)
    for column, cell in cells:
        if len(cell) > 1 and cell not in bounded and cell not in words.STOP_WORDS and mentions(asked, cell):
            options[cell].append((column, "=", cell))
    whole = sorted(c for c in options if not any(c != other and mentions(other, c) for other in options))
    for name in whole:
        columns = sorted({column for column, cell in cells if cell != name and mentions(cell, name)})
        options[name] += [(column, "contains", name) for column in columns]
    return [_Named(cell, tuple(options[cell]), True) for cell in whole] + _inside(
        asked, words.STOP_WORDS | set(normal(" ".join(header)).split()) | bounded, " ".join(whole), rows, cells
    )


def _inside(
    asked: str, known: frozenset[str], named: str, rows: Sequence[Row], cells: Sequence[tuple[int, str]]
) -> list[_Named]:
    """Return the words that stand inside cells, where they are names or numbers; neighbours as one if a cell has them.

    Words of the header and of named cells are not taken again.
    """
    said = [word.strip(",.;:'\"") for word in asked.split()]
    written = " ".join(cell for row in rows for cell in row)

    def is_name(word: str) -> bool:
        if word in words.RESULTS:
            return not mentions(named, word)
        if len(word) < 3 or word in known or word.rstrip("s") in known or mentions(named, word):
            return False
        return word.isdigit() or not mentions(written, word)

    found: list[_Named] = []
    start = 0
    while start < len(said):
        end = start + 1
        if is_name(said[start]):
            while end < len(said) and any(mentions(cell, " ".join(said[start : end + 1])) for _, cell in cells):
                end += 1
            text = " ".join(said[start:end])
            forms = {text, text[:3]} if text in MONTHS else {text, *words.RESULTS.get(text, ())}
            meant = sorted({(c, "contains", form) for form in forms for c, cell in cells if mentions(cell, form)})
            if meant:
                found.append(_Named(text, tuple(meant), False))
        start = end
    return list(dict.fromkeys(found))


def _of_one_set(
    asked: str,
    header: Row,
    rows: Sequence[Row],
    named: Sequence[_Named],
    bounds: Sequence[Bound],
    answers: Sequence[str],
) -> Iterator[Program]:
    """Yield lookups, counts and sums over the rows that meet what the question names."""
    is_number = len(answers) == 1 and wtq_number(answers[0]) is not None
    counted = words.HOW_MANY.search(asked)
    quantities = {word[:4] for c, name in enumerate(header) if _is_numeric(rows, c) for word in normal(name).split()}
    counts = is_number and counted and counted[1][:4] not in quantities and answers[0] != "1"
    things = words.spoken_of(counted[1] if counted else "", header) or words.spoken_of("date", header)
    columns = list(dict.fromkeys((*words.spoken_of(asked, header), *range(len(header)))))
    for where in _wheres(asked, header, rows, named, bounds):
        taken = {condition[0] for condition in where}
        free = [column for column in columns if column not in taken]
        if counts and _are_distinct(rows, where, things):
            yield {"type": "count", "where": where}
        for select in free:
            yield {"type": "lookup", "where": where, "select": select}
        if is_number and words.TOTAL.search(asked):
            for select in free:
                yield {"type": "sum", "where": where, "select": select}


def _are_distinct(rows: Sequence[Row], where: Conditions, columns: Sequence[int]) -> bool:
    """Say whether the rows that meet conditions are as many things: two of one player, or one date, may be one."""
    cells = [[normal(row[column]) for row in rows if meets(where, row)] for column in columns]
    return all(len(set(names)) == len(names) for names in cells)


def _wheres(
    asked: str, header: Row, rows: Sequence[Row], named: Sequence[_Named], bounds: Sequence[Bound]
) -> Iterator[Conditions]:
    """Yield conjunctions that use every whole cell and every bound, with any of the words inside cells."""
    whole = [each for each in named if each.whole]
    inside = [each for each in named if not each.whole]
    limits = [_limits(asked, header, rows, bound) for bound in bounds]
    for size in range(len(inside) + 1):
        for some in combinations(inside, size):
            parts: list[Sequence[tuple[int, str, str] | Conditions]] = [
                *(each.conditions for each in [*whole, *some]),
                *limits,
            ]
            for chosen in product(*parts):
                where: Conditions = []
                for part in chosen:
                    where += part if isinstance(part, list) else [_condition(part)]
                columns = [condition[0] for condition in where if condition[1] not in ("<", "<=", ">", ">=")]
                if where and len(set(columns)) == len(columns):
                    yield where


def _condition(meant: tuple[int, str, str]) -> list[object]:
    column, test, value = meant
    return [column, value] if test == "=" else [column, test, value]


def _limits(asked: str, header: Row, rows: Sequence[Row], bound: Bound) -> list[Conditions]:
    """Return what a bound may mean: conditions on a column of numbers that the question speaks of, or of years."""
    is_year = all(re.fullmatch(r"1[5-9]\d\d|20\d\d", value) for _, value in bound)
    spoken = words.spoken_of(asked, header)
    columns = []
    for column in range(len(header)):
        if _is_numeric(rows, column):
            years = [1500 <= (number(row[column]) or 0) < 2100 for row in rows]
            columns += [column] * (all(years) if is_year else column in spoken)
    return [[[column, test, value] for test, value in bound] for column in columns]


def _is_numeric(rows: Sequence[Row], column: int) -> bool:
    return sum(number(row[column]) is not None for row in rows) >= 0.8 * len(rows)


def _of_two_rows(asked: str, header: Row, rows: Sequence[Row], named: Sequence[_Named]) -> Iterator[Program]:
    """Yield comparisons, or differences, of the two rows whose keys the question names.

    They are compared by a column that the question speaks of; by any where it speaks of none but that of the keys.
    """
    spoken = words.spoken_of(asked, header)
    keys: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
    for each in named:
        for column, test, value in each.conditions:
            keys[column, "contains"].append(value)
            if test == "=":
                keys[column, "="].append(value)
    for (key, test), values in sorted(keys.items(), key=lambda item: (item[0][1] != "=", item[0][0])):
        for pair in combinations(dict.fromkeys(values), 2):
            for by in [column for column in spoken if column != key] or range(len(header)):
                if by == key or not any(number(row[by]) is not None for row in rows):
                    continue
                read = {"key": key, "by": by, "values": list(pair)} | ({} if test == "=" else {"test": test})
                if words.DIFFERENCE.search(asked):
                    yield {"type": "diff", **read}
                elif not words.EITHER_WAY.search(asked):
                    yield {"type": "compare", **read, "op": "argmin2" if words.FEWER.search(asked) else "argmax2"}
