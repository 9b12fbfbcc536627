"""How many requests are under way at one time, and how long to wait before one is sent again."""

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable

WINDOW_S = 2.0
"""Seconds between two cuts of the limit, so that one burst of refusals counts once."""
SETBACK = 2
"""How many answers' worth of growth a server error takes back: with more than a third of errors, growth stops."""
LONGEST_WAIT_S = 86_400.0
"""A server that asks for so long, or longer, is not waited for."""


class Gate:
    """At most `limit` requests are under way; `limit` adapts between 1 and `most`. Use `async with gate`.

    Refused requests (429) cut the limit by half their share of the requests since the last cut, at most once in
    WINDOW_S: a server that refuses everything is asked half as much, one that refuses a few is hardly slowed. A full
    round of answers raises the limit by one; server errors hold that growth up and never cut.

    >>> gate = Gate(8)
    >>> for _ in range(4):
    ...     gate.refused()
    >>> gate.limit
    4
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = self.limit = max(1, most)
        self.active = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._clock = clock
        self._answers = self._refusals = self._credit = 0
        self._next_cut = clock()

    async def __aenter__(self) -> None:
        if self.active < self.limit and not self._waiting:
            self.active += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._leave()

    def answered(self) -> None:
        """Note a request that the server took."""
        self._answers += 1
        self._credit += 1
        if self._credit >= self.limit:
            self._credit = 0
            self.limit = min(self.most, self.limit + 1)
            self._admit()

    def refused(self) -> None:
        """Note a request that the server refused because of its load (429)."""
        self._refusals += 1
        now = self._clock()
        if now >= self._next_cut:
            # What is under way may yet be answered: a refusal comes sooner than an answer and would count for too much.
            share = self._refusals / max(self._answers + self._refusals, self.active)
            self.limit = max(1, min(self.limit - 1, round(self.limit * (1 - share / 2))))
            self._answers = self._refusals = 0
            self._next_cut = now + WINDOW_S

    def failed(self) -> None:
        """Note a server error (5xx, a broken connection, a timeout)."""
        self._answers += 1
        self._credit = max(0, self._credit - SETBACK)

    def _leave(self) -> None:
        self.active -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self.active < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self.active += 1
                turn.set_result(None)


def wait_before_retry(attempt: int, retry_after: float | None, rng: random.Random) -> float:
    """Return the seconds to wait after the failed attempt number `attempt` (from 1).

    Half fixed and half chance, so that requests which failed together do not come back together: between 0.25 and
    0.5 s at first, doubling up to a minute. A server's Retry-After is the least that is waited, plus some chance.

    >>> wait_before_retry(1, retry_after=20.0, rng=random.Random(0)) >= 20
    True
    """
    backoff: float = min(60.0, 0.5 * 2.0 ** (attempt - 1))
    chance = rng.random()
    if retry_after is None:
        return backoff * (0.5 + 0.5 * chance)
    return min(LONGEST_WAIT_S, retry_after + 0.1 * backoff * chance)
