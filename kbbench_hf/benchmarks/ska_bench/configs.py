"""Testbed configs of SKA-Bench by name: budget, order and noise.

The paper's (arXiv 2507.17178, sections 3.3 and 4): noise robustness at four budgets, order insensitivity, negative
rejection, noise hardness. Information integration is a slice of noise runs, by `n_required`. Beyond the paper: budgets
up to 1 M tokens on a fixed sample, positives on a grid of depths, and rejection as pairs: `rejection` has contexts that
lack a smallest cut of the evidence, with an answerable control beside them; the paper's, of noise alone, is
`rejection_noise`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from kbbench_hf.benchmarks.ska_bench.units import SUBSETS
from kbbench_hf.errors import unknown_name

PAPER_BUDGETS = {"1k": 1 << 10, "4k": 4 << 10, "12k": 12 << 10, "24k": 24 << 10}
LONG_BUDGETS = {f"{k}k": k << 10 for k in (32, 64, 128, 256, 512)} | {"1m": 1 << 20}
BUDGETS = PAPER_BUDGETS | LONG_BUDGETS
"""k is 1024: the paper's mean context at "12k" has 12,054 tokens. The knowledge base counts, not the prompt."""
STANDARD = {"kg": "4k", "table": "4k", "kg_text": "12k", "table_text": "12k"}
"""The budget of the order, depth, integration and rejection testbeds."""
DEPTHS = (0, 25, 50, 75, 100)
"""Percentage of the noise that precedes the positives."""
BUCKETS = ("1", "2", "3", "4", ">4")
"""Numbers of needed units, as the integration testbed groups them; the paper leaves out instances of one unit."""
HARDNESS = {"hard": (1, 2), "easy": (4, 255)}
"""First and last hop of the noise; the noise testbed itself is the paper's "mixed"."""
HARDNESS_BUDGETS = (4 << 10, 2 << 10, 1 << 10)
"""Both levels of an instance have the largest budget that both can fill."""
REVISIONS = {1: "1.0.0", 2: "2.0.0"}
"""Revision of the construction -> version of the dataset that it builds.

A patch version changes descriptions, a minor version adds instances, a major one changes gold answers or contexts;
scores of different majors are never in one table."""
NEWEST = max(REVISIONS)
TESTBEDS = ("noise", "order", "depth", "rejection", "rejection_control", "rejection_noise", "hardness", "unreviewed")
"""`unreviewed` is the standard noise config of the instances that wait for review."""


@dataclass(frozen=True)
class Config:
    """One testbed of one subset at one setting: the selection and the order of units."""

    name: str
    testbed: str
    subset: str
    budget: int
    setting: str
    depth: float | None = None
    """The share of the noise that precedes the positives; None where the setting is `original` or `random`."""
    hops: tuple[int, int] | None = None
    long: bool = False


@cache
def configs() -> dict[str, Config]:
    """Return every testbed config by name: by testbed, then by subset.

    >>> [name for name in configs() if name.startswith("order_table_") and "text" not in name]
    ['order_table_original', 'order_table_prefix', 'order_table_random', 'order_table_suffix']
    """
    found = [config for subset in SUBSETS for config in _of_subset(subset)]
    return {config.name: config for config in sorted(found, key=lambda config: TESTBEDS.index(config.testbed))}


def _of_subset(subset: str) -> list[Config]:
    natural = "original" if subset.startswith("table") else "random"
    budget = BUDGETS[STANDARD[subset]]
    orders = {"original": None, "prefix": 0.0, "random": None, "suffix": 1.0}
    found = [
        Config(f"noise_{subset}_{size}", "noise", subset, tokens, natural, long=size in LONG_BUDGETS)
        for size, tokens in BUDGETS.items()
        if size != "1k" or not subset.endswith("_text")
    ]
    found += [
        Config(f"order_{subset}_{setting}", "order", subset, budget, setting, depth)
        for setting, depth in orders.items()
        if setting in ("prefix", "random", "suffix", natural)
    ]
    found += [Config(f"depth_{subset}_{d}", "depth", subset, budget, f"depth_{d}", d / 100) for d in DEPTHS]
    plain = ("rejection", "rejection_control", "rejection_noise", "unreviewed")
    found += [Config(f"{testbed}_{subset}", testbed, subset, budget, natural) for testbed in plain]
    if subset.startswith("kg"):
        found += [
            Config(f"hardness_{subset}_{level}", "hardness", subset, BUDGETS["4k"], natural, hops=hops)
            for level, hops in HARDNESS.items()
        ]
    return found


def built_configs(revision: int) -> dict[str, Config]:
    """Return the testbed configs of a revision of the construction; the first one has no `rejection_noise`."""
    return {name: each for name, each in configs().items() if revision > 1 or each.testbed != "rejection_noise"}


def configs_of(testbed: str, subsets: Sequence[str] = SUBSETS) -> list[str]:
    """Return the configs of a testbed. `integration` has none of its own: its runs are the standard noise runs.

    >>> configs_of("integration", ["kg", "kg_text"])
    ['noise_kg_4k', 'noise_kg_text_12k']

    Raises:
        UsageError: an unknown testbed or subset.
    """
    for subset in subsets:
        if subset not in SUBSETS:
            raise unknown_name("subset", subset, SUBSETS)
    if testbed == "integration":
        return [f"noise_{subset}_{STANDARD[subset]}" for subset in subsets]
    if testbed not in TESTBEDS:
        raise unknown_name("testbed", testbed, (*TESTBEDS, "integration"))
    return [name for name, config in configs().items() if config.testbed == testbed and config.subset in subsets]


def bucket(n_required: int) -> str:
    """Return the integration bucket of an instance that needs this many units: 1, 2, 3, 4 or `>4`.

    >>> bucket(1), bucket(4), bucket(9)
    ('1', '4', '>4')
    """
    return str(n_required) if n_required <= 4 else ">4"
