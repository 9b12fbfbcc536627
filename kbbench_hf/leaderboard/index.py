"""SQLite index of the store for the board's pages, updated from the events and rebuilt if missing."""

import json
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbbench_hf.benchmarks import TaskKey
from kbbench_hf.errors import KBBenchError
from kbbench_hf.files.datasets import Row
from kbbench_hf.leaderboard.events import UNREADABLE, Event
from kbbench_hf.leaderboard.owners import Flag, doubts
from kbbench_hf.leaderboard.store import Record, Store, fingerprint
from kbbench_hf.metrics.significance import PairedTest
from kbbench_hf.scoring.result import annotations_of

SECONDS_BETWEEN_WORDS = 3.0
"""Interval between progress messages while an index is built again."""
SETTLED_NS = 2_000_000_000
"""A folder changed longer ago than this has got another time of change if it was changed since, on any file system."""
SEEN = ("answer_in_training", "seen")
"""Slices that tell apart the examples whose answer occurs in the training split."""
LOG = logging.getLogger("kbbench")


@dataclass(frozen=True, eq=False, slots=True)
class StoredRow:
    """A submission as the index has it. While nothing happens to the submission, the index gives the same object."""

    record: Record
    """With what its owner says of the system now."""
    stored: str
    """When it was first stored, and by which writer; rows are sorted by it."""
    headline: Row
    """Of its result: scores, counters, warnings, what the annotations were made with; and what its answers are like."""


