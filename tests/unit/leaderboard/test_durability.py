"""A receipt is given when everything is on disk; what a crash, a full disk or a strange hand left is found and healed.

What must be on disk before what is seen from a recorded order of calls (`Disk`), without cutting any power.
"""

import errno
import os
import shutil
import sqlite3
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.errors import BusyError
from kbbench_hf.leaderboard.events import Event, EventLog
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.store import STALE_S, Store, System
from kbbench_hf.leaderboard.submissions import Preview, store_preview
from tests.unit.conftest import Disk


def folder_of(store: Store, submission: str) -> Path:
    return store.root / "submissions" / submission[:2] / submission


def event_files(store: Store) -> list[Path]:
    return sorted(store.root.glob("events/*/*/*.json"))


def test_every_file_of_a_submission_is_on_disk_before_its_folder_has_its_name(
    store: Store, read: Preview, disk: Disk
) -> None:
    folder = folder_of(store, store_preview(store, read, System("pattern"), "tester").id)
    files = list(folder.iterdir())
    assert len(files) == 5
    assert all(disk.flushed(file)[0] < disk.named(folder) for file in files)


def test_the_names_of_a_submissions_files_are_on_disk_before_its_folder_has_its_name(
    store: Store, read: Preview, disk: Disk
) -> None:
    folder = folder_of(store, store_preview(store, read, System("pattern"), "tester").id)
    assert disk.flushed(folder)[0] < disk.named(folder)


def test_the_name_of_a_submission_is_on_disk_before_its_event_and_the_receipt(
    store: Store, read: Preview, disk: Disk
) -> None:
    folder = folder_of(store, store_preview(store, read, System("pattern"), "tester").id)
    (event,) = event_files(store)
    assert disk.named(folder) < disk.flushed(folder.parent)[0] < disk.named(event)


def test_an_event_is_on_disk_before_it_has_its_number_and_then_its_name_is(
    store: Store, read: Preview, disk: Disk
) -> None:
    store_preview(store, read, System("pattern"), "tester")
    (event,) = event_files(store)
    assert disk.flushed(event)[0] < disk.named(event) < disk.flushed(event.parent)[0]


def test_recovery_leaves_an_upload_under_way_alone_and_removes_a_stale_one(store: Store) -> None:
    fresh, stale = (store.root / "partial" / name for name in ("fresh", "stale"))
    for folder in (fresh, stale):
        folder.mkdir(parents=True)
        (folder / "result.json").touch()
    os.utime(stale, (time.time() - STALE_S - 60,) * 2)
    os.utime(fresh, (time.time() - STALE_S + 60,) * 2)
    store.recover()
    assert fresh.exists() and not stale.exists()


def test_a_row_that_another_machine_stores_again_later_stays_hidden(tmp_path: Path, read: Preview) -> None:
    first, second = Store(tmp_path / "first"), Store(tmp_path / "second")
    submission = store_preview(first, read, System("pattern"), "tester").id
    first.hide(submission, "maintainer", "trained on the test split")
    store_preview(second, read, System("pattern"), "tester")
    shutil.copytree(second.root / "events", first.root / "events", dirs_exist_ok=True)
    assert [event.action for event in first.events] == ["stored", "hidden", "stored"]
    assert first.visible() == []
    index = Index(first)
    index.update()
    assert index.places() == []


def test_sending_again_heals_a_crash_between_the_folder_and_its_event(
    store: Store, read: Preview, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Store, "_append_event", lambda *args: None)
        submission = store_preview(store, read, System("pattern"), "tester").id
    assert store.visible() == []
    for _ in range(2):
        assert store_preview(store, read, System("pattern"), "tester").existed
    assert store.visible() == [submission]
    assert [event.action for event in store.events] == ["stored"] and store.check() == []


