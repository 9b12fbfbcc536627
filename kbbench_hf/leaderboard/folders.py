"""Folders of submissions, named by content hash and written atomically, and the record in each.

    submissions/<ab>/<id>/   record.json  predictions.jsonl.gz  result.json  scores.jsonl.gz  slices.json.gz
                             and, where it was scored with some, the annotations: factualness.parquet ...

A folder is never changed; one that is damaged gives way to a whole one.
"""

import gzip
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import Id
from kbbench_hf.files.writing import new_folder
from kbbench_hf.leaderboard.likeness import GoldLikeness
from kbbench_hf.scoring.result import PlainResult, read_result

RECORD = "record.json"


@dataclass(frozen=True)
class System:
    """What a submitter says of the system: shown on the board as they wrote it."""

    name: str
    link: str = ""
    licence: str = ""
    parameters_b: float | None = None
    """Size in billions of parameters."""
    latency_p50_s: float | None = None
    latency_p95_s: float | None = None
    cost_per_1000_usd: float | None = None
    notes: str = ""


@dataclass(frozen=True)
class Record:
    """One stored submission: what was submitted, by whom, and the hash of each of its files."""

    id: str
    benchmark: str
    config: str
    split: str
    mode: str
    dataset_revision: str
    predictions_sha256: str
    system: System
    submitter: str
    origin: str
    """`submitted` by a user; by whoever runs the board: one of their `own` runs, or answers `released` by others."""
    files: Mapping[str, str] = field(default_factory=dict)
    vouched_by: str = ""
    """The account under which the name stands, `ada/KOTO`, whose owner or member the submitter was; mostly none."""
    gold: GoldLikeness | None = None
    """How many answers are exactly the gold; None where it was stored before that was counted."""

    def to_bytes(self) -> bytes:
        """Return the record's file."""
        values = {**vars(self), "system": vars(self.system)}
        return json.dumps(values, sort_keys=True, ensure_ascii=False, indent=1).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes) -> "Record":
        """Return the record of a file."""
        values = json.loads(data)
        gold = values.get("gold")
        return cls(**{**values, "system": System(**values["system"]), "gold": gold and GoldLikeness(*gold)})


@dataclass(frozen=True)
class Receipt:
    """What a submitter gets: the id, whether it was there already, and whether it now says something else."""

    id: str
    existed: bool
    edited: bool = False


PREDICTIONS = "predictions.jsonl.gz"
_ID = re.compile("[0-9a-f]{32}")


