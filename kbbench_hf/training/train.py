"""Training of a retriever by any method, in a folder in which it can be stopped and resumed."""

import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kbbench_hf.addresses import registered
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.files.datasets import read_json
from kbbench_hf.files.journal import take_lock
from kbbench_hf.files.writing import write_text
from kbbench_hf.metrics.aggregate import Estimate, estimate
from kbbench_hf.metrics.significance import paired_test
from kbbench_hf.reports.model_card import TRAINING, model_card
from kbbench_hf.retrieval.trained_folder import PLAN
from kbbench_hf.runners.process_group import check_same, check_shared, group
from kbbench_hf.runners.retrieval_run import rank
from kbbench_hf.runners.run_folder import add_facts, open_run
from kbbench_hf.scoring.result import Result
from kbbench_hf.scoring.score import score
from kbbench_hf.training.questions import VALIDATION, TrainingData, load_training_data
from kbbench_hf.training.spec import UNPLANNED, TrainSpec

METHODS = {
    "dpr": "kbbench_hf.training.encoders:train_encoder",
    "ance": "kbbench_hf.training.encoders:train_encoder",
    "colbert": "kbbench_hf.training.encoders:train_encoder",
    "qagnn": "kbbench_hf.training.qagnn:train_qagnn",
    "fuse": "kbbench_hf.training.fusion:train_fusion",
    "plan": "kbbench_hf.training.planner:train_planner",
}
"""Method -> address of its training function."""
USUAL: dict[str, dict[str, Any]] = {
    "ance": {"refresh": 20, "negatives": "itself"},
    "colbert": {"batch": 16},
    "qagnn": {"epochs": 12, "learning_rate": 1e-3, "evaluations": 6},
    "plan": {"epochs": 10, "batch": 64, "learning_rate": 2e-3},
}
"""Method -> other defaults of its spec."""
RETRIEVERS = {"dpr": "dense", "ance": "dense", "colbert": "late", "qagnn": "qagnn", "fuse": "fuse", "plan": "plan"}
"""Method -> the retriever of its trained folders."""
CONTROL = {"qagnn": "@layers=0"}
"""Method -> the options that make a trained folder its own control."""
CHECKPOINTS = "checkpoints"
N_METRICS = 4
"""Metrics of a benchmark's table on a model card."""


@dataclass(frozen=True)
class Trained:
    """A trained retriever."""

    folder: Path
    model: str
    """Its name for `kbbench run`."""
    facts: dict[str, Any]
    """The content of `training.json`."""


def train(
    benchmark: str, method: str, base: str, out: Path | str | None = None, *, show: bool = True, **how: Any
) -> Trained:
    """Train a retriever on a benchmark's training questions; the same call resumes an interrupted training.

    The validation questions choose the step; only `kbbench run` opens the test questions.

    Args:
        benchmark: the dataset's name.
        method: dpr, ance, colbert, qagnn, fuse or plan.
        base: the base model: an encoder on the Hub or in a folder; to fuse, `weighted(a,b,...)`; for plans, a causal
            language model, or `tiny`, a new one.
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
    data = load_training_data(benchmark, spec.text)
    if spec.shuffle:
        data = replace(data, train=data.train.shuffle_answers(spec.seed))
    folder = Path(out) if out else Path("kbbench-models") / benchmark.replace("/", "-") / f"{method}-{spec.seed}"
    processes = group()
    first = processes.rank == 0
    with ExitStack() as stack:
        undo = stack.enter_context(ExitStack())  # a failed start leaves no folder
        if first and not folder.exists():
            undo.callback(_remove_unless_begun, folder)
        if first:
            _open_folder(folder, spec, data, processes.size, stack)
        check_shared(processes, folder)
        check_same(processes, _settings(spec, data))
        facts = read_json(folder / TRAINING)
        if "steps" not in facts:
            facts = _train_and_evaluate(spec, data, folder, first=first, show=show and first)
        processes.gather(None)
        facts = facts or read_json(folder / TRAINING)
    return Trained(folder, _model_name(spec, folder), facts)


def _remove_unless_begun(folder: Path) -> None:
    """Remove a new folder in which there is neither a checkpoint nor a trained model."""
    done = (folder / TRAINING).is_file() and "steps" in read_json(folder / TRAINING)
    if not done and not any(folder.glob(f"{CHECKPOINTS}/**/checkpoint-*")):
        shutil.rmtree(folder, ignore_errors=True)


def _open_folder(folder: Path, spec: TrainSpec, data: TrainingData, processes: int, stack: ExitStack) -> None:
    if folder.is_dir() and any(folder.iterdir()) and not (folder / TRAINING).is_file():
        raise UsageError(f"{folder} holds something else than a training; expected a new folder. Name one with --out.")
    open_run(folder, _settings(spec, data), {"processes": processes}, name=TRAINING)
    if "steps" not in read_json(folder / TRAINING):
        (folder / CHECKPOINTS).mkdir(exist_ok=True)
        stack.callback(take_lock(folder / CHECKPOINTS / ".lock").release)


def _settings(spec: TrainSpec, data: TrainingData) -> dict[str, Any]:
    """Return the settings that decide a trained model, besides the base's weights."""
    return {**spec.to_dict(), "dataset_revision": data.task.revision, "questions": data.hashes}


