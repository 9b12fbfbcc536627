"""The tables that compare rows: figures, paired tests, disagreements."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kbbench_hf.app import row_page
from kbbench_hf.app.boards import Board, Boards
from kbbench_hf.benchmarks import TaskKey, shipped_answers
from kbbench_hf.leaderboard.table import BoardScore, Row
from kbbench_hf.reports.tables import directed_label
from kbbench_hf.scoring.comparison import compare
from kbbench_hf.scoring.score import score
from tests.unit.app.parsed import parsed


@pytest.fixture
def rows(board: Board) -> list[Row]:
    return sorted(board.rows, key=lambda row: row.system)


def test_figures_stand_side_by_side_under_the_systems_names(board: Board, rows: list[Row]) -> None:
    drawn, table = parsed(row_page.scores_side_by_side(board, rows)).all("table")
    assert [head.text for head in table.all("th", scope="col")] == ["metric", "copy", "pattern"]
    assert table.rows()[0] == ["F1 ↑", "0.4028 0.272–0.545", "0.6264 0.492–0.748"]
    assert [line[0] for line in drawn.rows()] == ["copy", "pattern"] and len(drawn.all("span", class_="bar")) == 2


def test_a_figure_that_one_row_lacks_is_an_empty_cell(board: Board, rows: list[Row]) -> None:
    table = parsed(row_page.scores_side_by_side(board, [rows[0], replace(rows[1], scores={})])).all("table")[1]
    assert table.rows()[0] == ["F1 ↑", "0.4028 0.272–0.545", ""]


def test_a_figure_of_which_nothing_was_scored_is_an_empty_cell(board: Board, rows: list[Row]) -> None:
    unscored = replace(rows[1], scores={**rows[1].scores, "precision": BoardScore(math.nan)})
    table = parsed(row_page.scores_side_by_side(board, [rows[0], unscored])).all("table")[1]
    assert table.rows()[1][2] == "" != table.rows()[1][1]


def test_the_paired_test_says_what_so_many_examples_can_show(boards: Boards, board: Board, rows: list[Row]) -> None:
    part = parsed(row_page.test_table(boards.index.store, board, rows))
    ((pair, difference, interval, p, outcomes, _),) = part.rows()
    assert (pair, difference) == ("copy - pattern", "-0.2236")
    assert interval.startswith("-0.") and p == "✓ p 0.0004"
    assert sum(int(each) for each in outcomes.split(" / ")) == 48
    assert part.all("p")[0].text.startswith("Minimum detectable difference between the first two on 48 examples")


def test_a_win_is_the_lower_value_where_less_is_better(boards: Boards, board: Board, rows: list[Row]) -> None:
    metric, store = "subject_hallucination", boards.index.store
    part = parsed(row_page.test_table(store, replace(board, headline=metric), rows))
    ((_, _, _, _, outcomes, _),) = part.rows()
    copied, pattern = (store.values(row.id, metric) for row in rows)
    assert [int(each) for each in outcomes.split(" / ")][::2] == [sum(copied < pattern), sum(copied > pattern)]
    assert sum(copied < pattern) != sum(copied > pattern)


def test_disagreements_come_with_the_widest_first(boards: Boards, board: Board, rows: list[Row]) -> None:
    table = parsed(row_page.disagreement_table(boards.index.store, board, rows))
    widths = [abs(float(a) - float(b)) for _, a, b in table.rows()]
    assert table.all("caption")[0].text == "Largest differences in F1"
    assert widths == sorted(widths, reverse=True) and widths[-1] > 0


def test_rows_that_agree_have_no_table_of_disagreements(boards: Boards, board: Board, rows: list[Row]) -> None:
    assert row_page.disagreement_table(boards.index.store, board, [rows[0], rows[0]]) == ""


def test_every_figure_has_its_paired_difference_on_an_axis_around_zero(
    boards: Boards, board: Board, rows: list[Row]
) -> None:
    part = parsed(row_page.difference_table(boards.index.store, board, rows))
    lines = {line[0]: line[1:] for line in part.rows()}
    assert lines["F1 ↑"][0] == "-0.2236" and "SH ↓" in lines
    assert all(" to " in line[1] for line in lines.values())
    assert all("--zero:50.0%" in str(bar.attributes["style"]) for bar in part.all("span", class_="bar"))


def test_the_differences_and_tests_are_those_of_kbbench_compare(boards: Boards, board: Board, rows: list[Row]) -> None:
    files = {file.stem: file for file in shipped_answers("mini-text2kg")}
    comparison = compare(*(score(files[row.system], "mini-text2kg") for row in rows))
    lines = parsed(row_page.difference_table(boards.index.store, board, rows)).rows()
    shown = comparison.shown(list(board.benchmark.metrics))
    assert [line[0] for line in lines] == [directed_label(board.benchmark, metric) for metric in shown]
    for (_, difference, interval, p, _), (test, adjusted, _) in zip(lines, shown.values(), strict=True):
        low, high = test.ci95
        assert (difference, interval) == (f"{test.difference:+.4f}", f"{low:+.4f} to {high:+.4f}")
        assert p.endswith(f" {adjusted:.4f}") and p[0] == ("✓" if adjusted < 0.05 else "≈")


def test_a_score_that_is_a_mean_over_groups_is_compared_as_such(boards: Boards, board: Board, rows: list[Row]) -> None:
    store, groups = boards.index.store, ["large"] * 40 + ["small"] * 8
    grouped: Any = SimpleNamespace(values=store.values, slices=lambda _: {board.benchmark.scoring.group_by: groups})
    differences = store.values(rows[0].id, "f1") - store.values(rows[1].id, "f1")
    expected = f"{(differences[:40].mean() + differences[40:].mean()) / 2:+.4f}"
    assert expected != f"{differences.mean():+.4f}"
    assert parsed(row_page.test_table(grouped, board, rows)).rows()[0][1] == expected
    assert parsed(row_page.difference_table(grouped, board, rows)).rows()[0][1] == expected


def test_examples_show_both_answers_beside_the_gold(
    boards: Boards, board: Board, place: TaskKey, rows: list[Row]
) -> None:
    page = parsed(row_page.disagreement_examples(boards, board, place, rows))
    first = page.all("details")[0]
    assert [each.text for each in first.all("b")] == ["Gold", "copy", "pattern"] and first.all("li", class_="right")


def test_less_than_two_rows_are_not_compared(boards: Boards, place: TaskKey, rows: list[Row]) -> None:
    for ids in ([], [rows[0].id], [rows[0].id] * 2, [rows[0].id, "nobody"]):
        assert parsed(row_page.compare_html(boards, place, ids)).text.startswith("Choose two to five systems")
    assert parsed(row_page.compare_html(boards, place, [row.id for row in rows])).all("section")
