"""Process groups started by torchrun or Accelerate, and checks of what their processes share.

Retrieval runs, local language models and training use it. The run folder must be on a disk that all processes see.
Datasets, models and the embedding cache may be local to each machine if they are equal. The checks gather: all
processes must call them, in the same order.
"""

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from kbbench_hf.errors import UsageError
from kbbench_hf.protocols import ProcessGroup

PATIENCE_S = 2.0
"""Seconds after which a network disk may show a new file."""


def group(processes: int | None = None) -> ProcessGroup:
    """Return this process's rank and size of the group that torchrun or Accelerate started; else a group of one.

    Raises:
        UsageError: the group has another number of processes than `processes`.
    """
    share = ProcessGroup()
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        import torch
        from accelerate import PartialState
        from accelerate.utils import gather_object

        state = PartialState(cpu=not torch.cuda.is_available())
        share = ProcessGroup(state.process_index, state.num_processes, lambda value: gather_object([value]))
    if processes is not None and processes != share.size:
        raise UsageError(
            f"{share.size} process(es) are running, but --processes is {processes}. Start the group with "
            f"'torchrun --nproc_per_node {processes} -m kbbench_hf.cli ...'; 'accelerate launch --cpu' starts only one."
        )
    return share


def launch_warnings() -> list[str]:
    """Return a line where `accelerate launch` started a single process although there is work or room for several.

    With several CPU processes and no hostfile it names a port for the group and then starts one process only.
    """
    if "ACCELERATE_MIXED_PRECISION" not in os.environ or int(os.environ.get("WORLD_SIZE", "1")) > 1:
        return []
    import torch

    if (n := torch.cuda.device_count()) > 1:
        why, more = f"and {n} GPUs are visible", str(n)
    elif "MASTER_PORT" in os.environ and "RANK" not in os.environ:
        why, more = "though several were requested", "N"
    else:
        return []
    return [
        f"accelerate launch started one process, {why}; this run is one process. For more: torchrun --nproc_per_node "
        f"{more} -m kbbench_hf.cli run ..."
    ]


def check_shared(share: ProcessGroup, folder: Path) -> None:
    """Raise UsageError where a process does not see `folder`, which the first one has made; all must call it."""
    if blind := _blind_processes(share, folder):
        raise UsageError(
            f"{', '.join(blind)} cannot see {folder.absolute()}; expected a folder on a disk that all machines share. "
            "Name one with --out, by the same path on each of them."
        )


def check_same(share: ProcessGroup, settings: Mapping[str, Any]) -> None:
    """Raise UsageError where processes have different settings, another dataset's revision say; all must call it."""
    named = share.gather((_process_name(share), dict(settings)))
    for name, other in named[1:]:
        for key in {**named[0][1], **other}:
            mine, theirs = named[0][1].get(key), other.get(key)
            if mine != theirs:
                raise UsageError(
                    f"{key} is {mine!r} in {named[0][0]}, and {theirs!r} in {name}; expected the same on all machines. "
                    "Start the same command with the same data and models on each of them."
                )


def shared_cache(share: ProcessGroup, cache: Path, folder: Path) -> Path:
    """Return the folder of vectors: `cache` if all processes see what the first one writes there, else in `folder`.

    The caches of single machines are then not used: all processes make blocks of vectors, and one joins them.
    """
    return folder / "embeddings" if _blind_processes(share, cache) else cache


def _blind_processes(share: ProcessGroup, folder: Path) -> list[str]:
    """Return the names of the processes that do not see what the first one writes into a folder."""
    if share.size == 1:
        return []
    mark = folder / f".seen-{share.gather(uuid4().hex)[0]}"
    if share.rank == 0:
        folder.mkdir(parents=True, exist_ok=True)
        mark.touch()
    share.gather(None)
    until = time.monotonic() + PATIENCE_S
    while not (seen := mark.exists()) and time.monotonic() < until:
        time.sleep(0.05)
    blind = [each for each in share.gather(None if seen else _process_name(share)) if each]
    if share.rank == 0:
        mark.unlink()
    return blind


def _process_name(share: ProcessGroup) -> str:
    return f"process {share.rank} on {socket.gethostname()}"
