"""Atomic writes of files and folders, with fsync.

Results, datasets, reports and caches are written with it: a reader, or a kill at any moment, finds the old content or
the new one. Temporary names begin with a dot, and are on the same disk, so that a rename is atomic.
"""

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from errno import EEXIST
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4


@contextmanager
def whole_file(file: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `file` at the end of the block, synced to disk.

    Where the block fails, an existing file is unchanged, and the temporary one is removed.
    """
    partial = _beside(file)
    try:
        with partial.open("xb") as sink:
            yield sink
        put_in_place(partial, file)
    except OSError as error:
        if error.filename in (None, str(partial)):
            error.filename = str(file)  # the name that the caller knows
        raise
    finally:
        with suppress(NotADirectoryError):
            partial.unlink(missing_ok=True)


def put_in_place(partial: Path, file: Path) -> None:
    """Rename a finished temporary file of the same folder, synced to disk."""
    _sync_file(partial)
    partial.replace(file)
    sync_folder(file.parent)


def write_bytes(file: Path, data: bytes) -> None:
    """Write a file atomically."""
    with whole_file(file) as sink:
        sink.write(data)


def write_text(file: Path, text: str) -> None:
    """Write a text as UTF-8 atomically; line ends are unchanged."""
    write_bytes(file, text.encode("utf-8"))


def write_json_lines(file: Path, rows: Iterable[object]) -> None:
    """Write a line of JSON for each row, atomically."""
    with whole_file(file) as sink:
        sink.writelines((json.dumps(row, ensure_ascii=False) + "\n").encode() for row in rows)


def write_new(file: Path, data: bytes) -> bool:
    """Write a new file atomically; return False, and write nothing, where the file exists."""
    partial = _beside(file)
    try:
        partial.write_bytes(data)
        _sync_file(partial)
        os.link(partial, file)
    except FileExistsError:
        return False
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(file.parent)
    return True


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder that replaces `path`, synced, when the block ends; if it fails, `path` is unchanged."""
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial, old = _beside(path), _beside(path)
    partial.mkdir()
    try:
        yield partial
        _sync_all(partial)
        if path.exists():
            path.rename(old)
        try:
            partial.rename(path)
        except OSError:
            if old.exists():
                old.rename(path)
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    sync_folder(path.parent)
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def new_folder(path: Path, partial: Path | None = None) -> Iterator[Path]:
    """Yield an empty temporary folder that is renamed to `path`, a new or empty folder, at the end of the block.

    It is `partial`, on the same disk; beside `path` where that is None.

    Raises:
        FileExistsError: `path` has content, which is unchanged.
    """
    partial = partial or _beside(path)
    partial.mkdir(parents=True)
    try:
        yield partial
        _sync_all(partial)
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):  # an empty folder, which not every system's rename replaces
            path.rmdir()
        try:
            partial.rename(path)
        except OSError:
            if path.exists():
                raise FileExistsError(EEXIST, "the path exists", str(path)) from None
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Sync the entries of a folder to disk; Windows, where folders cannot be opened, does it itself."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_file(file: Path) -> None:
    with file.open("r+b" if os.name == "nt" else "rb") as handle:  # Windows flushes only what may be written to
        os.fsync(handle.fileno())


def _sync_all(folder: Path) -> None:
    """Sync all files in a folder to disk, and then its entries."""
    for place in folder.rglob("*"):
        if place.is_dir():
            sync_folder(place)
        else:
            _sync_file(place)
    sync_folder(folder)


def _beside(path: Path) -> Path:
    """Return a new temporary name in the same folder."""
    return path.with_name(f".{path.name}.partial-{uuid4().hex[:12]}")
