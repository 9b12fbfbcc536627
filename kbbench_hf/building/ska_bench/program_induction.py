"""Program induction: find the answer program of a question on a table by trying all small ones that its words allow.

A question is settled if some programs give the gold answer and all that do read the same rows, which hold every cell
that the question names. Questions about the order of rows, about the best row, or about rows by what they are not, are
never settled: their evidence is the whole table. A question speaks of a column by words of its header, by a dimension
("larger": area), or by units in its cells.

`wikitablequestions` induces its programs here, and `emptied_rows` uses `columns_in_question`. Programs are tried in a
fixed order, and the first of those that read the same rows is stored: a change of the order, or of a list of words,
alters the built dataset.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, combinations, product
from typing import NamedTuple

from kbbench_hf.benchmarks.ska_bench.testbeds import NEWEST
from kbbench_hf.benchmarks.ska_bench.units import Program
from kbbench_hf.building.ska_bench import programs
from kbbench_hf.building.ska_bench.name_matching import mentions, normal_name, normalize_cell
from kbbench_hf.building.ska_bench.programs import Condition, Row, execute, parse_number
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
    """Return the Porter stems of a text's words, without soft hyphens and words that say nothing of a column."""
    words = WORD.findall(normal_name(text.replace("\xad", "")))
    return frozenset(
        _FORMS.get(word, stem(word) if len(word) > 3 else word) for word in words if word not in _NO_EVIDENCE
    )


_REFERRED = [[_stems(words) for words in each.split(": ")] for each in _DIMENSIONS.split("; ")]


def _is_one_word(header: str, asked: str) -> bool:
    """Return whether two stems are of one word: "attend" and "attende", or "pop" and "popul"."""
    if asked.startswith(header) and len(header) > 2:
        return len(header) == len(asked) or len(header) > 3 or len(asked) > 4
    is_long = min(len(header), len(asked)) > 3
    return header == asked or (is_long and (header.startswith(asked) or header[:5] == asked[:5]))


