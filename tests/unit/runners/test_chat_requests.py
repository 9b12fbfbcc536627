"""Asking a chat model: signals, and the concurrency that a server gets (simulated servers, simulated time)."""

import asyncio
import math
import random
import signal
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from kbbench_hf.benchmarks.base import Prompt
from kbbench_hf.errors import InterruptedRunError, KBBenchError
from kbbench_hf.files.journal import Record
from kbbench_hf.llm.concurrency import Gate
from kbbench_hf.llm.failures import Failure
from kbbench_hf.protocols import Completion
from kbbench_hf.runners import chat_requests as ask_chat
from kbbench_hf.runners.chat_requests import RequestSender
from kbbench_hf.runners.cost import Budget
from kbbench_hf.runners.jobs import Sampling, Work
from tests.servers.queueing import QueueingModel, run_simulated


class Interrupting:
    """A model whose third answer is under way when Ctrl-C comes."""

    name = "interrupting"

    def __init__(self) -> None:
        self.n_asked = 0

    async def complete(self, messages: Sequence[Any], *, max_tokens: int | None = None) -> Completion:
        self.n_asked += 1
        if self.n_asked == 3:
            signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(0.05)
        return Completion("answer", "stop", None, None, 0.05)


@pytest.mark.parametrize(("in_the_loop", "earlier"), [(True, None), (True, signal.SIG_IGN), (False, None)])
def test_ctrl_c_waits_for_what_is_under_way(
    in_the_loop: bool, earlier: signal.Handlers | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not in_the_loop:  # as on Windows

        def refuse(*_: object) -> None:
            raise NotImplementedError

        monkeypatch.setattr(asyncio.SelectorEventLoop, "add_signal_handler", refuse)
    first = signal.getsignal(signal.SIGINT)
    if earlier is not None:
        signal.signal(signal.SIGINT, earlier)
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    jobs = Work({n: Prompt([{"role": "user", "content": "?"}]) for n in range(50)}, Sampling()).jobs("m")
    model = Interrupting()
    records: list[Record] = []
    with pytest.raises(InterruptedRunError):
        asyncio.run(RequestSender(model, records.append, Budget(None), concurrency=2).send_all(jobs))
    assert len(records) == model.n_asked < 10
    assert all(record["response"] == "answer" for record in records)
    after = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGINT, first)
    assert after == before


class Simulated(NamedTuple):
    """How a run of n prompts against a simulated server went."""

    n_answered: int
    n_wasted: int
    seconds: float
    size: int
    stopped: str
    most_attempts: int
    held: int | None


def simulate(
    monkeypatch: pytest.MonkeyPatch, model: QueueingModel, n: int, *, canary: bool = True, guarded: bool = True
) -> Simulated:
    """Run n prompts at concurrency 32; `guarded=False` sends 32 at once whatever happens, as a plain client does."""
    records: list[Record] = []
    monkeypatch.setattr("kbbench_hf.llm.concurrency.FIRST_BACKOFF_S", 0.5)  # the clock is simulated

    async def main(clock: Callable[[], float]) -> Simulated:
        monkeypatch.setattr(
            ask_chat, "time", SimpleNamespace(monotonic=clock, perf_counter=clock, time_ns=time.time_ns)
        )
        sender = RequestSender(model, records.append, Budget(None), concurrency=32)
        sender._rng = random.Random(0)
        sender.gate = Gate(32, clock, timeout_s=model.timeout_s if guarded else math.inf)
        stopped = ""
        try:
            if canary:
                await sender.canary(None, 512 if guarded else None)
            elif guarded:
                sender.gate.timeouts.start(ask_chat.UNKNOWN_LATENCY_S)
            prompts = {i: Prompt([{"role": "user", "content": str(i)}], max_tokens=512) for i in range(n)}
            await sender.send_all(Work(prompts, Sampling()).jobs("m"))
        except KBBenchError as error:
            stopped = str(error)
        outcomes = [record for record in records if record["id"] is not None]
        answered = [record for record in outcomes if record["error"] is None]
        most = max((record["attempts"] for record in outcomes), default=0)
        limit = sender.gate.timeouts
        return Simulated(len(answered), model.n_wasted, clock(), limit.size, stopped, most, limit.held)

    return run_simulated(main)


