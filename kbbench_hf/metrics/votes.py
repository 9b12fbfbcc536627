"""Votes on pairs of systems: agreement of a metric with people, and Bradley-Terry strengths."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Vote = Literal["a", "b", "tie"]


class Decided(NamedTuple):
    """Pairs that people decided, and how often a metric votes the same or the opposite; its other votes are ties.

    Agreement that counts a tie as half rewards a metric that never decides.
    """

    n: int
    decided: int
    same: int
    opposite: int


def vote(a: float, b: float, margin: float = 0.2) -> Vote:
    """Return which of two scores is higher by at least a margin; a tie if neither is, or if one is missing.

    Source: GenRES (commit 7824249), with its margin. As there, 1.0 and 0.8 are a tie: as floating-point numbers they
    differ by less than 0.2.

    >>> vote(1.0, 0.8), vote(0.5, 0.6), vote(0.1, 0.9), vote(0.75, 0.5)
    ('tie', 'tie', 'b', 'a')
    """
    if math.isnan(a) or math.isnan(b) or abs(a - b) < margin:
        return "tie"
    return "a" if a > b else "b"


def decided_votes(people: Sequence[Vote], metric: Sequence[Vote]) -> Decided:
    """Return how a metric votes on the pairs that people decided.

    >>> decided_votes(["a", "b", "tie", "a"], ["a", "a", "b", "tie"])
    Decided(n=4, decided=3, same=1, opposite=1)
    """
    pairs = [(human, other) for human, other in zip(people, metric, strict=True) if human != "tie"]
    same = sum(human == other for human, other in pairs)
    ties = sum(other == "tie" for _, other in pairs)
    return Decided(len(people), len(pairs), same, len(pairs) - same - ties)


def bradley_terry(votes: Sequence[tuple[str, str, Vote]]) -> Mapping[str, float]:
    """Return the strength of each system, with mean 0: one point more makes a vote for it e times as probable.

    Unlike Elo ratings, strengths do not depend on the order of votes. A weak normal prior (standard deviation 3) gives
    a finite strength to a system that always wins.

    Source: Davidson, "On Extending the Bradley-Terry Model to Accommodate Ties", 1970: a wins, b wins and a tie are as
    probable as exp(a), exp(b) and v exp((a + b) / 2).

    Args:
        votes: (system a, system b, vote).

    >>> found = bradley_terry([("x", "y", "a")] * 2 + [("x", "y", "b"), ("x", "y", "tie")])
    >>> round(found["x"] - found["y"], 2)  # a little less than log(2)
    0.65
    """
    from scipy.optimize import minimize
    from scipy.special import logsumexp

    names = sorted({name for a, b, _ in votes for name in (a, b)})
    if not names:
        return {}
    row = {name: position for position, name in enumerate(names)}
    first, second = (np.array([row[pair[side]] for pair in votes]) for side in (0, 1))
    won = np.array([("a", "b", "tie").index(each) for _, _, each in votes])

    def loss(parameters: NDArray[np.float64]) -> float:
        a, b, tie = parameters[first], parameters[second], parameters[-1]
        outcomes = np.stack([a, b, tie + (a + b) / 2])
        likelihood = outcomes[won, np.arange(len(won))] - logsumexp(outcomes, axis=0)
        return float(-likelihood.sum() + (parameters**2).sum() / 18)

    found = minimize(loss, np.zeros(len(names) + 1), method="L-BFGS-B").x[:-1]
    return dict(zip(names, (found - found.mean()).tolist(), strict=True))
