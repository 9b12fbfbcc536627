"""Which aligned sentences go into the benchmark: at most so many of a relation, the rarer entities first."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kbbench_hf.files.datasets import Row
from kbbench_hf.metrics.triples import fold

MOST = 200
"""Sentences of a relation, as in Wikidata-TekGen."""
FEWEST = 10
"""A relation of fewer sentences is dropped where there are 1,000 sentences; of fewer, of less than one in a hundred."""


class Kept(NamedTuple):
    """The rows that are kept, without the triples of dropped relations, and how many sentences these had."""

    rows: list[Row]
    dropped: dict[str, int]


def keep(rows: Sequence[Row], most: int = MOST) -> Kept:
    """Return the rows that TekGen's rule takes: of each relation the first 200, crowded entities at the back.

    A triple goes to the back of its relation's queue if its subject or object, with that relation, stood in more than
    a tenth of 200 triples before it. A row is kept if it is among the first of some relation, with all its triples.

    Differs from upstream: relations of too few sentences for three splits are dropped, and named.
    """
    queues: dict[str, list[int]] = {}
    last: dict[str, list[int]] = {}
    seen: Counter[tuple[str, ...]] = Counter()
    for position, row in enumerate(rows):
        for triple in row["triples"]:
            relation = triple["rel"]
            ends = [(relation, part, fold(triple[part])) for part in ("sub", "obj")]
            seen.update(ends)
            crowded = any(seen[end] > most / 10 for end in ends)
            (last if crowded else queues).setdefault(relation, []).append(position)
    fewest = fewest_of(len(rows))
    taken: set[int] = set()
    dropped: dict[str, int] = {}
    for relation in dict.fromkeys((*queues, *last)):
        waiting = list(dict.fromkeys((*queues.get(relation, ()), *last.get(relation, ()))))
        if len(waiting) < fewest:
            dropped[relation] = len(waiting)
        else:
            taken.update(waiting[:most])
    kept = [_without(rows[position], dropped) for position in sorted(taken)]
    return Kept([row for row in kept if row["triples"]], dropped)


def fewest_of(n_sentences: int) -> int:
    """Return how many sentences a relation needs where there are so many.

    >>> [fewest_of(n) for n in (40, 200, 700, 5000)]
    [1, 2, 7, 10]
    """
    return max(1, min(FEWEST, n_sentences // 100))


def _without(row: Row, dropped: Mapping[str, int]) -> Row:
    places = [place for place, each in enumerate(row["triples"]) if each["rel"] not in dropped]
    return row | {column: [row[column][place] for place in places] for column in ("triples", "grades")}
