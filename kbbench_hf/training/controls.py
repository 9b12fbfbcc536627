"""Controls of a trained retriever, ranked on the same questions and compared pairwise."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kbbench_hf.errors import UsageError
from kbbench_hf.files.writing import write_text
from kbbench_hf.metrics.significance import paired_test
from kbbench_hf.runners.process_group import group
from kbbench_hf.runners.run import run
from kbbench_hf.scoring.result import Result
from kbbench_hf.training.questions import VALIDATION, load_training_data
from kbbench_hf.training.spec import UNPLANNED, TrainSpec
from kbbench_hf.training.train import CONTROL, RETRIEVERS, Trained, train

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
    ranking without plans, plans by rules, gold plans, and its plans with gold entities), BM25, `knn` of the training
    questions, other seeds, and the same training with shuffled answers (and plans) and without masking.
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
        variants = {"shuffled plans": {"shuffle": True}}
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
