"""What is stored reaches the Hub, whole and once, whatever the Hub answers; and a machine that lost its disk gets it.

The client is huggingface_hub's own, over HTTP; only the time is not real.
"""

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub import HfApi

from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.outbox import COMMITS_AT_ONCE, Outbox
from kbbench_hf.leaderboard.store import Store, System
from kbbench_hf.leaderboard.submissions import Preview, store_preview
from tests.servers.clock import Clock
from tests.servers.hub import TOKEN, LocalHub

REPO = "kbbench/results"
FAULTS = ("409", "412", "429", "500", "500-after-commit", "timeout")
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content:DeprecationWarning")  # within huggingface_hub
Fill = Callable[[Store, int], list[str]]


def sync(box: Outbox) -> int:
    """Takes from the Hub what others sent, and sends what it lacks; returns how many files were sent."""
    box.catch_up()
    return box.flush()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def outbox(hub: LocalHub, clock: Clock) -> Callable[[Store], Outbox]:
    """Makes the outbox of a store."""
    return lambda store: Outbox(store, REPO, HfApi(endpoint=hub.url, token=TOKEN), clock.time, clock.sleep)


@pytest.fixture
def fill(read: Preview, monkeypatch: pytest.MonkeyPatch) -> Fill:
    """Stores so many submissions, without waiting for the disk."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    return lambda store, n: [store_preview(store, read, System(f"{n} of {k}"), "tester").id for k in range(n)]


def files_of(store: Store) -> dict[str, bytes]:
    """Return what is to be on the Hub."""
    return {
        file.relative_to(store.root).as_posix(): file.read_bytes()
        for part in ("submissions", "events")
        for file in (store.root / part).rglob("*.*")
    }


def on_hub(hub: LocalHub) -> dict[str, bytes]:
    found = hub.repos["dataset", REPO].at("main")
    assert found
    return found[1]


def rows(store: Store) -> list[str]:
    """Return the ids on the board, and check that the index has them in the same order."""
    index = Index(store)
    index.update()
    shown = [row.record.id for place in index.places() for row in index.rows(place)]
    assert shown == store.visible()
    return shown


def test_each_submission_travels_whole_with_its_event_in_one_commit(
    hub: LocalHub, outbox: Callable[[Store], Outbox], store: Store, fill: Fill
) -> None:
    fill(store, 20)
    outbox(store).flush()
    assert on_hub(hub) == files_of(store)
    added = hub.repos["dataset", REPO].added()
    assert [len(files) for files in added] == [96, 24]
    for files in added:
        per_submission = Counter(path.split("/")[2] for path in files if path.startswith("submissions/"))
        assert set(per_submission.values()) == {5}
        assert len(per_submission) == sum(path.startswith("events/") for path in files)


def test_killed_after_any_commit_and_its_disk_lost_a_machine_shows_what_was_said_to_be_on_the_hub(
    hub: LocalHub,
    outbox: Callable[[Store], Outbox],
    tmp_path: Path,
    store: Store,
    fill: Fill,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kbbench_hf.leaderboard.outbox.FILES_PER_COMMIT", 24)
    ids = fill(store, 9)
    box, said = outbox(store), [set[str]()]
    for _ in range(3):
        box.repository.refresh(create=True)
        box._commit(*box._next_commit())
        box._update_durable()
        said.append(box.durable())
    assert [len(each) for each in said] == [0, 4, 8, 9] and box.durable() == set(ids)
    for n_commits, durable in enumerate(said):
        hub.repos["dataset", REPO].refs["main"] = n_commits
        fresh = Store(tmp_path / f"fresh {n_commits}")
        again = outbox(fresh)
        again.fetch()
        assert set(rows(fresh)) == durable == again.durable() and fresh.check() == []


@pytest.mark.parametrize("seed", range(3))
def test_a_truncated_and_reordered_history_bricks_nothing_and_loses_no_whole_submission(
    hub: LocalHub,
    outbox: Callable[[Store], Outbox],
    tmp_path: Path,
    store: Store,
    fill: Fill,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kbbench_hf.leaderboard.outbox.FILES_PER_COMMIT", 24)
    fill(store, 20)
    box = outbox(store)
    box.flush()
    repository, generator = hub.repos["dataset", REPO], random.Random(seed)
    commits = repository.added()
    kept = generator.sample(commits, 3)
    torn = generator.choice([files for files in commits if files not in kept])
    kept.append(dict(generator.sample(sorted(torn.items()), len(torn) // 2)))
    repository.replay(kept)
    fresh = Store(tmp_path / "fresh")
    again = outbox(fresh)
    sync(again)
    whole = {path.split("/")[2] for files in kept[:3] for path in files if path.endswith("record.json")}
    assert whole <= set(rows(fresh)) == again.durable()
    sync(box)  # the machine that has all of it sends what is lacking
    assert {path: on_hub(hub)[path] for path in files_of(store)} == files_of(store)
    assert box.durable() == set(store.visible())
    sync(again)
    assert rows(fresh) == rows(store)


def test_faults_neither_lose_nor_duplicate_a_file_and_the_rate_is_kept(
    hub: LocalHub, outbox: Callable[[Store], Outbox], clock: Clock, store: Store, fill: Fill
) -> None:
    generator, commits = random.Random(9), list[float]()

    def fault(method: str, path: str) -> str | None:
        if "/commit/" in path:
            commits.append(clock.now)
        asked = ("/commit/" in path or "/preupload/" in path) and generator.random() < 0.4
        return generator.choice(FAULTS) if asked else None

    hub.fault = fault
    fill(store, 30)
    box = outbox(store)
    box._most = 12
    box.flush()
    hub.fault = lambda method, path: None
    assert on_hub(hub) == files_of(store) and len(box.durable()) == 30
    written = Counter(path for files in hub.repos["dataset", REPO].added() for path in files)
    assert set(written.values()) == {1}
    assert max(sum(start <= each < start + 3600 for each in commits) for start in commits) <= 60 + COMMITS_AT_ONCE


def test_a_backlog_goes_at_once_and_then_one_commit_a_minute(
    hub: LocalHub, outbox: Callable[[Store], Outbox], clock: Clock, store: Store, fill: Fill
) -> None:
    fill(store, 3)
    box = outbox(store)
    for _ in range(COMMITS_AT_ONCE):
        box._wait()
    assert clock.now == 0 and box.flush() == 18
    assert 60 <= clock.now < 61


def test_nothing_pending_sends_nothing_and_a_restarted_outbox_asks_what_the_hub_holds(
    hub: LocalHub, outbox: Callable[[Store], Outbox], store: Store, fill: Fill
) -> None:
    fill(store, 3)
    box = outbox(store)
    assert (sync(box), sync(box), sync(outbox(store))) == (18, 0, 0)
    assert len(hub.repos["dataset", REPO].added()) == 1


def test_a_hub_that_stays_down_is_reported_and_everything_stays_pending_and_is_sent_later(
    hub: LocalHub, outbox: Callable[[Store], Outbox], store: Store, fill: Fill
) -> None:
    (submission,) = fill(store, 1)
    box = outbox(store)
    hub.fault = lambda method, path: "timeout"
    with pytest.raises(Exception, match="disconnected"):
        box.flush()
    assert len(box.pending()) == 6 and box.durable() == set()
    assert box.state(submission) == "Saved here; the Hub does not respond now, and will get it later."
    hub.fault = lambda method, path: "500" if "/commit/" in path else None
    with pytest.raises(Exception, match="500"):
        box.flush()
    hub.fault = lambda method, path: None
    sync(box)
    assert box.durable() == {submission}


def test_a_submission_that_the_hub_refuses_does_not_keep_the_others_from_it(
    hub: LocalHub, outbox: Callable[[Store], Outbox], store: Store, fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = fill(store, 5)
    box = outbox(store)
    send = box.repository.commit

    def commit(files: dict[str, Path], message: str) -> None:
        hub.fault = lambda method, path: "413" if "/commit/" in path and any(ids[2] in each for each in files) else None
        send(files, message)

    monkeypatch.setattr(box.repository, "commit", commit)
    box.flush()
    assert box.durable() == {*ids} - {ids[2]} and len(box.pending()) == 6


def test_a_submission_is_durable_when_all_of_it_and_its_event_are_on_the_hub(
    hub: LocalHub, outbox: Callable[[Store], Outbox], store: Store, read: Preview
) -> None:
    box = outbox(store)
    first = store_preview(store, read, System("first"), "tester").id
    assert box.durable() == set() and box.minutes() is None
    box.flush()
    second = store_preview(store, read, System("second"), "tester").id
    assert box.durable() == {first} and box.minutes() == 1
    assert box.state(first) == "Saved, on the Hub."
    assert box.state(second) == "Saved here, on the Hub within 1 minute."
    repository = hub.repos["dataset", REPO]
    (path,) = (path for path in on_hub(hub) if path.startswith("events/"))
    repository.commit("main", {each: data for each, data in on_hub(hub).items() if each != path})
    box.repository.refresh()
    box._update_durable()
    assert box.durable() == set()
    sync(box)
    assert box.durable() == {first, second}


def test_two_machines_on_one_dataset_come_to_the_same_rows_in_the_same_order(
    hub: LocalHub, outbox: Callable[[Store], Outbox], tmp_path: Path, read: Preview
) -> None:
    stores = [Store(tmp_path / name) for name in ("first", "second")]
    boxes = [outbox(store) for store in stores]
    for number in range(6):  # both send on top of a commit that the other did not see
        store_preview(stores[number % 2], read, System(f"system {number}"), "tester")
    for notes, store in zip(("as the first machine heard it", "as the second did"), stores, strict=True):
        both = store_preview(store, read, System("both", notes=notes), "tester").id
    for box in (*boxes, *boxes):
        sync(box)
    assert rows(stores[0]) == rows(stores[1]) and len(rows(stores[0])) == 7
    assert [store.record(both).system.notes for store in stores] == ["as the first machine heard it"] * 2
    assert [store.check() for store in stores] == [[], []]
    stores[1].hide(both, "maintainer", "asked for")
    for box in reversed(boxes):
        sync(box)
    assert both not in rows(stores[0]) and rows(stores[0]) == rows(stores[1])


def test_what_is_damaged_on_the_hub_is_said_and_mended_by_a_machine_that_has_it(
    hub: LocalHub, outbox: Callable[[Store], Outbox], tmp_path: Path, store: Store, fill: Fill
) -> None:
    ids = fill(store, 4)
    box = outbox(store)
    box.flush()
    events = [event.path for event in store.events]
    folders = [store.path(each) for each in ids]
    damaged = {events[0]: b"{}", f"{folders[1]}/result.json": b"{", f"{folders[2]}/record.json": b"[]"}
    lost = f"{folders[3]}/scores.jsonl.gz"
    files = {path: damaged.get(path, data) for path, data in on_hub(hub).items() if path != lost}
    hub.repos["dataset", REPO].commit("main", files)
    fresh = Store(tmp_path / "fresh")
    done = outbox(fresh).fetch()
    assert done.recovered == [ids[0]] and rows(fresh) == [ids[0]]
    assert sorted(problem.split(" on the Hub ")[0] for problem in done.problems) == sorted([*damaged, lost])
    sync(box)
    assert box.durable() == set(ids) and {path: on_hub(hub)[path] for path in files_of(store)} == files_of(store)


def test_a_folder_that_an_interrupted_restore_left_is_made_whole(
    hub: LocalHub, outbox: Callable[[Store], Outbox], tmp_path: Path, store: Store, fill: Fill
) -> None:
    ids = fill(store, 2)
    outbox(store).flush()
    fresh = Store(tmp_path / "fresh")
    shutil.copytree(store.root / "submissions", fresh.root / "submissions")
    for name, submission in zip(("record.json", "result.json"), ids, strict=True):
        (fresh.root / fresh.path(submission) / name).unlink()
    assert rows(fresh) == []
    sync(outbox(fresh))
    assert rows(fresh) == ids and fresh.check() == []


def test_a_path_on_the_hub_that_leads_elsewhere_writes_nothing(
    hub: LocalHub, outbox: Callable[[Store], Outbox], tmp_path: Path, store: Store, fill: Fill
) -> None:
    (submission,) = fill(store, 1)
    outbox(store).flush()
    record = f"{store.path(submission)}/record.json"
    evil = on_hub(hub)[record].replace(b'"result.json"', b'"../../../../evil"')
    hub.repos["dataset", REPO].commit("main", {**on_hub(hub), record: evil, "events/../../x.json": b"{}"})
    fresh = Store(tmp_path / "deep" / "fresh")
    assert any("of something else" in problem for problem in outbox(fresh).fetch().problems)
    assert not list(tmp_path.rglob("evil*")) and rows(fresh) == []


def test_a_hub_that_accepts_connections_and_never_answers_counts_as_down(
    store: Store, hub: LocalHub, outbox: Callable[[Store], Outbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbbench_hf.hub.repository.ANSWER_S", 0.2)
    hub.fault = lambda method, path: "silence"
    with pytest.raises(Exception, match="timed out"):
        outbox(store).catch_up()
