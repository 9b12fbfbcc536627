"""Runs in shards: the same files as one process, each shard in one process, and nothing sent twice."""

import itertools
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import kbbench_hf
from kbbench_hf.errors import BusyError, UsageError
from kbbench_hf.files import heartbeat, shards
from kbbench_hf.files.journal import Journal
from kbbench_hf.files.shards import COLLECT, Claim, IncompleteError, Shard, ShardEnd
from kbbench_hf.llm.endpoint import Endpoint
from kbbench_hf.runners.cost import BudgetSpentError
from kbbench_hf.runners.model_identity import Identity
from kbbench_hf.runners.run_options import shard_of
from kbbench_hf.runners.slurm import SlurmRun
from tests.servers.scripted import MODEL, ScriptedServer
from tests.servers.sharding import CONCURRENCY, SCORED, kill_shards, run_on_late_disk


class Generator:
    """A local model whose completions depend on the whole batch."""

    name = "local"
    batch_size = 5

    def __init__(self) -> None:
        self.n = 0

    def generate(self, prompts: Sequence[Any], max_tokens: int) -> list[str]:
        self.n += len(prompts)
        size = sum(len(str(each)) for each in prompts)
        return [json.dumps({"triples": [[str(size), str(len(str(each))), "x"]]}) for each in prompts]


class First:
    """A retriever that finds the first nodes."""

    name = "first"
    n = 0

    def search(self, queries: Sequence[str], top_k: int) -> list[list[int]]:
        self.n += len(queries)
        return [list(range(len(query) % 7, top_k)) for query in queries]


def files(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in SCORED]


def test_killed_shards_make_the_files_of_one_process_and_send_nothing_twice_but_what_was_under_way(
    tmp_path: Path,
) -> None:
    found = kill_shards(tmp_path, n_shards=3, n_kills=2, latency_s=0.15, limit=40)
    assert found.results == [True] * 3
    assert (found.kills, found.refused) == (2, 1)
    assert found.twice <= 2 * CONCURRENCY


@pytest.mark.parametrize(("benchmark", "kind"), [("mini-text2kg", Generator), ("mini-stark", First)])
def test_batches_are_divided_whole_and_the_number_of_shards_may_change(
    benchmark: str, kind: type[Generator | First], tmp_path: Path
) -> None:
    model, whole, folder = kind(), kind(), tmp_path / "shards"
    how: dict[str, Any] = {"show": False}
    kbbench_hf.run(benchmark, whole, out=tmp_path / "whole", **how)
    with pytest.raises(ShardEnd, match=r"Shard 2/3 of .* has ended. 2 of 3 shards have not ended: 1, 3"):
        kbbench_hf.run(benchmark, model, out=folder, shard="2/3", **how)
    assert 0 < model.n < whole.n
    with pytest.raises(ShardEnd):
        kbbench_hf.run(benchmark, model, out=folder, shard="1/2", **how)
    assert not (folder / "predictions.jsonl").exists()
    kbbench_hf.run(benchmark, model, out=folder, shard="2/2", **how)
    assert (model.n, files(folder)) == (whole.n, files(tmp_path / "whole"))
    kbbench_hf.run(benchmark, model, out=folder, collect=True, **how)
    assert (model.n, files(folder)) == (whole.n, files(tmp_path / "whole"))


class Scores:
    """A re-ranker whose scores depend on the document alone."""

    name = "scores"

    def generate(self, prompts: Sequence[Any], max_tokens: int) -> list[str]:
        return [f"0.{len(str(each)) % 7}" for each in prompts]


def test_one_shard_makes_the_base_run_and_the_others_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kbbench_hf.runners.run.LATE_S", (0.05,))
    started, may_search = threading.Event(), threading.Event()

    class Gated(First):
        def search(self, queries: Sequence[str], top_k: int) -> list[list[int]]:
            started.set()
            assert may_search.wait(30)
            return super().search(queries, top_k)

    how: dict[str, Any] = {"rerank": Scores(), "depth": 3, "limit": 9, "top_k": 20, "batch": 4}

    def run(shard: str) -> None:
        with suppress(ShardEnd):
            kbbench_hf.run("mini-stark", gated, out=tmp_path / "run", shard=shard, **how)

    gated, whole = Gated(), First()
    threads = [threading.Thread(target=run, args=(shard,)) for shard in ("1/2", "2/2")]
    for thread in threads:
        thread.start()
        assert started.wait(30)
    while "The base run is under way. This shard waits for it. Shard 1/1 of" not in capsys.readouterr().err:
        assert threads[1].is_alive()
    may_search.set()
    for thread in threads:
        thread.join(60)
    kbbench_hf.run("mini-stark", whole, out=tmp_path / "whole", **how)
    assert gated.n == whole.n == 9
    run("2/2")
    assert gated.n == 9 and files(tmp_path / "run") == files(tmp_path / "whole")
    base, other = ((tmp_path / f"{name}-base/predictions.jsonl").read_bytes() for name in ("run", "whole"))
    assert base == other


