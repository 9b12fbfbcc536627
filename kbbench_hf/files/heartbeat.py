"""What a process of a run reports every second (`progress.json`, claims of shards), and the user's `control.json`.

`kbbench status` reads the reports and writes the control file. The processes share a disk and nothing else: reports
have times and rates by the clock of their own process only. Processes of other versions may run in the same folder, so
fields of reports and of the control file keep their names.
"""

import functools
import json
import os
import shlex
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from kbbench_hf.files import RUN
from kbbench_hf.files.writing import write_text

BEAT_S = 1.0
"""Seconds between two reports, and between two looks at the control file."""
RATE_BEATS = 60
"""Reports over which a rate is measured: about a minute."""
CONTROL = "control.json"
PAUSE, CONCURRENCY = "pause", "concurrency"
"""Abilities: what the user can change while a process runs."""


class RunControl(NamedTuple):
    """The settings of the control file, for the processes of a run."""

    paused: bool = False
    concurrency: int | None = None
    """Maximum concurrent requests of each process; None for that of its command."""


def read_control(folder: Path) -> RunControl | None:
    """Return the control file of a run folder, the defaults without one; None if it cannot be read now."""
    try:
        # opened, not stat: a network disk answers stat from its cache
        content = json.loads((folder / CONTROL).read_bytes())
        paused, most = content.get("paused") is True, content.get("concurrency")
        return RunControl(paused, most if type(most) is int and most > 0 else None)
    except FileNotFoundError:
        return RunControl()
    except (OSError, ValueError, AttributeError):
        return None


def write_control(folder: Path, **changes: Any) -> RunControl:
    """Change fields of the control file of a run; return all of its fields."""
    control = (read_control(folder) or RunControl())._replace(**changes)
    write_text(folder / CONTROL, json.dumps(control._asdict()) + "\n")
    return control


