"""What happened to a leaderboard: immutable files, one history per writer, each event naming the hash of the last."""

import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple

from kbbench_hf.errors import DataError
from kbbench_hf.files.writing import write_new

Action = Literal["stored", "hidden", "shown"]
START = "0" * 64
PER_FOLDER = 1000


@dataclass(frozen=True)
class Event:
    """One line of the history: who did what to which submission, when and why."""

    writer: str
    """The copy of the store in which it happened; each has a history of its own."""
    number: int
    action: Action
    submission: str
    content: str
    """The sha256 of the submission's record, so that nothing can be exchanged afterwards."""
    actor: str
    reason: str
    time: str
    previous: str

    @property
    def order(self) -> str:
        """What events of several writers are sorted by: time first."""
        return f"{self.time} {self.writer} {self.number:07}"

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


class Position(NamedTuple):
    """How far a history was read: the number of its last event and the hash of that event's file."""

    number: int = 0
    sha256: str = START


class EventLog:
    """A folder with one history per writer; any number of processes may append at once.

    A writer is a machine's copy of the store: copies that send their events to one place never take the same name. An
    event's number is taken by linking its finished file to that name: the link either succeeds whole or finds the
    number taken, and then the next one is tried.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def append(self, action: Action, submission: str, content: str, actor: str, reason: str = "") -> Event:
        """Add an event to this machine's history and return it, on disk."""
        writer = self._own()
        number, last = self._newest(writer)
        while True:
            number += 1
            now = datetime.now(UTC).isoformat(timespec="microseconds")
            time = max(now, Event.from_bytes(last).time) if last else now  # a clock set back changes no order
            event = Event(writer, number, action, submission, content, actor, reason, time, _sha256(last))
            file = self._file(writer, number)
            file.parent.mkdir(exist_ok=True, parents=True)
            if write_new(file, event.to_bytes()):
                return event
            last = file.read_bytes()

    def __iter__(self) -> Iterator[Event]:
        """Yield all events, oldest first.

        Raises:
            DataError: an event is missing, or is not the one that was written; the message names its file.
        """
        yield from self.since({})

    def since(self, read: Mapping[str, Position]) -> list[Event]:
        """Return the events after those that were read of each writer's history, oldest first."""
        found = [event for writer in self.writers() for event in self._since(writer, read.get(writer, Position()))]
        return sorted(found, key=lambda event: event.order)

    def path(self, event: Event) -> str:
        """Return where an event stands in the store."""
        return self._file(event.writer, event.number).relative_to(self.folder.parent).as_posix()

    def writers(self) -> list[str]:
        """Return the names of the histories."""
        return sorted(folder.name for folder in self.folder.glob("[0-9a-f]*") if folder.is_dir())

    def _since(self, writer: str, position: Position) -> Iterator[Event]:
        number, previous = position
        newest, _ = self._newest(writer)  # looked for first: others may be appending
        while (file := self._file(writer, number + 1)).exists():
            data = file.read_bytes()
            try:
                event = Event.from_bytes(data)
            except ValueError as error:
                raise DataError(f"{file} is {error}. Restore it from a copy.") from None
            if (event.writer, event.number, event.previous) != (writer, number + 1, previous):
                raise DataError(f"{file} does not follow the event before it: the history was altered. Restore a copy.")
            yield event
            number, previous = number + 1, _sha256(data)
        if number < newest:
            raise DataError(
                f"Event {number + 1} is missing in {self.folder / writer}; {newest} is there. Restore a copy."
            )

    def _newest(self, writer: str) -> tuple[int, bytes]:
        """Return the number and the file's content of a writer's newest event; 0 and nothing where there is none."""
        for folder in sorted((self.folder / writer).glob("[0-9]*"), reverse=True):
            if files := sorted(folder.glob("[0-9]*.json")):
                return int(files[-1].stem), files[-1].read_bytes()
        return 0, b""

    def _own(self) -> str:
        """Return this machine's writer, named once and for all processes; its file is never copied elsewhere."""
        file = self.folder.with_name("writer")
        if not file.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            write_new(file, secrets.token_hex(8).encode())
        return file.read_text()

    def _file(self, writer: str, number: int) -> Path:
        return self.folder / writer / f"{number // PER_FOLDER:04}" / f"{number:07}.json"


def _sha256(data: bytes) -> str:
    """Return the hash that the next event names: of a file, or where there is none, zeros."""
    return hashlib.sha256(data).hexdigest() if data else START
