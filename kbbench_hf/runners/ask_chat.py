"""Asking a chat model the jobs of a run: many at a time, each until it is answered or given up, all journalled."""

import asyncio
import random
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from typing import Any, TypeVar

from kbbench_hf.benchmarks.base import Prompt
from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.files.journal import Record
from kbbench_hf.models.failures import Failure, Refused
from kbbench_hf.protocols import Chat, Completion, name_of
from kbbench_hf.runners.concurrency import Gate, wait_before_retry
from kbbench_hf.runners.cost import Budget
from kbbench_hf.runners.jobs import ATTEMPTS, InterruptedRunError, Job, Sampling, completed, produced_tokens, takes

DRAIN_S = 10.0
"""How long an interrupted run waits for the answers that are under way."""
CANARY = Prompt([{"role": "user", "content": "Write the numbers from one to ten as words."}], max_tokens=32)
"""Asked at the start and at the end of a run: another answer at temperature 0 hints at another model."""

_STOPPED = "stopped"

T = TypeVar("T")


class Asker:
    """Asks one model and hands every outcome to `record`, which must have stored it when it returns."""

    def __init__(
        self,
        model: Chat,
        record: Callable[[Record], None],
        budget: Budget,
        *,
        concurrency: int,
        attempts: int = ATTEMPTS,
    ) -> None:
        self.model, self.record, self.budget = model, record, budget
        self._takes_more = takes(model.complete, "schema")
        self.gate = Gate(concurrency)
        self.attempts = attempts
        self._stopping = asyncio.Event()
        self._reason: KBBenchError | None = None
        self._task: asyncio.Task[Any] | None = None
        self._rng = random.Random()
        self._failures_in_a_row = 0
        self._most_failures_in_a_row = max(20, concurrency)

    async def ask_all(self, jobs: Iterator[Job]) -> None:
        """Answer every job, or stop early with everything recorded that was answered.

        Raises:
            InterruptedRunError: SIGINT or SIGTERM came; answers under way were waited for, at most DRAIN_S seconds.
            UsageError: the server refuses the key, the model or the form of the requests.
            BudgetSpentError: the budget does not allow for another request.
            KBBenchError: the server failed so often in a row that it must be down.
        """
        async with self._signals() as task:
            self._task = task
            try:
                async with asyncio.TaskGroup() as group:
                    # Twice as many workers as places: one that waits for a retry leaves its place to another.
                    for _ in range(2 * self.gate.most):
                        group.create_task(self._work(jobs))
            except asyncio.CancelledError:
                if self._reason is None:
                    raise
            except ExceptionGroup as errors:
                raise errors.exceptions[0] from None
        if self._reason is not None:
            raise self._reason

    def status(self) -> str:
        """Say that the run is stopping, and what it still waits for; nothing while it goes on."""
        if not self._stopping.is_set():
            return ""
        return f"stopping: waiting for {self.gate.active} answers under way (Ctrl-C again stops at once)"

    async def canary(self) -> None:
        """Ask the canary prompt and record the answer, under an id of None."""
        parameters = Sampling().parameters(CANARY)
        job = Job(f"canary {time.time_ns()}", None, 0, CANARY, parameters, None)
        try:
            self.record(await self._outcome(job))
        except Refused as refused:
            raise self._explained(refused) from None

    async def recognise(self) -> None:
        """Let a model that can ask its server what it is, as patiently as for an answer: without it no key is right."""
        recognise = getattr(self.model, "recognise", None)
        if recognise is None:
            return
        for attempt in range(1, self.attempts + 1):
            try:
                await recognise()
                return
            except Refused as refused:
                raise self._explained(refused) from None
            except Failure as failure:
                if attempt == self.attempts or failure.reason == "no_connection":
                    raise KBBenchError(
                        f"{self._where} does not answer ({failure}). Is the server running at this address?"
                    ) from None
                await asyncio.sleep(wait_before_retry(attempt, failure.retry_after, self._rng))

    async def _work(self, jobs: Iterator[Job]) -> None:
        for job in jobs:
            try:
                record = await self._outcome(job)
                if record["error"] == _STOPPED:
                    return
                self.record(record)
                if record["finish_reason"] is not None:
                    self.budget.pay(record["prompt_tokens"], produced_tokens(record))
                self._watch(record)
            except Refused as refused:
                self._stop(self._explained(refused), DRAIN_S)
            except KBBenchError as error:
                self._stop(error)
            if self._stopping.is_set():
                return

    def _stop(self, reason: KBBenchError, drain_s: float | None = None) -> None:
        """Send nothing more; wait for what is under way (it may be paid for), at most `drain_s` seconds if given."""
        if not self._stopping.is_set():
            self._reason = reason
            self._stopping.set()
            if drain_s is not None and self._task is not None:
                asyncio.get_running_loop().call_later(drain_s, self._task.cancel)

    async def _outcome(self, job: Job) -> Record:
        """Send one job until it is answered or given up, and return its record."""
        for attempt in range(1, self.attempts + 1):
            async with self.gate:
                if self._stopping.is_set():
                    break
                self.budget.take()
                try:
                    completion = await self._complete(job)
                except Failure as error:
                    if isinstance(error, Refused):
                        raise
                    failure = error
                else:
                    self.gate.answered()
                    return job.answered(completion, attempt)
                wait = wait_before_retry(attempt, failure.retry_after, self._rng)
                last = not failure.transient or attempt == self.attempts
                if failure.reason == "rate_limited":
                    self.gate.refused()
                    if not last:  # keep the place while waiting: the server asked for less work, not for other work
                        await self._pause(wait)
                elif failure.overload:
                    self.gate.failed()
                else:
                    self.gate.answered()
            if last:
                return job.failed(failure, attempt)
            if failure.reason != "rate_limited":
                await self._pause(wait)
        return job.record(error=_STOPPED, attempts=0)

    async def _complete(self, job: Job) -> Completion:
        """Ask once. What a model of the user's raises is a failure of this one answer."""
        started = time.perf_counter()
        limits: dict[str, Any] = {"max_tokens": job.max_tokens}
        if self._takes_more:
            limits = {"max_tokens": None, **job.parameters, "schema": job.schema}
        try:
            answer = await self.model.complete(job.prompt.messages, **limits)
        except (Failure, KBBenchError):
            raise
        except Exception as error:
            raise Failure("model_error", f"{type(error).__name__}: {error}", transient=False) from error
        completion = completed(answer, time.perf_counter() - started)
        return completion._replace(latency_s=round(completion.latency_s, 6))

    @property
    def _where(self) -> str:
        return str(getattr(self.model, "base_url", name_of(self.model)))

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    def _watch(self, record: Record) -> None:
        """Stop a run whose server is down or takes no prompt; odd replies are outcomes, however many they are."""
        self._failures_in_a_row = self._failures_in_a_row + 1 if _is_outage(record["error"]) else 0
        if self._failures_in_a_row >= self._most_failures_in_a_row:
            raise KBBenchError(
                f"The last {self._failures_in_a_row} examples all failed, the last one with {record['error']}: "
                f"{record['detail'] or 'no detail'}. The run is stopped; they are asked again when it is started again."
            )

    def _explained(self, error: Refused) -> UsageError:
        remedy = {
            "http_401": "Is the API key right? Name the environment variable that holds it with --api-key-env.",
            "http_403": "May this API key use this model?",
            "http_404": f"Does the server at {self._where} serve the model {getattr(self.model, 'model', '?')!r}?",
        }.get(error.reason, "Does the server take these parameters?")
        return UsageError(
            f"{self._where} refused the request with {error.reason.replace('_', ' ').upper()}"
            f"{': ' if error.detail else ''}{error.detail}. {remedy}"
        )

    @asynccontextmanager
    async def _signals(self) -> AsyncIterator[asyncio.Task[Any] | None]:
        """Stop in good order at the first SIGINT or SIGTERM, at once at the second."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        if threading.current_thread() is not threading.main_thread() or task is None:
            yield task
            return

        def interrupt() -> None:
            if self._stopping.is_set():
                task.cancel()
            self._stop(InterruptedRunError(), DRAIN_S)

        with ExitStack() as stack:
            for number in (signal.SIGINT, signal.SIGTERM):
                stack.callback(_on_signal(loop, number, interrupt))
            yield task


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


def _on_signal(loop: asyncio.AbstractEventLoop, number: int, act: Callable[[], None]) -> Callable[[], object]:
    """Have the loop call `act` at a signal; return what ends that."""
    try:
        loop.add_signal_handler(number, act)
    except NotImplementedError:  # Windows
        before = signal.signal(number, lambda *_: loop.call_soon_threadsafe(act))
        return lambda: signal.signal(number, before)
    return lambda: loop.remove_signal_handler(number)


def _is_outage(error: str | None) -> bool:
    if error is None:
        return False
    return Failure(error, transient=True).overload or error in ("rate_limited", "prompt_refused", "model_error")
