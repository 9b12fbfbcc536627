"""Units as parallel arrays, and orders by seeded hashes that depend on nothing but the units and a name.

A unit's key is the first 8 bytes of the SHA-256 of its line; an order sorts keys mixed with a name. It is independent
of the order of the input, the Python version and the platform. `noise`, `rejection_twins` and `testbeds` compute with
`Units`. What draws questions, tables, folds or demonstrations here draws by `seeded_hash`: with other hashes every
context would be another one.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.ska_bench.token_counts import tokenizer
from kbbench_hf.benchmarks.ska_bench.units import SEED


def seeded_hash(text: str) -> bytes:
    """Return the SHA-256 of a text with the seed, to sort by: the order is as good as random."""
    return hashlib.sha256(f"{SEED}|{text}".encode()).digest()


@dataclass(frozen=True)
class Units:
    """Units as parallel arrays: number, section, key, tokens of the line with its end, hop.

    Indexing returns units by place, not by number; `+` joins them.
    """

    numbers: NDArray[np.int32]
    in_text: NDArray[np.bool_]
    keys: NDArray[np.uint64]
    tokens: NDArray[np.int64]
    hops: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, chosen: NDArray[np.int64] | NDArray[np.bool_] | Sequence[int] | slice) -> "Units":
        return Units(*(column[chosen] for column in vars(self).values()))

    def __add__(self, other: "Units") -> "Units":
        return Units(*map(np.concatenate, zip(vars(self).values(), vars(other).values(), strict=True)))

    @property
    def n_tokens(self) -> int:
        """The tokens of all lines."""
        return int(self.tokens.sum())

    def shuffled(self, name: str) -> "Units":
        """Return the units in the order that a name gives them."""
        return self[shuffle(self.keys, name)]

    def fitting(self, budget: int) -> "Units":
        """Return the longest prefix of at most `budget` tokens; a larger budget therefore holds a smaller one's."""
        return self[: int(np.searchsorted(np.cumsum(self.tokens), budget, side="right"))]

    def filling(self, budget: int) -> "Units":
        """Return what fits, in order, without units that do not: closer to the budget than `fitting` comes."""
        chosen, left = [], budget
        for place, tokens in enumerate(self.tokens.tolist()):
            if tokens <= left:
                chosen.append(place)
                left -= tokens
            if left <= 0:
                break
        return self[np.array(chosen, dtype=np.int64)]


def measure(lines: Sequence[str], *, in_text: bool) -> Units:
    """Return lines as units, numbered from 0, with hop 0."""
    n = len(lines)
    digests = b"".join(hashlib.sha256(line.encode()).digest()[:8] for line in lines)
    return Units(
        np.arange(n, dtype=np.int32),
        np.full(n, in_text),
        np.frombuffer(digests, dtype="<u8").astype(np.uint64),
        tokenizer().count_lines(lines),
        np.zeros(n, dtype=np.int64),
    )


def shuffle(keys: NDArray[np.uint64], name: str) -> NDArray[np.int64]:
    """Return the order that a name gives to units with these keys: by SplitMix64 of key and name, exclusive or.

    >>> shuffle(np.arange(5, dtype=np.uint64), "q1|noise").tolist()
    [0, 2, 1, 3, 4]
    """
    salt = np.frombuffer(seeded_hash(name)[:8], dtype="<u8").astype(np.uint64)
    x = (keys ^ salt) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.argsort(x ^ (x >> np.uint64(31)), kind="stable")


def merge(sk: Units, text: Units, sk_share: float) -> Units:
    """Return both sections as one order in which the structured one has `sk_share` of the tokens throughout."""
    shares = (max(sk_share, 1e-9), max(1 - sk_share, 1e-9))
    due = [(np.cumsum(part.tokens) - part.tokens) / share for part, share in zip((sk, text), shares, strict=True)]
    return (sk + text)[np.argsort(np.concatenate(due), kind="stable")]
