"""The release's human study: which of two systems' answers to a document people prefer, by each of the five qualities.

It covers the first 100 documents of Wiki20m and four systems. Votes on the ground truth are left out: the release
scored its triples in another order of elements, so its figures of them say nothing.
"""

import csv
from collections.abc import Mapping
from pathlib import Path

from kbbench_hf.benchmarks.annotated import HumanVote
from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.errors import DataError
from kbbench_hf.metrics.votes import Vote

CONFIG = "wiki20m"
_FILES = ("human_study/pairs.csv", "genres/human_study/pairs.csv", "data/genres/human_study/pairs.csv")
_METRICS = {
    "CS": "completeness",
    "GS": "granularity",
    "TS": "topical_similarity",
    "US": "uniqueness",
    "FS": "factualness",
}


def human_votes(release: Path, examples: Examples) -> list[HumanVote]:
    """Return the votes on documents of these examples; none where the release at hand, or the config, has none.

    Raises:
        DataError: the file of votes is of another form.
    """
    file = next((release / each for each in _FILES if (release / each).is_file()), None)
    if file is None or examples.context.config != CONFIG:
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
    said: Mapping[str, Vote] = {"a": "a", "b": "b", "tie": "tie"}
    scores = float(row["score_a"]), float(row["score_b"])
    return HumanVote(_METRICS[row["metric"]], row["id"], row["a"], row["b"], said[row["merged"]], *scores)
