"""In which order the units of a context stand."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.ska_bench.configs import Config
from kbbench_hf.benchmarks.ska_bench.construction.measured import Units
from kbbench_hf.benchmarks.ska_bench.units import SEED, Instance, Pool


@dataclass(frozen=True)
class Placing:
    """Puts the units of one instance in order.

    Noise stands as the pool has it, whose triples and passages are in an order of hashes; rows of the instance's own
    table keep the table's order, and other rows stand among them at ranks drawn from hashes. Where a setting does not
    say where the positives are, each is put at a rank drawn from a hash, uniform over its section.
    """

    instance: Instance
    first_other: int
    """The number of the first row that is not of the instance's own table."""

    @classmethod
    def of(cls, instance: Instance, pool: Pool) -> "Placing":
        """Return how the units of an instance of this pool are placed."""
        return cls(instance, len(pool.sk[instance.group]) if instance.is_table else 0)

    def arranged(self, positives: Units, noise: Units, config: Config) -> tuple[Units, Units]:
        """Return the structured and the text section of a context, each in its final order.

        A depth puts the positives of each section together after that share of its noise.
        """
        attempt = 0
        while True:
            sk, text = (
                self._section(positives[positives.in_text == side], noise[noise.in_text == side], config, attempt)
                for side in (False, True)
            )
            if config.depth is not None or not _lead(positives, sk, text):
                return sk, text
            attempt += 1  # hashes may happen to put all positives first; "random" must then differ from "prefix"

    def _section(self, positives: Units, noise: Units, config: Config, attempt: int) -> Units:
        name = f"{self.instance.id}|place|{attempt}"
        noise = self._noise(noise, shuffled=config.setting == "random" and self.instance.is_table)
        if config.depth is not None:
            before = round(config.depth * len(noise))
            ranks = before + np.arange(len(positives))
            first = positives if self.instance.is_table else positives.shuffled(name)
        else:
            draws = [hashlib.sha256(f"{SEED}|{name}|{key}".encode()).digest()[:8] for key in positives.keys.tolist()]
            first, ranks = positives, drawn_ranks([int.from_bytes(each, "big") for each in draws], len(noise))
        places = np.zeros(len(first) + len(noise), dtype=np.int64)
        left = np.ones(len(places), dtype=bool)
        left[ranks] = False
        places[ranks] = np.arange(len(first))
        places[left] = len(first) + np.arange(len(noise))
        return (first + noise)[places]

    def _noise(self, noise: Units, *, shuffled: bool) -> Units:
        noise = noise[np.argsort(noise.numbers, kind="stable")]
        if not self.instance.is_table or noise.in_text.any():
            return noise
        mixture = noise.shuffled(f"{self.instance.id}|among")
        if shuffled:
            return mixture
        own = mixture.numbers < self.first_other
        places = np.arange(len(mixture))
        places[own] = places[own][np.argsort(mixture.numbers[own], kind="stable")]
        return mixture[places]


def drawn_ranks(draws: Sequence[int], n_noise: int) -> NDArray[np.int64]:
    """Return distinct ranks among so many others, each uniform for draws of 64 bits; a taken one yields to the next.

    >>> drawn_ranks([0, 2**63, 2**63], n_noise=1).tolist()
    [0, 2, 3]
    """
    taken: list[int] = []
    places = len(draws) + n_noise
    for draw in draws:
        rank = draw * places >> 64
        while rank in taken:
            rank = (rank + 1) % places
        taken.append(rank)
    return np.array(taken, dtype=np.int64)


def _lead(positives: Units, *sections: Units) -> bool:
    """Say whether the positives come first wherever a section holds both them and noise, and one does."""
    leads = []
    for in_text, section in zip((False, True), sections, strict=True):
        wanted = positives.numbers[positives.in_text == in_text]
        if 0 < len(wanted) < len(section):
            leads.append(np.isin(section.numbers[: len(wanted)], wanted).all())
    return bool(leads) and all(leads)
