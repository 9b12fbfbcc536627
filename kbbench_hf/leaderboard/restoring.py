"""Restoring a store from its copy on the Hub: complete submissions are taken, the others are listed."""

import hashlib
import logging
import shutil
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from uuid import uuid4

from kbbench_hf.errors import DataError
from kbbench_hf.hub.repository import DatasetRepository
from kbbench_hf.leaderboard.folders import RECORD, Record
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.store import Store

AT_ONCE = 8
MAX_LOST = 20
"""After so many files that did not come, the Hub is taken to be down."""
Task = Callable[[Store, DatasetRepository, Path, str], None]
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


def restore(
    store: Store, repository: DatasetRepository, only: Collection[str] | None = None, check: bool = False
) -> Restored:
    """Fetch the events, and the submissions that are not whole here, all or some, from a refreshed repository.

    A submission is whole whose files are there; where `check` is set, whose files are those that were stored.

    First the events, that a row which was hidden is never seen; then every submission by itself, its files checked
    against its record. What is damaged on the Hub no longer counts as held there, so that an intact copy is sent again.
    """
    done = Restored()
    with _staging(store) as staging, ThreadPoolExecutor(AT_ONCE) as pool:
        lacking = sorted(path for path in repository.files if store.events.lacks(path))
        tasks = pool.map(partial(_tried, _fetch_event, store, repository, staging), lacking)
        done.n_events = sum(_noted(done, repository, error) for error in tasks)
        wanted = [each for each in lacks(store, repository, check) if only is None or each in only]
        tasks = pool.map(partial(_tried, fetch_submission, store, repository, staging), wanted)
        done.n_submissions = sum(_noted(done, repository, error) for error in tasks)
    if only is None and not done.lost:
        done.recovered = store.recover()
    return done


def lacks(store: Store, repository: DatasetRepository, check: bool = False) -> list[str]:
    """Return the submissions that a refreshed repository holds, and that are not whole here."""
    held = sorted({path.split("/")[2] for path in repository.files if _is_record(path)})
    return [each for each in held if (store.damage(each) if check else not store.whole(each))]


def differing(store: Store, repository: DatasetRepository) -> list[str]:
    """Return in words which files of a refreshed repository are not those here; see `Outbox.verify`.

    What the Hub says of a file is believed where it says its sha256; the others are downloaded.
    """
    problems = []
    held = sorted(path for path in repository.files if path.startswith(("submissions/", "events/")))
    with _staging(store) as staging, ThreadPoolExecutor(AT_ONCE) as pool:
        for path, same in zip(held, pool.map(partial(_same, store, repository, staging), held), strict=True):
            if same is None:
                problems.append(f"{path} on the Hub belongs to nothing whole")
            elif not same:
                problems.append(f"{path} on the Hub is not the file here")
                del repository.files[path]
    return problems


def _same(store: Store, repository: DatasetRepository, staging: Path, path: str) -> bool | None:
    """Say whether a file is the same on the Hub as here; None where there is none here."""
    if not (store.root / path).is_file():
        return None
    here = hashlib.sha256((store.root / path).read_bytes()).hexdigest()
    there = repository.files[path].sha256 or hashlib.sha256(repository.fetch(path, staging).read_bytes()).hexdigest()
    return here == there


def agree(store: Store, repository: DatasetRepository, submission: str) -> bool:
    """Make a submission here what it is on the Hub, where another copy of the store sent the same before this one did.

    Returns:
        Whether it is whole on the Hub; where it is not, nothing is changed here.
    """
    with _staging(store) as staging:
        path = f"{store.path(submission)}/{RECORD}"
        if repository.fetch(path, staging).read_bytes() == (store.root / path).read_bytes():
            return True
        try:
            fetch_submission(store, repository, staging, submission)
        except _NotWholeError as error:
            LOG.warning("%s; it is sent again", error)
            return False
    Index(store).forget(submission)
    return True


def fetch_submission(store: Store, repository: DatasetRepository, staging: Path, submission: str) -> None:
    """Fetch one submission, whole or not at all, instead of what is here of it.

    Raises:
        DataError: on the Hub it is not whole.
    """
    folder = store.path(submission)
    path = f"{folder}/{RECORD}"
    data = repository.fetch(path, staging).read_bytes()
    try:
        record = Record.from_bytes(data)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise _NotWholeError(path, "is not a record") from None
    if record.id != submission or any(Path(name).name != name for name in record.files):
        raise _NotWholeError(path, "is the record of something else")
    for name, sha256 in record.files.items():
        path = f"{folder}/{name}"
        if path not in repository.files:
            raise _NotWholeError(path, "is missing")
        if hashlib.sha256(repository.fetch(path, staging).read_bytes()).hexdigest() != sha256:
            raise _NotWholeError(path, "is not the file that was stored")
    store.install(submission, [staging / folder / name for name in (*record.files, RECORD)])


def _fetch_event(store: Store, repository: DatasetRepository, staging: Path, path: str) -> None:
    if not store.events.receive(path, repository.fetch(path, staging).read_bytes()):
        raise _NotWholeError(path, "is damaged: not the event that was written")


def _tried(task: Task, store: Store, repository: DatasetRepository, staging: Path, name: str) -> Exception | None:
    try:
        task(store, repository, staging, name)
    except Exception as error:  # the classes depend on the Hub client's HTTP library
        return error
    return None


def _noted(done: Restored, repository: DatasetRepository, error: Exception | None) -> bool:
    """Note what went wrong with one piece, and say whether nothing did; after too much of it, give up."""
    if isinstance(error, _NotWholeError):
        repository.files.pop(error.path, None)
        done.problems.append(str(error))
    elif isinstance(error, OSError) and error.errno is not None:
        raise error  # a full disk here, say: the next piece would fare no better
    elif error is not None:
        done.lost.append(f"{type(error).__name__}: {error}".splitlines()[0])
        if len(done.lost) >= MAX_LOST:
            raise error
    return error is None


@contextmanager
def _staging(store: Store) -> Iterator[Path]:
    folder = store.root / "partial" / uuid4().hex
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_record(path: str) -> bool:
    top, _, rest = path.partition("/")
    parts = rest.split("/")
    return top == "submissions" and len(parts) == 3 and parts[2] == RECORD and parts[1][:2] == parts[0]
