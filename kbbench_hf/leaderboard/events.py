"""Event log of a leaderboard: immutable files, one hash chain per writer.

    events/<writer>/<thousands>/<number>.json

The store appends to it; the index and the outbox read it. Every intact event counts, even where the chain is broken;
`problems` lists the breaks. The bytes of events are a stored format: each has its own hash and that of the one before.
"""

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from kbbench_hf.files.writing import write_bytes, write_new

Action = Literal["stored", "hidden", "shown", "withdrawn", "returned", "edited"]
"""Moderators hide and show; owners withdraw, return and edit. An owner cannot show what a moderator hid."""
UNREADABLE = ValueError, TypeError, KeyError, AttributeError
"""The exceptions that parsing a damaged record or event raises."""
START = "0" * 64
"""The hash that the first event of a writer names as that of the one before."""
PER_FOLDER = 1000
"""Events per folder: a folder that is full does not change any more, so the index need not read it again."""
_PATH = re.compile(r"events/[0-9a-f]+/\d{4}/\d{7,}\.json")


@dataclass(frozen=True)
class Event:
    """An event of the history: who did what to which submission, when and why."""

    writer: str
    """The copy of the store in which it happened; each copy has its own history."""
    number: int
    action: Action
    submission: str
    content: str
    """The sha256 of the submission's record, so that the record cannot be exchanged afterwards."""
    actor: str
    reason: str
    time: str
    """In UTC, ISO 8601 with microseconds, so that times sort as texts."""
    previous: str
    """The sha256 of the file of the event before it; `START` for the first one."""
    said: Mapping[str, Any] | None = None
    """The new description of the system, for `edited`; else None."""

    @property
    def order(self) -> str:
        """The key that sorts the events of all writers: by time, then writer, then number."""
        return f"{self.time} {self.writer} {self.number:07}"

    @property
    def path(self) -> str:
        """The path of its file, relative to the store."""
        return f"events/{self.writer}/{self.number // PER_FOLDER:04}/{self.number:07}.json"

    def to_bytes(self) -> bytes:
        """Return the content of the event's file: the event and its own hash."""
        # without `said` where it is None, as events were before there were edits
        values = {name: value for name, value in vars(self).items() if (name, value) != ("said", None)}
        text = json.dumps(values, sort_keys=True, ensure_ascii=False)
        return f'{{"event": {text}, "sha256": "{hashlib.sha256(text.encode()).hexdigest()}"}}\n'.encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Event":
        """Return the event in a file's content.

        Raises:
            ValueError: it is not what `to_bytes` returned.
        """
        try:
            event = cls(**json.loads(data)["event"])
            if not (isinstance(event.number, int) and isinstance(event.submission, str) and event.time.isascii()):
                raise ValueError
        except UNREADABLE:
            raise ValueError("not an event") from None
        if event.to_bytes() != data:
            raise ValueError("not the event that was written")
        return event


