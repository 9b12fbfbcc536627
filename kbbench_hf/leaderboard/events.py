"""Event log of a leaderboard: immutable files, one hash chain per writer.

    events/<writer>/<thousands>/<number>.json

Whoever reads takes every event that is intact, wherever the chain is broken; `problems` says where it is.
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
"""Moderators hide and show; the owner withdraws, returns and edits. What a moderator hid, its owner cannot show."""
UNREADABLE = ValueError, TypeError, KeyError, AttributeError
"""What reading a damaged record or event raises."""
START = "0" * 64
PER_FOLDER = 1000
_PATH = re.compile(r"events/[0-9a-f]+/\d{4}/\d{7,}\.json")


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
    said: Mapping[str, Any] | None = None
    """What the owner says of the system from now on; None but where it was edited."""

    @property
    def order(self) -> str:
        """What events of several writers are sorted by: time first."""
        return f"{self.time} {self.writer} {self.number:07}"

    @property
    def path(self) -> str:
        """Where it stands in a store."""
        return f"events/{self.writer}/{self.number // PER_FOLDER:04}/{self.number:07}.json"

    def to_bytes(self) -> bytes:
        """Return the event's file: the event and its own hash."""
        values = {name: value for name, value in vars(self).items() if (name, value) != ("said", None)}
        text = json.dumps(values, sort_keys=True, ensure_ascii=False)
        return f'{{"event": {text}, "sha256": "{hashlib.sha256(text.encode()).hexdigest()}"}}\n'.encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Event":
        """Return the event of a file.

        Raises:
            ValueError: the file is not what `to_bytes` wrote.
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
    """A store's folder `events` with one history per writer; any number of processes may append at once.

    A writer is a machine's copy of the store: copies that send their events to one place never take the same name. An
    event's number is taken by linking its finished file to that name: the link either succeeds whole or finds the
    number taken, and then the next one is tried. An event's time is after that of every event known here, so that
    what was done later, on whatever machine, comes later, however its clock goes.
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
        """Add an event to this machine's history and return it, on disk."""
        writer = self._own()
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
                    return event  # it has its number, and was seen: only its name could not be flushed
                raise
            last = file.read_bytes()

    def __iter__(self) -> Iterator[Event]:
        """Yield all intact events, oldest first."""
        events = (self.read(file) for folder in self.folders() for file in folder.glob("[0-9]*.json"))
        yield from sorted((event for event in events if event), key=lambda event: event.order)

    def read(self, file: Path) -> Event | None:
        """Return the event of a file; None where the file is damaged, or is that of another place."""
        try:
            event = Event.from_bytes(file.read_bytes())
        except (ValueError, OSError):
            return None
        return event if self._file(event.path) == file else None

    def receive(self, path: str, data: bytes) -> bool:
        """Take an event of another copy of the store, instead of a damaged one; False where it is damaged itself."""
        with suppress(ValueError):
            if Event.from_bytes(data).path == path:
                if self.lacks(path):
                    self._file(path).parent.mkdir(exist_ok=True, parents=True)
                    write_bytes(self._file(path), data)
                return True
        return False

    def lacks(self, path: str) -> bool:
        """Say whether a path, of another copy of the store, is an event's, and no intact one stands there here."""
        return bool(_PATH.fullmatch(path)) and self.read(self._file(path)) is None

    def writers(self) -> list[str]:
        """Return the names of the histories."""
        return sorted(folder.name for folder in self.folder.glob("[0-9a-f]*") if folder.is_dir())

    def folders(self) -> list[Path]:
        """Return the folders that hold the files of the events."""
        return [folder for writer in self.writers() for folder in sorted((self.folder / writer).glob("[0-9]*"))]

    def problems(self) -> list[str]:
        """Return everything wrong with the histories, in words: what is damaged, missing or was altered."""
        return [problem for writer in self.writers() for problem in self._problems(writer)]

    def _problems(self, writer: str) -> Iterator[str]:
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
        """Return the number and the file's content of a writer's newest event; 0 and nothing where there is none."""
        for folder in sorted((self.folder / writer).glob("[0-9]*"), reverse=True):
            if files := sorted(folder.glob("[0-9]*.json")):
                return int(files[-1].stem), files[-1].read_bytes()
        return 0, b""

    def _own(self) -> str:
        """Return this machine's writer, named once and for all processes.

        Beside the name stands the number that the file itself has on this disk: a copied store takes another name.
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
    """Return the hash that the next event names: of a file, or where there is none, zeros."""
    return hashlib.sha256(data).hexdigest() if data else START


def _after(data: bytes) -> str:
    """Return the moment after an event, or nothing where its file is damaged or there is none."""
    try:
        time = datetime.fromisoformat(Event.from_bytes(data).time)
        return (time + timedelta(microseconds=1)).isoformat(timespec="microseconds")
    except (ValueError, OverflowError):
        return ""
