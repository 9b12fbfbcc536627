"""Overview of the board: one line per benchmark with its best systems and their intervals."""

from dataclasses import replace
from typing import NamedTuple

from kbbench_hf.app.board_table import n_systems, row_address
from kbbench_hf.app.boards import Board, Boards, task_label
from kbbench_hf.app.drawings import ChartBar, axis_of
from kbbench_hf.app.html import render_html
from kbbench_hf.benchmarks import TaskKey
from kbbench_hf.leaderboard.table import BoardScore, Row
from kbbench_hf.leaderboard.view import p_text
from kbbench_hf.metrics.significance import ALPHA

N_LEADERS = 3


class Leader(NamedTuple):
    """One of the best systems of a line."""

    name: str
    href: str
    figure: BoardScore
    bar: ChartBar | None
    badge: str


class BenchmarkLine(NamedTuple):
    """One benchmark."""

    title: str
    href: str
    facts: str
    label: str
    axis: str
    leaders: list[Leader]
    significant: str


def overview_html(boards: Boards) -> str:
    """Return a line for each benchmark, on the place with most submissions."""
    families = {
        family: [line_of(boards, group) for group in _by_benchmark(places)]
        for family, places in boards.families().items()
    }
    return render_html("overview", families=families)


def line_of(boards: Boards, places: list[TaskKey]) -> BenchmarkLine:
    """Return the line of a benchmark's places: of the one with most stored rows, else of the first."""
    found = {task_key: boards.board(task_key) for task_key in places}
    task_key = max(places, key=lambda each: sum(row.badge != "published" for row in found[each].rows))
    here = _systems(found[task_key])
    leaders = here.rows[:N_LEADERS]
    axis = axis_of(row.figures[here.headline] for row in leaders if here.headline in row.figures)
    others = len(places) - 1
    more = f" · {others} other {'split or subset' if others == 1 else 'splits or subsets'}" if others else ""
    stored = sum(row.badge != "published" for row in here.rows)
    scored = f", {stored:,} scored here" if 0 < stored < len(here.rows) else " scored here" if stored else ""
    return BenchmarkLine(
        task_label(task_key),
        f"?place={task_key}",
        f"{n_systems(len(here.rows))}{scored}{more}",
        f"{here.label} {'↓' if here.lower_is_better else '↑'}" if leaders else "",
        axis.ends if axis else "",
        [
            Leader(row.system, row_address(task_key, row), score, axis.bar(score) if axis else None, row.badge)
            for row in leaders
            if (score := row.figures.get(here.headline))
        ],
        significant(here),
    )


def _systems(board: Board) -> Board:
    """Return a board without the row of the gold itself."""
    gold = board.benchmark.showing.gold
    return replace(board, rows=[row for row in board.rows if row.badge != "published" or row.system != gold])


def significant(board: Board) -> str:
    """Return what the tests say of a board's best rows, in a sentence; empty where all scores are from papers."""
    stored = [row for row in board.rows if row.group is not None]
    if not stored:
        return "" if board.rows else "No system yet: submit the first one."
    first = [row for row in stored if row.group == 1]
    ahead = board.rows.index(first[0])
    above = f" Ranked above, untested: {n_systems(ahead)} from papers." if ahead else ""
    if len(stored) == 1:
        return f"One system was scored here: {first[0].system}.{above}"
    if len(first) == len(stored):
        others = "the other one does" if len(stored) == 2 else f"all {len(stored) - 1} others that were tested do"
        return f"{first[0].system} ranks first; {others} not differ significantly from it.{above}"
    if len(first) == 1:
        return f"{first[0].system} is better than every other system scored here{_by(board, first[0], stored)}.{above}"
    n_alike = len(first) - 1
    return (
        f"{first[0].system} ranks first; {n_alike} other{' does' if n_alike == 1 else 's do'} not differ "
        f"significantly from it, {len(stored) - len(first)} scored significantly worse.{above}"
    )


def _by(board: Board, first: Row, stored: list[Row]) -> str:
    """Return the test of the first two, if it was made."""
    second = board.differences([first, stored[1]])[1]
    return (
        f" ({p_text(second.above.p_value)} against the next)" if second.above and second.above.p_value < ALPHA else ""
    )


def _by_benchmark(places: list[TaskKey]) -> list[list[TaskKey]]:
    names = dict.fromkeys(task_key.benchmark for task_key in places)
    return [[task_key for task_key in places if task_key.benchmark == name] for name in names]
