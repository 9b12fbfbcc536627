"""Questions composed by grammar of what passages state of a table's entities: when they began, how many live there.

A *comparison* needs four units: two rows of a table, and the passage of each one's entity. A row is named by a cell
that no other row has in its column, or by two cells that it alone has both of; a search for the question's cells does
not find just the two rows. A *chain* needs three: the passage of one entity of a row, by what it states, the row, and
the passage of another entity of it, which is asked for.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations, permutations, product
from typing import NamedTuple

from kbbench_hf.benchmarks.ska_bench.construction.evidence_words import says
from kbbench_hf.benchmarks.ska_bench.construction.hybridqa_evidence import Found
from kbbench_hf.benchmarks.ska_bench.construction.hybridqa_tables import Table, title_of
from kbbench_hf.benchmarks.ska_bench.construction.table_selection import found_by_words
from kbbench_hf.benchmarks.ska_bench.mentions import normal_name
from kbbench_hf.benchmarks.ska_bench.units import SEED

_DATE = r"(?:\d{1,2} [A-Z][a-z]+ |[A-Z][a-z]+ \d{1,2}, )(\d{4})"
_NOUN = re.compile(r"[A-Z][A-Za-z' -]*(?:[^s]|ss)$")
_NO_NOUN = re.compile(
    r"\b(?:from|to|by|at|in|with|on|via|nationality|country|nation|nominees?|third|second|first)\b", re.IGNORECASE
)
_REMARKS = re.compile(r"note|comment|remark|reason|description|ref|result", re.IGNORECASE)
_NAME, _YEAR = re.compile(r"[A-Z][a-z]"), re.compile(r"(?:1[89]|20)\d\d$")
MOST_PAIRS, MOST_NAMES = 20, 4
"""How many pairs of rows of a column are looked at, and how many ways of naming a row."""


class _Kind(NamedTuple):
    """A number that passages state of their entity, and how questions speak of it."""

    stated: re.Pattern[str]
    noun: str
    """What its entity is called under the header "Name"."""
    says: str
    asks: str
    compares: str
    wins: Callable[[float, float], float]
    least: float
    """How much of the larger number two that are compared differ by."""


_KINDS = (
    _Kind(
        re.compile(rf"^[^.]{{0,120}}\((?:[^()]*[,;] )?(?:born |b\. )?(?:on )?{_DATE}(?: ?[-–—]|\)|,| in)"),
        "person",
        "was born in {}",
        "in which year was the {} born",
        "who was born earlier",
        min,
        1 / 3000,
    ),
    _Kind(
        re.compile(r"\bpopulation (?:of|was|is)(?: [a-z]+){0,3} (\d{1,3}(?:,\d{3})+|\d{3,})\b"),
        "place",
        "has a population of {}",
        "what is the population of the {}",
        "which has more inhabitants",
        max,
        1 / 6,
    ),
    _Kind(
        re.compile(
            r"(?:^[^.]{0,200}|\. |\. (?:It|The \w+) was )\b(?:[Ff]ounded|[Ee]stablished)(?: [a-z]+){0,2} in "
            r"(1[5-9]\d\d|20\d\d)\b"
        ),
        "body",
        "was founded in {}",
        "in which year was the {} founded",
        "which was founded earlier",
        min,
        1 / 3000,
    ),
)
_BORN = _KINDS[0]


class _Fact(NamedTuple):
    """What the passage behind a cell states: its number, as it is written."""

    row: int
    column: int
    link: str
    stated: str

    @property
    def number(self) -> float:
        return float(self.stated.replace(",", ""))


def compared(tables: Iterable[Table]) -> Iterator[Found]:
    """Yield at most one comparison on each table."""
    yield from _one_each(tables, _comparisons)


def chained(tables: Iterable[Table]) -> Iterator[Found]:
    """Yield at most one chain on each table."""
    yield from _one_each(tables, _chains)


def _one_each(tables: Iterable[Table], compose: Callable[[Table], Iterator[Found]]) -> Iterator[Found]:
    for table in tables:
        if found := list(compose(table)):
            yield min(found, key=lambda each: _hash(each.question))


def _comparisons(table: Table) -> Iterator[Found]:
    for (kind, column), facts in _facts(table).items():
        for one, other in list(combinations(facts, 2))[:MOST_PAIRS]:
            most = max(one.number, other.number)
            if one.link == other.link or abs(one.number - other.number) <= most * kind.least:
                continue
            winner = one if kind.wins(one.number, other.number) == one.number else other
            answer, both = table.rows[winner.row][column], [table.rows[each.row] for each in (one, other)]
            rest = [cells for n, cells in enumerate(table.rows) if n not in (one.row, other.row)]
            for first, second in product(_descriptions(table, one), _descriptions(table, other)):
                noun = _noun(table.header[column], kind.noun)
                question = _question(table, f"{kind.compares}: the {noun} where {first}, or the one where {second}")
                if not says(question, answer) and not found_by_words(question, both, rest):
                    title = title_of(winner.link)
                    aliases = tuple(dict.fromkeys((title, title.partition(" (")[0])))
                    told_in = tuple(n for n, cell in enumerate(table.rows[winner.row]) if says(cell, answer))
                    yield _found(table, question, answer, (one, other), told_in, aliases)


def _chains(table: Table) -> Iterator[Found]:
    by_row: defaultdict[int, list[tuple[_Kind, _Fact]]] = defaultdict(list)
    for (kind, _), facts in _facts(table).items():
        for fact in facts:
            by_row[fact.row].append((kind, fact))
    for n, facts_of_row in by_row.items():
        for (kind, known), (asked_kind, asked) in permutations(facts_of_row, 2):
            others = [text for link, text in table.passages.items() if link != known.link]
            shown = [*table.rows[n], table.passages[known.link]]
            if (
                known.link == asked.link
                or any(says(text, known.stated) for text in [*others, *table.rows[n]])
                or any(says(text, asked.stated) for text in [*shown, table.title])
                or _names(table, known.link, asked.link)
            ):
                continue
            wanted = asked_kind.asks.format(_noun(table.header[asked.column], asked_kind.noun))
            condition = f"the {_noun(table.header[known.column], kind.noun)} {kind.says.format(known.stated)}"
            question = _question(table, f"{wanted} in whose row {condition}")
            yield _found(table, question, asked.stated, (known, asked), (asked.column,))


def _question(table: Table, asked: str) -> str:
    return f'In the table "{table.title}", {asked}?'


def _found(
    table: Table,
    question: str,
    answer: str,
    facts: tuple[_Fact, _Fact],
    told_in: tuple[int, ...],
    aliases: tuple[str, ...] = (),
) -> Found:
    rows = tuple(dict.fromkeys(fact.row for fact in facts))
    name = "-".join(map(str, [table.name, *rows]))
    links = tuple(fact.link for fact in facts)
    return Found(f"hybridqa-{name}", question, answer, aliases, table.name, rows, links, told_in, "composed")


def _facts(table: Table) -> dict[tuple[_Kind, int], list[_Fact]]:
    """Return what the passages of each column state, row by row, by kind of number."""
    linking = Counter(link for row in table.links for link in {link for cell in row for link in cell})
    found: defaultdict[tuple[_Kind, int], list[_Fact]] = defaultdict(list)
    for column, header in enumerate(table.header):
        noun = _noun(header, "")
        if not _NOUN.match(noun) or _NO_NOUN.search(noun) or table.header.count(header) > 1:
            continue
        for row, cells in enumerate(table.rows):
            links = table.links[row][column]
            named = len(links) == 1 and normal_name(title_of(links[0]).partition(" (")[0]) == normal_name(cells[column])
            if not named or linking[links[0]] > 1:
                continue
            text = table.passages[links[0]]
            born = bool(_BORN.stated.search(text))
            for kind in _KINDS:
                numbers = {number.rstrip(",") for number in kind.stated.findall(text)}
                if len(numbers) == 1 and (kind is _BORN or not born):  # what a person founded is something else
                    found[kind, column].append(_Fact(row, column, links[0], numbers.pop()))
    return found


def _names(table: Table, one: str, other: str) -> bool:
    """Say whether one of two passages names the page of the other."""
    return any(
        says(table.passages[link], title_of(page).partition(" (")[0]) for link, page in ((one, other), (other, one))
    )


def _descriptions(table: Table, fact: _Fact) -> list[str]:
    """Return what names a row: "School is Tampa", or two such conditions of which each holds of another row as well.

    What the passage of its entity says too names nothing: the row would not be needed.
    """
    fit = [
        (n, cell)
        for n, cell in enumerate(table.rows[fact.row])
        if n != fact.column and _is_fit(table, n, cell) and not says(table.passages[fact.link], cell)
    ]
    holding = {
        n: {m for m, cells in enumerate(table.rows) if normal_name(cells[n]) == normal_name(cell)} for n, cell in fit
    }
    said = {n: f"{table.header[n]} is {cell}" for n, cell in fit}
    names = [said[n] for n, cell in fit if len(holding[n]) == 1 and _NAME.match(cell)]
    names += [
        f"{said[one]} and {said[other]}"
        for one, other in combinations(said, 2)
        if len(holding[one]) > 1 < len(holding[other]) and len(holding[one] & holding[other]) == 1
    ]
    return sorted(names, key=_hash)[:MOST_NAMES]


def _is_fit(table: Table, column: int, cell: str) -> bool:
    """Say whether a cell may name its row: a short name or a year, under a header that is said once."""
    header = table.header[column]
    return (
        bool(header)
        and table.header.count(header) == 1
        and not _REMARKS.search(header)
        and 1 < len(cell) <= 40
        and bool(_NAME.match(cell) or _YEAR.match(cell))
    )


def _noun(header: str, name: str) -> str:
    """Return what a header calls its entities; `name` where it only says that they are named."""
    noun = re.sub(r" ?\(s\)$", "", header)
    return name if name and noun == "Name" else noun


def _hash(text: str) -> bytes:
    return hashlib.sha256(f"{SEED}|composed|{text}".encode()).digest()
