"""A SQLite copy of the store for the board's pages: kept up to date from the events, made again if lost."""

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kbbench_hf.benchmarks import Place
from kbbench_hf.files.datasets import Row
from kbbench_hf.leaderboard.events import Event, Position
from kbbench_hf.leaderboard.store import Store
from kbbench_hf.metrics.significance import PairedTest
from kbbench_hf.scoring.result import annotations_of

SCHEMA = """
CREATE TABLE IF NOT EXISTS rows (
    id TEXT PRIMARY KEY, benchmark TEXT NOT NULL, config TEXT NOT NULL, split TEXT NOT NULL, mode TEXT NOT NULL,
    stored TEXT NOT NULL, shown INTEGER NOT NULL, decided TEXT NOT NULL, record TEXT NOT NULL, result TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS place ON rows (benchmark, config, split, mode, shown);
CREATE TABLE IF NOT EXISTS tests (
    a TEXT NOT NULL, b TEXT NOT NULL, metric TEXT NOT NULL, test TEXT NOT NULL, PRIMARY KEY (a, b, metric)
);
CREATE TABLE IF NOT EXISTS positions (writer TEXT PRIMARY KEY, number INTEGER NOT NULL, sha256 TEXT NOT NULL);
"""
SEEN = ("answer_in_training", "seen")
"""Slices that tell apart the examples whose answer occurs in the training split."""


class Index:
    """The index of a store; `update` is cheap when nothing happened. Deleting its file loses nothing."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.file = store.root / "index.sqlite"

    def update(self) -> int:
        """Take in the events that are new; return how many there were.

        Events of other writers may come in after later ones: the rows do not depend on the order of arrival.
        """
        with self.connection() as db:
            db.execute("BEGIN IMMEDIATE")
            read = {writer: Position(*at) for writer, *at in db.execute("SELECT writer, number, sha256 FROM positions")}
            events = self.store.events.since(read)
            for event in events:
                self._take_in(db, event)
                position = (event.writer, event.number, hashlib.sha256(event.to_bytes()).hexdigest())
                db.execute("INSERT OR REPLACE INTO positions VALUES (?, ?, ?)", position)
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

    def rows(self, place: Place) -> list[Row]:
        """Return the shown rows of a place: the record, when it was stored, and its headline result."""
        query = """SELECT record, stored, result FROM rows
            WHERE benchmark = ? AND config = ? AND split = ? AND mode = ? AND shown ORDER BY stored"""
        with self.connection() as db:
            found = db.execute(query, place).fetchall()
        return [{**json.loads(record), "stored": stored, **json.loads(result)} for record, stored, result in found]

    def tests(self, metric: str) -> dict[tuple[str, str], PairedTest]:
        """Return the paired tests of two submissions that were made before: neither of them ever changes."""
        with self.connection() as db:
            found = db.execute("SELECT a, b, test FROM tests WHERE metric = ?", (metric,)).fetchall()
        tests = {}
        for a, b, text in found:
            difference, (low, high), *others = json.loads(text)
            tests[a, b] = PairedTest(difference, (low, high), *others)
        return tests

    def keep_test(self, a: str, b: str, metric: str, test: PairedTest) -> None:
        """Keep a paired test for the next time."""
        with self.connection() as db:
            db.execute("INSERT OR REPLACE INTO tests VALUES (?, ?, ?, ?)", (a, b, metric, json.dumps(test)))

    def dump(self) -> str:
        """Return the whole index as text, the same for the same events; two indexes are equal if their dumps are."""
        with self.connection() as db:
            rows = db.execute("SELECT * FROM rows ORDER BY stored").fetchall()
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

    def _take_in(self, db: sqlite3.Connection, event: Event) -> None:
        """Make one event count: a row was stored when it was first stored, and is shown as was last decided."""
        row = db.execute("SELECT stored, decided FROM rows WHERE id = ?", (event.submission,)).fetchone()
        if row is None:
            self._insert(db, event.submission, event.order)
            row = (event.order, "")
        if event.action == "stored":
            db.execute("UPDATE rows SET stored = ? WHERE id = ?", (min(event.order, row[0]), event.submission))
        elif event.order > row[1]:
            change = (event.action == "shown", event.order, event.submission)
            db.execute("UPDATE rows SET shown = ?, decided = ? WHERE id = ?", change)

    def _insert(self, db: sqlite3.Connection, submission: str, stored: str) -> None:
        record, result = self.store.record(submission), self.store.result(submission)
        place = (record.benchmark, record.config, record.split, record.mode)
        headline: Row = {name: result.get(name, []) for name in ("scores", "counters", "warnings")}
        headline["seen"] = next((result["slices"][name] for name in SEEN if name in result["slices"]), {})
        headline["annotations"] = annotations_of(result["versions"])
        db.execute(
            "INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, 1, '', ?, ?)",
            (submission, *place, stored, record.to_bytes().decode(), json.dumps(headline)),
        )
