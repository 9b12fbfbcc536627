"""Do intervals cover and tests err as often as they say? Prints a table, exits 1 where they do not.

    python -m tests.endurance.statistics [--simulations 2000]

Our ratios are sums over the examples that a figure applies to, by their number, itself drawn (the rejection rate: over
the unanswerable). The mean of group means has groups of uneven, fixed sizes.
"""

import argparse
import json
import sys

import numpy as np

from kbbench_hf.metrics.aggregate import estimate
from kbbench_hf.metrics.significance import holm, paired_test

Generator = np.random.Generator


def coverage(kind: str, n: int, simulations: int, generator: Generator) -> float:
    """Return how often the 95 % interval holds the true value."""
    inside = 0
    for _ in range(simulations):
        groups = None
        if kind == "proportion":
            truth = 0.3
            values = (generator.random(n) < truth).astype(float)
        elif kind == "mean":
            truth = 2 / 7
            values = generator.beta(2, 5, n)
        elif kind == "ratio":
            truth = 2 / 7
            values = np.where(generator.random(n) < 0.5, generator.beta(2, 5, n), np.nan)
        else:
            chances = np.array([0.2, 0.4, 0.5, 0.6, 0.8])
            truth = float(chances.mean())
            names = np.repeat(np.arange(5), np.array([4, 3, 1, 1, 1]) * n // 10)
            values = generator.beta(2 * chances[names], 2 * (1 - chances[names]))
            groups = [str(name) for name in names]
        low, high = estimate(values, groups).ci95
        inside += low <= truth <= high
    return inside / simulations


def false_alarms(n: int, simulations: int, generator: Generator, *, continuous: bool) -> float:
    """Return how often two systems of equal quality differ with p < 0.05; 70 % of an example's luck is shared."""
    alarms = 0
    for _ in range(simulations):
        shared = generator.random(n) < 0.7
        luck = generator.random((3, n))
        a, b = (np.where(shared, luck[0], luck[k]) for k in (1, 2))
        values = (a, b) if continuous else (a < 0.4, b < 0.4)
        alarms += paired_test(*(each.astype(float) for each in values)).p_value < 0.05
    return alarms / simulations


def family_wise(n: int, simulations: int, generator: Generator) -> float:
    """Return how often Holm finds any of five equal systems different from a sixth."""
    alarms = 0
    for _ in range(simulations):
        values = generator.random((6, n))
        alarms += min(holm([paired_test(values[0], other).p_value for other in values[1:]])) < 0.05
    return alarms / simulations


def main() -> None:
    """Simulate everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--simulations", type=int, default=2_000)
    n_simulations = parser.parse_args().simulations
    generator = np.random.default_rng(11)
    broken = []
    for kind in ("proportion", "mean", "mean of group means", "ratio"):
        for n in (100, 500):
            rate = coverage(kind, n, n_simulations, generator)
            print(json.dumps({"interval": kind, "n": n, "coverage": rate}), flush=True)
            broken += [f"{kind} {n}: {rate}"] if not 0.93 <= rate <= 0.97 else []
    for continuous in (False, True):
        rate = false_alarms(100, n_simulations, generator, continuous=continuous)
        name = "continuous" if continuous else "hits"
        print(json.dumps({"paired test": name, "n": 100, "type I error": rate}), flush=True)
        broken += [f"type I, {name}: {rate}"] if rate > 0.06 else []
    rate = family_wise(100, n_simulations // 4, generator)
    print(json.dumps({"holm": "5 tests", "n": 100, "family-wise error": rate}), flush=True)
    broken += [f"Holm: {rate}"] if rate > 0.06 else []
    sys.exit(f"broken: {broken}" if broken else 0)


if __name__ == "__main__":
    main()
