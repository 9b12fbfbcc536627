"""Store of a leaderboard: submissions as folders, changes as events.

    submissions/<ab>/<id>/   one submission, whole or not at all: record.json  predictions.jsonl.gz  result.json
                             scores.jsonl.gz  slices.json.gz  and, where it was scored with some, the annotations
    events/<writer>/         who stored, hid or showed what, each event naming the hash of the one before

Nothing is ever changed or deleted; a folder that is damaged gives way to a whole one. `index.py` keeps a SQLite copy
for speed, which can be made again from these files. Similarity of answers to the gold and to each other: at the end.
"""

import errno
import gzip
import hashlib
import json
import re
import shutil
import time
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks import TaskKey
from kbbench_hf.benchmarks.answers import Answer
from kbbench_hf.benchmarks.base import Benchmark, Examples
from kbbench_hf.errors import BusyError, UsageError
from kbbench_hf.files.datasets import Id
from kbbench_hf.files.writing import new_folder
from kbbench_hf.leaderboard.events import UNREADABLE, Action, EventLog
from kbbench_hf.scoring.result import PlainResult, Result, read_result

STALE_S = 3600
"""A partial folder this old belongs to nobody alive."""
RECORD = "record.json"
PREDICTIONS = "predictions.jsonl.gz"
_ID = re.compile("[0-9a-f]{32}")


N_PARTS = 16
N_PARTS_LONG = 64
LONG = 512
"""From so many examples on, answers are compared in more parts."""
RANKED = 10
"""So many candidates of a ranking are compared; what stands below them is easily made up."""
ENOUGH = 20
"""Minimum number of examples with a gold; below it, answers that are all right get no flag."""
ENOUGH_SHORT = 100
"""The same where answers are short and stand in what was given: a good system may have every one."""
N_LETTERS = 10_000


class GoldLikeness(NamedTuple):
    """How many of the answers are the gold."""

    n: int
    """Examples with a gold."""
    exact: int
    """Those answered with the gold and nothing else."""
    padded: int
    """Those answered with the whole gold and something else."""
    short: bool
    """Whether answers are single values that stand in what was given."""

    def suspicious(self) -> bool:
        """Say whether so much gold is more than a system has, as far as so many examples can tell.

        At most one answer in twenty is not the gold (one in a hundred where answers are short), or every one holds the
        whole gold and most of them something else beside it. A benchmark that is too small for this accuses nobody.

        >>> GoldLikeness(48, 47, 0, False).suspicious(), GoldLikeness(48, 41, 2, False).suspicious()
        (True, False)
        >>> GoldLikeness(48, 0, 48, False).suspicious(), GoldLikeness(14, 14, 0, True).suspicious()
        (True, False)
        """
        if self.n < (ENOUGH_SHORT if self.short else ENOUGH):
            return False
        wrong = self.n - self.exact
        padded = not self.short and 2 * self.padded > self.n and self.exact + self.padded == self.n
        return wrong <= self.n // (100 if self.short else 20) or padded


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

    @property
    def task_key(self) -> TaskKey:
        """What it answers."""
        return TaskKey(self.benchmark, self.config, self.split, self.mode)

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


