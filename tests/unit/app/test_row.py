"""The parts of a row's page: its head, figures, slices, worst examples, commands and provenance."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kbbench_hf.app import row_page
from kbbench_hf.app.boards import Board, Boards
from kbbench_hf.app.row_page import why_no_answers
from kbbench_hf.benchmarks import TaskKey, as_task_key
from kbbench_hf.files.datasets import DatasetFolder
from kbbench_hf.leaderboard.table import BoardScore, Row
from tests.unit.app.parsed import parsed


@pytest.fixture
def row(board: Board) -> Row:
    return next(row for row in board.rows if row.system == "pattern")


def test_the_head_says_who_what_and_how(row: Row, place: TaskKey) -> None:
    head = parsed(row_page.head_html(row, place))
    facts, link, notes = head.all("p")
    assert head.all("h2", class_="kb")[0].text == "pattern"
    assert facts.text == (
        f"Text2KGBench, mini · test · submission · submitted by somebody · {row.stored[:10]} · mit · p95 2.5 s"
    )
    assert link.all("a")[0].attributes == {
        "href": "https://example.org/?a=1&b=2", "rel": "nofollow noopener noreferrer", "target": "_blank"
    }  # fmt: skip
    assert notes.text == "a note"


def test_only_a_web_address_becomes_a_link_and_what_was_not_said_has_no_line(row: Row, place: TaskKey) -> None:
    head = parsed(row_page.head_html(replace(row, link="javascript:alert(1)", notes=""), place))
    assert head.all("a") == [] and [each.text for each in head.all("p")][1:] == ["javascript:alert(1)"]
    assert len(parsed(row_page.head_html(replace(row, link="", notes=""), place)).all("p")) == 1


def test_figures_have_true_intervals_where_the_row_was_scored_here(boards: Boards, board: Board, row: Row) -> None:
    table = parsed(row_page.score_table(board.benchmark, row, boards.index.store.result(row.id)))
    lines = {line[0]: line[1:4] for line in table.rows()}
    assert table.all("caption")[0].text == "Scores"
    assert lines["F1 ↑"] == ["0.6264", "0.4920–0.7478", "48"]
    assert lines["SH ↓"][1] == "0.0000–0.0740"  # as far as it goes: not below 0
    assert [head.attributes["class"] for head in table.all("th", scope="col")] == ["name", "number", "number", "number"]


def test_an_interval_is_drawn_where_it_is(board: Board, boards: Boards, row: Row) -> None:
    table = parsed(row_page.score_table(board.benchmark, row, boards.index.store.result(row.id)))
    assert table.all("span", class_="bar")[0].attributes["style"] == "--low:49.2%;--at:62.6%;--high:74.8%"


def test_published_figures_have_none(board: Board, row: Row) -> None:
    figures = {"f1": BoardScore(0.62, digits=2)}
    table = parsed(row_page.score_table(board.benchmark, replace(row, scores=figures, badge="published"), None))
    assert table.rows() == [["F1 ↑", "0.62", ""]] and table.all("span", class_="bar open")


def test_examples_begin_with_the_worst_and_show_sentence_gold_and_what_each_part_is(
    boards: Boards, board: Board, place: TaskKey, row: Row
) -> None:
    page = parsed(row_page.worst_examples(boards, board, place, row))
    examples = page.all("details")
    scores = [float(each.all("summary")[0].text.rpartition(" ")[2]) for each in examples]
    assert scores == sorted(scores) and scores[0] == 0 and len(scores) == row_page.N_EXAMPLES
    assert page.all("p", class_="kb-question")[0].text.endswith(".")
    assert {each.attributes.get("class") for each in page.all("li")} >= {"right", "hallucinated"}
    assert "✓ right: " in page.all("li", class_="right")[0].text


@pytest.mark.parametrize(
    ("dataset", "words"), [("genres-corpora", "no license"), ("ska-bench", "no license"), ("mini-text2kg", "")]
)
def test_no_example_is_shown_of_a_source_without_a_licence(boards: Boards, dataset: str, words: str) -> None:
    why = why_no_answers(boards, TaskKey(dataset, "", "", ""), [])
    assert words in why and bool(why) == bool(words)


def test_no_example_of_a_private_split_is_shown_or_handed_out(
    boards: Boards, board: Board, place: TaskKey, row: Row, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "README.md").write_text("---\nprivate: true\n---\n")
    monkeypatch.setattr(row_page, "at_hand", lambda name: DatasetFolder(tmp_path))
    page = row_page.row_html(boards, place, row.id)
    assert "This split is private" in page and "kb-question" not in page and "predictions.jsonl.gz</a>" not in page
    assert "Tarn" not in page


def test_an_address_shows_that_row_wherever_it_stands_or_none(boards: Boards, place: TaskKey, row: Row) -> None:
    elsewhere = as_task_key("ska-bench/noise_kg_4k/test/squad")
    for asked in (place, elsewhere, None):
        assert parsed(row_page.row_html(boards, asked, row.id)).all("h2")[0].text == "pattern"
    for unknown in ("nobody", "f" * 32, "published-gpt-4o-000000", "../../etc/passwd", row.id[:31], "💥" * 99):
        page = parsed(row_page.row_html(boards, place, unknown))
        assert "No such row" in page.text and page.all("h2") == []


def test_published_rows_have_an_address_of_their_own_and_name_their_source(boards: Boards) -> None:
    place = as_task_key("ska-bench/noise_kg_4k/test/squad")
    for row in boards.board(place).rows:
        page = parsed(row_page.row_html(boards, None, row.id))
        assert page.all("h2")[0].text == row.system
        assert any(str(a.attributes["href"]).startswith("https://arxiv.org") for a in page.all("a"))


def test_one_system_is_followed_over_the_places_of_its_family(boards: Boards) -> None:
    place = as_task_key("ska-bench/noise_kg_4k/test/squad")
    found = boards.board(place)
    others = row_page.same_system(boards, place, found.rows[0])
    table = parsed(row_page.other_places_table(found, others))
    names = [name for name, *_ in table.rows()]
    assert table.all("caption")[0].text == "Other results of this system"
    assert len(names) == len(others) and {"noise_kg_4k", "noise_kg_24k"} <= set(names)


def test_parts_of_the_examples_are_small_pictures_on_one_axis(boards: Boards, board: Board, row: Row) -> None:
    result = boards.index.store.result(row.id)
    halves = {key: {**result["scores"], "f1": {**result["scores"]["f1"], "n_scored": 24}} for key in ("true", "false")}
    page = parsed(row_page.slices_html(board, row, {**result, "slices": {"seen": halves, "one": {"all": {}}}}))
    assert [each.text for each in page.all("caption")] == ["seen"]
    assert [line[0] for line in page.rows()] == ["true (n = 24)", "false (n = 24)"]
    assert row_page.slices_html(board, row, {**result, "slices": {}}) == ""


def test_the_command_names_the_place_and_the_provenance_the_hash(boards: Boards, row: Row, place: TaskKey) -> None:
    assert row_page.command_text(place, row).splitlines()[-1] == (
        "kbbench score predictions.jsonl.gz --benchmark mini-text2kg/sentences --split test --mode reference"
    )
    assert {"predictions_sha256", "versions"} <= json.loads(row_page.provenance_text(boards, row.id)).keys()
