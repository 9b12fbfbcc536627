"""Journal of completed work: crash-safe JSON Lines with checksums, appended with one write per record.

All runs, judges and `synthesize` use it. A record that `append` has returned from survives the death of the process
(not of the machine). Each process of a run appends to a file of its own; all files are read together, so a run resumes
with any number of processes. The form of a line, its checksum and the order of fields are stored formats.
"""

import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from kbbench_hf.errors import BusyError, KBBenchError
from kbbench_hf.files.heartbeat import PAUSE, Heartbeat
from kbbench_hf.files.shards import Claim, Shard, await_journals, check_claims

if TYPE_CHECKING:
    from filelock import BaseFileLock

Record = dict[str, Any]
"""One piece of work: its `key`, and an `error` if it failed.

Failed work may be tried again, unless `settled` is true: then the failure is its outcome.
"""

_to_json = json.JSONEncoder(separators=(",", ":")).encode
_CHECKSUM_END = len(b'{"crc32":"00000000",')


class _Place(NamedTuple):
    """The line of a record: the middle part of its file's name, and its bytes."""

    shard: str
    offset: int
    length: int


class Journal:
    """The completed work of a run, by key.

    Only positions are kept in memory; `observe` is called with every whole record of an earlier start as it is read.
    Of several records of one key, the first that is done (no error, or settled) counts; if none is, the last. Torn or
    altered lines are left out and counted in `n_damaged`.

    `shard` is the rank of this process in a group, whose file is locked, or a `Shard`, which needs no lock: each start
    has a new file, made with its first record. `abilities` are what the user can change with `kbbench status`.

    Raises:
        BusyError: another live process writes this shard; the message has its process id. A dead one's lock or claim is
            free.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with Journal(folder) as journal:
    ...     journal.append({"key": "a", "response": "42", "error": None})
    >>> with Journal(folder) as journal:
    ...     "a" in journal, [record["response"] for record in journal.read(["a"])]
    (True, ['42'])
    """

    def __init__(
        self,
        folder: Path,
        shard: int | Shard = 0,
        observe: Callable[[Record], object] | None = None,
        abilities: tuple[str, ...] = (PAUSE,),
    ) -> None:
        self.folder = folder
        self.n_damaged = 0
        self._done: dict[str, _Place] = {}
        self._failed: dict[str, _Place] = {}
        self._size = 0
        self._file: BinaryIO | None = None
        self._lock: BaseFileLock | Claim | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self.heartbeat = Heartbeat(folder, None)
        """The reports for `kbbench status`: a shard's has started already, others wait for `start`."""
        if isinstance(shard, Shard):
            self._shard = shard.file_name()
            if shard.number:
                self._lock = Claim(folder, shard, _shard_name(self._shard, "jsonl"), abilities)
                self.heartbeat = self._lock.heartbeat
                self._lock.await_journals()
            else:
                await_journals(folder)
        else:
            self._shard = str(shard or "")
            check_claims(folder, None)
            self._lock = take_lock(folder / _shard_name(self._shard, "lock"))
            self.heartbeat = Heartbeat(folder, folder / f"progress{self._shard and '.'}{self._shard}.json")
            self._file = (folder / _shard_name(self._shard, "jsonl")).open("a+b", buffering=0)
            self._size = _drop_torn_tail(self._file)
        self.heartbeat.abilities = abilities
        self.reload(observe)

    def reload(self, observe: Callable[[Record], object] | None = None) -> None:
        """Read all files (again), with the records of other processes; call `observe` with every whole record.

        The files of ranks come first, then those of shards by name, so that each process sees one order.
        """
        self.n_damaged = 0
        self._done.clear()
        self._failed.clear()
        for shard in sorted(map(_shard_of, self.folder.glob("journal*.jsonl")), key=_ranks_first):
            file, offset = self.folder / _shard_name(shard, "jsonl"), 0
            with suppress(FileNotFoundError), file.open("rb") as lines:  # some network disks list it before
                for line in lines:
                    place = _Place(shard, offset, len(line))
                    offset += len(line)
                    record = decode(line)
                    if record is None:
                        self.n_damaged += 1
                    else:
                        self._index(record, place)
                        if observe is not None:
                            observe(record)

    def append(self, record: Mapping[str, object]) -> None:
        """Write one record; when this returns, a kill of the process cannot lose it.

        Raises:
            KBBenchError: the disk took none or only a part of it; the part is taken back.
            BusyError: another process has taken over the shard.
        """
        if isinstance(self._lock, Claim):
            self._lock.check()
        if self._file is None:
            self._file = (self.folder / _shard_name(self._shard, "jsonl")).open("xb", buffering=0)
        line = _encode(record)
        try:
            written = os.write(self._file.fileno(), line)
            problem = "the disk is full" if written < len(line) else ""
        except OSError as error:
            problem = str(error)
        if problem:
            self._file.truncate(self._size)
            raise KBBenchError(
                f"A record could not be written to {self.folder}: {problem}. Everything before it is kept: "
                "make room and start the same run again."
            )
        self._index(record, _Place(self._shard, self._size, len(line)))
        self._size += len(line)
        self.heartbeat.journal["size"] = self._size

    def __contains__(self, key: str) -> bool:
        """Whether the work of this key is done and need not be tried again."""
        return key in self._done

    def __len__(self) -> int:
        """Return the number of keys that are done."""
        return len(self._done)

    def read(self, keys: Iterable[str]) -> Iterator[Record | None]:
        """Yield the record of each key, done or failed, from the disk; None where there is none. Works after `close`.

        Raises:
            KBBenchError: a record was altered since it was read first.
        """
        with ExitStack() as stack:
            files: dict[str, BinaryIO] = {}
            for key in keys:
                place = self._done.get(key) or self._failed.get(key)
                if place is None:
                    yield None
                    continue
                if place.shard not in files:
                    file = self.folder / _shard_name(place.shard, "jsonl")
                    files[place.shard] = stack.enter_context(file.open("rb"))
                files[place.shard].seek(place.offset)
                record = decode(files[place.shard].read(place.length))
                if record is None or record["key"] != key:
                    raise KBBenchError(f"{self.folder} was altered while it was in use. Start the same run again.")
                yield record

    def close(self, error: BaseException | None = None) -> None:
        """Flush to the disk and free the lock; `error` is what ended the work."""
        self.heartbeat.stop(error)
        if self._file is not None:
            os.fsync(self._file.fileno())
            self._file.close()
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self.close(error)

    def _index(self, record: Mapping[str, Any], segment: _Place) -> None:
        """Note the place of a record, if it is the one that counts for its key."""
        key = record["key"]
        if record.get("error") is not None and not record.get("settled"):
            self._failed[key] = segment
        else:
            self._done.setdefault(key, segment)


