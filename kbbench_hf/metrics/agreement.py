"""Agreement of annotators and judges: Cohen's kappa, balanced accuracy, votes on pairs of systems, Bradley-Terry.

`runners.calibration` measures judges with it, `benchmarks.reviews` human reviewers. Stored calibrations have the fields
of `Agreement` and `Decided`.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

_STEPS = np.arange(1, 20) / 20
"""Candidate thresholds: finer ones would fit the noise of a sample."""


class Agreement(NamedTuple):
    """Agreement with reference labels on `n` items. NaN if there are none, or all have the same label."""

    n: int
    yes: float
    """Share of items with the label yes."""
    accuracy: float
    balanced_accuracy: float
    """Mean recall of yes and no; .5 for a constant verdict."""
    kappa: float
    """Cohen's kappa: 1 for the labels themselves, 0 for a constant verdict."""


def agreement(truth: ArrayLike, verdicts: ArrayLike) -> Agreement:
    """Return the agreement of verdicts with labels, item by item.

    Source: Cohen, "A Coefficient of Agreement for Nominal Scales", 1960.

    >>> agreement([True, True, True, False], [True, True, False, False])
    Agreement(n=4, yes=0.75, accuracy=0.75, balanced_accuracy=0.8333333333333333, kappa=0.5)
    >>> agreement([True, True, True, False], [True] * 4)[2:]
    (0.75, 0.5, 0.0)
    """
    wanted, result = np.asarray(truth, dtype=np.bool_), np.asarray(verdicts, dtype=np.bool_)
    if not len(wanted):
        return Agreement(0, np.nan, np.nan, np.nan, np.nan)
    n, yes, right = len(wanted), int(wanted.sum()), int((wanted == result).sum())
    if yes in (0, n):
        return Agreement(n, yes / n, right / n, np.nan, np.nan)
    true_yes, says = int((wanted & result).sum()), int(result.sum())
    true_no = right - true_yes
    chance = yes * says + (n - yes) * (n - says)  # n² times the agreement by chance
    balanced = (true_yes / yes + true_no / (n - yes)) / 2
    return Agreement(n, yes / n, right / n, balanced, (n * right - chance) / (n * n - chance))


def constant_agreement(truth: ArrayLike) -> Agreement:
    """Return the agreement of the most frequent label as a constant verdict.

    >>> constant_agreement([False, False, True])[2:]
    (0.6666666666666666, 0.5, 0.0)
    """
    wanted = np.asarray(truth, dtype=np.bool_)
    return agreement(wanted, np.full(len(wanted), wanted.mean() >= 0.5 if len(wanted) else False))


def self_agreement(items: Sequence[Hashable], verdicts: ArrayLike) -> Agreement:
    """Return the agreement of a judge with itself: the first two verdicts on each item judged more than once.

    It is an upper bound for the agreement of others with the judge. Repeated items are easier than others.

    >>> self_agreement(["a", "b", "a", "b", "c", "a"], [True, False, True, True, True, False]).n
    2
    """
    answers: dict[Hashable, list[bool]] = {}
    for item, answer in zip(items, np.asarray(verdicts, dtype=np.bool_).tolist(), strict=True):
        answers.setdefault(item, []).append(answer)
    twice = np.array([each[:2] for each in answers.values() if len(each) > 1], dtype=np.bool_).reshape(-1, 2)
    return agreement(twice[:, 0], twice[:, 1])


def agreeing_threshold(truth: ArrayLike, scores: ArrayLike) -> float:
    """Return the threshold with the highest kappa: the lowest of every twentieth in (0, 1).

    >>> agreeing_threshold([True, True, False, False], [0.9, 0.72, 0.68, 0.1])
    0.7
    """
    wanted, given = np.asarray(truth, dtype=np.bool_), np.asarray(scores, dtype=np.float64)
    kappas: NDArray[np.float64] = np.array([agreement(wanted, given >= step).kappa for step in _STEPS])
    return 0.5 if np.isnan(kappas).all() else float(_STEPS[np.nanargmax(kappas)])


class Kappa(NamedTuple):
    """Cohen's kappa of two annotators on `n` items. NaN if both give one and the same label to all."""

    n: int
    agreed: float
    """Share of items with equal labels."""
    value: float
    ci95: tuple[float, float]
    """The middle 95 % of kappa over resampled items; NaN if kappa is."""


def nominal_kappa(one: Sequence[Hashable], other: Sequence[Hashable], n_resamples: int = 2000, seed: int = 42) -> Kappa:
    """Return the agreement of two annotators beyond chance, in any categories, with a bootstrap interval over items.

    A resample in which both give one label to all items has no kappa and is left out of the interval.

    Source: Cohen, "A Coefficient of Agreement for Nominal Scales", 1960; Efron's percentile bootstrap, 1979.

    >>> nominal_kappa(["y", "y", "n", "n"], ["y", "n", "n", "n"])[:3]  # agreed 3/4, by chance (2 * 1 + 2 * 3) / 16
    (4, 0.75, 0.5)
    >>> nominal_kappa(["y"] * 3, ["y"] * 3)[:3]
    (3, 1.0, nan)
    """
    known = {value: n for n, value in enumerate(dict.fromkeys([*one, *other]))}
    a, b = (np.array([known[value] for value in labels], dtype=np.int64) for labels in (one, other))
    n, k = len(a), len(known)
    if not n:
        return Kappa(0, np.nan, np.nan, (np.nan, np.nan))
    draws = np.random.default_rng(seed).integers(0, n, (n_resamples, n))
    both = (a * k + b)[np.vstack([np.arange(n), *draws])]
    tables = np.stack([(both == cell).sum(axis=1) for cell in range(k * k)], axis=1).reshape(-1, k, k) / n
    agreed = np.trace(tables, axis1=1, axis2=2)
    chance = (tables.sum(axis=1) * tables.sum(axis=2)).sum(axis=1)
    values = np.divide(agreed - chance, 1 - chance, out=np.full(len(tables), np.nan), where=chance < 1 - 1e-12)
    resampled = values[1:][np.isfinite(values[1:])]
    low, high = np.quantile(resampled, [0.025, 0.975]) if len(resampled) else (np.nan, np.nan)
    return Kappa(n, float(agreed[0]), float(values[0]), (float(low), float(high)))


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
