"""Copy of the local store on the Hub: each submission and its event in one commit; restoring from that copy."""

import logging
import random
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from kbbench_hf.errors import DataError
from kbbench_hf.files import file_sha256
from kbbench_hf.hub.repository import DatasetRepository, StoredFile
from kbbench_hf.leaderboard.events import UNREADABLE, Event
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.store import RECORD, Record, Store

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
AT_ONCE = 8
MAX_LOST = 20
"""After so many files that did not come, the Hub is taken to be down."""
_RECORD = re.compile(rf"submissions/(..?)/(\1[^/]*)/{RECORD}")
LOG = logging.getLogger("kbbench")


@dataclass
class Restored:
    """What came of a look at the Hub's copy."""

    n_events: int = 0
    n_submissions: int = 0
    recovered: list[str] = field(default_factory=list)
    """Whole submissions whose event was lost: they have a new one."""
    problems: list[str] = field(default_factory=list)
    """In words, what the Hub's copy lacks, or has damaged."""
    lost: list[str] = field(default_factory=list)
    """In words, what did not come though it is there: to be tried again."""


class _NotWholeError(DataError):
    """A submission on the Hub that lacks a file, or has one that is not what its record says."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"{path} on the Hub {what}")
        self.path = path


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

    @classmethod
    def of_hub(cls, store: Store, repo_id: str) -> "Outbox":
        """Return the outbox of a store on the Hub, with the login of this machine."""
        from huggingface_hub import HfApi
        from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]

        disable_progress_bars()
        return cls(store, repo_id, HfApi())

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
        """Take from the Hub the events, and the submissions that are not whole here, all or some.

        A submission is whole whose files are there; where `check` is set, whose files are those that were stored.

        First the events, that a row which was hidden is never seen; then every submission by itself, its files checked
        against its record. What is damaged on the Hub no longer counts as held there, so that an intact copy is sent
        again. An error of the connection is raised; what came until then stays.
        """
        done = Restored()
        with self._asking():
            self.repository.refresh(create)
            head = self.repository.head
            with self._staging() as staging, ThreadPoolExecutor(AT_ONCE) as pool:

                def take(fetch: Callable[[Path, str], None], names: Iterable[str]) -> int:
                    errors = pool.map(lambda name: _error_of(fetch, staging, name), names)
                    return sum(self._noted(done, error) for error in errors)

                events = sorted(path for path in self.repository.files if self.store.events.lacks(path))
                done.n_events = take(self._fetch_event, events)
                lacking = [each for each in self.lacking(check) if only is None or each in only]
                done.n_submissions = take(self._fetch_submission, lacking)
            if only is None and not done.lost:
                done.recovered = self.store.recover()
                self._restored = head
        if done.n_submissions:
            with self._lock:
                self._files.clear()
        return done

    def lacking(self, check: bool = False) -> list[str]:
        """Return the submissions that the refreshed repository holds, and that are not whole here; see `fetch`."""
        held = sorted({found[2] for path in self.repository.files if (found := _RECORD.fullmatch(path))})
        return [each for each in held if (self.store.damage(each) if check else not self.store.whole(each))]

    def verify(self) -> list[str]:
        """Compare every file on the Hub with the one here; return in words what is not the same.

        What the Hub says of a file is believed where it says its sha256; the others are downloaded. What is whole here
        and other there no longer counts as held there: `flush` sends it again.
        """
        problems = []
        with self._asking():
            self.repository.refresh()
            held = sorted(path for path in self.repository.files if path.startswith(("submissions/", "events/")))
            with self._staging() as staging, ThreadPoolExecutor(AT_ONCE) as pool:
                for path, same in zip(held, pool.map(lambda path: self._same(staging, path), held), strict=True):
                    if same is None:
                        problems.append(f"{path} on the Hub belongs to nothing whole")
                    elif not same:
                        problems.append(f"{path} on the Hub is not the file here")
                        del self.repository.files[path]
        return problems

    def _same(self, staging: Path, path: str) -> bool | None:
        """Say whether a file is the same on the Hub as here; None where there is none here."""
        if not (here := self.store.root / path).is_file():
            return None
        there = self.repository.files[path].sha256 or file_sha256(self.repository.fetch(path, staging))
        return there == file_sha256(here)

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
        refuses by itself is left out and logged.
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
        folder = self.store.path(submission)
        if f"{folder}/{RECORD}" in self.repository.files and not self._take_theirs(submission):
            for path in [path for path in self.repository.files if path.startswith(f"{folder}/")]:
                del self.repository.files[path]
        with self._lock:
            self._files.pop(submission, None)
        self._agreed.add(submission)
        return True

    def _take_theirs(self, submission: str) -> bool:
        """Make a submission here what it is on the Hub, where another copy of the store sent it before this one did.

        Returns:
            Whether it is whole on the Hub; where it is not, nothing is changed here.
        """
        path = f"{self.store.path(submission)}/{RECORD}"
        with self._staging() as staging:
            if self.repository.fetch(path, staging).read_bytes() == (self.store.root / path).read_bytes():
                return True
            try:
                self._fetch_submission(staging, submission)
            except _NotWholeError as error:
                LOG.warning("%s; it is sent again", error)
                return False
        Index(self.store).forget(submission)
        return True

    def _fetch_submission(self, staging: Path, submission: str) -> None:
        """Fetch one submission, whole or not at all, instead of what is here of it.

        Raises:
            DataError: on the Hub it is not whole.
        """
        folder = self.store.path(submission)
        path = f"{folder}/{RECORD}"
        data = self.repository.fetch(path, staging).read_bytes()
        try:
            record = Record.from_bytes(data)
        except UNREADABLE:
            raise _NotWholeError(path, "is not a record") from None
        if record.id != submission or any(Path(name).name != name for name in record.files):
            raise _NotWholeError(path, "is the record of something else")
        for name, sha256 in record.files.items():
            path = f"{folder}/{name}"
            if path not in self.repository.files:
                raise _NotWholeError(path, "is missing")
            if file_sha256(self.repository.fetch(path, staging)) != sha256:
                raise _NotWholeError(path, "is not the file that was stored")
        self.store.install(submission, [staging / folder / name for name in (*record.files, RECORD)])

    def _fetch_event(self, staging: Path, path: str) -> None:
        if not self.store.events.receive(path, self.repository.fetch(path, staging).read_bytes()):
            raise _NotWholeError(path, "is damaged: not the event that was written")

    def _noted(self, done: Restored, error: Exception | None) -> bool:
        """Note what went wrong with one piece, and say whether nothing did; after too much of it, give up."""
        if isinstance(error, _NotWholeError):
            self.repository.files.pop(error.path, None)
            done.problems.append(str(error))
        elif isinstance(error, OSError) and error.errno is not None:
            raise error  # a full disk here, say: the next piece would fare no better
        elif error is not None:
            done.lost.append(f"{type(error).__name__}: {error}".splitlines()[0])
            if len(done.lost) >= MAX_LOST:
                raise error
        return error is None

    @contextmanager
    def _staging(self) -> Iterator[Path]:
        """Yield a folder for what is downloaded; `Store.recover` removes what a killed process leaves of it."""
        parent = self.store.root / "partial"
        parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=parent, ignore_cleanup_errors=True) as folder:
            yield Path(folder)

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
            hashes = self.store.record(event.submission).files
            files = {path: self.store.root / path for path in self.store.paths(event.submission)}
            self._files[event.submission] = {
                path: StoredFile(file.stat().st_size, hashes.get(file.name, "")) for path, file in files.items()
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


def _error_of(fetch: Callable[[Path, str], None], staging: Path, name: str) -> Exception | None:
    try:
        fetch(staging, name)
    except Exception as error:  # the classes depend on the Hub client's HTTP library
        return error
    return None


def _pause(answer: Any, attempt: int) -> float:
    """Return for how long to leave the Hub alone: as it says, or longer every time; never two machines alike."""
    retry_after = str(answer.headers.get("Retry-After")) if answer is not None else ""
    longer = min(LONGEST_PAUSE_S, 2.0**attempt) * random.uniform(0.5, 1.5)
    return max(longer, min(LONGEST_PAUSE_S, float(retry_after))) if retry_after.isdecimal() else longer
