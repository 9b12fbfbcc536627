"""What happened to a leaderboard, in order: immutable files, each naming the hash of the one before it."""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal
from uuid import uuid4

from kbbench_hf.errors import DataError

Action = Literal["stored", "hidden", "shown"]
START = "0" * 64
PER_FOLDER = 1000


@dataclass(frozen=True)
class Event:
    """One line of the history: who did what to which submission, when and why."""

    number: int
    action: Action
    submission: str
    content: str
    """The sha256 of the submission's record, so that nothing can be exchanged afterwards."""
    actor: str
    reason: str
    time: str
    previous: str

    def to_bytes(self) -> bytes:
        """Return the event's file: the event and its own hash."""
        text = json.dumps(asdict(self), sort_keys=True, ensure_ascii=False)
        return f'{{"event": {text}, "sha256": "{hashlib.sha256(text.encode()).hexdigest()}"}}\n'.encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Event":
        """Return the event of a file.

        Raises:
            ValueError: the file is not what `to_bytes` wrote.
        """
        try:
            event = cls(**json.loads(data)["event"])
        except (ValueError, TypeError, KeyError):
            raise ValueError("not an event") from None
        if event.to_bytes() != data:
            raise ValueError("not the event that was written")
        return event


class EventLog:
    """A folder of events; any number of processes may append at once.

    An event's number is taken by linking its finished file to that name: the link either succeeds whole or finds the
    number taken, and then the next one is tried.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def append(self, action: Action, submission: str, content: str, actor: str, reason: str = "") -> Event:
        """Add an event after the newest one and return it, on disk."""
        self.folder.mkdir(parents=True, exist_ok=True)
        number, previous = self._newest()
        while True:
            number += 1
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            event = Event(number, action, submission, content, actor, reason, now, previous)
            file = self._file(number)
            file.parent.mkdir(exist_ok=True)
            partial = self.folder / f".{uuid4().hex}"
            _write_synced(partial, event.to_bytes())
            try:
                os.link(partial, file)
            except FileExistsError:
                previous = hashlib.sha256(file.read_bytes()).hexdigest()
            else:
                sync_folder(file.parent)
                return event
            finally:
                partial.unlink()

    def __iter__(self) -> Iterator[Event]:
        """Yield all events, oldest first.

        Raises:
            DataError: an event is missing, or is not the one that was written; the message names its file.
        """
        yield from self.since(0, START)

    def since(self, number: int, previous: str) -> Iterator[Event]:
        """Yield the events after event `number`, whose file has the hash `previous`."""
        newest = max(self._names(), default=0)
        while (file := self._file(number + 1)).exists():
            data = file.read_bytes()
            try:
                event = Event.from_bytes(data)
            except ValueError as error:
                raise DataError(f"{file} is {error}. Restore it from a copy.") from None
            if event.previous != previous or event.number != number + 1:
                raise DataError(f"{file} does not follow the event before it: the history was altered. Restore a copy.")
            yield event
            number, previous = number + 1, hashlib.sha256(data).hexdigest()
        if number < newest:
            raise DataError(f"Event {number + 1} is missing in {self.folder}; {newest} is there. Restore a copy.")

    def _newest(self) -> tuple[int, str]:
        for folder in sorted(self.folder.glob("[0-9]*"), reverse=True):
            if files := sorted(folder.glob("[0-9]*.json")):
                return int(files[-1].stem), hashlib.sha256(files[-1].read_bytes()).hexdigest()
        return 0, START

    def _names(self) -> list[int]:
        return [int(file.stem) for file in self.folder.glob("[0-9]*/[0-9]*.json")]

    def _file(self, number: int) -> Path:
        return self.folder / f"{number // PER_FOLDER:04}" / f"{number:07}.json"


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_synced(file: Path, data: bytes) -> None:
    with file.open("wb") as sink:
        sink.write(data)
        sink.flush()
        os.fsync(sink.fileno())