@pytest.fixture
def half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of whose two shards the first has ended."""
    monkeypatch.setattr(shards, "LATE_S", (0.0, 0.0))
    with pytest.raises(ShardEnd):
        kbbench_hf.run("mini-text2kg", Generator(), out=tmp_path / "run", shard="1/2", show=False)
    return tmp_path / "run"


def test_an_incomplete_run_is_not_collected(half: Path) -> None:
    before = sorted(half.iterdir())
    with pytest.raises(IncompleteError, match=r"\d+ of 48 prompts are missing \(shards 2 of 2 have not ended\)"):
        kbbench_hf.run("mini-text2kg", Generator(), out=half, collect=True, show=False)
    assert sorted(half.iterdir()) == before
    with pytest.raises(IncompleteError, match="there is no run"):
        kbbench_hf.run("mini-text2kg", Generator(), out=half.parent / "none", collect=True, show=False)
    assert not (half.parent / "none").exists()


def test_a_folder_whose_files_show_late_is_read_again(half: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbbench_hf.files.shards.ShardEnd.is_last", False, raising=False)
    kbbench_hf.run("mini-text2kg", Generator(), out=half, shard="2/2", show=False)
    expected, glob, listings = files(half), Path.glob, []

    def late(folder: Path, pattern: str) -> Iterator[Path]:
        found = sorted(glob(folder, pattern))
        if folder == half and pattern == "journal*.jsonl":
            listings.append(len(found))
            found = found[: (len(listings) - 1) // 2]  # each reader lists twice, and the next one sees one file more
        return iter([] if pattern.startswith("claim") else found)

    monkeypatch.setattr(Path, "glob", late)
    kbbench_hf.run("mini-text2kg", Generator(), out=half, collect=True, show=False)
    assert len(listings) == 6 and files(half) == expected


def test_what_is_collected_needs_no_server(tmp_path: Path) -> None:
    how: dict[str, Any] = {"out": tmp_path / "run", "limit": 6, "show": False}
    with ScriptedServer(answer=lambda _: '{"triples": []}') as server:
        how["base_url"] = server.url
        kbbench_hf.run("mini-text2kg", MODEL, **how, shard="1/1")
    before = files(tmp_path / "run")
    (tmp_path / "run/predictions.jsonl").unlink()
    kbbench_hf.run("mini-text2kg", MODEL, **how, collect=True)
    assert files(tmp_path / "run") == before


def test_shards_divide_the_budget_and_count_their_own_examples_of_earlier_starts(tmp_path: Path) -> None:
    how: dict[str, Any] = {"out": tmp_path / "run", "limit": 12, "show": False, "canary": False, "concurrency": 1}
    with ScriptedServer(answer=lambda _: '{"triples": []}') as server:
        how |= {"base_url": server.url, "max_requests": 5}
        for shard, n_sent in (("1/2", 3), ("1/2", 3), ("2/2", 5), ("2/2", 5)):
            with pytest.raises(BudgetSpentError, match=f", the share of shard {shard}. Raise it to resume"):
                kbbench_hf.run("mini-text2kg", MODEL, **how, shard=shard)
            assert len(server.times) == n_sent


def test_a_claim_of_another_machine_is_watched_by_ones_own_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_S", 0.05)
    monkeypatch.setattr(shards, "STALE_S", 0.6)
    shard = Shard(1, 2)
    first = Claim(tmp_path, shard)
    monkeypatch.setattr(heartbeat, "machine", lambda: "another")
    with pytest.raises(BusyError, match=r"Shard 1/2 of .* is run by process") as caught:
        Claim(tmp_path, shard)
    assert caught.value.exit_code == 75
    with pytest.raises(BusyError):  # another division would send the same prompts
        Claim(tmp_path, Shard(1, 3))
    Claim(tmp_path, Shard(2, 2)).release()
    hangs = threading.Event()  # its process hangs, or its machine is gone
    monkeypatch.setattr(first.heartbeat, "on_beat", hangs.wait)
    second = Claim(tmp_path, shard)
    first._compare()
    with pytest.raises(BusyError):
        first.check()
    second.release()
    Claim(tmp_path, Shard(1, 3)).release()
    hangs.set()
    first.release()


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short times, and a machine that no claim is of."""
    monkeypatch.setattr(heartbeat, "BEAT_S", 0.05)
    monkeypatch.setattr(shards, "STALE_S", 0.6)
    machines = itertools.count()
    monkeypatch.setattr(heartbeat, "machine", lambda: f"machine {next(machines)}")


@pytest.mark.usefixtures("brief")
def test_the_last_change_of_a_process_that_is_gone_may_show_late(tmp_path: Path) -> None:
    first = Claim(tmp_path, Shard(1, 2))
    first.heartbeat._ended.set()
    (file,) = tmp_path.glob("claim.*.json")
    change = threading.Timer(0.2, file.write_bytes, [first.heartbeat.content() + b" "])
    change.start()
    Claim(tmp_path, Shard(1, 2)).release()
    change.join()