class Index:
    """The index of a store; `update` is cheap when nothing happened. Deleting its file loses nothing.

    Where the disk is full it goes on in memory, because what was acknowledged is to be seen; a damaged file is made
    again.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.file = IndexFile(store.root / "index.sqlite")
        self._read: dict[str, tuple[int, StoredRow]] = {}
        self._doubts: tuple[int, dict[str, list[Flag]]] = 0, {}

    def update(self) -> int:
        """Take in the events that are new; return how many there were.

        Events may come in in any order: the rows do not depend on it. One that is damaged, or whose submission is not
        whole here yet, is left for a later call. A folder of events in which nothing happened is not read.
        """
        return self.file.trying_again(self._update)

    def _update(self) -> int:
        events, n_new, reported = self.store.events, 0, time.monotonic()
        with self.file.connection() as db:
            quiet = dict(db.execute("SELECT folder, changed FROM quiet"))
            for folder in events.folders():
                changed = folder.stat().st_mtime_ns
                name = folder.relative_to(events.folder).as_posix()
                if quiet.get(name) == changed:
                    continue
                if time.monotonic() - reported > SECONDS_BETWEEN_WORDS:
                    reported = time.monotonic()
                    LOG.warning("%s: %s events are taken in, and it goes on", self.file.path, f"{n_new:,}")
                db.execute("BEGIN IMMEDIATE")  # a folder at a time, because others wait meanwhile
                n_here, all_of_it = self._take_in_folder(db, folder)
                n_new += n_here
                if all_of_it and time.time_ns() - changed > SETTLED_NS:
                    db.execute("INSERT OR REPLACE INTO quiet VALUES (?, ?)", (name, changed))
                db.commit()
        return n_new

    def position(self) -> int:
        """Return a number that is another one after every event that was taken in, by whichever process."""
        return int(self._select("SELECT coalesce(max(number), 0) FROM taken")[0][0])

    def rebuild(self) -> int:
        """Forget the index and make it again from the files; return the number of events read."""
        try:
            with self.file.connection() as db:
                db.executescript("DELETE FROM rows; DELETE FROM tests; DELETE FROM taken; DELETE FROM quiet;")
        except sqlite3.DatabaseError:
            self.file.remove()
        return self.update()

    def forget(self, submission: str) -> None:
        """Forget one submission, whose files were replaced; the next update takes it in again."""
        paths = [(event.path,) for event in self.store.events if event.submission == submission]
        with self.file.connection() as db:
            db.execute("BEGIN IMMEDIATE")
            db.execute("DELETE FROM rows WHERE id = ?", (submission,))
            db.execute("DELETE FROM quiet")
            db.executemany("DELETE FROM taken WHERE path = ?", paths)

    def places(self) -> list[TaskKey]:
        """Return the places that have rows on the board."""
        query = "SELECT DISTINCT benchmark, config, split, mode FROM rows WHERE shown AND returned ORDER BY 1, 2, 3, 4"
        return [TaskKey(*row) for row in self._select(query)]

    def rows(self, task_key: TaskKey, any_mode: bool = False) -> list[StoredRow]:
        """Return the shown rows of a place, oldest first."""
        query = """SELECT id, changed FROM rows
            WHERE benchmark = ? AND config = ? AND split = ? AND (mode = ? OR ?) AND shown AND returned
            ORDER BY stored"""
        return self._rows(self._select(query, *task_key, any_mode))

    def doubts(self) -> dict[str, list[Flag]]:
        """Return what is doubtful about the names of the shown rows of all places; most have no doubts."""
        position = self.position()
        if self._doubts[0] != position:
            query = "SELECT id, changed FROM rows WHERE shown AND returned ORDER BY stored"
            records = [row.record for row in self._rows(self._select(query))]
            self._doubts = position, doubts(records)
        return self._doubts[1]

    def _select(self, query: str, *values: object) -> list[Any]:
        with self.file.connection() as db:
            return db.execute(query, values).fetchall()

    def _rows(self, wanted: Sequence[tuple[str, int]]) -> list[StoredRow]:
        """Return the rows of these ids, each as it was when it last changed; those that did not are not read again."""
        new = [row for row, changed in wanted if self._read.get(row, (0,))[0] != changed]
        query = "SELECT id, changed, record, stored, result FROM rows WHERE id IN (SELECT value FROM json_each(?))"
        for row, changed, record, stored, result in self._select(query, json.dumps(new)) if new else ():
            stored_row = StoredRow(Record.from_bytes(record.encode()), stored, json.loads(result))
            self._read[row] = changed, stored_row
        return [self._read[row][1] for row, _ in wanted]

    def n_stored(self, submitter: str, since: str) -> tuple[int, int]:
        """Return how many submissions somebody, and how many all users, stored since a time, shown or not."""
        query = """SELECT total(lower(json_extract(record, '$.submitter')) = lower(?)), count(*) FROM rows
            WHERE stored >= ? AND json_extract(record, '$.origin') != 'own'"""
        theirs, all_of_them = self._select(query, submitter, since)[0]
        return int(theirs), all_of_them

    def of_submitter(self, submitter: str) -> list[tuple[Record, bool]]:
        """Return the records of somebody's submissions, newest first, and whether each is withdrawn."""
        query = """SELECT record, returned FROM rows
            WHERE shown AND json_extract(record, '$.submitter') = ? ORDER BY stored DESC"""
        rows = self._select(query, submitter)
        return [(Record.from_bytes(record.encode()), not returned) for record, returned in rows]

    def tests(self, metric: str, ids: Sequence[str]) -> dict[tuple[str, str], PairedTest]:
        """Return the paired tests of two of these submissions that were made before: neither of them ever changes."""
        query = """SELECT a, b, test FROM tests WHERE metric = ?1
            AND a IN (SELECT value FROM json_each(?2)) AND b IN (SELECT value FROM json_each(?2))"""
        tests = {}
        for a, b, text in self._select(query, metric, json.dumps(ids)):
            difference, (low, high), *others = json.loads(text)
            tests[a, b] = PairedTest(difference, (low, high), *others)
        return tests

    def keep_tests(self, metric: str, tests: Mapping[tuple[str, str], PairedTest]) -> None:
        """Keep paired tests for the next time, if there is room."""
        rows = [(*pair, metric, json.dumps(test)) for pair, test in tests.items()]
        with suppress(sqlite3.OperationalError), self.file.connection() as db:
            db.execute("BEGIN IMMEDIATE")
            db.executemany("INSERT OR REPLACE INTO tests VALUES (?, ?, ?, ?)", rows)

    def dump(self) -> str:
        """Return the whole index as text, the same for the same events; two indexes are equal if their dumps are."""
        rows = self._select("SELECT * FROM rows ORDER BY stored")
        return "".join(f"{json.dumps(row[:-1])}\n" for row in rows)  # all but when each changed here

    def _take_in_folder(self, db: sqlite3.Connection, folder: Path) -> tuple[int, bool]:
        """Take in what is new in a folder of events; return how many there were, and whether nothing was left."""
        n_new, all_of_it = 0, True
        for file in sorted(folder.glob("[0-9]*.json")):
            path = file.relative_to(self.store.root).as_posix()
            if db.execute("SELECT 1 FROM taken WHERE path = ?", (path,)).fetchone():
                continue
            event, taken = self.store.events.read(file), False
            if event and self.store.whole(event.submission):
                with suppress(KBBenchError, *UNREADABLE):  # a file that is there, and damaged
                    self._take_in(db, event)
                    number = db.execute("INSERT INTO taken (path) VALUES (?)", (path,)).lastrowid
                    db.execute("UPDATE rows SET changed = ? WHERE id = ?", (number, event.submission))
                    taken = True
            n_new, all_of_it = n_new + taken, all_of_it and taken
        return n_new, all_of_it

    def _take_in(self, db: sqlite3.Connection, event: Event) -> None:
        """Make one event count: a row was stored when it was first stored, and is shown as was last decided."""
        select = "SELECT record FROM rows WHERE id = ?"
        if not db.execute(select, (event.submission,)).fetchone():
            self._insert(db, event.submission, event.order)
        values = {"id": event.submission, "order": event.order, "on": event.action in ("shown", "returned")}
        if event.action == "edited":
            (record,) = db.execute(select, (event.submission,)).fetchone()
            edited = {**json.loads(record), "system": event.said}
            values["record"] = json.dumps(edited, sort_keys=True, ensure_ascii=False)
        if event.action in EFFECTS:
            db.execute(f"UPDATE rows SET {EFFECTS[event.action]}", values)  # noqa: S608 - of our own

    def _insert(self, db: sqlite3.Connection, submission: str, stored: str) -> None:
        record, result = self.store.record(submission), self.store.result(submission)
        headline: Row = {name: result.get(name, []) for name in ("scores", "counters", "warnings")}
        headline["seen"] = next((result["slices"][name] for name in SEEN if name in result["slices"]), {})
        headline["annotations"] = annotations_of(result["versions"])
        headline["parts"] = fingerprint(self.store.predictions(submission))
        db.execute(
            "INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, 1, '', 1, '', '', ?, ?, 0)",
            (submission, *record.task_key, stored, record.to_bytes().decode(), json.dumps(headline)),
        )


