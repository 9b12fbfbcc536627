"""HybridQA's tables as graphs: each cell a triple, the linked pages as texts.

A table with a column that names its rows (no two alike) becomes a graph: (name, header, cell) for each other cell, and
(name, "listed in", title). Where no column does, two name a row together: "Kocaelispor (2001-02)". A cell that links to
one page is called by the page's title, so that triples and texts join.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import fsum, log

from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, UnitPool
from kbbench_hf.building.ska_bench.evidence import Derivation, Evidence, UnitId
from kbbench_hf.building.ska_bench.hybridqa import SOURCE, LinkedTable, title_of
from kbbench_hf.building.ska_bench.name_matching import normal_name
from kbbench_hf.building.ska_bench.noise import DecoyIndex
from kbbench_hf.text.dates import MONTH_NUMBER
from kbbench_hf.text.porter import stem

GROUP = "hybridqa"
LISTED = "listed in"
_EMPTY = frozenset(
    "a an and are as at be been by can did do does for from had has have how in into is many much name named of on"
    " s the that there to was were what when where which who whom whose why will with whats called used located year"
    " also".split()
)
"""Words of questions that no evidence has to hold."""
_DATE = re.compile(rf"(?:{'|'.join(MONTH_NUMBER).title()})[a-z]*\.? \d")


@dataclass(frozen=True)
class TableGraph:
    """A table as triples: the names of its rows and cells."""

    table: LinkedTable
    key: int | None
    """The column that names the rows; None where it takes two."""
    names: Cells
    """The name of each row."""
    nodes: tuple[Cells, ...]

    @classmethod
    def from_table(cls, table: LinkedTable) -> "TableGraph | None":
        """Return a table as a graph, named by its first column of names, or by two; None where two do not name it."""
        nodes = tuple(
            tuple(title_of(linked[0]) if len(linked) == 1 else cell for cell, linked in zip(cells, links, strict=True))
            for cells, links in zip(table.rows, table.links, strict=True)
        )
        of_column = {n: [cells[n] for cells in nodes] for n, header in enumerate(table.header) if header}
        naming = [column for column, cells in of_column.items() if _are_names(cells)]
        for column in naming:
            if _are_distinct(of_column[column]):
                return cls(table, column, tuple(of_column[column]), nodes)
        for column, other in product(naming, of_column):
            names = [f"{cells[column]} ({cells[other]})" for cells in table.rows]
            if column != other and all(of_column[other]) and _are_distinct(names):
                return cls(table, None, tuple(names), nodes)
        return None

    @property
    def title(self) -> str:
        """The table's title, with that of its section."""
        return f"{self.table.title}: {self.table.section}" if self.table.section else self.table.title

    def triple(self, row: int, column: int) -> Cells | None:
        """Return the triple of a cell; None for an empty one, the name itself, or a header that comes twice."""
        header, cell = self.table.header[column], self.nodes[row][column]
        stated = normal_name(cell) and header and self.table.header.count(header) == 1
        return (self.names[row], header, cell) if stated and column != self.key else None

    def listing(self, row: int) -> Cells:
        """Return the triple that says in which table a row is listed."""
        return (self.names[row], LISTED, self.title)


def _are_names(cells: Sequence[str]) -> bool:
    words = sum(len(cell.split()) for cell in cells)
    return all(cell[:1].isalpha() and not _DATE.match(cell) for cell in cells) and words <= 6 * len(cells)


def _are_distinct(cells: Sequence[str]) -> bool:
    return len({normal_name(cell) for cell in cells}) == len(cells)


_stem = lru_cache(maxsize=1 << 16)(stem)


@lru_cache(maxsize=1 << 16)
def stems(text: str) -> frozenset[str]:
    """Return the stems of a text's words without those that no evidence has to hold."""
    return frozenset(_stem(word) for word in normal_name(text).split() if word not in _EMPTY)


Order = Callable[[Derivation], tuple[int, int, list[UnitId]]]


class TableGraphs:
    """The graphs of some tables as one pool, with its evidence, decoys and word weights."""

    def __init__(self, graphs: Mapping[str, TableGraph]) -> None:
        self.graphs = graphs
        pages = {link: text for graph in graphs.values() for link, text in graph.table.passages.items()}
        self._page = {link: number for number, link in enumerate(sorted(pages))}
        triples, linked = set[Cells](), defaultdict[str, set[Cells]](set)
        for graph in graphs.values():
            for row, links in enumerate(graph.table.links):
                triples.add(graph.listing(row))
                for column, of_cell in enumerate(links):
                    triple = graph.triple(row, column)
                    triples |= {triple} if triple else set()
                    for link in of_cell:
                        linked[link].add(triple or graph.listing(row))
        ordered = sorted(triples)
        number_of = {triple: number for number, triple in enumerate(ordered)}
        self.pool = UnitPool(
            {GROUP: ordered},
            [(title_of(link), pages[link]) for link in sorted(pages)],
            links={self._page[link]: tuple(sorted(number_of[t] for t in of)) for link, of in linked.items()},
            origins={GROUP: SOURCE.origin},
            text_origins=[SOURCE.origin] * len(pages),
        )
        self.evidence, self._decoys = Evidence(self.pool), DecoyIndex(ordered)
        counts = Counter(word for text in pages.values() for word in stems(text))
        self._idf = defaultdict(lambda: log(len(pages) + 1), {w: log((len(pages) + 1) / n) for w, n in counts.items()})

    def pages_of(self, table: LinkedTable) -> tuple[int, ...]:
        """Return the numbers of the pages that a table links to."""
        return tuple(sorted(self._page[link] for link in table.passages))

    def weight(self, words: Iterable[str]) -> float:
        """Return the summed idf of words, the same in whatever order they come."""
        return fsum(self._idf[word] for word in words)

    def add_units(self, instance: Instance, orders: Sequence[Order]) -> Iterator[Instance]:
        """Yield the instance with the units of its answer's best derivation, in each order that finds another one."""
        gold = min(normal_name(answer) for answer in instance.answers)
        found = [each for each in self.evidence.derivations(instance) if each.answer == gold]
        for best in dict.fromkeys(max(found, key=order).units for order in orders if found):
            sk, text = (tuple(unit.number for unit in sorted(best) if unit.in_text == side) for side in (False, True))
            if sk and text:
                decoys = self._decoys.find_decoys(instance.id, [self.pool.sk[GROUP][number] for number in sk])
                yield replace(instance, positive_sk=sk, positive_text=text, decoys=decoys)


def by_triples(derivation: Derivation) -> tuple[int, int, list[UnitId]]:
    """Return a sort key of derivations: most triples first, then fewest units."""
    units = derivation.units
    return sum(not unit.in_text for unit in units), -len(units), sorted(units)


def by_number(derivation: Derivation) -> tuple[int, int, list[UnitId]]:
    """Return a sort key of derivations: fewest units first, then most triples."""
    units = derivation.units
    return -len(units), sum(not unit.in_text for unit in units), sorted(units)
