"""The boards of a store by task and by family, cached until a submission changes; labels of tasks.

Pages and API get rows only through it. A "place" is a task key with rows: benchmark, config, split and mode; addresses
contain its text.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import inf
from typing import NamedTuple, TypeVar

from kbbench_hf.app.html import Axis, axis_of
from kbbench_hf.benchmarks import TaskKey, as_task_key, at_hand, benchmark, importable_names
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.benchmarks.baselines import published_systems
from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.hub.download import Listing
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.outbox import Outbox
from kbbench_hf.leaderboard.table import Row, board, headline, places, with_differences
from kbbench_hf.leaderboard.view import (
    BoardColumn,
    View,
    columns,
    default_columns,
    filled,
    matching,
    ordered,
    requested_columns,
)

PATIENCE_S = 0.5
"""Maximum time that a page waits for a changed board if there is an earlier one to show."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class Board:
    """The rows of a task, best first, and the columns with texts for them."""

    benchmark: Benchmark
    rows: list[Row]
    columns: list[BoardColumn]
    headline: str
    default_columns: list[str]
    differences: Callable[[Sequence[Row]], list[Row]]
    """Function from some of the rows, in any order, to the same rows with differences; see `with_differences`."""
    _sorted: dict[str, list[Row]] = field(default_factory=dict, init=False, repr=False)

    def chosen(self, view: View) -> list[Row]:
        """Return the rows that match a view, in its order; the rows are sorted once for each heading."""
        if view.sort not in self._sorted:
            self._sorted[view.sort] = ordered(self.rows, view.sort, self.columns)
        return matching(self._sorted[view.sort], view)

    def view(self, query: Mapping[str, str]) -> View:
        """Return the view that an address requests."""
        return View.of(query, self.columns, self.rows)

    def headings(self, query: Mapping[str, str]) -> list[str]:
        """Return the headings of the columns that an address requests, else the default ones."""
        return requested_columns(query.get("columns", ""), self.columns, self.default_columns)

    @property
    def label(self) -> str:
        """The label of the headline metric."""
        return self.benchmark.metrics[self.headline]

    @property
    def lower_is_better(self) -> bool:
        """Whether lower headline scores are better."""
        return self.headline in self.benchmark.scoring.lower_is_better

    @cached_property
    def axis(self) -> Axis | None:
        """The axis of the headline scores of all rows; None without scores."""
        return axis_of(row.score(self.headline) for row in self.rows)

    @cached_property
    def axis_words(self) -> str:
        """A sentence on the bars next to the headline scores and their axis; empty without scores."""
        if self.axis is None:
            return ""
        intervals = any(row.score(self.headline).interval() for row in self.rows)
        with_intervals = " with 95 % confidence intervals" if intervals else ""
        return f"Bars: {self.label}{with_intervals}, axis {self.axis.ends}."