class Heartbeat:
    """Writes a report of its process into `file` every second, and reads the control file of the run.

    The file of a claim shows by its changes that the process lives, and stays. Other files are removed at the end,
    unless an error is the reason. Without a file, only the control file is read.

    >>> import tempfile
    >>> heartbeat = Heartbeat(folder := Path(tempfile.mkdtemp()), folder / "progress.json")
    >>> _ = write_control(folder, paused=True)
    >>> heartbeat.start()
    >>> heartbeat.control.paused, read_report(heartbeat.file)["pid"] == os.getpid()
    (True, True)
    >>> heartbeat.stop()
    """

    def __init__(self, folder: Path, file: Path | None, *, before: Path | None = None, is_claim: bool = False) -> None:
        earlier = read_report(before or file).get("report") if file is not None else None
        self._earlier: Mapping[str, Any] = earlier or {}
        """The last report of an earlier start, whose counts hold until this one has counted as far."""
        self.file, self._is_claim = file, is_claim
        above = [folder, *folder.parents][3:4] if folder.parent.name == "work" else []
        self.run = next((run for run in above if (run / RUN).is_file()), folder)
        """The folder of the control file: that of the run whose annotations are in `folder`."""
        self.control = RunControl()
        self.on_control: Callable[[RunControl], object] | None = None
        """Called in another thread with a changed control file; where it is None, the loop of the run polls `waits`."""
        self.announce: Callable[[str], object] = lambda note: None
        self._is_announced = False
        self.on_beat: Callable[[], object] = lambda: None
        self.abilities: tuple[str, ...] = (PAUSE,)
        self.n_total: int | None = None
        self.n_done = self.under_way = 0
        self.n_stored = 0
        """How many of `n_done` an earlier start has done; they do not count in the rate."""
        self.note = ""
        self.more: Callable[[], Mapping[str, object]] = dict
        """Returns more fields of the report, or newer values of these."""
        self._process = {"host": socket.gethostname(), "machine": machine(), "pid": (pid := os.getpid())}
        self._process["started"] = start_of(pid)
        self.journal: dict[str, object] = {}
        """The name and length of the journal that a claim is for."""
        self._n_beats = 0
        self._counts = deque([(time.monotonic(), 0)], RATE_BEATS)
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Report from now on."""
        if self._thread is not None:
            return
        self._beat()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def begin(self, n_total: int | None, n_done: int) -> None:
        """Set the number of examples of this process (None: unknown), of which an earlier start has done `n_done`."""
        self.n_total, self.n_done, self.n_stored = n_total, n_done, n_done
        self._counts.clear()
        self._counts.append((time.monotonic(), 0))

    def stop(self, error: BaseException | None = None) -> None:
        """Stop reporting; the last report has the error, if one ended the work."""
        if self._thread is None or self._ended.is_set():
            return
        self._ended.set()
        self._thread.join()
        failed = error is not None and getattr(error, "exit_code", 1) != 0
        words = (str(error) or "Interrupted.") if failed else ""
        with suppress(OSError):
            if self._is_claim or failed:
                self._write({"released": True, "ended": words})
            elif self.file is not None:
                self.file.unlink()

    @property
    def waits(self) -> bool:
        """Whether the run is paused and its loop must wait by itself."""
        return self.control.paused and self.on_control is None and PAUSE in self.abilities

    def pause_note(self) -> str:
        """Return a sentence on the pause and how to resume; announce it once in each pause."""
        note = f"{self.run} is paused. To resume: kbbench status {shlex.quote(str(self.run))} --resume"
        if not self._is_announced:
            self._is_announced = True
            self.announce(note)
        return note

    def content(self, more: Mapping[str, object] | None = None) -> bytes:
        """Return the present content of the file, a line of JSON; `more` are further fields."""
        report: dict[str, Any] = {
            "n_done": self.n_done,
            "n_total": self.n_total,
            "under_way": self.under_way,
            "paused": self.control.paused,
            "abilities": self.abilities,
            "note": self.note,
        }
        with suppress(Exception):  # a claim must change, whatever fails here
            report |= self.more()
        n_new = report["n_done"] - self.n_stored
        if self.n_total in (None, self._earlier.get("n_total")):
            report["n_total"] = self._earlier.get("n_total")
            report["n_done"] = max(report["n_done"], self._earlier.get("n_done") or 0)
        (since, before), now = self._counts[0], time.monotonic()
        report["rate_per_s"] = max(0, n_new - before) / max(now - since, 1e-9)
        self._counts.append((now, n_new))
        fields = {**self._process, **self.journal, "beats": self._n_beats, "report": report, **(more or {})}
        return json.dumps(fields).encode() + b"\n"

    def _run(self) -> None:
        while not self._ended.wait(BEAT_S):
            self._beat()

    def _beat(self) -> None:
        with suppress(OSError):  # a disk that does not answer now may do so later
            self.on_beat()
            control = read_control(self.run) or self.control
            if control != self.control:
                self.control, self._is_announced = control, False
                if self.on_control is not None:
                    self.on_control(control)
            self._write({})
            self._n_beats += 1

    def _write(self, more: Mapping[str, object]) -> None:
        """Replace the file: a reader, or a kill, finds a whole report."""
        if self.file is not None:
            partial = self.file.with_name(f".{self.file.name}.partial")
            partial.write_bytes(self.content(more))
            partial.replace(self.file)


def read_report(file: Path) -> dict[str, Any]:
    """Return the report in a file; empty if it cannot be read or is not a JSON object."""
    try:
        content = json.loads(bytes_of(file))
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def bytes_of(file: Path) -> bytes:
    """Return the content of a file; empty if it cannot be read now."""
    try:
        return file.read_bytes()
    except OSError:
        return b""


def is_alive(holder: Mapping[str, Any]) -> bool | None:
    """Return whether the process of a report lives; None for another machine's, whose report must be watched.

    >>> is_alive({"machine": machine(), "pid": os.getpid(), "started": start_of(os.getpid())})
    True
    """
    if holder.get("released"):
        return False
    if not holder.get("started") or holder.get("machine") != machine():
        return None
    return bool(start_of(holder["pid"]) == holder["started"])


@functools.cache
def machine() -> str:
    """Return an id of this machine, its boot and its container, within which process ids are unique; else empty."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{socket.gethostname()} {boot} {Path('/proc/self/ns/pid').readlink()}"
    return ""


def start_of(pid: int) -> str:
    """Return the start of a process in ticks since the boot; empty if it has ended, or without /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]