@pytest.mark.usefixtures("brief")
def test_a_claim_that_is_not_listed_yet_is_watched_as_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Claim(tmp_path, Shard(1, 2))
    monkeypatch.setattr(shards, "newest_claims", lambda folder: {})
    with pytest.raises(BusyError):
        Claim(tmp_path, Shard(1, 2))
    first.release()
    third = Claim(tmp_path, Shard(1, 2))
    assert {each.name for each in tmp_path.glob("claim.*")} == {"claim.1-of-2.1.json", "claim.1-of-2.2.json"}
    monkeypatch.undo()
    third.release()


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("shard", [Shard(1, 2), COLLECT])
def test_a_journal_that_its_claim_names_is_read_as_a_whole_also_where_it_shows_late(
    tmp_path: Path, shard: Shard
) -> None:
    with Journal(tmp_path, Shard(1, 2)) as journal:
        for key in "ab":
            journal.append({"key": key, "error": None})
    (file,) = tmp_path.glob("journal.*.jsonl")
    content, changes = file.read_bytes(), []
    file.unlink()
    for after, shown in ((0.15, content[:-3]), (0.3, content)):
        changes.append(threading.Timer(after, file.write_bytes, [shown]))
        changes[-1].start()
    with Journal(tmp_path, shard) as journal:
        assert "a" in journal and "b" in journal and not journal.n_damaged
    for each in changes:
        each.join()


@pytest.mark.usefixtures("brief")
def test_a_claim_that_shows_late_names_a_journal_that_shows_later(tmp_path: Path) -> None:
    report, journal = b'{"journal": "journal.a.jsonl", "size": 3}', tmp_path / "journal.a.jsonl"
    claim = shards.claim_file(tmp_path, Shard(1, 2), 1)
    changes = [threading.Timer(0.15, claim.write_bytes, [report]), threading.Timer(0.3, journal.write_bytes, [b"abc"])]
    for each in changes:
        each.start()
    shards.await_journals(tmp_path, {claim})
    assert journal.read_bytes() == b"abc"


def test_servers_that_show_late_are_awaited_and_not_taken_for_others(tmp_path: Path) -> None:
    with pytest.raises(IncompleteError, match=r"1 of 1 files servers\.json are missing"):
        Identity(tmp_path, shared=True, writes=False).recall(Endpoint("http://127.0.0.1:9", MODEL))


@pytest.mark.full
@pytest.mark.parametrize("seed", [0, 1])
def test_a_disk_without_locks_that_shows_changes_late_loses_nothing_and_doubles_nothing(
    tmp_path: Path, seed: int
) -> None:
    assert (found := run_on_late_disk(tmp_path, seed)).good, found


def test_tasks_of_a_slurm_array_are_shards() -> None:
    task = {"SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_TASK_MIN": "3", "SLURM_ARRAY_TASK_STEP": "2"}
    assert Shard.parse("slurm", {**task, "SLURM_ARRAY_TASK_COUNT": "4"}) == Shard(3, 4)
    for text in ("0/2", "3/2", "1", "slurm", "1/0"):
        with pytest.raises(UsageError):
            Shard.parse(text, task)


def test_options_that_need_a_whole_run_are_refused_for_a_shard() -> None:
    assert shard_of({}) is None and shard_of({"annotate": ("a",)}) is None
    assert (shard_of({"shard": "2/3"}), shard_of({"collect": True})) == (Shard(2, 3), COLLECT)
    for options, words in (({"collect": True}, "--collect scores all parts"), ({"annotate": ("a",)}, "a whole run")):
        with pytest.raises(UsageError, match=words):
            shard_of({"shard": "2/3", **options})  # type: ignore[typeddict-item]
    with pytest.raises(UsageError, match="a whole run"):
        shard_of({"collect": True, "annotate": ("a",)})  # type: ignore[typeddict-item]


@pytest.mark.parametrize("options", ["-a2", "--arr=1", "-Jx", "--job-n x", "--wrap=ls", "--par", "-p gpu --array 1"])
def test_an_option_that_slurm_runs_set_is_refused_also_where_it_is_shortened(options: str) -> None:
    with pytest.raises(UsageError, match="--slurm itself sets"):
        SlurmRun(["kbbench"], Path("shared"), "2", options)
    assert SlurmRun(["kbbench"], Path("shared"), "2", "-A lab --account=lab --time 1 -- x").n_shards == 2


def test_a_task_of_a_slurm_array_that_runs_everything_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLURM_ARRAY_TASK_COUNT", "8")
    kbbench_hf.run("mini-text2kg", Generator(), out=tmp_path / "run", limit=1)
    assert "one of 8 tasks of a Slurm array" in capsys.readouterr().err
