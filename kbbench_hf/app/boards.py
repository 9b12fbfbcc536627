"""The boards of a store as the pages ask for them: by place, by family, made once until something is stored."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from kbbench_hf.benchmarks import Place, at_hand, benchmark, importable_names
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.hub.listing import Listing
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.outbox import Outbox
from kbbench_hf.leaderboard.table import Row, board, headline, places, with_differences
from kbbench_hf.leaderboard.view import Column, columns, default_columns, filled


@dataclass(frozen=True)
class Board:
    """The rows of a place, best first, and the columns that say something of them."""

    benchmark: Benchmark
    rows: list[Row]
    columns: list[Column]
    headline: str
    default_columns: list[str]
    differences: Callable[[Sequence[Row]], list[Row]]
    """Some of the rows, in any order -> the same with the difference of each to the one above it."""


class Boards:
    """The boards of a store, by place; each is made once and again when something was stored."""

    def __init__(self, index: Index, outbox: Outbox | None = None, listing: Listing | None = None) -> None:
        self.index = index
        self.outbox = outbox
        self.listing = listing
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

    def open_places(self) -> list[Place]:
        """Return the places that take submissions: the default split and mode of what is here or listed."""
        listed = self.listing.names() if self.listing else ()
        found = {name: benchmark(name) for name in importable_names() if name in listed or at_hand(name)}
        return [
            Place(name, config, each.data.default_split, each.scoring.modes[0])
            for name, each in found.items()
            for config in each.data.configs
        ]

    def families(self) -> dict[str, list[Place]]:
        """Return the tabs, in the order of the benchmarks, each with its places that have rows.

        A benchmark that has none yet and takes submissions has its default place.
        """
        places = self.places()
        with_rows = {place.benchmark for place in places}
        empty = {place.benchmark: place for place in reversed(self.open_places()) if place.benchmark not in with_rows}
        found: dict[str, list[Place]] = {}
        for place in [*places, *reversed(empty.values())]:
            found.setdefault(benchmark(place.benchmark).facts.family, []).append(place)
        return found

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
        metric = headline(found, rows)
        differences = partial(with_differences, place=place, metric=metric, index=self.index)
        there, first = filled(columns(found), rows), default_columns(found, rows)
        return Board(found, rows, there, metric, first, differences)


def place_label(place: Place) -> str:
    """Return a place as a person reads it.

    >>> place_label(Place("mini-text2kg", "sentences", "test", "reference"))
    'Text2KGBench, mini · test'
    """
    found = benchmark(place.benchmark)
    config = place.config if len(found.data.configs) > 1 else ""
    mode = "" if place.mode == found.scoring.modes[0] else place.mode
    return " · ".join(part for part in (found.title, config, place.split, mode) if part)
