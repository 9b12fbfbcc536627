"""The small benchmarks written for this package, shipped built in `mini/<name>/`, with two systems' answers."""

import os
import shutil
from pathlib import Path

from kbbench_hf.dataset_folder import DatasetFolder
from kbbench_hf.errors import unknown_name

_HERE = Path(__file__).parent


def mini_names() -> list[str]:
    """Return the names of the shipped datasets."""
    return sorted(manifest.parent.name for manifest in _HERE.glob("*/manifest.json"))


def mini_dataset(name: str) -> DatasetFolder:
    """Return a shipped dataset.

    >>> mini_dataset("mini-text2kg").table("sentences", "test").num_rows
    48

    Raises:
        UsageError: none of that name is shipped.
    """
    if name not in mini_names():
        raise unknown_name("mini benchmark", name, mini_names())
    return DatasetFolder(_HERE / name)


def stored_answers(name: str) -> list[Path]:
    """Return the predictions files shipped with a mini dataset, by name.

    >>> [each.name for each in stored_answers("mini-text2kg")]
    ['copy.jsonl', 'pattern.jsonl']
    """
    return sorted((mini_dataset(name).path / "predictions").glob("*.jsonl"))


def copy_mini(name: str, out: Path) -> None:
    """Copy a shipped dataset to `out`, in place of what stands there, whole or not at all."""
    folder = mini_dataset(name)
    out = out.resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    partial, old = (out.with_name(f".{out.name}.{state}-{os.getpid()}") for state in ("partial", "old"))
    try:
        shutil.copytree(folder.path, partial)
        if out.exists():
            out.rename(old)
        partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