def _encode(record: Mapping[str, object]) -> bytes:
    body = _to_json(record)[1:].encode("ascii") + b"\n"
    return b'{"crc32":"%08x",' % zlib.crc32(body) + body


def decode(line: bytes, *, brief: bool = False) -> Record | None:
    """Return the record of a line; None if the line is damaged.

    If `brief`, its response and rankings are left out, which is fast. This cuts bytes, so the order of fields must
    stay: `finish_reason` follows `response` directly (see `runners.jobs.FIELDS`), and `ranked` is last.
    """
    body = line[_CHECKSUM_END:]
    if not body.endswith(b"\n") or line[:_CHECKSUM_END] != b'{"crc32":"%08x",' % zlib.crc32(body):
        return None
    for field, end in ((b',"response":', b',"finish_reason":'), (b',"ranked":', b"}\n")) if brief else ():
        # a quote within a text is escaped, so that these are fields and no text
        if (start := body.find(field)) >= 0 and (after := body.find(end, start)) >= 0:
            body = body[:start] + body[after:]
    record: Record = json.loads("{" + body.decode("ascii"))
    return record


def _shard_name(shard: str, suffix: str) -> str:
    return f"journal.{shard}.{suffix}" if shard else f"journal.{suffix}"


def _ranks_first(shard: str) -> tuple[int, str]:
    """Return a sort key: ranks by number, then names."""
    return (int(shard or 0), "") if (shard or "0").isdigit() else (10**9, shard)


def _shard_of(file: Path) -> str:
    return file.name.removeprefix("journal").removesuffix(".jsonl").removeprefix(".")


def take_lock(file: Path) -> "BaseFileLock":
    """Take a lock, which the system frees when its holder dies, and write our process id into the file.

    Raises:
        BusyError: another process has it; the message has its id.
    """
    from filelock import FileLock, Timeout  # imports asyncio

    before = _lock_holder(file)  # some versions of filelock empty the file of another's lock
    lock = FileLock(file, thread_local=False)  # a journal may be closed by another thread than opened it
    try:
        lock.acquire(timeout=0)
    except Timeout:
        holder = _lock_holder(file) or before or "unknown"
        raise BusyError(
            f"{file.parent} is in use by process {holder}; one run writes it at a time. "
            f"Wait for that process, or stop it (kill {holder}) and start this again."
        ) from None
    with suppress(PermissionError):  # Windows lets nobody write to a locked file; its holder is unknown
        file.write_bytes(b"%d\n" % os.getpid())
    return lock


def _lock_holder(file: Path) -> str:
    """Return the process id in a lock's file; empty if there is none, or if it cannot be read while it is locked."""
    try:
        return file.read_text("ascii", "replace").partition("\n")[0].strip()
    except OSError:
        return ""


def _drop_torn_tail(file: BinaryIO) -> int:
    """Cut the bytes after the last whole line (a write that a power loss or a full disk tore); return the new size."""
    size = end = file.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - 65_536)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        file.truncate(end)
    return end
