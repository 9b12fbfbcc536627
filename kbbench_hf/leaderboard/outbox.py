"""Copy of the local store on the Hub: each submission and its event in one commit."""

import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbbench_hf.hub.repository import DatasetRepository, StoredFile
from kbbench_hf.leaderboard.events import Event
from kbbench_hf.leaderboard.folders import RECORD
from kbbench_hf.leaderboard.restoring import Restored, agree, differing, restore
from kbbench_hf.leaderboard.store import Store

if TYPE_CHECKING:
    from huggingface_hub import HfApi

FILES_PER_COMMIT = 96
"""The Hub advises fewer than 100 files in a commit."""
SECONDS_BETWEEN_COMMITS = 60.0
"""On average; the Hub refuses more than 128 commits in an hour."""
COMMITS_AT_ONCE = 30
"""So many commits may follow each other at once where none were made for as many minutes: a backlog goes quickly."""
MAX_ATTEMPTS = 8
LONGEST_PAUSE_S = 600.0
REFUSED = 400, 413, 422
"""What the Hub answers to a commit that it will not take later either."""
CROWDED = 409, 412, 429
"""What it answers when others were faster, or when it is asked too often."""
LOG = logging.getLogger("kbbench")


class Outbox:
    """Keeps the store and a dataset repository with the same layout alike; several machines may share one dataset.

    A commit names the one that it was made on, so that nothing is sent unseen over what another machine sent. Every
    path is written once; it is written again only where the Hub's file is damaged and the one here is whole. After an
    error the Hub is asked what it holds: a commit may have happened though its answer was lost.
    """

    def __init__(
        self,
        store: Store,
        repo_id: str,
        api: "HfApi",
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.store = store
        self.repository = DatasetRepository(repo_id, api)
        self._clock = clock
        self._sleep = sleep
        self._allowed, self._allowed_at = float(COMMITS_AT_ONCE), clock()
        self._most = FILES_PER_COMMIT
        self._answers = False
        self._restored: str | None = None
        self._agreed: set[str] = set()
        self._refused: set[str] = set()
        self._events: dict[str, Event] = {}
        self._sizes: dict[str, int] = {}
        self._files: dict[str, dict[str, StoredFile]] = {}
        self._durable: set[str] = set()
        self._lock = threading.RLock()
        self._one_at_a_time = threading.Lock()

    def durable(self) -> set[str]:
        """Return the ids that are wholly on the Hub, with an event, when it was last looked at; asks nobody.

        Empty until the Hub has answered for the first time. May be called from any thread.
        """
        with self._lock:
            return set(self._durable)

    def pending(self) -> list[str]:
        """Return the paths that the Hub does not hold, as far as is known: each event after its submission's files."""
        with self._lock:
            return [path for event in self._pending() for path in (*self._to_send(event), event.path)]

    def backlog(self) -> list[str]:
        """Return the submissions that wait, they or something that was done to them; the oldest first."""
        return list(dict.fromkeys(event.submission for event in self._pending()))

    def minutes(self) -> int | None:
        """Return within how many minutes what waits is expected on the Hub; None while the Hub does not answer."""
        with self._lock:
            if not self._answers:
                return None
            commits = -(-len(self.pending()) // FILES_PER_COMMIT)
            return 1 + max(0, commits - int(self._allowed))

    def state(self, submission: str) -> str:
        """Return in words how safe a stored submission is: on the Hub, or when it is expected there."""
        with self._lock:
            if submission in self._durable:
                return "Saved, on the Hub."
        minutes = self.minutes()
        if minutes is None:
            return "Saved here; the Hub does not answer now, and gets it when it does."
        return f"Saved here, on the Hub within {minutes} minute{'' if minutes == 1 else 's'}."

    def fetch(self, only: Collection[str] | None = None, create: bool = False, check: bool = False) -> Restored:
        """Take from the Hub the events, and the submissions that lack here, all or some; `check` those damaged too.

        An error of the connection is raised; what came until then stays.
        """
        with self._asking():
            self.repository.refresh(create)
            head = self.repository.head
            done = restore(self.store, self.repository, only, check)
            if only is None and not done.lost:
                self._restored = head
        if done.n_submissions:
            with self._lock:
                self._files.clear()
        return done

    def verify(self) -> list[str]:
        """Compare every file on the Hub with the one here; return in words what is not the same.

        What is whole here and other there no longer counts as held there: `flush` sends it again.
        """
        with self._asking():
            self.repository.refresh()
            return differing(self.store, self.repository)

    def catch_up(self) -> None:
        """Take from the Hub what others sent since the last time; make the dataset where there is none."""
        with self._asking():
            self.repository.refresh(create=True)
        if self._restored is None or self._restored != self.repository.head:
            done = self.fetch(create=True)
            for line in (*done.problems, *done.lost):
                LOG.warning("%s", line)

    def flush(self) -> int:
        """Send everything that is pending; return how many files were sent.

        An error that stays after several attempts is raised; what was sent until then is remembered. What the Hub
        refuses by itself is left out, and said.
        """
        sent = attempt = 0
        while True:
            events: list[Event] = []
            try:
                with self._asking():
                    self.repository.refresh(create=True)
                    files, events = self._next()
                    if not events:
                        return sent
                    self._wait()
                    self._commit(files, events)
                sent, attempt = sent + len(files), 0
                self._most = min(FILES_PER_COMMIT, 2 * self._most)
            except Exception as error:  # whose class depends on the Hub client's HTTP library
                self.repository.forget()
                attempt += 1
                answer = getattr(error, "response", None)
                status = answer.status_code if answer is not None else None
                if status in REFUSED and len(events) == 1:
                    LOG.warning("the Hub refuses %s, which stays here: %s", events[0].path, error)
                    self._refused.add(events[0].path)
                elif attempt == MAX_ATTEMPTS:
                    raise
                elif status not in CROWDED:
                    self._most = max(1, self._most // 2)
                self._sleep(_pause(answer, attempt))

    def _next(self) -> tuple[dict[str, Path], list[Event]]:
        """Return the files of the next commit and the events that they are there for, oldest first."""
        files: dict[str, Path] = {}
        events: list[Event] = []
        for event in self._pending():
            if event.path in self._refused or not self._agree(event.submission):
                continue
            with self._lock:
                paths = [*self._to_send(event), event.path]
            if self.store.events.lacks(event.path) or (paths[1:] and self.store.damage(event.submission)):
                continue
            if events and len(files) + len(paths) > self._most:
                break
            files.update((path, self.store.root / path) for path in paths)
            events.append(event)
        return files, events

    def _agree(self, submission: str) -> bool:
        """Have a submission be the same here as on the Hub, where it is there too; False where none is whole here."""
        if submission in self._agreed:
            return True
        if self.store.damage(submission):
            return False
        record = f"{self.store.path(submission)}/{RECORD}"
        if record in self.repository.files and not agree(self.store, self.repository, submission):
            folder = f"{self.store.path(submission)}/"
            for path in [path for path in self.repository.files if path.startswith(folder)]:
                del self.repository.files[path]
        with self._lock:
            self._files.pop(submission, None)
        self._agreed.add(submission)
        return True

    def _commit(self, files: dict[str, Path], events: list[Event]) -> None:
        before = self.repository.head
        n = len({event.submission for event in events})
        self.repository.commit(files, f"{n} submission{'' if n == 1 else 's'}, {len(events)} events")
        if self._restored == before:
            self._restored = self.repository.head

    def _pending(self) -> list[Event]:
        """Return the events that the Hub does not hold, or not whole with their submission, oldest first."""
        with self._lock:
            for folder in self.store.events.folders():
                for file in folder.glob("[0-9]*.json"):
                    path = file.relative_to(self.store.root).as_posix()
                    if path not in self._events and (event := self.store.events.read(file)):
                        self._events[path] = event
                        self._sizes[path] = file.stat().st_size
            there = [event for event in self._events.values() if not self._holds(event) or self._to_send(event)]
            return sorted((event for event in there if self._files_of(event)), key=lambda event: event.order)

    def _holds(self, event: Event) -> bool:
        held = self.repository.files.get(event.path)
        return held is not None and held.size == self._sizes[event.path]

    def _to_send(self, event: Event) -> list[str]:
        """Return the files of an event's submission that the Hub lacks."""
        held = self.repository.files
        return [path for path, here in self._files_of(event).items() if not (path in held and held[path].same(here))]

    def _files_of(self, event: Event) -> dict[str, StoredFile]:
        """Return the files of an event's submission; none where it is not whole here."""
        if event.submission not in self._files:
            if not self.store.whole(event.submission):
                return {}
            folder, files = self.store.path(event.submission), self.store.record(event.submission).files
            sizes = {path: (self.store.root / path).stat().st_size for path in self.store.paths(event.submission)}
            self._files[event.submission] = {
                path: StoredFile(size, files.get(path.removeprefix(f"{folder}/"), "")) for path, size in sizes.items()
            }
        return self._files[event.submission]

    def _look(self) -> None:
        """Note which submissions are wholly on the Hub."""
        with self._lock:
            self._pending()
            named = {event.submission: event for event in self._events.values() if self._holds(event)}
            self._durable = {
                each for each, event in named.items() if self._files_of(event) and not self._to_send(event)
            }

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Talk to the Hub, one thread at a time, and note how it went and what it holds."""
        with self._one_at_a_time:
            try:
                yield
            except Exception:
                self._answers = False
                raise
            self._answers = True
            self._look()

    def _wait(self) -> None:
        """Wait until a commit is allowed: one a minute, and some at once after a rest."""
        while True:
            now = self._clock()
            gained = (now - self._allowed_at) / SECONDS_BETWEEN_COMMITS
            self._allowed, self._allowed_at = min(float(COMMITS_AT_ONCE), self._allowed + gained), now
            if self._allowed >= 1:
                self._allowed -= 1
                return
            self._sleep((1 - self._allowed) * SECONDS_BETWEEN_COMMITS + 0.001)


def _pause(answer: Any, attempt: int) -> float:
    """Return for how long to leave the Hub alone: as it says, or longer every time; never two machines alike."""
    retry_after = str(answer.headers.get("Retry-After")) if answer is not None else ""
    longer = min(LONGEST_PAUSE_S, 2.0**attempt) * random.uniform(0.5, 1.5)
    return max(longer, min(LONGEST_PAUSE_S, float(retry_after))) if retry_after.isdecimal() else longer
