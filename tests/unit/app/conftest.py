"""A store with both systems of a mini benchmark, and its board as the pages have it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from kbbench_hf.app.boards import Board, Boards
from kbbench_hf.benchmarks import TaskKey, as_task_key, shipped_answers
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.store import Store, System
from kbbench_hf.leaderboard.submissions import preview, store_preview


@pytest.fixture(scope="session")
def boards(tmp_path_factory: pytest.TempPathFactory) -> Boards:
    store = Store(tmp_path_factory.mktemp("app") / "store")
    for file in shipped_answers("mini-text2kg"):
        system = System(
            file.stem, link="https://example.org/?a=1&b=2", licence="mit", notes="a note", latency_p95_s=2.5
        )
        store_preview(store, preview(file, "mini-text2kg"), system, "somebody")
    return Boards(Index(store))


@pytest.fixture(scope="session")
def place() -> TaskKey:
    return as_task_key("mini-text2kg/sentences/test/reference")


@pytest.fixture
def board(boards: Boards, place: TaskKey) -> Board:
    return boards.board(place)


@pytest.fixture
def board_of(board: Board) -> Callable[[list[str]], Board]:
    """The board of systems of these names, each with the figures of the best one."""

    def made(names: list[str]) -> Board:
        rows = [replace(board.rows[0], id=f"row-{n}", system=name, gap=None) for n, name in enumerate(names)]
        return replace(board, rows=rows, differences=list)

    return made
