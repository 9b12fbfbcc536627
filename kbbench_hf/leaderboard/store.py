"""Store of a leaderboard: submissions as folders, changes as events; likeness of answers to the gold and to others.

    submissions/<ab>/<id>/   one submission, complete or absent: record.json  predictions.jsonl.gz  result.json
                             scores.jsonl.gz  slices.json.gz  and the annotations with which it was scored, if any
    events/<writer>/         who stored, hid or showed what; each event names the hash of the one before

All of the leaderboard reads and writes through it: pages, `kbbench submit`, `kbbench leaderboard` and the outbox. Files
are never changed or deleted; only a damaged folder is replaced by an intact one. File names, the fields of records and
the ids of submissions are a stored format: boards of today must stay readable. `index.py` has a SQLite copy for speed.

The board flags suspicious submissions by their numbers of gold answers and their fingerprints. Raise `index.VERSION` if
a fingerprint changes, because an index with fingerprints of two kinds finds no copies.
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
"""A partial folder that is older than this, in seconds, is of a process that was killed."""
RECORD = "record.json"
PREDICTIONS = "predictions.jsonl.gz"
_ID = re.compile("[0-9a-f]{32}")


N_PARTS = 16
"""Number of parts, each with a hash of its own, into which a fingerprint divides the examples."""
N_PARTS_LONG = 64
"""The same for submissions with at least `LONG` examples."""
LONG = 512
RANKED = 10
"""Number of candidates of a ranking that are compared: a copy could easily get other ones below them."""
ENOUGH = 20
"""Minimum number of examples with gold for a flag: a good system may answer all of fewer examples correctly."""
ENOUGH_SHORT = 100
"""The same for short answers that are in the prompt, which are easier to get right."""
N_LETTERS = 10_000
"""Size of the cache of letters."""


class GoldLikeness(NamedTuple):
    """Numbers of answers that are the gold; the order of the fields is that of stored records."""

    n: int
    """Examples with gold."""
    exact: int
    """Examples whose answer is the gold and nothing else."""
    padded: int
    """Examples whose answer contains the whole gold and something else."""
    short: bool
    """Whether answers are single values from the prompt."""

    def suspicious(self) -> bool:
        """Return whether more answers are the gold than a system would reach; False where there are too few examples.

        Suspicious: at most 5 % of the answers differ from the gold (1 % of short answers); or every answer contains the
        gold, most of them with something else, and answers are not short.

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
    """Description of a system by its submitter, as the board shows it; numbers are None where they are not stated."""

    name: str
    link: str = ""
    licence: str = ""
    """License of the predictions."""
    parameters_b: float | None = None
    """Size in billions of parameters."""
    latency_p50_s: float | None = None
    latency_p95_s: float | None = None
    cost_per_1000_usd: float | None = None
    notes: str = ""


@dataclass(frozen=True)
class Record:
    """Record of a stored submission, its `record.json`: benchmark, data, system, submitter and hashes of the files."""

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
    """`submitted` by a user; or seeded by the board's operator: `own` runs, or predictions `released` by others."""
    files: Mapping[str, str] = field(default_factory=dict)
    """File name -> sha256, without the record's own file."""
    vouched_by: str = ""
    """The account in the name (`ada` in `ada/KOTO`) if it is the submitter's or has them as a member; else empty."""
    gold: GoldLikeness | None = None
    """Numbers of answers that are the gold; None in records of a version that did not count them."""

    @property
    def task_key(self) -> TaskKey:
        """Benchmark, config, split and mode."""
        return TaskKey(self.benchmark, self.config, self.split, self.mode)

    def to_bytes(self) -> bytes:
        """Return the content of `record.json`; events hold its hash, so the same record has the same bytes."""
        values = {**vars(self), "system": vars(self.system)}
        return json.dumps(values, sort_keys=True, ensure_ascii=False, indent=1).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes) -> "Record":
        """Return the record of a file's content.

        Raises:
            ValueError, TypeError, KeyError or AttributeError: it is damaged; see `events.UNREADABLE`.
        """
        values = json.loads(data)
        gold = values.get("gold")
        return cls(**{**values, "system": System(**values["system"]), "gold": gold and GoldLikeness(*gold)})


@dataclass(frozen=True)
class Receipt:
    """Receipt of a submission: its id, whether it was stored before, and whether its description was changed now."""

    id: str
    existed: bool
    edited: bool = False