EFFECTS = {
    "stored": "stored = min(stored, :order) WHERE id = :id",
    **dict.fromkeys(("hidden", "shown"), "shown = :on, decided = :order WHERE id = :id AND decided < :order"),
    **dict.fromkeys(
        ("withdrawn", "returned"), "returned = :on, withdrawn = :order WHERE id = :id AND withdrawn < :order"
    ),
    "edited": "record = :record, edited = :order WHERE id = :id AND edited < :order",
}
"""Action -> what it makes of a row: each column is as the last event says, in whatever order they come in."""
VERSION = 6
"""Of the tables; an index of another version is made again."""
SCHEMA = f"""
DROP TABLE IF EXISTS rows; DROP TABLE IF EXISTS tests; DROP TABLE IF EXISTS positions;
DROP TABLE IF EXISTS taken; DROP TABLE IF EXISTS quiet;
PRAGMA user_version = {VERSION};
CREATE TABLE rows (
    id TEXT PRIMARY KEY, benchmark TEXT NOT NULL, config TEXT NOT NULL, split TEXT NOT NULL, mode TEXT NOT NULL,
    stored TEXT NOT NULL, shown INTEGER NOT NULL, decided TEXT NOT NULL,
    returned INTEGER NOT NULL, withdrawn TEXT NOT NULL, edited TEXT NOT NULL,
    record TEXT NOT NULL, result TEXT NOT NULL, changed INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX place ON rows (benchmark, config, split, shown, returned);
CREATE TABLE tests (
    a TEXT NOT NULL, b TEXT NOT NULL, metric TEXT NOT NULL, test TEXT NOT NULL, PRIMARY KEY (a, b, metric)
);
CREATE TABLE taken (number INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL UNIQUE);
CREATE TABLE quiet (folder TEXT PRIMARY KEY, changed INTEGER NOT NULL);
"""
NO_ROOM = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class IndexFile:
    """A file of tables that any number of processes may read and write at once; losing it loses nothing.

    Where the disk is full it is in memory from then on.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._in_memory: sqlite3.Connection | None = None
        self._lock = threading.RLock()

    def trying_again(self, work: Callable[[], int]) -> int:
        """Do what reads or writes the tables; again in memory where the disk is full, or anew where it is damaged."""
        try:
            return work()
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in NO_ROOM:
                self._in_memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            elif code in DAMAGED:
                self.remove()
            else:
                raise
            return work()

    def remove(self) -> None:
        """Remove the file; it is made again when it is next asked for."""
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Open the index for one piece of work, committed at its end; waits for other processes."""
        if self._in_memory:
            with self._lock, self._in_memory:  # commits, or rolls back
                yield _prepared(self._in_memory)
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(self.path, timeout=30, isolation_level=None)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            yield _prepared(db)
            if db.in_transaction:
                db.commit()
        finally:
            db.close()


def _prepared(db: sqlite3.Connection) -> sqlite3.Connection:
    if _version(db) != VERSION:
        _make_tables(db)
    return db


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _make_tables(db: sqlite3.Connection) -> None:
    """Make the tables anew, unless another process did while this one waited for its turn."""
    db.execute("BEGIN IMMEDIATE")
    if _version(db) != VERSION:
        for statement in SCHEMA.split(";"):
            db.execute(statement)
        # numbers go on where those of an index that was lost cannot have come: what was read by them is not mixed up
        db.execute("INSERT INTO sqlite_sequence VALUES ('taken', ?)", (time.time_ns() // 1000,))
    db.commit()
