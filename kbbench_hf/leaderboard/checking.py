"""Checks of uploads in processes with bounded memory and time.

The Submit tab uses them. One process imports everything, and forks a child for each upload. Small and large uploads
have separate queues, so that a small one waits less than a second; an upload that exceeds the limits of small ones is
checked again as a large one. In a queue, a visitor with fewer uploads comes first. On systems without fork, uploads are
checked in threads, without limits.
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
    """Limits of a check, and of the number of checks at once."""

    at_once: int
    """Number of checks that run at the same time."""
    upload_bytes: int
    expanded_bytes: int | None
    """Maximum size of the predictions after unpacking; None for that of `submissions`."""
    memory_bytes: int
    """Memory in addition to what the forked process has at its start."""
    seconds: float
    """Processor time for reading and scoring; loading the examples is not counted."""
    niceness: int


SMALL = UploadLimits(2, 1_000_000, 4_000_000, 120_000_000, 0.4, 0)
"""Limits of checks without login."""
LARGE = UploadLimits(2, 4 * MAX_UPLOAD_BYTES, None, 350_000_000, 60.0, 10)
"""Limits of checks with login."""
STUCK_S = 600.0
"""Maximum duration of a check. It is long because on a busy machine a check waits for the processor."""
_STARTED = b"."
"""The first byte that a check sends: its examples are loaded, and its limits count from now."""


class Upload(NamedTuple):
    """An uploaded predictions file, the benchmark that it is for, and its annotation files."""

    file: str
    task_key: TaskKey
    annotations: Sequence[str] = ()

    def size(self) -> int:
        """Return the size of all files in bytes."""
        return sum(Path(each).stat().st_size for each in (self.file, *self.annotations))


class TooLargeError(Exception):
    """A check needs more memory or time than its limits allow."""


@dataclass
class _Lane:
    """A queue of checks with the same limits: fewest uploads of the visitor first, then smallest upload."""

    limits: UploadLimits
    n_running: int = 0
    waiting: list[tuple[int, int, int, asyncio.Future[None]]] = field(default_factory=list)
    """A heap: the visitor's uploads in the queue or running, bytes, number of arrival, and what starts the check."""
    under_way: Counter[str] = field(default_factory=Counter)
    n_arrived: int = 0

    @asynccontextmanager
    async def turn(self, who: str, size: int) -> AsyncIterator[None]:
        """Wait until a check of this visitor may run, and let the next one start at the end of the block."""
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
                self._start_next()
        finally:
            self.under_way[who] -= 1
            self.under_way += Counter()  # removes visitors without uploads

    async def _wait(self, who: str, size: int) -> None:
        started = asyncio.get_running_loop().create_future()
        self.n_arrived += 1
        heappush(self.waiting, (self.under_way[who], size, self.n_arrived, started))
        try:
            await started
        except asyncio.CancelledError:
            if started.done() and not started.cancelled():
                self._start_next()  # it was started and cancelled in the same moment
            raise

    def _start_next(self) -> None:
        """Start the next check in place of one that ended; without one, fewer run."""
        while self.waiting:
            if not (chosen := heappop(self.waiting)[-1]).done():
                chosen.set_result(None)
                return
        self.n_running -= 1


class Checks:
    """Checks of uploads, some at the same time, for handlers that run in one event loop."""

    def __init__(self) -> None:
        self._fetched: set[TaskKey] = set()
        self._lanes = {limits: _Lane(limits) for limits in (SMALL, LARGE)}
        self._forker = _Forker() if CAN_FORK else None

    async def check(self, upload: Upload, who: str, logged_in: bool, remedy: str = SIGN_IN) -> Preview:
        """Return an upload, read and scored.

        Args:
            upload: the files.
            who: the visitor, a user name or a session.
            logged_in: whether a large upload may be checked.
            remedy: the last sentence of the error if it may not.

        Raises:
            KBBenchError: `preview_of` raises it, the limits are exceeded, or too many uploads wait.
            UsageError: the upload is large, and the visitor is not logged in.
        """
        await self._fetch_examples(upload.task_key)
        size = upload.size()
        if size <= SMALL.upload_bytes:
            with suppress(TooLargeError):  # it is checked again as a large one
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

    async def _fetch_examples(self, task_key: TaskKey) -> None:
        """Download the examples if they are not here: the time limit of a check does not include this."""
        if task_key not in self._fetched and not at_hand(task_key.benchmark):
            await asyncio.to_thread(load_examples, *task_key)
        self._fetched.add(task_key)

    async def _turn(self, limits: UploadLimits, upload: Upload, who: str, size: int) -> Preview:
        async with self._lanes[limits].turn(who, size):
            if self._forker is None:
                return await asyncio.to_thread(_preview, upload)
            return await self._forker.ask(limits, upload)

    def start(self) -> None:
        """Start the forking process now, and not with the first upload: its imports take some seconds."""
        if self._forker:
            self._forker.start()

    def close(self) -> None:
        """End the forking process."""
        if self._forker:
            self._forker.close()


