"""The questions of mini-ska, from the data beside its build script."""

import random
import runpy
from dataclasses import replace
from functools import cache
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.units import Instance, InstanceSet, UnitPool

WORLD = Path(__file__).parents[4] / "dataset_scripts" / "mini-ska" / "world.py"


@cache
def release() -> InstanceSet:
    """Return what mini-ska is built from."""
    made: InstanceSet = runpy.run_path(str(WORLD))["release"]()
    return made


def shuffled(made: InstanceSet, seed: int) -> InstanceSet:
    """Return the same questions in another order, on graphs and texts in another order."""
    order = random.Random(seed)
    instances, pools = list(made.instances), dict(made.pools)
    order.shuffle(instances)
    for subset, pool in made.pools.items():
        sk = (
            {} if subset.startswith("table") else {group: _order(order, len(units)) for group, units in pool.sk.items()}
        )
        text = _order(order, len(pool.text))
        pools[subset] = _moved(pool, sk, text)
        instances = [_renumbered(each, sk, text) if each.subset == subset else each for each in instances]
    return InstanceSet(instances, pools)


def _order(order: random.Random, n: int) -> list[int]:
    """Return for each old number its new one."""
    numbers = list(range(n))
    order.shuffle(numbers)
    return numbers


def _moved(pool: UnitPool, sk: dict[str, list[int]], text: list[int]) -> UnitPool:
    groups = dict(pool.sk)
    for group, numbers in sk.items():
        groups[group] = [cells for _, cells in sorted(zip(numbers, pool.sk[group], strict=True))]
    of_links = next(iter(sk.values()), [])
    return replace(
        pool,
        sk=groups,
        text=[cells for _, cells in sorted(zip(text, pool.text, strict=True))],
        links={text[n]: tuple(of_links[m] for m in links) for n, links in pool.links.items()},
    )


def _renumbered(each: Instance, sk: dict[str, list[int]], text: list[int]) -> Instance:
    of_group = sk.get(each.group)
    if of_group:
        positive, withheld = (tuple(of_group[n] for n in numbers) for numbers in (each.positive_sk, each.withheld_sk))
        each = replace(each, positive_sk=positive, withheld_sk=withheld)
    own, told = (tuple(text[n] for n in numbers) for numbers in (each.own_text, each.positive_text))
    return replace(each, own_text=own, positive_text=told)
