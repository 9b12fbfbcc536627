"""Concurrent requests to a chat model: retries, backoff, timeouts, an orderly stop; each outcome is journaled.

`generate` sends the prompts of a run with it, `served_models` texts for vectors and scores, `server_probe` nothing but
the request that identifies a server. A request may be paid for: each response is recorded before anything else is done
with it, and a run that stops waits for open requests.
"""

import asyncio
import math
import random
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from typing import Any

from kbbench_hf.errors import InterruptedRunError, KBBenchError
from kbbench_hf.files.journal import Record
from kbbench_hf.llm.concurrency import LONGEST_WAIT_S, Gate, Sent, on_signal, wait_before_retry
from kbbench_hf.llm.failures import OF_THE_PROMPT, Failure, RequestRefused
from kbbench_hf.protocols import Chat, Completion, name_of, produced_tokens
from kbbench_hf.runners.cost import Budget
from kbbench_hf.runners.jobs import ATTEMPTS, Job, Sampling, as_completion, takes
from kbbench_hf.runners.refusal_scope import CANARY, Arbiter, refusal_error

DRAIN_S = 10.0
"""Seconds that an interrupted run waits for the responses under way."""
LOADING_S = 1800.0
"""Seconds that a model may load; then each refusal of a loading server counts as an attempt."""
_LOADING_PAUSE_S = 5.0
_LONG_S = 10.0
"""A longer wait is reported."""

LONGEST_ANSWER = 8
"""Maximum latency of a response that is assumed, in latencies of the canary, which has at most 32 tokens."""
UNKNOWN_LATENCY_S = 10.0
"""The latency of one request that is assumed before the first response, where there is no canary."""
_CROWDED_TIMEOUTS = 2
"""After so many timeouts a request is sent alone."""
_LOST_ALONE = 3
"""After so many requests in a row that time out alone while others are answered, none is sent alone any more.

These requests are slow, and not the server.
"""

_SILENT_TIMEOUTS = 2
"""A run stops if a server sent nothing at all for as many timeouts."""
_SILENT_S = 60.0
"""It waits as many seconds at least: with a short timeout, a model may still be loading when the first requests end."""

_STOPPED = "stopped"
"""The `error` of a job that was not sent because the run stops; it gets no record in the journal."""


