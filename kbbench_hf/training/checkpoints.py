"""Checkpoints of transformers' trainer that were written, and not yet partly removed: a training goes on from no other.

The trainer writes weights first and its state last, file by file. Of what was killed in between it would take the
weights and begin again at step 0, without a word.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from torch import distributed
from transformers import TrainerCallback

from kbbench_hf.files.writing import write_text

FILES = "files.json"
"""What a checkpoint holds: its files and their sizes, written when all of them are there."""


class Sealed(TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """Seals each checkpoint; the last of the callbacks, since others write files too."""

    def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Write the list of its files; the first process does, when all are done."""
        if distributed.is_initialized():
            distributed.barrier()
        if state.is_world_process_zero:
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            write_text(folder / FILES, json.dumps(_sizes(folder)))


def last_checkpoint(folder: Path) -> Path | None:
    """Return the newest checkpoint that is whole; None where there is none."""
    return max((each for each in folder.glob("checkpoint-*") if _is_whole(each)), key=_step, default=None)


def remove_torn(folder: Path) -> None:
    """Remove checkpoints that are not whole."""
    for each in folder.glob("checkpoint-*"):
        if not _is_whole(each):
            shutil.rmtree(each)


def _is_whole(checkpoint: Path) -> bool:
    try:
        stated = json.loads((checkpoint / FILES).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    there = _sizes(checkpoint)
    return bool(all(there.get(name) == size for name, size in stated.items()))


def _sizes(folder: Path) -> dict[str, int]:
    return {
        file.relative_to(folder).as_posix(): file.stat().st_size for file in sorted(folder.rglob("*")) if file.is_file()
    }


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])