class _Forker:
    """The forking process, which is started again if it ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def start(self) -> socket.socket:
        """Return the socket of the process, which is started if none runs."""
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
        """Return the preview of an upload from a forked process; raise TooLargeError if its limits ended it."""
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with ours:
            with theirs:
                message = json.dumps([limits, upload]).encode()
                try:
                    socket.send_fds(self.start(), [message], [theirs.fileno()])
                except OSError:  # it ended after `start` checked it
                    socket.send_fds(self.start(), [message], [theirs.fileno()])
            data = bytearray()
            with suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(2 * STUCK_S):
                    while chunk := await loop.sock_recv(ours, _CHUNK):
                        data += chunk
        try:
            found = pickle.loads(data.removeprefix(_STARTED))  # noqa: S301 - of our own process
        except (EOFError, pickle.UnpicklingError):  # a limit ended the process, or nothing was received
            if not data:  # the file was not read yet, so it is not the cause
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
    """Return the preview of an upload; `started` is called when its examples are loaded."""
    task = load_examples(*upload.task_key)
    started()
    return preview_of(task, Path(upload.file), [Path(each) for each in upload.annotations])


def _bounded_preview(limits: UploadLimits, upload: Upload, started: Callable[[], None] = lambda: None) -> object:
    """Limit this process, and return the preview of an upload, or the exception that explains why there is none."""

    def start_timer() -> None:
        started()
        signal.setitimer(signal.ITIMER_PROF, limits.seconds)  # its signal has no handler and ends the process

    try:
        _limit_process(limits)
        if limits.expanded_bytes and _expands_beyond(Path(upload.file), limits.expanded_bytes):
            return TooLargeError()
        return _preview(upload, start_timer)
    except MemoryError:
        return TooLargeError()
    except KBBenchError as error:
        return DataError(str(error), code=error.code)
    except Exception as error:
        return DataError(
            f"The upload could not be checked ({type(error).__name__}). Check the file with kbbench validate."
        )


def _limit_process(limits: UploadLimits) -> None:
    """Limit this process: memory in addition to what it has now, duration, and no core file."""
    import resource

    has = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (has + limits.memory_bytes,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.setitimer(signal.ITIMER_REAL, STUCK_S)  # its signal has no handler and ends the process
    os.nice(limits.niceness)


def _expands_beyond(file: Path, most: int) -> bool:
    """Whether a file has more than about `most` bytes after unpacking; False for a damaged gzip file."""
    if not file.name.endswith(".gz"):
        return file.stat().st_size > most
    with suppress(OSError, EOFError, ValueError), gzip.open(file) as unpacked:
        return all(unpacked.read(_CHUNK) for _ in range(most // _CHUNK + 1))
    return False  # no gzip file; reading it raises an error with a remedy


def _import_everything() -> None:
    """Check the shipped predictions, so that the forked processes need not import anything: half a second each."""
    for name in importable_names():
        for file in shipped_answers(name):
            with suppress(KBBenchError):
                preview(file, name)


def serve(fd: int) -> None:
    """Fork for each message on a socket: limits and an upload, with the socket for the response."""
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
                answer = _bounded_preview(UploadLimits(*limits), upload, partial(asking.sendall, _STARTED))
                asking.sendall(pickle.dumps(answer))
            os._exit(0)
        for fd in fds:
            os.close(fd)