def test_the_same_answers_scored_in_two_modes_are_two_rows(store: Store, read: Preview) -> None:
    repaired = replace(read, result=replace(read.result, mode="repaired"))
    ids = [store_preview(store, each, System("pattern"), "tester").id for each in (read, repaired)]
    assert store.visible() == ids and len(set(ids)) == 2


def test_a_deleted_file_is_named(store: Store, read: Preview) -> None:
    folder = folder_of(store, store_preview(store, read, System("pattern"), "tester").id)
    for file in sorted(folder.iterdir()):
        whole = file.read_bytes()
        file.unlink()
        (problem,) = store.check()
        assert str(file) in problem
        file.write_bytes(whole)
    assert store.check() == []


@pytest.mark.parametrize("problem", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_or_quota_refuses_clearly_and_leaves_nothing(
    problem: int, store: Store, read: Preview, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(problem, os.strerror(problem))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(BusyError, match="storage is full"):
            store_preview(store, read, System("pattern"), "tester")
    assert store.visible() == [] and not list(store.root.glob("submissions/*/*"))
    assert not list(store.root.glob("partial/*"))
    assert store_preview(store, read, System("pattern"), "tester").existed is False


def test_an_event_that_was_exchanged_for_a_valid_one_is_found_by_the_next(store: Store, read: Preview) -> None:
    submission = store_preview(store, read, System("pattern"), "tester").id
    store.hide(submission, "maintainer", "trained on the test split")
    store.show(submission, "maintainer", "appeal granted")
    file = event_files(store)[1]
    file.write_bytes(replace(Event.from_bytes(file.read_bytes()), reason="asked for").to_bytes())
    (problem,) = store.check()
    assert "0000003.json does not follow the event before it" in problem
    assert store.visible() == [submission]


def test_a_damaged_event_is_said_and_the_other_rows_stay(store: Store, read: Preview) -> None:
    ids = [store_preview(store, read, System(f"system {n}"), "tester").id for n in range(3)]
    event_files(store)[1].write_bytes(b"\0" * 100)
    index = Index(store)
    index.update()
    assert store.visible() == [ids[0], ids[2]]
    assert any("0000002.json is damaged" in problem for problem in store.check())
    assert store.recover() == [ids[1]] and sorted(store.visible()) == sorted(ids)
    assert index.update() == 1 and len(index.dump().splitlines()) == 3
    store_preview(store, read, System("after"), "tester")
    event_files(store)[-1].write_bytes(b"")  # the newest one, whose number the next follows
    assert not store_preview(store, read, System("and after"), "tester").existed


def test_a_row_whose_files_are_not_all_there_waits_for_them(store: Store, read: Preview) -> None:
    first, second = (store_preview(store, read, System(f"system {n}"), "tester").id for n in range(2))
    file = folder_of(store, first) / "result.json"
    whole = file.read_bytes()
    file.unlink()
    index = Index(store)
    assert (index.update(), len(index.dump().splitlines())) == (1, 1)
    file.write_bytes(whole)
    assert (index.update(), len(index.dump().splitlines())) == (1, 2)
    assert store.visible() == [first, second]


def test_a_copied_store_writes_a_history_of_its_own(tmp_path: Path, store: Store, read: Preview) -> None:
    store_preview(store, read, System("first"), "tester")
    shutil.copytree(store.root, tmp_path / "copy")
    copy = Store(tmp_path / "copy")
    for each, name in ((store, "here"), (copy, "there"), (copy, "there again")):
        store_preview(each, read, System(name), "tester")
    assert len(store.events.writers()) == 1 and len(copy.events.writers()) == 2


def test_what_is_done_later_comes_later_though_another_clock_is_ahead(
    tmp_path: Path, store: Store, read: Preview
) -> None:
    ahead = Store(tmp_path / "ahead")
    submission = store_preview(ahead, read, System("a"), "tester").id
    (file,) = event_files(ahead)
    event = replace(Event.from_bytes(file.read_bytes()), time="2999-01-01T00:00:00.000000+00:00")
    shutil.copytree(ahead.root / "submissions", store.root / "submissions")
    assert store.events.receive(event.path, event.to_bytes())
    store.hide(submission, "maintainer", "asked for")
    store.show(submission, "maintainer", "appeal granted")
    store.hide(submission, "maintainer", "again")
    assert [each.action for each in store.events] == ["stored", "hidden", "shown", "hidden"]
    assert store.visible() == []


@pytest.mark.parametrize("call", ["fsync", "link", "rename", "mkdir"])
def test_wherever_a_disk_is_found_full_there_is_a_receipt_with_its_row_or_neither(
    call: str, tmp_path: Path, read: Preview, monkeypatch: pytest.MonkeyPatch
) -> None:
    works, outcomes = getattr(os, call), set()
    for fails_at in range(40):
        store, calls = Store(tmp_path / f"{call} {fails_at}"), 0
        store_preview(store, read, System("before"), "tester")

        def full(*arguments: object, fails_at: int = fails_at, **options: object) -> object:
            nonlocal calls
            calls += 1
            if calls == fails_at + 1:
                raise OSError(errno.ENOSPC, "full")
            return works(*arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(os, call, full)
            try:
                acknowledged = bool(store_preview(store, read, System("pattern"), "tester").id)
            except BusyError:
                acknowledged = False
        store.recover()
        assert len(store.visible()) == 1 + acknowledged and store.check() == []
        outcomes.add(acknowledged)
        if calls <= fails_at:
            break
    assert outcomes == {True, False}


def test_a_damaged_index_is_made_again(store: Store, read: Preview) -> None:
    store_preview(store, read, System("pattern"), "tester")
    index = Index(store)
    index.update()
    for suffix in ("-wal", "-shm"):
        Path(f"{index.file.path}{suffix}").unlink(missing_ok=True)
    index.file.path.write_bytes(b"no database" * 1000)
    assert (index.update(), len(index.dump().splitlines())) == (1, 1)


def test_an_index_without_room_goes_on_in_memory(store: Store, read: Preview, monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index(store)
    index.update()
    connect = sqlite3.connect

    def small(*arguments: Any, **options: Any) -> sqlite3.Connection:
        db = connect(*arguments, **options)
        if arguments[0] == index.file.path:
            n_pages = db.execute("PRAGMA page_count").fetchone()[0]
            db.execute(f"PRAGMA max_page_count = {n_pages}")
        return db

    monkeypatch.setattr(sqlite3, "connect", small)
    ids = [store_preview(store, read, System(f"system {n}"), "tester").id for n in range(9)]
    assert (index.update(), len(index.dump().splitlines())) == (9, 9)
    assert [row.record.id for place in index.places() for row in index.rows(place)] == ids


def test_an_index_that_takes_long_says_how_far_it_is(
    store: Store, read: Preview, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("kbbench_hf.leaderboard.events.PER_FOLDER", 2)
    for number in range(5):
        store_preview(store, read, System(f"system {number}"), "tester")
    index = Index(store)
    monkeypatch.setattr("kbbench_hf.leaderboard.index.SECONDS_BETWEEN_WORDS", -1.0)
    assert index.update() == 5
    assert [each.message.partition(": ")[2] for each in caplog.records][-1] == "3 events are taken in, and it goes on"


def test_processes_that_name_a_copy_of_the_store_at_once_have_one_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, other, link = EventLog(tmp_path / "events"), EventLog(tmp_path / "events"), os.link

    def late(source: Path, target: Path) -> None:
        monkeypatch.setattr(os, "link", link)
        other.append("stored", "a" * 32, "0" * 64, "ada")
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    here.append("stored", "b" * 32, "0" * 64, "ben")
    assert len(here.writers()) == 1 and [event.actor for event in here] == ["ada", "ben"]
    assert here.problems() == [] and not list(tmp_path.glob(".writer*"))
