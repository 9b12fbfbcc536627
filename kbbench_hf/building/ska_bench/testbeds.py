"""Testbeds: which units each context shows, and in which order, at any token budget.

`dataset.build` makes them of every release, ska-bench and the private split too. `ROW_SCHEMA` is a stored format. Which
units a row shows, their order and `context_sha256` stay the same: scores refer to these contexts.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kbbench_hf.benchmarks.ska_bench.testbeds import (
    BUDGETS,
    HARDNESS,
    HARDNESS_BUDGETS,
    NEWEST,
    STANDARD,
    Config,
    built_configs,
)
from kbbench_hf.benchmarks.ska_bench.token_counts import tokenizer
from kbbench_hf.benchmarks.ska_bench.units import SUBSETS, Instance, RenderedContext, UnitPool, render_context
from kbbench_hf.building.ska_bench.noise import NoiseLibrary
from kbbench_hf.building.ska_bench.rejection_twins import Twin, TwinMaker
from kbbench_hf.building.ska_bench.unit_orders import Units, seeded_hash
from kbbench_hf.files.datasets import SMALL_STEPS, Row

LONG_SAMPLE = {"test": 50, "demo": 5}
"""How many instances of a subset the long budgets are built for."""
ENOUGH = 4
"""How many times a budget the noise has from which twins are made."""
UNEVEN = 0.02
"""How much longer than the other one a context of one level of hardness may be."""
FILLED, SAME = 0.9, 0.02
"""A budget's config exists where its contexts reach this share of it in the mean, and fewer than this share of them are
those of the budget before."""

_COLUMN_TYPES = {
    "text": pa.string(),
    "number": pa.int32(),
    "flag": pa.bool_(),
    "texts": pa.list_(pa.string()),
    "numbers": pa.list_(pa.int32()),
    "order": pa.list_(pa.int32()),
    "lists": pa.list_(pa.list_(pa.string())),
}


def column_schema(columns: str) -> pa.Schema:
    """Return a schema of columns, given as types with their columns: "text id title, numbers links"."""
    named = [(name, kind) for kind, *names in map(str.split, columns.split(",")) for name in names]
    metadata = {"order": SMALL_STEPS}
    return pa.schema([pa.field(name, _COLUMN_TYPES[k], metadata=metadata.get(k)) for name, k in named])


ROW_SCHEMA = column_schema(
    "text id instance_id testbed setting, number budget, order sk_units text_units, number n_required, "
    "flag answerable, texts removed, number kb_tokens, text status tokenizer context_sha256"
)
"""`status`: `ok`; `short`, the noise ran out before the budget; `over_budget`, the positives alone exceed it, and
nothing is shown or scored. `removed`: the units (`sk:12`, `text:3`) that a rejection twin lost; a table's rows stay
there with a cell emptied."""


@dataclass(frozen=True)
class UnitOrder:
    """Orders the units of one instance's contexts.

    Noise has the order of the pool, whose triples and passages are sorted by hashes; rows of the instance's own table
    keep the table's order, and other rows are among them at ranks drawn from hashes. Where a setting has no depth, each
    positive gets a rank drawn from a hash, uniform over its section.
    """

    instance: Instance
    first_other: int
    """The number of the first row that is not of the instance's own table."""

    def sections(self, positives: Units, noise: Units, config: Config) -> tuple[Units, Units]:
        """Return the structured and the text section of a context, each in its final order, positives among the noise.

        A depth puts the positives of each section together after that share of its noise.
        """
        for attempt in count():  # hashes may happen to put all positives first; "random" must differ from "prefix"
            name = f"{self.instance.id}|place|{attempt}"
            sk, text = (
                self._section(positives[positives.in_text == side], noise[noise.in_text == side], config, name)
                for side in (False, True)
            )
            if config.depth is not None or not _positives_lead(positives, sk, text):
                break
        return sk, text

    def _section(self, positives: Units, noise: Units, config: Config, name: str) -> Units:
        noise = self._noise(noise, shuffled=config.setting == "random" and self.instance.is_table)
        if config.depth is not None:
            ranks = round(config.depth * len(noise)) + np.arange(len(positives))
            positives = positives if self.instance.is_table else positives.shuffled(name)
        else:
            hashes = (seeded_hash(f"{name}|{key}")[:8] for key in positives.keys.tolist())
            ranks = draw_ranks([int.from_bytes(each, "big") for each in hashes], len(noise))
        left = np.delete(np.arange(len(positives) + len(noise)), ranks)
        return (positives + noise)[np.argsort(np.concatenate([ranks, left]), kind="stable")]

    def _noise(self, noise: Units, *, shuffled: bool) -> Units:
        noise = noise[np.argsort(noise.numbers, kind="stable")]
        if not self.instance.is_table or noise.in_text.any():
            return noise
        mixture = noise.shuffled(f"{self.instance.id}|among")
        places, own = np.arange(len(mixture)), np.flatnonzero(mixture.numbers < self.first_other)
        if not shuffled:
            places[own] = own[np.argsort(mixture.numbers[own], kind="stable")]
        return mixture[places]


