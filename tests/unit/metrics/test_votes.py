"""Votes on pairs of systems: decided ones counted, and strengths that no order of votes changes."""

import math
import random
from itertools import combinations

import pytest

from kbbench_hf.metrics.agreement import Decided, Vote, bradley_terry, decided_votes, vote


def test_only_where_people_decide_does_a_metric_agree_or_disagree() -> None:
    people: list[Vote] = ["a", "a", "a", "b", "tie", "tie"]
    assert decided_votes(people, ["a", "b", "tie", "b", "a", "tie"]) == Decided(6, 4, 2, 1)
    assert decided_votes(people, ["tie"] * 6) == Decided(6, 4, 0, 0)  # whoever never decides agrees on nothing
    assert decided_votes([], []) == Decided(0, 0, 0, 0)


def test_a_missing_score_decides_nothing() -> None:
    assert vote(math.nan, 1.0) == vote(1.0, math.nan) == "tie"


def test_strengths_are_those_that_made_the_votes_whatever_their_order() -> None:
    rng, strength = random.Random(3), {"x": 0.8, "y": 0.1, "z": -0.9}
    votes: list[tuple[str, str, Vote]] = []
    for a, b in [*combinations(strength, 2)] * 3000:
        weights = [math.exp(strength[a]), math.exp(strength[b]), 1.5 * math.exp((strength[a] + strength[b]) / 2)]
        votes.append((a, b, rng.choices(("a", "b", "tie"), weights)[0]))
    found = bradley_terry(votes)
    assert found == pytest.approx(strength, abs=0.07)
    rng.shuffle(votes)
    assert bradley_terry(votes) == pytest.approx(found, abs=1e-4)
    turned: list[tuple[str, str, Vote]] = [(b, a, {"a": "b", "b": "a"}.get(said, said)) for a, b, said in votes]  # type: ignore[misc]
    assert bradley_terry(turned) == pytest.approx(found, abs=1e-4)


def test_who_always_wins_is_strong_but_not_without_end() -> None:
    found = bradley_terry([("x", "y", "a")] * 50)
    assert 1 < found["x"] < 10 and found["y"] == pytest.approx(-found["x"])
    assert bradley_terry([("x", "y", "tie")] * 9) == pytest.approx({"x": 0.0, "y": 0.0}, abs=1e-6)
    assert bradley_terry([]) == {}
