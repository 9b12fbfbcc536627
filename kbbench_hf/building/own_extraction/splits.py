"""Rows shared out to splits: by groups that share a sentence or a triple, or as WebNLG's were, by subject."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence

from kbbench_hf.files.datasets import Row
from kbbench_hf.metrics.triples import fold, triple_key

SHARES = {"train": 0.4, "validation": 0.3, "test": 0.3}
"""The shares of Wikidata-TekGen."""


def by_group(rows: Sequence[Row], seed: int = 0, shares: Mapping[str, float] = SHARES) -> list[str]:
    """Return the split of each row: of every relation the shares, as far as groups allow.

    Rows that share a sentence or a triple are of one group, and stay together. The largest groups are shared out
    first; each goes to the split that lacks most of its relations.

    Differs from upstream: TekGen draws triples one by one, without a seed, so that sentences and facts stand on both
    sides.
    """
    groups = grouped([row_marks(row) for row in rows])
    members: dict[int, list[int]] = defaultdict(list)
    for position, group in enumerate(groups):
        members[group].append(position)
    relations = [Counter({triple["rel"] for triple in row["triples"]}) for row in rows]
    total: Counter[str] = sum(relations, Counter())
    held: dict[str, Counter[str]] = {split: Counter() for split in shares}
    placed = dict.fromkeys(shares, 0)
    splits = [""] * len(rows)

    def draw(group: int) -> bytes:
        return hashlib.sha256(f"{seed} {min(rows[each]['id'] for each in members[group])}".encode()).digest()

    for group in sorted(members, key=lambda each: (-len(members[each]), draw(each))):
        brings: Counter[str] = sum((relations[each] for each in members[group]), Counter())

        def lacks(split: str, brings: Counter[str] = brings) -> tuple[float, float]:
            of_relations = sum(
                n * (shares[split] - held[split][relation] / total[relation]) for relation, n in brings.items()
            )
            return round(of_relations, 9), shares[split] - placed[split] / len(rows)

        chosen = max(shares, key=lacks)
        held[chosen] += brings
        placed[chosen] += len(members[group])
        for position in members[group]:
            splits[position] = chosen
    return splits


def row_marks(row: Row) -> list[Hashable]:
    """Return what a row shares with others of its group: its sentence, and each triple."""
    triples = [triple_key((each["sub"], each["rel"], each["obj"])) for each in row["triples"]]
    return [("sentence", fold(row["sentence"])), *(("triple", each) for each in triples)]


def grouped(marks: Sequence[Iterable[Hashable]]) -> list[int]:
    """Return the group of each row: rows are of one that have a mark in common, or are joined by others that do.

    >>> grouped([["a"], ["b", "c"], ["a", "d"], ["c"], ["e"]])
    [0, 1, 0, 1, 4]
    """
    above = list(range(len(marks)))

    def top(place: int) -> int:
        while above[place] != place:
            above[place] = above[above[place]]
            place = above[place]
        return place

    first: dict[Hashable, int] = {}
    for place, each in enumerate(marks):
        for mark in each:
            one, other = top(place), top(first.setdefault(mark, place))
            above[max(one, other)] = min(one, other)
    return [top(place) for place in range(len(marks))]


def by_subject(subjects: Iterable[Iterable[str]]) -> list[str]:
    """Return the split of each row, given its subjects in the release's order, as DBpedia-WebNLG's were split.

    A row with a subject of the test split goes there; one that shares none with train goes to test, while that has
    fewer than twice as many rows as train has subjects; any other goes to train. Nothing is drawn, and the order
    counts. A row of test can bring along a subject that train has: facts can stand on both sides.

    Source: cenguix/Text2KGBench at commit 50a3d25, src/benchmark/dbpedia_webnlg_sentence_alignment.ipynb.

    >>> by_subject([["a"], ["b"], ["b", "c"], ["c"], ["a"]])
    ['train', 'test', 'test', 'test', 'train']
    """
    of_train: set[str] = set()
    of_test: set[str] = set()
    splits: list[str] = []
    for each in subjects:
        found = set(each)
        n_test = splits.count("test")
        to_test = bool(found & of_test) or (n_test < 2 * len(of_train) and not found & of_train)
        (of_test if to_test else of_train).update(found)
        splits.append("test" if to_test else "train")
    return splits
