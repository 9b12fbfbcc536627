"""A SQLite copy of the store for the board's pages: kept up to date from the events, made again if lost."""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kbbench_hf.leaderboard.events import START
from kbbench_hf.leaderboard.store import Store, shown_after
from kbbench_hf.metrics.significance import PairedTest

SCHEMA = """
CREATE TABLE IF NOT EXISTS rows (
    id TEXT PRIMARY KEY, benchmark TEXT NOT NULL, config TEXT NOT NULL, split TEXT NOT NULL, mode TEXT NOT NULL,
    shown INTEGER NOT NULL, number INTEGER NOT NULL, stored TEXT NOT NULL, record TEXT NOT NULL, result TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS place ON rows (benchmark, config, split, mode, shown);
CREATE TABLE IF NOT EXISTS tests (
    a TEXT NOT NULL, b TEXT NOT NULL, metric TEXT NOT NULL, test TEXT NOT NULL, PRIMARY KEY (a, b, metric)
);
CREATE TABLE IF NOT EXISTS position (number INTEGER NOT NULL, previous TEXT NOT NULL);
"""


class Place(NamedTuple):
    """What rows share, so that they can be compared."""

    benchmark: str
    config: str
    split: str
    mode: str


class Index:
    """The index of a store; `update` is cheap when nothing happened. Deleting its file loses nothing."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.file = store.root / "index.sqlite"

    def update(self) -> int:
        """Take in the events that are new; return how many there were."""
        with self.connection() as db:
            db.execute("BEGIN IMMEDIATE")
            number, previous = db.execute("SELECT number, previous FROM position").fetchone() or (0, START)
            events = list(self.store.events.since(number, previous))
            before = {row[0]: bool(row[1]) for row in db.execute("SELECT id, shown FROM rows")} if events else {}
            for event in events:
                if event.submission not in before:
                    self._insert(db, event.submission, event.number, event.time)
                before = shown_after([event], before)
                db.execute("UPDATE rows SET shown = ? WHERE id = ?", (before[event.submission], event.submission))
            if events:
                last = hashlib.sha256(events[-1].to_bytes()).hexdigest()
                db.execute("DELETE FROM position")
                db.execute("INSERT INTO position VALUES (?, ?)", (events[-1].number, last))
        return len(events)

    def rebuild(self) -> int:
        """Forget the index and make it again from the files; return the number of events read."""
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.file}{suffix}").unlink(missing_ok=True)
        return self.update()

    def places(self) -> list[Place]:
        """Return the places that have rows on the board."""
        query = "SELECT DISTINCT benchmark, config, split, mode FROM rows WHERE shown ORDER BY 1, 2, 3, 4"
        with self.connection() as db:
            return [Place(*row) for row in db.execute(query)]

    def rows(self, place: Place) -> list[dict[str, Any]]:
        """Return the shown rows of a place: the record, when it was stored, and its headline result."""
        query = """SELECT record, stored, result FROM rows
            WHERE benchmark = ? AND config = ? AND split = ? AND mode = ? AND shown ORDER BY number"""
        with self.connection() as db:
            found = db.execute(query, place).fetchall()
        return [{**json.loads(record), "stored": stored, **json.loads(result)} for record, stored, result in found]

    def test(self, a: str, b: str, metric: str, make: Callable[[], PairedTest]) -> PairedTest:
        """Return the paired test of two submissions, made once: neither of them ever changes."""
        with self.connection() as db:
            found = db.execute("SELECT test FROM tests WHERE a = ? AND b = ? AND metric = ?", (a, b, metric)).fetchone()
        if found:
            difference, interval, *others = json.loads(found[0])
            return PairedTest(difference, (interval[0], interval[1]), *others)
        test = make()
        with self.connection() as db:
            db.execute("INSERT OR REPLACE INTO tests VALUES (?, ?, ?, ?)", (a, b, metric, json.dumps(test)))
        return test

    def dump(self) -> str:
        """Return the whole index as text, the same for the same events; two indexes are equal if their dumps are."""
        with self.connection() as db:
            rows = db.execute("SELECT * FROM rows ORDER BY number, id").fetchall()
        return "".join(f"{json.dumps(row)}\n" for row in rows)

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Open the index for one piece of work, committed at its end; waits for other processes."""
        self.store.root.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(self.file, timeout=30, isolation_level=None)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.executescript(SCHEMA)
            yield db
            if db.in_transaction:
                db.commit()
        finally:
            db.close()

    def _insert(self, db: sqlite3.Connection, submission: str, number: int, stored: str) -> None:
        record, result = self.store.record(submission), self.store.result(submission)
        place = (record.benchmark, record.config, record.split, record.mode)
        headline = {name: result[name] for name in ("scores", "counters")}
        headline["seen"] = result["slices"].get("seen", {})
        db.execute(
            "INSERT INTO rows VALUES (?, ?, ?, ?, ?, 1, ?, ?, ?, ?)",
            (submission, *place, number, stored, record.to_bytes().decode(), json.dumps(headline)),
        )
