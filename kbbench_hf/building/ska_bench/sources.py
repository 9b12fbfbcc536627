"""The instances and pools of ska-open: what the makers of its subsets find in a folder of raw files."""

import csv
import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from kbbench_hf.benchmarks.ska_bench.units import SEED, SUBSETS, Cells, Instance, Release
from kbbench_hf.building.ska_bench import kg_text, metaqa, table, table_text

_T = TypeVar("_T")
Maker = Callable[[Path], Release]
"""Reads its own files of a source folder; returns the instances of one subset, and the pool of that subset.

Raises `DataError` where a file is absent or malformed.
"""
MAKERS: dict[str, Maker] = {
    "kg": metaqa.make,
    "table": table.make,
    "kg_text": kg_text.make,
    "table_text": table_text.make,
}
"""Subset -> its maker."""
REMOVED = Path(__file__).with_name("removed.csv")
"""Instances that a version took out, with the reason: they are never made again."""
DEMO = 20
"""How many instances of a subset are for demonstrations; the test instances share no topic or table with them."""


def make(source: Path, subsets: Sequence[str] = SUBSETS) -> Release:
    """Return the instances of these subsets, by subset and id, and their pools.

    Raises:
        DataError: a file that a maker needs is absent or malformed.
    """
    with REMOVED.open(encoding="utf-8", newline="") as rows:
        removed = {row["id"] for row in csv.DictReader(rows)}
    made = [MAKERS[subset](source) for subset in subsets if subset in MAKERS]
    kept = [[with_aliases(each) for each in release.instances if each.id not in removed] for release in made]
    instances = [instance for members in kept for instance in with_demo(members)]
    pools = {subset: pool for release in made for subset, pool in release.pools.items()}
    return Release(instances, pools, tuple(each for release in made for each in release.counts))


def with_aliases(instance: Instance) -> Instance:
    """Return an instance whose answers have no alias twice; of a possessive answer the plain name is one.

    >>> with_aliases(Instance("a", "kg", "?", ("Zee Tamil's",), "g", answer_aliases=(("Zee Tamil's",),))).answer_aliases
    (('Zee Tamil',),)
    """
    given = instance.answer_aliases or ((),) * len(instance.answers)
    possessives = [(answer[:-2],) if answer.endswith("'s") else () for answer in instance.answers]
    aliases = tuple(
        tuple(dict.fromkeys(alias for alias in (*some, *more) if alias != answer))
        for answer, some, more in zip(instance.answers, given, possessives, strict=True)
    )
    return replace(instance, answer_aliases=aliases if any(aliases) else ())


def with_demo(instances: Iterable[Instance], size: int = DEMO) -> list[Instance]:
    """Return the instances of one subset by id, so many of them as `demo`: all of a topic or table, or none.

    Topics and tables are drawn in the order of their hashes; those with unreviewed instances stay as they are.
    """
    ordered = sorted(instances, key=lambda each: each.id)
    by_key: defaultdict[str, list[Instance]] = defaultdict(list)
    for instance in ordered:
        by_key[instance.split_key].append(instance)
    demo: set[str] = set()
    for key in sorted(by_key, key=lambda key: hashlib.sha256(f"{SEED}|demo|{key}".encode()).digest()):
        members = {each.id for each in by_key[key]}
        if len(demo) + len(members) <= size and all(each.split == "test" for each in by_key[key]):
            demo |= members
    return [replace(each, split="demo") if each.id in demo else each for each in ordered]


def in_hash_order(release: Release) -> Release:
    """Return a release whose triples and passages are numbered by the hashes of their cells, whatever their order was.

    Contexts list the noise of graphs and texts by number: in this order, which says nothing.
    """
    instances, pools = sorted(release.instances, key=lambda each: each.id), dict(release.pools)
    for subset, pool in release.pools.items():
        groups = {} if subset.startswith("table") else {group: _by_hash(units) for group, units in pool.sk.items()}
        text = _by_hash(pool.text)
        of_links = [groups.get(group, {}) for group in pool.text_groups] or [next(iter(groups.values()), {})] * len(
            text
        )
        pools[subset] = replace(
            pool,
            sk={group: _moved(units, groups.get(group)) for group, units in pool.sk.items()},
            text=_moved(pool.text, text),
            text_origins=_moved(pool.text_origins, text),
            links={text[n]: tuple(sorted(of_links[n][m] for m in links)) for n, links in sorted(pool.links.items())},
            text_groups=_moved(pool.text_groups, text),
        )
        for place, each in enumerate(instances):
            if each.subset == subset:
                sk = groups.get(each.group)
                positive, withheld = (
                    tuple(sorted(sk[n] for n in numbers)) if sk else numbers
                    for numbers in (each.positive_sk, each.withheld_sk)
                )
                positive_text, own = (
                    tuple(sorted(text[n] for n in numbers)) for numbers in (each.positive_text, each.own_text)
                )
                instances[place] = replace(
                    each, positive_sk=positive, withheld_sk=withheld, positive_text=positive_text, own_text=own
                )
    return release._replace(instances=instances, pools=pools)


def _by_hash(units: Sequence[Cells]) -> dict[int, int]:
    """Return old -> new number."""
    keys = [hashlib.sha256("\0".join(cells).encode()).digest() for cells in units]
    return {old: new for new, old in enumerate(sorted(range(len(units)), key=lambda n: keys[n]))}


def _moved(values: Sequence[_T], numbers: dict[int, int] | None) -> list[_T]:
    return [values[old] for old in sorted(range(len(values)), key=lambda n: numbers[n] if numbers else n)]
