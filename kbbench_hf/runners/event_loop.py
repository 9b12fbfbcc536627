"""Running a coroutine to its end, also in a notebook, and acting on signals while it runs."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


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
    """Have the loop call `act` at a signal; return what ends that."""
    try:
        loop.add_signal_handler(number, act)
    except NotImplementedError:  # Windows
        before = signal.signal(number, lambda *_: loop.call_soon_threadsafe(act))
        return lambda: signal.signal(number, before)
    return lambda: loop.remove_signal_handler(number)
