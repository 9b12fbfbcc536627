"""A check is bounded in memory and time, and whoever sends little does not wait for whoever sends much."""

import asyncio
import gzip
import os
import pickle
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import pytest

from kbbench_hf.benchmarks import as_task_key
from kbbench_hf.errors import BusyError, DataError, UsageError
from kbbench_hf.leaderboard import checking
from kbbench_hf.leaderboard.checking import CAN_FORK, SMALL, Checks, TooLargeError, Upload, UploadLimits
from kbbench_hf.leaderboard.submissions import Preview
from tests.servers.hostile import GOOD, PLACE

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="nothing can be bounded where processes cannot fork")


@pytest.fixture(scope="module")
def checks() -> Iterator[Checks]:
    made = Checks()
    made.start()
    yield made
    made.close()


def check(checks: Checks, file: Path, logged_in: bool = True) -> Preview:
    return asyncio.run(checks.check(Upload(str(file), as_task_key(PLACE)), "tester", logged_in))


def test_a_check_is_what_reading_here_gives(checks: Checks, read: Preview, upload: Path) -> None:
    found = check(checks, upload, logged_in=False)
    assert found.result == read.result and found.predictions == read.predictions and found.gold == read.gold


def test_the_page_about_the_board_says_what_is_checked_without_login() -> None:
    about = (Path(checking.__file__).parents[1] / "app" / "about.md").read_text(encoding="utf-8")
    assert SMALL.upload_bytes == 1_000_000 and "Uploads above a megabyte" in about
    assert f"take more than {SMALL.seconds:g} s to score" in about


def test_an_error_has_the_words_that_it_has_here(checks: Checks, upload: Path) -> None:
    upload.write_bytes(GOOD.splitlines(keepends=True)[0])
    with pytest.raises(DataError, match=r"47 of 48 missing: ont_1_isles_test_2, .* and 42 more"):
        check(checks, upload)


def test_what_is_large_when_sent_or_unpacked_needs_a_login(checks: Checks, tmp_path: Path) -> None:
    large, packed = tmp_path / "large.jsonl", tmp_path / "packed.jsonl.gz"
    spaced = GOOD.replace(b"}\n", b"}" + b" " * 100_000 + b"\n")
    large.write_bytes(spaced)
    packed.write_bytes(gzip.compress(spaced))
    for file in (large, packed):
        with pytest.raises(UsageError, match="Sign in and try again"):
            check(checks, file, logged_in=False)
        with pytest.raises(UsageError, match="kbbench validate"):
            asyncio.run(checks.check(Upload(str(file), as_task_key(PLACE)), "tester", False, "Run: kbbench validate"))
        assert check(checks, file).result.counters["n_examples"] == 48


def test_what_needs_too_much_time_is_ended_and_the_next_is_checked(checks: Checks, upload: Path) -> None:
    hasty = SMALL._replace(seconds=0.001)
    with pytest.raises(checking.TooLargeError):
        asyncio.run(checks._forker.ask(hasty, Upload(str(upload), as_task_key(PLACE))))  # type: ignore[union-attr]
    assert check(checks, upload)


def test_waiting_for_a_busy_machine_is_no_reason_to_refuse(checks: Checks, upload: Path) -> None:
    pid = checks._forker._process.pid  # type: ignore[union-attr]
    os.kill(pid, signal.SIGSTOP)
    Timer(1.5, os.kill, (pid, signal.SIGCONT)).start()
    hasty = SMALL._replace(seconds=0.06)  # 20 times as long pass by the clock
    assert asyncio.run(checks._forker.ask(hasty, Upload(str(upload), as_task_key(PLACE))))  # type: ignore[union-attr]