class Boards:
    """The boards of a store; each is made once, and again after a change of one of its rows. Thread-safe."""

    def __init__(self, index: Index, outbox: Outbox | None = None, listing: Listing | None = None) -> None:
        self.index = index
        self.outbox = outbox
        self.listing = listing
        self._places: tuple[int, list[TaskKey]] | None = None
        self._made: dict[TaskKey, _Made] = {}
        self._maker, self._since = ThreadPoolExecutor(1, "boards"), inf

    def places(self) -> list[TaskKey]:
        """Return the task keys with stored or published rows, in the order of the menus."""
        return self._in_time(self._all_places, self._places and self._places[1])

    def open_places(self) -> list[TaskKey]:
        """Return the task keys that accept submissions: default split and mode of datasets that are here or listed."""
        listed = self.listing.names() if self.listing else ()
        importable = {name: benchmark(name) for name in importable_names() if name in listed or at_hand(name)}
        return [
            TaskKey(name, config, each.data.default_split, each.scoring.modes[0])
            for name, each in importable.items()
            for config in each.data.configs
        ]

    def families(self) -> dict[str, list[TaskKey]]:
        """Return family -> its task keys with rows, in the order of the tabs.

        A benchmark without rows that accepts submissions has its first open task key.
        """
        places = self.places()
        with_rows = {task_key.benchmark for task_key in places}
        empty = {
            task_key.benchmark: task_key
            for task_key in reversed(self.open_places())
            if task_key.benchmark not in with_rows
        }
        by_family: dict[str, list[TaskKey]] = {}
        for task_key in [*places, *reversed(empty.values())]:
            by_family.setdefault(benchmark(task_key.benchmark).facts.family, []).append(task_key)
        return by_family

    def board(self, task_key: TaskKey, now: bool = False) -> Board:
        """Return the board of a task, without rows where nothing was stored or published.

        While a changed board takes longer than `PATIENCE_S` to make, the earlier one is returned, except with `now`.
        """
        before = self._made.get(task_key)
        return self._in_time(partial(self._board, task_key), None if now or before is None else before.board)

    def row(self, task_key: TaskKey, row_id: str, now: bool = False) -> Row | None:
        """Return the row with this id; None where the board has none."""
        return next((row for row in self.board(task_key, now).rows if row.id == row_id), None)

    def related(self, task_key: TaskKey) -> list[TaskKey]:
        """Return the task keys of the same family, kind of config and mode, including this one.

        Configs that share their first word are of one kind, `noise_kg_4k` and `noise_table_1k` for example; where
        config names have one word only, all configs of the family are.
        """
        kind = task_key.config.split("_")[0] if "_" in task_key.config else None
        family = self.families().get(benchmark(task_key.benchmark).facts.family, [])
        return [each for each in family if each.mode == task_key.mode and kind in (None, each.config.split("_")[0])]

    def requested_task_key(self, query: Mapping[str, str]) -> TaskKey | None:
        """Return the task key that an address requests, directly or by one of its rows; None without either."""
        with suppress(KBBenchError):
            return as_task_key(query.get("place", ""))
        rows = (query.get("row", ""), *query.get("compare", "").split(","))
        return next(filter(None, map(self.task_key_of, filter(None, rows))), None)

    def task_key_of(self, row_id: str) -> TaskKey | None:
        """Return the task key of the board that has a row, by the row's id; None if no board has it."""
        if row_id.startswith("published-"):
            found = (each for each in self.places() if any(row.id == row_id for row in published_systems(each)))
            return next(found, None)
        with suppress(UsageError):
            task_key = self.index.store.record(row_id).task_key
            return task_key if self.row(task_key, row_id) else None
        return None

    def _in_time(self, make: Callable[[], _T], before: _T | None) -> _T:
        """Return the result of `make`, which run one at a time; `before`, if there is one, when it takes too long.

        The time counts from the start of the running one, so that pages do not wait for each other's boards in turn.
        """

        def timed() -> _T:
            self._since = time.monotonic()
            try:
                return make()
            finally:
                self._since = inf

        job = self._maker.submit(timed)
        try:
            since = min(self._since, time.monotonic())
            return job.result(None if before is None else max(0.0, since + PATIENCE_S - time.monotonic()))
        except TimeoutError:
            if before is None:
                raise
            return before

    def _all_places(self) -> list[TaskKey]:
        self.index.update()
        position = self.index.position()
        if self._places is None or self._places[0] != position:
            self._places = position, places(self.index)
        return self._places[1]

    def _board(self, task_key: TaskKey) -> Board:
        self.index.update()
        position, made = self.index.position(), self._made.get(task_key)  # other processes update the index, too
        if made is None or made.position != position:
            in_doubt = self.index.doubts()
            source = [(row, in_doubt.get(row.record.id)) for row in self.index.rows(task_key, any_mode=True)]
            unchanged = made is not None and made.source == source  # the new events are of other boards
            made = _Made(position, source, made.board if made and unchanged else self._make_board(task_key))
            self._made[task_key] = made
        return made.board

    def _make_board(self, task_key: TaskKey) -> Board:
        bench = benchmark(task_key.benchmark)
        rows = board(self.index, task_key)
        metric = headline(bench, rows)
        differences = partial(with_differences, task_key=task_key, metric=metric, index=self.index)
        with_texts = filled(columns(bench), rows)
        return Board(bench, rows, with_texts, metric, default_columns(bench, rows), differences)


class _Made(NamedTuple):
    """A cached board, the position of the index at the last check, and the rows and flags of which it was made."""

    position: int
    source: object
    board: Board


def dataset_label(task_key: TaskKey) -> str:
    """Return the label in the menu of datasets: the title, and the first word of a config of several words.

    >>> dataset_label(TaskKey("mini-ska", "noise_kg_4k", "test", "typed")).partition(" · ")[2]
    'noise'
    """
    return " · ".join(part for part in (benchmark(task_key.benchmark).title, _config_words(task_key)[0]) if part)


def setting_label(task_key: TaskKey) -> str:
    """Return the label in the menu of subsets and splits: rest of the config, split, and mode if not the default.

    >>> setting_label(TaskKey("mini-ska", "noise_kg_4k", "test", "typed"))
    'kg 4k · test'
    """
    mode = "" if task_key.mode == benchmark(task_key.benchmark).scoring.modes[0] else task_key.mode
    return " · ".join(part for part in (_config_words(task_key)[1], task_key.split, mode) if part)


def _config_words(task_key: TaskKey) -> tuple[str, str]:
    """Return the first word of a config of several words, else "", and the rest; twice "" for an only config."""
    if len(benchmark(task_key.benchmark).data.configs) == 1:
        return "", ""
    first, _, rest = task_key.config.partition("_")
    return (first, rest.replace("_", " ")) if rest else ("", first)


def task_keys_apart(task_key: TaskKey, places: Collection[TaskKey]) -> str:
    """Return the parts of a task key (benchmark, config, split) in which the given ones differ.

    >>> first, second = TaskKey("a", "b", "test", "m"), TaskKey("a", "c", "test", "m")
    >>> task_keys_apart(first, [first, second])
    'b'
    """
    parts = zip(task_key[:3], zip(*places, strict=True), strict=False)
    return " ".join(part for part, all_of_it in parts if len(set(all_of_it)) > 1)


def task_label(task_key: TaskKey) -> str:
    """Return the label of a task: title, config if there are several, split, and mode if not the default.

    >>> task_label(TaskKey("mini-text2kg", "sentences", "test", "reference"))
    'Text2KGBench, mini · test'
    """
    bench = benchmark(task_key.benchmark)
    config = task_key.config if len(bench.data.configs) > 1 else ""
    mode = "" if task_key.mode == bench.scoring.modes[0] else task_key.mode
    return " · ".join(part for part in (bench.title, config, task_key.split, mode) if part)
