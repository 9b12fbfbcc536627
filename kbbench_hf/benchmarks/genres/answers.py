"""Stored answers in GenRES's release: file locations and system names."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kbbench_hf.errors import DataError

CLONE = "git clone https://github.com/pat-jj/GenRES && git -C GenRES checkout 7824249"
PUBLISHED = Path(__file__).with_name("published.csv")
RELEASE_NAMES: dict[str, str] = json.loads(Path(__file__).with_name("systems.json").read_text(encoding="utf-8"))
"""Published system of the main table -> its name in the release's files."""
STRATEGY_NAMES = {
    "GPT-3.5-Turbo-Instruct, closed": "gpt-3.5_closed",
    "GPT-3.5-Turbo-Instruct, semi-open": "gpt-3.5_semi",
    "GPT-3.5-Turbo-Instruct, open": "gpt-3.5-turbo-instruct",
}
"""The same of the hard-match table, whose rows are strategies of one model."""
ANSWERED = {**RELEASE_NAMES, **STRATEGY_NAMES, "Ground truth": "groundtruth"}
"""All published rows whose answers the release has."""
PARSED = ("processed_results", "outputs", "genres/outputs", "data/genres/outputs")
"""Folders of the parsed answers, in a clone or in a folder of its parts."""
RAW = ("results", "raw_responses", "genres/raw_responses", "data/genres/raw_responses")
"""The same of the texts."""


def stored_by_text(release: Path, sample: str, name: str, folders: Sequence[str] = PARSED) -> dict[str, Any] | None:
    """Return text -> a system's stored answer to it; None where nothing is stored.

    Args:
        release: a clone, or a folder of its parts.
        sample: the release's name of a dataset's sample, `cdr_rand_200` say.
        name: the release's name of a system.
        folders: `PARSED` for triples, `RAW` for texts.
    """
    for folder in folders:
        file = release / folder / f"{sample}_{name}_1.json"
        if file.is_file():
            stored: dict[str, Any] = read_release(file)
            return stored
    return None


def read_release(file: Path) -> Any:
    """Return what a JSON file of the release holds.

    Raises:
        DataError: it is not there, or torn.
    """
    if not file.is_file():
        raise DataError(f"{file} does not exist; expected it in a clone of GenRES. Clone it again: {CLONE}")
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{file} is not JSON ({error}). Clone the release again: {CLONE}") from None
