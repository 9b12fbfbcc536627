"""What is offered of the Hub: asked in the background, kept where the Hub does not answer."""

import threading

from kbbench_hf.hub.download import MAX_AGE_S, RETRY_S, Listing


class Hub:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.answers: list[frozenset[str] | Exception] = []
        self.now, self.asked = 0.0, threading.Semaphore(0)

    def ask(self) -> frozenset[str]:
        answer = self.answers.pop(0)
        self.asked.release()
        if isinstance(answer, Exception):
            raise answer
        return answer


def settled(listing: Listing, hub: Hub) -> frozenset[str]:
    listing.names()
    assert hub.asked.acquire(timeout=10)
    for thread in threading.enumerate():
        if thread.name == "listing":
            thread.join(10)
    return listing.names()


def test_nobody_waits_for_the_hub_and_what_it_said_is_there_next_time() -> None:
    hub = Hub()
    listing = Listing(hub.ask, lambda: hub.now)
    hub.answers = [frozenset({"a"}), frozenset({"a", "b"})]
    assert settled(listing, hub) == {"a"}
    hub.now += MAX_AGE_S - 1
    assert listing.names() == {"a"} and len(hub.answers) == 1, "it was asked before its answer was old"
    hub.now += 2
    assert settled(listing, hub) == {"a", "b"}


def test_a_hub_that_does_not_answer_takes_nothing_away_and_is_asked_again_after_a_minute() -> None:
    hub = Hub()
    listing = Listing(hub.ask, lambda: hub.now)
    hub.answers = [frozenset({"a"}), ConnectionError(), frozenset({"b"})]
    assert settled(listing, hub) == {"a"}
    hub.now += MAX_AGE_S + 1
    assert settled(listing, hub) == {"a"}
    hub.now += RETRY_S + 1
    assert settled(listing, hub) == {"b"}
