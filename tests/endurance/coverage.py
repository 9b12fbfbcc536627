"""Do intervals and paired tests hold on the real scores of the four benchmarks? Prints tables, exits 1 if not.

    python -m tests.endurance.coverage [--shared ../shared] [--method before|bca|bootstrap-t|likelihood|betting]
    python -m tests.endurance.coverage --made-up [--unseen 0.05]   # scores that nothing was chosen on

Samples of 20, 50 and 100 examples are drawn, with replacement, from each system's real scores (`real_scores`), whose
mean is the truth. A 95 % interval must hold it at least 92, 93.5 and 94 times in 100, and be at most 1.5 times as wide,
on average, as the range of the central 95 % of the sample's means. A mean over ontologies is that of samples with as
many sentences of each ("even"), with the test split's shares of each ("proportional"), or of sentences drawn from all
("drawn", where small ontologies may be absent).

Some cells are not met (`KNOWN`), for reasons that no choice of `UNSEEN` mends:

- Graded scores near 1 of which most samples hold no failure. Whether a failure is possible does not show in such a
  sample, so what covers with failures is too wide without. `UNSEEN` trades the one for the other: 0.06 would make one
  of these fit and another miss.
- Scores that are nearly all 0: a sample of zeros alone is one of a proportion, and gets the interval of one.
- Scores that are one value inside [0, 1] 9 times in 10. Samples of that value alone would need an interval that becomes
  narrower when another value is seen.

Where an interval is too wide, the table has the least width that any method can have (`least_width`), first one that
covers as often as is asked here, then one that covers 95 times in 100. A width limit below the first cannot be met.

Under the null hypothesis that it makes no difference which of two systems gave an answer, real pairs are swapped at
random; a paired test may find a difference at most 5.5 times in 100.
"""

import argparse
import math
import os
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.metrics import aggregate
from kbbench_hf.metrics.aggregate import estimate
from kbbench_hf.metrics.significance import paired_test
from tests.endurance import made_up_scores
from tests.endurance.other_intervals import METHODS
from tests.endurance.real_scores import Column, Population, pairs, populations

LEAST = {20: 0.92, 50: 0.935, 100: 0.94}
WIDEST = 1.5
KNOWN = {
    ("factualness", 20): {"cdr_rand_200 galactica-30b", "cdr_rand_200 llama-2-70b", "cdr_rand_200 openchat"}
    | {"cdr_rand_200 vicuna-1.3-33b"},
    ("factualness", 50): {"cdr_rand_200 galactica-30b", "docred_rand_200 vicuna-1.5-7b"},
    ("factualness", 100): {"cdr_rand_200 galactica-30b"},
    ("answer_f1", 20): {"hybridqa_table_text resemblance", "kg_path evidence"},
    ("answer_f1", 50): {"hybridqa_table_text resemblance"},
}
"""Metric and size -> the plain means that miss a bound: 2 cover too seldom, 8 are too wide."""
MOST_ALARMS = 0.055
Generator = np.random.Generator
Places = NDArray[np.int64]
Interval = Callable[[Column], tuple[float, float]]


class Cell(NamedTuple):
    """What one interval did in many samples."""

    population: Population
    design: str
    n: int
    coverage: float
    width: float
    """In units of the central 95 % of the sample's means."""
    least_width: float = math.nan
    """Of any interval that covers relatives of these values as often as is asked."""
    least_at_95: float = math.nan

    @property
    def covers(self) -> bool:
        """Whether the interval holds the truth often enough."""
        return self.coverage >= LEAST.get(self.n, 0.0)

    @property
    def fits(self) -> bool:
        """Whether it is narrow enough, or as wide as it must be."""
        return self.width <= WIDEST or self.least_width > WIDEST

    def __str__(self) -> str:
        """Return a row of the table."""
        each = self.population
        remark = "" if self.covers else "  misses"
        if self.width > WIDEST:
            remark += f"  wide (no method can be below {self.least_width:.2f}; at 95 %, {self.least_at_95:.2f})"
        row = f"{each.benchmark:12} {each.name:44.44} {each.metric:22} {self.design:12} {self.n:4}"
        return f"{row} {self.coverage:.3f} {self.width:6.2f}{remark}"


