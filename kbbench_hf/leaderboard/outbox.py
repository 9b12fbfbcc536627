"""Copy of the local store in a dataset on the Hub: sending submissions and events, and restoring from the copy.

The Space and `kbbench leaderboard --results` use it. A submission and its event are sent in one commit, so that the Hub
never has an event without its files. Only a damaged file on the Hub is written a second time.
"""

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
"""Mean interval; the Hub refuses more than 128 commits in an hour."""
COMMITS_AT_ONCE = 30
"""Maximum number of commits without an interval, after as many minutes without commits: a backlog is sent quickly."""
MAX_ATTEMPTS = 8
LONGEST_PAUSE_S = 600.0
REFUSED = 400, 413, 422
"""Status of a commit that the Hub will not accept later either."""
CROWDED = 409, 412, 429
"""Status of a commit if another one came first, or if there were too many requests."""
AT_ONCE = 8
"""Number of concurrent downloads."""
MAX_LOST = 20
"""Number of failed downloads after which `fetch` gives up: the Hub is down."""
_RECORD = re.compile(rf"submissions/(..?)/(\1[^/]*)/{RECORD}")
LOG = logging.getLogger("kbbench")


@dataclass
class Restored:
    """The outcome of `Outbox.fetch`."""

    n_events: int = 0
    """Number of downloaded events."""
    n_submissions: int = 0
    """Number of downloaded submissions."""
    recovered: list[str] = field(default_factory=list)
    """Ids of complete submissions whose event was lost, and that have a new one."""
    problems: list[str] = field(default_factory=list)
    """A sentence for each file that is missing or damaged on the Hub."""
    lost: list[str] = field(default_factory=list)
    """A line for each failed download; the next `fetch` tries again."""


