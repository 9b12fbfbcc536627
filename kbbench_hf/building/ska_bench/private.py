"""Private split: `kg` and `table` with invented names and other years, which only the owner of a seed can build.

A model that memorized the public questions does not know these: the difference of its scores measures how much it had
memorized. Names are replaced by invented words, the same in question, gold, aliases, triples and cells; years move by a
constant; every program is executed again on all units. An instance whose program no longer gives its gold, or whose
question could not be renamed as literally as its cells, is left out and counted. The hybrid subsets rest on articles,
in which not everything can be renamed; they have no private split.

Of a graph all names of films and people are renamed. Of tables words are names by their frequency in a vocabulary. In a
column most of whose cells hold names, a cell of ordinary words alone, such as `Crystal Palace`, is a name too and is
renamed as a whole. A four-digit number is a year, except in a column of other plain numbers.

`dataset.build_private` calls `rename_instances`. The same seed must make the same split again: invented words depend on
the seed and on the words to avoid, and what is renamed on the vocabulary of `token_counts`.
"""

import hmac
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from itertools import count
from typing import Any

from kbbench_hf.benchmarks.ska_bench.token_counts import vocabulary
from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, InstanceSet, Program, UnitPool
from kbbench_hf.building.ska_bench.graph_programs import Fact, find_matches, index_facts, is_variable
from kbbench_hf.building.ska_bench.name_matching import mentions, normalize_cell
from kbbench_hf.building.ska_bench.programs import execute, reads, same_answers, split_condition
from kbbench_hf.text.dates import MONTH_NUMBER, MONTHS, WEEKDAYS
from kbbench_hf.text.folding import strip_accents

WORD = re.compile(r"(?<![^\W\d_]['’])[^\W\d_]+|(?<=['’])(?!(?:s|t|re|ll|ve|d|m)\b)[^\W\d_]+", re.I)
"""A word of a name: letters alone, so that `O'Brien` has two; what an apostrophe cuts off a verb is none."""
_ONSETS = "b d f g h j k l m n p r s t v w z br dr gr kr pl pr st tr".split()
_VOWELS = "aeiou"
_CODAS = "lmnrs"
NAMED = frozenset({"directed by", "written by", "starred actors"})
"""The relations whose tails are people; the heads of all relations are films."""
DATED = "release year"
"""The relation whose tails are years."""
KEPT = frozenset("a an and as at by for from in of on or the to vs with ii iii iv vi vii viii ix xi xii".split())
"""Words that stay in a name, unless it has no others."""
LONGEST = 12
"""No name of more words is looked for inside a text."""
_TOKEN = re.compile(r"\w+")


RenamedSubset = tuple[list[Instance], UnitPool, dict[str, str]]
"""Instances with invented names, their pool, and why other instances were left out, by id."""


@lru_cache(maxsize=1 << 20)
def word_key(word: str) -> str:
    """Return the form that all spellings of a word share: without marks and case.

    >>> word_key("Müller"), word_key("MULLER")
    ('muller', 'muller')
    """
    return strip_accents(word).casefold()


def word_keys(*texts: str) -> set[str]:
    """Return the keys of the words of some texts."""
    return {word_key(word) for text in texts for word in WORD.findall(text)}


def invent_words(words: Iterable[str], seed: str, avoid: Collection[str]) -> dict[str, str]:
    """Return key -> a distinct invented word in lower case, the same in whatever order the keys come.

    None begins with the letter of the word that it replaces, none is among `avoid`; of a word, only its length is kept,
    roughly. Without the seed nobody can say which word replaces which.

    >>> made = invent_words(["robson", "keane"], "secret", avoid={"robson"})
    >>> len(set(made.values())), made == invent_words(["keane", "robson"], "secret", avoid={"robson"})
    (2, True)
    """
    made, taken = dict[str, str](), {*avoid}
    for word in sorted(set(words)):
        digests = (hmac.digest(seed.encode(), f"{word}|{attempt}".encode(), "sha256") for attempt in count())
        tried = (_pronounceable(digest, len(word)) for digest in digests)
        made[word] = next(found for found in tried if found not in taken and found[0] != word[:1])
        taken.add(made[word])
    return made


def years_later(seed: str) -> int:
    """Return the constant, from 3 to 9, by which years are shifted."""
    return 3 + hmac.digest(seed.encode(), b"years", "sha256")[0] % 7


