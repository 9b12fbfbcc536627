"""Whether the length of a unit gives away that it is a positive."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.ska_bench.configs import STANDARD, configs
from kbbench_hf.benchmarks.ska_bench.construction.measured import Units
from kbbench_hf.benchmarks.ska_bench.construction.noise import Candidates, Library
from kbbench_hf.benchmarks.ska_bench.construction.tokens import Tokenizer
from kbbench_hf.benchmarks.ska_bench.units import SUBSETS, Instance, Pool

WARN_ABOVE = 0.7


def separation(positives: NDArray[np.int64], noise: NDArray[np.int64]) -> float:
    """Return the area under the ROC curve of the best classifier that sees a unit's length alone, at least 0.5.

    It is the chance that a positive is longer (or, if that is rarer, shorter) than a noise unit, ties counting half.
    NaN where one side is empty.

    >>> separation(np.array([5, 5]), np.array([5, 3]))  # of 4 pairs 2 longer, 2 ties: (2 + 1) / 4
    0.75
    """
    if not len(positives) or not len(noise):
        return float("nan")
    ordered = np.sort(noise)
    below, up_to = (np.searchsorted(ordered, positives, side=side).sum() for side in ("left", "right"))
    area = float(below + up_to) / 2 / (len(positives) * len(noise))
    return max(area, 1 - area)


def length_cues(instances: Sequence[Instance], pools: dict[str, Pool], count: Tokenizer) -> dict[str, dict[str, float]]:
    """Return subset -> section (`sk`, `text`) -> separation by length over its instances, at the standard budget."""
    cues: dict[str, dict[str, float]] = {}
    for subset in SUBSETS:
        members = [instance for instance in instances if instance.subset == subset]
        if not members:
            continue
        library, config = Library(pools[subset], count), configs()[f"noise_{subset}_{STANDARD[subset]}"]
        found = [_shown(library.candidates(instance), config.budget) for instance in members]
        cues[subset] = {}
        for section, in_text in (("sk", False), ("text", True)):
            positives, noise = (
                np.concatenate([units[side].tokens[units[side].in_text == in_text] for units in found])
                for side in (0, 1)
            )
            if len(positives):
                cues[subset][section] = separation(positives, noise)
    return cues


def _shown(candidates: Candidates, budget: int) -> tuple[Units, Units]:
    left = budget - candidates.header_tokens - int(candidates.positives.tokens.sum())
    return candidates.positives, candidates.noise.fitting(left)