class RequestSender:
    """Sends the requests of a run to one model; `record` must have stored each outcome when it returns."""

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
        self.arbiter = Arbiter(model, self._complete, self._record_probe)
        self.check: Callable[[Completion], None] = lambda completion: None
        """Called on every completion before it is recorded; raises an error if it must not count."""
        self.follow: Callable[[Job, Record], Job | None] = lambda job, record: None
        """Called after a record is stored; returns the next job of the same conversation."""
        self._takes_more = takes(model.complete, "schema")
        self._timeout_s: float = getattr(model, "timeout_s", math.inf)
        self.gate = Gate(concurrency, timeout_s=self._timeout_s)
        self.gate.timeouts.start(UNKNOWN_LATENCY_S)
        self.attempts = attempts
        self.n_open = 0
        """Requests that were sent and have no reply yet."""
        self._add_workers: Callable[[], object] = lambda: None
        self._lost_alone = 0
        """Requests in a row that timed out although they were sent alone, and although others were answered."""
        self._unanswered = 0
        """Timeouts of single requests since the last reply."""
        self._heard = False
        """Whether the server has responded to a prompt, with an error perhaps."""
        self._silent_since: float | None = None
        """When the first request was sent to a server that has not responded since; None after a response."""
        self._n_silent = 0
        """Timeouts since then."""
        self._stopping = asyncio.Event()
        self._reason: KBBenchError | InterruptedRunError | None = None
        self._task: asyncio.Task[Any] | None = None
        self._rng = random.Random()
        self._waits_until = 0.0
        self._failures_in_a_row = 0
        self._most_failures_in_a_row = max(20, concurrency)

    async def send_all(self, jobs: Iterator[Job]) -> None:
        """Answer every job, or stop early with everything recorded that was answered.

        Raises:
            InterruptedRunError: SIGINT or SIGTERM came; answers under way were waited for, at most DRAIN_S seconds.
            UsageError: the server refuses the key, the model or the form of the requests.
            BudgetSpentError: the budget does not allow for another request.
            KBBenchError: the server failed so often in a row that it must be down, or there is no money left.
        """
        self._begin_silence()
        async with self._signals() as task:
            self._task = task
            try:
                async with asyncio.TaskGroup() as group:
                    workers: list[asyncio.Task[None]] = []

                    def add_workers() -> None:
                        # Twice as many workers as places: one that waits for a retry leaves its place to another.
                        while len(workers) < 2 * self.gate.most:
                            workers.append(group.create_task(self._work(jobs)))

                    self._add_workers = add_workers
                    add_workers()
            except asyncio.CancelledError:
                if self._reason is None:
                    raise
            except ExceptionGroup as errors:
                raise errors.exceptions[0] from None
            finally:
                self._add_workers = lambda: None
        if self._reason is not None:
            raise self._reason

    def steer(self, *, paused: bool, concurrency: int | None) -> None:
        """Pause or resume, and set the maximum number of concurrent requests (None: unchanged); open ones continue."""
        if self._stopping.is_set():
            return
        if self.gate.is_paused and not paused:
            self._begin_silence()
        self.gate.steer(paused=paused, most=concurrency)
        self._add_workers()

    def status(self) -> str:
        """Return what the run waits for: open requests, a rate limit, the first response; empty if for nothing."""
        now = time.monotonic()
        if not self._stopping.is_set():
            if (left := self._waits_until - now) > _LONG_S:
                return f"waiting: rate limit, {left:,.0f} s more"
            since = self._silent_since  # read once: another thread reports this
            if since is None or (silent := now - since) <= _LONG_S:
                return ""
            ends = f"; the run stops after {self._most_silent_s:,.0f} s" if math.isfinite(self._timeout_s) else ""
            return f"waiting: no response yet after {silent:,.0f} s (timeouts: {self._n_silent}){ends}"
        return f"stopping: waiting for {self.gate.active} open requests (Ctrl-C again stops at once)"

    def pace(self) -> str:
        """Return how many concurrent requests the timeout allows; empty if it allows as many as the user."""
        if self.gate.timeouts.size == self.gate.most:
            return ""
        return f"slow: {self.gate.limit} of {self.gate.most} at once"

    async def canary(self, extra: Mapping[str, Any] | None = None, max_tokens: int | None = None) -> None:
        """Send the canary prompt and record the response under the id None; `extra` are the run's own parameters.

        With `max_tokens`, the maximum length of the first response, the canary's latency decides with how many
        concurrent requests the run begins.

        Raises:
            KBBenchError: the last attempt failed with a timeout, a broken connection or a server error (5xx).
        """
        self._begin_silence()
        parameters = Sampling(extra=extra or {}).parameters(CANARY)
        record = await self._outcome(Job(f"canary {time.time_ns()}", None, 0, CANARY, parameters, None))
        self.record(record)
        if record["error"] and Failure(record["error"], transient=True).overload:
            raise KBBenchError(
                f"{self._where} failed {record['attempts']} times at the first request, the last time with "
                f"{record['error']}: {record['detail'] or 'no detail'}. "
                f"Does it serve the model {getattr(self.model, 'model', name_of(self.model))!r}? See its log."
            )
        if max_tokens is not None and record["latency_s"] is not None:
            longer = min(LONGEST_ANSWER, max(1.0, max_tokens / CANARY.max_tokens))
            self.gate.timeouts.start(record["latency_s"] * longer)

    async def recognize(self) -> None:
        """Let a model identify its server, if it can, with as many attempts as for a prompt: keys depend on it.

        Raises:
            UsageError: the server refuses the key, the model or the address.
            KBBenchError: it does not answer.
        """
        recognize = getattr(self.model, "recognize", None)
        if recognize is None:
            return
        self._begin_silence()
        attempt, since = 0, time.monotonic()
        while True:
            try:
                await recognize()
                self._silent_since = None
                return
            except RequestRefused as refused:
                raise refusal_error(refused, self.model) from None
            except Failure as failure:
                self._note_silence(failure)
                attempt += failure.reason != "loading" or time.monotonic() - since >= LOADING_S
                if attempt == self.attempts or failure.reason == "no_connection":
                    raise KBBenchError(
                        f"{self._where} does not answer ({failure}). Is the server running at this address?"
                    ) from None
                await asyncio.sleep(self._wait(attempt, failure))

    async def _work(self, jobs: Iterator[Job]) -> None:
        """Send jobs of the common iterator one after the other, each with those that follow in its conversation."""
        for first in jobs:
            job: Job | None = first
            while job is not None:
                try:
                    record = await self._outcome(job)
                    if record["error"] == _STOPPED:
                        return
                    self.record(record)
                    if record["finish_reason"] is not None:
                        self.budget.pay(record["prompt_tokens"], produced_tokens(record))
                    self._watch(record)
                    job = self.follow(job, record)
                except KBBenchError as error:
                    self._stop(error, DRAIN_S if isinstance(error.__cause__, RequestRefused) else None)
                if self._stopping.is_set():
                    return

    def _stop(self, reason: KBBenchError | InterruptedRunError, drain_s: float | None = None) -> None:
        """Send nothing more; wait for open requests (they may be paid for), at most `drain_s` seconds if given."""
        if not self._stopping.is_set():
            self._reason = reason
            self._stopping.set()
            self.gate.steer(paused=False)
            if drain_s is not None and self._task is not None:
                asyncio.get_running_loop().call_later(drain_s, self._task.cancel)

    async def _outcome(self, job: Job) -> Record:
        """Send one job until it is answered or fails for good; return its record, `_STOPPED` if the run stops."""
        attempt = n_sent = n_timeouts = 0
        loading_since: float | None = None
        first: Sent | None = None
        while attempt < self.attempts:
            attempt += 1
            alone = n_timeouts >= _CROWDED_TIMEOUTS and self._lost_alone < _LOST_ALONE
            place: AbstractAsyncContextManager[Sent] = self.gate.alone() if alone else self.gate
            async with place as sent:
                if self._stopping.is_set():
                    break
                self.budget.take()
                n_sent += 1
                try:
                    completion = await self._complete(job)
                    self.check(completion)
                except Failure as error:
                    verdict = await self._failure_of_job(job, error)
                    if verdict is None:  # the form of requests has changed: this was no attempt
                        attempt -= 1
                        self.gate.answered()
                        continue
                    failure = verdict
                    self._note_silence(failure)
                else:
                    self.gate.answered(None if job.id is None else sent)
                    self.arbiter.answered(job)
                    self._heard, self._silent_since = True, None
                    self._unanswered, self._lost_alone = 0, 0 if alone else self._lost_alone
                    return job.answered(completion, n_sent)
                if failure.reason == "loading":  # no attempt: there is no model yet
                    loading_since = loading_since or time.monotonic()
                    attempt -= time.monotonic() - loading_since < LOADING_S
                wait = self._wait(attempt, failure)
                last = not failure.transient or attempt == self.attempts
                if failure.reason == "rate_limited":
                    self.gate.refused()
                    if not last:  # keep the place while waiting: the server wants fewer requests, not others
                        await self._pause(wait)
                elif failure.reason == "timeout" and job.id is not None:
                    n_timeouts += 1
                    self.gate.failed()
                    first = first or sent
                    await self._note_timeout(sent, first if alone else None)
                elif failure.overload:
                    self.gate.failed()
                else:
                    self.gate.answered()
            if last:
                return job.failed(failure, n_sent)
            if failure.reason != "rate_limited":
                await self._pause(wait)
        return job.record(error=_STOPPED, attempts=n_sent)

    def _begin_silence(self) -> None:
        """Start the clock for the first response to a prompt, unless there was one."""
        if not self._heard:
            self._silent_since, self._n_silent = time.monotonic(), 0

    @property
    def _most_silent_s(self) -> float:
        """Seconds that the run waits for the first response."""
        return max(_SILENT_S, _SILENT_TIMEOUTS * self._timeout_s)

    def _note_silence(self, failure: Failure) -> None:
        """Note a failure; a response, whatever it says, ends the wait for the first one.

        Raises:
            KBBenchError: requests timed out, and there was no response to any for too long.
        """
        if failure.reason not in ("timeout", "no_connection", "connection_broken"):
            self._silent_since = None  # a response, if only an error
        if failure.reason != "timeout" or self._silent_since is None:
            return
        self._n_silent += 1
        if time.monotonic() - self._silent_since >= self._most_silent_s:
            raise KBBenchError(
                f"{self._where} never responded: {self._n_silent} requests timed out after {self._timeout_s:g} s each. "
                "Expected at least one response. See the server's log: is it loading, or busy with other requests? "
                f"If it is slow, raise the timeout (--timeout {2 * self._timeout_s:g}). Run the same command again."
            )

    async def _note_timeout(self, sent: Sent, first: Sent | None) -> None:
        """Lower the concurrency after a timeout; pause if the server answers nothing although nothing else is open.

        `first` is the state at the first timeout of a request that was now sent alone; None for other requests.

        Raises:
            KBBenchError: the server answered none of the last requests, each of which was sent alone.
        """
        limit = self.gate.timeouts
        limit.timed_out(sent)
        n_replies = limit.sent(1).n_replies
        self._lost_alone += first is not None and n_replies > first.n_replies
        if sent.active == 1 and n_replies == sent.n_replies:
            self._unanswered += 1
            if self._unanswered > max(self.attempts, ATTEMPTS):
                raise KBBenchError(
                    f"{self._where} did not answer the last {self._unanswered} requests within "
                    f"{self._timeout_s:g} s, although each was sent alone. See the server's log, or raise the "
                    f"timeout (--timeout {2 * self._timeout_s:g}), and run the same command again."
                )
            await self._pause(wait_before_retry(self._unanswered, None, self._rng))

    async def _failure_of_job(self, job: Job, failure: Failure) -> Failure | None:
        """Return the failure that counts for a job; None if it is to be sent again at once, in another form.

        Raises:
            KBBenchError: a refusal of the whole run.
        """
        if failure.reply is not None:
            self.check(failure.reply)
            self.arbiter.answered(job)
        if not isinstance(failure, RequestRefused):
            return failure
        try:
            return await self.arbiter.judge(job, failure)
        except Failure as other:  # of the second request by which it was to be judged
            return other

    def _wait(self, attempt: int, failure: Failure) -> float:
        """Return the seconds to wait after a failed attempt, the first of which has the number 1.

        Raises:
            KBBenchError: the server asks for a day or more.
        """
        if failure.retry_after is not None and failure.retry_after >= LONGEST_WAIT_S:
            raise KBBenchError(
                f"{self._where} has a rate limit: retry after {failure.retry_after / 3600:,.0f} hours "
                f"({failure.detail}). The run stopped. Run the same command again then."
            )
        if failure.retry_after is not None:
            self._waits_until = max(self._waits_until, time.monotonic() + failure.retry_after)
        if failure.reason == "loading":
            return _LOADING_PAUSE_S if failure.retry_after is None else max(1.0, failure.retry_after)
        return wait_before_retry(attempt, failure.retry_after, self._rng)

    def _record_probe(self, record: Record) -> None:
        """Record a request that the arbiter sent, and count it in the budget."""
        self.budget.requests += 1
        self.record(record)

    async def _complete(self, job: Job) -> Completion:
        """Send a job once. An exception of the user's own model object is a failure of this prompt alone."""
        started = time.perf_counter()
        limits: dict[str, Any] = {"max_tokens": job.max_tokens}
        if self._takes_more:
            limits = {"max_tokens": None, **job.parameters, "schema": job.schema}
        self.n_open += 1
        try:
            answer = await self.model.complete(job.prompt.messages, **limits)
        except (Failure, KBBenchError):
            raise
        except Exception as error:
            raise Failure("model_error", f"{type(error).__name__}: {error}", transient=False) from error
        finally:
            self.n_open -= 1
        completion = as_completion(answer, time.perf_counter() - started)
        return completion._replace(latency_s=round(completion.latency_s, 6))

    @property
    def _where(self) -> str:
        return str(getattr(self.model, "base_url", name_of(self.model)))

    async def _pause(self, seconds: float) -> None:
        """Wait so many seconds, or until the run stops."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    def _watch(self, record: Record) -> None:
        """Count failures in a row; refused prompts and unusable replies are outcomes, however many they are.

        Raises:
            KBBenchError: so many requests failed in a row that the server must be down.
        """
        if record["error"] in OF_THE_PROMPT:
            return  # says nothing of the server: neither counted nor the end of a row
        error = record["error"] or ""
        is_outage = error in ("rate_limited", "loading", "model_error") or Failure(error, transient=True).overload
        self._failures_in_a_row = self._failures_in_a_row + 1 if is_outage else 0
        if self._failures_in_a_row >= self._most_failures_in_a_row:
            raise KBBenchError(
                f"The last {self._failures_in_a_row} examples all failed, the last one with {record['error']}: "
                f"{record['detail'] or 'no detail'}. The run stopped. Run the same command again to resend them."
            )

    @asynccontextmanager
    async def _signals(self) -> AsyncIterator[asyncio.Task[Any] | None]:
        """Drain open requests at the first SIGINT or SIGTERM, cancel them at the second; only in the main thread."""
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
                stack.callback(on_signal(loop, number, interrupt))
            yield task
