"""What was acknowledged is there, once, whole, and provably unchanged."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kbbench_hf.benchmarks import TaskKey
from kbbench_hf.errors import UsageError
from kbbench_hf.leaderboard.events import Event
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.store import Receipt, Store, System, fingerprint
from kbbench_hf.leaderboard.submissions import Preview, store_preview

WRITER = """
import sys
from pathlib import Path
from kbbench_hf.leaderboard.store import Receipt, System
from kbbench_hf.leaderboard.store import Store
from kbbench_hf.leaderboard.submissions import preview, store_preview
read, store = preview(Path(sys.argv[1]), "mini-text2kg"), Store(Path(sys.argv[2]))
print("ready", flush=True)
for n in range(int(sys.argv[4])):
    print(store_preview(store, read, System(f"{sys.argv[3]}-{n}"), "tester").id, flush=True)
"""


def test_a_stored_submission_can_be_read_back_to_the_last_bit(store: Store, read: Preview) -> None:
    receipt = store_preview(store, read, System("pattern", parameters_b=0.5), "tester")
    assert store.result(receipt.id) == read.result.to_dict()
    assert store.record(receipt.id).system == System("pattern", parameters_b=0.5)
    assert np.array_equal(store.values(receipt.id, "f1"), read.result.values["f1"], equal_nan=True)
    assert store.check() == []


def test_the_same_submission_twice_is_one_row(store: Store, read: Preview) -> None:
    first = store_preview(store, read, System("pattern"), "tester")
    again = store_preview(store, read, System("pattern"), "tester")
    assert (again.id, first.existed, again.existed) == (first.id, False, True)
    assert store.visible() == [first.id]


def test_nobody_can_send_an_owners_row_before_the_owner(store: Store, read: Preview) -> None:
    squatted = store_preview(store, read, System("pattern"), "a squatter")
    own = store_preview(store, read, System("pattern", link="https://example.org"), "tester")
    assert not own.existed and store.visible() == [squatted.id, own.id]
    assert store.record(own.id).system.link == "https://example.org"


def test_the_same_answers_on_repaired_data_are_another_row(store: Store, read: Preview) -> None:
    repaired = replace(read, result=replace(read.result, dataset_revision="0" * 40))
    assert not any(store_preview(store, each, System("pattern"), "tester").existed for each in (read, repaired))
    assert len(store.visible()) == 2


def test_a_row_whose_id_was_made_without_its_submitter_is_found_by_its_owner_alone(store: Store, read: Preview) -> None:
    identity = json.dumps((*read.result.task_key, "pattern", read.result.predictions_sha256))
    old = hashlib.sha256(identity.encode()).hexdigest()[:32]
    folder = store.root / "submissions" / old[:2] / old
    new = store_preview(store, read, System("pattern"), "tester").id
    folder.parent.mkdir()
    shutil.move(store.root / "submissions" / new[:2] / new, folder)
    values = json.loads((folder / "record.json").read_bytes())
    del values["vouched_by"]  # as records were
    (folder / "record.json").write_text(json.dumps({**values, "id": old}))
    shutil.rmtree(store.root / "events")
    assert store_preview(store, read, System("pattern"), "tester") == Receipt(
        old, existed=True
    ) and store.visible() == [old]
    assert not store_preview(store, read, System("pattern"), "somebody else").existed


def test_other_predictions_or_another_name_are_another_row(store: Store, read: Preview, other: Preview) -> None:
    ids = {store_preview(store, each, System(name), "tester").id for each in (read, other) for name in ("a", "b")}
    assert len(ids) == 4


def test_hiding_keeps_the_files_and_a_resubmission_does_not_bring_it_back(store: Store, read: Preview) -> None:
    receipt = store_preview(store, read, System("pattern"), "tester")
    store.hide(receipt.id, "maintainer", "trained on the test split")
    store_preview(store, read, System("pattern"), "tester")
    assert store.visible() == []
    assert store.result(receipt.id)
    store.show(receipt.id, "maintainer", "appeal granted")
    assert store.visible() == [receipt.id]
    assert [event.reason for event in store.events] == ["", "trained on the test split", "appeal granted"]


def test_fifty_writers_at_once_store_fifty_rows(store: Store, read: Preview) -> None:
    with ThreadPoolExecutor(50) as pool:
        receipts = list(pool.map(lambda n: store_preview(store, read, System(f"system {n}"), "tester"), range(50)))
    assert len({receipt.id for receipt in receipts}) == 50
    assert sorted(store.visible()) == sorted(receipt.id for receipt in receipts)
    assert store.check() == []


def test_fifty_writers_of_the_same_submission_store_one_row(store: Store, read: Preview) -> None:
    with ThreadPoolExecutor(50) as pool:
        ids = set(pool.map(lambda _: store_preview(store, read, System("one"), "tester").id, range(50)))
    assert store.visible() == [*ids] and store.check() == []


def test_kills_lose_nothing_that_was_acknowledged(store: Store, upload: Path) -> None:
    generator = random.Random(5)  # seed 5
    acknowledged = set()
    commands = [
        [sys.executable, "-c", WRITER, str(upload), str(store.root), f"trial {trial}", "500"] for trial in range(4)
    ]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]  # all at once
    for each in writers:
        with each as writer:
            assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
            time.sleep(generator.uniform(0.02, 0.3))
            os.kill(writer.pid, signal.SIGKILL)
            acknowledged |= {line.strip() for line in writer.stdout if len(line) == 33}
    store.recover()
    visible = store.visible()
    assert acknowledged <= set(visible) and len(visible) == len(set(visible))
    assert store.check() == []
    index = Index(store)
    index.update()
    before = index.dump()
    index.rebuild()
    assert index.dump() == before


def test_a_submission_without_its_event_is_recovered(
    store: Store, read: Preview, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Store, "_append_event", lambda *args: None)
        receipt = store_preview(store, read, System("pattern"), "tester")
    assert store.visible() == [] and store.check() != []
    assert store.recover() == [receipt.id]
    assert store.visible() == [receipt.id] and store.check() == []


def test_every_altered_byte_is_found(store: Store, read: Preview) -> None:
    for n in range(3):
        store_preview(store, read, System(f"system {n}"), "tester")
    generator = random.Random(3)  # seed 3
    files = [file for folder in ("submissions", "events") for file in sorted((store.root / folder).rglob("*.*"))]
    for _ in range(100):
        file = generator.choice(files)
        whole = file.read_bytes()
        position = generator.randrange(len(whole))
        file.write_bytes(
            whole[:position] + bytes([whole[position] ^ (1 << generator.randrange(8))]) + whole[position + 1 :]
        )
        assert store.check(), f"byte {position} of {file} was altered unnoticed"
        file.write_bytes(whole)
    assert store.check() == []


def test_a_removed_event_is_found(store: Store, read: Preview) -> None:
    for n in range(3):
        store_preview(store, read, System(f"system {n}"), "tester")
    next(store.root.glob("events/*/0000/0000002.json")).unlink()
    assert any("Event 2 is missing" in problem for problem in store.check())
    assert len(store.visible()) == 2 and len(store.recover()) == 1 and len(store.visible()) == 3


def test_the_index_takes_in_only_what_is_new(store: Store, read: Preview) -> None:
    index = Index(store)
    first = store_preview(store, read, System("a"), "tester")
    assert (index.update(), index.update()) == (1, 0)
    store_preview(store, read, System("b"), "tester")
    store.hide(first.id, "maintainer", "asked for")
    assert index.update() == 2
    rows = index.rows(TaskKey("mini-text2kg", "sentences", "test", "reference"))
    assert [row.record.system.name for row in rows] == ["b"]
    before = index.dump()
    index.rebuild()
    assert index.dump() == before


def test_the_index_reads_again_only_the_rows_that_something_happened_to(store: Store, read: Preview) -> None:
    index, place = Index(store), read.result.task_key
    ids = [store_preview(store, read, System(name), "tester").id for name in "ab"]
    index.update()
    before = index.rows(place)
    assert all(one is other for one, other in zip(before, index.rows(place), strict=True))
    store.edit(ids[1], System("b", notes="corrected"), "tester")
    index.update()
    after = index.rows(place)
    assert after[0] is before[0] and after[1].record.system.notes == "corrected"
    (store.root / "index.sqlite").write_bytes(b"damaged")  # another process makes it again, with numbers of its own
    Index(store).update()
    assert [row.record for row in index.rows(place)] == [row.record for row in after]


def test_an_id_cannot_leave_the_store(store: Store) -> None:
    for submission in ("../../etc/passwd", "A" * 32, "0" * 31, ""):
        with pytest.raises(UsageError, match="not a submission id"):
            store.record(submission)
    with pytest.raises(UsageError, match="No submission"):
        store.record("0" * 32)


def test_an_event_survives_its_file() -> None:
    event = Event(
        "a1",
        1,
        "stored",
        "a" * 32,
        "b" * 64,
        "tester",
        "with “quotes” and\nlines",
        "2026-01-01T00:00:00.000+00:00",
        "0" * 64,
    )
    assert Event.from_bytes(event.to_bytes()) == event


def test_two_machines_histories_merge_in_any_order_of_arrival(tmp_path: Path, read: Preview) -> None:
    first, second, third = (Store(tmp_path / name) for name in ("first", "second", "third"))
    ids = [store_preview(store, read, System(f"system {n}"), "tester").id for n, store in enumerate((first, second))]
    store_preview(second, read, System("system 0"), "tester")  # the same submission on the other machine
    second.hide(ids[0], "maintainer", "asked for")
    dumps = []
    for order in ((first, second), (second, first)):
        shutil.rmtree(third.root, ignore_errors=True)
        index = Index(third)
        for store in order:
            for part in ("submissions", "events"):
                shutil.copytree(store.root / part, third.root / part, dirs_exist_ok=True)
            index.update()
        dumps.append(index.dump())
        assert third.visible() == [ids[1]] and third.check() == []
        index.rebuild()
        assert index.dump() == dumps[-1]
    assert dumps[0] == dumps[1]


def test_two_submitters_of_the_same_on_two_machines_are_two_rows(tmp_path: Path, read: Preview) -> None:
    first, second = Store(tmp_path / "first"), Store(tmp_path / "second")
    ids = {store_preview(each, read, System("a"), name).id for each, name in ((first, "tester"), (second, "other"))}
    shutil.copytree(second.root, first.root, dirs_exist_ok=True)
    assert set(first.visible()) == ids and len(ids) == 2 and first.check() == []


def test_each_machine_writes_its_own_history(tmp_path: Path, read: Preview) -> None:
    stores = [Store(tmp_path / name) for name in ("first", "second")]
    for store in stores:
        store_preview(store, read, System("a"), "tester")
        store_preview(Store(store.root), read, System("b"), "tester")
    assert [len(store.events.writers()) for store in stores] == [1, 1]
    assert stores[0].events.writers() != stores[1].events.writers()


def test_fingerprints_are_those_that_indexes_store() -> None:
    """Where this fails on purpose, raise `index.VERSION`: an index with fingerprints of two kinds finds no copies."""
    lines: list[dict[str, object]] = [
        {"id": 1, "triples": [["A b", "r", "c"], ["d", "r", "e"]]},
        {"id": "q2", "answers": ["Élan vital", "Élan  Vital!"]},
        {"id": 3, "ids": list(range(12))},
    ]
    assert fingerprint(lines) == ["3fe77cd6c8ae", "7eb63969ab4a", "5011868421e4"]
    ranking = {"id": 3, "ids": [*range(10), 98, 99]}
    assert fingerprint([ranking]) == fingerprint(lines[2:]) != fingerprint([{"id": 3, "ids": [1, 0, *range(2, 10)]}])
    many = [{"id": n, "answers": ["a"]} for n in range(512)]
    assert [len(fingerprint(many[:n])) for n in (0, 3, 511, 512)] == [0, 3, 16, 64]
