"""Questions composed by grammar of what passages state of a table's entities: when they began, how many live there.

A *comparison* needs four units: two rows of a table, and the passage of each one's entity. A row is named by a cell
that no other row has in its column, or by two cells that it alone has both of; a search for the question's cells does
not find just the two rows. A *chain* needs three: the passage of one entity of a row, by what it states, the row, and
the passage of another entity of it, which is asked for.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations, product

from kbbench_hf.benchmarks.ska_bench.mentions import normal_name
from kbbench_hf.benchmarks.ska_bench.units import SEED
from kbbench_hf.building.ska_bench.evidence_words import says
from kbbench_hf.building.ska_bench.hybridqa_evidence import Found
from kbbench_hf.building.ska_bench.hybridqa_tables import Table, title_of
from kbbench_hf.building.ska_bench.stated_facts import Fact, facts_of, noun, pairs_of
from kbbench_hf.building.ska_bench.table_selection import found_by_words

_REMARKS = re.compile(r"note|comment|remark|reason|description|ref|result", re.IGNORECASE)
_NAME, _YEAR = re.compile(r"[A-Z][a-z]"), re.compile(r"(?:1[89]|20)\d\d$")
MOST_PAIRS, MOST_NAMES = 20, 4
"""How many pairs of rows of a column are looked at, and how many ways of naming a row."""


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
    for (kind, column), facts in facts_of(table).items():
        for one, other in list(combinations(facts, 2))[:MOST_PAIRS]:
            most = max(one.number, other.number)
            if one.link == other.link or abs(one.number - other.number) <= most * kind.least:
                continue
            winner = one if kind.wins(one.number, other.number) == one.number else other
            answer, both = table.rows[winner.row][column], [table.rows[each.row] for each in (one, other)]
            rest = [cells for n, cells in enumerate(table.rows) if n not in (one.row, other.row)]
            for first, second in product(_descriptions(table, one), _descriptions(table, other)):
                what = noun(table.header[column], kind.noun)
                question = _question(table, f"{kind.compares}: the {what} where {first}, or the one where {second}")
                if not says(question, answer) and not found_by_words(question, both, rest):
                    title = title_of(winner.link)
                    aliases = (title, title.partition(" (")[0])
                    told_in = tuple(n for n, cell in enumerate(table.rows[winner.row]) if says(cell, answer))
                    yield _found(table, question, answer, (one, other), told_in, aliases)


def _chains(table: Table) -> Iterator[Found]:
    for kind, known, asked_kind, asked in pairs_of(table):
        wanted = asked_kind.asks.format(noun(table.header[asked.column], asked_kind.noun))
        condition = f"the {noun(table.header[known.column], kind.noun)} {kind.says.format(known.stated)}"
        question = _question(table, f"{wanted} in whose row {condition}")
        yield _found(table, question, asked.stated, (known, asked), (asked.column,))


def _question(table: Table, asked: str) -> str:
    return f'In the table "{table.title}", {asked}?'


def _found(
    table: Table,
    question: str,
    answer: str,
    facts: tuple[Fact, Fact],
    told_in: tuple[int, ...],
    aliases: tuple[str, ...] = (),
) -> Found:
    rows = tuple(dict.fromkeys(fact.row for fact in facts))
    name = "-".join(map(str, [table.name, *rows]))
    links = tuple(fact.link for fact in facts)
    return Found(f"hybridqa-{name}", question, answer, aliases, table.name, rows, links, told_in, "composed")


def _descriptions(table: Table, fact: Fact) -> list[str]:
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


def _hash(text: str) -> bytes:
    return hashlib.sha256(f"{SEED}|composed|{text}".encode()).digest()
