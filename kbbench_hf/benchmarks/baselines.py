"""Published systems as baselines (`published:NAME`): lookup by place or name, scores, and local predictions."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from kbbench_hf.benchmarks import PUBLISHED, Place, at_hand, benchmark, importable_names, shipped_runs
from kbbench_hf.benchmarks.published import PublishedRow, read_published
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.files.datasets import PREDICTIONS
from kbbench_hf.hub.download import downloaded_dataset


def published_rows(name: str, config: str, split: str, mode: str) -> list[PublishedRow]:
    """Return what is published under exactly this place, by system; empty where there is nothing.

    >>> published_rows("mini-text2kg", "sentences", "test", "reference")
    []
    """
    file = benchmark(name).showing.published
    return list(read_published(file).get(Place(name, config, split, mode), {}).values()) if file else []


def published_places() -> list[Place]:
    """Return every place that has published figures; the mode is empty where none is stated."""
    files = dict.fromkeys(file for name in importable_names() if (file := benchmark(name).showing.published))
    return [place for file in files for place in read_published(file)]


def published_systems(place: Place) -> list[PublishedRow]:
    """Return the published systems of a place that have one of its benchmark's metrics.

    What was published without a mode stands among the results of the benchmark's default one.
    """
    found = benchmark(place.benchmark)
    modes = ("", place.mode) if place.mode == found.scoring.modes[0] else (place.mode,)
    rows = [row for mode in modes for row in published_rows(*place[:3], mode)]
    return [row for row in rows if any(metric in found.metrics for metric in row.figures)]


class Beside(NamedTuple):
    """A published system to be shown beside a result."""

    row: PublishedRow
    metric: str
    """The figure by which it is near."""
    elsewhere: str
    """What sets its place apart from the result's, in words (`split human`, `no mode stated`); empty: nothing."""


def published_beside(place: Place, scores: Mapping[str, float]) -> list[Beside]:
    """Return the published systems next above and next below these scores, by the first metric they share.

    Those of the same split and mode where there are any; else of another mode, then of another split, and `elsewhere`
    says so. Other configs are other data: nothing of them is returned.

    >>> published_beside(Place("mini-text2kg", "sentences", "test", "reference"), {"f1": 0.5})
    []
    """
    found = benchmark(place.benchmark)
    if not found.showing.published:
        return []
    modes = {mode: number for number, mode in enumerate(found.scoring.modes)}

    def distance(other: Place) -> tuple[bool, bool, bool, int]:
        far = other.split != found.data.default_split
        return other.split != place.split, far, other.mode != place.mode, modes.get(other.mode, 0)

    near = sorted((each for each in read_published(found.showing.published) if each[:2] == place[:2]), key=distance)
    for other in near:
        rows = published_rows(*other)
        metric = next((m for m in found.metrics if m in scores and any(m in row.figures for row in rows)), None)
        if metric:
            sign = -1 if metric in found.scoring.lower_is_better else 1
            known = [(sign * row.scores[metric], row) for row in rows if metric in row.figures]
            better = [each for each in known if each[0] >= sign * scores[metric]]
            worse = [each for each in known if each[0] < sign * scores[metric]]
            nearest = [min(better, key=lambda each: each[0])] if better else []
            nearest += [max(worse, key=lambda each: each[0])] if worse else []
            return [Beside(row, metric, _elsewhere(place, other)) for _, row in nearest]
    return []


def _elsewhere(place: Place, other: Place) -> str:
    mode = f"mode {other.mode}" if other.mode else "no mode stated"
    parts = ((f"split {other.split}", other.split != place.split), (mode, other.mode != place.mode))
    return ", ".join(words for words, differs in parts if differs)


@dataclass(frozen=True)
class Published:
    """What `published:NAME` stands for on a place: figures, answers, or both."""

    system: str
    row: PublishedRow | None
    """Its figures there; None where none were published for this split and mode."""
    answers: Path | None
    """Its answers as a predictions file; None where they are not at hand."""