def draw_ranks(draws: Sequence[int], n_noise: int) -> NDArray[np.int64]:
    """Return a distinct rank for each draw of 64 bits, among so many others: uniform, a taken one yields to the next.

    >>> draw_ranks([0, 2**63, 2**63], n_noise=1).tolist()
    [0, 2, 3]
    """
    taken, places = list[int](), len(draws) + n_noise
    for draw in draws:
        first = draw * places >> 64
        taken.append(next(rank % places for rank in count(first) if rank % places not in taken))
    return np.array(taken, dtype=np.int64)


def _positives_lead(positives: Units, *sections: Units) -> bool:
    """Return whether the positives come first in every section with both them and noise, and there is one."""
    leads = []
    for in_text, section in zip((False, True), sections, strict=True):
        wanted = positives.numbers[positives.in_text == in_text]
        if 0 < len(wanted) < len(section):
            leads.append(np.isin(section.numbers[: len(wanted)], wanted).all())
    return bool(leads) and all(leads)


class BudgetFill(NamedTuple):
    """How well the test rows of a noise config fill its budget."""

    n: int
    fill: float
    """Mean share of the budget that is reached."""
    same: float
    """Share of the contexts that are those of the budget before."""

    @property
    def exists(self) -> bool:
        """Whether distinct units fill it."""
        return self.fill >= FILLED and self.same < SAME


class Testbeds(NamedTuple):
    """The testbeds of a release, with counts for its card."""

    tables: dict[str, dict[str, pa.Table]]
    """Config -> split -> table."""
    budgets: dict[str, BudgetFill]
    """Noise config -> how well it fills its budget, also of those that are left out for it."""
    left_out: dict[str, int]
    """Config -> how many test instances have no row in it: no twins, or too little noise of its hops."""


def sample(instances: Iterable[Instance], size: int) -> list[Instance]:
    """Return a fixed sample of instances, in the order of hashes of their ids; a larger one contains a smaller one."""
    return sorted(instances, key=lambda instance: seeded_hash(f"sample|{instance.id}"))[:size]


class RowMaker:
    """Makes the testbed rows of one instance from the units of its subset; rows have the columns of `ROW_SCHEMA`."""

    def __init__(self, instance: Instance, library: NoiseLibrary) -> None:
        self.instance, self.pool, self.revision = instance, library.pool, library.revision
        self.units = library.context_units(instance)
        self.order = UnitOrder(instance, len(self.pool.sk[instance.group]) if instance.is_table else 0)

    @property
    def fixed(self) -> int:
        """Tokens that every context shows: the header and the positives."""
        return self.units.header_tokens + self.units.positives.n_tokens

    def noise(self, budget: int, source: Units | None = None) -> tuple[Units, str]:
        """Return the noise that fits beside the fixed units, and `ok`; or all of it, and `short`, where it all fits."""
        source = self.units.noise if source is None else source
        noise = source.fitting(budget - self.fixed)
        return noise, "ok" if len(noise) < len(source) else "short"

    @cached_property
    def twins(self) -> tuple[Sequence[Twin], Units]:
        """The rejection twins of its standard context, none or two, and the noise of which they show the beginning.

        From revision 2 on no noise tells what one of them lost; other noise takes its place.
        """
        budget = BUDGETS[STANDARD[self.instance.subset]]
        source = self.units.noise.fitting(ENOUGH * budget)
        while True:
            maker = TwinMaker(self.instance, self.pool, self.units, self.noise(budget, source)[0], self.revision)
            twins = maker.make_twins() or ()
            if self.revision == 1 or not (telling := maker.find_telling(twins, source)).any():
                return twins, source
            source = source[~telling]

    def rows(self, config: Config) -> list[Row]:
        """Return the rows of a config: both twins for a control, one row or none otherwise.

        There is none where an instance has no twins, or too little noise of a level of hardness.
        """
        if config.testbed == "hardness":
            return self._hardness(config)
        if config.testbed == "rejection_noise":
            return [self._noise_alone(config)]
        if not config.testbed.startswith("rejection"):
            return [self._row(config, *self.noise(config.budget))]
        twins, source = self.twins
        if self.fixed > config.budget:
            return []
        twins = twins if config.testbed == "rejection_control" else twins[:1]
        return [self._row(config, *self.noise(config.budget, source), twin) for twin in twins]

    def _noise_alone(self, config: Config) -> Row:
        """Return the row without positives: noise up to the budget, without units that state an answer."""
        noise, budget = self.units.noise, config.budget + self.units.positives.n_tokens
        maker = TwinMaker(self.instance, self.pool, self.units, self.noise(budget)[0], self.revision)
        stating = [number if in_text else -1 - number for in_text, number in maker.stating_units()]
        noise = noise[~np.isin(np.where(noise.in_text, noise.numbers, -1 - noise.numbers), stating)]
        return {**self._row(config, *self.noise(budget, noise), positives=noise[:0]), "answerable": False}

    def _hardness(self, config: Config) -> list[Row]:
        """Return the row with noise of the config's hops; none where the levels fill no budget, or not alike."""
        noise = self.units.noise
        of_level = {hops: noise[(noise.hops >= hops[0]) & (noise.hops <= hops[1])] for hops in HARDNESS.values()}
        reached = self.fixed + min(units.n_tokens for units in of_level.values())
        budget = max((size for size in HARDNESS_BUDGETS if size <= reached), default=0)
        if self.fixed >= budget or config.hops is None:
            return []
        filled = {hops: units.filling(budget - self.fixed) for hops, units in of_level.items()}
        lengths = [self.fixed + units.n_tokens for units in filled.values()]
        if max(lengths) - min(lengths) > UNEVEN * max(lengths):
            return []
        return [self._row(replace(config, budget=budget), filled[config.hops], "ok")]

    def _row(
        self, config: Config, noise: Units, status: str, twin: Twin | None = None, positives: Units | None = None
    ) -> Row:
        instance, positives = self.instance, self.units.positives if positives is None else positives
        for n_noise in range(len(noise), -1, -1):  # a twin's rows are longer, so that less noise may fit
            sk, text = self.order.sections(positives, noise[:n_noise], config)
            if twin:
                sk, text = (twin.apply(section, self.units.emptied) for section in (sk, text))
            context = render_context(instance, self.pool, sk.numbers.tolist(), text.numbers.tolist())
            tokens = self.units.header_tokens + sk.n_tokens + text.n_tokens
            if tokens <= config.budget:
                break
        else:
            sk = text = positives[:0]
            status, context, tokens = "over_budget", RenderedContext("", [], [], [], []), 0
        return {
            "id": f"{instance.id}:answerable" if twin and twin.answerable else instance.id,
            "instance_id": instance.id,
            "testbed": config.testbed,
            "setting": config.setting,
            "budget": config.budget,
            "sk_units": sk.numbers,
            "text_units": text.numbers,
            "n_required": len(self.units.positives),
            "answerable": twin is None or twin.answerable,
            "removed": twin.names if twin else [],
            "kb_tokens": tokens,
            "status": status,
            "tokenizer": tokenizer().name,
            "context_sha256": hashlib.sha256(context.all_text.encode()).hexdigest()[:16],
        }


