"""What reviewers of ska-open are shown: a question, its gold, what it needs, and the noise that is most like it."""

from kbbench_hf.benchmarks.reviews import ReviewItem
from kbbench_hf.benchmarks.ska_bench.configs import STANDARD
from kbbench_hf.benchmarks.ska_bench.units import SUBSETS, Instance, Pool
from kbbench_hf.building.ska_bench.audit import seen
from kbbench_hf.building.ska_bench.audit.seen import Seen, Unit
from kbbench_hf.building.ska_bench.testbeds import sample
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.files.datasets import DatasetFolder

NEAREST = 5
"""How many noise units are shown."""


def items(folder: DatasetFolder, subset: str, size: int) -> list[ReviewItem]:
    """Return what people are shown of a subset: all instances that wait for review, then a fixed sample of the others.

    Raises:
        UsageError: an unknown subset, or one that the dataset has not whole.
    """
    if subset not in SUBSETS:
        raise unknown_name("subset", subset, SUBSETS)
    configs = folder.configs()
    waiting, standard = f"unreviewed_{subset}", f"noise_{subset}_{STANDARD[subset]}"
    if not {f"instances_{subset}", f"pool_{subset}", standard} <= configs.keys():
        raise UsageError(f"{folder.path} has no {subset} with instances, pool and {standard}. Build it whole.")
    pool = Pool.from_rows(folder.rows(f"pool_{subset}", "full"))
    found: list[ReviewItem] = []
    for config, split in ((waiting, "unreviewed"), (standard, "test")):
        if config not in configs or split not in configs[f"instances_{subset}"]:
            continue
        instances = [Instance.from_row(row) for row in folder.rows(f"instances_{subset}", split)]
        chosen = {each.id: each for each in (instances if split != "test" else sample(instances, size))}
        place = {name: n for n, name in enumerate(chosen)}
        shown = seen(folder, config, configs[config][0] if split != "test" else "test", chosen, pool, len)
        found += [_item(each) for each in sorted(shown, key=lambda each: place[each.instance.id])]
    return found


def _item(shown: Seen) -> ReviewItem:
    instance = shown.instance
    needed = {word for unit in shown.units if unit.is_positive for word in unit.words}

    def likeness(unit: Unit) -> tuple[float, int]:
        return shown.overlap_idf(unit) + shown.quoted_idf(unit), len(unit.words & needed)

    noise = sorted((unit for unit in shown.units if not unit.is_positive), key=likeness, reverse=True)
    aliases = instance.answer_aliases or ((),) * len(instance.answers)
    return ReviewItem(
        instance.id,
        instance.question,
        [(answer, *names) for answer, names in zip(instance.answers, aliases, strict=True)],
        [unit.cells for unit in shown.units if unit.is_positive],
        [unit.cells for unit in noise[:NEAREST]],
        shown.header,
        {
            name: value
            for name, value in (("table", instance.title), ("source", instance.source), ("method", instance.method))
            if value
        },
    )
