import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.errors import BusyError, KBBenchError
from kbbench_hf.files.journal import Journal
from tests.unit.conftest import Disk


def fill(folder: Path, *keys: str, shard: int = 0) -> None:
    with Journal(folder, shard) as journal:
        for key in keys:
            journal.append({"key": key, "response": f"text of {key}", "error": None})


def keys_of(folder: Path) -> set[str]:
    with Journal(folder) as journal:
        seen: list[str] = []
        journal.reload(lambda record: seen.append(record["key"]))
        return {key for key in seen if key in journal}


def test_what_append_returned_from_is_read_back(tmp_path: Path) -> None:
    fill(tmp_path, "a", "b")
    with Journal(tmp_path) as journal:
        assert "a" in journal and "c" not in journal and len(journal) == 2
        records = list(journal.read(["b", "c", "a"]))
    assert [record and record["response"] for record in records] == ["text of b", None, "text of a"]


def test_records_can_be_read_after_the_journal_is_closed(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append({"key": "a", "error": None, "response": "é \ud800"})
    assert [record and record["response"] for record in journal.read(["a"])] == ["é \ud800"]


def test_a_record_is_one_line_that_any_json_reader_takes(tmp_path: Path) -> None:
    fill(tmp_path, "a")
    (line,) = (tmp_path / "journal.jsonl").read_text().splitlines()
    assert json.loads(line)["key"] == "a"


def test_a_failed_record_is_not_done_until_an_answer_follows(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append({"key": "a", "error": "timeout"})
        assert "a" not in journal
        assert [record and record["error"] for record in journal.read(["a"])] == ["timeout"]
        journal.append({"key": "a", "error": None})
        assert "a" in journal
    assert keys_of(tmp_path) == {"a"}


def test_a_settled_failure_is_done(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append({"key": "a", "error": "refusal", "settled": True})
    assert keys_of(tmp_path) == {"a"}


def test_the_first_answer_of_a_key_holds(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append({"key": "a", "error": None, "response": "first"})
        journal.append({"key": "a", "error": None, "response": "second"})
        journal.append({"key": "a", "error": "timeout"})
    with Journal(tmp_path) as journal:
        assert [record and record["response"] for record in journal.read(["a"])] == ["first"]


def test_a_file_cut_at_any_byte_loses_only_the_record_that_was_cut(tmp_path: Path) -> None:
    fill(tmp_path, "a", "b")
    file = tmp_path / "journal.jsonl"
    whole = file.read_bytes()
    ends = [place + 1 for place, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(len(whole) + 1):
        file.write_bytes(whole[:cut])
        kept = sum(end <= cut for end in ends)
        assert keys_of(tmp_path) == set("ab"[:kept]), cut
        fill(tmp_path, "d")  # and what is appended now stands on a line of its own
        assert keys_of(tmp_path) == {*"ab"[:kept], "d"}


@given(place=st.integers(0, 299), bit=st.integers(0, 7))
def test_no_flipped_bit_is_ever_served(tmp_path_factory: pytest.TempPathFactory, place: int, bit: int) -> None:
    folder = tmp_path_factory.mktemp("journal")
    fill(folder, "a", "b", "c")
    file = folder / "journal.jsonl"
    data = bytearray(file.read_bytes())
    data[place % len(data)] ^= 1 << bit
    file.write_bytes(data)
    with Journal(folder) as journal:
        for key in "abc":
            if key in journal:
                (record,) = journal.read([key])
                assert record == {"key": key, "response": f"text of {key}", "error": None}
        assert 1 <= len(journal) < 3


def test_damaged_lines_are_counted_and_left_out(tmp_path: Path) -> None:
    fill(tmp_path, "a", "b", "c")
    file = tmp_path / "journal.jsonl"
    file.write_bytes(file.read_bytes().replace(b"text of b", b"text of B"))
    with Journal(tmp_path) as journal:
        assert journal.n_damaged == 1
        assert "b" not in journal and "a" in journal and "c" in journal


def test_a_record_that_was_exchanged_for_a_whole_other_one_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, "a", "b")
    file = tmp_path / "journal.jsonl"
    with Journal(tmp_path) as journal:
        file.write_bytes(b"".join(reversed(file.read_bytes().splitlines(keepends=True))))
        with pytest.raises(KBBenchError, match="was altered while it was in use"):
            list(journal.read(["a"]))


def test_closing_flushes_what_was_written(tmp_path: Path, disk: Disk) -> None:
    journal = Journal(tmp_path)
    journal.append({"key": "a", "error": None})
    assert disk.flushed(tmp_path / "journal.jsonl") == []  # a flush for each record would cost more than the record
    journal.close()
    assert len(disk.flushed(tmp_path / "journal.jsonl")) == 1


def test_a_journal_may_be_closed_by_another_thread_than_opened_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    thread = Thread(target=journal.close)
    thread.start()
    thread.join()
    fill(tmp_path, "a")


def test_shards_of_several_processes_are_read_together_by_any_number(tmp_path: Path) -> None:
    for shard in range(4):
        fill(tmp_path, f"key {shard}", shard=shard)
    assert sorted(file.name for file in tmp_path.glob("*.jsonl")) == [
        "journal.1.jsonl",
        "journal.2.jsonl",
        "journal.3.jsonl",
        "journal.jsonl",
    ]
    assert keys_of(tmp_path) == {f"key {shard}" for shard in range(4)}


HOLD = """
import sys, time
from pathlib import Path
from kbbench_hf.files.journal import Journal
journal = Journal(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(30)
"""


def test_a_second_process_is_told_who_holds_the_run_and_a_dead_holder_is_taken_over(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        for _ in range(2):
            with pytest.raises(BusyError, match=f"in use by process {holder.pid}") as caught:
                Journal(tmp_path)
            assert caught.value.exit_code == 75
    finally:
        holder.kill()
        holder.communicate()
    fill(tmp_path, "a")  # the lock of the dead process is free
    assert int((tmp_path / "journal.lock").read_text()) == os.getpid()


def test_of_twenty_starts_one_runs(tmp_path: Path) -> None:
    script = HOLD.replace("time.sleep(30)", "sys.stdin.readline()").replace(
        "journal = Journal(Path(sys.argv[1]))",
        "from kbbench_hf.errors import BusyError\n"
        "try:\n    journal = Journal(Path(sys.argv[1]))\n"
        "except BusyError as error:\n    print('busy', flush=True); sys.exit(error.exit_code)",
    )
    starts = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(20)
    ]
    words = [start.stdout.readline() for start in starts if start.stdout is not None]
    for start in starts:
        start.communicate(b"\n")
    assert sorted(words) == [b"busy\n"] * 19 + [b"held\n"]
    assert sorted(start.returncode for start in starts) == [0] + [75] * 19


def test_a_full_disk_stops_the_run_and_keeps_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Journal(tmp_path) as journal:
        journal.append({"key": "a", "error": None})
        write = os.write
        monkeypatch.setattr("os.write", lambda descriptor, data: write(descriptor, data[:10]))
        with pytest.raises(KBBenchError, match="disk is full"):
            journal.append({"key": "b", "error": None})
        monkeypatch.undo()
        journal.append({"key": "c", "error": None})
    assert keys_of(tmp_path) == {"a", "c"}
    with Journal(tmp_path) as journal:
        assert journal.n_damaged == 0


def test_memory_holds_places_not_texts(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        for number in range(2000):
            journal.append({"key": f"{number:064}", "error": None, "response": "x" * 2000})
    tracemalloc.start()
    try:
        with Journal(tmp_path):
            kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept / 2000 < 500  # bytes a record; 200,000 records stay within 100 MB