class Store:
    """Store of a leaderboard in a folder; any number of processes may read it and add to it at the same time."""

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
        """Store a scored submission durably, and return its receipt; the same submission is stored once.

        The same submission has the same benchmark, config, split, mode, data, submitter, system name, answers and
        annotations. The submitter is part of it, so that nobody else can submit it first.

        Args:
            result: the scores.
            predictions: the parsed predictions, one object per example in the order of the dataset; None where only
                scores may be stored.
            system: its description.
            submitter: the user name on the Hub.
            origin: see `Record`, also for `vouched_by` and `gold`.
            annotations: the files with which the result was scored, name -> content.
            vouched_by: the account that vouches for the name.
            gold: the numbers of answers that are the gold.

        Raises:
            BusyError: the disk is full; nothing was stored.
        """
        task_key, sha256, revision = result.task_key, result.predictions_sha256, result.dataset_revision
        annotations = annotations or {}
        annotated = [_sha256(annotations[name]) for name in sorted(annotations)]
        submission = _submission_id(*task_key, revision, submitter, system.name, sha256, *annotated)
        old_id = _submission_id(*task_key, system.name, sha256, *annotated)  # of earlier versions of the package
        for known in (submission, old_id):
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
        record = Record(submission, *task_key, revision, sha256, system, submitter, origin, hashes, vouched_by, gold)
        existed = False
        try:
            existed = not self._write_folder(self._folder(submission), {**contents, RECORD: record.to_bytes()})
            if existed:
                self._ensure_event(submission, submitter)
            else:
                self._append_event("stored", submission, submitter)
        except OSError as error:
            if existed or self._remove_without_event(submission):
                if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                    raise BusyError("The storage is full; your file was not accepted. Try again later.") from error
                raise
        return Receipt(submission, existed)

    def record(self, submission: str) -> Record:
        """Return the record of a stored submission.

        Raises:
            UsageError: there is no submission with this id.
        """
        file = self._folder(submission) / RECORD
        if not file.is_file():
            raise UsageError(f"No submission {submission!r} in {self.root}. Ids are on the board's row pages.")
        return Record.from_bytes(file.read_bytes())

    def whole(self, submission: str) -> bool:
        """Return whether the record of a submission and all files that it names exist; their hashes are not checked."""
        try:
            return all((self.root / path).is_file() for path in self.paths(submission))
        except (UsageError, *UNREADABLE):  # no record, or a damaged one
            return False

    def result(self, submission: str) -> PlainResult:
        """Return the stored `result.json` of a submission."""
        return read_result(self._folder(submission) / "result.json")

    def values(self, submission: str, metric: str) -> NDArray[np.float64]:
        """Return the value of a metric for each example, in the order of the dataset; NaN where it is not scored."""
        values = [json.loads(line).get(metric) for line in self.score_lines(submission)]
        return np.array(values, dtype=np.float64)

    def slices(self, submission: str) -> dict[str, list[str]]:
        """Return slice name -> the key of each example, in the order of the dataset."""
        slices: dict[str, list[str]] = json.loads(self._read_lines(submission, "slices.json.gz")[0])
        return slices

    def ids(self, submission: str) -> list[Id]:
        """Return the id of each example, in the order of the dataset."""
        return [json.loads(line)["id"] for line in self.score_lines(submission)]

    def score_lines(self, submission: str) -> list[str]:
        """Return the JSON lines of a submission's scores, one per example: its id, and the value of each metric."""
        return self._read_lines(submission, "scores.jsonl.gz")

    def predictions(self, submission: str) -> Iterator[Mapping[str, object]]:
        """Yield the parsed predictions of a submission, in the order of the dataset; none if only scores are stored."""
        if self.has_predictions(submission):
            yield from map(json.loads, self._read_lines(submission, PREDICTIONS))

    def predictions_file(self, submission: str) -> Path:
        """Return the file of a submission's parsed predictions, which does not exist if only scores are stored."""
        return self._folder(submission) / PREDICTIONS

    def has_predictions(self, submission: str) -> bool:
        """Return whether the predictions of a submission are stored, and not only its scores."""
        return PREDICTIONS in self.record(submission).files

    def paths(self, submission: str) -> list[str]:
        """Return the paths of a submission's files, relative to the store; the record is last."""
        folder = self.path(submission)
        return [f"{folder}/{name}" for name in (*self.record(submission).files, RECORD)]

    def path(self, submission: str) -> str:
        """Return the path of a submission's folder, relative to the store; the folder need not exist.

        Raises:
            UsageError: this is no id.
        """
        if not _ID.fullmatch(submission):
            raise UsageError(f"{submission!r} is not a submission id; expected 32 hexadecimal digits.")
        return f"submissions/{submission[:2]}/{submission}"

    def annotations(self, submission: str) -> Path | None:
        """Return the folder with the annotations of a submission; None where it was scored without any."""
        folder = self._folder(submission)
        return folder if any(folder.glob("*.parquet")) else None

    def install(self, submission: str, files: Iterable[Path]) -> None:
        """Store the checked files of a submission of another copy of the store, in place of those that are here."""
        contents = {file.name: file.read_bytes() for file in files}
        self._write_folder(self._folder(submission), contents, replaces=True)

    def damage(self, submission: str, contents: Set[str] | None = None) -> list[str]:
        """Return a sentence for each file of a submission that is missing or changed; empty for an intact submission.

        `contents` are the hashes of the record in its events; several, if two machines stored the submission.
        """
        if not _ID.fullmatch(submission):
            return [f"{submission!r} in an event is not a submission id"]
        folder = self._folder(submission)
        try:
            record = (folder / RECORD).read_bytes()
            files = Record.from_bytes(record).files
        except (OSError, *UNREADABLE):
            return [f"{folder / RECORD} is missing or damaged"]
        if contents and _sha256(record) not in contents:
            return [f"{folder / RECORD} is not the record that was stored"]
        return [
            f"{folder / name} is not the file that was stored"
            for name, sha256 in files.items()
            if not (folder / name).is_file() or _sha256((folder / name).read_bytes()) != sha256
        ]

    def latest_system(self, submission: str) -> System:
        """Return the description of a submission's system as it was last edited."""
        edits = [event.said for event in self.events if event.submission == submission and event.said]
        return System(**edits[-1]) if edits else self.record(submission).system

    def visible(self) -> list[str]:
        """Return the ids on the board, in the order of their first events: complete, not hidden and not withdrawn."""
        off: dict[str, set[str]] = {}
        ends = {"shown": "hidden", "returned": "withdrawn"}
        for event in self.events:
            reasons = off.setdefault(event.submission, set())
            if event.action in ends.values():
                reasons.add(event.action)
            reasons.discard(ends.get(event.action, ""))
        return [each for each, reasons in off.items() if not reasons and self.whole(each)]

    def hide(self, submission: str, actor: str, reason: str) -> None:
        """Hide a submission from the board; its files and the reason are kept.

        Raises:
            UsageError: there is no submission with this id; `show`, `withdraw` and `edit` raise it, too.
        """
        self._append_event("hidden", submission, actor, reason)

    def show(self, submission: str, actor: str, reason: str) -> None:
        """Show a hidden submission on the board again."""
        self._append_event("shown", submission, actor, reason)

    def withdraw(self, submission: str, actor: str, undo: bool = False) -> None:
        """Withdraw a submission of the actor from the board, or undo this; the files are kept.

        Raises:
            UsageError: another user submitted it.
        """
        self._check_owner(submission, actor)
        self._append_event("returned" if undo else "withdrawn", submission, actor)

    def edit(self, submission: str, system: System, actor: str) -> None:
        """Change the description of a system of the actor; earlier descriptions stay in the history.

        Raises:
            UsageError: another user submitted it, or the system has another name.
        """
        name = self._check_owner(submission, actor).system.name
        if system.name != name:
            raise UsageError(f"{system.name!r} is another name; expected {name!r}. Submit again under the new one.")
        self._append_event("edited", submission, actor, said=asdict(system))

    def recover(self) -> list[str]:
        """Repair the store after a killed process, and return the ids of the submissions that got a new event.

        Intact submissions whose event is missing, lost or damaged get one, so that the board shows them. Old partial
        folders are removed.
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
        """Return a sentence for each problem: changed or missing events, changed, missing or unknown submissions."""
        problems = self.events.problems()
        known: defaultdict[str, set[str]] = defaultdict(set)
        for event in self.events:
            known[event.submission].add(event.content)
        for submission, contents in known.items():
            problems += self.damage(submission, contents)
        lost = set(self._submission_ids()) - known.keys()
        remedy = "give it one: kbbench leaderboard fsck --recover"
        return problems + [f"{self._folder(each)} has no event; {remedy}" for each in lost]

    def _remove_without_event(self, submission: str) -> bool:
        """Remove a submission to which no event could be written; False where another process wrote one."""
        folder = self._folder(submission)
        if folder.exists():
            aside = self._set_aside(folder)
            if any(event.submission == submission for event in self.events):
                aside.rename(folder)
                return False
            shutil.rmtree(aside, ignore_errors=True)
        return True

    def _append_event(
        self,
        action: Action,
        submission: str,
        actor: str,
        reason: str = "",
        said: Mapping[str, object] | None = None,
    ) -> None:
        self.record(submission)  # refuses an unknown id
        content = _sha256((self._folder(submission) / RECORD).read_bytes())
        self.events.append(action, submission, content, actor, reason, said)

    def _check_owner(self, submission: str, actor: str) -> Record:
        """Return the record of a submission; raise UsageError if the actor did not submit it."""
        record = self.record(submission)
        if not actor or record.submitter != actor:
            raise UsageError(
                f"{submission} is {record.submitter}'s, and you are {actor or 'not logged in'}; only its submitter "
                "can change it. Log in as its submitter."
            )
        return record

    def _ensure_event(self, submission: str, actor: str) -> None:
        """Write the event of a stored submission that has none, because its process was killed before."""
        if not any(event.submission == submission for event in self.events):
            self._append_event("stored", submission, actor)

    def _submission_ids(self) -> list[str]:
        """Return the ids of all folders of submissions, sorted; the submissions may be incomplete."""
        return sorted(each.name for each in self.root.glob("submissions/*/*") if _ID.fullmatch(each.name))

    def _write_folder(self, folder: Path, files: Mapping[str, bytes], replaces: bool = False) -> bool:
        """Write the folder of a submission in one step; False where another process was first.

        An incomplete submission in this folder is replaced, with `replaces` also a complete one.
        """
        if folder.exists() and (replaces or not self.whole(folder.name)):
            self._set_aside(folder)
        try:
            with new_folder(folder, self.root / "partial" / uuid4().hex) as partial:
                for name, data in files.items():
                    (partial / name).write_bytes(data)
        except FileExistsError:
            return False
        return True

    def _set_aside(self, folder: Path) -> Path:
        """Move the folder of a submission to the partial ones, which `recover` removes, and return its new path."""
        aside = self.root / "partial" / uuid4().hex
        aside.parent.mkdir(exist_ok=True)
        folder.rename(aside)
        return aside

    def _folder(self, submission: str) -> Path:
        return self.root / self.path(submission)

    def _read_lines(self, submission: str, name: str) -> list[str]:
        data = gzip.decompress((self._folder(submission) / name).read_bytes())
        return data.decode("utf-8", "surrogatepass").removesuffix("\n").split("\n")


def _submission_id(*parts: str) -> str:
    """Return an id that depends on all of these parts."""
    return _sha256(json.dumps(parts).encode())[:32]


def _compressed(lines: Iterable[str]) -> bytes:
    """Return lines as gzip; without a time in it, so that the same lines have the same hash."""
    return gzip.compress("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass"), mtime=0)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def gold_likeness(
    benchmark: Benchmark, examples: Examples, answers: Sequence[Answer | None], result: Result
) -> GoldLikeness:
    """Return how many answers are the gold, without regard to case, spaces, punctuation and order.

    A ranking is the gold if its R-precision, or else its headline score, is 1; so is an answer to a benchmark that does
    not show its gold. `answers` are in the order of the examples, None where a prediction is missing.
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
    """Return a hash for each part of the predictions, `{"id", field: answer}` in the order of the dataset.

    Case, spaces and punctuation are ignored, and the order of items, except in rankings. Without predictions, the list
    is empty.

    >>> a = fingerprint([{"id": 1, "triples": [["A b", "r", "c"], ["d", "r", "e"]]}])
    >>> a == fingerprint([{"id": 1, "triples": [["d", "r", "e"], ["a  B", "r", "c"]]}])
    True
    """
    hashes = [_hash([json.dumps(line["id"]), *_comparable_items(line)]) for line in lines]
    n, n_parts = len(hashes), min(len(hashes), N_PARTS_LONG if len(hashes) >= LONG else N_PARTS)
    return [_hash(hashes[part * n // n_parts : (part + 1) * n // n_parts]) for part in range(n_parts)]


def _comparable_items(line: Mapping[str, object]) -> list[str]:
    """Return the items of an answer: the first ids of a ranking, else the normalized items, sorted and each once."""
    (field, answer), *_ = ((name, value) for name, value in line.items() if name != "id")
    items = answer if isinstance(answer, list) else [answer]
    if field == "ids":
        return [str(each) for each in items[:RANKED]]
    return sorted({_normalize(" | ".join(map(str, each)) if isinstance(each, list) else str(each)) for each in items})


def _normalize(text: str) -> str:
    """Return text in NFKC, without case, spaces and punctuation; "|" stays, as it separates the items of triples."""
    return "".join(filter(_is_compared, unicodedata.normalize("NFKC", text).casefold()))


@lru_cache(maxsize=N_LETTERS)  # `unicodedata` is slow, and texts have few different letters
def _is_compared(letter: str) -> bool:
    return letter.isalnum() or letter == "|" or unicodedata.category(letter)[0] == "M"


def _hash(parts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:12]
