"""Selection of aligned sentences (TekGen's rule), and splits by groups with shared facts or by subject (WebNLG)."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from kbbench_hf.files.datasets import Row
from kbbench_hf.metrics.triples import name_key, triple_key

SHARES = {"train": 0.4, "validation": 0.3, "test": 0.3}
"""The shares of Wikidata-TekGen."""
MOST = 200
"""Sentences of a relation, as in Wikidata-TekGen."""
FEWEST = 10
"""A relation with fewer of 1,000 or more sentences is dropped; of fewer sentences, one with less than 1 %."""


class SelectedRows(NamedTuple):
    """The selected rows, without the triples of dropped relations, and how many sentences these relations had."""

    rows: list[Row]
    dropped: dict[str, int]


def select_rows(rows: Sequence[Row], most: int = MOST) -> SelectedRows:
    """Return the rows that TekGen's rule takes: the first 200 of each relation, frequent entities last.

    A triple goes to the end of its relation's queue if its subject or object, with that relation, was in more than a
    tenth of 200 triples before it. A row is kept if it is among the first of some relation, with all its triples.

    Differs from upstream: relations of too few sentences for three splits are dropped, and named.
    """
    queues: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    seen: Counter[tuple[str, ...]] = Counter()
    for position, row in enumerate(rows):
        for triple in row["triples"]:
            ends = [(triple["rel"], part, name_key(triple[part])) for part in ("sub", "obj")]
            seen.update(ends)
            queues[triple["rel"]][any(seen[end] > most / 10 for end in ends)].append(position)
    fewest = fewest_of(len(rows))
    taken: set[int] = set()
    dropped: dict[str, int] = {}
    for relation, (first, last) in queues.items():
        waiting = list(dict.fromkeys((*first, *last)))
        if len(waiting) < fewest:
            dropped[relation] = len(waiting)
        else:
            taken.update(waiting[:most])
    kept = [_without(rows[position], dropped) for position in sorted(taken)]
    return SelectedRows([row for row in kept if row["triples"]], dropped)


def fewest_of(n_sentences: int) -> int:
    """Return how many of so many sentences a relation needs.

    >>> [fewest_of(n) for n in (40, 200, 700, 5000)]
    [1, 2, 7, 10]
    """
    return max(1, min(FEWEST, n_sentences // 100))


def _without(row: Row, dropped: Mapping[str, int]) -> Row:
    places = [place for place, each in enumerate(row["triples"]) if each["rel"] not in dropped]
    return row | {column: [row[column][place] for place in places] for column in ("triples", "grades")}


def split_by_group(rows: Sequence[Row], seed: int = 0, shares: Mapping[str, float] = SHARES) -> list[str]:
    """Return the split of each row: the shares of every relation, as far as groups allow.

    Rows that share a sentence or a triple are of one group, and stay together. The largest groups are assigned first;
    each goes to the split that lacks most of its relations.

    Differs from upstream: TekGen draws triples one by one, without a seed, so that a sentence or fact can be in two
    splits.
    """
    relations = [Counter({triple["rel"] for triple in row["triples"]}) for row in rows]
    total: Counter[str] = sum(relations, Counter())
    held: dict[str, Counter[str]] = {split: Counter() for split in shares}
    placed = dict.fromkeys(shares, 0)
    splits = [""] * len(rows)

    def order(group: Sequence[int]) -> tuple[int, bytes]:
        return -len(group), hashlib.sha256(f"{seed} {min(rows[each]['id'] for each in group)}".encode()).digest()

    for group in sorted(connected_groups([row_marks(row) for row in rows]), key=order):
        brings: Counter[str] = sum((relations[each] for each in group), Counter())

        def lacks(split: str, brings: Counter[str] = brings) -> tuple[float, float]:
            of_relations = sum(n * (shares[split] - held[split][name] / total[name]) for name, n in brings.items())
            return round(of_relations, 9), shares[split] - placed[split] / len(rows)

        chosen = max(shares, key=lacks)
        held[chosen] += brings
        placed[chosen] += len(group)
        for position in group:
            splits[position] = chosen
    return splits


def row_marks(row: Row) -> set[Hashable]:
    """Return what a row can share with others of its group: its sentence, and each triple."""
    triples = [triple_key((each["sub"], each["rel"], each["obj"])) for each in row["triples"]]
    return {("sentence", name_key(row["sentence"])), *(("triple", each) for each in triples)}


def connected_groups(keys: Sequence[Iterable[Hashable]]) -> list[list[int]]:
    """Return the groups of places that are connected by common keys, each ascending, in the order of their first.

    >>> connected_groups([["a"], ["b", "c"], ["a", "d"], ["c"], ["e"]])
    [[0, 2], [1, 3], [4]]
    """
    numbers: dict[Hashable, int] = {}
    pairs = [(place, numbers.setdefault(key, len(numbers))) for place, each in enumerate(keys) for key in each]
    n = len(keys) + len(numbers)
    rows, columns = [place for place, _ in pairs], [len(keys) + number for _, number in pairs]
    _, labels = connected_components(coo_array(([1] * len(pairs), (rows, columns)), shape=(n, n)), directed=False)
    groups: dict[int, list[int]] = defaultdict(list)
    for place, label in enumerate(labels[: len(keys)].tolist()):
        groups[label].append(place)
    return list(groups.values())


def split_by_subject(subjects: Iterable[Iterable[str]]) -> list[str]:
    """Return the split of each row, given its subjects in the release's order, as DBpedia-WebNLG was split.

    A row with a subject of the test split goes to test. So does one without a subject of train, while test has fewer
    than twice as many rows as train has subjects. Any other goes to train. Nothing is random, and the order counts. A
    test row can add a subject that train has too: facts can be in both splits.

    Source: cenguix/Text2KGBench at commit 50a3d25, src/benchmark/dbpedia_webnlg_sentence_alignment.ipynb.

    >>> split_by_subject([["a"], ["b"], ["b", "c"], ["c"], ["a"]])
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
