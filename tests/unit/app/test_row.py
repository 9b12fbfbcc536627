"""The parts of a row's page: its head, figures, slices, worst examples, commands and provenance."""

import json
from dataclasses import replace

import pytest

from kbbench_hf.app import row_page
from kbbench_hf.app.boards import Board, Boards
from kbbench_hf.benchmarks import Place, as_place
from kbbench_hf.leaderboard.table import Figure, Row
from tests.unit.app.parsed import parsed


@pytest.fixture
def row(board: Board) -> Row:
    return next(row for row in board.rows if row.system == "pattern")


def test_the_head_says_who_what_and_how(row: Row, place: Place) -> None:
    head = parsed(row_page.head_html(row, place))
    facts, link, notes = head.all("p")
    assert head.all("h2", class_="kb")[0].text == "pattern"
    assert facts.text == (
        f"Text2KGBench, mini · test · re-scored · submitted by somebody · {row.stored[:10]} · mit · p95 2.5 s"
    )
    assert link.all("a")[0].attributes == {
        "href": "https://example.org/?a=1&b=2", "rel": "nofollow noopener noreferrer", "target": "_blank"
    }  # fmt: skip
    assert notes.text == "a note"


def test_only_a_web_address_becomes_a_link_and_what_was_not_said_has_no_line(row: Row, place: Place) -> None:
    head = parsed(row_page.head_html(replace(row, link="javascript:alert(1)", notes=""), place))
    assert head.all("a") == [] and [each.text for each in head.all("p")][1:] == ["javascript:alert(1)"]
    assert len(parsed(row_page.head_html(replace(row, link="", notes=""), place)).all("p")) == 1


def test_figures_have_intervals_where_the_row_was_scored_here(boards: Boards, board: Board, row: Row) -> None:
    table = parsed(row_page.figures_table(board.benchmark, row, boards.index.store.result(row.id)))
    assert table.all("caption")[0].text == "Figures"
    assert table.rows()[0] == ["F1", "0.6264", "[0.4920, 0.7479]", "48"]
    assert [head.attributes["class"] for head in table.all("th", scope="col")] == ["name", "number", "number", "number"]


def test_published_figures_have_none(board: Board, row: Row) -> None:
    assert parsed(row_page.figures_table(board.benchmark, row, None)).rows()[0] == ["F1", "0.6264"]


def test_the_worst_examples_come_first_and_their_answers_may_take_several_lines(
    boards: Boards, board: Board, row: Row
) -> None:
    table = parsed(row_page.worst_examples(boards, board, row.id))
    scores = [float(score) for _, score, _ in table.rows()]
    assert table.all("caption")[0].text == "The 20 worst examples"
    assert scores == sorted(scores) and scores[0] == 0 and len(scores) == row_page.N_EXAMPLES
    assert len(table.all("td", class_="wrap")) == row_page.N_EXAMPLES


def test_a_published_slice_is_a_table_of_its_keys(board: Board) -> None:
    table = parsed(
        row_page.published_slice(
            board.benchmark, "ontology", {"movie": {"f1": Figure(0.5)}, "music": {"f1": Figure(0.25, digits=2)}}
        )
    )
    assert table.all("caption")[0].text == "Published by ontology"
    assert table.rows() == [["movie", "0.5000"], ["music", "0.25"]]  # with the digits that were printed


def test_one_system_is_followed_over_the_places_of_its_family(boards: Boards) -> None:
    place = as_place("ska-bench/noise_kg_4k/test/squad")
    found = boards.board(place)
    others = row_page.same_system(boards, place, found.rows[0])
    table = parsed(row_page.elsewhere_table(found.benchmark, others))
    names = [name for name, *_ in table.rows()]
    assert table.all("caption")[0].text == "The same name elsewhere"
    assert len(names) == len(others) and {"noise_kg_4k", "noise_kg_24k"} <= set(names)


def test_a_table_without_rows_is_nothing(board: Board) -> None:
    assert row_page.slice_rows(board.benchmark, {"slices": {}}, "none") == ""


def test_the_command_names_the_place_and_the_provenance_the_hash(boards: Boards, row: Row, place: Place) -> None:
    assert row_page.command_text(place, row).splitlines()[-1] == (
        "kbbench score predictions.jsonl.gz --benchmark mini-text2kg/sentences --split test --mode reference"
    )
    assert {"predictions_sha256", "versions"} <= json.loads(row_page.provenance_text(boards, row.id)).keys()
