"""Store of a leaderboard: submissions as folders, changes as events.

    submissions/<ab>/<id>/   one submission, whole or not at all
    events/<writer>/         who stored, hid or showed what, each event naming the hash of the one before

Nothing is ever changed or deleted. `index.py` keeps a SQLite copy for speed, which can be made again from these files.
"""

import errno
import gzip
import hashlib
import json
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from kbbench_hf.errors import BusyError, UsageError
from kbbench_hf.leaderboard.events import Action, EventLog
from kbbench_hf.leaderboard.folders import PREDICTIONS, RECORD, Folders, Receipt, Record, System
from kbbench_hf.leaderboard.likeness import GoldLikeness
from kbbench_hf.scoring.result import Result

STALE_S = 3600
"""A partial folder this old belongs to nobody alive."""


class Store(Folders):
    """A folder that any number of processes may read and add to at once."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
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
        scored_on, sha256 = result.task_key, result.predictions_sha256
        annotations = annotations or {}
        annotated = [hashlib.sha256(annotations[name]).hexdigest() for name in sorted(annotations)]
        submission = _id(*scored_on, result.dataset_revision, submitter, system.name, sha256, *annotated)
        for known in (submission, _id(*scored_on, system.name, sha256, *annotated)):  # the second: as ids once were
            if self.whole(known) and self._is_submitters(known, submitter, result.dataset_revision):
                self._ensure_event(known, submitter)
                return Receipt(known, existed=True)
        place = self._place(submission)
        contents = {
            "result.json": json.dumps(result.to_dict(), indent=1).encode() + b"\n",
            "scores.jsonl.gz": _compressed(result.example_lines()),
            "slices.json.gz": _compressed([json.dumps(result.example_slices, ensure_ascii=False)]),
            **annotations,
        }
        if predictions is not None:
            lines = (json.dumps(row, ensure_ascii=False) for row in predictions)
            contents = {PREDICTIONS: _compressed(lines), **contents}
        hashes = {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}
        record = Record(
            submission, *scored_on, result.dataset_revision, sha256, system, submitter, origin, hashes, vouched_by, gold
        )
        existed = False
        try:
            existed = not self._write(place, {**contents, RECORD: record.to_bytes()})
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

    def said(self, submission: str) -> System:
        """Return what the owner of a submission says of the system, as last edited."""
        edits = [event.said for event in self.events if event.submission == submission and event.said]
        return System(**edits[-1]) if edits else self.record(submission).system

    def visible(self) -> list[str]:
        """Return the ids on the board, in the order in which they were first stored: whole, and not hidden since."""
        shown: dict[str, bool] = {}
        withdrawn: set[str] = set()
        for event in self.events:
            if event.action in ("hidden", "shown"):
                shown[event.submission] = event.action == "shown"
            elif event.action == "withdrawn":
                withdrawn.add(event.submission)
            elif event.action == "returned":
                withdrawn.discard(event.submission)
            else:
                shown.setdefault(event.submission, True)  # the same submission again changes nothing
        off = {each for each, is_shown in shown.items() if not is_shown} | withdrawn
        return [each for each in shown if each not in off and self.whole(each)]

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
        """Change what one said of one's own system; its name stays, and so does what was said before.

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
        known: dict[str, set[str]] = {}
        for event in self.events:
            known.setdefault(event.submission, set()).add(event.content)
        for submission, contents in known.items():
            problems += self.damage(submission, contents)
        lost = set(self._submission_ids()) - known.keys()
        return problems + [
            f"{self._place(each)} stands in no event; give it one: kbbench leaderboard fsck --recover" for each in lost
        ]

    def _is_submitters(self, submission: str, submitter: str, revision: str) -> bool:
        record = self.record(submission)
        return (record.submitter, record.dataset_revision) == (submitter, revision)

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
        content = hashlib.sha256((self._place(submission) / RECORD).read_bytes()).hexdigest()
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


def _id(*parts: str) -> str:
    """Return the name of what is told apart by these parts."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _compressed(lines: Iterable[str]) -> bytes:
    """Return lines as gzip with the same bytes every time."""
    return gzip.compress("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass"), mtime=0)
