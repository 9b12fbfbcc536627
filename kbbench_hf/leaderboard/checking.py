"""Checks of uploads in processes with bounded memory and time.

One process has everything imported and does nothing but fork: a check is a child of it, which lives for one upload.
What is small is checked beside what is large and soon ends, so that who comes next waits less than a second; what takes
longer starts again among the large. Of each, who has none under way goes before who has many. Where a system cannot
fork, uploads are checked in threads, unbounded.
"""

import asyncio
import gzip
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from pathlib import Path
from typing import NamedTuple

from kbbench_hf.benchmarks import TaskKey, at_hand, importable_names, shipped_answers
from kbbench_hf.errors import BusyError, DataError, KBBenchError, UsageError
from kbbench_hf.leaderboard.submissions import MAX_UPLOAD_BYTES, Preview, preview, preview_of
from kbbench_hf.scoring.eval_task import load_examples

MAX_WAITING = 500
SIGN_IN = "Sign in and try again."
CAN_FORK = hasattr(os, "fork") and hasattr(socket, "SOCK_SEQPACKET") and hasattr(socket, "send_fds")
_CHUNK = 1 << 20
_SERVE = "import sys; from kbbench_hf.leaderboard.checking import serve; serve(int(sys.argv[1]))"


class UploadLimits(NamedTuple):
    """What one check may use."""

    at_once: int
    upload_bytes: int
    expanded_bytes: int | None
    """None for as many as `preview` reads."""
    memory_bytes: int
    seconds: float
    """Of processor time, for reading and scoring; loading the examples is not counted."""
    niceness: int


SMALL = UploadLimits(2, 1_000_000, 4_000_000, 120_000_000, 0.4, 0)
"""Of checks that anybody may have."""
LARGE = UploadLimits(2, 4 * MAX_UPLOAD_BYTES, None, 350_000_000, 60.0, 10)
"""Of checks for which one must be logged in."""
STUCK_S = 600.0
"""A check that has not ended after so long by the clock is stopped. On a busy machine a check waits for the processor,
so the clock limits nothing else."""
_STARTED = b"."
"""What a check sends first: its examples are loaded, and its limits count from now."""


class Upload(NamedTuple):
    """A file of predictions and what it answers, with the annotations made of it."""

    file: str
    task_key: TaskKey
    annotations: Sequence[str] = ()

    def size(self) -> int:
        """Return how many bytes were uploaded."""
        return sum(Path(each).stat().st_size for each in (self.file, *self.annotations))


class TooLargeError(Exception):
    """An upload that needs more than it was given."""


@dataclass
class _Lane:
    """Whose turn it is: so many at once, first who has the fewest under way, then the smallest upload."""

    limits: UploadLimits
    n_running: int = 0
    waiting: list[tuple[int, int, int, asyncio.Future[None]]] = field(default_factory=list)
    under_way: Counter[str] = field(default_factory=Counter)
    n_arrived: int = 0

    @asynccontextmanager
    async def turn(self, who: str, size: int) -> AsyncIterator[None]:
        if len(self.waiting) >= MAX_WAITING:
            raise BusyError(f"{MAX_WAITING} uploads wait already; expected fewer. Try again in some minutes.")
        self.under_way[who] += 1
        try:
            if self.n_running < self.limits.at_once:
                self.n_running += 1
            else:
                await self._wait(who, size)
            try:
                yield
            finally:
                self._next()
        finally:
            self.under_way[who] -= 1
            self.under_way += Counter()  # forgets those without any

    async def _wait(self, who: str, size: int) -> None:
        mine = asyncio.get_running_loop().create_future()
        self.n_arrived += 1
        heappush(self.waiting, (self.under_way[who], size, self.n_arrived, mine))
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._next()
            raise

    def _next(self) -> None:
        """Give the turn to who is next, or to nobody."""
        while self.waiting:
            if not (chosen := heappop(self.waiting)[-1]).done():
                chosen.set_result(None)
                return
        self.n_running -= 1


class Checks:
    """Checks uploads, some at once; for handlers that run in one event loop."""

    def __init__(self) -> None:
        self._here: set[TaskKey] = set()
        self._lanes = {limits: _Lane(limits) for limits in (SMALL, LARGE)}
        self._forker = _Forker() if CAN_FORK else None

    async def check(self, upload: Upload, who: str, logged_in: bool, remedy: str = SIGN_IN) -> Preview:
        """Return an upload as it was read and scored.

        Args:
            upload: the files.
            who: whose turn it is; who sends many waits for who sends one.
            logged_in: whether a large upload may be checked.
            remedy: what to do where it may not.

        Raises:
            KBBenchError: what `preview` raises; the check needs more memory or time than it may have; too many wait.
            UsageError: a large upload of somebody who is not logged in.
        """
        await self._fetch(upload.task_key)
        size = upload.size()
        if size <= SMALL.upload_bytes:
            with suppress(TooLargeError):
                return await self._turn(SMALL, upload, who, size)
        if not logged_in:
            raise UsageError(
                f"The upload has {size:,} bytes, and is too large to check without a login. Expected at most "
                f"{SMALL.upload_bytes:,} bytes, {SMALL.expanded_bytes:,} bytes unpacked, and {SMALL.seconds:g} s of "
                f"processor time to score. {remedy}"
            )
        try:
            return await self._turn(LARGE, upload, who, size)
        except TooLargeError:
            raise DataError(
                f"The check of this upload needs more than {LARGE.memory_bytes // 1_000_000} MB of memory or "
                f"{LARGE.seconds:g} s; expected less. Leave out what is not scored (raw responses), and keep the best "
                "answers."
            ) from None

    async def _fetch(self, task_key: TaskKey) -> None:
        """Have the examples here: a check has no time to fetch them."""
        if task_key not in self._here and not at_hand(task_key.benchmark):
            await asyncio.to_thread(load_examples, *task_key)
        self._here.add(task_key)

    async def _turn(self, limits: UploadLimits, upload: Upload, who: str, size: int) -> Preview:
        async with self._lanes[limits].turn(who, size):
            if self._forker is None:
                return await asyncio.to_thread(_preview, upload)
            return await self._forker.ask(limits, upload)

    def start(self) -> None:
        """Start the process that forks now, and not with the first upload: its imports take some seconds."""
        if self._forker:
            self._forker.start()

    def close(self) -> None:
        """End the process that forks."""
        if self._forker:
            self._forker.close()


