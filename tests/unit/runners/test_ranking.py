import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.errors import BusyError, UsageError
from kbbench_hf.files.journal import Journal
from kbbench_hf.files.shards import COLLECT, Shard, ShardEnd
from kbbench_hf.protocols import Ranking
from kbbench_hf.retrieval import dense
from kbbench_hf.retrieval.top_k import pad
from kbbench_hf.runners import ranking as runner
from kbbench_hf.runners import retrieval_run as retrieval
from kbbench_hf.runners.process_group import group
from kbbench_hf.runners.ranking import Latency
from kbbench_hf.runners.retrieval_run import rank_nodes
from tests.unit.runners import retrieve_worker
from tests.unit.runners.retrieve_worker import KILLED_AFTER, examples, knowledge_base

ROOT = Path(__file__).resolve().parents[3]


def _worker(folder: Path, cache: Path, processes: int = 1, records: int = 0) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", KILLED_AFTER: str(records)}
    command = [sys.executable, "-m", "tests.unit.runners.retrieve_worker", str(folder), str(cache), str(processes)]
    return subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _finished(process: "subprocess.Popen[bytes]") -> None:
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors.decode()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The predictions of one process that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense, "from_spec", dense.from_spec)  # which the worker replaces
        retrieve_worker.run(folder / "run", folder / "cache", None)
    return (folder / "run/predictions.jsonl").read_bytes()


@pytest.mark.parametrize("processes", [3, pytest.param(2, marks=pytest.mark.full)])
def test_several_processes_write_the_bytes_of_one(whole: bytes, tmp_path: Path, processes: int) -> None:
    _finished(_worker(tmp_path / "run", tmp_path / "cache", processes))
    assert (tmp_path / "run/predictions.jsonl").read_bytes() == whole
    assert json.loads((tmp_path / "run/run.json").read_text())["processes"] == processes


@pytest.mark.full
def test_a_killed_run_goes_on_to_the_same_bytes(whole: bytes, tmp_path: Path) -> None:
    for records in (1, 20):
        process = _worker(tmp_path / "run", tmp_path / "cache", records=records)
        process.communicate(timeout=600)
        assert process.returncode == -signal.SIGKILL
        assert (tmp_path / "run/journal.jsonl").read_bytes().count(b"\n") == records
    assert not (tmp_path / "run/predictions.jsonl").exists()
    _finished(_worker(tmp_path / "run", tmp_path / "cache"))
    assert (tmp_path / "run/predictions.jsonl").read_bytes() == whole


def _retrieve(folder: Path, n: int = 6, model: str = "bm25", **options: Any) -> Latency:
    given: dict[str, Any] = {"about": {"benchmark": "places"}, "top_k": 5, "batch": 2, "cache": folder / "cache"}
    return rank_nodes(examples(n), knowledge_base(), model, folder, **given | {"show": False} | options).latency


def _predictions(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]


def test_every_example_has_its_best_candidates_and_their_scores(tmp_path: Path) -> None:
    done = _retrieve(tmp_path)
    found = _predictions(tmp_path)
    assert [line["id"] for line in found] == [f"q{n}" for n in range(6)]
    assert all(len(line["ids"]) == len(set(line["ids"])) == 5 for line in found)
    assert all(line["scores"] == sorted(line["scores"], reverse=True) for line in found)
    assert done.n_timed == 6
    assert json.loads((tmp_path / "run.json").read_text())["latency"]["latency_p50_s"] > 0


def test_what_is_run_is_written_before_anything_is_searched(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Unknown retriever"):
        _retrieve(tmp_path, model="bm26")
    assert json.loads((tmp_path / "run.json").read_text())["settings"]["model"] == "bm26"


def test_another_run_is_refused_in_the_same_folder(tmp_path: Path) -> None:
    _retrieve(tmp_path)
    for change in ({"top_k": 6}, {"batch": 3}, {"model": "bm25@b=0.1"}):
        with pytest.raises(UsageError, match="holds another run"):
            _retrieve(tmp_path, **change)


def test_a_finished_run_is_read_and_builds_no_searcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = _retrieve(tmp_path)
    written = (tmp_path / "predictions.jsonl").read_bytes()
    (tmp_path / "predictions.jsonl").unlink()
    monkeypatch.setattr(retrieval, "retriever", lambda spec, place: pytest.fail("built again"))
    assert _retrieve(tmp_path) == first
    assert (tmp_path / "predictions.jsonl").read_bytes() == written


def test_weights_that_changed_since_the_run_was_begun_are_refused(tmp_path: Path) -> None:
    _retrieve(tmp_path)
    with pytest.raises(UsageError, match="The models have changed"):
        runner._check_revisions(tmp_path, {"org/model": "2"})


def test_a_folder_in_use_is_busy(tmp_path: Path) -> None:
    with Journal(tmp_path), pytest.raises(BusyError, match="in use by process"):
        _retrieve(tmp_path)


def test_a_model_sees_the_words_of_the_questions_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    class Spy:
        def search(self, queries: Sequence[str], top_k: int) -> Ranking:
            seen.extend(queries)
            return pad([(np.arange(top_k), np.zeros(top_k))] * len(queries), top_k)

    monkeypatch.setattr(retrieval, "retriever", lambda spec, place: Spy())
    _retrieve(tmp_path)
    assert set(seen) == {row["query"] for row in examples(6).rows}


def test_only_candidates_are_ranked(tmp_path: Path) -> None:
    chosen = [3, 140, 280]
    given = Examples(examples(2).rows, SimpleNamespace(candidates=SimpleNamespace(ids=chosen)))
    rank_nodes(given, knowledge_base(), "bm25", tmp_path, about={}, cache=tmp_path, show=False)
    assert [sorted(line["ids"]) for line in _predictions(tmp_path)] == [chosen] * 2


def test_a_run_without_questions_writes_an_empty_file(tmp_path: Path) -> None:
    assert _retrieve(tmp_path, n=0).latency_p50_s is None
    assert (tmp_path / "predictions.jsonl").read_bytes() == b""


def test_the_number_of_processes_is_checked_not_assumed(tmp_path: Path) -> None:
    assert group(1).size == 1
    with pytest.raises(UsageError, match=r"1 process\(es\) are running, but --processes is 2"):
        _retrieve(tmp_path, processes=2)
    assert not list(tmp_path.iterdir())


def test_what_is_collected_is_collected_again_without_the_model(tmp_path: Path) -> None:
    built: list[runner.Site] = []

    class First:
        def search(self, queries: Sequence[str], top_k: int) -> list[list[int]]:
            return [list(range(top_k)) for _ in queries]

    def build(site: runner.Site) -> First:
        built.append(site)
        site.revisions["org/model"] = "1"
        return First()

    def collect(shard: Shard) -> bytes:
        runner.retrieve(examples(6), build, tmp_path, {"model": "first"}, top_k=5, batch=2, shard=shard, show=False)
        return (tmp_path / "predictions.jsonl").read_bytes()

    with pytest.raises(ShardEnd):
        collect(Shard(1, 1))
    first, n_built = collect(COLLECT), len(built)
    assert collect(COLLECT) == first and len(built) == n_built
