"""The board orders, groups and explains."""

import math
from dataclasses import replace

import pytest

from kbbench_hf.benchmarks import TaskKey
from kbbench_hf.benchmarks.published import PublishedRow, PublishedScore, Source
from kbbench_hf.leaderboard import table
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.store import Store, System
from kbbench_hf.leaderboard.submissions import Preview, store_preview
from kbbench_hf.leaderboard.table import board, places, with_differences

PLACE = TaskKey("mini-text2kg", "sentences", "test", "reference")


def test_rows_stand_best_first_with_the_difference_to_the_row_above(
    store: Store, read: Preview, other: Preview
) -> None:
    store_preview(store, other, System("one answer emptied", parameters_b=7, licence="mit"), "tester")
    store_preview(store, read, System("whole"), "tester", origin="own")
    index = Index(store)
    first, second = with_differences(board(index, PLACE), PLACE, "f1", index)
    assert (first.system, second.system) == ("whole", "one answer emptied")
    assert (first.badge, second.badge) == ("own run", "re-scored")
    assert first.above is None and second.above is not None
    assert second.gap == pytest.approx(-second.above.difference)
    assert second.above.difference == pytest.approx(first.scores["f1"].value - second.scores["f1"].value)
    assert (second.parameters_b, second.licence, second.coverage) == (7, "mit", 1.0)


def test_one_example_is_no_significant_difference(store: Store, read: Preview, other: Preview) -> None:
    for name, each in (("a", read), ("b", other)):
        store_preview(store, each, System(name), "tester")
    assert [row.group for row in board(Index(store), PLACE)] == [1, 1]


def test_published_rows_stand_among_the_others_and_are_never_tested(
    store: Store, read: Preview, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source("table", "secondary", "A Paper", "Table 1", "https://example.org", "")
    found = [PublishedRow(PLACE, "best", {"f1": PublishedScore(0.99, 2, source, "best", "no stored basis")}),
             PublishedRow(PLACE, "without", {"recall": PublishedScore(0.5, 1, source, "without")})]  # fmt: skip
    monkeypatch.setattr(table, "published_systems", lambda place: found if place == PLACE else [])
    store_preview(store, read, System("mine"), "tester")
    index = Index(store)
    rows = with_differences(board(index, PLACE), PLACE, "f1", index)
    assert [row.system for row in rows] == ["best", "mine", "without"]
    assert [row.above for row in rows] == [None, None, None]
    assert [row.group for row in rows] == [None, 1, None]
    assert [row.gap is None for row in rows] == [True, False, True]
    assert (rows[0].id, rows[0].sources) == (found[0].id, [("A Paper, Table 1 (secondary)", "https://example.org")])
    assert rows[0].notes == "f1: no stored basis" and math.isnan(rows[0].scores["f1"].low)


def test_a_difference_of_published_figures_has_their_digits(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source("table", "printed", "A Paper", "Table 1", "https://example.org", "")
    found = [PublishedRow(PLACE, name, {"f1": PublishedScore(value, digits, source, name)})
             for name, value, digits in (("a", 0.9, 1), ("b", 0.85, 2), ("c", 0.612, 3))]  # fmt: skip
    monkeypatch.setattr(table, "published_systems", lambda place: found if place == PLACE else [])
    index = Index(store)
    assert [row.gap_digits for row in with_differences(board(index, PLACE), PLACE, "f1", index)[1:]] == [2, 3]


def test_paired_tests_are_made_once(
    store: Store, read: Preview, other: Preview, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, each in (("a", read), ("b", other)):
        store_preview(store, each, System(name), "tester")
    index = Index(store)
    before = with_differences(board(index, PLACE), PLACE, "f1", index)
    monkeypatch.setattr(table, "paired_test", lambda *args: pytest.fail("made again"))
    assert with_differences(board(index, PLACE), PLACE, "f1", index) == before
    with pytest.raises(pytest.fail.Exception):  # the other way round is another test
        with_differences(before[::-1], PLACE, "f1", index)


def test_hidden_rows_leave_the_board(store: Store, read: Preview) -> None:
    receipt = store_preview(store, read, System("mine"), "tester")
    store.hide(receipt.id, "maintainer", "duplicate of another")
    assert board(Index(store), PLACE) == []


def test_a_row_says_how_much_was_answered(store: Store, read: Preview) -> None:
    counters = {**read.result.counters, "n_missing": 12, "n_parse_failures": 6, "n_examples": 48}
    store_preview(store, replace(read, result=replace(read.result, counters=counters)), System("partial"), "tester")
    (row,) = board(Index(store), PLACE)
    assert (row.coverage, row.parse_failure_rate) == (0.75, 0.125)


def test_rows_on_different_data_are_never_tested_and_say_so(store: Store, read: Preview, other: Preview) -> None:
    older = replace(other, result=replace(other.result, dataset_revision="0" * 40))
    for name, each in (("now", read), ("before", older)):
        store_preview(store, each, System(name), "tester")
    index = Index(store)
    rows = with_differences(board(index, PLACE), PLACE, "f1", index)
    assert [row.above for row in rows] == [None, None] and [row.group for row in rows] == [1, None]
    assert [[each.code for each in row.warnings].count("revision") for row in rows] == [1, 1]
    assert "Scored on data revision 00000000; 1 rows" in str(rows[1].warnings[-1])


def test_boards_are_in_the_order_of_benchmarks_configs_splits_and_modes(
    store: Store, read: Preview, monkeypatch: pytest.MonkeyPatch
) -> None:
    shuffled = {
        ("text2kg-wikidata-tekgen", "sentences", "unseen", "paper"),
        ("genres-corpora", "docred", "test", ""),
        ("text2kg-wikidata-tekgen", "sentences", "test", "paper"),
        ("genres-corpora", "cdr", "test", ""),
        ("text2kg-wikidata-tekgen", "sentences", "test", ""),
        ("stark-prime", "queries", "human", ""),
        ("stark-prime", "queries", "test", ""),
        ("stark-prime", "no-such-config", "test", ""),
        ("no-such-benchmark", "queries", "test", ""),
    }
    monkeypatch.setattr(table, "published_places", lambda: shuffled)
    monkeypatch.setattr(table, "published_systems", lambda task_key: [object()])
    store_preview(store, read, System("mine"), "tester")
    index = Index(store)
    index.update()
    assert list(map(str, places(index))) == [
        "stark-prime/queries/test/reference",
        "stark-prime/queries/human/reference",
        "text2kg-wikidata-tekgen/sentences/test/reference",
        "text2kg-wikidata-tekgen/sentences/test/paper",
        "text2kg-wikidata-tekgen/sentences/unseen/paper",
        "genres-corpora/cdr/test/reference",
        "genres-corpora/docred/test/reference",
        "mini-text2kg/sentences/test/reference",
    ]