def _pronounceable(digest: bytes, length: int) -> str:
    """Return syllables that a digest chooses: two for a word of under seven letters, three for a longer one."""
    draws = iter(digest)
    parts = [_ONSETS[next(draws) % len(_ONSETS)] + _VOWELS[next(draws) % 5] for _ in range(2 if length < 7 else 3)]
    return "".join(parts) + ("" if (coda := next(draws) % 8) >= len(_CODAS) else _CODAS[coda])


def match_case(word: str, invented: str) -> str:
    """Return an invented word in the case of another one: in capitals, with one, or without.

    >>> match_case("USA", "velon"), match_case("Usa", "velon"), match_case("usa", "velon"), match_case("O", "velon")
    ('VELON', 'Velon', 'velon', 'Velon')
    """
    if word.isupper() and len(word) > 1:
        return invented.upper()
    return invented.capitalize() if word[:1].isupper() else invented


def replace_words(text: str, words: Mapping[str, str], only: Collection[str]) -> str:
    """Return a text with the words replaced that have an invented one and whose keys are among `only`.

    >>> replace_words("Robson's goals", {"robson": "velon"}, {"robson"})
    "Velon's goals"
    """

    def replaced(found: re.Match[str]) -> str:
        key = word_key(found[0])
        return match_case(found[0], words[key]) if key in words and key in only else found[0]

    return WORD.sub(replaced, text)


class GraphNames:
    """The new names of a graph, alone and inside a text."""

    def __init__(self, triples: Iterable[Cells], vocabulary: Iterable[str], seed: str) -> None:
        self._later = years_later(seed)
        triples = [*triples]
        names = {name for head, relation, tail in triples for name in (head, *([tail] if relation in NAMED else []))}
        self._years = {tail for _, relation, tail in triples if relation == DATED and tail.isdigit()}
        known = word_keys(*vocabulary, *(name for head, _, tail in triples for name in (head, tail)))
        wordless = {name.casefold() for name in names if not WORD.search(name)}
        invented = invent_words(word_keys(*names) | wordless, seed, avoid=known)
        self._new, taken = dict[str, str](), set[str]()
        for name in sorted(names):
            folded, keys = name.casefold(), word_keys(name)
            if folded in self._new:
                continue
            new = replace_words(name, invented, keys - KEPT or keys) if keys else invented[folded].capitalize()
            while new.casefold() in taken:  # two names that differ in marks alone
                more = f"{name}|{new}"
                new = f"{new} {invent_words([more], seed, known)[more].capitalize()}"
            taken.add(new.casefold())
            self._new[folded] = new
        self._inside = {_core(folded): _core(new) for folded, new in self._new.items()}

    def cell(self, cell: str, *, year: bool | None = None) -> str:
        """Return the new form of a cell; without `year`, it is a year if it is one in the graph and names nothing."""
        if cell in self._years and (year or (year is None and cell.casefold() not in self._new)):
            return str(int(cell) + self._later)
        new = self._new.get(cell.casefold())
        if new is None:
            return self.text(cell)
        return new.casefold() if cell == cell.casefold() else new

    def triple(self, triple: Cells) -> Cells:
        """Return the new form of a triple."""
        head, relation, tail = triple
        return (self.cell(head), relation, self.cell(tail, year=relation == DATED))

    def text(self, text: str, only: Sequence[str] | None = None) -> str:
        """Return a text with all names of several words renamed, or only the names `only`, also those of one word.

        Of names that begin at one place the longest is renamed.
        """
        also = {_core(name.casefold()) for name in only or ()}
        tokens = list(_TOKEN.finditer(text))
        parts, place, n = [], 0, 0
        while n < len(tokens):
            for last in range(min(n + LONGEST, len(tokens)) - 1, n - 1, -1):
                found = text[tokens[n].start() : tokens[last].end()]
                if found in also and found in self._years:
                    new: str | None = self.cell(found, year=True)
                else:
                    sought = last > n if only is None else found.casefold() in also
                    new = self._inside.get(found.casefold()) if sought else None
                if new is not None:
                    parts += [text[place : tokens[n].start()], new]
                    place, n = tokens[last].end(), last
                    break
            n += 1
        return "".join([*parts, text[place:]])

    def instance(self, instance: Instance) -> Instance:
        """Return the new form of an instance, its program about the same entities and years."""
        year, program = instance.answer_type == "date", instance.program or {}
        patterns = [zip(pattern, self.triple(pattern), strict=True) for pattern in program["where"]]
        where = [[old if is_variable(old) else new for old, new in pattern] for pattern in patterns]
        return replace(
            instance,
            question=self.text(instance.question, instance.topics),
            answers=tuple(self.cell(answer, year=year) for answer in instance.answers),
            answer_aliases=tuple(tuple(self.cell(each, year=year) for each in of) for of in instance.answer_aliases),
            topics=tuple(map(self.cell, instance.topics)),
            decoys=tuple(map(self.cell, instance.decoys)),
            split_key=self.cell(instance.split_key),
            title=self.text(instance.title),
            program={**program, "where": where},
        )