def find_published(name: str, place: Place) -> list[Published]:
    """Return the published systems of a place that a name or a pattern (`*`, `?`, `[ab]`) means, in any case.

    Args:
        name: a system's name, with or without `published:` before it. A shipped run is found by its full name only.
        place: figures are those of its split and mode; answers those to its split.

    >>> [each.system for each in find_published("published:*", Place("mini-text2kg", "sentences", "test", "reference"))]
    ['copy', 'pattern']

    Raises:
        UsageError: nothing is known by this name; the message has the closest one, or where it is known.
    """
    wanted = name.removeprefix(PUBLISHED).casefold()
    rows = {row.system: row for row in published_systems(place)}
    answers = published_answers(place)
    known = list(dict.fromkeys([*rows, *answers]))
    chosen = [each for each in known if each.casefold() == wanted]
    if not chosen and (file := _run_answers(wanted, place)):
        return [Published(file.parent.name, None, file)]
    if not chosen and re.search(r"[*?[]", wanted):
        chosen = [each for each in known if fnmatchcase(each.casefold(), wanted)]
    if not chosen:
        raise _unknown(name.removeprefix(PUBLISHED), place, known)
    return [Published(each, rows.get(each), answers.get(each)) for each in chosen]


def _unknown(name: str, place: Place, known: list[str]) -> UsageError:
    where = f"{place.benchmark}/{place.config}, split {place.split}, mode {place.mode}"
    of_same = [each for each in published_places() if each[:2] == place[:2]]
    elsewhere = [
        f"split {each.split}, {f'mode {each.mode}' if each.mode else 'no mode stated'}"
        for each in of_same
        if any(row.system.casefold() == name.casefold() for row in published_rows(*each))
    ]
    if elsewhere:
        return UsageError(
            f"{PUBLISHED}{name} has no scores for {where}; it has some for {'; '.join(elsewhere)}. Choose one of these "
            f"with --split and --mode."
        )
    if not known:
        hint = f"See: kbbench list {place.benchmark} --published" if of_same else "Leave it out."
        return UsageError(f"{PUBLISHED}{name}: nothing is published for {where}. {hint}")
    return unknown_name(f"published system of {where}:", name, known)


def published_answers(place: Place) -> dict[str, Path]:
    """Return the predictions files that a dataset at hand brings for a config's split, by system; nothing is fetched.

    They are those of the release that `kbbench build` wrote (`predictions/CONFIG/SPLIT/SYSTEM.jsonl`), or of the small
    systems that a package carries with its dataset (`predictions/SYSTEM.jsonl`, for the default config and split).
    """
    found = at_hand(place.benchmark)
    root = found.path if found else downloaded_dataset(place.benchmark)
    if root is None:
        return {}
    folder, data = root / PREDICTIONS, benchmark(place.benchmark).data
    folders = [folder / place.config / place.split]
    if (place.config, place.split) == (data.configs[0], data.default_split):
        folders.append(folder)
    files = sorted(file for each in folders for file in each.glob("*.jsonl"))
    return {file.stem: file for file in files}


def _run_answers(name: str, place: Place) -> Path | None:
    """Return the predictions of a shipped run of this name in lower case on the default config and split."""
    data = benchmark(place.benchmark).data
    if (place.config, place.split) != (data.configs[0], data.default_split):
        return None
    folders = (each for each in shipped_runs(place.benchmark) if each.name.casefold() == name)
    return next((each / "predictions.jsonl" for each in folders), None)


def answers_of(name: str, place: Place) -> Path:
    """Return the predictions file of one published system, for paired tests and for scoring.

    Raises:
        UsageError: the name means none or several; or its answers were never released, or are not at hand: the message
            then has the command that brings them.
    """
    found = find_published(name, place)
    if len(found) > 1:
        names = ", ".join(each.system for each in found)
        raise UsageError(f"{name} means {len(found)} systems: {names}. Expected one here; name it in full.")
    if found[0].answers:
        return found[0].answers
    system = found[0].system
    if system not in benchmark(place.benchmark).showing.answered:
        raise UsageError(
            f"{PUBLISHED}{system} has scores only, and predictions are needed; they were not released. "
            f"List its scores: kbbench list {place.benchmark}/{place.config} --published"
        )
    raise UsageError(
        f"The predictions of {PUBLISHED}{system} are in the authors' release and not installed. "
        f"Build the dataset: kbbench build {place.benchmark}  (add --source RELEASE if you have the release)"
    )
