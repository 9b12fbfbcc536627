"""From instances to testbeds: which units stand in each context, and in which order, at any token budget."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kbbench_hf.benchmarks.ska_bench.configs import BUDGETS, HARDNESS, HARDNESS_BUDGETS, STANDARD, Config, configs
from kbbench_hf.benchmarks.ska_bench.contexts import Context, Renderer
from kbbench_hf.benchmarks.ska_bench.token_counts import Tokenizer, tokenizer
from kbbench_hf.benchmarks.ska_bench.unit_arrays import Units
from kbbench_hf.benchmarks.ska_bench.units import SEED, SUBSETS, Instance, Pool
from kbbench_hf.building.ska_bench.evidence import Unit, answers_from
from kbbench_hf.building.ska_bench.noise import Candidates, Library
from kbbench_hf.building.ska_bench.twins import Twin, twins
from kbbench_hf.errors import unknown_name
from kbbench_hf.files.datasets import SMALL_STEPS, Row


@dataclass(frozen=True)
class Placing:
    """Puts the units of one instance in order.

    Noise stands as the pool has it, whose triples and passages are in an order of hashes; rows of the instance's own
    table keep the table's order, and other rows stand among them at ranks drawn from hashes. Where a setting does not
    say where the positives are, each is put at a rank drawn from a hash, uniform over its section.
    """

    instance: Instance
    first_other: int
    """The number of the first row that is not of the instance's own table."""

    @classmethod
    def of(cls, instance: Instance, pool: Pool) -> "Placing":
        """Return how the units of an instance of this pool are placed."""
        return cls(instance, len(pool.sk[instance.group]) if instance.is_table else 0)

    def arranged(self, positives: Units, noise: Units, config: Config) -> tuple[Units, Units]:
        """Return the structured and the text section of a context, each in its final order.

        A depth puts the positives of each section together after that share of its noise.
        """
        attempt = 0
        while True:
            sk, text = (
                self._section(positives[positives.in_text == side], noise[noise.in_text == side], config, attempt)
                for side in (False, True)
            )
            if config.depth is not None or not _lead(positives, sk, text):
                return sk, text
            attempt += 1  # hashes may happen to put all positives first; "random" must then differ from "prefix"

    def _section(self, positives: Units, noise: Units, config: Config, attempt: int) -> Units:
        name = f"{self.instance.id}|place|{attempt}"
        noise = self._noise(noise, shuffled=config.setting == "random" and self.instance.is_table)
        if config.depth is not None:
            before = round(config.depth * len(noise))
            ranks = before + np.arange(len(positives))
            first = positives if self.instance.is_table else positives.shuffled(name)
        else:
            draws = [hashlib.sha256(f"{SEED}|{name}|{key}".encode()).digest()[:8] for key in positives.keys.tolist()]
            first, ranks = positives, drawn_ranks([int.from_bytes(each, "big") for each in draws], len(noise))
        places = np.zeros(len(first) + len(noise), dtype=np.int64)
        left = np.ones(len(places), dtype=bool)
        left[ranks] = False
        places[ranks] = np.arange(len(first))
        places[left] = len(first) + np.arange(len(noise))
        return (first + noise)[places]

    def _noise(self, noise: Units, *, shuffled: bool) -> Units:
        noise = noise[np.argsort(noise.numbers, kind="stable")]
        if not self.instance.is_table or noise.in_text.any():
            return noise
        mixture = noise.shuffled(f"{self.instance.id}|among")
        if shuffled:
            return mixture
        own = mixture.numbers < self.first_other
        places = np.arange(len(mixture))
        places[own] = places[own][np.argsort(mixture.numbers[own], kind="stable")]
        return mixture[places]


def drawn_ranks(draws: Sequence[int], n_noise: int) -> NDArray[np.int64]:
    """Return distinct ranks among so many others, each uniform for draws of 64 bits; a taken one yields to the next.

    >>> drawn_ranks([0, 2**63, 2**63], n_noise=1).tolist()
    [0, 2, 3]
    """
    taken: list[int] = []
    places = len(draws) + n_noise
    for draw in draws:
        rank = draw * places >> 64
        while rank in taken:
            rank = (rank + 1) % places
        taken.append(rank)
    return np.array(taken, dtype=np.int64)


def _lead(positives: Units, *sections: Units) -> bool:
    """Say whether the positives come first wherever a section holds both them and noise, and one does."""
    leads = []
    for in_text, section in zip((False, True), sections, strict=True):
        wanted = positives.numbers[positives.in_text == in_text]
        if 0 < len(wanted) < len(section):
            leads.append(np.isin(section.numbers[: len(wanted)], wanted).all())
    return bool(leads) and all(leads)


LONG_SAMPLE = {"test": 50, "demo": 5}
"""How many instances of a subset the long budgets are built for."""
UNEVEN = 0.02
"""How much longer than the other one a context of one level of hardness may be."""
FILLED, SAME = 0.9, 0.02
"""A budget's config exists where its contexts reach this share of it in the mean, and fewer than this share of them are
those of the budget before."""

