"""What the passages of a table's entities state in numbers: when they began, how many live there."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import permutations
from typing import NamedTuple

from kbbench_hf.benchmarks.ska_bench.mentions import normal_name
from kbbench_hf.building.ska_bench.evidence_words import says
from kbbench_hf.building.ska_bench.hybridqa_tables import Table, title_of

_DATE = r"(?:\d{1,2} [A-Z][a-z]+ |[A-Z][a-z]+ \d{1,2}, )(\d{4})"
_NOUN = re.compile(r"[A-Z][A-Za-z' -]*(?:[^s]|ss)$")
_NO_NOUN = re.compile(
    r"\b(?:from|to|by|at|in|with|on|via|nationality|country|nation|nominees?|third|second|first)\b", re.IGNORECASE
)


class Kind(NamedTuple):
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
    Kind(
        re.compile(rf"^[^.]{{0,120}}\((?:[^()]*[,;] )?(?:born |b\. )?(?:on )?{_DATE}(?: ?[-–—]|\)|,| in)"),
        "person",
        "was born in {}",
        "in which year was the {} born",
        "who was born earlier",
        min,
        1 / 3000,
    ),
    Kind(
        re.compile(r"\bpopulation (?:of|was|is)(?: [a-z]+){0,3} (\d{1,3}(?:,\d{3})+|\d{3,})\b"),
        "place",
        "has a population of {}",
        "what is the population of the {}",
        "which has more inhabitants",
        max,
        1 / 6,
    ),
    Kind(
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


class Fact(NamedTuple):
    """What the passage behind a cell states: its number, as it is written."""

    row: int
    column: int
    link: str
    stated: str

    @property
    def number(self) -> float:
        """The number as one."""
        return float(self.stated.replace(",", ""))


def facts_of(table: Table) -> dict[tuple[Kind, int], list[Fact]]:
    """Return what the passages of each column state, row by row, by kind of number."""
    linking = Counter(link for row in table.links for link in {link for cell in row for link in cell})
    found: defaultdict[tuple[Kind, int], list[Fact]] = defaultdict(list)
    for column, header in enumerate(table.header):
        name = noun(header, "")
        if not _NOUN.match(name) or _NO_NOUN.search(name) or table.header.count(header) > 1:
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
                    found[kind, column].append(Fact(row, column, links[0], numbers.pop()))
    return found


def _names(table: Table, one: str, other: str) -> bool:
    """Say whether one of two passages names the page of the other."""
    return any(
        says(table.passages[link], title_of(page).partition(" (")[0]) for link, page in ((one, other), (other, one))
    )


def pairs_of(table: Table) -> Iterator[tuple[Kind, Fact, Kind, Fact]]:
    """Yield what the passages of two entities of one row state: one that names the row, and one to be asked for.

    No other passage of the table holds the first number, and neither the row nor the first passage the second; neither
    passage names the page of the other.
    """
    by_row: defaultdict[int, list[tuple[Kind, Fact]]] = defaultdict(list)
    for (kind, _), facts in facts_of(table).items():
        for fact in facts:
            by_row[fact.row].append((kind, fact))
    for n, facts_of_row in by_row.items():
        for (kind, known), (asked_kind, asked) in permutations(facts_of_row, 2):
            others = [text for link, text in table.passages.items() if link != known.link]
            shown = [*table.rows[n], table.passages[known.link], table.title, table.section]
            if (
                known.link != asked.link
                and not any(says(text, known.stated) for text in [*others, *table.rows[n]])
                and not any(says(text, asked.stated) for text in shown)
                and not _names(table, known.link, asked.link)
            ):
                yield kind, known, asked_kind, asked


def noun(header: str, name: str) -> str:
    """Return what a header calls its entities; `name` where it only says that they are named."""
    noun = re.sub(r" ?\(s\)$", "", header)
    return name if name and noun == "Name" else noun
