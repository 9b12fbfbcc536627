"""Downloader of pinned files (URL, size, SHA-256) with retries, resumed downloads and atomic writes.

`building` fetches the releases of the authors with it. A file under its own name always has the pinned bytes; what is
not complete has the ending `.part`.
"""

import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from kbbench_hf.errors import BusyError, DataError, KBBenchError
from kbbench_hf.files import file_sha256
from kbbench_hf.files.writing import put_in_place

ATTEMPTS = 4
"""Attempts per file, with pauses of 1, 2 and 4 seconds between them."""
TIMEOUT_SECONDS = 60
_BLOCK_BYTES = 1 << 16


@dataclass(frozen=True)
class PinnedFile:
    """A file of a release at one revision: its URL, size and SHA-256."""

    path: str
    """Relative to the target folder."""
    url: str
    size: int
    """Bytes."""
    sha256: str


def cache_folder() -> Path:
    """Return the folder of downloads: `$KBBENCH_CACHE`, or `kbbench` in the user's cache folder."""
    given = os.environ.get("KBBENCH_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kbbench"


def fetch(files: Sequence[PinnedFile], folder: Path, *, pause_seconds: float = 1.0) -> Path:
    """Download the files that are missing in `folder`, and return the folder.

    A file grows as `<name>.part`; a broken download continues where it stopped, in this call or the next, and becomes
    `<name>` only when its size and SHA-256 are the pinned ones. A file already there that differs is fetched again.

    Raises:
        DataError: the server's bytes are not the pinned ones; the message has both checksums.
        KBBenchError: a connection broke `ATTEMPTS` times; what arrived is kept.
        BusyError: another process fetches into the folder.
    """
    absent = [each for each in files if not _is_there(each, folder)]
    if not absent:
        return folder
    from filelock import FileLock, Timeout
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    folder.mkdir(parents=True, exist_ok=True)
    columns = (TextColumn("Download"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    stopped = threading.Event()
    try:
        with (
            FileLock(folder / ".lock", timeout=0),
            Progress(*columns, console=Console(stderr=True)) as bar,
            ThreadPoolExecutor(max_workers=4) as pool,
        ):
            task = bar.add_task("", total=sum(each.size for each in absent))

            def advance(arrived: int) -> None:
                if stopped.is_set():
                    raise KBBenchError("The download was stopped. Run the same command again to continue.")
                bar.advance(task, arrived)

            jobs = [pool.submit(_fetch_one, each, folder, advance, pause_seconds) for each in absent]
            try:
                for job in jobs:
                    job.result()
            except BaseException:  # an interrupt must not wait for the other downloads
                stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    except Timeout:
        raise BusyError(
            f"{folder} is being filled by another process. Expected none; wait for it, then run this again."
        ) from None
    return folder


def _is_there(file: PinnedFile, folder: Path) -> bool:
    """Return whether the folder has the file with the pinned bytes."""
    path = folder / file.path
    return path.is_file() and path.stat().st_size == file.size and file_sha256(path) == file.sha256


def _fetch_one(file: PinnedFile, folder: Path, advance: Callable[[int], None], pause_seconds: float) -> None:
    """Download one file with retries; pauses double. A response 4xx other than 429 ends it at once.

    Raises:
        KBBenchError: the connection broke each time, or the file is gone; what arrived stays.
        DataError: the bytes are not the pinned ones; they are removed.
    """
    target = folder / file.path
    part = target.with_name(target.name + ".part")
    part.parent.mkdir(parents=True, exist_ok=True)
    if part.is_file():
        advance(min(part.stat().st_size, file.size))
    for attempt in range(ATTEMPTS):
        try:
            _append_missing(file, part, advance)
            break
        except (OSError, HTTPException) as error:
            gone = False
            if isinstance(error, urllib.error.HTTPError):
                gone = error.code < 500 and error.code != 429
                error.close()
            if gone or attempt == ATTEMPTS - 1:
                arrived = part.stat().st_size if part.is_file() else 0
                where_kept = f", and are kept in {part}" if arrived else ""
                raise KBBenchError(
                    f"{file.url}: {error}. {arrived:,} of {file.size:,} bytes arrived{where_kept}. "
                    "Run the same command again to continue, or give a folder with --source."
                ) from error
            time.sleep(pause_seconds * 2**attempt)
    actual = file_sha256(part)
    if actual != file.sha256:
        part.unlink()
        raise DataError(
            f"{file.url}: SHA-256 {actual} over {file.size:,} bytes; expected {file.sha256}. The server's file is not "
            "the pinned one, or was damaged on its way; it was dropped. Run the same command again."
        )
    put_in_place(part, target)


def _append_missing(file: PinnedFile, part: Path, advance: Callable[[int], None]) -> None:
    """Append the missing bytes to `part`; a server without range requests sends the whole file again.

    Raises:
        ConnectionError: the connection ended before the last byte.
    """
    have = part.stat().st_size if part.is_file() else 0
    if have > file.size:
        part.unlink()
        have = 0
    if have == file.size:
        part.touch()
        return
    request = urllib.request.Request(file.url, headers={"User-Agent": "kbbench-hf"})  # noqa: S310 - pinned addresses
    if have:
        request.add_header("Range", f"bytes={have}-")
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:  # noqa: S310
        if have and response.status != 206:
            advance(-have)
            have = 0
        with part.open("ab" if have else "wb") as sink:
            while have < file.size and (block := response.read1(min(_BLOCK_BYTES, file.size - have))):
                sink.write(block)
                sink.flush()  # a kill loses nothing that arrived
                have += len(block)
                advance(len(block))
    if have < file.size:
        raise ConnectionError(f"the connection ended after {have:,} of {file.size:,} bytes")