def rename_graph(instances: Sequence[Instance], pool: UnitPool, seed: str) -> RenamedSubset:
    """Return the instances on triples with invented names; those are left out whose gold no longer follows.

    Every program is executed on all new triples.
    """
    triples = [triple for group in pool.sk.values() for triple in group]
    names = GraphNames(triples, [instance.question for instance in instances], seed)
    new = replace(pool, sk={group: [names.triple(triple) for triple in units] for group, units in pool.sk.items()})
    facts = index_facts((Fact(h, t, None), relation) for group in new.sk.values() for h, relation, t in group)
    kept, left_out = [], dict[str, str]()
    for instance in map(names.instance, instances):
        program = instance.program or {}
        if {match.binding[program["find"]] for match in find_matches(program, facts)} == {*instance.answers}:
            kept.append(instance)
        else:
            left_out[instance.id] = "its program gives other answers"
    return kept, new, left_out


def _core(name: str) -> str:
    """Return a name from its first word to its last, as it occurs inside a text."""
    found = re.search(r"\w(?:.*\w)?", name, re.DOTALL)
    return found[0] if found else name


COMPUTED = frozenset({"count", "sum", "diff", "arithmetic"})
"""Programs whose answer is no cell; moved years may change it."""
SMALL = frozenset("a an and as at by de del der di du el et for from in la le of on or the to v van vom von vs".split())
"""Words that stay in a table's name of ordinary words."""
MIN_COLUMN_SHARE = 0.5
"""A column holds names (or years) if at least this share of its distinct cells does."""
CALENDAR = frozenset((*MONTHS, *MONTH_NUMBER, "sept", *WEEKDAYS, *(day[:3] for day in WEEKDAYS)))
"""Months and weekdays with their short forms: no names."""
CODES = frozenset("am bc ad dnf dnq dns dsq dq fc kg km ko na nc ot pm pts tba tbd tko u v vs wd".split())
"""Abbreviations of tables that name nobody."""
RATIO = 2
"""In a name, the form with a capital is this many times more frequent."""
_ENDINGS = ("s", "es", "ed", "ing", "er", "ers", "ly")
"""An ordinary word with one of these endings is no name: "bombers"."""
_ABSENT = 1 << 30
"""The rank of a form that the vocabulary lacks."""
_EXACT_TESTS = ("=", "contains")
_YEAR = re.compile(r"(?<![\d.,$€£])(1[5-9]\d\d|20\d\d)(?:([-–/])(\d\d)(?![\d-]))?(?![\d%]|[.,]\d)")
_VAGUE = re.compile(r"\b\d{3}0'?s\b|['’]\d\d\b|\bcentury\b", re.I)
"""A decade, a century or a cut-off year, which cannot move with the years."""


def move_years(text: str, years: int) -> str:
    """Return a text with its years moved; a season's second year moves with it.

    >>> move_years("the 1999-00 season, 12 May 2003, 1,984 people", 4)
    'the 2003-04 season, 12 May 2007, 1,984 people'
    """

    def moved(found: re.Match[str]) -> str:
        year = str(int(found[1]) + years)
        return year if found[2] is None else f"{year}{found[2]}{(int(found[3]) + years) % 100:02d}"

    return _YEAR.sub(moved, text)


