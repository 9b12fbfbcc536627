"""Published systems as baselines (`published:NAME`): lookup by place or name, scores, and local predictions.

`score`, `compare`, the reports and the leaderboard show them beside results. Scores of second hand are never compared.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from kbbench_hf.benchmarks import PUBLISHED, TaskKey, at_hand, benchmark, importable_names, shipped_runs
from kbbench_hf.benchmarks.published import PublishedRow, read_published
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.files.datasets import PREDICTIONS
from kbbench_hf.hub.download import cached_dataset


def published_rows(name: str, config: str, split: str, mode: str) -> list[PublishedRow]:
    """Return what is published under exactly this place, by system; empty where there is nothing.

    >>> published_rows("mini-text2kg", "sentences", "test", "reference")
    []
    """
    file = benchmark(name).showing.published
    return list(read_published(file).get(TaskKey(name, config, split, mode), {}).values()) if file else []


def published_places() -> list[TaskKey]:
    """Return every place that has published scores; the mode is empty where none is stated."""
    files = dict.fromkeys(file for name in importable_names() if (file := benchmark(name).showing.published))
    return [place for file in files for place in read_published(file)]


def published_systems(task_key: TaskKey) -> list[PublishedRow]:
    """Return the published systems of a place that have one of its benchmark's metrics, without second-hand scores.

    What was published without a mode stands among the results of the benchmark's default one.
    """
    found = benchmark(task_key.benchmark)
    modes = ("", task_key.mode) if task_key.mode == found.scoring.modes[0] else (task_key.mode,)
    rows = [row.part(second_hand=False) for mode in modes for row in published_rows(*task_key[:3], mode)]
    return [row for row in rows if any(metric in found.metrics for metric in row.figures)]


class Beside(NamedTuple):
    """A published system to be shown beside a result."""

    row: PublishedRow
    metric: str
    """The score by which it is near."""
    elsewhere: str
    """What sets its place apart from the result's, in words (`split human`, `no mode stated`); empty: nothing."""


def published_beside(task_key: TaskKey, scores: Mapping[str, float]) -> list[Beside]:
    """Return the published systems next above and next below these scores, by the first metric they share.

    Those of the same split and mode where there are any; else of another mode, then of another split, and `elsewhere`
    says so. Other configs are other data: nothing of them is returned.

    >>> published_beside(TaskKey("mini-text2kg", "sentences", "test", "reference"), {"f1": 0.5})
    []
    """
    found = benchmark(task_key.benchmark)
    if not found.showing.published:
        return []
    modes = {mode: number for number, mode in enumerate(found.scoring.modes)}

    def distance(other: TaskKey) -> tuple[bool, bool, bool, int]:
        far = other.split != found.data.default_split
        return other.split != task_key.split, far, other.mode != task_key.mode, modes.get(other.mode, 0)

    near = sorted((each for each in read_published(found.showing.published) if each[:2] == task_key[:2]), key=distance)
    for other in near:
        rows = [row.part(second_hand=False) for row in published_rows(*other)]
        metric = next((m for m in found.metrics if m in scores and any(m in row.figures for row in rows)), None)
        if metric:
            sign = -1 if metric in found.scoring.lower_is_better else 1
            known = [(sign * row.scores[metric], row) for row in rows if metric in row.figures]
            better = [each for each in known if each[0] >= sign * scores[metric]]
            worse = [each for each in known if each[0] < sign * scores[metric]]
            nearest = [min(better, key=lambda each: each[0])] if better else []
            nearest += [max(worse, key=lambda each: each[0])] if worse else []
            return [Beside(row, metric, _elsewhere(task_key, other)) for _, row in nearest]
    return []


def _elsewhere(task_key: TaskKey, other: TaskKey) -> str:
    """Return what differs between two places of one config, in words; empty where nothing does."""
    mode = f"mode {other.mode}" if other.mode else "no mode stated"
    parts = ((f"split {other.split}", other.split != task_key.split), (mode, other.mode != task_key.mode))
    return ", ".join(words for words, differs in parts if differs)


@dataclass(frozen=True)
class Published:
    """What `published:NAME` stands for on a place: scores, answers, or both."""

    system: str
    row: PublishedRow | None
    """Its scores there; None where none were published for this split and mode."""
    answers: Path | None
    """Its answers as a predictions file; None where they are not at hand."""


