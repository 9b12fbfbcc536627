"""Questions that compare two rows of a table by what the rows' passages say, composed by grammar.

Each needs four units: two rows, named by a cell that no other row has in its column, and the passage of each one's
entity, which states a date of birth or a number of inhabitants.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import NamedTuple

from kbbench_hf.benchmarks.ska_bench.construction.evidence_words import says
from kbbench_hf.benchmarks.ska_bench.construction.hybridqa_tables import Table, title_of
from kbbench_hf.benchmarks.ska_bench.mentions import normal_name
from kbbench_hf.benchmarks.ska_bench.units import SEED, Cells

_DATE = r"(?:\d{1,2} [A-Z][a-z]+ |[A-Z][a-z]+ \d{1,2}, )(\d{4})"
_BORN = re.compile(rf"\((?:born |b\. )?(?:on )?{_DATE}(?: ?[-–—]|\)|,| in)")
_INHABITANTS = re.compile(r"\bpopulation (?:of|was|is)(?: [a-z]+){0,3} (\d{1,3}(?:,\d{3})+|\d{3,})\b")
_REMARKS = re.compile(r"note|comment|remark|reason|description|ref|result", re.IGNORECASE)


class Composed(NamedTuple):
    """A composed question: its answer with other names of it, and the rows and links of its evidence."""

    id: str
    question: str
    answer: str
    aliases: Cells
    table: str
    rows: tuple[int, int]
    links: tuple[str, str]


class _Topic(NamedTuple):
    """What passages are compared by: the number they state, the wording, and which differences count."""

    stated: re.Pattern[str]
    asks: str
    noun: str
    wins: Callable[[list[float]], float]
    apart: Callable[[float, float], bool]


_TOPICS = (
    _Topic(_BORN, "who was born earlier", "person", min, lambda one, other: abs(one - other) >= 1),
    _Topic(
        _INHABITANTS,
        "which has more inhabitants",
        "place",
        max,
        lambda one, other: max(one, other) >= 1.2 * min(one, other),
    ),
)


def compose(tables: Mapping[str, Table]) -> Iterator[Composed]:
    """Yield at most one question on each table."""
    for name, table in tables.items():
        found = [each for topic in _TOPICS for each in _on(name, table, topic)]
        if found:
            yield min(found, key=lambda each: hashlib.sha256(f"{SEED}|composed|{each.question}".encode()).digest())


def _on(name: str, table: Table, topic: _Topic) -> Iterator[Composed]:
    linking = Counter(link for row in table.links for link in {link for cell in row for link in cell})
    for column in range(len(table.header)):
        stated = {n: found for n in range(len(table.rows)) if (found := _stated(table, n, column, topic, linking))}
        for key in range(len(table.header)):
            values = Counter(normal_name(row[key]) for row in table.rows)
            named = [
                n for n in stated if _names(table, n, key, column) and values[normal_name(table.rows[n][key])] == 1
            ]
            for one, other in list(combinations(named, 2))[:20]:
                (first, link), (second, other_link) = stated[one], stated[other]
                if not topic.apart(first, second):
                    continue
                winner = one if topic.wins([first, second]) == first else other
                answer, page = table.rows[winner][column], title_of(link if winner == one else other_link)
                header = table.header[key].replace(" (s)", "").lower()
                question = (
                    f'In the table "{table.title}", {topic.asks}: the {topic.noun} whose {header} is '
                    f"{table.rows[one][key]}, or the one whose {header} is {table.rows[other][key]}?"
                )
                if says(question, answer) or link == other_link:
                    continue
                aliases = tuple(dict.fromkeys((page, page.partition(" (")[0])))
                yield Composed(
                    f"hybridqa-{name}-{one}-{other}", question, answer, aliases, name, (one, other), (link, other_link)
                )


def _stated(table: Table, row: int, column: int, topic: _Topic, linking: Mapping[str, int]) -> tuple[float, str] | None:
    """Return the number that the passage of a cell's only link states, and the link; None where it is not one."""
    links = table.links[row][column]
    if (
        len(links) != 1
        or linking[links[0]] > 1
        or normal_name(title_of(links[0]).partition(" (")[0]) != normal_name(table.rows[row][column])
    ):
        return None
    numbers = {found.replace(",", "") for found in topic.stated.findall(table.passages[links[0]])}
    return (float(numbers.pop()), links[0]) if len(numbers) == 1 else None


def _names(table: Table, row: int, key: int, column: int) -> bool:
    """Say whether a cell is fit to name its row: a short word under a header, not a number."""
    cell, header = table.rows[row][key], table.header[key]
    return (
        key != column
        and bool(header)
        and not _REMARKS.search(header)
        and 1 < len(cell) <= 40
        and bool(re.match(r"[A-Z][a-z]", cell))
    )
