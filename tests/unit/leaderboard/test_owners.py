"""What an owner may do with a row of theirs, and that nobody else may."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from kbbench_hf.errors import UsageError
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.store import Store, System
from kbbench_hf.leaderboard.submissions import Preview, store_preview


def systems(store: Store, read: Preview) -> list[System]:
    index = Index(store)
    index.update()
    return [row.record.system for row in index.rows(read.result.task_key)]


def test_an_owner_corrects_what_was_said_and_the_history_keeps_both(store: Store, read: Preview) -> None:
    row = store_preview(store, read, System("pattern", link="https://example.org/old"), "ada").id
    store.edit(row, System("pattern", link="https://example.org/new"), "ada")
    assert [system.link for system in systems(store, read)] == ["https://example.org/new"]
    assert store.record(row).system.link == "https://example.org/old" and store.check() == []


def test_sending_again_with_a_corrected_link_corrects_it(store: Store, read: Preview) -> None:
    first = store_preview(store, read, System("pattern", link="https://example.org/old"), "ada")
    again = store_preview(store, read, System("pattern", link="https://example.org/new"), "ada")
    assert (again.id, again.existed, again.edited) == (first.id, True, True)
    assert [system.link for system in systems(store, read)] == ["https://example.org/new"]
    assert not store_preview(store, read, System("pattern", link="https://example.org/new"), "ada").edited


def test_an_owner_withdraws_a_row_and_returns_it(store: Store, read: Preview) -> None:
    row = store_preview(store, read, System("pattern"), "ada").id
    store.withdraw(row, "ada")
    assert store.visible() == [] and systems(store, read) == []
    store.withdraw(row, "ada", undo=True)
    assert store.visible() == [row] and len(systems(store, read)) == 1


def test_what_a_moderator_hid_its_owner_cannot_show(store: Store, read: Preview) -> None:
    row = store_preview(store, read, System("pattern"), "ada").id
    store.hide(row, "maintainer", "trained on the test split")
    store.withdraw(row, "ada")
    store.withdraw(row, "ada", undo=True)
    assert store.visible() == [] and systems(store, read) == []


@pytest.mark.parametrize("actor", ["eve", "", "Ada", "ada "])
def test_nobody_else_changes_a_row(store: Store, read: Preview, actor: str) -> None:
    row = store_preview(store, read, System("pattern"), "ada").id
    with pytest.raises(UsageError, match="only its submitter can change it"):
        store.edit(row, System("pattern", notes="mine now"), actor)
    with pytest.raises(UsageError, match="only its submitter can change it"):
        store.withdraw(row, actor)
    assert [event.action for event in store.events] == ["stored"]


def test_a_row_keeps_its_name(store: Store, read: Preview) -> None:
    row = store_preview(store, read, System("pattern"), "ada").id
    with pytest.raises(UsageError, match="another name"):
        store.edit(row, System("GPT-4"), "ada")


def test_edits_that_arrive_in_another_order_come_to_the_same(tmp_path: Path, read: Preview) -> None:
    first, second = Store(tmp_path / "first"), Store(tmp_path / "second")
    row = store_preview(first, read, System("pattern"), "ada").id
    shutil.copytree(first.root / "submissions", second.root / "submissions")
    for notes, store in (("one", second), ("two", first), ("three", second)):
        store.edit(row, System("pattern", notes=notes), "ada")
    second.withdraw(row, "ada")
    late = Index(first)
    late.update()
    shutil.copytree(second.root / "events", first.root / "events", dirs_exist_ok=True)
    late.update()
    before = late.dump()
    late.rebuild()
    assert late.dump() == before and '\\"notes\\": \\"three\\"' in before and late.places() == []


def test_an_index_of_another_version_is_made_again(store: Store, read: Preview) -> None:
    store_preview(store, read, System("pattern"), "ada")
    with sqlite3.connect(store.root / "index.sqlite") as db:
        db.execute("CREATE TABLE rows (id TEXT PRIMARY KEY)")
    assert len(systems(store, read)) == 1


def test_a_row_of_whoever_runs_the_board_is_not_in_doubt(store: Store, read: Preview) -> None:
    own = store_preview(store, read, System("official c\N{CYRILLIC SMALL LETTER O}re"), "kbbench", origin="own").id
    theirs = store_preview(store, read, System("official c\N{CYRILLIC SMALL LETTER O}re 2"), "eve").id
    index = Index(store)
    index.update()
    doubts = index.doubts()
    assert own not in doubts and {flag.code for flag in doubts[theirs]} == {"look_alike", "claim"}
