"""What whoever runs a board does with its store: on a disk, and on the Hub through a copy on a disk."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from kbbench_hf.benchmarks import shipped_dataset
from kbbench_hf.leaderboard.store import Store, System
from kbbench_hf.leaderboard.submissions import preview, store_preview
from tests.end_to_end.cli.conftest import Command
from tests.servers.hub import TOKEN, LocalHub, local_hub

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content:DeprecationWarning")  # within huggingface_hub
PATTERN = shipped_dataset("mini-text2kg").path / "predictions" / "pattern.jsonl"
REPO = "kbbench/results"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    with local_hub() as server:
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        place = f"{server.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", place)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield server


@pytest.fixture
def ids(in_tmp: Path) -> list[str]:
    """Three rows in the store `board`."""
    read = preview(PATTERN, "mini-text2kg")
    return [store_preview(Store(Path("board")), read, System(f"system {n}"), "tester").id for n in range(3)]


def files(hub: LocalHub, name: str = REPO) -> dict[str, bytes]:
    found = hub.repos["dataset", name].at("main")
    assert found
    return found[1]


def test_a_store_is_sent_said_fetched_and_moved(kbbench: Command, hub: LocalHub, ids: list[str]) -> None:
    said = kbbench("leaderboard", "sync", "--store", "board", "--results", REPO)
    assert said.code == 0 and "uploaded 18 files" in said.out, said
    assert f"backlog: 0 submissions in 0 files wait for {REPO}" in said.out
    assert "on the Hub: 3 of the local submissions; only there: 0" in said.out
    said = kbbench("leaderboard", "sync", "--store", "copy", "--results", REPO, "--dry-run")
    assert said.code == 0 and "only there: 3" in said.out and not Path("copy/submissions").exists()
    said = kbbench("leaderboard", "sync", "--store", "copy", "--results", REPO)
    assert said.code == 0 and "downloaded 3 submissions and 3 events" in said.out and "uploaded 0 files" in said.out
    assert kbbench("leaderboard", "sync", "--store", "copy", "--results", "kbbench/other").code == 0
    assert files(hub, "kbbench/other") == files(hub)


def test_the_backlog_is_said_before_it_is_sent(kbbench: Command, hub: LocalHub, ids: list[str]) -> None:
    assert kbbench("leaderboard", "sync", "--store", "board", "--results", REPO).code == 0
    store_preview(Store(Path("board")), preview(PATTERN, "mini-text2kg"), System("late"), "tester")
    said = kbbench("leaderboard", "sync", "--store", "board", "--results", REPO, "--dry-run")
    assert said.code == 0 and f"backlog: 1 submissions in 6 files wait for {REPO}" in said.out
    said = kbbench("leaderboard", "fsck", "--store", "board", "--results", REPO)
    assert said.code == 0 and "backlog: 1 submissions wait for the Hub" in said.out
    advice = said.out.split("send them: kbbench ")[1].splitlines()[0]
    assert kbbench(*advice.split()).code == 0
    said = kbbench("leaderboard", "fsck", "--store", "board", "--results", REPO)
    assert said.code == 0 and "backlog: 0 " in said.out


def test_a_row_on_the_hub_is_taken_off_the_board_and_put_back_without_its_store_at_hand(
    kbbench: Command, hub: LocalHub, ids: list[str]
) -> None:
    kbbench("leaderboard", "sync", "--store", "board", "--results", REPO)
    hidden = kbbench("leaderboard", "rollback", ids[0], "--reason", "copied", "--store", "mine", "--results", REPO)
    assert hidden.code == 0 and f"{ids[0]} is off the board" in hidden.out
    assert len(list(Path("mine").glob("submissions/*/*"))) == 1
    kbbench("leaderboard", "sync", "--store", "board", "--results", REPO)
    assert Store(Path("board")).visible() == ids[1:]
    said = kbbench("leaderboard", "audit", "--store", "fresh", "--results", REPO)
    assert said.out.count("stored") == 3 and said.out.count("copied") == 1
    kbbench("leaderboard", "rollback", ids[0], "--undo", "--reason", "it was not", "--store", "m", "--results", REPO)
    kbbench("leaderboard", "sync", "--store", "board", "--results", REPO)
    assert Store(Path("board")).visible() == ids


def test_what_is_damaged_here_and_there_is_found_and_each_mended_from_the_other(
    kbbench: Command, hub: LocalHub, ids: list[str]
) -> None:
    kbbench("leaderboard", "sync", "--store", "board", "--results", REPO)
    store, whole = Store(Path("board")), files(hub)
    folders = [store.path(each) for each in ids]
    events = [event.path for event in store.events]
    altered = whole[f"{folders[1]}/record.json"].replace(b"system 1", b"system I")
    there = {f"{folders[1]}/record.json": altered, events[1]: whole[events[1]].replace(b"tester", b"teste2")}
    hub.repos["dataset", REPO].commit("main", {**whole, **there})
    (store.root / folders[0] / "result.json").write_bytes(b"{}")
    (store.root / folders[2] / "scores.jsonl.gz").unlink()
    (store.root / events[2]).write_bytes(b"")
    said = kbbench("leaderboard", "fsck", "--store", "board", "--results", REPO)
    assert said.code == 1 and "record.json on the Hub is not the file here" in said.out
    assert f"{folders[0]}/result.json is not the file that was stored" in said.out
    said = kbbench("leaderboard", "fsck", "--recover", "--store", "board", "--results", REPO)
    assert said.code == 0 and "0 problems" in said.out, said.out
    assert files(hub) == whole and store.visible() == ids


def test_a_store_alone_is_mended_as_far_as_it_goes_and_says_from_where_the_rest_can_be_had(
    kbbench: Command, ids: list[str]
) -> None:
    events = [event.path for event in Store(Path("board")).events]
    Path("board", events[2]).unlink()
    shutil.rmtree(Path("board") / Store(Path("board")).path(ids[0]))
    said = kbbench("leaderboard", "fsck", "--store", "board")
    assert said.code == 1 and "has no event" in said.out and "is missing or damaged" in said.out
    assert "kbbench leaderboard fsck --recover --store board --results OWNER/NAME" in said.out
    said = kbbench("leaderboard", "fsck", "--recover", "--store", "board")
    assert said.code == 1 and "1 submissions recovered" in said.out
    assert Store(Path("board")).visible() == ids[1:]


@pytest.mark.parametrize("command", ["sync --dry-run", "audit", "fsck", "rescore --all"])
def test_a_dataset_that_is_not_there_is_named(kbbench: Command, hub: LocalHub, command: str) -> None:
    said = kbbench("leaderboard", *command.split(), "--store", "board", "--results", "kbbench/absent")
    assert said.code == 2 and "'kbbench/absent'" in said.err
    assert ("dataset", "kbbench/absent") not in hub.repos


def test_a_hub_that_is_down_is_said_and_costs_nothing(kbbench: Command, hub: LocalHub, ids: list[str]) -> None:
    hub.fault = lambda method, path: "timeout"
    said = kbbench("leaderboard", "sync", "--store", "board", "--results", REPO)
    assert said.code == 1 and "cannot be reached" in said.err
    assert Store(Path("board")).visible() == ids


def test_a_counter_that_comes_out_otherwise_is_found(kbbench: Command, ids: list[str]) -> None:
    store = Store(Path("board"))
    file = store.root / store.path(ids[0]) / "result.json"
    assert kbbench("leaderboard", "rescore", ids[0], "--store", "board").code == 0
    result = json.loads(file.read_text())
    result["counters"]["n_missing"] = 1
    file.write_text(json.dumps(result))
    said = kbbench("leaderboard", "rescore", ids[0], "--store", "board")
    assert said.code == 1 and "counters differ: n_missing 1, now 0" in said.out
