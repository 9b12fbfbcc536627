"""The SQLite file of the index: its tables and connections to it; made again where damaged, or of another version."""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

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
_T = TypeVar("_T")


class IndexFile:
    """A file of tables that any number of processes may read and write at once; losing it loses nothing.

    Where the disk is full it is in memory from then on.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._in_memory: sqlite3.Connection | None = None
        self._lock = threading.RLock()

    def trying_again(self, work: Callable[[], _T]) -> _T:
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
