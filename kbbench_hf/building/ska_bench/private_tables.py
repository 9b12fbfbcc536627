"""A table subset with invented names: words of names renamed in cells, headers, questions, years moved by a constant.

What is a name is seen from its words (`name_words`). In a column most of whose cells hold names, a cell of ordinary
words alone, `Crystal Palace` say, is one too and is renamed as a whole. A four-digit number is a year, except in a
column of plain numbers of which most are none.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

from kbbench_hf.benchmarks.ska_bench.mentions import mentions
from kbbench_hf.benchmarks.ska_bench.programs import Program, execute, same_answers
from kbbench_hf.benchmarks.ska_bench.table_programs import normal, reads, split
from kbbench_hf.benchmarks.ska_bench.token_counts import vocabulary
from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, Pool
from kbbench_hf.building.ska_bench.invented_names import (
    WORD,
    Renamed,
    invent,
    key_of,
    replaced,
    years_later,
)
from kbbench_hf.text.dates import MONTH_NUMBER, MONTHS, WEEKDAYS

COMPUTED = frozenset({"count", "sum", "diff", "arithmetic"})
"""Programs whose answer is no cell; moved years may change it."""
SMALL = frozenset("a an and as at by de del der di du el et for from in la le of on or the to v van vom von vs".split())
MOSTLY = 0.5
"""From this share on, a column is one of names, or of years."""
_YEAR = re.compile(r"(?<![\d.,$€£])(1[5-9]\d\d|20\d\d)(?:([-–/])(\d\d)(?![\d-]))?(?![\d%]|[.,]\d)")
_VAGUE = re.compile(r"\b\d{3}0'?s\b|['’]\d\d\b|\bcentury\b", re.I)
"""A decade, a century or a cut-off year, which cannot move with the years."""


def later(text: str, years: int) -> str:
    """Return a text with its years moved; a season's second year moves with it.

    >>> later("the 1999-00 season, 12 May 2003, 1,984 people", 4)
    'the 2003-04 season, 12 May 2007, 1,984 people'
    """

    def moved(found: re.Match[str]) -> str:
        year = str(int(found[1]) + years)
        return year if found[2] is None else f"{year}{found[2]}{(int(found[3]) + years) % 100:02d}"

    return _YEAR.sub(moved, text)


class _Table:
    """What of one table is renamed: a column at a time, in rows of its own and of others with its header."""

    def __init__(self, header: Cells, rows: Sequence[Cells], years: int) -> None:
        self._years = years
        columns = [[row[n] for row in rows if row[n]] for n in range(len(header))]
        self.named = [_share(column, _has_name) >= MOSTLY for column in columns]
        numbers = [[cell for cell in column if cell.isdigit()] for column in columns]
        self._plain = [bool(column) and _share(column, _YEAR.fullmatch) < MOSTLY for column in numbers]
        self._keys: dict[tuple[str, int], frozenset[str]] = {}
        self._unknown: frozenset[str] = frozenset()
        self._whole: re.Pattern[str] | None = None
        own = [(cell, n) for n, column in enumerate(columns) for cell in set(column)]
        named = {key for cell, n in own for key in self.keys(cell, n)}
        self._unknown = frozenset(key for key in named if is_name(key) is None)
        self._keys.clear()
        whole = sorted(
            {cell for cell, n in own if len(cell) > 3 and self.is_whole(cell, n)}, key=lambda c: (-len(c), c)
        )
        if whole:
            self._whole = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, whole))})(?!\w)")

    def keys(self, cell: str, column: int) -> frozenset[str]:
        """Return the keys of the words of a cell that are renamed: of its names, or of all that it is as a name."""
        if (found := self._keys.get((cell, column))) is None:
            words = WORD.findall(cell)
            keys = frozenset(map(key_of, words))
            found = frozenset(key_of(word) for word in words if _is_name_word(word, cell)) | (keys & self._unknown)
            if not found and self.is_whole(cell, column):
                found = keys - SMALL
            if self._whole is not None:
                found |= {key_of(word) for name in self._whole.findall(cell) for word in WORD.findall(name)} - SMALL
            self._keys[cell, column] = found
        return found

    def is_whole(self, cell: str, column: int) -> bool:
        """Say whether a cell is a name of ordinary words, `Crystal Palace` say, among cells with others."""
        return self.named[column] and cell[:1].isupper() and not _has_name(cell)

    def moved(self, cell: str, column: int) -> str:
        """Return a cell with its years moved, unless it is a plain number in a column of numbers."""
        return cell if cell.isdigit() and self._plain[column] else later(cell, self._years)

    def is_dated(self, column: int) -> bool:
        """Say whether the plain numbers of a column are years."""
        return not self._plain[column]


def _share(column: Sequence[str], holds: Any) -> float:
    distinct = set(column)
    return sum(bool(holds(cell)) for cell in distinct) / len(distinct) if distinct else 0.0


def _has_name(cell: str) -> bool:
    return any(_is_name_word(word, cell) for word in WORD.findall(cell))


def _is_name_word(word: str, cell: str) -> bool:
    """Say whether a word of a cell is one of names.

    One that nobody knows is, with a capital, unless it may be the unit of a number or the first word of a sentence.
    """
    known = is_name(word)
    if known is None and word[:1].isupper():
        begins_sentence = cell.startswith(word) and any(each.islower() and len(each) > 3 for each in cell.split()[1:])
        return not begins_sentence and not (cell[:1].isdigit() and len(word) < 5)
    return bool(known)


class _Renamer:
    """What every word of every table is called now."""

    def __init__(self, instances: Sequence[Instance], pool: Pool, seed: str) -> None:
        self._years = years_later(seed)
        self._pool = pool
        self._cells: dict[tuple[str, str, int], str] = {}
        self._tables = {i.group: _Table(pool.headers[i.group], pool.sk[i.group], self._years) for i in instances}
        self._base = {group: i.group for i in instances for group in (i.group, *i.noise_groups)}
        words = {key for group, rows in pool.sk.items() for row in rows for key in self._keys(group, row)}
        texts = [i.question for i in instances] + [cell for header in pool.headers.values() for cell in header]
        of_texts = {key_of(word) for text in texts for word in WORD.findall(text)}
        words |= {key for key in of_texts if is_name(key) is not False and len(key) > 1}
        known = of_texts | {
            key_of(w) for rows in pool.sk.values() for row in rows for c in row for w in WORD.findall(c)
        }
        self.words = invent(words, seed, avoid=known)

    def _keys(self, group: str, row: Cells) -> Iterable[str]:
        table = self._tables[self._base[group]]
        return (key for column, cell in enumerate(row) for key in table.keys(cell, column))

    def cell(self, group: str, cell: str, column: int) -> str:
        """Return a cell as it is now."""
        base = self._base[group]
        if (found := self._cells.get((base, cell, column))) is None:
            table = self._tables[base]
            found = replaced(table.moved(cell, column), self.words, table.keys(cell, column))
            self._cells[base, cell, column] = found
        return found

    def header(self, header: Cells) -> Cells:
        """Return a header as it is now."""
        return tuple(self.text(later(cell, self._years), frozenset()) for cell in header)

    def text(self, text: str, also: frozenset[str]) -> str:
        """Return a text with the words of names renamed, and `also` these."""
        keys = {key_of(word) for word in WORD.findall(text)}
        return replaced(text, self.words, also | {key for key in keys if is_name(key)})

    def instance(self, instance: Instance) -> Instance | str:
        """Return an instance as it is now, its gold by its program; or why there is none."""
        if _VAGUE.search(instance.question):
            return "its question names a decade, a century or a cut-off year"
        old, rows = instance.program or {}, self._pool.structured(instance)
        groups = [g for g in (instance.group, *instance.noise_groups) for _ in self._pool.sk[g]]
        new_rows = [
            tuple(self.cell(group, cell, column) for column, cell in enumerate(row))
            for group, row in zip(groups, rows, strict=True)
        ]
        program = self._program(instance, rows)
        if [reads(program, row) for row in new_rows] != [reads(old, row) for row in rows]:
            return "its program reads other rows"
        before, after = (execute(p, part) for p, part in ((old, rows), (program, new_rows)))
        gold, aliases = _gold(instance, before, after)
        if not gold:
            return "its program gives other answers"
        question = self._question(instance, rows, program)
        if not self._says(instance, question, program):
            return "its question names a condition in another form than the cells"
        return replace(instance, question=question, answers=gold, answer_aliases=aliases, program=program,
                       title=self.text(later(instance.title, self._years), frozenset()))  # fmt: skip

    def _program(self, instance: Instance, rows: Sequence[Cells]) -> Program:
        """Return a program of the same form about the same rows under their new names."""
        program: dict[str, Any] = dict(instance.program or {})

        def condition(old: Sequence[Any]) -> list[Any]:
            column, test, value = split(old)
            return [*old[:-1], self._value(instance, rows, column, test, value)]

        if "where" in program:
            program["where"] = [condition(old) for old in program["where"]]
        if "values" in program:
            key, test = program["key"], program.get("test", "=")
            program["values"] = [self._value(instance, rows, key, test, value) for value in program["values"]]
        if "reads" in program:
            program["reads"] = [[[condition(old) for old in where], column] for where, column in program["reads"]]
        return program

    def _value(self, instance: Instance, rows: Sequence[Cells], column: int, test: str, value: str) -> str:
        """Return the value of a condition as the cells have it now that it is about."""
        table = self._tables[instance.group]
        if test not in ("=", "contains"):
            return later(value, self._years) if table.is_dated(column) else value
        for row in rows:
            cell = row[column]
            if normal(cell) == value:
                return normal(self.cell(instance.group, cell, column))
            if test == "contains" and mentions(normal(cell), value):
                moved = value if table.moved(cell, column) == cell else later(value, self._years)
                return normal(replaced(moved, self.words, table.keys(cell, column)))
        return value

    def _question(self, instance: Instance, rows: Sequence[Cells], program: Program) -> str:
        """Return the question with the names of its rows renamed, whole ones first; or an empty one where it cannot."""
        table, question = self._tables[instance.group], instance.question
        named: set[str] = set()
        whole: dict[str, int] = {}
        lower: set[str] = set()
        for row in rows:
            for column, cell in enumerate(row):
                if cell and table.is_whole(cell, column):
                    whole[cell] = column
                else:
                    named |= table.keys(cell, column)
                    lower |= {word for word in WORD.findall(cell) if word.islower()}
        for cell in sorted(whole, key=len, reverse=True):
            keys = table.keys(cell, whole[cell])
            phrase = re.compile(rf"(?<!\w){re.escape(cell)}(?!\w)", re.I)
            question = phrase.sub(lambda found, keys=keys: replaced(found[0], self.words, keys), question)  # type: ignore[misc]
        made = set(self.words.values())
        known = [word for word in WORD.findall(question) if word.casefold() not in made]
        if question != question.lower():  # else what is written small is no name
            known = [word for word in known if not word.islower()]
        unknown = {key_of(word) for word in known if is_name(word) is None and word.casefold() not in lower}
        kept = {value for column, test, value in _conditions(instance.program or {}) if test not in ("=", "contains")
                and not table.is_dated(column)}  # fmt: skip
        parts = re.split(rf"\b({'|'.join(map(re.escape, kept))})\b", question) if kept else [question]
        question = "".join(part if n % 2 else later(part, self._years) for n, part in enumerate(parts))
        return self.text(question, frozenset(named | unknown))

    def _says(self, old: Instance, question: str, program: Program) -> bool:
        """Say whether the question names every condition that was renamed, as literally as the old one did."""
        was, now = normal(old.question), normal(question)
        for (_, test, before), (_, _, after) in zip(_conditions(old.program or {}), _conditions(program), strict=True):
            if before != after and mentions(was, before) != mentions(now, after):
                return False
            if before != after and test in ("=", "contains") and not mentions(was, before):
                return False
        return True


def _gold(instance: Instance, before: Sequence[str], after: Sequence[str]) -> tuple[Cells, tuple[Cells, ...]]:
    """Return the gold answers and their aliases: as they were where the program gives the same, else what it gives."""
    if same_answers(before, after):
        return instance.answers, instance.answer_aliases
    if instance.program and instance.program["type"] in COMPUTED:
        return tuple(after), ()
    return (tuple(after), ()) if same_answers(before, instance.answers) and len(after) == len(before) else ((), ())


def _conditions(program: Program) -> list[tuple[int, str, str]]:
    """Return every condition of a program, in order: column, test, value."""
    test = program.get("test", "=")
    return [
        *map(split, program.get("where", ())),
        *((program["key"], test, value) for value in program.get("values", ())),
        *(split(each) for where, _ in program.get("reads", ()) for each in where),
    ]


def rename_tables(instances: Sequence[Instance], pool: Pool, seed: str) -> Renamed:
    """Return the instances on table rows with invented names, and why some were left out."""
    names = _Renamer(instances, pool, seed)
    found = {instance.id: names.instance(instance) for instance in instances}
    kept = [each for each in found.values() if isinstance(each, Instance)]
    groups = {group for each in kept for group in (each.group, *each.noise_groups)}
    sk = {
        group: [tuple(names.cell(group, cell, column) for column, cell in enumerate(row)) for row in pool.sk[group]]
        for group in pool.sk
        if group in groups
    }
    headers = {group: names.header(header) for group, header in pool.headers.items() if group in groups}
    left_out = {name: each for name, each in found.items() if isinstance(each, str)}
    return Renamed(kept, replace(pool, sk=sk, headers=headers), left_out)


CALENDAR = frozenset((*MONTHS, *MONTH_NUMBER, "sept", *WEEKDAYS, *(day[:3] for day in WEEKDAYS)))
CODES = frozenset("am bc ad dnf dnq dns dsq dq fc kg km ko na nc ot pm pts tba tbd tko u v vs wd".split())
"""Abbreviations of tables that name nobody."""
RATIO = 2
"""So many times more frequent is the capital in a word of names."""
_ENDINGS = ("s", "es", "ed", "ing", "er", "ers", "ly")
_ABSENT = 1 << 30


def is_name(word: str) -> bool | None:
    """Return whether a word, in any case, is one of names; None where the vocabulary does not know.

    >>> [is_name(word) for word in ("london", "Stage", "May", "haemerlinck", "bombers")]
    [True, False, False, None, False]
    """
    folded = word.casefold()
    if folded in CALENDAR or folded in CODES or len(folded) == 1:
        return False
    found = _is_name(folded)
    if found is None and any(_is_name(folded.removesuffix(end)) is False for end in _ENDINGS if folded.endswith(end)):
        return False
    return found


@lru_cache(maxsize=1 << 18)
def _is_name(folded: str) -> bool | None:
    plain = _rank(folded)
    named = min(_rank(folded.capitalize()), _rank(folded.upper()))
    if plain == named == _ABSENT:
        return None
    return RATIO * named < plain


@cache
def _ranks() -> dict[bytes, int]:
    return {token: rank for rank, token in enumerate(vocabulary())}


def _rank(word: str) -> int:
    return _ranks().get(f" {word}".encode(), _ABSENT)