ROW_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("instance_id", pa.string()),
        ("testbed", pa.string()),
        ("setting", pa.string()),
        ("budget", pa.int32()),
        pa.field("sk_units", pa.list_(pa.int32()), metadata=SMALL_STEPS),
        pa.field("text_units", pa.list_(pa.int32()), metadata=SMALL_STEPS),
        ("n_required", pa.int32()),
        ("answerable", pa.bool_()),
        ("removed", pa.list_(pa.string())),
        ("kb_tokens", pa.int32()),
        ("status", pa.string()),
        ("tokenizer", pa.string()),
        ("context_sha256", pa.string()),
    ]
)
"""`status`: `ok`; `short`, the noise ran out before the budget; `over_budget`, the positives alone exceed it, and
nothing is shown or scored; `answerable`, a rejection context that still yields a gold answer, not scored. `removed`:
the units (`sk:12`, `text:3`) that a rejection twin lost; a table's stand there with a cell emptied."""


class Budget(NamedTuple):
    """How a noise config came out, on its test rows."""

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
    """The testbeds of a release, and what was found on the way."""

    tables: dict[str, dict[str, pa.Table]]
    """Config -> split -> table."""
    budgets: dict[str, Budget]
    """Noise config -> how it came out, also of those that are left out for it."""
    left_out: dict[str, int]
    """Config -> how many test instances have no row in it: no twins, or too little noise of its hops."""


def sample(instances: Iterable[Instance], size: int) -> list[Instance]:
    """Return a fixed sample of instances, in the order of hashes of their ids; a larger one contains a smaller one."""
    return sorted(instances, key=lambda i: hashlib.sha256(f"{SEED}|sample|{i.id}".encode()).digest())[:size]


@dataclass(frozen=True)
class _Asked:
    """One instance, and what its contexts are made of."""

    instance: Instance
    pool: Pool
    candidates: Candidates
    renderer: Renderer
    placing: Placing

    @property
    def fixed(self) -> int:
        """Tokens of what every context shows: the header and the positives."""
        return self.candidates.header_tokens + int(self.candidates.positives.tokens.sum())

    def noise(self, budget: int) -> tuple[Units, str]:
        """Return the noise that fits beside what is fixed, and `ok`, or `short` where there is no more."""
        noise = self.candidates.noise.fitting(budget - self.fixed)
        return noise, "ok" if len(noise) < len(self.candidates.noise) else "short"

    @cached_property
    def twins(self) -> tuple[Twin, Twin] | None:
        """The rejection twins of its standard context."""
        noise, _ = self.noise(BUDGETS[STANDARD[self.instance.subset]])
        return twins(self.instance, self.pool, self.candidates, noise)


class Builder:
    """Builds the testbed rows of the instances of one subset."""

    def __init__(self, pool: Pool, count: Tokenizer) -> None:
        self._pool = pool
        self._library = Library(pool, count)
        self._count = count

    def rows(self, instance: Instance, chosen: Sequence[Config]) -> dict[str, list[Row]]:
        """Return the rows of one instance by config: of a control both twins, of others one row or none."""
        pool, candidates = self._pool, self._library.candidates(instance)
        asked = _Asked(instance, pool, candidates, Renderer(instance, pool), Placing.of(instance, pool))
        made = {
            "rejection": self._rejection,
            "rejection_control": self._rejection,
            "hardness": self._hardness,
        }
        return {config.name: made.get(config.testbed, self._plain)(asked, config) for config in chosen}

    def _plain(self, asked: _Asked, config: Config) -> list[Row]:
        return [self._row(asked, config, *asked.noise(config.budget))]

    def _hardness(self, asked: _Asked, config: Config) -> list[Row]:
        """Return the row with noise of the config's hops; none where the levels fill no budget, or not alike."""
        noise = asked.candidates.noise
        of_level = {hops: noise[(noise.hops >= hops[0]) & (noise.hops <= hops[1])] for hops in HARDNESS.values()}
        reached = asked.fixed + min(int(units.tokens.sum()) for units in of_level.values())
        budget = max((size for size in HARDNESS_BUDGETS if size <= reached), default=0)
        if asked.fixed >= budget or config.hops is None:
            return []
        filled = {hops: units.filling(budget - asked.fixed) for hops, units in of_level.items()}
        lengths = [asked.fixed + int(units.tokens.sum()) for units in filled.values()]
        if max(lengths) - min(lengths) > UNEVEN * max(lengths):
            return []
        return [self._row(asked, replace(config, budget=budget), filled[config.hops], "ok")]

    def _rejection(self, asked: _Asked, config: Config) -> list[Row]:
        """Return the unanswerable twin, and for the control the answerable one; none where there are no twins."""
        if asked.twins is None or asked.fixed > config.budget:
            return []
        shown = asked.twins if config.testbed == "rejection_control" else asked.twins[:1]
        return [self._row(asked, config, *asked.noise(config.budget), twin) for twin in shown]

    def _row(self, asked: _Asked, config: Config, noise: Units, status: str, twin: Twin | None = None) -> Row:
        instance, candidates = asked.instance, asked.candidates
        positives = candidates.positives
        while True:
            sk, text = asked.placing.arranged(positives, noise, config)
            if twin:
                sk, text = (twin.of(section, candidates.emptied) for section in (sk, text))
            context = asked.renderer.context(sk.numbers.tolist(), text.numbers.tolist())
            tokens = candidates.header_tokens + int(sk.tokens.sum() + text.tokens.sum())
            tokens = tokens if self._count.additive else self._count.count(context.all_text)
            if tokens <= config.budget:
                break
            if len(noise):  # under a tokenizer whose counts do not add up, or where a twin's rows are longer
                noise = noise[: len(noise) - 1]
            else:
                status, positives = "over_budget", positives[:0]
                context, sk, text, tokens = Context("", [], [], [], []), positives, positives, 0
                break
        if twin and not twin.answerable and self._answers(asked, sk, text):
            status = "answerable"
        return {
            "id": f"{instance.id}:answerable" if twin and twin.answerable else instance.id,
            "instance_id": instance.id,
            "testbed": config.testbed,
            "setting": config.setting,
            "budget": config.budget,
            "sk_units": sk.numbers,
            "text_units": text.numbers,
            "n_required": len(candidates.positives),
            "answerable": twin is None or twin.answerable,
            "removed": twin.names if twin else [],
            "kb_tokens": tokens,
            "status": status,
            "tokenizer": self._count.name,
            "context_sha256": hashlib.sha256(context.all_text.encode()).hexdigest()[:16],
        }

    def _answers(self, asked: _Asked, sk: Units, text: Units) -> bool:
        """Say whether a gold answer follows from these units."""
        if asked.candidates.derivations:
            units = [Unit(False, n) for n in sk.numbers.tolist()] + [Unit(True, n) for n in text.numbers.tolist()]
            return bool(answers_from(asked.candidates.derivations, units))
        found = asked.renderer.execute(sk.numbers.tolist(), text.numbers.tolist()) if asked.instance.is_table else ()
        return any(answer.strip() for answer in found or ())


