"""Columns that a question speaks of: by words of the header, a dimension ("larger": area), or units in the cells."""

import re
from collections.abc import Sequence
from functools import lru_cache

from kbbench_hf.benchmarks.ska_bench.units import Program
from kbbench_hf.building.ska_bench.name_matching import normal_name, normalize_cell
from kbbench_hf.building.ska_bench.programs import Row, alternatives, execute, parse_number, split_condition
from kbbench_hf.metrics.answers import wtq_number
from kbbench_hf.text.dates import MONTHS
from kbbench_hf.text.porter import stem
from kbbench_hf.text.words import WORD

_NO_EVIDENCE = frozenset(
    "a an the of in on at by for to from with and or is are was were be been did do does has have had what which who"
    " whom whose when where how many much number more most less least than that there it its his her their between"
    " difference amount".split()
)
_DIMENSIONS = (
    "taller tall higher high height: height elevation altitude; medal: total; deeper deep: depth; wider wide: width"
    "; larger bigger smaller greater large size square: area size sq km2 mi2; kilometre kilometer km: km km2; mile: mi"
    " mi2; populous inhabitant resident people live: population; people attend crowd spectator fan: attendance; longer"
    " shorter long last: length duration distance; earlier later sooner year old older date: date year; faster slower"
    " quicker fast: time speed; finish finished came placed: pos position place finish rank; heavier lighter heavy"
    " weigh: weight mass; farther further far: distance; expensive cheaper cost: price cost budget"
)
"""Words of questions: words of the headers that they refer to."""
_FORMS = {"lost": "loss", "lose": "loss", "won": "win", "drawn": "draw", "drew": "draw", "led": "lead"}
_YEARS = re.compile(r"\b(when|years?|dates?|earlier|later|sooner|old|older)\b")
_HOW_MANY = re.compile(r"\b(how (?:many|much)|number of|amount of|total)\b")
_COUNTED = re.compile(r"\b(?:how many|(?:number|amount) of)((?: \w+){1,2})")
_NUMBER_OF = re.compile(r"\btotal (?:number|amount) of\b")
_RESTRICTS = re.compile(
    rf"\b(?:against|versus|vs\.?)(?: the)? (?!what\b|which\b|whom?\b)(\w+)|\b(?:in|during) ({'|'.join(MONTHS)})\b"
)
"""What a question restricts a number to: "goals against Chad", "wins in July"."""
_UNIT = re.compile(r"[\d.,]+ ([^\W\d_]+)")


@lru_cache(maxsize=1 << 16)
def _stems(text: str) -> frozenset[str]:
    words = WORD.findall(normal_name(text.replace("\xad", "")))
    return frozenset(
        _FORMS.get(word, stem(word) if len(word) > 3 else word) for word in words if word not in _NO_EVIDENCE
    )


_REFERRED = [[_stems(words) for words in each.split(": ")] for each in _DIMENSIONS.split("; ")]


def _share(header: str, asked: str) -> bool:
    """Return whether two stems are of one word: "attend" and "attende", or "pop" and "popul"."""
    if asked.startswith(header) and len(header) > 2:
        return len(header) == len(asked) or len(header) > 3 or len(asked) > 4
    return header == asked or (len(header) > 3 < len(asked) and (header.startswith(asked) or header[:5] == asked[:5]))


def mentioned_columns(question: str, header: Row, rows: Sequence[Row], among: Sequence[int]) -> list[int]:
    """Return the columns that a question speaks of most, of those given; none where it speaks of none.

    Words of the header count twice. A dimension, a unit in the cells ("3 acts"), and years that are asked for count
    once. Of equal columns those with fewest other words in the header are returned. A name that several columns have
    is read with the name before it: the "Votes" after "Nixon".

    >>> rows = [("Ann", "170", "3 acts", "1900"), ("Bo", "180", "2 acts", "1950")]
    >>> header = ("Name", "Height (cm)", "Parts", "Active since")
    >>> [mentioned_columns(f"{asked}, ann or bo", header, rows, (1, 2, 3)) for asked in
    ...  ("who is taller", "who has more acts", "who came earlier", "who has more fans")]
    [[1], [2], [3], []]
    """
    asked, whole, are_asked = _stems(_NUMBER_OF.sub("", question)), _stems(question), bool(_YEARS.search(question))
    found: dict[int, tuple[int, ...]] = {}
    for column in among:
        name = header[column] if header.count(header[column]) < 2 else " ".join(header[max(0, column - 1) : column + 1])
        named, bare = _stems(name), _stems(re.sub(r"\([^)]*\)", "", name))
        score = 2 * sum(any(_share(word, other) for other in asked) for word in named) or len(named & whole)
        score += sum(bool(asked & words and named & headers) for words, headers in _REFERRED)
        cells = [normalize_cell(row[column]) for row in rows]
        score += bool(_stems(" ".join(unit for cell in cells for unit in _UNIT.findall(cell))) & asked)
        numbers = [number for cell in cells if (number := parse_number(cell)) is not None]
        are_years = bool(numbers) and all(1000 <= number < 2100 and number % 1 == 0 for number in numbers)
        score += are_years and are_asked
        if score:
            others = [sum(not any(_share(word, other) for other in asked) for word in words) for words in (bare, named)]
            others[1] += len({"for", "against"} & set(name.casefold().split()))
            found[column] = (score, are_asked or not are_years, -others[0], -others[1])
    return [column for column, value in found.items() if value == max(found.values())]