class Folders:
    """The submissions in a folder, which any number of processes may read and add to at once."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def record(self, submission: str) -> Record:
        """Return the record of a stored submission.

        Raises:
            UsageError: there is none of that id.
        """
        file = self._place(submission) / RECORD
        if not file.is_file():
            raise UsageError(f"No submission {submission!r} in {self.root}. Ids are on the board's row pages.")
        return Record.from_bytes(file.read_bytes())

    def whole(self, submission: str) -> bool:
        """Say whether a submission and all files that its record names are there."""
        try:
            return all((self.root / path).is_file() for path in self.paths(submission))
        except (UsageError, ValueError, TypeError, KeyError, AttributeError):  # no record, or a damaged one
            return False

    def result(self, submission: str) -> PlainResult:
        """Return the stored `result.json` of a submission."""
        return read_result(self._place(submission) / "result.json")

    def values(self, submission: str, metric: str) -> NDArray[np.float64]:
        """Return one metric's value per example, NaN where not scored, in the dataset's order."""
        values = [json.loads(line).get(metric) for line in self.score_lines(submission)]
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

    def slices(self, submission: str) -> dict[str, list[str]]:
        """Return slice name -> the key of each example, in the dataset's order."""
        with gzip.open(self._place(submission) / "slices.json.gz") as source:
            slices: dict[str, list[str]] = json.load(source)
        return slices

    def ids(self, submission: str) -> list[Id]:
        """Return the id of each example, in the dataset's order."""
        return [json.loads(line)["id"] for line in self.score_lines(submission)]

    def score_lines(self, submission: str) -> list[str]:
        """Return the lines of a submission's scores, one per example."""
        return _lines(self._place(submission) / "scores.jsonl.gz")

    def predictions(self, submission: str) -> Iterator[Mapping[str, object]]:
        """Yield the parsed predictions of a submission by example; none where figures alone are kept."""
        if self.has_predictions(submission):
            yield from map(json.loads, _lines(self.predictions_file(submission)))

    def predictions_file(self, submission: str) -> Path:
        """Return the file of a submission's parsed predictions."""
        return self._place(submission) / PREDICTIONS

    def has_predictions(self, submission: str) -> bool:
        """Say whether the predictions of a submission are kept, and not its figures alone."""
        return PREDICTIONS in self.record(submission).files

    def paths(self, submission: str) -> list[str]:
        """Return where the files of a submission stand in the store, the record last."""
        folder = self.path(submission)
        return [f"{folder}/{name}" for name in (*self.record(submission).files, RECORD)]

    def path(self, submission: str) -> str:
        """Return where the folder of a submission stands in the store.

        Raises:
            UsageError: there is no such id.
        """
        if not _ID.fullmatch(submission):
            raise UsageError(f"{submission!r} is not a submission id; expected 32 hexadecimal digits.")
        return f"submissions/{submission[:2]}/{submission}"

    def annotations(self, submission: str) -> Path | None:
        """Return the folder of the annotations that a submission was scored with; None where it has none."""
        place = self._place(submission)
        return place if any(place.glob("*.parquet")) else None

    def install(self, submission: str, files: Iterable[Path]) -> None:
        """Take the checked files of a submission from another copy of the store, instead of what is here of it."""
        self._write(self._place(submission), {file.name: file.read_bytes() for file in files}, instead=True)

    def damage(self, submission: str, contents: Set[str] | None = None) -> list[str]:
        """Return in words which files of a submission are missing, or are not those that were stored.

        `contents` are the hashes that events name for the record: two machines may have stored it.
        """
        if not _ID.fullmatch(submission):
            return [f"{submission!r} stands in an event and is no submission id"]
        place = self._place(submission)
        try:
            record = (place / RECORD).read_bytes()
            files = Record.from_bytes(record).files
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return [f"{place / RECORD} is missing or damaged"]
        if contents and hashlib.sha256(record).hexdigest() not in contents:
            return [f"{place / RECORD} is not the record that was stored"]
        return [
            f"{place / name} is not the file that was stored"
            for name, sha256 in files.items()
            if not (place / name).is_file() or hashlib.sha256((place / name).read_bytes()).hexdigest() != sha256
        ]

    def _submission_ids(self) -> list[str]:
        """Return the ids of which there is a folder."""
        return sorted(each.name for each in self.root.glob("submissions/*/*") if _ID.fullmatch(each.name))

    def _write(self, place: Path, files: Mapping[str, bytes], instead: bool = False) -> bool:
        """Write the folder of a submission, whole or not at all; False where another process was first.

        What is there of a submission that is not whole gives way, and `instead` of a whole one too.
        """
        if place.exists() and (instead or not self.whole(place.name)):
            self._set_aside(place)
        try:
            with new_folder(place, self.root / "partial" / uuid4().hex) as partial:
                for name, data in files.items():
                    (partial / name).write_bytes(data)
        except FileExistsError:
            return False
        return True

    def _set_aside(self, place: Path) -> Path:
        """Take the folder of a submission out of the store, for `recover` to remove, and return where it is."""
        aside = self.root / "partial" / uuid4().hex
        aside.parent.mkdir(exist_ok=True)
        place.rename(aside)
        return aside

    def _place(self, submission: str) -> Path:
        return self.root / self.path(submission)


def _lines(file: Path) -> list[str]:
    return gzip.decompress(file.read_bytes()).decode("utf-8", "surrogatepass").removesuffix("\n").split("\n")
