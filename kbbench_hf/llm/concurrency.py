"""Concurrency limit (additive increase, multiplicative decrease), the backoff before a retry, and the event loop.

`runners.chat_requests` sends every request of a run through one `Gate`. No result depends on it: only how fast a server
is used, and whether it is overloaded.
"""

import asyncio
import math
import random
import signal
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

WINDOW_S = 2.0
"""Seconds between two cuts of the limit, so that one burst of refusals counts once."""
SETBACK = 2
"""How many replies' worth of growth a server error takes back: with more than a third of errors, growth stops."""
FIRST_BACKOFF_S = 0.5
"""The most that is waited before the first retry."""
LONGEST_WAIT_S = 86_400.0
"""A run does not wait where a server wants a wait of so many seconds, or more."""
SAFE = 0.5
"""Share of the timeout that a reply may take before the limit grows only where that raises the throughput."""
ROUND = 8
"""Replies after which the limit may rise to what is safe; it changes otherwise after as many as may be under way."""
FLAT = 1 / 3
"""The limit grows beyond what is safe while latency grows less than this share as fast as concurrency."""
QUICK = 0.25
"""A timeout among replies that take less than this share of the timeout is the fault of one request, not overload."""
GROWTH = 4
"""The limit grows at most by this factor at a time: the first replies are the shortest ones."""
CAUTION = 64
"""Replies before the concurrency at which requests timed out is tried again; doubled by timeouts before then."""


class Sent(NamedTuple):
    """State of the server when a request was sent."""

    at: float
    active: int
    """Requests under way, this one included."""
    n_replies: int
    """Replies until then."""
    reply_seconds: float
    """Sum of their latencies."""