def find_published(name: str, task_key: TaskKey) -> list[Published]:
    """Return the published systems of a task that a name or a pattern (`*`, `?`, `[ab]`) means, in any case.

    Args:
        name: a system's name, with or without `published:` before it. A shipped run is found by its full name only.
        task_key: scores are those of its split and mode; answers those to its split.

    >>> task_key = TaskKey("mini-text2kg", "sentences", "test", "reference")
    >>> [each.system for each in find_published("published:*", task_key)]
    ['copy', 'pattern']

    Raises:
        UsageError: nothing is known by this name; the message has the closest one, or where it is known.
    """
    wanted = name.removeprefix(PUBLISHED).casefold()
    rows = {row.system: row for row in published_systems(task_key)}
    answers = published_answers(task_key)
    known = list(dict.fromkeys([*rows, *answers]))
    chosen = [each for each in known if each.casefold() == wanted]
    if not chosen and (file := _run_answers(wanted, task_key)):
        return [Published(file.parent.name, None, file)]
    if not chosen and re.search(r"[*?[]", wanted):
        chosen = [each for each in known if fnmatchcase(each.casefold(), wanted)]
    if not chosen:
        raise _unknown_error(name.removeprefix(PUBLISHED), task_key, known)
    return [Published(each, rows.get(each), answers.get(each)) for each in chosen]


def _unknown_error(name: str, task_key: TaskKey, known: list[str]) -> UsageError:
    """Return the error for a system that has no scores of first hand in a place, with where it has some."""
    where = f"{task_key.benchmark}/{task_key.config}, split {task_key.split}, mode {task_key.mode}"
    of_same = [each for each in published_places() if each[:2] == task_key[:2]]
    if _named_rows(name, task_key):
        return UsageError(
            f"{PUBLISHED}{name} has only second-hand scores for {where}; expected scores from the text of its authors. "
            f"To read them: kbbench list {task_key.benchmark} --published"
        )
    elsewhere = [
        f"split {each.split}, {f'mode {each.mode}' if each.mode else 'no mode stated'}"
        for each in of_same
        if any(row.part(second_hand=False).figures for row in _named_rows(name, each))
    ]
    if elsewhere:
        return UsageError(
            f"{PUBLISHED}{name} has no scores for {where}; it has some for {'; '.join(elsewhere)}. Choose one of these "
            f"with --split and --mode."
        )
    if not known:
        hint = f"See: kbbench list {task_key.benchmark} --published" if of_same else "Leave it out."
        return UsageError(f"{PUBLISHED}{name}: nothing is published for {where}. {hint}")
    return unknown_name(f"published system of {where}:", name, known)


def _named_rows(name: str, task_key: TaskKey) -> list[PublishedRow]:
    """Return the published rows of a system in a place, in any case, second-hand ones included."""
    return [row for row in published_rows(*task_key) if row.system.casefold() == name.casefold()]


def published_answers(task_key: TaskKey) -> dict[str, Path]:
    """Return the predictions files that a dataset at hand brings for a config's split, by system; nothing is fetched.

    They are those of the release that `kbbench build` wrote (`predictions/CONFIG/SPLIT/SYSTEM.jsonl`), or of the small
    systems that a package carries with its dataset (`predictions/SYSTEM.jsonl`, for the default config and split).
    """
    found = at_hand(task_key.benchmark)
    root = found.path if found else cached_dataset(task_key.benchmark)
    if root is None:
        return {}
    folder, data = root / PREDICTIONS, benchmark(task_key.benchmark).data
    folders = [folder / task_key.config / task_key.split]
    if (task_key.config, task_key.split) == (data.configs[0], data.default_split):
        folders.append(folder)
    files = sorted(file for each in folders for file in each.glob("*.jsonl"))
    return {file.stem: file for file in files}


def _run_answers(name: str, task_key: TaskKey) -> Path | None:
    """Return the predictions of a shipped run of this name in lower case on the default config and split."""
    data = benchmark(task_key.benchmark).data
    if (task_key.config, task_key.split) != (data.configs[0], data.default_split):
        return None
    folders = (each for each in shipped_runs(task_key.benchmark) if each.name.casefold() == name)
    return next((each / "predictions.jsonl" for each in folders), None)


def answers_of(name: str, task_key: TaskKey) -> Path:
    """Return the predictions file of one published system, for paired tests and for scoring.

    Raises:
        UsageError: the name means none or several; or its answers were never released, or are not at hand: the message
            then has the command that brings them.
    """
    found = find_published(name, task_key)
    if len(found) > 1:
        names = ", ".join(each.system for each in found)
        raise UsageError(f"{name} means {len(found)} systems: {names}. Expected one here; name it in full.")
    if found[0].answers:
        return found[0].answers
    system = found[0].system
    if system not in benchmark(task_key.benchmark).showing.answered:
        raise UsageError(
            f"{PUBLISHED}{system} has scores only, and predictions are needed; they were not released. "
            f"List its scores: kbbench list {task_key.benchmark}/{task_key.config} --published"
        )
    raise UsageError(
        f"The predictions of {PUBLISHED}{system} are in the authors' release and not installed. "
        f"Build the dataset: kbbench build {task_key.benchmark}  (add --source RELEASE if you have the release)"
    )