class _TableNames:
    """The words to rename in one table, column by column, in its own rows and in others with its header."""

    def __init__(self, header: Cells, rows: Sequence[Cells]) -> None:
        columns = [[row[n] for row in rows if row[n]] for n in range(len(header))]
        self._has_names = [_share(column, _has_name) >= MIN_COLUMN_SHARE for column in columns]
        numbers = [[cell for cell in column if cell.isdigit()] for column in columns]
        self.is_dated = [not column or _share(column, _YEAR.fullmatch) >= MIN_COLUMN_SHARE for column in numbers]
        """Whether the plain numbers of each column are years."""
        self._unknown: frozenset[str] = frozenset()
        self._whole: re.Pattern[str] | None = None
        own = [(cell, n) for n, column in enumerate(columns) for cell in set(column)]
        named = {key for cell, n in own for key in self._find_keys(cell, n)}
        self._unknown = frozenset(key for key in named if is_name(key) is None)
        whole = {cell for cell, n in own if len(cell) > 3 and self.is_whole(cell, n)}
        if whole:
            longest_first = sorted(whole, key=lambda cell: (-len(cell), cell))
            self._whole = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")
        self.keys = cache(self._find_keys)
        """Return the keys of the words of a cell that are renamed: of its names, or of all where it is a name."""

    def _find_keys(self, cell: str, column: int) -> frozenset[str]:
        """Return the keys of a cell's words that are renamed; `__init__` calls it before whole names are known."""
        words = WORD.findall(cell)
        keys = frozenset(map(word_key, words))
        found = frozenset(word_key(word) for word in words if _is_name_word(word, cell)) | (keys & self._unknown)
        if not found and self.is_whole(cell, column):
            found = keys - SMALL
        return found | (word_keys(*self._whole.findall(cell)) - SMALL) if self._whole else found

    def is_whole(self, cell: str, column: int) -> bool:
        """Return whether a cell is a name of ordinary words among cells with names."""
        return self._has_names[column] and cell[:1].isupper() and not _has_name(cell)


def _share(column: Sequence[str], holds: Callable[[str], object]) -> float:
    """Return the share of a column's distinct cells for which a test holds; 0 for an empty column."""
    distinct = set(column)
    return sum(bool(holds(cell)) for cell in distinct) / len(distinct) if distinct else 0.0


def _has_name(cell: str) -> bool:
    return any(_is_name_word(word, cell) for word in WORD.findall(cell))


def _is_name_word(word: str, cell: str) -> bool:
    """Return whether a word of a cell belongs to a name.

    The vocabulary decides. A word that it lacks does if it has a capital, unless it may be the unit of a number or the
    first word of a sentence.
    """
    known = is_name(word)
    if known is None and word[:1].isupper():
        begins_sentence = cell.startswith(word) and any(each.islower() and len(each) > 3 for each in cell.split()[1:])
        return not begins_sentence and not (cell[:1].isdigit() and len(word) < 5)
    return bool(known)