def between(low: float, high: float, seed: int = 0) -> Callable[[int, float], float]:
    rng = random.Random(seed)
    return lambda number, at: rng.uniform(low, high)


def stalls(begin: float, end: float, usual: float = 0.05) -> Callable[[int, float], float]:
    return lambda number, at: max(usual, end - at) if begin < at < end else usual


SLOW: dict[str, tuple[int, Callable[[], QueueingModel], int, float]] = {
    # name: (prompts, server, most replies computed for nobody, most seconds)
    "one slot": (48, lambda: QueueingModel(lambda *_: 1.0, timeout_s=6), 0, 50),
    "one slot, replies of different length": (48, lambda: QueueingModel(between(0.5, 1.5), timeout_s=6), 2, 60),
    "one slot, two seconds": (48, lambda: QueueingModel(lambda *_: 2.0, timeout_s=6), 2, 105),
    "one slot, like replies": (48, lambda: QueueingModel(between(0.8, 1.2, 5), timeout_s=6), 0, 50),
    "four slots": (200, lambda: QueueingModel(lambda *_: 1.0, slots=4, timeout_s=6), 0, 55),
    "four slots, usual timeout": (48, lambda: QueueingModel(between(20, 80), slots=4), 0, 850),
    "cold start": (500, lambda: QueueingModel(lambda n, _: 20 if n == 1 else 0.05, slots=64), 0, 22),
    "cold start longer than the timeout": (500, lambda: QueueingModel(stalls(-1, 20), slots=64, timeout_s=6), 4, 25),
    "stall": (2000, lambda: QueueingModel(stalls(1, 11), slots=64, timeout_s=6), 34, 15),
    "stall, usual timeout": (2000, lambda: QueueingModel(stalls(1, 11), slots=64), 0, 14),
    "long stall": (2000, lambda: QueueingModel(stalls(1, 61), slots=64, timeout_s=6), 45, 80),
    "slower and slower": (
        400,
        lambda: QueueingModel(lambda n, at: 0.02 if at < 2 else 1, timeout_s=6),
        16,
        340,
    ),
}


