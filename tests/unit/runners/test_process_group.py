"""What machines must share is checked when they start together; what they need not share is used where they do."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.errors import UsageError
from kbbench_hf.protocols import ProcessGroup
from kbbench_hf.runners import process_group as machines
from kbbench_hf.runners.process_group import check_same, check_shared, launch_warnings, shared_cache
from tests.unit.retrieval.test_dense import in_a_group


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "PATIENCE_S", 0.05)


def together(work: Callable[[ProcessGroup], Any]) -> list[Any]:
    """Return what each of two processes gets from `work`, or the error that it raises."""

    def tried(share: ProcessGroup) -> Any:
        try:
            return work(share)
        except UsageError as error:
            return str(error)

    return in_a_group(2, tried)


def test_a_run_folder_that_another_machine_does_not_see_is_refused_by_all(tmp_path: Path) -> None:
    for folders in (["a", "a"], ["a", "b"]):
        said = together(lambda share, folders=folders: check_shared(share, tmp_path / folders[share.rank]))
        if folders == ["a", "a"]:
            assert said == [None, None]
        else:
            assert all("process 1 on" in each and "Name one with --out" in each for each in said)
    assert not any(file for file in tmp_path.rglob("*") if file.is_file())


def test_machines_with_caches_of_their_own_keep_vectors_in_the_folder_of_the_run(tmp_path: Path) -> None:
    own = together(lambda share: shared_cache(share, tmp_path / f"home-{share.rank}", tmp_path / "run"))
    assert own == [tmp_path / "run/embeddings"] * 2
    assert together(lambda share: shared_cache(share, tmp_path / "home", tmp_path / "run")) == [tmp_path / "home"] * 2
    assert shared_cache(ProcessGroup(), tmp_path / "alone", tmp_path / "run") == tmp_path / "alone"


def test_machines_with_other_data_are_told_apart() -> None:
    said = together(lambda share: check_same(share, {"dataset_revision": "abc" if share.rank else "def", "top_k": 5}))
    assert all("dataset_revision is 'def' in process 0 on" in each and "'abc' in process 1 on" in each for each in said)
    assert together(lambda share: check_same(share, {"top_k": 5})) == [None, None]


@pytest.mark.parametrize(
    ("environment", "n_gpus", "said"),
    [
        ({}, 0, ""),
        ({}, 4, ""),  # not started by accelerate launch
        ({"ACCELERATE_MIXED_PRECISION": "no"}, 0, ""),  # one was requested
        ({"ACCELERATE_MIXED_PRECISION": "no"}, 1, ""),
        (
            {"ACCELERATE_MIXED_PRECISION": "no", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"},
            0,
            "accelerate launch started one process, though several were requested; this run is one process. "
            "For more: torchrun --nproc_per_node N",
        ),
        ({"ACCELERATE_MIXED_PRECISION": "no"}, 4, "and 4 GPUs are visible; .*torchrun --nproc_per_node 4 "),
        ({"ACCELERATE_MIXED_PRECISION": "no", "MASTER_PORT": "1", "RANK": "0", "WORLD_SIZE": "2"}, 2, ""),
    ],
)
def test_a_launch_of_one_process_where_several_were_meant_is_said(
    environment: dict[str, str], n_gpus: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    for name in ("ACCELERATE_MIXED_PRECISION", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_gpus)
    lines = launch_warnings()
    assert len(lines) == bool(said)
    assert all(re.search(said, line) for line in lines)