def mentioned_columns(question: str, header: Row, rows: Sequence[Row], among: Sequence[int]) -> list[int]:
    """Return those of some columns that a question speaks of most, in their order; none where it speaks of none.

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
        score = 2 * sum(any(_is_one_word(word, other) for other in asked) for word in named) or len(named & whole)
        score += sum(bool(asked & words and named & headers) for words, headers in _REFERRED)
        cells = [normalize_cell(row[column]) for row in rows]
        score += bool(_stems(" ".join(unit for cell in cells for unit in _UNIT.findall(cell))) & asked)
        numbers = [number for cell in cells if (number := parse_number(cell)) is not None]
        are_years = bool(numbers) and all(1000 <= number < 2100 and number % 1 == 0 for number in numbers)
        score += are_years and are_asked
        if score:
            others = [
                sum(not any(_is_one_word(word, other) for other in asked) for word in words) for words in (bare, named)
            ]
            others[1] += len({"for", "against"} & set(name.casefold().split()))
            found[column] = (score, are_asked or not are_years, -others[0], -others[1])
    return [column for column, value in found.items() if value == max(found.values())]


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
    if "select" in program and program["select"] not in spoken and _HOW_MANY.search(question):
        answers = execute(program, rows)
        if all(wtq_number(answer) is not None for answer in answers):
            return False
    counted = [_stems(word) for words in _COUNTED.findall(question)[:1] for word in words.split() if word[-1] == "s"]
    named = [words for words in counted if any(_stems(name) == words for name in header)]
    if "select" in program and any(not words <= _stems(header[program["select"]]) for words in named):
        return False  # rows are counted: "how many storm events" asks for no number of storms beside "Event"
    conditions = [*chain(*programs.split_conditions(program))]
    held = f"{normalize_cell(' '.join(header))} {' '.join(value for *_, value in conditions)}".split()
    if not all({*found, *(name[:3] for name in found)} & {*held} - {""} for found in _RESTRICTS.findall(question)):
        return False
    return not any(
        test == "contains" and value.isdigit() and not 1000 <= int(value) < 2100 and column not in spoken
        for column, test, value in conditions
    )


def is_tallied(program: Program, rows: Sequence[Row], positive: Sequence[int]) -> bool:
    """Return whether one of the rows that a `count` counts states how many there are: "Denver Broncos (7)".

    >>> rows = [("1990", "Ann (1)"), ("1991", "Bo (1)"), ("1992", "Ann (2)")]
    >>> is_tallied({"type": "count", "where": [[1, "contains", "ann"]]}, rows, [0, 2])
    True
    """
    conditions = chain(*programs.split_conditions(program))
    tallies = [re.search(r"\((\d+)\)\W*$", rows[n][column]) for column, _, _ in conditions for n in positive]
    return program["type"] == "count" and len(positive) in [int(found[1]) for found in tallies if found]


def is_met_otherwise(program: Program, rows: Sequence[Row], positive: Sequence[int]) -> bool:
    """Return whether more rows than a lookup, count or sum reads meet one of its conditions in another reading.

    `positive` are the numbers of the rows that it reads. The California of some notes is the state of more trees; a
    playoff is a margin below 1 stroke.

    >>> rows = [("1995", "California", ""), ("2011", "California", "from California"), ("2012", "Ohio", "")]
    >>> is_met_otherwise({"type": "count", "where": [[2, "contains", "california"]]}, rows, [1])
    True
    """
    columns = [[*map(normalize_cell, cells)] for cells in zip(*rows, strict=True)]
    for column, test, value in chain(*programs.split_conditions(program)) if "values" not in program else ():
        if test in ("<", "<=") and any(parse_number(c) is None and re.search(r"[^\W\d_]", c) for c in columns[column]):
            return True
        others = [cells for n, cells in enumerate(columns) if n != column] if test in ("=", "contains") else []
        if any(all(cells[n] == value for n in positive) and cells.count(value) > len(positive) for cells in others):
            return True
    return False


MOST_ROWS = 12
"""The most rows that a question may need."""
MOST_NAMED = 4
"""The most cells that a question may name; with more, too many programs would fit."""
MOST_ANSWERS = 3
"""The most answers of a question."""
WHOLE_TABLE = re.compile(
    r"\b(first|last|next|previous|previously|consecutive|following|prior|preceding|top|bottom|listed|average|all|every"
    r"|different|each|not|other|others|besides|except|excluding|without|same|both|only|never|until|ever|another|row"
    r"|column|chart|list|table|combined|percent|percentage|second|third|ranked|times as|half|current|currently|final)\b"
    r"|n't\b|\b(this|they|them|he|she|we|you)\b"
)
"""The evidence is the whole table, or what is meant is outside the question, often in a title that is not shown."""
SUPERLATIVE = re.compile(
    r"\b(most|highest|largest|biggest|longest|greatest|latest|tallest|heaviest|least|lowest|smallest|shortest|earliest"
    r"|fewest|lightest|oldest|youngest|best|worst|fastest|slowest|maximum|minimum)\b"
)
COMPARED = re.compile(r"\bor\b")
FEWER = re.compile(
    r"\b(fewer|less|lower|smaller|shorter|earlier|sooner|slower|worse|least|lowest|shortest|earliest|fewest)\b"
)
EITHER_WAY = re.compile(r"\b(older|younger|better|higher rank|oldest|youngest|best|worst)\b")
"""The older one has the smaller year of birth, but the larger age."""
DIFFERENCE = re.compile(
    r"\b(difference|how many more|how much more|how many fewer|how much longer|how many less|how much higher"
    r"|how many years (?:passed|were|are|was|is|elapsed)?(?: there)? ?between)\b"
)


def _word_map(stated: str) -> dict[str, list[str]]:
    """Return word -> words, stated as "words: words; words: words"."""
    pairs = (each.split(": ") for each in stated.split("; "))
    return {word: values.split() for words, values in pairs for word in words.split()}


RESULTS = _word_map(
    "won win wins victories: won win w; lost lose losses: lost loss l; drew draw draws tied: drawn draw tied tie d t"
)
"""How tables write what verbs say of a match."""
HEADER_WORDS = _word_map(
    "medal medals: total; taller tall: height; earlier later sooner: date year; deeper: depth; farther: distance"
    "; heavier: weight; longer: length duration; wider: width"
)
"""Words of questions that refer to a column of another name, as `columns_in_question` reads them."""
HOW_MANY = re.compile(r"\b(?:how many|number of|amount of)(?: total| the)? (\w+)")
TOTAL = re.compile(r"\b(total|altogether|in all|sum)\b")
ORDERED = re.compile(r"\b(before|after|since|above|below|over|under|between|more|less|fewer|greater|higher|lower)\b")
_N = r"(-?\$?\d[\d,]*(?:\.\d+)?)"
_YEAR = r"(?: the year)? (1[5-9]\d\d|20\d\d)\b"
# Longer wordings come before the shorter ones that they contain: "no more than 5" before "more than 5".
BOUNDS = tuple(
    (re.compile(pattern), tests)
    for pattern, tests in (
        (rf"\bbetween(?: the years?)? {_N}(?: and |-){_N}", (">=", "<=")),
        (rf"\bfrom {_N}(?: (?:to|through|until) |-){_N}", (">=", "<=")),
        (rf"\b(?:at least|no (?:less|fewer) than|minimum of) {_N}", (">=",)),
        (rf"\b{_N} or (?:more|higher|above|greater|over)\b", (">=",)),
        (rf"\b(?:at most|no more than|up to|maximum of) {_N}", ("<=",)),
        (rf"\b{_N} or (?:less|fewer|lower|under|below)\b", ("<=",)),
        (rf"\b(?:more|greater|higher|larger|bigger|longer|older|taller) than {_N}", (">",)),
        (rf"\b(?:over|above|exceeding|exceeded) {_N}", (">",)),
        (rf"\b(?:less|fewer|lower|smaller|shorter|younger) than {_N}", ("<",)),
        (rf"\b(?:under|below) {_N}", ("<",)),
        (rf"\b(?:after|later than){_YEAR}", (">",)),
        (rf"\bsince{_YEAR}", (">=",)),
        (rf"\b(?:before|prior to|earlier than){_YEAR}", ("<",)),
    )
)
STOP_WORDS = frozenset(
    "a an the of in on at by for to from with and or is are was were be been did do does has have had what which who "
    "whom whose when where how many much number total name names year years time times during as that this these those "
    "they their his her its he it she there more less than most least before after between over under above below "
    "first last no yes any one two three four five six seven eight nine ten won win wins lost played play".split()
)

Bound = list[tuple[str, str]]
"""What a bound allows, as (test, number) pairs that all hold."""


def columns_in_question(question: str, header: Sequence[str]) -> list[int]:
    """Return the columns whose names share words with a question, most words first, then from left to right.

    >>> columns_in_question("which is taller, ann or bo?", ("Name", "Age", "Height (m)"))
    [2]
    """
    words = set(_split_words(question)) - STOP_WORDS
    stems = {part[:4] for word in words for part in HEADER_WORDS.get(word, [word])}
    shared = [len({word.strip("()")[:4] for word in normalize_cell(name).split()} & stems) for name in header]
    return sorted((column for column, n in enumerate(shared) if n), key=lambda column: -shared[column])


def _split_words(text: str) -> list[str]:
    """Return the words of a text at blanks, without the marks around them."""
    return [word.strip(",.;:'\"") for word in text.split()]


class InducedProgram(NamedTuple):
    """A program that answers a question, and the numbers of the rows that it reads, in ascending order."""

    program: Program
    positive_sk: tuple[int, ...]


class NamedCells(NamedTuple):
    """Words of a question that name cells, or that cells contain, and the conditions that they may mean."""

    text: str
    conditions: tuple[tuple[int, str, str], ...]


def induce_program(
    question: str, header: Row, rows: Sequence[Row], answers: Sequence[str], revision: int = NEWEST
) -> InducedProgram | None:
    """Return the program that answers a question and the rows it reads, or None where that is not settled.

    From revision 2 of the construction on, the question must speak of the column that is compared or summed, and no
    counted row may state the count.

    >>> rows = [("Ann", "Oslo", "12"), ("Bo", "Lund", "17"), ("Cy", "Oslo", "9"), ("Di", "Oslo", "11")]
    >>> induce_program("how many people in oslo have an age over 10?", ("Name", "City", "Age"), rows, ["2"])
    InducedProgram(program={'type': 'count', 'where': [[1, 'oslo'], [2, '>', '10']]}, positive_sk=(0, 3))
    """
    text = " ".join(re.sub(r"[?!]+$", "", normalize_cell(question)).split())
    bounds, rest = _find_bounds(text)
    two_rows = bool(DIFFERENCE.search(rest) or COMPARED.search(rest))
    is_open = bounds if two_rows else ORDERED.search(rest) or SUPERLATIVE.search(rest)
    if is_open or WHOLE_TABLE.search(rest) or len(bounds) > 1 or len(answers) > MOST_ANSWERS:
        return None
    search = _ProgramSearch(text, header, rows, bounds, revision)
    if (not search.named and not bounds) or len(search.named) > MOST_NAMED:
        return None
    consistent: dict[tuple[int, ...], Program] = {}
    for program in search.two_row_programs(rest) if two_rows else search.row_set_programs(answers):
        is_right = programs.same_answers(execute(program, rows), answers)
        if is_right and (revision < 2 or uses_mentioned_columns(program, text, header, rows)):
            consistent.setdefault(tuple(n for n, r in enumerate(rows) if programs.reads(program, r)), program)
            if len(consistent) > 1:
                return None
    for positive, program in consistent.items():
        shown, unread = [rows[n] for n in positive], programs.leaves_answer(program)
        cells = [normalize_cell(cell) for row in shown for cell in row]
        held = all(any(mentions(cell, each.text) for cell in cells) for each in search.whole)
        clear = positive == tuple(n for n, row in enumerate(rows) if not unread(row))
        needed = not any(
            programs.same_answers(execute(program, [*shown[:n], *shown[n + 1 :]]), answers) for n in range(len(shown))
        )
        if revision > 1 and (is_tallied(program, rows, positive) or is_met_otherwise(program, rows, positive)):
            return None
        if held and clear and needed and len(positive) <= MOST_ROWS:
            return InducedProgram(program, positive)
    return None


def _find_bounds(text: str) -> tuple[list[Bound], str]:
    """Return the bounds that a question sets, and the question with " ; " in the place of each."""
    bounds: list[Bound] = []
    if found := re.search(r"\b((?:1[5-9]|20)\d)0'?s\b", text):
        bounds.append([(">=", f"{found[1]}0"), ("<=", f"{found[1]}9")])
        text = f"{text[: found.start()]} ; {text[found.end() :]}"
    for pattern, tests in BOUNDS:
        while found := pattern.search(text):
            values = [value.replace(",", "").replace("$", "") for value in found.groups()]
            bounds.append(list(zip(tests, values, strict=True)))
            text = f"{text[: found.start()]} ; {text[found.end() :]}"
    return bounds, text


class _ProgramSearch:
    """A question in normal form on a table: the cells that it names, and the programs that its words allow."""

    def __init__(self, text: str, header: Row, rows: Sequence[Row], bounds: Sequence[Bound], revision: int) -> None:
        self._revision = revision
        self._question, self._header, self._rows, self._bounds = text, header, rows, bounds
        self._cells = sorted({(column, normalize_cell(cell)) for row in rows for column, cell in enumerate(row)})
        self._header_columns = columns_in_question(text, header)
        bounded = {value for bound in bounds for _, value in bound}
        self.whole = self._whole_cells(bounded)
        known = STOP_WORDS | set(normalize_cell(" ".join(header)).split()) | bounded
        self._parts = self._cell_parts(known, " ".join(each.text for each in self.whole))
        self.named = [*self.whole, *self._parts]

    def _whole_cells(self, bounded: set[str]) -> list[NamedCells]:
        """Return the longest whole cells that the question names, sorted; none within another one of them."""
        options: defaultdict[str, list[tuple[int, str, str]]] = defaultdict(list)
        for column, cell in self._cells:
            if len(cell) > 1 and cell not in bounded and cell not in STOP_WORDS and mentions(self._question, cell):
                options[cell].append((column, "=", cell))
        whole = sorted(c for c in options if not any(c != other and mentions(other, c) for other in options))
        for name in whole:
            columns = sorted({column for column, cell in self._cells if cell != name and mentions(cell, name)})
            options[name] += [(column, "contains", name) for column in columns]
        return [NamedCells(cell, tuple(options[cell])) for cell in whole]

    def _cell_parts(self, known: frozenset[str], named: str) -> list[NamedCells]:
        """Return names and numbers that cells contain; neighboring words count as one if a cell has them.

        Words of the header and of named cells are not taken again.
        """
        words = _split_words(self._question)
        written = " ".join(cell for row in self._rows for cell in row)

        def is_name(word: str) -> bool:
            if word in RESULTS:
                return not mentions(named, word)
            if len(word) < 3 or word in known or word.rstrip("s") in known or mentions(named, word):
                return False
            return word.isdigit() or not mentions(written, word)

        found, end = dict[NamedCells, None](), 0
        for start, word in enumerate(words):
            if start < end or not is_name(word):
                continue
            end = start + 1
            while end < len(words) and any(mentions(c, " ".join(words[start : end + 1])) for _, c in self._cells):
                end += 1
            text = " ".join(words[start:end])
            forms = {text, text[:3]} if text in MONTHS else {text, *RESULTS.get(text, ())}
            conditions = {(n, "contains", form) for form in forms for n, c in self._cells if mentions(c, form)}
            if conditions:
                found[NamedCells(text, tuple(sorted(conditions)))] = None
        return list(found)

    def row_set_programs(self, answers: Sequence[str]) -> Iterator[Program]:
        """Yield lookups, counts and sums over the rows that meet what the question names."""
        is_number = len(answers) == 1 and wtq_number(answers[0]) is not None
        counted = HOW_MANY.search(self._question)
        numeric = [name for column, name in enumerate(self._header) if self._is_numeric(column)]
        quantities = {word[:4] for name in numeric for word in normalize_cell(name).split()}
        counts = is_number and counted and counted[1][:4] not in quantities and answers[0] != "1"
        things = columns_in_question(counted[1] if counted else "", self._header)
        things = things or columns_in_question("date", self._header)
        columns = list(dict.fromkeys((*self._header_columns, *range(len(self._header)))))
        for where in self._conjunctions():
            taken = {condition[0] for condition in where}
            free = [column for column in columns if column not in taken]
            if counts and self._are_distinct(where, things):
                yield {"type": "count", "where": where}
            yield from ({"type": "lookup", "where": where, "select": select} for select in free)
            if is_number and TOTAL.search(self._question):
                yield from ({"type": "sum", "where": where, "select": select} for select in free)

    def _are_distinct(self, where: Sequence[Condition], columns: Sequence[int]) -> bool:
        """Return whether the rows that meet conditions are as many things: two of one player, or date, may be one."""
        met = [row for row in self._rows if programs.meets(where, row)]
        return all(len({normalize_cell(row[column]) for row in met}) == len(met) for column in columns)

    def _conjunctions(self) -> Iterator[list[Condition]]:
        """Yield conjunctions that use every whole cell and every bound, with any of the parts of cells."""
        limits = [self._limits(bound) for bound in self._bounds]
        for size in range(len(self._parts) + 1):
            for some in combinations(self._parts, size):
                named = [
                    [[[column, value] if test == "=" else [column, test, value]] for column, test, value in conditions]
                    for _, conditions in (*self.whole, *some)
                ]
                for chosen in product(*named, *limits):
                    where: list[Condition] = [*chain(*chosen)]
                    columns = [condition[0] for condition in where if condition[1] not in programs.COMPARISONS]
                    if where and len(set(columns)) == len(columns):
                        yield where

    def _limits(self, bound: Bound) -> list[list[list[object]]]:
        """Return what a bound may mean: conditions on a column of years, or of numbers that the question refers to."""
        is_year = all(re.fullmatch(r"1[5-9]\d\d|20\d\d", value) for _, value in bound)
        numeric, named = list(filter(self._is_numeric, range(len(self._header)))), self._header_columns
        if self._revision > 1:
            percent = [n for n in numeric if any("%" in row[n] for row in self._rows)]
            numeric = percent if re.search(r"\d ?%", self._question) else numeric
            named = mentioned_columns(self._question, self._header, self._rows, numeric)
        if is_year:
            named = [n for n in numeric if all(1500 <= (parse_number(r[n]) or 0) < 2100 for r in self._rows)]
        return [[[column, test, value] for test, value in bound] for column in numeric if column in named]

    def _is_numeric(self, column: int) -> bool:
        return sum(parse_number(row[column]) is not None for row in self._rows) >= 0.8 * len(self._rows)

    def two_row_programs(self, rest: str) -> Iterator[Program]:
        """Yield comparisons, or differences, of the two rows whose keys the question without bounds names.

        They are compared by a column that the question refers to; by any where it refers to none but that of the keys.
        """
        columns = columns_in_question(rest, self._header)
        keys: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
        for each in self.named:
            for column, test, value in each.conditions:
                keys[column, "contains"].append(value)
                if test == "=":
                    keys[column, "="].append(value)
        for (key, test), values in sorted(keys.items(), key=lambda item: (item[0][1] != "=", item[0][0])):
            for pair in combinations(dict.fromkeys(values), 2):
                read = {"key": key, "values": list(pair)} | ({} if test == "=" else {"test": test})
                if DIFFERENCE.search(rest):
                    read |= {"type": "diff"}
                elif EITHER_WAY.search(rest):
                    continue
                else:
                    read |= {"type": "compare", "op": "argmin2" if FEWER.search(rest) else "argmax2"}
                if self._revision > 1:
                    yield from self._by_spoken_column(rest, read)
                    continue
                for by in [column for column in columns if column != key] or range(len(self._header)):
                    if by != key and any(parse_number(row[by]) is not None for row in self._rows):
                        yield {**read, "by": by}

    def _by_spoken_column(self, rest: str, read: Program) -> Iterator[Program]:
        """Yield the program that compares two rows by the column that the question speaks of beside their names.

        None where it speaks of several, and they lead to different answers.
        """
        for value in read["values"]:
            rest = rest.replace(value, ";")
        able = [
            program
            for by in range(len(self._header))
            if by != read["key"] and execute(program := {**read, "by": by}, self._rows)
        ]
        spoken = mentioned_columns(rest, self._header, self._rows, [program["by"] for program in able])
        chosen = [program for program in able if program["by"] in spoken]
        if len({tuple(execute(program, self._rows)) for program in chosen}) == 1:
            yield chosen[0]
