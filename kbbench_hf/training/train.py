"""Training of a retriever by any method, in a folder in which it can be stopped and resumed; its controls.

The controls are ranked on the same questions and compared pairwise. The public API has `train`; `kbbench train` calls
`train` and `controls`. Keys of `training.json` and `controls.json` are a stored format, which model cards show.
"""

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

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
from kbbench_hf.runners.run import run
from kbbench_hf.runners.run_folder import add_facts, open_run
from kbbench_hf.scoring.result import Result
from kbbench_hf.scoring.score import score
from kbbench_hf.training.questions import VALIDATION, TrainingData, load_training_data
from kbbench_hf.training.spec import OPTIONS_READ, UNPLANNED, TrainSpec

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
        UsageError: a name or an option that does not exist or that the method does not read, a benchmark without
            questions to train on, or another training in the folder.
        BusyError: another process trains in the folder.
    """
    if method not in METHODS:
        raise unknown_name("method", method, METHODS)
    unknown = [name for name in how if name not in TrainSpec.__dataclass_fields__]
    if unknown:
        raise unknown_name("option", unknown[0], TrainSpec.__dataclass_fields__)
    _refuse_unread(method, how)
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


def _refuse_unread(method: str, how: Mapping[str, Any]) -> None:
    """Refuse options that would be ignored; their defaults change nothing."""
    for name, value in how.items():
        if name not in OPTIONS_READ[method] and value != TrainSpec.__dataclass_fields__[name].default:
            methods = ", ".join(other for other, own in OPTIONS_READ.items() if name in own)
            raise UsageError(
                f"--{name.replace('_', '-')} is for --method {methods}; {method} has no use for it. Leave it out."
            )


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
        facts["warnings"] = [_no_gain(spec, gain) for gain in facts["gains"] if gain["ci95"][0] <= 0]
        write_text(
            folder / "README.md",
            model_card({**read_json(folder / TRAINING), **facts}, folder.name, RETRIEVERS[spec.method]),
        )
        add_facts(folder / TRAINING, facts)
        shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
    return {} if not first else read_json(folder / TRAINING)


def _scores_by_shape(folder: Path, data: TrainingData, result: Result) -> dict[str, dict[str, Estimate]]:
    """Return the scores of the questions whose shape of plan was, and was not, in training."""
    from kbbench_hf.training.plan_examples import parse_shape

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


def _no_gain(spec: TrainSpec, gain: Mapping[str, Any]) -> str:
    """Return the warning that training gained nothing over another retriever."""
    low, high = gain["ci95"]
    more = "more questions (kbbench synthesize --count)" if spec.method == "plan" else "more questions"
    return (
        f"Training gained nothing over {gain['over']}: MRR {gain['mrr']:+.4f} [{low:+.3f}, {high:+.3f}]. "
        f"Train on {more}, or for longer: --epochs {2 * spec.epochs}."
    )


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


CONTROLS = "controls.json"
TRAINED = "trained"
VARIANTS: dict[str, dict[str, Any]] = {
    "shuffled answers": {"shuffle": True},
    "known answers not masked": {"mask": False},
}
"""Control -> other settings of its training."""
METRIC = "mrr"
SEEN = "answer_in_training"
PARTS = {"all": None, "seen": "true", "unseen": "false"}
"""Part of the questions -> key of the slice by whether an answer of theirs was one in training."""


class Control(NamedTuple):
    """A line of the table: a system on one part of the questions, and the gain of the trained retriever over it."""

    system: str
    part: str
    n: int
    mrr: float
    """The mean over seeds."""
    seeds: list[float]
    """The MRR of each seed, in order."""
    gain: float
    """The MRR of the trained retriever (mean over seeds) minus this one, paired by question."""
    ci95: tuple[float, float]
    p_value: float


def controls(trained: Trained, *, seeds: int = 3, show: bool = True) -> list[Control]:
    """Train and rank the controls of a retriever on the validation questions; the table is written in its folder.

    They are the encoder before training (for QA-GNN the first stage and the network of 0 layers; for a planner the
    ranking without plans, plans by rules, gold plans, its plans with gold entities and its plans of other questions),
    BM25, `knn` of the training questions, other seeds, and the same training with shuffled answers and without masking.
    A planner is also trained on plans of other questions from the same types: what the types of entities tell alone.
    Trained controls are in folders next to the retriever's, with their name added; the same call resumes and trains
    nothing twice.

    Args:
        trained: the result of `train`.
        seeds: how many seeds to average over, its own included.
        show: whether bars are shown.

    Raises:
        UsageError: it is a trained fusion, whose controls stand in its own curve.
    """
    if trained.facts["settings"]["method"] == "fuse":
        raise UsageError("fuse has its controls in its curve: equal weights, and trained ones on questions not seen.")
    models = train_controls(trained, seeds=seeds, show=show)
    benchmark = trained.facts["settings"]["benchmark"]
    results = rank_controls(benchmark, models, sibling_folder(trained.folder, "runs"), VALIDATION, show=show)
    if trained.facts["settings"]["method"] == "plan":
        from kbbench_hf.training.planner import rank_oracles

        like = results[TRAINED][0]
        oracles = rank_oracles(trained.folder, load_training_data(benchmark))
        results |= {name: [replace(like, values={**like.values, METRIC: own})] for name, own in oracles.items()}
    found = compare_controls(results)
    if group().rank == 0:
        lines = [line._asdict() for line in found]
        write_text(trained.folder / CONTROLS, json.dumps({"split": VALIDATION, "lines": lines}, indent=2) + "\n")
    return found


def train_controls(trained: Trained, *, seeds: int = 3, show: bool = True) -> dict[str, list[str]]:
    """Train the controls of a retriever, and return the names of models by system, one per seed."""
    settings = trained.facts["settings"]
    spec = {name: settings[name] for name in TrainSpec.__dataclass_fields__}
    text = "" if spec["text"] is None else f"@text={spec['text']}"

    def other(name: str, **how: Any) -> str:
        return train(**{**spec, **how}, out=sibling_folder(trained.folder, name), show=show).model

    further = [other(f"seed-{seed}", seed=seed) for seed in range(spec["seed"] + 1, spec["seed"] + seeds)]
    models = [trained.model, *further]
    variants = VARIANTS
    if spec["method"] == "plan":
        untrained = {"without plans": [UNPLANNED], "plans by rules": ["plan:rules"]}
        variants = {"plans from types alone": {"shuffle": True}}
    elif control := CONTROL.get(spec["method"]):
        untrained = {
            f"control{control}": [f"{model}{control}" for model in models],
            "first stage": [spec["first_stage"]],
        }
    else:
        untrained = {"before training": [f"{RETRIEVERS[spec['method']]}:{spec['base']}{text}"]}
    return {
        TRAINED: models,
        **untrained,
        "bm25": ["bm25"],
        "knn": ["knn"],
        **{name: [other(name.replace(" ", "-"), **how)] for name, how in variants.items()},
    }


def rank_controls(
    benchmark: str, models: Mapping[str, Sequence[str]], folder: Path, split: str, *, show: bool = True
) -> dict[str, list[Result]]:
    """Return the results of models on a split, by system; each run is in `folder`."""
    return {
        system: [
            run(benchmark, name, split=split, out=folder / f"{split}-{system.replace(' ', '-')}-{n}", show=show)
            for n, name in enumerate(names)
        ]
        for system, names in models.items()
    }


def compare_controls(results: Mapping[str, Sequence[Result]]) -> list[Control]:
    """Return the table: each system on all questions, and on those whose answers were, and were not, in training.

    A question counts 0 where a system ranks no answer (`knn` ranks few nodes).

    Args:
        results: the results of each system on the same questions, one per seed; `TRAINED` is one of them.
    """
    values = {system: np.nan_to_num([each.values[METRIC] for each in of]) for system, of in results.items()}
    seen = np.asarray(results[TRAINED][0].example_slices.get(SEEN, ()))
    lines = []
    for part, key in PARTS.items():
        chosen = np.full(values[TRAINED].shape[1], fill_value=True) if key is None else seen == key
        if not chosen.any():
            continue
        trained = values[TRAINED][:, chosen].mean(axis=0)
        for system, of in values.items():
            mine = of[:, chosen]
            test = paired_test(trained, mine.mean(axis=0))
            means = mine.mean(axis=1).tolist()
            own = (test.difference, test.ci95, test.p_value)
            lines.append(Control(system, part, int(chosen.sum()), float(mine.mean()), means, *own))
    return lines


def sibling_folder(folder: Path, name: str) -> Path:
    """Return the folder of a control, next to the published one."""
    return folder.with_name(f"{folder.name}-{name}")
