"""Progress bars of long work on standard error, and the line of counts below them.

Runs, judges, training and `synthesize` use it. Nothing here goes to standard output, which is for results. A bar also
reports to `kbbench status` and waits while the run is paused.
"""

import math
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Protocol

from kbbench_hf.files.heartbeat import Heartbeat
from kbbench_hf.protocols import produced_tokens, token_count

if TYPE_CHECKING:
    from kbbench_hf.files.journal import Record
    from kbbench_hf.runners.cost import Price


class Advance(Protocol):
    """Moves the bar on by `steps`; `note` replaces the text below it (rates, errors, a price)."""

    def __call__(self, steps: int = 1, note: str | None = None) -> None:
        """Move the bar on; 0 steps wait while the run is paused."""
        ...


@contextmanager
def progress(
    title: str,
    total: int | None,
    *,
    done: int = 0,
    note: str = "",
    show: bool = True,
    heartbeat: Heartbeat | None = None,
    counts: bool = False,
) -> Iterator[Advance]:
    """Show a bar named `title` with done/total, elapsed and remaining time while the block runs.

    `total=None` shows a pulsing bar (the amount of work is unknown); `done` is the part that an interrupted run had
    finished. Nothing is shown where there is no work, nor with `show=False`. On a terminal the bar moves; elsewhere (a
    log, a test) one line is written at the end. With a `heartbeat`, the work is reported, and advancing by 0 waits
    while the run is paused; `counts` says that the work is the examples of the run, and no other step.

    >>> with progress("Ranking", total=2, show=False) as advance:
    ...     advance()
    ...     advance(note="2 done")
    """
    from rich import progress as bars
    from rich.console import Console, RenderableType
    from rich.text import Text

    class ProgressBar(bars.Progress):
        def get_renderables(self) -> Iterator[RenderableType]:
            yield self.make_tasks_table(self.tasks)
            for task in self.tasks:
                if task.fields["note"]:  # a line of its own: beside the bar it would not fit 80 columns
                    yield Text(f"  {task.fields['note']}", no_wrap=True, overflow="ellipsis")

    times = bars.TimeElapsedColumn(), bars.TimeRemainingColumn()
    columns = bars.TextColumn("{task.description}"), bars.BarColumn(), bars.MofNCompleteColumn(), *times
    with ProgressBar(*columns, console=Console(stderr=True), disable=not show or total == 0) as bar:
        task = bar.add_task(title, total=total, completed=done, note=note)

        def advance(steps: int = 1, note: str | None = None) -> None:
            if note is None:
                bar.advance(task, steps)
            else:
                bar.update(task, advance=steps, note=note)
            if heartbeat is not None:
                heartbeat.n_done += steps * counts
                while heartbeat.waits and not steps:
                    bar.update(task, note=heartbeat.pause_note())
                    time.sleep(0.1)

        if heartbeat is not None:
            heartbeat.announce = lambda text: say([text], show=show)
            heartbeat.note = "" if counts else title
            if counts:
                heartbeat.begin(total, done)
        yield advance
        if heartbeat is not None:
            heartbeat.note = ""


def say(lines: Iterable[object], *, show: bool = True) -> None:
    """Write lines on standard error, before a bar.

    >>> say(["nothing of this is seen"], show=False)
    """
    from rich.console import Console

    for line in lines if show else ():
        Console(stderr=True).print(str(line), markup=False, highlight=False, soft_wrap=True)


class Meter:
    """Counts of the records of a run: of earlier starts as they are read, then of new ones as they are written."""

    def __init__(self, price: "Price | None" = None) -> None:
        self.price = price
        self.n_done = 0
        """Prompts and conversations that need no more requests; the runner counts them."""
        self.n_requests = self.n_parse_failures = 0
        self.prompt_tokens = self.completion_tokens = 0
        self.errors: Counter[str] = Counter()
        self.canaries: list[str] = []
        self.pace: Callable[[], str] = lambda: ""
        """Returns how many concurrent requests the timeout allows, if fewer than the user allows; else empty."""
        self._latencies: deque[float] = deque(maxlen=1000)
        self.start()

    def start(self) -> None:
        """Begin another start of the run: requests, tokens and cost add up over starts, all else begins at 0."""
        self._started = time.monotonic()
        self._requests_before, self._tokens_before = self.n_requests, self.completion_tokens
        self.n_done = self.n_parse_failures = 0
        self.errors.clear()
        self._latencies.clear()

    def add(self, record: "Record") -> None:
        """Count one record of the journal."""
        self.n_requests += record["attempts"]
        self.prompt_tokens += token_count(record["prompt_tokens"]) or 0
        self.completion_tokens += produced_tokens(record) or 0
        if record["id"] is None:
            if record["error"] is None and str(record["key"]).startswith("canary"):
                self.canaries.append(record["response"])
            return
        if record["error"] is None:
            self._latencies.append(record["latency_s"])
        else:
            self.errors[record["error"]] += 1

    @property
    def cost(self) -> float | None:
        """Cost of all tokens so far; None without a price."""
        return self.price.cost(self.prompt_tokens, self.completion_tokens) if self.price else None

    def line(self) -> str:
        """Return errors, parse failures, rates, cost and latencies of this start in one line."""
        seconds = max(1e-9, time.monotonic() - self._started)
        n = self.n_requests - self._requests_before
        parts = [
            f"{self.errors.total():,} errors",
            f"{self.n_parse_failures:,} unparsable",
            f"{n / seconds:,.0f} req/s" if n >= seconds or not n else f"{seconds / n:,.1f} s/req",
            f"{(self.completion_tokens - self._tokens_before) / seconds:,.0f} tok/s",
        ]
        if self.price is not None:
            parts.append(f"{self.cost:.4f} {self.price.currency}")
        if self._latencies:
            ordered = sorted(self._latencies)
            parts.append(f"p50 {quantile(ordered, 0.5):.2f} s, p95 {quantile(ordered, 0.95):.2f} s")
        return " · ".join(filter(None, [self.pace(), *parts]))


@asynccontextmanager
async def showing(
    meter: Meter, advance: Advance, status: Callable[[], str], every_s: float = 0.5
) -> AsyncIterator[None]:
    """Move a progress bar along with the meter while the block runs; below it is `status`, or the meter's line."""
    import asyncio

    shown = 0

    def show() -> None:
        nonlocal shown
        advance(meter.n_done - shown, note=status() or meter.line())
        shown = meter.n_done

    async def keep_showing() -> None:
        while True:
            await asyncio.sleep(every_s)
            show()

    task = asyncio.create_task(keep_showing())
    try:
        yield
    finally:
        task.cancel()
        show()


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the ascending values does not exceed (nearest rank).

    >>> quantile([1.0, 2.0, 3.0, 4.0], 0.5)
    2.0
    """
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