def test_loading_the_examples_is_not_counted(upload: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    load = checking.load_examples
    monkeypatch.setattr(checking, "_limit_process", lambda limits: None)
    monkeypatch.setattr(checking, "load_examples", lambda *place: (events.append("loaded"), load(*place))[1])
    monkeypatch.setattr(checking.signal, "setitimer", lambda timer, seconds: events.append(f"limit {seconds:g} s"))
    found = checking._bounded_preview(SMALL, Upload(str(upload), as_task_key(PLACE)), lambda: events.append("started"))
    assert isinstance(found, Preview) and events == ["loaded", "started", "limit 0.4 s"]


def test_a_check_that_never_started_says_nothing_about_the_file(upload: Path) -> None:
    checks = Checks()
    checks.start()
    pid = checks._forker._process.pid  # type: ignore[union-attr]
    os.kill(pid, signal.SIGSTOP)
    Timer(0.2, os.kill, (pid, signal.SIGKILL)).start()
    with pytest.raises(BusyError, match="did not start"):
        check(checks, upload, logged_in=False)
    checks.close()


@pytest.mark.parametrize(
    ("error", "outcome", "words"),
    [
        (MemoryError(), TooLargeError, ""),
        (BusyError("The storage is full.", code="full"), DataError, "The storage is full."),
        (ZeroDivisionError("x / 0"), DataError, r"could not be checked \(ZeroDivisionError\)\. Check the file with"),
    ],
)
def test_an_error_of_a_check_is_one_that_can_be_sent_to_the_server(
    error: Exception, outcome: type[Exception], words: str, upload: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> Preview:
        raise error

    monkeypatch.setattr(checking, "_limit_process", lambda limits: None)
    monkeypatch.setattr(checking, "_preview", fails)
    found = pickle.loads(pickle.dumps(checking._bounded_preview(SMALL, Upload(str(upload), as_task_key(PLACE)))))
    assert type(found) is outcome and re.search(words, str(found))
    assert getattr(found, "code", "") == getattr(error, "code", getattr(found, "code", ""))


def test_a_check_has_no_more_memory_than_its_limit() -> None:
    code = "from kbbench_hf.leaderboard.checking import SMALL, _limit_process as limit; limit(SMALL)"
    code += "; print(len(bytearray({})))"
    sizes = (SMALL.memory_bytes // 2, SMALL.memory_bytes * 2)
    ends = [subprocess.run([sys.executable, "-c", code.format(n)], capture_output=True, text=True) for n in sizes]
    assert ends[0].stdout and "MemoryError" in ends[1].stderr


def test_bombs_are_refused_in_words(checks: Checks, tmp_path: Path) -> None:
    for name, data in (("nested.jsonl", b"[" * 900_000), ("zeros.jsonl.gz", gzip.compress(b"0" * 80_000_000, 1))):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(DataError):
            check(checks, tmp_path / name)


def test_a_check_whose_forker_was_killed_is_made_by_another(upload: Path) -> None:
    checks = Checks()
    checks.start()
    checks._forker._process.kill()  # type: ignore[union-attr]
    checks._forker._process.wait()  # type: ignore[union-attr]
    assert check(checks, upload)
    checks.close()


def test_who_has_little_under_way_and_sends_little_goes_first() -> None:
    lane = checking._Lane(UploadLimits(1, 0, None, 0, 0, 0))
    order: list[str] = []

    async def one(who: str, size: int) -> None:
        async with lane.turn(who, size):
            order.append(f"{who} {size}")
            await asyncio.sleep(0)

    async def all_of_them() -> None:
        sent = [("eve", 1), ("eve", 2), ("eve", 3), ("mallory", 90), ("ada", 5)]
        await asyncio.gather(*(one(*each) for each in sent))

    asyncio.run(all_of_them())
    assert order == ["eve 1", "ada 5", "mallory 90", "eve 2", "eve 3"]
    assert lane.n_running == 0 and not lane.under_way


def test_a_visitor_who_leaves_gives_the_turn_back() -> None:
    lane = checking._Lane(UploadLimits(1, 0, None, 0, 0, 0))

    async def hold() -> None:
        async with lane.turn("eve", 1):
            await asyncio.sleep(60)

    async def leave() -> None:
        tasks = [asyncio.create_task(hold()) for _ in range(3)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        async with asyncio.timeout(1), lane.turn("ada", 1):
            pass

    asyncio.run(leave())
    assert lane.n_running == 0
