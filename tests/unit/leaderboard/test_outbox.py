"""What is stored reaches the Hub exactly once, whatever the Hub answers."""

import random
from pathlib import Path
from typing import Any

import httpx
import pytest
from huggingface_hub.errors import HfHubHTTPError

from kbbench_hf.leaderboard.outbox import FILES_PER_COMMIT, Outbox
from kbbench_hf.leaderboard.store import Store, System
from kbbench_hf.leaderboard.submissions import Preview, store_preview


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Hub:
    """The three calls an outbox makes, answered from memory, with faults."""

    def __init__(self, clock: Clock, fault_rate: float) -> None:
        self.clock, self.generator, self.fault_rate = clock, random.Random(9), fault_rate  # seed 9
        self.files: dict[str, bytes] = {}
        self.writes: dict[str, int] = {}
        self.commit_times: list[float] = []

    def create_repo(self, repo_id: str, **options: Any) -> None:
        pass

    def list_repo_files(self, repo_id: str, **options: Any) -> list[str]:
        return list(self.files)

    def create_commit(self, repo_id: str, operations: list[Any], **options: Any) -> None:
        self.commit_times.append(self.clock.now)
        assert len(operations) <= FILES_PER_COMMIT
        fault = self.generator.choice(["409", "412", "429", "500 committed", "timeout"])
        failing = self.generator.random() < self.fault_rate
        if not failing or fault == "500 committed":
            for operation in operations:
                self.files[operation.path_in_repo] = Path(operation.path_or_fileobj).read_bytes()
                self.writes[operation.path_in_repo] = self.writes.get(operation.path_in_repo, 0) + 1
        if failing and fault == "timeout":
            raise TimeoutError
        if failing:
            status = int(fault[:3])
            raise HfHubHTTPError(fault, response=httpx.Response(status, request=httpx.Request("POST", "http://hub")))


def fill(store: Store, n: int) -> None:
    for number in range(n):
        folder = store.root / "submissions" / f"{number % 256:02x}" / f"{number:032x}"
        folder.mkdir(parents=True)
        for name in ("record.json", "predictions.jsonl.gz", "result.json", "scores.jsonl.gz"):
            (folder / name).write_text(f"{number} {name}")
        event = store.root / "events" / "a1" / f"{number // 1000:04}" / f"{number + 1:07}.json"
        event.parent.mkdir(parents=True, exist_ok=True)
        event.write_text(str(number))


def test_faults_neither_lose_nor_duplicate_a_file_and_the_rate_is_kept(store: Store) -> None:
    clock = Clock()
    hub = Hub(clock, fault_rate=0.3)
    fill(store, 300)
    Outbox(store, "kbbench/results", hub, clock.time, clock.sleep).flush()
    assert hub.files == {
        file.relative_to(store.root).as_posix(): file.read_bytes() for file in store.root.rglob("*") if file.is_file()
    }
    assert set(hub.writes.values()) == {1}
    for start in hub.commit_times:
        assert sum(start <= moment < start + 3600 for moment in hub.commit_times) <= 60


def test_nothing_pending_sends_nothing(store: Store) -> None:
    clock = Clock()
    hub = Hub(clock, fault_rate=0)
    fill(store, 3)
    outbox = Outbox(store, "kbbench/results", hub, clock.time, clock.sleep)
    assert (outbox.flush(), outbox.flush(), len(hub.commit_times)) == (15, 0, 1)


def test_a_restarted_outbox_asks_what_the_hub_holds(store: Store) -> None:
    clock = Clock()
    hub = Hub(clock, fault_rate=0)
    fill(store, 3)
    Outbox(store, "kbbench/results", hub, clock.time, clock.sleep).flush()
    assert Outbox(store, "kbbench/results", hub, clock.time, clock.sleep).pending() == []


def test_a_hub_that_stays_down_is_reported_and_everything_stays_pending(store: Store) -> None:
    clock = Clock()
    hub = Hub(clock, fault_rate=1)
    hub.generator.choice = lambda faults: "timeout"  # type: ignore[method-assign]
    fill(store, 3)
    outbox = Outbox(store, "kbbench/results", hub, clock.time, clock.sleep)
    with pytest.raises(TimeoutError):
        outbox.flush()
    assert len(outbox.pending()) == 15


def test_a_submission_is_durable_when_all_of_it_and_its_event_are_on_the_hub(store: Store, read: Preview) -> None:
    clock = Clock()
    hub = Hub(clock, fault_rate=0)
    outbox = Outbox(store, "kbbench/results", hub, clock.time, clock.sleep)
    first = store_preview(store, read, System("first"), "tester").id
    assert outbox.durable() == set() and outbox.minutes() is None
    outbox.flush()
    store_preview(store, read, System("second"), "tester")
    assert outbox.durable() == {first} and outbox.minutes() == 1
    assert outbox.state(first) == "Saved, on the Hub."
    assert outbox.state("0" * 32) == "Saved here, on the Hub within 1 minute."