def _train_and_evaluate(
    spec: TrainSpec, data: TrainingData, folder: Path, *, first: bool, show: bool
) -> dict[str, Any]:
    """Train, rank the validation questions, and store the results; all processes call it together."""
    started = time.perf_counter()
    teach: Callable[..., Any] = registered("method", spec.method, METHODS)
    learned = teach(spec, data, folder, folder / CHECKPOINTS, show=show)
    seconds = time.perf_counter() - started
    group().gather(None)  # the model is there when it is loaded
    models = {"all": _model_name(spec, folder)}
    if spec.method in CONTROL:
        models |= {f"control{CONTROL[spec.method]}": _model_name(spec, folder) + CONTROL[spec.method]}
        models |= {f"first stage, {spec.first_stage}": spec.first_stage}
    if spec.method == "plan":
        models |= {f"without plans, {UNPLANNED}": UNPLANNED}
    for position, model in enumerate(models.values()):
        rank(data.task, model, folder / CHECKPOINTS / f"{VALIDATION}-{position}", show=show, timed=False)
    if first:
        result, *others = (score(folder / CHECKPOINTS / f"{VALIDATION}-{position}") for position in range(len(models)))
        seen = result.slices.get("answer_in_training", {})
        figures = {"all": result.scores, "answer seen in training": seen.get("true"), "not seen": seen.get("false")}
        figures |= {name: other.scores for name, other in zip([*models][1:], others, strict=True)}
        if spec.method == "plan":
            figures |= _scores_by_shape(folder, data, result)
        facts = {
            **learned._asdict(),
            "curve": learned.curve or [{"step": learned.steps, "mrr": result.scores["mrr"].value}],
            "seconds": seconds,
            "validation": {name: _estimates(of, data) for name, of in figures.items() if of},
            "gains": [_paired_gain(name, result, other) for name, other in zip([*models][1:], others, strict=True)],
        }
        write_text(
            folder / "README.md",
            model_card({**read_json(folder / TRAINING), **facts}, folder.name, RETRIEVERS[spec.method]),
        )
        add_facts(folder / TRAINING, facts)
        shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
    return {} if not first else read_json(folder / TRAINING)


def _scores_by_shape(folder: Path, data: TrainingData, result: Result) -> dict[str, dict[str, Estimate]]:
    """Return the scores of the questions whose shape of plan was, and was not, in training."""
    from kbbench_hf.training.planner import parse_shape

    held = read_json(folder / PLAN)["held_out"]
    unseen = np.array([parse_shape(plan) in held for plan in data.validation.plans], bool)
    parts = {"shape in training": ~unseen, "shape not in training": unseen}
    return {
        name: {metric: estimate(values[own]) for metric, values in result.values.items()}
        for name, own in parts.items()
        if own.any()
    }


def _paired_gain(name: str, trained: Result, other: Result) -> dict[str, Any]:
    """Return the paired gain of the trained retriever's MRR over another one's."""
    test = paired_test(trained.values["mrr"], other.values["mrr"])
    return {"over": name, "mrr": test.difference, "ci95": list(test.ci95), "p_value": test.p_value}


def _model_name(spec: TrainSpec, folder: Path) -> str:
    """Return the name of the trained retriever for `kbbench run`; the text is in the name of encoders only."""
    retriever = RETRIEVERS[spec.method]
    text = f"@text={spec.text}" if spec.text is not None and retriever in ("dense", "late") else ""
    return f"{retriever}:{folder}{text}"


def _estimates(scores: Mapping[str, Estimate], data: TrainingData) -> dict[str, dict[str, Any]]:
    """Return the headline estimates as in JSON."""
    return {
        metric: {"value": scores[metric].value, "ci95": list(scores[metric].ci95), "n": scores[metric].n_scored}
        for metric in [*data.task.benchmark.metrics][:N_METRICS]
        if metric in scores
    }