def build_testbeds(
    instances: Sequence[Instance],
    pools: Mapping[str, Pool],
    wanted: Sequence[str] | None = None,
    count: Tokenizer | None = None,
    advance: Callable[[], object] = lambda: None,
    every_budget: bool = False,
) -> Testbeds:
    """Return the testbeds of all instances, with splits `test` and `demo`; unreviewed ones have a config of their own.

    Of the `wanted` configs, or of all of the subsets that have instances. A noise config that distinct units do not
    fill is left out, wanted or not, unless `every_budget` is. `count` measures budgets, GPT-4o's tokenizer unless said
    otherwise; `advance` is called once for each instance, for a progress bar.

    Raises:
        UsageError: a config is unknown.
    """
    known = configs()
    for name in wanted or ():
        if name not in known:
            raise unknown_name("testbed config", name, known)
    count = count or tokenizer()
    found = Testbeds({}, {}, {})
    for subset in SUBSETS:
        members = sorted((i for i in instances if i.subset == subset), key=lambda i: i.id)
        chosen = [c for c in known.values() if c.subset == subset and (wanted is None or c.name in wanted)]
        if members and chosen:
            _build_subset(members, chosen, Builder(pools[subset], count), advance, found, every_budget)
    return found._replace(tables={name: found.tables[name] for name in known if name in found.tables})


def _build_subset(
    members: Sequence[Instance],
    chosen: Sequence[Config],
    builder: Builder,
    advance: Callable[[], object],
    found: Testbeds,
    every_budget: bool,
) -> None:
    rows: defaultdict[str, defaultdict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    long = {i.id for split, size in LONG_SAMPLE.items() for i in sample((i for i in members if i.split == split), size)}
    for instance in members:
        unreviewed = instance.split == "unreviewed"
        asked = [c for c in chosen if (c.testbed == "unreviewed") == unreviewed and (instance.id in long or not c.long)]
        for name, made in builder.rows(instance, asked).items():
            rows[name]["demo" if instance.split == "demo" else "test"] += made
            if not made and instance.split == "test":
                found.left_out[name] = found.left_out.get(name, 0) + 1
        advance()
    before: dict[str, str] = {}
    for config in sorted((c for c in chosen if c.testbed == "noise"), key=lambda config: config.budget):
        test = rows[config.name]["test"]
        found.budgets[config.name] = _came_out(test, config, before)
        before = {row["id"]: row["context_sha256"] for row in test}
        if not (every_budget or found.budgets[config.name].exists):
            del rows[config.name]
    for name, splits in rows.items():
        tables = {split: pa.Table.from_pylist(splits[split], ROW_SCHEMA) for split in ("test", "demo") if splits[split]}
        if "test" in tables:
            found.tables[name] = tables


def _came_out(rows: Sequence[Row], config: Config, before: Mapping[str, str]) -> Budget:
    shown = [row for row in rows if row["status"] != "over_budget"]
    fill = float(np.mean([row["kb_tokens"] / config.budget for row in shown])) if shown else 0.0
    same = float(np.mean([before.get(row["id"]) == row["context_sha256"] for row in shown])) if shown else 0.0
    return Budget(len(rows), fill, same)
