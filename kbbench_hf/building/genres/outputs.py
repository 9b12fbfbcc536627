"""What the systems of GenRES's release answered, with the figures that were published of them."""

from collections.abc import Mapping
from pathlib import Path

from kbbench_hf.benchmarks.answers import Answer
from kbbench_hf.benchmarks.base import Example, Examples, Place
from kbbench_hf.benchmarks.genres.answers import PUBLISHED, RELEASE_NAMES, stored_by_text
from kbbench_hf.benchmarks.published import read_published
from kbbench_hf.building.genres.release import CONFIGS
from kbbench_hf.errors import DataError

_VERDICTS = ("GREScores", "stored_verdicts", "genres/stored_verdicts", "data/genres/stored_verdicts")
"""Where a clone, or a folder of its parts, has the released judge's verdicts."""


def released_outputs(release: Path, examples: Examples) -> list[tuple[str, list[Answer], Mapping[str, float]]]:
    """Return (system, its stored answers, its published figures) of every system with both, of the examples' config.

    Figures that nothing stored supports are left out.

    Raises:
        DataError: the release has no stored outputs of this config.
    """
    config = examples.context.config
    place = Place("genres-corpora", config, "test", "reference")
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
    """Return what a system of the release answered to each document, parsed as released; None where nothing is stored.

    `name` is the system's in the release's files, a value of `RELEASE_NAMES`.
    """
    stored = stored_by_text(release, CONFIGS[config].sample, name)
    return None if stored is None else [stored.get(row["text"], []) for row in examples.rows]


def released_verdicts(release: Path, examples: Examples, kind: str) -> list[tuple[str, list[Answer], Path]]:
    """Return each system of the examples' config that was judged: its name, stored answers, and the file of verdicts.

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
    """Return whether a document is of the half on which judges may be chosen and fitted: its id's last digit is even.

    >>> calibrates({"id": "520af9299c2d397a"}), calibrates({"id": "520af9299c2d3979"})
    (True, False)
    """
    return int(row["id"][-1], 16) % 2 == 0
