"""Calibration data of GenRES's release: stored answers, published scores, judges' verdicts and people's votes."""

import csv
from collections.abc import Mapping
from pathlib import Path

from kbbench_hf.benchmarks.annotated import HumanVote
from kbbench_hf.benchmarks.answers import Answer
from kbbench_hf.benchmarks.base import Example, Examples, TaskKey
from kbbench_hf.benchmarks.genres.topic_corpora import PUBLISHED, RELEASE_NAMES, stored_by_text
from kbbench_hf.benchmarks.published import read_published
from kbbench_hf.building.genres.release import CONFIGS
from kbbench_hf.errors import DataError
from kbbench_hf.metrics.agreement import Vote

_VERDICTS = ("GREScores", "stored_verdicts", "genres/stored_verdicts", "data/genres/stored_verdicts")
"""Folders of the released judge's verdicts, in a clone or in a folder of its parts."""


def released_outputs(release: Path, examples: Examples) -> list[tuple[str, list[Answer], Mapping[str, float]]]:
    """Return (system, its stored answers, its published scores) of every system with both, of the examples' config.

    Scores that cannot be recomputed from stored answers are left out.

    Raises:
        DataError: the release has no stored outputs of this config.
    """
    config = examples.context.config
    place = TaskKey("genres-corpora", config, "test", "reference")
    published = read_published(PUBLISHED)[place]
    found: list[tuple[str, list[Answer], Mapping[str, float]]] = []
    for system, name in RELEASE_NAMES.items():
        answers = stored_answers(release, config, name, examples)
        if system in published and answers is not None:
            sound = {
                metric: figure.value
                for metric, figure in published[system].figures.items()
                if not figure.note.startswith("no stored basis")
            }
            found.append((name, answers, sound))
    if not found:
        raise DataError(f"{release} has no stored outputs of {config}; expected a clone of GenRES. Check the path.")
    return found


def stored_answers(release: Path, config: str, name: str, examples: Examples) -> list[Answer] | None:
    """Return a system's released answer to each document, parsed; None where nothing is stored.

    `name` is the system's in the release's files, a value of `RELEASE_NAMES`.
    """
    stored = stored_by_text(release, CONFIGS[config].sample, name)
    return None if stored is None else [stored.get(row["text"], []) for row in examples.rows]


def released_verdicts(release: Path, examples: Examples, kind: str) -> list[tuple[str, list[Answer], Path]]:
    """Return (system, stored answers, file of verdicts) of each judged system of the examples' config.

    `kind` is `factualness` or `granularity`.

    Raises:
        DataError: the release has no verdicts of this config.
    """
    config, found = examples.context.config, []
    for name in RELEASE_NAMES.values() if config in CONFIGS else ():
        sample, answers = CONFIGS[config].sample, stored_answers(release, config, name, examples)
        files = (release / folder / kind / f"{sample}_{name}_1.json" for folder in _VERDICTS)
        file = next((file for file in files if file.is_file()), None)
        if file is not None and answers is not None:
            found.append((name, answers, file))
    if not found:
        raise DataError(
            f"{release} has no verdicts on {kind} of {config}; expected a clone of GenRES with GREScores/{kind}. Check "
            "the path."
        )
    return found


def calibrates(row: Example) -> bool:
    """Return whether a document is of the half for choosing and fitting judges: its id's last digit is even.

    >>> calibrates({"id": "520af9299c2d397a"}), calibrates({"id": "520af9299c2d3979"})
    (True, False)
    """
    return int(row["id"][-1], 16) % 2 == 0


STUDIED = "wiki20m"
"""The config of the human study."""
_VOTE_FILES = ("human_study/pairs.csv", "genres/human_study/pairs.csv", "data/genres/human_study/pairs.csv")
_STUDIED_METRICS = {
    "CS": "completeness",
    "GS": "granularity",
    "TS": "topical_similarity",
    "US": "uniqueness",
    "FS": "factualness",
}


def human_votes(release: Path, examples: Examples) -> list[HumanVote]:
    """Return the votes of the human study on documents of these examples; none where the release or config has none.

    People compared two systems' answers to a document by each of the five qualities: the first 100 documents of Wiki20m
    and four systems. Votes on the ground truth are left out: the release scored its triples in another order of
    elements, so that its scores of them are meaningless.

    Raises:
        DataError: the file of votes is of another form.
    """
    file = next((release / each for each in _VOTE_FILES if (release / each).is_file()), None)
    if file is None or examples.context.config != STUDIED:
        return []
    known = set(examples.ids)
    try:
        with file.open(encoding="utf-8", newline="") as source:
            rows = [row for row in csv.DictReader(source) if "groundtruth" not in (row["a"], row["b"])]
            return [_vote(row) for row in rows if row["id"] in known]
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{file} holds no votes ({error!r}); expected the columns metric, id, a, b, merged, score_a and score_b."
        ) from None


def _vote(row: Mapping[str, str]) -> HumanVote:
    votes: Mapping[str, Vote] = {"a": "a", "b": "b", "tie": "tie"}
    scores = float(row["score_a"]), float(row["score_b"])
    return HumanVote(_STUDIED_METRICS[row["metric"]], row["id"], row["a"], row["b"], votes[row["merged"]], *scores)