def build_testbeds(
    instances: Sequence[Instance],
    pools: Mapping[str, UnitPool],
    wanted: Sequence[str] | None = None,
    advance: Callable[[], object] = lambda: None,
    every_budget: bool = False,
    revision: int = NEWEST,
) -> Testbeds:
    """Return the testbeds of all instances, with splits `test` and `demo`; unreviewed ones have a config of their own.

    Args:
        instances: the instances of a release.
        pools: subset -> its pool.
        wanted: names of configs; all of the subsets that have instances by default.
        advance: called once for each instance, for a progress bar.
        every_budget: keep noise configs that distinct units do not fill, which are left out otherwise.
        revision: of the construction.
    """
    known, built = built_configs(revision), Testbeds({}, {}, {})
    for subset in SUBSETS:
        members = sorted((i for i in instances if i.subset == subset), key=lambda i: i.id)
        chosen = [c for c in known.values() if c.subset == subset and (wanted is None or c.name in wanted)]
        if members and chosen:
            _build_subset(members, chosen, NoiseLibrary(pools[subset], revision), advance, built, every_budget)
    return built._replace(tables={name: built.tables[name] for name in known if name in built.tables})


def _build_subset(
    members: Sequence[Instance],
    chosen: Sequence[Config],
    library: NoiseLibrary,
    advance: Callable[[], object],
    built: Testbeds,
    every_budget: bool,
) -> None:
    rows = defaultdict[str, defaultdict[str, list[Row]]](lambda: defaultdict(list))
    long = {i.id for split, size in LONG_SAMPLE.items() for i in sample((i for i in members if i.split == split), size)}
    for instance in members:
        unreviewed = instance.split == "unreviewed"
        own = [c for c in chosen if (c.testbed == "unreviewed") == unreviewed and (instance.id in long or not c.long)]
        maker = RowMaker(instance, library)
        for config in own:
            made = maker.rows(config)
            rows[config.name]["demo" if instance.split == "demo" else "test"] += made
            if not made and instance.split == "test":
                built.left_out[config.name] = built.left_out.get(config.name, 0) + 1
        advance()
    before: dict[str, str] = {}
    for config in sorted((c for c in chosen if c.testbed == "noise"), key=lambda config: config.budget):
        test = rows[config.name]["test"]
        shown = [row for row in test if row["status"] != "over_budget"]
        fill = float(np.mean([row["kb_tokens"] / config.budget for row in shown])) if shown else 0.0
        same = float(np.mean([before.get(row["id"]) == row["context_sha256"] for row in shown])) if shown else 0.0
        built.budgets[config.name] = BudgetFill(len(test), fill, same)
        before = {row["id"]: row["context_sha256"] for row in test}
        if not (every_budget or built.budgets[config.name].exists):
            del rows[config.name]
    for name, splits in rows.items():
        tables = {split: pa.Table.from_pylist(splits[split], ROW_SCHEMA) for split in ("test", "demo") if splits[split]}
        if "test" in tables:
            built.tables[name] = tables
