"""The first page: a line per benchmark, its leaders, and what the tests say of them."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from kbbench_hf.app.board_page import line_of, overview_html, significant
from kbbench_hf.app.boards import Board, Boards, dataset_label, setting_label
from kbbench_hf.leaderboard.table import Row
from tests.unit.app.parsed import parsed


def test_every_benchmark_has_a_line_that_leads_to_its_board(boards: Boards) -> None:
    page = parsed(overview_html(boards))
    lines = page.all("div", class_="kb-line")
    assert len(lines) == len({place.benchmark for places in boards.families().values() for place in places})
    assert all(str(line.all("a")[0].attributes["href"]).startswith("?place=") for line in lines)
    (mini,) = (line for line in lines if line.all("h3")[0].text == "Text2KGBench, mini · test")
    assert [row[0] for row in mini.rows()] == ["pattern", "copy"]
    assert "pattern is better than every other system scored here (p 0.0004 against the next)." in mini.text


def test_the_gold_itself_leads_no_benchmark(boards: Boards) -> None:
    place = next(place for place in boards.places() if place.benchmark == "genres-corpora")
    assert "Ground truth" in [row.system for row in boards.board(place).rows]
    line = line_of(boards, [place])
    assert line["leaders"] and "Ground truth" not in [leader["name"] for leader in line["leaders"]]
    assert line["facts"].startswith(f"{len(boards.board(place).rows) - 1} systems")


@pytest.fixture
def grouped(board: Board, board_of: Callable[[list[str]], Board]) -> Callable[..., Board]:
    def made(*groups: int | None) -> Board:
        rows = [
            replace(row, group=group, badge="re-scored" if group else "published")
            for row, group in zip(board_of([f"s{n}" for n in range(len(groups))]).rows, groups, strict=True)
        ]
        return replace(board, rows=rows, differences=list[Row])

    return made


def test_the_sentence_says_what_was_tested_and_no_more(grouped: Callable[..., Board]) -> None:
    assert significant(grouped(None, None)) == ""
    assert significant(grouped()) == "No system yet: submit the first one."
    assert significant(grouped(None, 1)) == (
        "One system was scored here: s1. Ranked above, untested: 1 system from papers."
    )
    assert significant(grouped(1, 1)) == "s0 ranks first; the other one does not differ significantly from it."
    assert (
        significant(grouped(1, 1, 1))
        == "s0 ranks first; all 2 others that were tested do not differ significantly from it."
    )
    assert (
        significant(grouped(1, 1, 2, None))
        == "s0 ranks first; 1 other does not differ significantly from it, 1 scored significantly worse."
    )
    assert significant(grouped(1, 2, 3)) == "s0 is better than every other system scored here."


def test_the_configs_of_a_testbed_are_two_choices_and_every_place_can_be_reached(boards: Boards) -> None:
    places = boards.families()["SKA-Bench"]
    first = list(dict.fromkeys(map(dataset_label, places)))
    assert len(places) >= 36 and len(first) <= 6 and "SKA-Bench · noise" in first
    assert len({(dataset_label(place), setting_label(place)) for place in boards.places()}) == len(boards.places())