def _is_number(program: Program, rows: Sequence[Row]) -> bool:
    return all(wtq_number(answer) is not None for answer in execute(program, rows))


def uses_mentioned_columns(program: Program, question: str, header: Row, rows: Sequence[Row]) -> bool:
    """Return whether a question speaks of the column that its number is from, and of those that hold its mere numbers.

    Whom or which month it restricts the number to must be a condition: career goals are none "against Chad".
    "15 kilometres" is no "+3:15.0" in a column of deficits; "800 meters" is "800 m", and a year may be in any column.

    >>> rows = [("Ann", "+3:15.0")]
    >>> program = {"type": "count", "where": [[1, "contains", "15"]]}
    >>> uses_mentioned_columns(program, "how many skiers ran 15 kilometres", ("Name", "Deficit"), rows)
    False
    """
    columns = range(len(header))
    spoken = [column for column in columns if mentioned_columns(question, header, rows, [column])]
    if (
        "select" in program
        and program["select"] not in spoken
        and _HOW_MANY.search(question)
        and _is_number(program, rows)
    ):
        return False
    counted = [_stems(word) for words in _COUNTED.findall(question)[:1] for word in words.split() if word[-1] == "s"]
    if "select" in program and any(
        _stems(name) == words and not words <= _stems(header[program["select"]]) for name in header for words in counted
    ):
        return False  # rows are counted: "how many storm events" asks for no number of storms beside "Event"
    conditions = [split_condition(each) for where in alternatives(program) for each in where]
    held = f"{normalize_cell(' '.join(header))} {' '.join(value for *_, value in conditions)}".split()
    if not all({*found, *(name[:3] for name in found)} & {*held} - {""} for found in _RESTRICTS.findall(question)):
        return False
    return not any(
        test == "contains" and value.isdigit() and not 1000 <= int(value) < 2100 and column not in spoken
        for column, test, value in conditions
    )


def is_tallied(program: Program, rows: Sequence[Row], positive: Sequence[int]) -> bool:
    """Return whether one of the counted rows states how many there are: "Denver Broncos (7)".

    >>> rows = [("1990", "Ann (1)"), ("1991", "Bo (1)"), ("1992", "Ann (2)")]
    >>> is_tallied({"type": "count", "where": [[1, "contains", "ann"]]}, rows, [0, 2])
    True
    """
    if program["type"] != "count" or len(positive) < 2:
        return False
    conditions = [split_condition(each) for where in alternatives(program) for each in where]
    tallies = [re.search(r"\((\d+)\)\W*$", rows[n][column]) for column, _, _ in conditions for n in positive]
    return len(positive) in [int(found[1]) for found in tallies if found]


def is_met_otherwise(program: Program, rows: Sequence[Row], positive: Sequence[int]) -> bool:
    """Return whether more rows than a lookup, count or sum reads meet one of its conditions in another reading.

    The California of some notes is the state of more trees; a playoff is a margin below 1 stroke.

    >>> rows = [("1995", "California", ""), ("2011", "California", "from California"), ("2012", "Ohio", "")]
    >>> is_met_otherwise({"type": "count", "where": [[2, "contains", "california"]]}, rows, [1])
    True
    """
    columns = [[*map(normalize_cell, cells)] for cells in zip(*rows, strict=True)]
    for column, test, value in map(split_condition, program.get("where", ()) if "values" not in program else ()):
        if test in ("<", "<=") and any(parse_number(c) is None and re.search(r"[^\W\d_]", c) for c in columns[column]):
            return True
        others = [cells for n, cells in enumerate(columns) if n != column] if test in ("=", "contains") else []
        if any(all(cells[n] == value for n in positive) and cells.count(value) > len(positive) for cells in others):
            return True
    return False