class Store:
    """A folder that any number of processes may read and add to at once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.events = EventLog(root / "events")

    def add(
        self,
        result: Result,
        predictions: Iterable[Mapping[str, object]] | None,
        system: System,
        submitter: str,
        origin: str = "submitted",
        annotations: Mapping[str, bytes] | None = None,
        vouched_by: str = "",
        gold: GoldLikeness | None = None,
    ) -> Receipt:
        """Store a scored submission; when this returns, it is on disk for good. The same submission twice is one.

        The predictions are the parsed ones, one object per example in the dataset's order, or None where only figures
        may be kept; the submitter is the Hub's user name; the annotations are the files with which the result was
        scored, by name. The same is what has the same place, data, submitter, name, answers and annotations: nobody
        else can send it first.

        Raises:
            BusyError: the disk is full; nothing was stored.
        """
        scored_on, sha256, revision = result.task_key, result.predictions_sha256, result.dataset_revision
        annotations = annotations or {}
        annotated = [_sha256(annotations[name]) for name in sorted(annotations)]
        submission = _id(*scored_on, revision, submitter, system.name, sha256, *annotated)
        for known in (submission, _id(*scored_on, system.name, sha256, *annotated)):  # the second: as ids once were
            if self.whole(known):
                record = self.record(known)
                if (record.submitter, record.dataset_revision) == (submitter, revision):
                    self._ensure_event(known, submitter)
                    return Receipt(known, existed=True)
        contents = {
            "result.json": json.dumps(result.to_dict(), indent=1).encode() + b"\n",
            "scores.jsonl.gz": _compressed(result.example_lines()),
            "slices.json.gz": _compressed([json.dumps(result.example_slices, ensure_ascii=False)]),
            **annotations,
        }
        if predictions is not None:
            lines = (json.dumps(row, ensure_ascii=False) for row in predictions)
            contents = {PREDICTIONS: _compressed(lines), **contents}
        hashes = {name: _sha256(data) for name, data in contents.items()}
        record = Record(submission, *scored_on, revision, sha256, system, submitter, origin, hashes, vouched_by, gold)
        existed = False
        try:
            existed = not self._write(self._place(submission), {**contents, RECORD: record.to_bytes()})
            if existed:
                self._ensure_event(submission, submitter)
            else:
                self._append("stored", submission, submitter)
        except OSError as error:
            if existed or self._taken_back(submission):
                if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                    raise BusyError("The storage is full; your file was not accepted. Try again later.") from error
                raise
        return Receipt(submission, existed)

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
        except (UsageError, *UNREADABLE):  # no record, or a damaged one
            return False

    def result(self, submission: str) -> PlainResult:
        """Return the stored `result.json` of a submission."""
        return read_result(self._place(submission) / "result.json")

    def values(self, submission: str, metric: str) -> NDArray[np.float64]:
        """Return one metric's value per example, NaN where not scored, in the dataset's order."""
        values = [json.loads(line).get(metric) for line in self.score_lines(submission)]
        return np.array(values, dtype=np.float64)

    def slices(self, submission: str) -> dict[str, list[str]]:
        """Return slice name -> the key of each example, in the dataset's order."""
        slices: dict[str, list[str]] = json.loads(self._lines(submission, "slices.json.gz")[0])
        return slices

    def ids(self, submission: str) -> list[Id]:
        """Return the id of each example, in the dataset's order."""
        return [json.loads(line)["id"] for line in self.score_lines(submission)]

    def score_lines(self, submission: str) -> list[str]:
        """Return the lines of a submission's scores, one per example."""
        return self._lines(submission, "scores.jsonl.gz")

    def predictions(self, submission: str) -> Iterator[Mapping[str, object]]:
        """Yield the parsed predictions of a submission by example; none where figures alone are kept."""
        if self.has_predictions(submission):
            yield from map(json.loads, self._lines(submission, PREDICTIONS))

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
        except (OSError, *UNREADABLE):
            return [f"{place / RECORD} is missing or damaged"]
        if contents and _sha256(record) not in contents:
            return [f"{place / RECORD} is not the record that was stored"]
        return [
            f"{place / name} is not the file that was stored"
            for name, sha256 in files.items()
            if not (place / name).is_file() or _sha256((place / name).read_bytes()) != sha256
        ]

    def latest_system(self, submission: str) -> System:
        """Return what the owner of a submission says of the system, as last edited."""
        edits = [event.said for event in self.events if event.submission == submission and event.said]
        return System(**edits[-1]) if edits else self.record(submission).system

    def visible(self) -> list[str]:
        """Return the ids on the board, in the order in which they were first stored: whole, and not hidden since."""
        off: dict[str, set[str]] = {}
        ends = {"shown": "hidden", "returned": "withdrawn"}
        for event in self.events:
            reasons = off.setdefault(event.submission, set())
            if event.action in ends.values():
                reasons.add(event.action)
            reasons.discard(ends.get(event.action, ""))
        return [each for each, reasons in off.items() if not reasons and self.whole(each)]

    def hide(self, submission: str, actor: str, reason: str) -> None:
        """Take a submission off the board; the files and the reason stay."""
        self._append("hidden", submission, actor, reason)

    def show(self, submission: str, actor: str, reason: str) -> None:
        """Put a hidden submission back on the board."""
        self._append("shown", submission, actor, reason)

    def withdraw(self, submission: str, actor: str, undo: bool = False) -> None:
        """Take one's own submission off the board, or put it back; the files stay.

        Raises:
            UsageError: it is somebody else's.
        """
        self._check_owner(submission, actor)
        self._append("returned" if undo else "withdrawn", submission, actor)

    def edit(self, submission: str, system: System, actor: str) -> None:
        """Change the description of one's own system; its name and its earlier descriptions stay.

        Raises:
            UsageError: it is somebody else's, or the system has another name.
        """
        name = self._check_owner(submission, actor).system.name
        if system.name != name:
            raise UsageError(f"{system.name!r} is another name; expected {name!r}. Submit again under the new one.")
        self._append("edited", submission, actor, said=asdict(system))

    def recover(self) -> list[str]:
        """Finish what a killed process left: give whole submissions without an event theirs, remove partial folders.

        So does a submission whose event was lost or damaged get another; the rows that are whole are all shown.
        """
        known = {event.submission for event in self.events}
        orphans = [each for each in self._submission_ids() if each not in known and not self.damage(each)]
        for submission in orphans:
            self._ensure_event(submission, self.record(submission).submitter)
        for partial in (self.root / "partial").glob("*"):
            if time.time() - partial.stat().st_mtime > STALE_S:
                shutil.rmtree(partial, ignore_errors=True)
        return orphans

    def check(self) -> list[str]:
        """Return everything wrong with the store, in words: altered events, altered, missing or unknown files."""
        problems = self.events.problems()
        known: defaultdict[str, set[str]] = defaultdict(set)
        for event in self.events:
            known[event.submission].add(event.content)
        for submission, contents in known.items():
            problems += self.damage(submission, contents)
        lost = set(self._submission_ids()) - known.keys()
        remedy = "give it one: kbbench leaderboard fsck --recover"
        return problems + [f"{self._place(each)} stands in no event; {remedy}" for each in lost]

    def _taken_back(self, submission: str) -> bool:
        """Remove a submission that could not be given an event; False where another process gave it one."""
        place = self._place(submission)
        if place.exists():
            aside = self._set_aside(place)
            if any(event.submission == submission for event in self.events):
                aside.rename(place)
                return False
            shutil.rmtree(aside, ignore_errors=True)
        return True

    def _append(
        self,
        action: Action,
        submission: str,
        actor: str,
        reason: str = "",
        said: Mapping[str, object] | None = None,
    ) -> None:
        self.record(submission)
        content = _sha256((self._place(submission) / RECORD).read_bytes())
        self.events.append(action, submission, content, actor, reason, said)

    def _check_owner(self, submission: str, actor: str) -> Record:
        """Return the record of one's own submission."""
        record = self.record(submission)
        if not actor or record.submitter != actor:
            raise UsageError(
                f"{submission} is {record.submitter}'s, and you are {actor or 'not logged in'}; only who submitted "
                "it can change it. Log in as its submitter."
            )
        return record

    def _ensure_event(self, submission: str, actor: str) -> None:
        """Finish what another process may have been killed in: a stored submission without its event."""
        if not any(event.submission == submission for event in self.events):
            self._append("stored", submission, actor)

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

    def _lines(self, submission: str, name: str) -> list[str]:
        data = gzip.decompress((self._place(submission) / name).read_bytes())
        return data.decode("utf-8", "surrogatepass").removesuffix("\n").split("\n")


