"""What stands below the board: how many systems there are, and the way to the other pages."""

from collections.abc import Callable

import pytest

from kbbench_hf.app.board_page import table_html
from kbbench_hf.app.boards import Board
from kbbench_hf.app.html import render_html
from kbbench_hf.benchmarks import TaskKey
from kbbench_hf.errors import UsageError
from kbbench_hf.leaderboard.view import View
from tests.unit.app.parsed import Element, parsed


@pytest.fixture
def long(board_of: Callable[[list[str]], Board]) -> Board:
    return board_of([f"system {n:03}" for n in range(120)])


def below(page: Element) -> tuple[str, list[tuple[str, str | None, bool]]]:
    (foot,) = page.all("div", class_="kb-pages")
    pages = [each for each in foot.all("button") if "data-page" in each.attributes]
    buttons = [(each.text, each.attributes["data-page"], "disabled" in each.attributes) for each in pages]
    return foot.all("span")[0].text, buttons


@pytest.mark.parametrize(("number", "n_rows", "dead"), [(1, 50, "Previous"), (2, 50, None), (3, 20, "Next")])
def test_a_page_has_fifty_rows_and_leads_to_its_neighbours(
    long: Board, place: TaskKey, number: int, n_rows: int, dead: str | None
) -> None:
    page = parsed(table_html(long, place, View(page=number), ["F1"]))
    words, buttons = below(page)
    assert [row[0] for row in page.rows()] == [
        f"system {n:03}" for n in range(50 * (number - 1), 50 * (number - 1) + n_rows)
    ]
    assert words.startswith(f"page {number} of 3 · 120 systems")
    assert buttons == [
        ("Previous", str(number - 1), dead == "Previous"),
        ("Next", str(number + 1), dead == "Next"),
    ]


def test_a_page_that_does_not_exist_is_the_nearest_one(long: Board, place: TaskKey) -> None:
    assert below(parsed(table_html(long, place, View(page=99), ["F1"])))[0].startswith("page 3 of 3")


def test_one_page_has_no_buttons_and_says_how_many_a_search_left(long: Board, place: TaskKey) -> None:
    words, buttons = below(parsed(table_html(long, place, View(search="system 11"), ["F1"])))
    assert words.startswith("11 of 120 systems") and buttons == []


def test_a_search_without_a_result_says_what_to_do(long: Board, place: TaskKey) -> None:
    page = parsed(table_html(long, place, View(search="nobody"), ["F1"]))
    assert page.all("p", class_="kb-empty")[0].text.startswith("No system matches. Clear the search")
    assert page.all("table") == [] and below(page)[0].startswith("0 of 120 systems")


def test_an_error_stands_in_the_table_s_place() -> None:
    assert (
        parsed(render_html("words", text=UsageError("no such place"))).all("p", class_="kb-empty")[0].text
        == "no such place"
    )