class _Forker:
    """The process that forks, started again when it is gone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def start(self) -> socket.socket:
        """Return the socket of the process, started where there is none."""
        with self._lock:
            if self._control is None or self._process is None or self._process.poll() is not None:
                if self._control:
                    self._control.close()
                self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                command = [sys.executable, "-c", _SERVE, str(theirs.fileno())]
                threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "ARROW_NUM_THREADS"), "1")
                environment = {**os.environ, **threads}
                with theirs:
                    self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment)  # noqa: S603
            return self._control

    async def ask(self, limits: UploadLimits, upload: Upload) -> Preview:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with ours:
            with theirs:
                message = json.dumps([limits, upload]).encode()
                try:
                    socket.send_fds(self.start(), [message], [theirs.fileno()])
                except OSError:  # it ended since it was looked at
                    socket.send_fds(self.start(), [message], [theirs.fileno()])
            data = bytearray()
            with suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(2 * STUCK_S):
                    while chunk := await loop.sock_recv(ours, _CHUNK):
                        data += chunk
        try:
            found = pickle.loads(data.removeprefix(_STARTED))  # noqa: S301 - of our own process
        except (EOFError, pickle.UnpicklingError):  # it was ended, or nothing came
            if not data:  # the file was not read yet, so it says nothing about the file
                raise BusyError("The check did not start: this machine is out of memory, or busy. Try again.") from None
            raise TooLargeError from None
        if isinstance(found, Preview):
            return found
        raise found

    def close(self) -> None:
        with self._lock:
            if self._control:
                self._control.close()
            if self._process:
                self._process.wait(10)


def _preview(upload: Upload, started: Callable[[], None] = lambda: None) -> Preview:
    task = load_examples(*upload.task_key)
    started()
    return preview_of(task, Path(upload.file), [Path(each) for each in upload.annotations])


def _answer(limits: UploadLimits, upload: Upload, started: Callable[[], None] = lambda: None) -> object:
    """Return the preview of an upload within limits, or the error that says why there is none."""

    def count() -> None:
        started()
        signal.setitimer(signal.ITIMER_PROF, limits.seconds)  # nobody handles this signal: it ends the process

    try:
        _bound(limits)
        if limits.expanded_bytes and _expands_beyond(Path(upload.file), limits.expanded_bytes):
            return TooLargeError()
        return _preview(upload, count)
    except MemoryError:
        return TooLargeError()
    except KBBenchError as error:
        return DataError(str(error), code=error.code)
    except Exception as error:
        return DataError(
            f"The upload could not be checked ({type(error).__name__}). Check the file with kbbench validate."
        )


def _bound(limits: UploadLimits) -> None:
    """Bound this process: memory beyond what it has now, time by the clock, and no core file."""
    import resource

    has = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (has + limits.memory_bytes,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.setitimer(signal.ITIMER_REAL, STUCK_S)  # nobody handles this signal: it ends the process
    os.nice(limits.niceness)


def _expands_beyond(file: Path, most: int) -> bool:
    if not file.name.endswith(".gz"):
        return file.stat().st_size > most
    with suppress(OSError, EOFError, ValueError), gzip.open(file) as unpacked:
        return all(unpacked.read(_CHUNK) for _ in range(most // _CHUNK + 1))
    return False  # it is no gzip file: whoever reads it says so


def _import_everything() -> None:
    """Check what is shipped, so that no check has to import anything: half a second each."""
    for name in importable_names():
        for file in shipped_answers(name):
            with suppress(KBBenchError):
                preview(file, name)


def serve(fd: int) -> None:
    """Fork for each message on a socket: limits and an upload, with the socket on which the answer is awaited."""
    control = socket.socket(fileno=fd)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_everything()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, (*fds,), *_ = socket.recv_fds(control, _CHUNK, 1)
        if not message:
            return
        if os.fork() == 0:
            control.close()
            limits, (file, place, annotations) = json.loads(message)
            with socket.socket(fileno=fds[0]) as asking, suppress(OSError):
                upload = Upload(file, TaskKey(*place), annotations)
                answer = _answer(UploadLimits(*limits), upload, partial(asking.sendall, _STARTED))
                asking.sendall(pickle.dumps(answer))
            os._exit(0)
        for fd in fds:
            os.close(fd)
