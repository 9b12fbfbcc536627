"""A network disk without locks, as one machine sees it: names, contents and ends of files of other machines show late.

What a machine does itself reaches the disk, and shows on this machine, at once: exclusive creation, links and renames
are decided by the disk, and a name that the disk refuses because it exists is looked up again. All else of another
machine shows after a random delay since this machine could first have seen it: a new name, new content, a name that is
gone. Until then a journal or a claim that is new is cut anywhere; other files are renamed into place, and are whole.
"""

import errno
import fcntl
import io
import os
import random
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kbbench_hf.files import heartbeat

GROWING = ("journal", "claim")
"""Files that are read while they are written."""


class Entry(NamedTuple):
    """A name in a folder."""

    name: str


@dataclass
class View:
    """What a machine sees of a file of another machine."""

    shown_at: float
    content: bytes
    fresh_at: float | None
    """When it sees the content of the disk; None where it has, so that the next change begins a delay."""


class LateDisk:
    """The view of one machine on a folder; `install` makes it the view of this process."""

    def __init__(self, folder: Path, machine: str, most_s: float, seed: int) -> None:
        self.folder, self.machine, self.most_s = str(folder.absolute()), machine, most_s
        self.rng = random.Random(seed)
        self.skew_s = self.rng.uniform(-3600, 3600)
        self.own: set[str] = set()
        self.views: dict[str, View] = {}
        self.listed: dict[str, dict[str, float]] = {}
        """Folder -> name -> from when it is listed, which is another moment than that from which it can be opened."""
        self.gone: dict[str, float] = {}
        """Name that the disk has no more -> until when it is listed."""
        self.n_late = 0
        """How often something was not shown yet."""
        self.open, self.stat, self.scandir = io.open, os.stat, os.scandir

    def install(self) -> None:
        """Replace the functions of this process that see files, its clock, its name, and locks."""
        now = time.time
        time.time = lambda: now() + self.skew_s  # type: ignore[assignment]
        socket.gethostname = lambda: self.machine
        heartbeat.machine = lambda: self.machine  # type: ignore[assignment]
        fcntl.flock = fcntl.lockf = self._no_locks  # type: ignore[assignment]
        io.open = self._open  # type: ignore[assignment]
        os.stat = self._stat  # type: ignore[assignment]
        os.scandir = self._scandir  # type: ignore[assignment]
        for name in ("link", "replace", "rename", "mkdir"):
            setattr(os, name, self._making(getattr(os, name)))

    def _delay(self) -> float:
        return time.monotonic() + self.rng.uniform(0, self.most_s)

    def _foreign(self, path: Any) -> str | None:
        """Return the path of a file of another machine on the disk; None for all others."""
        if isinstance(path, int):
            return None
        text = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - a Path would ask the disk
        on_disk = text.startswith(f"{self.folder}{os.sep}") and text not in self.own
        return text if on_disk else None

    def _view(self, path: str) -> View | None:
        """Return the view of a file, from the moment when it shows; None until then."""
        view = self.views.get(path)
        if view is None:
            if not os.path.lexists(path):
                return None
            content = self._content(path)
            if Path(path).name.startswith(GROWING):
                content = content[: self.rng.randint(0, len(content))]
            view = self.views[path] = View(self._delay(), content, self._delay())
        if (content := self._content(path)) != view.content:
            self.n_late += 1
            view.fresh_at = view.fresh_at or self._delay()
            if time.monotonic() >= view.fresh_at:
                view.content, view.fresh_at = content, None
        if time.monotonic() >= view.shown_at:
            return view
        self.n_late += 1
        return None

    def _content(self, path: str) -> bytes:
        try:
            with self.open(path, "rb") as file:
                return bytes(file.read())
        except OSError:
            return b""

    def _open(self, file: Any, mode: str = "r", *arguments: Any, **settings: Any) -> Any:
        path = self._foreign(file)
        if path is None:
            return self.open(file, mode, *arguments, **settings)
        if "r" not in mode:
            with self._claiming(path):
                return self.open(file, mode, *arguments, **settings)
        view = self._view(path)
        if view is None or not os.path.lexists(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file))
        raw = io.BytesIO(view.content)
        return raw if "b" in mode else io.TextIOWrapper(raw, encoding=settings.get("encoding") or "utf-8")

    def _stat(self, path: Any, *arguments: Any, **settings: Any) -> os.stat_result:
        foreign = self._foreign(path)
        found = self.stat(path, *arguments, **settings)
        if foreign is None:
            return found
        if (view := self._view(foreign)) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return os.stat_result((*found[:6], len(view.content), *found[7:]))

    def _scandir(self, path: Any = ".") -> Any:
        folder = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - a Path would ask the disk
        return self._list(folder) if f"{folder}{os.sep}".startswith(f"{self.folder}{os.sep}") else self.scandir(path)

    @contextmanager
    def _list(self, folder: str) -> Iterator[Iterator[Entry]]:
        with self.scandir(folder) as entries:
            names = {each.name for each in entries}
        known, now = self.listed.setdefault(folder, {}), time.monotonic()
        for name in names - known.keys():
            known[name] = 0.0 if f"{folder}/{name}" in self.own else self._delay()
        for name in known.keys() - names:
            self.gone.setdefault(f"{folder}/{name}", self._delay())
        shown = {
            name for name in known if now >= known[name] and (name in names or now < self.gone[f"{folder}/{name}"])
        }
        yield iter([Entry(name) for name in sorted(shown)])

    @contextmanager
    def _claiming(self, path: str) -> Iterator[None]:
        try:
            yield
        except FileExistsError:
            self._view(path)
            if path in self.views:
                self.views[path].shown_at = 0.0
            raise
        self.own.add(path)

    def _making(self, function: Callable[..., None]) -> Callable[..., None]:
        def made(*arguments: Any, **settings: Any) -> None:
            target = self._foreign(arguments[0] if function.__name__ == "mkdir" else arguments[1])
            if target is None:
                function(*arguments, **settings)
                return
            with self._claiming(target):
                function(*arguments, **settings)

        return made

    def _no_locks(self, *_: Any) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
