"""SQLite index of the store for the pages of the board, updated from the events and rebuilt if it is missing.

The pages, the quotas and `kbbench leaderboard fsck` use it. It has no data of its own: deleting the file loses nothing.
Raise `VERSION` with every change of the tables or of what a row stores, and older indexes are made again.
"""

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
"""Time in nanoseconds after which a folder counts as unchanged if its time of change is the same.

Some file systems round this time to 2 s: within them, a second change does not show.
"""
SEEN = ("answer_in_training", "seen")
"""Slices that separate the examples whose answer occurs in the training split from the others."""
LOG = logging.getLogger("kbbench")


@dataclass(frozen=True, eq=False, slots=True)
class StoredRow:
    """A submission in the index. The index returns the same object until an event changes the submission."""

    record: Record
    """With the system's description as it was last edited."""
    stored: str
    """Time and writer of its first event, which sort the rows; see `Event.order`."""
    headline: Row
    """Parts of its result (`scores`, `counters`, `warnings`, `seen`, `annotations`), and a fingerprint (`parts`)."""


class Index:
    """The index of a store. `update` costs little if there is no new event.

    If the disk is full, the index continues in memory, because visitors have to see acknowledged submissions. A damaged
    file is made again.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.file = IndexFile(store.root / "index.sqlite")
        self._read: dict[str, tuple[int, StoredRow]] = {}
        self._doubts: tuple[int, dict[str, list[Flag]]] = 0, {}

    def update(self) -> int:
        """Apply the new events to the index, and return their number.

        The rows do not depend on the order of the events. A damaged event, and one whose submission is not complete
        here yet, is left for a later call. A folder of events that did not change is not read.
        """
        return self.file.trying_again(self._apply_new_events)

    def _apply_new_events(self) -> int:
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
                db.execute("BEGIN IMMEDIATE")  # a folder at a time, because other processes wait for the lock
                n_here, is_complete = self._apply_folder(db, folder)
                n_new += n_here
                if is_complete and time.time_ns() - changed > SETTLED_NS:
                    db.execute("INSERT OR REPLACE INTO quiet VALUES (?, ?)", (name, changed))
                db.commit()
        return n_new

    def position(self) -> int:
        """Return a number that changes with each event that any process applies; 0 before the first one."""
        return int(self._select("SELECT coalesce(max(number), 0) FROM taken")[0][0])

    def rebuild(self) -> int:
        """Make the index again from the files, and return the number of events in it."""
        try:
            with self.file.connection() as db:
                db.executescript("DELETE FROM rows; DELETE FROM tests; DELETE FROM taken; DELETE FROM quiet;")
        except sqlite3.DatabaseError:
            self.file.remove()
        return self.update()

    def forget(self, submission: str) -> None:
        """Remove a submission whose files were replaced from the index; the next update adds it again."""
        paths = [(event.path,) for event in self.store.events if event.submission == submission]
        with self.file.connection() as db:
            db.execute("BEGIN IMMEDIATE")
            db.execute("DELETE FROM rows WHERE id = ?", (submission,))
            db.execute("DELETE FROM quiet")
            db.executemany("DELETE FROM taken WHERE path = ?", paths)

    def places(self) -> list[TaskKey]:
        """Return the task keys with rows on the board, sorted by name."""
        query = "SELECT DISTINCT benchmark, config, split, mode FROM rows WHERE shown AND returned ORDER BY 1, 2, 3, 4"
        return [TaskKey(*row) for row in self._select(query)]

    def rows(self, task_key: TaskKey, any_mode: bool = False) -> list[StoredRow]:
        """Return the rows of a task that are on the board, with `any_mode` those of all its modes; oldest first."""
        query = """SELECT id, changed FROM rows
            WHERE benchmark = ? AND config = ? AND split = ? AND (mode = ? OR ?) AND shown AND returned
            ORDER BY stored"""
        return self._rows(self._select(query, *task_key, any_mode))

    def doubts(self) -> dict[str, list[Flag]]:
        """Return id -> flags of the names of all rows on the board, of rows with flags only; see `owners.doubts`."""
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
        """Return rows by id and number of their last change; only rows with a new number are read from the file."""
        new = [row for row, changed in wanted if self._read.get(row, (0,))[0] != changed]
        query = "SELECT id, changed, record, stored, result FROM rows WHERE id IN (SELECT value FROM json_each(?))"
        for row, changed, record, stored, result in self._select(query, json.dumps(new)) if new else ():
            stored_row = StoredRow(Record.from_bytes(record.encode()), stored, json.loads(result))
            self._read[row] = changed, stored_row
        return [self._read[row][1] for row, _ in wanted]

    def n_stored(self, submitter: str, since: str) -> tuple[int, int]:
        """Return how many submissions a user, and how many all users, stored since a time.

        Hidden and withdrawn ones count, seeded `own` runs do not. Case of the user name does not matter.
        """
        query = """SELECT total(lower(json_extract(record, '$.submitter')) = lower(?)), count(*) FROM rows
            WHERE stored >= ? AND json_extract(record, '$.origin') != 'own'"""
        n_of_user, n_of_all = self._select(query, submitter, since)[0]
        return int(n_of_user), n_of_all

    def of_submitter(self, submitter: str) -> list[tuple[Record, bool]]:
        """Return the records of a user's submissions, and whether each is withdrawn; newest first, no hidden ones."""
        query = """SELECT record, returned FROM rows
            WHERE shown AND json_extract(record, '$.submitter') = ? ORDER BY stored DESC"""
        rows = self._select(query, submitter)
        return [(Record.from_bytes(record.encode()), not returned) for record, returned in rows]

    def tests(self, metric: str, ids: Sequence[str]) -> dict[tuple[str, str], PairedTest]:
        """Return pair of ids -> stored paired test of two of these submissions; only pairs that were tested before.

        A stored test stays valid, because submissions never change.
        """
        query = """SELECT a, b, test FROM tests WHERE metric = ?1
            AND a IN (SELECT value FROM json_each(?2)) AND b IN (SELECT value FROM json_each(?2))"""
        tests = {}
        for a, b, text in self._select(query, metric, json.dumps(ids)):
            difference, (low, high), *others = json.loads(text)
            tests[a, b] = PairedTest(difference, (low, high), *others)
        return tests

    def keep_tests(self, metric: str, tests: Mapping[tuple[str, str], PairedTest]) -> None:
        """Store paired tests; where the index cannot be written, nothing happens, and they are computed again."""
        rows = [(*pair, metric, json.dumps(test)) for pair, test in tests.items()]
        with suppress(sqlite3.OperationalError), self.file.connection() as db:
            db.execute("BEGIN IMMEDIATE")
            db.executemany("INSERT OR REPLACE INTO tests VALUES (?, ?, ?, ?)", rows)

    def dump(self) -> str:
        """Return the rows of the index as JSON Lines; two indexes of the same events have the same dump."""
        rows = self._select("SELECT * FROM rows ORDER BY stored")
        return "".join(f"{json.dumps(row[:-1])}\n" for row in rows)  # without `changed`, which depends on this index

    def _apply_folder(self, db: sqlite3.Connection, folder: Path) -> tuple[int, bool]:
        """Apply the new events of a folder; return their number, and whether now all of its events are applied."""
        n_new, is_complete = 0, True
        for file in sorted(folder.glob("[0-9]*.json")):
            path = file.relative_to(self.store.root).as_posix()
            if db.execute("SELECT 1 FROM taken WHERE path = ?", (path,)).fetchone():
                continue
            event, applied = self.store.events.read(file), False
            if event and self.store.whole(event.submission):
                with suppress(KBBenchError, *UNREADABLE):  # a file of the submission exists, but is damaged
                    self._apply_event(db, event)
                    number = db.execute("INSERT INTO taken (path) VALUES (?)", (path,)).lastrowid
                    db.execute("UPDATE rows SET changed = ? WHERE id = ?", (number, event.submission))
                    applied = True
            n_new, is_complete = n_new + applied, is_complete and applied
        return n_new, is_complete

    def _apply_event(self, db: sqlite3.Connection, event: Event) -> None:
        """Apply an event to the row of its submission, which is inserted with the first event."""
        select = "SELECT record FROM rows WHERE id = ?"
        if not db.execute(select, (event.submission,)).fetchone():
            self._insert_row(db, event.submission, event.order)
        values = {"id": event.submission, "order": event.order, "on": event.action in ("shown", "returned")}
        if event.action == "edited":
            (record,) = db.execute(select, (event.submission,)).fetchone()
            edited = {**json.loads(record), "system": event.said}
            values["record"] = json.dumps(edited, sort_keys=True, ensure_ascii=False)
        if event.action in EFFECTS:
            db.execute(f"UPDATE rows SET {EFFECTS[event.action]}", values)  # noqa: S608 - the text is a constant

    def _insert_row(self, db: sqlite3.Connection, submission: str, stored: str) -> None:
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
"""Action -> update of the row. Each column follows the latest event by `Event.order`, in any order of application."""
VERSION = 6
"""Version of the tables and their contents; an index of another version is made again."""
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
"""Error codes of SQLite on a full disk; some file systems report it as an I/O error."""
DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class IndexFile:
    """The SQLite file of an index, which any number of processes may read and write at once.

    After a write on a full disk, the tables are in memory until the process ends.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._in_memory: sqlite3.Connection | None = None
        self._lock = threading.RLock()

    def trying_again(self, work: Callable[[], int]) -> int:
        """Return the result of `work` on the tables; if the disk is full or the file damaged, that of a second attempt.

        The second attempt is in memory, or on a new file.
        """
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
        """Remove the file; the next connection makes it again."""
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection to the tables, and commit at the end; waits up to 30 s for locks of other processes."""
        if self._in_memory:
            with self._lock, self._in_memory:  # commits, or rolls back
                yield _with_tables(self._in_memory)
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(self.path, timeout=30, isolation_level=None)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            yield _with_tables(db)
            if db.in_transaction:
                db.commit()
        finally:
            db.close()


def _with_tables(db: sqlite3.Connection) -> sqlite3.Connection:
    """Return the connection; tables that are missing or of another version are made first."""
    if _version(db) != VERSION:
        _make_tables(db)
    return db


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _make_tables(db: sqlite3.Connection) -> None:
    """Make the tables, unless another process made them while this one waited for the lock."""
    db.execute("BEGIN IMMEDIATE")
    if _version(db) != VERSION:
        for statement in SCHEMA.split(";"):
            db.execute(statement)
        # start above all numbers of a lost index: rows in memory and boards are cached by these numbers
        db.execute("INSERT INTO sqlite_sequence VALUES ('taken', ?)", (time.time_ns() // 1000,))
    db.commit()
