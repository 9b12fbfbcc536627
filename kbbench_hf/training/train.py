"""Training a retriever: one function, a spec, a folder in which it can be stopped and resumed, a model in the end."""

import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbbench_hf.addresses import registered
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.files.datasets import read_json
from kbbench_hf.files.journal import take_lock
from kbbench_hf.runners.retrieve import group
from kbbench_hf.runners.run_folder import add_facts, open_run
from kbbench_hf.training.questions import TrainingData, load_training_data
from kbbench_hf.training.spec import TrainSpec

METHODS = {
    "dpr": "kbbench_hf.training.encoders:train_dense",
    "ance": "kbbench_hf.training.encoders:train_dense",
}
"""Method -> what trains it."""
USUAL: dict[str, dict[str, Any]] = {"ance": {"refresh": 20, "negatives": "itself"}}
"""Method -> what its spec has otherwise than the others, unless it is told."""
RETRIEVERS = {"dpr": "dense", "ance": "dense"}
"""Method -> the name under which a trained folder ranks."""
CHECKPOINTS = "checkpoints"
TRAINING = "training.json"
"""What a trained folder holds beside the model: the spec, the data's hashes, and how training went."""


@dataclass(frozen=True)
class Trained:
    """A trained retriever."""

    folder: Path
    model: str
    """Its name for `kbbench run`."""
    facts: dict[str, Any]
    """What `training.json` holds."""


def train(
    benchmark: str, method: str, base: str, out: Path | str | None = None, *, show: bool = True, **how: Any
) -> Trained:
    """Train a retriever on a benchmark's training questions and return it; the same call goes on where one stopped.

    The validation questions choose the step; the test questions are opened by `kbbench run` alone.

    Args:
        benchmark: the dataset's name.
        method: dpr, ance, colbert, qagnn or fuse.
        base: what training starts from: an encoder on the Hub or in a folder, or a retriever.
        out: the folder; `kbbench-models/<benchmark>/<method>-<seed>` where None.
        show: whether bars are shown.
        how: fields of `TrainSpec`.

    Raises:
        UsageError: a name or an option that does not exist, a benchmark without questions to train on, or another
            training in the folder.
        BusyError: another process trains in the folder.
    """
    if method not in METHODS:
        raise unknown_name("method", method, METHODS)
    unknown = [name for name in how if name not in TrainSpec.__dataclass_fields__]
    if unknown:
        raise unknown_name("option", unknown[0], TrainSpec.__dataclass_fields__)
    spec = TrainSpec(benchmark, method, base, **{**USUAL.get(method, {}), **how})
    data = load_training_data(benchmark)
    folder = Path(out) if out else Path("kbbench-models") / benchmark.replace("/", "-") / f"{method}-{spec.seed}"
    share = group()
    first = share.rank == 0
    with ExitStack() as stack:
        if first:
            _open(folder, spec, data, share.size, stack)
        share.gather(None)  # nobody reads the folder before it is there
        facts = read_json(folder / TRAINING)
        if "steps" not in facts:
            facts = _taught(spec, data, folder, first=first, show=show and first)
        share.gather(None)
    return Trained(folder, f"{RETRIEVERS[method]}:{folder}", facts)


def _open(folder: Path, spec: TrainSpec, data: TrainingData, processes: int, stack: ExitStack) -> None:
    if folder.is_dir() and any(folder.iterdir()) and not (folder / TRAINING).is_file():
        raise UsageError(f"{folder} holds something else than a training; expected a new folder. Name one with --out.")
    settings = {**spec.to_dict(), "dataset_revision": data.asked.revision, "questions": data.hashes}
    open_run(folder, settings, {"processes": processes}, name=TRAINING)
    if "steps" not in read_json(folder / TRAINING):
        (folder / CHECKPOINTS).mkdir(exist_ok=True)
        stack.callback(take_lock(folder / CHECKPOINTS / ".lock").release)


def _taught(spec: TrainSpec, data: TrainingData, folder: Path, *, first: bool, show: bool) -> dict[str, Any]:
    started = time.perf_counter()
    checkpoints = folder / CHECKPOINTS
    teach: Callable[..., Any] = registered("method", spec.method, METHODS)
    learned = teach(spec, data, folder, checkpoints, show=show)
    if first:
        shutil.rmtree(checkpoints, ignore_errors=True)
        facts = {**learned._asdict(), "seconds": time.perf_counter() - started}
        add_facts(folder / TRAINING, facts)
    return read_json(folder / TRAINING)
