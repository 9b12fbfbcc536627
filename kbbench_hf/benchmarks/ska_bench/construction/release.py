"""The instances and pools of ska-open: what the makers of its subsets find in a folder of raw files."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.construction import metaqa, table
from kbbench_hf.benchmarks.ska_bench.units import SUBSETS, Instance, Pool, Release

Maker = Callable[[Path], Release]
"""Reads its own files of a source folder; returns the instances of one subset, and the pool of that subset.

Raises `DataError` where a file is absent or malformed.
"""
MAKERS: dict[str, Maker] = {"kg": metaqa.make, "table": table.make}
"""Subset -> its maker."""


def make(source: Path, subsets: Sequence[str] = SUBSETS) -> Release:
    """Return the instances of these subsets, by subset and id, and their pools.

    Raises:
        DataError: a file that a maker needs is absent or malformed.
    """
    made = [MAKERS[subset](source) for subset in subsets if subset in MAKERS]
    instances = [instance for release in made for instance in sorted(release.instances, key=lambda each: each.id)]
    return Release(instances, {subset: pool for release in made for subset, pool in release.pools.items()})


def merged(subset: str, parts: Sequence[Release]) -> Release:
    """Return releases of one subset as one: their groups side by side, their passages numbered on.

    >>> texts = [Pool(text=[("", word)]) for word in ("a", "b")]
    >>> asked = [Instance(word, "kg_text", "?", ("x",), word, positive_text=(0,)) for word in ("a", "b")]
    >>> both = merged("kg_text", [Release([i], {"kg_text": p}) for i, p in zip(asked, texts)])
    >>> [i.positive_text for i in both.instances], both.pools["kg_text"].text
    ([(0,), (1,)], [('', 'a'), ('', 'b')])
    """
    instances: list[Instance] = []
    whole = Pool({}, [], {}, {}, {}, [])
    for release in parts:
        pool, start = release.pools[subset], len(whole.text)
        for instance in release.instances:
            positive, own = (tuple(n + start for n in part) for part in (instance.positive_text, instance.own_text))
            instances.append(replace(instance, positive_text=positive, own_text=own))
        whole = Pool(
            {**whole.sk, **pool.sk},
            [*whole.text, *pool.text],
            {**whole.headers, **pool.headers},
            {**whole.links, **{number + start: links for number, links in pool.links.items()}},
            {**whole.origins, **pool.origins},
            [*whole.text_origins, *pool.text_origins],
        )
    return Release(instances, {subset: whole})
