"""Made-up scores of many shapes, which nothing was chosen on: `coverage --made-up` says where intervals hold."""

from collections.abc import Iterator

import numpy as np

from tests.endurance.real_scores import Column, Population

SIZE = 40_000


def populations() -> Iterator[Population]:
    """Yield smooth scores, scores of three values, long tails, and graded scores with a share of failures (0)."""
    generator = np.random.default_rng(5)
    for a, b in ((2, 5), (0.5, 0.5), (8, 1), (0.3, 3), (20, 1.5), (30, 30)):
        yield _named(f"Beta({a}, {b})", generator.beta(a, b, SIZE))
    for shares in ((0.1, 0.8, 0.1), (0.02, 0.05, 0.93), (0.05, 0.9, 0.05), (0.8, 0.15, 0.05), (0, 0.9, 0.1)):
        yield _named(f"0, 0.5 and 1: {shares}", generator.choice([0.0, 0.5, 1.0], SIZE, p=shares))
    for mean, deviation in ((-1, 0.5), (-2, 1), (-4, 2)):
        tail = np.minimum(generator.lognormal(mean, deviation, SIZE), 1)
        yield _named(f"log-normal({mean}, {deviation}), at most 1", tail)
        yield _named(f"1 - log-normal({mean}, {deviation})", 1 - tail)
    for a, b in ((9, 1), (20, 2)):
        graded = generator.beta(a, b, SIZE)
        for failures in (0.01, 0.02, 0.03, 0.05, 0.1, 0.3, 0.6, 0.9):
            yield _named(f"Beta({a}, {b}), {failures:.0%} at 0", np.where(generator.random(SIZE) < failures, 0, graded))


def _named(name: str, values: Column) -> Population:
    return Population("made up", name, "", "score", values)