def measure(
    population: Population, design: str, n: int, method: Interval | None, most: int, generator: Generator
) -> Cell:
    """Return how one interval does, from as many samples as it takes to tell which side of the bound it is on."""
    values, groups = population.values, np.asarray(population.groups or [""] * len(population.values))
    grouped = design != "plain"
    truth = estimate(values, groups if grouped else None, population.weights).value
    held, widths, means = 0, 0.0, []
    while len(means) < most:
        for places in samples(groups, design, n, 250, generator):
            figure = estimate(values[places], groups[places] if grouped else None, population.weights)
            low, high = figure.ci95 if method is None else method(values[places])
            held += low <= truth + 1e-12 and high >= truth - 1e-12
            widths += high - low
            means.append(figure.value)
        share = held / len(means)
        error = math.sqrt(max(share * (1 - share), 0.01) / len(means))
        if len(means) >= 1000 and abs(share - LEAST.get(n, 0.0)) > 3 * error:
            break
    low, high = np.quantile(means, [0.025, 0.975])
    span = float(high - low)
    width = widths / len(means) / span if span else math.inf
    if grouped or width <= WIDEST or not span:
        return Cell(population, design, n, share, width)
    least, at_95 = (least_width(values, n, held) / span for held in (LEAST.get(n, 0.95), 0.95))
    return Cell(population, design, n, share, width, least, at_95)


def samples(groups: NDArray[np.str_], design: str, n: int, times: int, generator: Generator) -> Iterator[Places]:
    """Yield samples of n examples in one of the designs: their places."""
    if design in ("plain", "drawn"):
        yield from generator.integers(0, len(groups), (times, n))
        return
    names, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    wanted = np.full(len(names), n / len(names)) if design == "even" else np.maximum(n * sizes / len(groups), 1)
    counts = np.floor(wanted).astype(int)
    while counts.sum() > n:  # ontologies of less than one sentence have been given one
        counts[counts.argmax()] -= 1
    for _ in range(n - counts.sum()):
        counts[(wanted - counts).argmax()] += 1
    members = [np.flatnonzero(group == number) for number in range(len(names))]
    drawn = [
        each[generator.integers(0, len(each), (times, count))] for each, count in zip(members, counts, strict=True)
    ]
    yield from np.concatenate(drawn, axis=1)


def least_width(values: Column, n: int, coverage: float) -> float:
    """Return the least mean width, in samples of these values, of any interval that also covers near relatives of them.

    The relatives have another share of 0, or of 1, and are the same otherwise. The expected width is the integral, over
    all means, of the chance to hold each (Pratt 1961); of all ways to hold the mean of a relative so often where the
    relative is true, the test of Neyman and Pearson holds it least often here.
    """
    from scipy.stats import binom

    counts, shares = np.arange(n + 1), np.linspace(0, 1, 401) ** 2  # close together where little is asked
    means = np.linspace(0, 1, 4001)
    needed = np.zeros(len(means))
    for extreme in (0.0, 1.0):
        others = values[values != extreme]
        if not len(others):
            continue
        own = 1 - len(others) / len(values)
        here = binom.pmf(counts, n, own)
        held = []
        for share in shares:
            there = binom.pmf(counts, n, share)
            order = counts[::-1] if share > own else counts
            reached = np.cumsum(there[order])
            last = int(np.searchsorted(reached, coverage - 1e-12))
            before = reached[last - 1] if last else 0.0
            part = (coverage - before) / max(there[order][last], 1e-300)
            held.append(here[order][:last].sum() + part * here[order][last])
        of_relatives = extreme * shares + (1 - shares) * others.mean()
        places = np.argsort(of_relatives)
        needed = np.maximum(needed, np.interp(means, of_relatives[places], np.array(held)[places], 0, 0))
    return float(np.trapezoid(needed, means))


def false_alarms(a: Population, b: Population, design: str, n: int, times: int, generator: Generator) -> int:
    """Return how often swapped pairs differ with p <= 0.05."""
    groups = np.asarray(a.groups or [""] * len(a.values))
    alarms = 0
    for places in samples(groups, design, n, times, generator):
        first, second = a.values[places], b.values[places]
        swapped = generator.random(n) < 0.5
        sides = np.where(swapped, second, first), np.where(swapped, first, second)
        named = groups[places].tolist() if design != "plain" else None
        alarms += paired_test(*sides, named, a.weights).p_value <= 0.05
    return alarms