class EventLog:
    """The folder `events` of a store, with a history for each writer; any number of processes may append at once.

    A writer is a copy of the store. Copies have different names, so that their events can be collected in one dataset.
    An event takes its number by a hard link from its complete file: if the number is taken, the next one is tried. The
    time of an event is after that of each event that is known here, so that wrong clocks do not change the order.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def append(
        self,
        action: Action,
        submission: str,
        content: str,
        actor: str,
        reason: str = "",
        said: Mapping[str, object] | None = None,
    ) -> Event:
        """Append an event to the history of this copy, and return it when it is on disk."""
        writer = self._own_writer()
        number, last = self._newest(writer)
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        while True:
            number += 1
            time = max(now, *(_after(self._newest(each)[1]) for each in self.writers()), _after(last))
            event = Event(writer, number, action, submission, content, actor, reason, time, _sha256(last), said)
            file = self._file(event.path)
            file.parent.mkdir(exist_ok=True, parents=True)
            try:
                if write_new(file, event.to_bytes()):
                    return event
            except OSError:
                if file.exists() and file.read_bytes() == event.to_bytes():
                    return event  # it has its number, and other processes may have read it; only the flush failed
                raise
            last = file.read_bytes()

    def __iter__(self) -> Iterator[Event]:
        """Yield all intact events, sorted by `Event.order`, oldest first."""
        events = (self.read(file) for folder in self.folders() for file in folder.glob("[0-9]*.json"))
        yield from sorted((event for event in events if event), key=lambda event: event.order)

    def read(self, file: Path) -> Event | None:
        """Return the event in a file; None where the file is damaged, or the event has another path."""
        try:
            event = Event.from_bytes(file.read_bytes())
        except (ValueError, OSError):
            return None
        return event if self._file(event.path) == file else None

    def receive(self, path: str, data: bytes) -> bool:
        """Store an event of another copy if none, or a damaged one, is here; return whether it is intact itself."""
        with suppress(ValueError):
            if Event.from_bytes(data).path == path:
                if self.lacks(path):
                    self._file(path).parent.mkdir(exist_ok=True, parents=True)
                    write_bytes(self._file(path), data)
                return True
        return False

    def lacks(self, path: str) -> bool:
        """Return whether a path, relative to a store, is one of an event, and there is no intact event here."""
        return bool(_PATH.fullmatch(path)) and self.read(self._file(path)) is None

    def writers(self) -> list[str]:
        """Return the names of the writers, sorted."""
        return sorted(folder.name for folder in self.folder.glob("[0-9a-f]*") if folder.is_dir())

    def folders(self) -> list[Path]:
        """Return the folders with the files of the events, sorted by writer and number."""
        return [folder for writer in self.writers() for folder in sorted((self.folder / writer).glob("[0-9]*"))]

    def problems(self) -> list[str]:
        """Return a sentence for each damaged, missing or altered event; empty where all histories are intact."""
        return [problem for writer in self.writers() for problem in self._problems_of_writer(writer)]

    def _problems_of_writer(self, writer: str) -> Iterator[str]:
        files = sorted((self.folder / writer).glob("[0-9]*/[0-9]*.json"))
        for (before, last), (number, file) in pairwise([(0, None), *((int(file.stem), file) for file in files)]):
            event = self.read(file) if file else None
            if number != before + 1:
                names = f"Event {before + 1} is" if number == before + 2 else f"Events {before + 1} to {number - 1} are"
                yield f"{names} missing in {self.folder / writer}; {number} is there"
            elif event and event.previous != _sha256(last.read_bytes() if last else b""):
                yield f"{file} does not follow the event before it: the history was altered"
            if event is None:
                yield f"{file} is damaged: not the event that was written"

    def _newest(self, writer: str) -> tuple[int, bytes]:
        """Return the number of a writer's newest event and the content of its file; 0 and b"" without events."""
        for folder in sorted((self.folder / writer).glob("[0-9]*"), reverse=True):
            if files := sorted(folder.glob("[0-9]*.json")):
                return int(files[-1].stem), files[-1].read_bytes()
        return 0, b""

    def _own_writer(self) -> str:
        """Return the name of this copy's writer, which the first process draws and writes to the file `writer`.

        The file also has its own inode number. In a copy of the folder that is another one, and a new name is drawn.
        """
        file = self.folder.with_name("writer")
        while True:
            with suppress(FileNotFoundError):
                name, _, number = file.read_text().partition(" ")
                if number in ("", str(file.stat().st_ino)):
                    return name
                file.unlink(missing_ok=True)
            self.folder.mkdir(parents=True, exist_ok=True)
            partial = file.with_name(f".writer.partial-{secrets.token_hex(6)}")
            partial.touch()
            partial.write_text(f"{secrets.token_hex(8)} {partial.stat().st_ino}")
            try:
                with suppress(FileExistsError):
                    os.link(partial, file)
            finally:
                partial.unlink()

    def _file(self, path: str) -> Path:
        return self.folder.parent / path


def _sha256(data: bytes) -> str:
    """Return the hash of an event's file, as the next event names it; `START` for b"", where there is none."""
    return hashlib.sha256(data).hexdigest() if data else START


def _after(data: bytes) -> str:
    """Return the time one microsecond after an event; an empty string where its file is damaged or b""."""
    try:
        time = datetime.fromisoformat(Event.from_bytes(data).time)
        return (time + timedelta(microseconds=1)).isoformat(timespec="microseconds")
    except (ValueError, OverflowError):
        return ""
