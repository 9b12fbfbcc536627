"""The board's table: its cells, the marks of sorting, where rank groups begin, the links to rows."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kbbench_hf.app.board_page import plot_axes, plot_html, summary_html, table_html
from kbbench_hf.app.boards import Board, Boards
from kbbench_hf.app.html import Dot, scatter
from kbbench_hf.benchmarks import TaskKey, as_task_key, shipped_answers
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.store import Store, System
from kbbench_hf.leaderboard.submissions import preview, store_preview
from kbbench_hf.leaderboard.table import BoardScore, headline
from kbbench_hf.leaderboard.view import View
from tests.unit.app.parsed import Element, parsed

SHOWN = ["#", "system", "F1", "SH", "origin"]


def marks(table: Element) -> dict[str, tuple[str | None, str | None]]:
    """What each heading says: how it is sorted, and what a click on it sorts by."""
    return {
        head.text: (head.attributes.get("aria-sort"), head.all("button", class_="sort")[0].attributes["data-sort"])
        for head in table.all("th", scope="col")
    }


def test_the_best_system_stands_first_with_the_ends_of_its_intervals_set_smaller(board: Board, place: TaskKey) -> None:
    table = parsed(table_html(board, place, View(), SHOWN))
    assert table.rows() == [
        ["1", "pattern", "0.6264 0.492–0.748", "0.0000 0.000–0.074", "submission"],
        ["2", "copy", "0.4028 0.272–0.545", "0.0104 0.000–0.064", "submission"],
    ]
    assert [each.text for each in table.all("span", class_="beside")][:2] == ["0.492–0.748", "0.000–0.074"]


def test_the_difference_is_to_the_row_above_in_any_order(board: Board, place: TaskKey) -> None:
    def cells(sort: str) -> list[str]:
        return [row[1] for row in parsed(table_html(board, place, View(sort=sort), ["vs previous row"])).rows()]

    assert cells("") == ["", "-0.2236 ✓ p 0.0004"] and cells("-F1") == ["", "+0.2236 ✓ p 0.0004"]


def test_columns_say_whether_they_are_names_numbers_or_words(board: Board, place: TaskKey) -> None:
    table = parsed(table_html(board, place, View(), SHOWN))
    classes = ["", "name", "number", "number", ""]
    assert [head.attributes["class"] for head in table.all("th", scope="col")] == classes
    cells = [cell for cell in table.all("tr")[1].inside if isinstance(cell, Element)]
    assert [(cell.tag, cell.attributes["class"]) for cell in cells] == [
        ("th" if name == "name" else "td", name) for name in classes
    ]


def test_the_name_stays_whatever_columns_are_chosen(board: Board, place: TaskKey) -> None:
    assert list(marks(parsed(table_html(board, place, View(), ["F1"])))) == ["system", "F1 ↑"]


def test_a_heading_sorts_then_turns_round_then_lets_go(board: Board, place: TaskKey) -> None:
    def mark(sort: str) -> dict[str, tuple[str | None, str | None]]:
        return marks(parsed(table_html(board, place, View(sort=sort), ["F1"])))

    assert mark("") == {"system": (None, "system"), "F1 ↑": (None, "F1")}
    assert mark("F1") == {"system": (None, "system"), "F1 ↑ ▼": ("descending", "-F1")}
    assert mark("-F1") == {"system": (None, "system"), "F1 ↑ ▲": ("ascending", "")}
    assert mark("system")["system ▲"] == ("ascending", "-system")


def test_rows_come_in_the_order_that_was_asked_for(board: Board, place: TaskKey) -> None:
    names = [row[0] for row in parsed(table_html(board, place, View(sort="-F1"), ["F1"])).rows()]
    assert names == ["copy", "pattern"]


def test_a_line_stands_where_a_rank_group_begins_unless_rows_are_sorted(
    board_of: Callable[[list[str]], Board], place: TaskKey
) -> None:
    found = board_of(["a", "b", "c", "d"])
    groups = (1, 1, 3, None)
    found = replace(found, rows=[replace(row, group=n) for row, n in zip(found.rows, groups, strict=True)])
    for sort, expected in (("", ["row-2"]), ("system", [])):
        rows = parsed(table_html(found, place, View(sort=sort), SHOWN)).all("tr", class_="begins")
        assert [row.attributes["data-row"] for row in rows] == expected


def test_a_row_opens_by_a_click_and_by_a_link(board: Board, place: TaskKey) -> None:
    first = parsed(table_html(board, place, View(), SHOWN)).all("tr", data_row=board.rows[0].id)[0]
    (link,) = first.all("a")
    assert link.attributes["href"] == (
        f"?place=mini-text2kg%2Fsentences%2Ftest%2Freference&tab=row&row={board.rows[0].id}"
    )


def test_the_table_scrolls_by_keyboard_under_a_name(board: Board, place: TaskKey) -> None:
    (around,) = parsed(table_html(board, place, View(), SHOWN)).all("div", class_="kb-scroll")
    assert around.attributes == {
        "class": "kb-scroll", "tabindex": "0", "role": "region", "aria-label": "Table, scrolls sideways"
    }  # fmt: skip
    assert around.all("table", class_="kb")


def test_a_board_shows_what_somebody_else_stored_and_took_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbbench_hf.app.boards.PATIENCE_S", 60.0)  # of a busy machine
    store, (first, second, *_) = Store(tmp_path / "store"), shipped_answers("mini-text2kg")
    boards, place = Boards(Index(store)), as_task_key("mini-text2kg/sentences/test/reference")
    store_preview(store, preview(first, "mini-text2kg"), System("first"), "somebody")
    shown = {row.system for row in boards.board(place).rows}
    assert "first" in shown
    store_preview(store, preview(second, "mini-text2kg"), System("second"), "somebody")
    Index(store).update()  # another process, or a part of this one
    assert {row.system for row in boards.board(place).rows} == shown | {"second"}


def test_a_board_that_is_long_in_the_making_is_shown_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, read = Store(tmp_path / "store"), preview(shipped_answers("mini-text2kg")[0], "mini-text2kg")
    boards, place = Boards(Index(store)), as_task_key("mini-text2kg/sentences/test/reference")
    before = boards.board(place).rows
    row = store_preview(store, read, System("mine"), "somebody").id
    allowed = threading.Event()
    monkeypatch.setattr("kbbench_hf.app.boards.PATIENCE_S", 0.01)
    monkeypatch.setattr("kbbench_hf.app.boards.headline", lambda *args: allowed.wait(60) and headline(*args))
    assert [boards.board(place).rows for _ in range(3)] == [before] * 3
    threading.Timer(0.1, allowed.set).start()
    assert boards.row(place, row, now=True), "who asks for it as it is now waits"
    assert boards.row(place, row)


def test_two_metrics_are_plotted_with_the_pareto_front(boards: Boards) -> None:
    place = as_task_key("stark-mag/queries/test/reference")
    found = boards.board(place)
    across, up = plot_axes(found)
    assert across[-1] == up[0] == "Hit@1" and {"Hit@5", "R@20", "MRR"} <= set(across) & set(up)
    page = parsed(plot_html(found, place, "R@20", "MRR"))
    both = [row for row in found.rows if {"recall_at_20", "mrr"} <= set(row.scores)]
    marks = {str(each.attributes["aria-label"]): each.all("circle")[0].attributes["class"] for each in page.all("a")}
    assert len(marks) == len(both)
    values = {row.system: (row.scores["recall_at_20"].value, row.scores["mrr"].value) for row in both}
    for name, own in values.items():
        beaten = any(a >= own[0] and b >= own[1] and (a, b) != own for a, b in values.values())
        assert next(css for label, css in marks.items() if label.startswith(f"{name}: MRR")) == (
            "beaten" if beaten else "best"
        )
    chosen = {each.text for each in page.all("option") if "selected" in each.attributes}
    assert chosen == {"R@20", "MRR"}
    assert plot_html(found, place, "nothing", "licence") == plot_html(found, place, across[0], "Hit@1")


def test_a_cost_is_plotted_on_a_logarithmic_axis_where_lower_is_better(boards: Boards) -> None:
    place = as_task_key("ska-bench/noise_kg_4k/test/squad")
    found = boards.board(place)
    assert plot_axes(found)[0][0] == "size, B"
    page = parsed(plot_html(found, place, "size, B", "F1"))
    marks = {str(each.attributes["aria-label"]).partition(":")[0] for each in page.all("a")}
    assert marks == {row.system for row in found.rows if row.parameters_b}
    ticks = [each.text for each in page.all("text", text_anchor="middle") if each.text.isdigit()]
    assert ticks == ["1", "2", "5", "10"]
    said = [parsed(plot_html(found, place, x, "F1")).all("p", class_="kb-caption") for x in ("size, B", "F1")]
    assert "as the submitters or the papers state them" in said[0][-1].text
    assert not any("state them" in each.text for each in said[1])


def test_a_summary_has_the_scores_of_all_datasets_and_their_mean_where_all_are_known(boards: Boards) -> None:
    place = as_task_key("stark-mag/queries/test/reference")
    table = parsed(summary_html(boards, boards.board(place), place))
    heads = [each.text for each in table.all("th", scope="col")]
    assert heads == ["system", "stark-amazon", "stark-mag", "stark-prime", "mean"]
    lines = {name: values for name, *values in table.rows()}
    assert lines["BM25"] == ["0.4494", "0.2585", "0.1275", "0.2785"]
    assert lines["GraphRAFT"] == ["", "0.7105", "0.6371", ""]
    means = [float(values[-1]) for values in lines.values() if values[-1]]
    assert means == sorted(means, reverse=True) and next(iter(lines)) == "ARK"
    assert table.all("a", href="?place=stark-prime/queries/test/reference")
    mini = as_task_key("mini-text2kg/sentences/test/reference")
    assert summary_html(boards, boards.board(mini), mini) == ""


@pytest.mark.parametrize(
    ("costs", "labels"),
    [
        ((200, 900), ["100", "200", "500", "1000"]),
        ((3, 4), ["1", "2", "5", "10"]),
        ((2, 900), ["1", "10", "100", "1000"]),
    ],
)
def test_a_logarithmic_axis_has_ticks_where_there_is_room(costs: tuple[float, ...], labels: list[str]) -> None:
    dots = [Dot(cost, BoardScore(0.5), "system", "") for cost in costs]
    drawn = scatter(dots, ("$", True), ("F1", False), logarithmic=True)
    assert [label for _, label in drawn["x_ticks"]] == labels
    places = [place for place, _ in drawn["x_ticks"]]
    assert places == sorted(places) and all(places[0] < mark["x"] < places[-1] for mark in drawn["marks"])