def print_intervals(
    found: Sequence[Population], sizes: Sequence[int], method: Interval | None, most: int
) -> list[Cell]:
    """Print the table of intervals, and return the cells that fail."""
    cells = []
    for population in found:
        plain = population._replace(values=population.values[~np.isnan(population.values)])
        grouped = population.groups is not None and method is None
        for design in ("plain", *(("even", "proportional", "drawn") if grouped else ())):
            of_design = plain if design == "plain" else population
            for n in sizes:
                if design in ("even", "proportional") and n < len(set(population.groups or [])):
                    continue
                generator = np.random.default_rng([n, len(cells)])
                cells.append(measure(of_design, design, n, method, most, generator))
                print(cells[-1], flush=True)
    for n in sizes:
        of_size = [cell for cell in cells if cell.n == n]
        coverage, width = ([getattr(cell, name) for cell in of_size] for name in ("coverage", "width"))
        missing, wide = sum(not cell.covers for cell in of_size), sum(not cell.fits for cell in of_size)
        print(
            f"n = {n}: {len(of_size)} cells, coverage {np.mean(coverage):.3f} on average, {min(coverage):.3f} at least;"
        )
        print(
            f"  width {np.median(width):.2f} in the middle; {missing} cover too seldom, {wide} are wider than they must"
        )
    print_metrics(cells)
    return [cell for cell in cells if not (cell.covers and cell.fits)]


def print_metrics(cells: Sequence[Cell]) -> None:
    """Print what the intervals of each metric do on average over its systems."""
    of_metric: dict[tuple[str, str, str, int], list[Cell]] = defaultdict(list)
    for cell in cells:
        of_metric[cell.population.benchmark, cell.population.metric, cell.design, cell.n].append(cell)
    for (benchmark, metric, design, n), found in of_metric.items():
        coverage, width = (float(np.mean([getattr(each, name) for each in found])) for name in ("coverage", "width"))
        remark = ("  misses" if coverage < LEAST.get(n, 0.0) else "") + ("  wide" if width > WIDEST else "")
        print(
            f"{benchmark:12} {metric:22} {design:12} {n:4} {len(found):3} systems {coverage:.3f} {width:6.2f}{remark}"
        )


def print_tests(found: Sequence[Population], sizes: Sequence[int], times: int) -> list[str]:
    """Print how often paired tests err, for each metric over all its pairs of systems, and return what fails."""
    alarms: Counter[tuple[str, str, str, int]] = Counter()
    tests: Counter[tuple[str, str, str, int]] = Counter()
    of_metric: dict[tuple[str, str], list[tuple[Population, Population]]] = defaultdict(list)
    for a, b in pairs(found):
        of_metric[a.benchmark, a.metric].append((a, b))
    for (benchmark, metric), systems in of_metric.items():
        each = math.ceil(times / len(systems))
        for a, b in systems:
            scored = ~(np.isnan(a.values) | np.isnan(b.values))
            a, b = (
                one._replace(values=one.values[scored], groups=one.groups and np.asarray(one.groups)[scored].tolist())
                for one in (a, b)
            )
            for design in ("plain", "drawn") if a.groups else ("plain",):
                for n in sizes:
                    key = benchmark, metric, design, n
                    generator = np.random.default_rng([n, sum(tests.values())])
                    alarms[key] += false_alarms(a, b, design, n, each, generator)
                    tests[key] += each
    failed = []
    for key, count in tests.items():
        rate = alarms[key] / count
        error = math.sqrt(0.05 * 0.95 / count)
        row = f"{key[0]:12} {key[1]:22} {key[2]:8} {key[3]:4} {rate:.3f} of {count:,}"
        print(row, flush=True)
        failed += [row] if rate > MOST_ALARMS + 2 * error else []
    return failed


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--shared", type=Path, default=Path(os.environ.get("KBBENCH_SHARED", "../shared")))
    parser.add_argument("--method", choices=METHODS, help="measure another method than ours, on plain means")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(LEAST))
    parser.add_argument("--samples", type=int, default=10_000, help="of a cell, at most")
    parser.add_argument("--tests", type=int, default=2_000, help="of a metric, a design and a size")
    parser.add_argument("--made-up", action="store_true", help="measure made-up scores, and no tests")
    parser.add_argument("--unseen", type=float, default=aggregate.UNSEEN, help="measure another `aggregate.UNSEEN`")
    parser.add_argument("--every", type=int, default=1, help="measure every so manieth population only")
    asked = parser.parse_args()
    aggregate.UNSEEN = asked.unseen
    with tempfile.TemporaryDirectory() as place:
        scores = made_up_scores.populations() if asked.made_up else populations(asked.shared, Path(place))
        found = [each for each in scores if np.nanstd(each.values)][:: asked.every]
    failed = print_intervals(found, asked.sizes, METHODS[asked.method] if asked.method else None, asked.samples)
    erred = [] if asked.method or asked.made_up else print_tests(found, asked.sizes, asked.tests)
    known = [each for each in failed if each.population.name in KNOWN.get((each.population.metric, each.n), ())]
    new = [each for each in failed if each not in known]
    print("known:", *known, "new:", *new, *erred, sep="\n")
    sys.exit(bool(new or erred))


if __name__ == "__main__":
    main()
