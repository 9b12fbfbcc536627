"""Decoys: entities like those of the evidence, whose neighbourhoods stand in the noise too."""

import hashlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence

from kbbench_hf.benchmarks.ska_bench.units import SEED, Cells

PER_ENTITY = 3
NEAREST = 32
"""Decoys are drawn from so many entities of the same role whose numbers of triples are nearest."""


class Decoys:
    """Finds entities that play the same role as others (head or tail of a relation) and have about as many triples."""

    def __init__(self, triples: Sequence[Cells]) -> None:
        self._degree = Counter(name for head, _, tail in triples for name in (head, tail))
        playing: dict[tuple[str, int], set[str]] = {}
        for triple in triples:
            for side in (0, 2):
                playing.setdefault((triple[1], side), set()).add(triple[side])
        self._playing = {
            role: sorted((self._degree[name], name) for name in entities) for role, entities in playing.items()
        }

    def of(self, identifier: str, positives: Iterable[Cells]) -> tuple[str, ...]:
        """Return decoys for every entity of these triples, none of them in the triples; the id decides which."""
        roles: dict[str, tuple[str, int]] = {}
        for triple in sorted(positives):
            for side in (0, 2):
                roles.setdefault(triple[side], (triple[1], side))
        found: dict[str, None] = {}
        for name, role in sorted(roles.items()):
            like = [other for other in self._near(name, role) if other not in roles and other not in found]
            found |= dict.fromkeys(sorted(like, key=lambda other: _key(f"{identifier}|{other}"))[:PER_ENTITY])
        return tuple(found)

    def _near(self, name: str, role: tuple[str, int]) -> list[str]:
        playing = self._playing[role]
        place = bisect_left(playing, (self._degree[name], name))
        start = max(0, min(place - NEAREST // 2, len(playing) - NEAREST))
        return [other for _, other in playing[start : start + NEAREST] if other != name]


def _key(text: str) -> bytes:
    return hashlib.sha256(f"{SEED}|decoy|{text}".encode()).digest()