def _id(*parts: str) -> str:
    """Return the name of what is told apart by these parts."""
    return _sha256(json.dumps(parts).encode())[:32]


def _compressed(lines: Iterable[str]) -> bytes:
    """Return lines as gzip with the same bytes every time."""
    return gzip.compress("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass"), mtime=0)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def gold_likeness(
    benchmark: Benchmark, examples: Examples, answers: Sequence[Answer | None], result: Result
) -> GoldLikeness:
    """Return how many answers are the gold, spelling and order aside.

    A ranking is the gold where its first candidates are, as many as there are gold ones. A benchmark that shows no gold
    is judged by its headline figure.
    """
    kind = benchmark.scoring.answer
    short = kind.separable and not kind.ranked
    if kind.ranked or benchmark.showing.explain is None:
        values = result.values.get("r_precision", result.values.get(benchmark.headline, np.zeros(0)))
        scored = values[~np.isnan(values)]
        return GoldLikeness(len(scored), int((scored == 1).sum()), 0, short)
    n = exact = padded = 0
    examples = replace(examples, mode="")  # the released gold, in every mode
    for example, answer in zip(examples.rows, answers, strict=True):
        gold = {_normalize(each) for each in benchmark.showing.explain(examples, example, []).gold}
        words = {_normalize(each) for each in kind.words(answer or [])}
        n, exact, padded = n + bool(gold), exact + (gold == words != set()), padded + (set() < gold < words)
    return GoldLikeness(n, exact, padded, short)


def fingerprint(lines: Iterable[Mapping[str, object]]) -> list[str]:
    """Return a hash of each part of the answers, `{"id", field: answer}` in the dataset's order.

    The same for the same answers however they are spelled; of lists that are no rankings the order does not count.

    >>> a = fingerprint([{"id": 1, "triples": [["A b", "r", "c"], ["d", "r", "e"]]}])
    >>> a == fingerprint([{"id": 1, "triples": [["d", "r", "e"], ["a  B", "r", "c"]]}])
    True
    """
    hashes = [_hash([json.dumps(line["id"]), *_comparable(line)]) for line in lines]
    n, n_parts = len(hashes), min(len(hashes), N_PARTS_LONG if len(hashes) >= LONG else N_PARTS)
    return [_hash(hashes[part * n // n_parts : (part + 1) * n // n_parts]) for part in range(n_parts)]


def _comparable(line: Mapping[str, object]) -> list[str]:
    (field, answer), *_ = ((name, value) for name, value in line.items() if name != "id")
    items = answer if isinstance(answer, list) else [answer]
    if field == "ids":
        return [str(each) for each in items[:RANKED]]
    return sorted({_normalize(" | ".join(map(str, each)) if isinstance(each, list) else str(each)) for each in items})


def _normalize(text: str) -> str:
    """Return text without case, spaces and punctuation, but with what parts the items of a triple."""
    return "".join(filter(_counts, unicodedata.normalize("NFKC", text).casefold()))


@lru_cache(maxsize=N_LETTERS)
def _counts(letter: str) -> bool:
    return letter.isalnum() or letter == "|" or unicodedata.category(letter)[0] == "M"


def _hash(parts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:12]