class _NotWholeError(DataError):
    """A submission on the Hub lacks a file, or has one with another hash than its record states."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"{path} on the Hub {what}")
        self.path = path


class Outbox:
    """Synchronizes a store with a dataset repository of the same layout, which several machines may share.

    A commit names its parent, so that it fails where another machine committed first. Each path is written once, or
    again where the file on the Hub is damaged and the local one is intact. After an error, the file list is requested
    again: the commit may have succeeded although its response was lost.
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
        self._clock, self._sleep = clock, sleep
        self._allowed, self._allowed_at = float(COMMITS_AT_ONCE), clock()  # commits that may be made now; see `_wait`
        self._most = FILES_PER_COMMIT  # halved after errors
        self._answers = False  # whether the Hub responded to the last request
        self._restored: str | None = None  # the commit of the last complete `fetch`
        self._agreed: set[str] = set()  # submissions that are the same here and on the Hub, or new there
        self._refused: set[str] = set()  # events that the Hub refuses
        self._events: dict[str, Event] = {}  # path -> local event
        self._sizes: dict[str, int] = {}  # path of a local event -> bytes of its file
        self._files: dict[str, dict[str, StoredFile]] = {}  # submission -> path -> local file
        self._durable: set[str] = set()
        self._lock = threading.RLock()  # guards what other threads read
        self._one_at_a_time = threading.Lock()  # guards requests to the Hub

    @classmethod
    def of_hub(cls, store: Store, repo_id: str) -> "Outbox":
        """Return the outbox of a store, with the Hub token of this machine."""
        from huggingface_hub import HfApi
        from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]

        disable_progress_bars()
        return cls(store, repo_id, HfApi())

    def durable(self) -> set[str]:
        """Return the ids of submissions that were complete on the Hub, with an event, at the last request.

        Sends no request; empty before the first one. May be called from any thread.
        """
        with self._lock:
            return set(self._durable)

    def pending(self) -> list[str]:
        """Return the paths that the Hub lacked at the last request, oldest event first, each after its files."""
        with self._lock:
            return [path for event in self._pending() for path in (*self._to_send(event), event.path)]

    def backlog(self) -> list[str]:
        """Return the ids of submissions with files or events that the Hub lacks, the oldest event first."""
        return list(dict.fromkeys(event.submission for event in self._pending()))

    def minutes(self) -> int | None:
        """Return the expected minutes until the backlog is sent, at least 1; None if the Hub did not respond."""
        with self._lock:
            if not self._answers:
                return None
            commits = -(-len(self.pending()) // FILES_PER_COMMIT)
            return 1 + max(0, commits - int(self._allowed))

    def state(self, submission: str) -> str:
        """Return a sentence on a stored submission: that it is on the Hub, or when it will be."""
        with self._lock:
            if submission in self._durable:
                return "Saved, on the Hub."
        minutes = self.minutes()
        if minutes is None:
            return "Saved here; the Hub does not respond now, and will get it later."
        return f"Saved here, on the Hub within {minutes} minute{'' if minutes == 1 else 's'}."

    def fetch(self, only: Collection[str] | None = None, create: bool = False, check: bool = False) -> Restored:
        """Download the events, and the submissions that are not complete here, and return what was done.

        The events come first, so that a hidden submission is never shown. The files of a submission are checked against
        its record, and stored together. A damaged file on the Hub no longer counts as being there, so that `flush`
        sends an intact one. An error of the connection is raised; what was downloaded before stays.

        Args:
            only: the ids of the submissions to download; None for all.
            create: whether to create the dataset if it does not exist.
            check: whether local submissions with damaged files are downloaded, too, and not only incomplete ones.
        """
        done = Restored()
        with self._connected():
            self.repository.refresh(create)
            head = self.repository.head
            with self._staging() as staging, ThreadPoolExecutor(AT_ONCE) as pool:

                def take(fetch: Callable[[Path, str], None], names: Iterable[str]) -> int:
                    errors = pool.map(lambda name: _error_of(fetch, staging, name), names)
                    return sum(self._record_outcome(done, error) for error in errors)

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
        """Return the ids of submissions that are on the Hub and not complete here, sorted; for `check` see `fetch`.

        It uses the file list of the last request.
        """
        there = sorted({found[2] for path in self.repository.files if (found := _RECORD.fullmatch(path))})
        return [each for each in there if (self.store.damage(each) if check else not self.store.whole(each))]

    def verify(self) -> list[str]:
        """Compare each file on the Hub with the local one, and return a sentence for each difference.

        If the Hub states the sha256 of a file, it is compared; other files are downloaded. A file that differs no
        longer counts as being on the Hub, so that `flush` sends the local one if it is intact.
        """
        problems = []
        with self._connected():
            self.repository.refresh()
            there = sorted(path for path in self.repository.files if path.startswith(("submissions/", "events/")))
            with self._staging() as staging, ThreadPoolExecutor(AT_ONCE) as pool:
                for path, same in zip(there, pool.map(lambda path: self._is_same(staging, path), there), strict=True):
                    if same is None:
                        problems.append(f"{path} on the Hub belongs to no complete submission or event")
                    elif not same:
                        problems.append(f"{path} on the Hub is not the file here")
                        del self.repository.files[path]
        return problems

    def _is_same(self, staging: Path, path: str) -> bool | None:
        """Whether a file on the Hub is the same as the local one; None if there is no local one."""
        if not (here := self.store.root / path).is_file():
            return None
        there = self.repository.files[path].sha256 or file_sha256(self.repository.fetch(path, staging))
        return there == file_sha256(here)

    def catch_up(self) -> None:
        """Download what other machines sent since the last time; create the dataset if it does not exist."""
        with self._connected():
            self.repository.refresh(create=True)
        if self._restored is None or self._restored != self.repository.head:
            done = self.fetch(create=True)
            for line in (*done.problems, *done.lost):
                LOG.warning("%s", line)

    def flush(self) -> int:
        """Send all pending files, and return their number.

        An error is raised after `MAX_ATTEMPTS` attempts; what was sent before stays. An event that the Hub refuses is
        logged and left out.
        """
        sent = attempt = 0
        while True:
            events: list[Event] = []
            try:
                with self._connected():
                    self.repository.refresh(create=True)
                    files, events = self._next_commit()
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
                if status in REFUSED and len(events) == 1:  # of several, the commit is halved until one is left
                    LOG.warning("the Hub refuses %s, which stays here: %s", events[0].path, error)
                    self._refused.add(events[0].path)
                elif attempt == MAX_ATTEMPTS:
                    raise
                elif status not in CROWDED:
                    self._most = max(1, self._most // 2)
                self._sleep(_pause(answer, attempt))

    def _next_commit(self) -> tuple[dict[str, Path], list[Event]]:
        """Return the files of the next commit, path -> local file, and its events, oldest first; both may be empty."""
        files: dict[str, Path] = {}
        events: list[Event] = []
        for event in self._pending():
            if event.path in self._refused or not self._reconcile(event.submission):
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

    def _reconcile(self, submission: str) -> bool:
        """Make a submission the same here and on the Hub, if it is there; False if the local one is damaged."""
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
        """Replace a local submission by that on the Hub, if another machine stored it, too, and sent it first.

        Returns:
            Whether it is complete on the Hub; if not, nothing is changed here.
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
        """Download a submission, and replace the local one once it is complete.

        Raises:
            DataError: it is not complete on the Hub.
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

    def _record_outcome(self, done: Restored, error: Exception | None) -> bool:
        """Return whether a download succeeded, and add its error to the outcome; raise it if there are too many."""
        if isinstance(error, _NotWholeError):
            self.repository.files.pop(error.path, None)
            done.problems.append(str(error))
        elif isinstance(error, OSError) and error.errno is not None:
            raise error  # of this machine, such as a full disk: the next download would fail, too
        elif error is not None:
            done.lost.append(f"{type(error).__name__}: {error}".splitlines()[0])
            if len(done.lost) >= MAX_LOST:
                raise error
        return error is None

    @contextmanager
    def _staging(self) -> Iterator[Path]:
        """Yield a folder for downloads; `Store.recover` removes that of a killed process."""
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
        """Return the local events that the Hub lacks, or whose submission is not complete there, oldest first."""
        with self._lock:
            for folder in self.store.events.folders():
                for file in folder.glob("[0-9]*.json"):
                    path = file.relative_to(self.store.root).as_posix()
                    if path not in self._events and (event := self.store.events.read(file)):
                        self._events[path] = event
                        self._sizes[path] = file.stat().st_size
            lacking = [event for event in self._events.values() if not self._has_event(event) or self._to_send(event)]
            return sorted((event for event in lacking if self._files_of(event)), key=lambda event: event.order)

    def _has_event(self, event: Event) -> bool:
        """Whether the Hub has an event; for these small files it states the size, but no sha256."""
        there = self.repository.files.get(event.path)
        return there is not None and there.size == self._sizes[event.path]

    def _to_send(self, event: Event) -> list[str]:
        """Return the paths of an event's submission that the Hub lacks."""
        there = self.repository.files
        return [path for path, here in self._files_of(event).items() if not (path in there and there[path].same(here))]

    def _files_of(self, event: Event) -> dict[str, StoredFile]:
        """Return path -> local file of an event's submission; empty where it is not complete here."""
        if event.submission not in self._files:
            if not self.store.whole(event.submission):
                return {}
            hashes = self.store.record(event.submission).files
            files = {path: self.store.root / path for path in self.store.paths(event.submission)}
            self._files[event.submission] = {
                path: StoredFile(file.stat().st_size, hashes.get(file.name, "")) for path, file in files.items()
            }
        return self._files[event.submission]

    def _update_durable(self) -> None:
        """Update the set of submissions that are complete on the Hub."""
        with self._lock:
            self._pending()  # reads new events
            there = {event.submission: event for event in self._events.values() if self._has_event(event)}
            self._durable = {
                each for each, event in there.items() if self._files_of(event) and not self._to_send(event)
            }

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Guard requests to the Hub: one thread at a time; then update whether it responds, and what it has."""
        with self._one_at_a_time:
            try:
                yield
            except Exception:
                self._answers = False
                raise
            self._answers = True
            self._update_durable()

    def _wait(self) -> None:
        """Wait until a commit is allowed: one a minute, or several at once after some minutes without commits."""
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
    """Return the pause in seconds after an error: the Hub's `Retry-After`, or else exponential with random jitter."""
    retry_after = str(answer.headers.get("Retry-After")) if answer is not None else ""
    longer = min(LONGEST_PAUSE_S, 2.0**attempt) * random.uniform(0.5, 1.5)
    return max(longer, min(LONGEST_PAUSE_S, float(retry_after))) if retry_after.isdecimal() else longer
