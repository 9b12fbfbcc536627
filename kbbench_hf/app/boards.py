"""The boards of a store as the pages ask for them: by place, by family, made once until something is stored."""

import threading
from dataclasses import dataclass

from kbbench_hf.benchmarks import benchmark
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.errors import UsageError
from kbbench_hf.leaderboard.index import Index, Place
from kbbench_hf.leaderboard.table import Row, board, headline, places
from kbbench_hf.leaderboard.view import Column, columns, default_columns, filled

FAMILIES = {
    "STaRK": ("stark-amazon", "stark-mag", "stark-prime"),
    "Text2KGBench": ("text2kg-wikidata-tekgen", "text2kg-dbpedia-webnlg"),
    "SKA-Bench": ("ska-bench", "ska-open"),
    "GenRES": ("genres-corpora",),
    "Mini": ("mini-stark", "mini-text2kg", "mini-ska", "mini-genres"),
}
"""The board's tabs, and the datasets of each; a benchmark that stands in none is under `OTHER`."""
OTHER = "Other"


@dataclass(frozen=True)
class Board:
    """The rows of a place, best first, and the columns that say something of them."""

    benchmark: Benchmark
    rows: list[Row]
    columns: list[Column]
    headline: str
    default_columns: list[str]


class Boards:
    """The boards of a store, by place; each is made once and again when something was stored."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self._made: dict[Place, Board] = {}
        self._places: list[Place] | None = None
        self._lock = threading.Lock()

    def places(self) -> list[Place]:
        """Return every place that has rows, stored or published, in the order of the menus."""
        with self._lock:
            self._refresh()
            if self._places is None:
                self._places = places(self.index)
            return self._places

    def families(self) -> dict[str, list[Place]]:
        """Return the tabs that have places, each with its places."""
        found: dict[str, list[Place]] = {}
        for place in self.places():
            found.setdefault(family(place.benchmark), []).append(place)
        return {name: found[name] for name in [*FAMILIES, OTHER] if name in found}

    def board(self, place: Place) -> Board:
        """Return the board of a place; one without rows where nothing was stored or published."""
        with self._lock:
            self._refresh()
            if place not in self._made:
                self._made[place] = self._make(place)
            return self._made[place]

    def row(self, place: Place, row_id: str) -> Row | None:
        """Return one row, or None where the place has none of that id."""
        return next((row for row in self.board(place).rows if row.id == row_id), None)

    def _refresh(self) -> None:
        if self.index.update():
            self._made.clear()
            self._places = None

    def _make(self, place: Place) -> Board:
        found = benchmark(place.benchmark)
        rows = board(self.index, place)
        return Board(
            found, rows, filled(columns(found), rows), headline(found, rows), default_columns(found, rows)
        )  # fmt: skip


def family(dataset: str) -> str:
    """Return the tab under which a dataset stands.

    >>> family("stark-mag"), family("my-kb")
    ('STaRK', 'Other')
    """
    return next((name for name, datasets in FAMILIES.items() if dataset in datasets), OTHER)


def as_place(text: object) -> Place:
    """Return the place of its text, `benchmark/config/split/mode`.

    Raises:
        UsageError: it is no place; whatever a stranger sends ends here.
    """
    parts = str(text).split("/")
    if len(parts) == 4:
        found = benchmark(parts[0])
        if parts[1] in found.configs and parts[2] in found.splits and parts[3] in found.modes:
            return Place(*parts)
    raise UsageError(f"{str(text)[:80]!r} is no place of the board; expected benchmark/config/split/mode. Choose one.")


def place_text(place: Place) -> str:
    """Return a place as it stands in addresses.

    >>> place_text(as_place("mini-text2kg/sentences/test/reference"))
    'mini-text2kg/sentences/test/reference'
    """
    return "/".join(place)


def place_label(place: Place) -> str:
    """Return a place as a person reads it.

    >>> place_label(as_place("mini-text2kg/sentences/test/reference"))
    'Text2KGBench, mini · test'
    """
    found = benchmark(place.benchmark)
    config = place.config if len(found.configs) > 1 else ""
    mode = "" if place.mode == found.modes[0] else place.mode
    return " · ".join(part for part in (found.title, config, place.split, mode) if part)
