"""A model behind a simulated server with a queue, and an event loop whose time passes only while everything waits."""

import asyncio
import math
import selectors
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from kbbench_hf.llm.failures import Failure
from kbbench_hf.protocols import Completion

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Selects without waiting, and counts the seconds that it would have waited."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.now += timeout or 0.0
        return super().select(0)


def run_simulated(main: Callable[[Callable[[], float]], Coroutine[Any, Any, T]]) -> T:
    """Run `main(clock)` on an event loop with simulated time."""
    selector = _Selector()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.now  # type: ignore[method-assign]
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main(loop.time))


class QueueingModel:
    """A chat model whose server works on `slots` requests at a time and lets the others wait.

    `seconds` returns how long request number n takes at time t; `prompts` has those that take another time. A request
    whose client has left is skipped, unless work on it has begun: then it is finished for nobody (`n_wasted`). `shared`
    divides the server's speed among all requests that it works on.
    """

    name = "queueing"

    def __init__(
        self,
        seconds: Callable[[int, float], float],
        *,
        slots: int = 1,
        timeout_s: float = 300.0,
        shared: Callable[[int], float] = lambda active: 1.0,
        prompts: Mapping[str, float] | None = None,
    ) -> None:
        self.prompts = prompts or {}
        self.seconds, self.timeout_s, self.shared = seconds, timeout_s, shared
        self.slots = asyncio.Semaphore(slots)
        self.n_requests = self.n_wasted = self.n_working = 0
        self._working: set[asyncio.Task[None]] = set()

    async def complete(self, messages: Sequence[Any], max_tokens: int | None, **_: object) -> Completion:
        """Answer one request, or raise the failure of a timeout."""
        loop = asyncio.get_running_loop()
        self.n_requests += 1
        number, started = self.n_requests, loop.time()
        work: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(self.timeout_s if math.isfinite(self.timeout_s) else None):
                await self.slots.acquire()
                work = asyncio.create_task(self._work(number, messages[-1]["content"]))
                self._working.add(work)
                work.add_done_callback(self._working.discard)
                await asyncio.shield(work)
        except TimeoutError:
            self.n_wasted += work is not None
            raise Failure("timeout", f"no whole answer within {self.timeout_s:g} s", transient=True) from None
        return Completion("answer", "stop", 10, 10, loop.time() - started)

    async def _work(self, number: int, content: str) -> None:
        left = self.prompts.get(content) or self.seconds(number, asyncio.get_running_loop().time())
        self.n_working += 1
        while left > 1e-9:
            speed = 1 / self.shared(self.n_working)
            step = min(left, max(left / 8, 0.01))
            await asyncio.sleep(step / speed)
            left -= step
        self.n_working -= 1
        self.slots.release()
