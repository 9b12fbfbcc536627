"""Status of runs from their files, against what the server has seen, and steering of runs that go on."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import kbbench_hf
from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.files import heartbeat
from kbbench_hf.files.heartbeat import CONTROL, RunControl, read_control, write_control
from kbbench_hf.files.journal import Journal
from kbbench_hf.files.shards import Shard
from kbbench_hf.runners import run_status
from kbbench_hf.runners.run_status import StatusReader, WorkStatus
from tests.servers.scripted import MODEL, Reply, ScriptedServer
from tests.servers.status_checks import check_status


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_S", 0.02)


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end, "it never was so"
        time.sleep(0.01)


@contextmanager
def running(benchmark: str, model: Any, folder: Path, **options: Any) -> Iterator[threading.Thread]:
    """A run in a thread, which is over at the end of the block."""

    def run() -> None:
        with suppress(KBBenchError):
            kbbench_hf.run(benchmark, model, out=folder, **{"show": False, **options})

    thread = threading.Thread(target=run)
    thread.start()
    until((folder / "run.json").exists)
    try:
        yield thread
    finally:
        write_control(folder, paused=False)
        if isinstance(model, Gated):
            model.may.release(1000)
        thread.join(30)
        assert not thread.is_alive()


def status_of(folder: Path) -> WorkStatus:
    return StatusReader(folder).read()


class Gated:
    """A local model, or a retriever, that waits for a word before each batch."""

    name, batch_size = "gated", 5

    def __init__(self) -> None:
        self.n, self.may = 0, threading.Semaphore(0)

    def generate(self, prompts: Sequence[Any], max_tokens: int) -> list[str]:
        self.may.acquire()
        self.n += len(prompts)
        return ['{"triples": []}' for _ in prompts]

    def search(self, queries: Sequence[str], top_k: int) -> list[list[int]]:
        return [list(range(top_k)) for _ in self.generate(queries, 0)]


def test_the_status_is_what_the_server_has_seen(tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text(
        f"as_of: 2026-11-01\ncurrency: USD\nmodels: {{{MODEL}: {{input_per_million: 10, output_per_million: 20}}}}"
    )
    refusal = Reply(400, json.dumps({"error": {"message": "bad", "code": "content_filter"}}).encode())
    with ScriptedServer(answer=lambda _: '{"triples": []}', hold_from=9) as server:
        server.reply = lambda payload: refusal if len(server.times) in (3, 5) else None
        how: dict[str, Any] = {"base_url": server.url, "canary": False, "concurrency": 4, "prices": prices}
        with running("mini-text2kg", MODEL, tmp_path / "run", **how):
            server.wait_for(13)
            until(lambda: status_of(tmp_path / "run").n_done == 9)
            until(lambda: status_of(tmp_path / "run").under_way == 4)
            found = status_of(tmp_path / "run")
            assert (found.state, found.n_done, found.n_total, found.under_way) == ("running", 9, 48, server.active)
            assert found.failed == {"content_filter": 2} and server.answered.total() == 7
            assert found.cost == pytest.approx(7 * (100 * 10 + 10 * 20) / 1e6)
            assert found.rate_per_s and found.seconds_left
            assert [each.concurrency for each in found.processes] == [4]
            server.release()
    found = status_of(tmp_path / "run")
    assert (found.state, found.n_done, found.under_way, found.processes) == ("finished", 48, 0, [])
    assert found.cost == pytest.approx(46 * (100 * 10 + 10 * 20) / 1e6)


def test_a_run_is_paused_resumed_and_given_another_concurrency(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    with (
        ScriptedServer(answer=lambda _: '{"triples": []}', latency_s=0.05) as server,
        running("mini-text2kg", MODEL, folder, base_url=server.url, concurrency=2, repeats=9, show=True),
    ):
        server.wait_for(4)
        write_control(folder, paused=True)
        until(lambda: status_of(folder).state == "paused" and not status_of(folder).under_way)
        n = len(server.times)
        time.sleep(1.2)  # longer than the bar takes to show why nothing is sent
        until(lambda: status_of(folder).n_done == n - 1)  # one is the canary
        assert len(server.times) == n
        assert server.peak == 2
        write_control(folder, paused=False, concurrency=7)
        until(lambda: server.peak == 7)
        write_control(folder, concurrency=1)
        until(lambda: status_of(folder).processes[0].concurrency == 1 and status_of(folder).under_way <= 1)
        n, server.peak = len(server.times), 0
        server.wait_for(n + 3)
        assert server.peak == 1
        write_control(folder, concurrency=32)
    words = f"{folder} is paused. To resume: kbbench status {folder} --resume"
    assert capsys.readouterr().err.count(words) == 1
    assert not (folder / CONTROL).exists()


def test_a_run_starts_paused_and_a_finished_one_is_not_kept_waiting(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    write_control(folder, paused=True)
    with ScriptedServer(answer=lambda _: '{"triples": []}') as server:
        how: dict[str, Any] = {"base_url": server.url, "limit": 4}
        with running("mini-text2kg", MODEL, folder, **how) as thread:
            until(lambda: status_of(folder).state == "paused")
            time.sleep(0.2)
            assert thread.is_alive() and not server.times
        assert status_of(folder).state == "finished"
        n = len(server.times)
        write_control(folder, paused=True)  # no harm: nothing is left to send
        kbbench_hf.run("mini-text2kg", MODEL, out=folder, show=False, **how)
        assert len(server.times) == n


@pytest.mark.parametrize(("benchmark", "n"), [("mini-text2kg", 5), ("mini-stark", 32)])
def test_local_models_and_retrievers_pause_between_batches(benchmark: str, n: int, tmp_path: Path) -> None:
    model, folder = Gated(), tmp_path / "run"
    with running(benchmark, model, folder):
        model.may.release()
        until(lambda: status_of(folder).n_done == n)
        until(lambda: status_of(folder).under_way == n)
        write_control(folder, paused=True)
        until(lambda: status_of(folder).state == "paused")
        model.may.release(1000)
        until(lambda: status_of(folder).n_done == 2 * n)
        time.sleep(0.2)
        assert (status_of(folder).n_done, status_of(folder).under_way, model.n) == (2 * n, 0, 2 * n)
    assert status_of(folder).n_done == status_of(folder).n_total


def test_a_run_that_stopped_says_why(tmp_path: Path) -> None:
    class Failing(Gated):
        def search(self, queries: Sequence[str], top_k: int) -> list[list[int]]:
            if self.n:
                raise KBBenchError("The index is gone.")
            return super().search(queries, top_k)

    model = Failing()
    model.may.release()
    with pytest.raises(KBBenchError):
        kbbench_hf.run("mini-stark", model, out=tmp_path / "run", show=False)
    found = status_of(tmp_path / "run")
    assert (found.state, found.n_done, found.note) == ("stopped", 32, "The index is gone.")


def test_shards_are_shown_each(tmp_path: Path) -> None:
    folder, model = tmp_path / "run", Gated()
    model.may.release(1000)
    with suppress(KBBenchError):
        kbbench_hf.run("mini-text2kg", model, out=folder, shard="1/3", show=False)
    first = Journal(folder, Shard(2, 3))
    states = {each.name: each.state for each in status_of(folder).processes}
    assert states == {"shard 1/3": "ended", "shard 2/3": "running", "shard 3/3": "not started"}
    assert status_of(folder).processes[0].n_done == status_of(folder).n_done == model.n
    first.close(KBBenchError("The server is gone."))
    found = status_of(folder)
    assert [each.state for each in found.processes] == ["ended", "stopped", "not started"]
    assert (found.state, found.note) == ("stopped", "The server is gone.")


def test_a_process_of_another_machine_is_judged_by_its_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_status, "STALE_S", 0.3)
    (tmp_path / "run.json").write_text('{"settings": {"n_examples": 3}}')
    journal = Journal(tmp_path)
    journal.heartbeat.start()
    holder = json.loads((tmp_path / "progress.json").read_bytes())
    journal.close()
    file, reader = tmp_path / "progress.json", StatusReader(tmp_path)
    file.write_text(json.dumps({**holder, "machine": "another"}))
    assert reader.read().state == "unconfirmed"
    file.write_text(json.dumps({**holder, "machine": "another", "beats": 99}))
    assert reader.read().state == "running"
    time.sleep(0.4)
    assert (reader.read().state, status_of(tmp_path).state) == ("killed", "unconfirmed")


def test_only_whole_lines_count_and_a_reader_reads_on(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"settings": {"n_examples": 9}}')
    tokens = {"attempts": 1, "prompt_tokens": 1, "completion_tokens": 1, "repeat": 0}
    records = [{"key": str(n), "id": n, "error": "timeout" if n == 1 else None, **tokens} for n in range(4)]
    with Journal(tmp_path) as journal:
        for record in records:
            journal.append(record)
    file = tmp_path / "journal.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:2]) + lines[2][:20])
    reader = StatusReader(tmp_path)
    assert (reader.read().n_done, reader.read().failed, reader.read().note) == (2, {"timeout": 1}, "")
    file.write_bytes(b"".join(lines[:2]) + lines[2].replace(b"1", b"7") + lines[3])
    assert (reader.read().n_done, reader.read().note) == (3, "1 damaged lines")
    (tmp_path / "result.json").touch()
    finished = status_of(tmp_path)
    assert (finished.state, finished.n_done, finished.note) == ("finished", None, "1 damaged lines")
    (tmp_path / "result.json").unlink()
    again = Journal(tmp_path)
    again.append({**records[1], "error": None})
    again.close()
    file.write_bytes(file.read_bytes().replace(lines[2].replace(b"1", b"7"), lines[2]))
    assert (reader.read().n_done, reader.read().failed, reader.read().note) == (4, {}, "")


def test_questions_of_an_agent_count_when_they_are_finished_and_its_calls_do_not(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"settings": {"n_examples": 3}}')
    with Journal(tmp_path) as journal:
        journal.append({"key": "q1/session", "session": "s", "finished": False})
        journal.append({"key": "q1/1", "call": "search_nodes"})
        assert status_of(tmp_path).n_done == 0
        journal.append({"key": "q1/end", "session": "s", "finished": True})
        journal.append({"key": "q2/end", "session": "s", "finished": True, "error": "stopped"})
    assert (status_of(tmp_path).n_done, status_of(tmp_path).failed) == (2, {"stopped": 1})


@pytest.mark.parametrize(
    ("settings", "n"),
    [
        ({"n_examples": 9}, 9),
        ({"n_examples": 9, "repeats": 2}, 18),
        ({"n_examples": 9, "rerank": "m", "depth": 5}, 45),
        ({"n_examples": 9, "rerank": "m", "depth": 5, "top_k": 3, "repeats": 2}, 54),
        ({"n_examples": 9, "rerank": "cross:m", "depth": 50}, 18),
        ({"n_examples": 9, "rerank": "cross:m@batch=8", "depth": 50, "top_k": 20}, 27),
        ({"rerank": "m", "depth": 5}, None),
    ],
)
def test_a_run_has_as_many_prompts_as_it_asks_for(settings: dict[str, Any], n: int | None, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"settings": settings}))
    assert status_of(tmp_path).n_total == n


def test_copied_predictions_have_no_count(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"settings": {"n_examples": 9}}')
    found = status_of(tmp_path)
    assert (found.state, found.n_done, found.note) == ("stopped", None, "the folder has no journal")
    (tmp_path / "journal.jsonl").touch()
    assert (status_of(tmp_path).n_done, status_of(tmp_path).note) == (0, "")


@pytest.mark.parametrize("content", [b'{"a": 1}', b"[1, 2]", b"{", b"\xff\x00", b'{"settings": 3, "summary": [4]}'])
def test_a_damaged_run_file_is_named_and_is_no_complete_run(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(content)
    found = status_of(tmp_path)
    assert (found.state, found.n_total) == ("stopped", None)
    assert found.note == "run.json has no settings of a run; the folder has no journal"


def test_conversations_are_counted_by_their_processes(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"settings": {"n_examples": 2, "agent": "a", "batch": 32}}')
    turn = {"attempts": 1, "prompt_tokens": 1, "completion_tokens": 1, "repeat": 0, "error": None}
    with Journal(tmp_path) as journal:
        for step in range(3):
            journal.append({"key": f"q/{step}", "id": "q", **turn, "request_sha256": "0"})
        assert status_of(tmp_path).n_done is None
        journal.heartbeat.start()
        journal.heartbeat.begin(2, 0)
        journal.heartbeat.n_done = 1
        until(lambda: status_of(tmp_path).n_done == 1)
    (tmp_path / "result.json").write_text("{}")
    assert (status_of(tmp_path).state, status_of(tmp_path).n_done) == ("finished", 2)


def test_annotations_belong_to_their_run_and_are_paused_with_it(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"settings": {"n_examples": 1}}')
    (tmp_path / "result.json").write_text("{}")
    write_control(tmp_path, paused=True)
    with Journal(tmp_path / "annotations/work/factualness") as journal:
        journal.heartbeat.start()
        assert journal.heartbeat.waits
        journal.append({"key": "a", "error": None, "value": 1.0, "status": "ok", "raw": ""})
        (found,) = status_of(tmp_path).annotations
        assert (found.state, found.n_done) == ("paused", 1)
    assert status_of(tmp_path).annotations[0].state == "stopped"
    (tmp_path / "annotations/factualness.parquet").touch()
    assert status_of(tmp_path).annotations[0].state == "finished"


def test_a_pause_is_announced_once(tmp_path: Path) -> None:
    pulse, said = heartbeat.Heartbeat(tmp_path, None), list[str]()
    pulse.announce = said.append
    for paused in (True, False, True):
        write_control(tmp_path, paused=paused)
        pulse._beat()
        for _ in range(3 * paused):
            pulse.pause_note()
    assert said == 2 * [f"{tmp_path} is paused. To resume: kbbench status {tmp_path} --resume"]


def test_a_shard_tells_from_its_first_report_what_it_can_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat.Heartbeat, "start", lambda self: None)
    (tmp_path / "run.json").write_text('{"settings": {"n_examples": 9}}')
    Journal(tmp_path, Shard(1, 2), abilities=("pause", "concurrency"))
    shard, other = status_of(tmp_path).processes
    assert [*shard.abilities] == ["pause", "concurrency"] and not other.abilities


def test_a_report_that_fails_ends_no_claim(tmp_path: Path) -> None:
    journal = Journal(tmp_path, Shard(1, 1))
    journal.heartbeat.more = lambda: {"wrong": 1 // 0}
    n_beats = journal.heartbeat._n_beats
    until(lambda: journal.heartbeat._n_beats > n_beats + 2)
    journal.close()


def test_a_process_that_was_killed_is_shown_even_beside_an_earlier_result(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"settings": {"n_examples": 1}}')
    (tmp_path / "result.json").write_text("{}")
    with Journal(tmp_path) as journal:
        journal.heartbeat.start()
        report = json.loads((tmp_path / "progress.json").read_bytes())
    (tmp_path / "progress.json").write_text(json.dumps({**report, "started": "0"}))
    assert status_of(tmp_path).state == "killed"
    Journal(tmp_path).close()
    with Journal(tmp_path) as journal:
        journal.heartbeat.start()
    assert status_of(tmp_path).state == "finished"


def test_a_process_that_starts_again_keeps_the_count_of_conversations_until_it_has_its_own(tmp_path: Path) -> None:
    for shard in (0, Shard(1, 2)):
        first = Journal(tmp_path, shard)
        first.heartbeat.start()
        first.heartbeat.begin(20, 0)
        first.heartbeat.n_done = 8
        first.close(KBBenchError("stopped"))
        with Journal(tmp_path, shard) as second:
            assert json.loads(second.heartbeat.content())["report"]["n_done"] == 8
            second.heartbeat.begin(20, 0)
            second.heartbeat.n_done = 3
            assert json.loads(second.heartbeat.content())["report"]["n_done"] == 8
            second.heartbeat.begin(5, 0)
            assert json.loads(second.heartbeat.content())["report"]["n_done"] == 0


@pytest.mark.parametrize("content", ["", "[1]", '{"concurrency": 0}', '{"paused": "yes", "concurrency": true}'])
def test_a_control_file_that_says_nothing_changes_nothing(content: str, tmp_path: Path) -> None:
    (tmp_path / CONTROL).write_text(content)
    assert read_control(tmp_path) in (None, RunControl())
    assert write_control(tmp_path, paused=True) == RunControl(paused=True)


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run-base").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run-base/run.json").write_text("{}")
    with pytest.raises(UsageError, match=r"is not a run; expected .* Write: kbbench status .*run-base"):
        StatusReader(tmp_path / "run")
    with pytest.raises(UsageError, match="It holds 1 runs: add --all"):
        StatusReader(tmp_path)


def test_the_status_is_right_while_shards_are_killed_and_paused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_S", 1.0)
    found = check_status(tmp_path, n_shards=2, seconds=4, seed=3, limit=30)
    assert found.n > 5 and not found.wrong