class _TableRenamer:
    """The new forms of all tables; a word is renamed alike in all of them."""

    def __init__(self, instances: Sequence[Instance], pool: UnitPool, seed: str) -> None:
        self._years, self._pool = years_later(seed), pool
        self._tables = {i.group: _TableNames(pool.headers[i.group], pool.sk[i.group]) for i in instances}
        self._base = {group: i.group for i in instances for group in (i.group, *i.noise_groups)}
        cells = {
            (self._base[group], cell, column)
            for group, rows in pool.sk.items()
            for row in rows
            for column, cell in enumerate(row)
        }
        words = {key for base, cell, column in cells for key in self._tables[base].keys(cell, column)}
        texts = word_keys(*(i.question for i in instances), *(c for header in pool.headers.values() for c in header))
        words |= {key for key in texts if is_name(key) is not False and len(key) > 1}
        self._words = invent_words(words, seed, avoid=texts | word_keys(*{cell for _, cell, _ in cells}))
        self._cell = cache(self._rename_cell)

    def _move_years(self, table: _TableNames, cell: str, column: int) -> str:
        """Return a cell with its years moved, unless it is a plain number in a column of numbers."""
        return move_years(cell, self._years) if not cell.isdigit() or table.is_dated[column] else cell

    def _rename_cell(self, base: str, cell: str, column: int) -> str:
        table = self._tables[base]
        return replace_words(self._move_years(table, cell, column), self._words, table.keys(cell, column))

    def row(self, group: str, row: Cells) -> Cells:
        """Return the new form of a row."""
        return tuple(self._cell(self._base[group], cell, column) for column, cell in enumerate(row))

    def text(self, text: str, extra_keys: frozenset[str] = frozenset(), *, years: bool = True) -> str:
        """Return a text with moved years and renamed names; `extra_keys` are keys of further words to rename."""
        text = move_years(text, self._years) if years else text
        return replace_words(text, self._words, extra_keys | {key for key in word_keys(text) if is_name(key)})

    def instance(self, instance: Instance) -> Instance | str:
        """Return the new form of an instance, its gold by its program; or a sentence on why there is none.

        The program must read the same rows of all its tables, whether they are evidence or noise.
        """
        if _VAGUE.search(instance.question):
            return "its question names a decade, a century or a cut-off year"
        old, rows = instance.program or {}, self._pool.structured(instance)
        groups = [g for g in (instance.group, *instance.noise_groups) for _ in self._pool.sk[g]]
        new_rows = [self.row(group, row) for group, row in zip(groups, rows, strict=True)]
        program = self._program(instance, rows)
        if [reads(program, row) for row in new_rows] != [reads(old, row) for row in rows]:
            return "its program reads other rows"
        gold, aliases = _gold(instance, execute(old, rows), execute(program, new_rows))
        if not gold:
            return "its program gives other answers"
        question = self._question(instance, rows)
        if not _names_conditions(instance, question, program):
            return "its question names a condition in another form than the cells"
        title = self.text(instance.title)
        return replace(instance, question=question, answers=gold, answer_aliases=aliases, program=program, title=title)

    def _program(self, instance: Instance, rows: Sequence[Cells]) -> Program:
        """Return a program of the same form about the same rows under their new names."""
        program: dict[str, Any] = dict(instance.program or {})

        def condition(old: Sequence[Any]) -> list[Any]:
            return [*old[:-1], self._value(instance, rows, *split_condition(old))]

        if "where" in program:
            program["where"] = [condition(old) for old in program["where"]]
        if "values" in program:
            key, test = program["key"], program.get("test", "=")
            program["values"] = [self._value(instance, rows, key, test, value) for value in program["values"]]
        if "reads" in program:
            program["reads"] = [[[condition(old) for old in where], column] for where, column in program["reads"]]
        return program

    def _value(self, instance: Instance, rows: Sequence[Cells], column: int, test: str, value: str) -> str:
        """Return the new value of a condition, as the cells that it is about have it."""
        table = self._tables[instance.group]
        if test not in _EXACT_TESTS:
            return move_years(value, self._years) if table.is_dated[column] else value
        for row in rows:
            cell = row[column]
            if normalize_cell(cell) == value:
                return normalize_cell(self._cell(instance.group, cell, column))
            if test == "contains" and mentions(normalize_cell(cell), value):
                is_moved = self._move_years(table, cell, column) != cell
                moved = move_years(value, self._years) if is_moved else value
                return normalize_cell(replace_words(moved, self._words, table.keys(cell, column)))
        return value

    def _question(self, instance: Instance, rows: Sequence[Cells]) -> str:
        """Return the question with the names of its rows renamed, whole ones first."""
        table, question = self._tables[instance.group], instance.question
        cells = [(cell, column) for row in rows for column, cell in enumerate(row)]
        whole = {cell: column for cell, column in cells if cell and table.is_whole(cell, column)}
        parts_of_names = [each for each in cells if not (each[0] and table.is_whole(*each))]
        named = {key for each in parts_of_names for key in table.keys(*each)}
        lower = {word for cell, _ in parts_of_names for word in WORD.findall(cell) if word.islower()}
        for cell in sorted(whole, key=len, reverse=True):
            parts = re.split(rf"(?<!\w)({re.escape(cell)})(?!\w)", question, flags=re.I)
            keys = table.keys(cell, whole[cell])
            parts[1::2] = [replace_words(part, self._words, keys) for part in parts[1::2]]
            question = "".join(parts)
        known = {*self._words.values(), *lower}
        words = [word for word in WORD.findall(question) if word.casefold() not in known]
        if question != question.lower():  # otherwise a word in lower case may be a name
            words = [word for word in words if not word.islower()]
        unknown = {word_key(word) for word in words if is_name(word) is None}
        conditions = _conditions(instance.program or {})
        kept = {value for n, test, value in conditions if test not in _EXACT_TESTS and not table.is_dated[n]}
        parts = re.split(rf"\b({'|'.join(map(re.escape, kept))})\b", question) if kept else [question]
        parts[::2] = [move_years(part, self._years) for part in parts[::2]]
        return self.text("".join(parts), frozenset(named | unknown), years=False)