@pytest.mark.parametrize("name", SLOW)
@pytest.mark.parametrize("canary", [True, False])
def test_a_slow_server_answers_everything_and_hardly_anything_for_nobody(
    name: str, canary: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    n, server, most_wasted, most_seconds = SLOW[name]
    done = simulate(monkeypatch, server(), n, canary=canary)
    assert (done.n_answered, done.stopped) == (n, "")
    assert done.n_wasted <= most_wasted + 32 * (not canary and name.startswith("cold"))  # these begin with many
    assert done.seconds <= most_seconds
    assert (done.held is not None) == ("slot" in name or name.startswith("slower"))


FAST: dict[str, tuple[int, Callable[[], QueueingModel]]] = {
    "5 ms": (400, lambda: QueueingModel(lambda *_: 0.005, slots=64)),
    "50 ms": (400, lambda: QueueingModel(lambda *_: 0.05, slots=64)),
    "50 ms, short timeout": (2000, lambda: QueueingModel(lambda *_: 0.05, slots=64, timeout_s=6)),
    "latency and throughput grow with load": (
        400,
        lambda: QueueingModel(lambda n, _: 0.5 + n * 7 % 25 / 10, slots=256, shared=lambda active: 1 + active / 32),
    ),
    "long answers": (200, lambda: QueueingModel(lambda n, _: 0.5 if n == 1 else 10 + n * 7 % 30, slots=256)),
}


@pytest.mark.parametrize("name", FAST)
def test_a_fast_server_is_asked_as_fast_as_without_a_limit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n, server = FAST[name]
    limited, free = (simulate(monkeypatch, server(), n, guarded=guarded) for guarded in (True, False))
    assert (limited.n_answered, limited.size, limited.n_wasted, limited.held) == (n, 32, 0, None)
    assert limited.seconds <= 1.03 * free.seconds


def test_one_prompt_that_takes_too_long_is_tried_alone_and_slows_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    model = QueueingModel(lambda *_: 0.05, slots=64, timeout_s=1, prompts={"3": 60.0})
    done = simulate(monkeypatch, model, 2000)
    assert (done.n_answered, done.size, done.most_attempts, model.n_wasted) == (1999, 32, 8, 8)


def test_after_two_timeouts_a_prompt_is_sent_alone_as_long_as_that_helps_any(monkeypatch: pytest.MonkeyPatch) -> None:
    others: list[int] = []
    """How many requests were sent while the prompt was under way."""

    class Watched(QueueingModel):
        async def complete(self, messages: Sequence[Any], max_tokens: int | None, **more: object) -> Completion:
            before = self.n_requests
            try:
                return await super().complete(messages, max_tokens, **more)
            finally:
                if messages[-1]["content"] == "300":
                    others.append(self.n_requests - before - 1)

    monkeypatch.setattr(ask_chat, "wait_before_retry", lambda *_: 0.01)
    done = simulate(monkeypatch, Watched(lambda *_: 0.2, slots=64, timeout_s=1, prompts={"300": 60.0}), 2200)
    assert (done.n_answered, done.most_attempts) == (2199, 8)
    assert [n > 0 for n in others] == [True] * 2 + [False] * 3 + [True] * 3


def test_a_server_that_dies_stops_the_run_and_keeps_what_was_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    done = simulate(monkeypatch, QueueingModel(lambda n, at: 0.1 if at < 2 else 1e6, slots=999, timeout_s=6), 3000)
    assert "did not answer the last 9 requests within 6 s, although each was sent alone" in done.stopped
    assert "--timeout 12" in done.stopped
    assert 500 < done.n_answered < 3000 and done.seconds < 240


@pytest.mark.parametrize("canary", [True, False])
@pytest.mark.parametrize(("timeout_s", "most_seconds"), [(300.0, 602), (40.0, 82), (6.0, 75)])
def test_a_server_that_never_responds_stops_the_run_after_two_timeouts_or_a_minute(
    timeout_s: float, most_seconds: float, canary: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = QueueingModel(lambda *_: 1e6, slots=999, timeout_s=timeout_s)
    done = simulate(monkeypatch, model, 100, canary=canary)
    assert f"requests timed out after {timeout_s:g} s each. Expected at least one response." in done.stopped
    assert f"--timeout {2 * timeout_s:g}" in done.stopped
    assert max(60, 2 * timeout_s) <= done.seconds <= most_seconds


class Unrecognized:
    """A model whose server takes connections and never sends a byte, not even about itself."""

    name, timeout_s = "unrecognized", 300.0

    async def recognize(self) -> None:
        await asyncio.sleep(self.timeout_s)
        raise Failure("timeout", transient=True)

    async def complete(self, messages: Sequence[Any], max_tokens: int | None) -> str:
        raise NotImplementedError


def test_the_progress_line_says_how_long_there_was_no_response_and_when_the_run_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []

    async def main(clock: Callable[[], float]) -> None:
        monkeypatch.setattr(ask_chat, "time", SimpleNamespace(monotonic=clock))
        sender = RequestSender(Unrecognized(), [].append, Budget(None), concurrency=32)
        for at in (5, 40, 310):
            asyncio.get_running_loop().call_at(at, lambda: said.append(sender.status()))
        with pytest.raises(KBBenchError, match="never responded: 2 requests timed out after 300 s each"):
            await sender.recognize()
        assert clock() < 602

    run_simulated(main)
    ends = "; the run stops after 600 s"
    waits = [f"waiting: no response yet after {at} s (timeouts: {n}){ends}" for at, n in ((40, 0), (310, 1))]
    assert said == ["", *waits]


def test_a_response_of_any_kind_ends_the_wait_for_the_first_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Overloaded(QueueingModel):
        async def complete(self, messages: Sequence[Any], max_tokens: int | None, **more: object) -> Completion:
            if self.n_requests == 0:
                self.n_requests = 1
                raise Failure("http_503", "overloaded", transient=True)
            return await super().complete(messages, max_tokens, **more)

    monkeypatch.setattr(ask_chat, "wait_before_retry", lambda *_: 0.01)
    done = simulate(monkeypatch, Overloaded(lambda _, at: max(0.05, 70 - at), slots=999, timeout_s=15), 100)
    assert (done.n_answered, done.stopped) == (100, "")
    assert done.seconds >= 70
