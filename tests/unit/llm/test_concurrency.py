import asyncio
import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.llm import concurrency
from kbbench_hf.llm.concurrency import CAUTION, LONGEST_WAIT_S, WINDOW_S, Gate, TimeoutLimit, wait_before_retry


@pytest.fixture(scope="module", autouse=True)
def backoff_of_a_user(first_backoff_s: float) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(concurrency, "FIRST_BACKOFF_S", first_backoff_s)
        yield


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_no_more_than_the_limit_pass_at_one_time() -> None:
    async def crowd() -> int:
        gate, peak = Gate(4), 0

        async def one() -> None:
            nonlocal peak
            async with gate:
                peak = max(peak, gate.active)
                await asyncio.sleep(0)

        await asyncio.gather(*(one() for _ in range(50)))
        assert gate.active == 0
        return peak

    assert asyncio.run(crowd()) == 4


def test_a_cancelled_waiter_gives_its_place_back() -> None:
    async def crowd() -> None:
        gate = Gate(1)

        async def hold() -> None:
            async with gate:
                await asyncio.sleep(0.01)

        holder, waiter, patient = (asyncio.create_task(hold()) for _ in range(3))
        await asyncio.sleep(0)
        waiter.cancel()
        await asyncio.gather(holder, waiter, patient, return_exceptions=True)
        assert gate.active == 0 and not patient.cancelled()

    asyncio.run(crowd())


def test_a_server_that_refuses_everything_is_asked_half_as_much() -> None:
    clock = Clock()
    gate = Gate(64, clock)
    gate.refused()
    assert gate.limit == 32  # 64 * (1 - 1/2): one of one was refused


def test_one_burst_of_refusals_cuts_once_and_the_next_window_cuts_again() -> None:
    clock = Clock()
    gate = Gate(64, clock)
    for _ in range(30):
        gate.refused()
    assert gate.limit == 32
    clock.now += WINDOW_S
    gate.refused()  # 30 more of 30 since the first cut
    assert gate.limit == 16


def test_a_few_refusals_hardly_slow_a_run() -> None:
    gate = Gate(64, Clock())
    for _ in range(9):
        gate.answered()
    gate.refused()  # one of ten: 64 * (1 - 0.1 / 2) = 60.8
    assert gate.limit == 61


def test_a_refusal_that_comes_before_all_answers_is_judged_by_what_is_under_way() -> None:
    async def start() -> int:
        gate = Gate(64, Clock())
        for _ in range(64):
            await gate.__aenter__()
        gate.refused()
        return gate.limit

    assert asyncio.run(start()) == 63  # 64 * (1 - 1/64/2) = 63.5, and by one at least


def test_the_limit_never_leaves_its_bounds() -> None:
    clock = Clock()
    gate = Gate(2, clock)
    for _ in range(10):
        clock.now += WINDOW_S
        gate.refused()
    assert gate.limit == 1
    for _ in range(100):
        gate.answered()
    assert gate.limit == 2


def test_a_full_round_of_answers_raises_the_limit_by_one() -> None:
    gate = Gate(64, Clock())
    gate.refused()
    for _ in range(31):
        gate.answered()
    assert gate.limit == 32
    gate.answered()
    assert gate.limit == 33


def test_server_errors_hold_growth_up_and_never_cut() -> None:
    gate = Gate(64, Clock())
    gate.refused()
    for _ in range(100):  # one error in three: 2 answers forward, 2 back
        gate.answered()
        gate.answered()
        gate.failed()
    assert gate.limit == 32


@given(st.lists(st.sampled_from(["answered", "refused", "failed", "later"]), max_size=300), st.integers(1, 64))
def test_whatever_happens_the_limit_stays_between_one_and_the_most(events: list[str], most: int) -> None:
    clock = Clock()
    gate = Gate(most, clock)
    for event in events:
        if event == "later":
            clock.now += WINDOW_S
        else:
            getattr(gate, event)()
        assert 1 <= gate.limit <= most


@given(st.integers(1, 20), st.floats(0, 1e9), st.integers(0, 1000))
def test_waits_honour_the_server_and_end(attempt: int, asked: float, seed: int) -> None:
    assert 0.25 <= wait_before_retry(attempt, None, random.Random(seed)) <= 60
    assert min(asked, LONGEST_WAIT_S) <= wait_before_retry(attempt, asked, random.Random(seed)) <= LONGEST_WAIT_S


def test_waits_double_and_differ() -> None:
    rng = random.Random(0)
    first = [wait_before_retry(1, None, rng) for _ in range(100)]
    fourth = [wait_before_retry(4, None, rng) for _ in range(100)]
    assert len(set(first)) == 100
    assert min(first) >= 0.25 and max(first) <= 0.5  # 0.5 * [0.5, 1]
    assert min(fourth) >= 2 and max(fourth) <= 4  # 0.5 * 2**3 * [0.5, 1]