def _names_conditions(old: Instance, question: str, program: Program) -> bool:
    """Return whether the question names every condition that was renamed, as literally as the old one did."""
    was, now = normalize_cell(old.question), normalize_cell(question)
    conditions = zip(_conditions(old.program or {}), _conditions(program), strict=True)
    return all(
        mentions(now, after) if mentions(was, before) else not mentions(now, after) and test not in _EXACT_TESTS
        for (_, test, before), (_, _, after) in conditions
        if before != after
    )


def _gold(instance: Instance, before: Sequence[str], after: Sequence[str]) -> tuple[Cells, tuple[Cells, ...]]:
    """Return the gold answers and their aliases: as they were where the program gives the same, else what it gives."""
    if same_answers(before, after):
        return instance.answers, instance.answer_aliases
    is_computed = instance.program and instance.program["type"] in COMPUTED
    is_same_size = same_answers(before, instance.answers) and len(after) == len(before)
    return (tuple(after) if is_computed or is_same_size else (), ())


def _conditions(program: Program) -> list[tuple[int, str, str]]:
    """Return every condition of a program, in order: column, test, value."""
    test = program.get("test", "=")
    return [
        *map(split_condition, program.get("where", ())),
        *((program["key"], test, value) for value in program.get("values", ())),
        *(split_condition(each) for where, _ in program.get("reads", ()) for each in where),
    ]


def rename_tables(instances: Sequence[Instance], pool: UnitPool, seed: str) -> RenamedSubset:
    """Return the instances on table rows with invented names, and why some were left out."""
    names = _TableRenamer(instances, pool, seed)
    renamed = {instance.id: names.instance(instance) for instance in instances}
    kept = [each for each in renamed.values() if isinstance(each, Instance)]
    groups = {group for each in kept for group in (each.group, *each.noise_groups)}
    sk = {group: [names.row(group, row) for row in rows] for group, rows in pool.sk.items() if group in groups}
    headers = {group: tuple(map(names.text, header)) for group, header in pool.headers.items() if group in groups}
    left_out = {name: each for name, each in renamed.items() if isinstance(each, str)}
    return kept, replace(pool, sk=sk, headers=headers), left_out


def is_name(word: str) -> bool | None:
    """Return whether a word, in any case, belongs to names; None where the vocabulary does not know it.

    >>> [is_name(word) for word in ("london", "Stage", "May", "haemerlinck", "bombers")]
    [True, False, False, None, False]
    """
    folded = word.casefold()
    if folded in CALENDAR or folded in CODES or len(folded) == 1:
        return False
    found = _is_capitalized(folded)
    stems = (folded.removesuffix(end) for end in _ENDINGS if folded.endswith(end))
    return False if found is None and any(_is_capitalized(stem) is False for stem in stems) else found


@lru_cache(maxsize=1 << 18)
def _is_capitalized(folded: str) -> bool | None:
    """Return whether a word is `RATIO` times more frequent with a capital, by ranks of tokens; None if it has none."""
    lower, *others = (
        _ranks().get(f" {form}".encode(), _ABSENT) for form in (folded, folded.capitalize(), folded.upper())
    )
    return None if lower == min(others) == _ABSENT else RATIO * min(others) < lower


@cache
def _ranks() -> dict[bytes, int]:
    """Return token -> rank: the smaller, the more frequent; tokens of whole words begin with a blank."""
    return {token: rank for rank, token in enumerate(vocabulary())}


RENAMERS: Mapping[str, Callable[[Sequence[Instance], UnitPool, str], RenamedSubset]] = {
    "kg": rename_graph,
    "table": rename_tables,
}
"""Subset -> a function from its instances, pool and a seed to the renamed ones."""


def rename_instances(release: InstanceSet, seed: str) -> tuple[InstanceSet, dict[str, str]]:
    """Return the release with invented names, without its hybrid subsets, and why instances were left out, by id."""
    parts = {
        subset: rename([each for each in release.instances if each.subset == subset], release.pools[subset], seed)
        for subset, rename in RENAMERS.items()
        if subset in release.pools
    }
    instances = [instance for kept, *_ in parts.values() for instance in kept]
    left_out = {name: why for *_, reasons in parts.values() for name, why in reasons.items()}
    return InstanceSet(instances, {subset: pool for subset, (_, pool, _) in parts.items()}), left_out