class TimeoutLimit:
    """The largest concurrency at which a server replies well within the timeout.

    A server that works on one request at a time takes n times as long for n of them. So the limit grows at once to the
    concurrency at which replies would take SAFE of the timeout on such a server. Beyond that it changes by a quarter
    per round of replies: up while latency hardly grows with concurrency, down where replies come later still.

    A timeout is evidence of overload: the limit falls to half, or to 3/4 of what the server answered meanwhile if that
    is less. It does not fall again for requests that were sent before the cut or soon after it, nor for one slow
    request among quick replies.

    >>> limit = TimeoutLimit(32, timeout_s=6.0)
    >>> limit.start(latency_s=1.0)
    >>> limit.size
    3
    """

    def __init__(self, most: int, timeout_s: float = math.inf, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = self.size = self.lowest = most
        self.timeout_s, self._clock = timeout_s, clock
        self.n_timeouts = 0
        self.held: int | None = None
        """The limit when a request last had to wait for it; None where all that the caller allows may be sent."""
        self._n_replies, self._reply_seconds = 0, 0.0
        self._settled_at = -math.inf
        self._ceiling, self._caution, self._cautious_until = math.inf, CAUTION, 0
        self._latencies: dict[int, float] = {}
        """Concurrency -> mean latency of the last round at it."""
        self._new_round()

    def start(self, latency_s: float) -> None:
        """Begin with as many requests as a server could answer one by one, if each takes `latency_s` seconds."""
        self.size = self.lowest = max(1, int(min(self.most, SAFE * self.timeout_s / max(latency_s, 1e-9))))

    def resize(self, most: int) -> None:
        """Change what the caller allows."""
        self.size = most if self.size == self.most else min(self.size, most)
        self.most = most

    def sent(self, active: int) -> Sent:
        """Return the state at which a request is sent."""
        return Sent(self._clock(), active, self._n_replies, self._reply_seconds)

    def answered(self, sent: Sent) -> None:
        """Count a reply; raise the limit where the replies since the last change allow it."""
        latency = self._clock() - sent.at
        self._n_replies += 1
        self._reply_seconds += latency
        if self.size >= self.most:
            return
        self._round += 1
        self._serial += latency / sent.active
        self._active += sent.active
        self._latency += latency
        safe = SAFE * self.timeout_s * self._round / max(self._serial, 1e-9)
        if safe >= self.size + 1 and self._round >= min(self.size, ROUND):
            self._set(int(min(safe, GROWTH * self.size)))
        elif self._round >= self.size:
            self._set(max(1, self.size + self._step()))

    def timed_out(self, sent: Sent) -> None:
        """Count a timeout, and cut the limit if it shows overload."""
        self.n_timeouts += 1
        n = self._n_replies - sent.n_replies
        quick = n > 0 and (self._reply_seconds - sent.reply_seconds) / n < QUICK * self.timeout_s
        if quick or sent.active == 1 or sent.at < self._settled_at:
            return
        if math.isfinite(self._ceiling):
            self._caution *= 2
        self._ceiling, self._cautious_until = sent.active, self._n_replies + self._caution
        self.size = max(1, min(self.size, sent.active) // 2)
        if math.isfinite(self.timeout_s):
            self.size = max(1, min(self.size, 3 * n // 4))
        self.lowest = min(self.lowest, self.size)
        # Until then the server may still work on what timed out; what is sent meanwhile says nothing of the new limit.
        self._settled_at = self._clock() + (self.timeout_s if math.isfinite(self.timeout_s) else 0.0)
        self._new_round()

    def _set(self, size: int) -> None:
        if self._n_replies >= self._cautious_until:
            self._ceiling = math.inf
        self._latencies[round(self._active / self._round)] = self._latency / self._round
        self.size = int(min(size, self.most, self._ceiling - 1))
        if self.size == self.most:
            self.held = None
        self._new_round()

    def _step(self) -> int:
        """Return how much more concurrency pays, by the latency at two concurrencies, or how much less is needed."""
        active, latency = self._active / self._round, self._latency / self._round
        before = max((n for n in self._latencies if n <= 0.75 * active), default=None)
        if before is None:
            return 1
        slope = (latency - self._latencies[before]) / (active - before)
        if slope > FLAT * self._latencies[before] / before:
            return -(self.size // 4) if latency > 1.1 * SAFE * self.timeout_s else 0
        return max(1, self.size // 4)

    def _new_round(self) -> None:
        self._round = self._active = 0
        self._serial = self._latency = 0.0


class Gate:
    """At most `limit` requests are under way; `limit` adapts between 1 and `most`. Use `async with gate`.

    The limit is the smaller one of two: what timeouts allow (see TimeoutLimit), and what refusals allow.

    Refused requests (429) cut the limit by half their share of the requests since the last cut, at most once in
    WINDOW_S: a server that refuses everything gets half as many requests, one that refuses a few hardly fewer. A full
    round of replies raises the limit by one; server errors hold that growth up and never cut.

    >>> gate = Gate(8)
    >>> for _ in range(4):
    ...     gate.refused()
    >>> gate.limit
    4
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic, *, timeout_s: float = math.inf) -> None:
        self.most = self._limit = max(1, most)
        self.timeouts = TimeoutLimit(self.most, timeout_s, clock)
        self.active = self._begun = 0
        self._open = asyncio.Event()
        self._open.set()
        self._alone = asyncio.Lock()
        self._empty: asyncio.Future[None] | None = None
        """Set by a request that is to be sent alone, and done when nothing is under way."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._clock = clock
        self._answers = self._refusals = self._credit = 0
        self._next_cut = clock()

    @property
    def limit(self) -> int:
        """How many requests may be under way."""
        return min(self._limit, self.timeouts.size)

    @property
    def is_paused(self) -> bool:
        """Whether nothing may begin."""
        return not self._open.is_set()

    @property
    def holds_back(self) -> bool:
        """Whether a request waits for the end of a pause."""
        return self.is_paused and (bool(self._waiting) or self._alone.locked())

    def steer(self, *, paused: bool, most: int | None = None) -> None:
        """Let nothing begin during a pause; allow for `most` requests from now on, if given."""
        if most is not None:
            self._limit = most if self._limit == self.most else min(self._limit, most)
            self.timeouts.resize(most)
            self.most = most
        if paused:
            self._open.clear()
        else:
            self._open.set()
        self._admit()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[Sent]:
        """Wait until nothing is under way, and let nothing else begin while the block runs."""
        async with self._alone:
            await self._open.wait()
            self._empty = asyncio.get_running_loop().create_future()
            try:
                if self.active:
                    await self._empty
                self.active += 1
                try:
                    yield self.timeouts.sent(1)
                finally:
                    self.active -= 1
            finally:
                self._empty = None
                self._admit()

    async def __aenter__(self) -> Sent:
        if not self._waiting and self._has_place():
            self.active += 1
            return self._begin()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave()
            raise
        return self._begin()

    async def __aexit__(self, *_: object) -> None:
        self._begun -= 1
        self._leave()

    def answered(self, sent: Sent | None = None) -> None:
        """Note a request that the server took; `sent` is given where its latency is that of a whole reply."""
        self._answers += 1
        self._credit += 1
        if self._credit >= self.limit:
            self._credit = 0
            self._limit = min(self.most, self._limit + 1)
        if sent is not None:
            self.timeouts.answered(sent)
        if self._waiting:
            self._admit()

    def refused(self) -> None:
        """Note a request that the server refused because of its load (429)."""
        self._refusals += 1
        now = self._clock()
        if now >= self._next_cut:
            # What is under way may yet get a reply: a refusal comes sooner than a reply and would count for too much.
            share = self._refusals / max(self._answers + self._refusals, self.active)
            self._limit = max(1, min(self.limit - 1, round(self.limit * (1 - share / 2))))
            self._answers = self._refusals = 0
            self._next_cut = now + WINDOW_S

    def failed(self) -> None:
        """Note a server error (5xx, a broken connection, a timeout)."""
        self._answers += 1
        self._credit = max(0, self._credit - SETBACK)

    def _begin(self) -> Sent:
        self._begun += 1  # not `active`: that counts those too that were let in and have not begun
        return self.timeouts.sent(self._begun)

    def _leave(self) -> None:
        self.active -= 1
        if self._empty is not None and not self.active and not self._empty.done():
            self._empty.set_result(None)
        self._admit()

    def _has_place(self) -> bool:
        return self.active < self.limit and self._empty is None and not self.is_paused

    def _admit(self) -> None:
        while self._waiting and self._has_place():
            turn = self._waiting.popleft()
            if not turn.done():
                self.active += 1
                turn.set_result(None)
        if self._waiting and self.timeouts.size < self.most and not self.is_paused:
            self.timeouts.held = self.timeouts.size


def wait_before_retry(attempt: int, retry_after: float | None, rng: random.Random) -> float:
    """Return the seconds to wait after the failed attempt number `attempt` (from 1).

    Half fixed and half chance, so that requests which failed together do not come back together: between 0.25 and
    0.5 s at first, doubling up to a minute. A server's Retry-After is the least that is waited, plus some chance.

    >>> wait_before_retry(1, retry_after=20.0, rng=random.Random(0)) >= 20
    True
    """
    backoff: float = min(60.0, FIRST_BACKOFF_S * 2.0 ** (attempt - 1))
    chance = rng.random()
    if retry_after is None:
        return backoff * (0.5 + 0.5 * chance)
    return min(LONGEST_WAIT_S, retry_after + 0.1 * backoff * chance)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, also where a loop is running already (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    started: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = []

    async def begin() -> T:
        started.append((asyncio.get_running_loop(), asyncio.current_task()))
        return await coroutine

    with ThreadPoolExecutor(1) as thread:
        outcome = thread.submit(asyncio.run, begin())
        try:
            return outcome.result()
        except KeyboardInterrupt:
            for loop, task in started:
                if task is not None:
                    loop.call_soon_threadsafe(task.cancel)
            raise


def on_signal(loop: asyncio.AbstractEventLoop, number: int, act: Callable[[], None]) -> Callable[[], object]:
    """Have the loop call `act` at a signal; return what puts the handler before it back."""
    before = signal.getsignal(number)
    try:
        loop.add_signal_handler(number, act)
    except NotImplementedError:  # Windows
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(act))
        return lambda: signal.signal(number, before)
    # The loop leaves Python's default handler, also where a shell's background ignored the signal.
    return lambda: (loop.remove_signal_handler(number), signal.signal(number, before))
