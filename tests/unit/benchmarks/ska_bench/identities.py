"""SKA-Bench's published figures, and what must hold between the figures of its testbeds, published or our own."""

import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import kbbench_hf.benchmarks
from kbbench_hf.benchmarks.ska_bench.testbeds import STANDARD
from kbbench_hf.benchmarks.ska_bench.units import SUBSETS
from kbbench_hf.metrics.robustness import population_std

FILE = Path(kbbench_hf.benchmarks.__file__).parent / "ska_bench" / "published.csv"
INSTANCES = {"kg": 233, "table": 295, "kg_text": 195, "table_text": 198}
"""How many instances the paper's subsets have."""
ROUNDING = 0.00005
"""Half the last digit of the published figures, as fractions."""


class Figure(NamedTuple):
    """One line of a results file."""

    config: str
    system: str
    metric: str
    value: float


def read(file: Path = FILE) -> list[Figure]:
    """Return the scores of a results file as fractions, by default the published ones."""
    with file.open(encoding="utf-8", newline="") as source:
        return [
            Figure(row["config"], row["system"], row["metric"], float(row["value"])) for row in csv.DictReader(source)
        ]


def broken_identities(
    figures: Iterable[Figure], n: Mapping[str, int] | None = None, rounding: float = ROUNDING
) -> list[str]:
    """Return, in words, every identity between testbeds that a set of results breaks; an empty list where all hold.

    Of each system, as far as its figures are there: an order that is the noise testbed's own has that testbed's figure
    (`order_kg_random` is `noise_kg_4k`); a figure that stands twice is the same; the average rejection rate is the
    plain mean of the four subsets; a standard deviation over hardness is that of hard, mixed and easy as a population;
    and a rejection rate is k / n for a whole k, if `n` says how many instances each subset has.
    """
    broken: list[str] = []
    table: defaultdict[str, dict[tuple[str, str], float]] = defaultdict(dict)
    for config, system, metric, value in figures:
        known = table[system].setdefault((config, metric), value)
        if known != value:
            broken.append(f"{system}: {config} has two figures for {metric}, {known} and {value}")
    for system, values in table.items():
        for what, found, expected in _equations(values):
            if abs(found - expected) > 2 * rounding:
                broken.append(f"{system}: {what}: {found} is not {expected}")
        for subset, size in (n or {}).items():
            rate = values.get((f"rejection_{subset}", "rejection_rate"))
            if rate is not None and abs(rate - round(rate * size) / size) > 1.01 * rounding:
                broken.append(f"{system}: rejection_{subset}: {rate} is no share of {size} instances")
    return broken


def _equations(values: Mapping[tuple[str, str], float]) -> Iterable[tuple[str, float, float]]:
    """Yield (what, figure, the figure it has to be) for every equation whose figures are all there."""
    for subset, budget in STANDARD.items():
        own = f"order_{subset}_{'original' if subset.startswith('table') else 'random'}"
        noise = f"noise_{subset}_{budget}"
        if (own, "answer_f1") in values and (noise, "answer_f1") in values:
            yield f"{own} and {noise}", values[own, "answer_f1"], values[noise, "answer_f1"]
        levels = [f"hardness_{subset}_hard", f"noise_{subset}_4k", f"hardness_{subset}_easy"]
        std = (f"hardness_{subset}", "std_over_hardness")
        if std in values and all((level, "answer_f1") in values for level in levels):
            yield std[0], values[std], population_std([values[level, "answer_f1"] for level in levels])
    rates = [values.get((f"rejection_{subset}", "rejection_rate")) for subset in SUBSETS]
    average = values.get(("rejection", "rejection_rate"))
    if average is not None and None not in rates:
        yield "rejection", average, sum(rate for rate in rates if rate is not None) / len(rates)