def limit_of(size: int, clock: Clock) -> TimeoutLimit:
    limit = TimeoutLimit(32, 6.0, clock)
    limit.size = size
    return limit


@pytest.mark.parametrize(("n_replies", "size"), [(0, 1), (2, 1), (5, 3), (30, 16)])
def test_a_timeout_cuts_to_half_or_to_three_quarters_of_what_was_answered(n_replies: int, size: int) -> None:
    clock = Clock()
    limit = limit_of(32, clock)
    lost, *others = (limit.sent(32) for _ in range(31))
    clock.now = 5.0
    for sent in others[:n_replies]:
        limit.answered(sent)
    clock.now = 6.0
    for _ in range(10):
        limit.timed_out(lost)
    assert (limit.size, limit.n_timeouts) == (size, 10)  # one burst cuts once


def test_one_timeout_among_quick_replies_or_of_a_single_request_cuts_nothing() -> None:
    clock = Clock()
    limit = limit_of(32, clock)
    lost = limit.sent(32)
    for _ in range(100):
        sent = limit.sent(32)
        clock.now += 0.05
        limit.answered(sent)
    limit.timed_out(lost)
    limit.timed_out(limit.sent(1))
    assert limit.size == 32


def test_a_round_of_late_replies_cuts_by_a_quarter_and_a_ceiling_is_remembered() -> None:
    clock = Clock()
    limit = limit_of(8, clock)
    limit._latencies[1] = 0.5  # eight times as long for eight times as many: nothing is won by them
    for _ in range(8):
        limit.answered(limit.sent(8)._replace(at=clock.now - 4.0))
    assert limit.size == 6
    clock.now = 6.0
    limit.timed_out(limit.sent(6)._replace(at=0.0))
    assert limit.size == 1
    for _ in range(60):  # quick again: up at once, but not to where requests timed out
        limit.answered(limit.sent(limit.size)._replace(at=clock.now - 0.01))
    assert limit.size == 5
    for _ in range(60):
        limit.answered(limit.sent(limit.size)._replace(at=clock.now - 0.01))
    assert limit.size == 32


def test_a_timeout_below_the_ceiling_doubles_the_replies_before_it_is_tried_again() -> None:
    clock = Clock()
    limit = limit_of(8, clock)

    def answer(n_replies: int) -> int:
        for _ in range(n_replies):
            limit.answered(limit.sent(limit.size)._replace(at=clock.now - 0.01))
        return limit.size

    limit.timed_out(limit.sent(6))
    assert answer(30) == 5
    clock.now = 6.0
    limit.timed_out(limit.sent(5))
    assert answer(2 * CAUTION - 1) == 4
    assert answer(20) == 32


async def turns() -> None:
    """Let every task run as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_request_that_is_sent_alone_waits_for_others_and_lets_none_begin() -> None:
    events: list[str] = []

    async def main() -> None:
        gate, others_end, alone_ends = Gate(4), asyncio.Event(), asyncio.Event()

        async def pass_gate(name: str) -> None:
            async with gate:
                events.append(f"{name} begins")
                await others_end.wait()
                events.append(f"{name} ends")

        async def pass_alone() -> None:
            async with gate.alone() as sent:
                events.append(f"alone, one of {sent.active}")
                await alone_ends.wait()
                events.append("alone ends")

        tasks = []
        for start in (pass_gate("first"), pass_alone(), pass_gate("later")):
            tasks.append(asyncio.create_task(start))
            await turns()
        assert events == ["first begins"]
        others_end.set()
        await turns()
        assert events[1:] == ["first ends", "alone, one of 1"]
        alone_ends.set()
        await asyncio.wait_for(asyncio.gather(*tasks), 5)
        assert events[3:] == ["alone ends", "later begins", "later ends"] and gate.active == 0

    asyncio.run(main())


def test_nothing_begins_in_a_pause_and_the_most_can_change_at_its_end() -> None:
    async def main() -> None:
        gate, end, begun = Gate(2), asyncio.Event(), list[str]()

        async def pass_gate(name: str) -> None:
            async with gate:
                begun.append(name)
                await end.wait()

        gate.steer(paused=True)
        assert gate.is_paused and not gate.holds_back
        tasks = [asyncio.create_task(pass_gate(name)) for name in ("a", "b", "c")]
        await turns()
        assert not begun and gate.holds_back
        gate.steer(paused=False, most=1)
        await turns()
        assert begun == ["a"] and gate.limit == 1 and not gate.holds_back
        gate.steer(paused=False, most=3)
        await turns()
        assert begun == ["a", "b", "c"]
        end.set()
        await asyncio.wait_for(asyncio.gather(*tasks), 5)

    asyncio.run(main())
