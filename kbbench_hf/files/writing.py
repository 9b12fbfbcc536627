"""Files and folders that are there whole, and on disk, or not at all: the only place that writes them so."""

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
    """Open a file that takes its name when the block has ended and its bytes are on disk.

    Where the block fails, what stood there stands there still, and nothing is left beside it.
    """
    partial = _beside(file)
    try:
        with partial.open("xb") as sink:
            yield sink
        put_in_place(partial, file)
    except OSError as error:
        if error.filename in (None, str(partial)):
            error.filename = str(file)  # the name that was asked for
        raise
    finally:
        with suppress(NotADirectoryError):
            partial.unlink(missing_ok=True)


def put_in_place(partial: Path, file: Path) -> None:
    """Give a finished file, which has grown under another name in the same folder, its name."""
    _sync_file(partial)
    partial.replace(file)
    sync_folder(file.parent)


def write_bytes(file: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    with whole_file(file) as sink:
        sink.write(data)


def write_text(file: Path, text: str) -> None:
    """Write a text as UTF-8, whole or not at all; its line ends stay as they are."""
    write_bytes(file, text.encode("utf-8"))


def write_json_lines(file: Path, rows: Iterable[object]) -> None:
    """Write a line of JSON for each row, whole or not at all."""
    with whole_file(file) as sink:
        sink.writelines((json.dumps(row, ensure_ascii=False) + "\n").encode() for row in rows)


def write_new(file: Path, data: bytes) -> bool:
    """Write a file whole where none of its name is; False, and nothing written, where there is one already."""
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
def whole_folder(place: Path) -> Iterator[Path]:
    """Give an empty folder that takes the name `place`, instead of what stands there, when the block has ended."""
    place = place.resolve()
    place.parent.mkdir(parents=True, exist_ok=True)
    partial, old = _beside(place), _beside(place)
    partial.mkdir()
    try:
        yield partial
        _sync_all(partial)
        if place.exists():
            place.rename(old)
        try:
            partial.rename(place)
        except OSError:
            if old.exists():
                old.rename(place)
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    sync_folder(place.parent)
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def new_folder(place: Path, partial: Path | None = None) -> Iterator[Path]:
    """Give an empty folder that takes the name `place`, where nothing but an empty one may stand, at the block's end.

    It grows at `partial`, which must be on the same disk; beside `place` where that is None.

    Raises:
        FileExistsError: something stands at `place`, and stands there still.
    """
    partial = partial or _beside(place)
    partial.mkdir(parents=True)
    try:
        yield partial
        _sync_all(partial)
        place.parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):  # an empty folder, which not every system's rename replaces
            place.rmdir()
        try:
            partial.rename(place)
        except OSError:
            if place.exists():
                raise FileExistsError(EEXIST, "the path exists", str(place)) from None
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    sync_folder(place.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable; where folders cannot be opened (Windows), the system does it."""
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
    """Make everything in a folder durable, and then its own names."""
    for place in folder.rglob("*"):
        if place.is_dir():
            sync_folder(place)
        else:
            _sync_file(place)
    sync_folder(folder)


def _beside(place: Path) -> Path:
    return place.with_name(f".{place.name}.partial-{uuid4().hex[:12]}")
