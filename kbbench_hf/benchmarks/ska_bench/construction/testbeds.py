"""From instances to testbeds: which units stand in each context, and in which order, at any token budget."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from kbbench_hf.benchmarks.ska_bench.configs import Config, configs
from kbbench_hf.benchmarks.ska_bench.construction.noise import Candidates, Library, Units
from kbbench_hf.benchmarks.ska_bench.construction.tokens import Tokenizer, tokenizer
from kbbench_hf.benchmarks.ska_bench.contexts import Context, Renderer
from kbbench_hf.benchmarks.ska_bench.units import SEED, SUBSETS, Instance, Pool
from kbbench_hf.errors import unknown_name
from kbbench_hf.files.datasets import Row

ENDLESS = 1 << 62
LONG_SAMPLE = 50
"""How many instances of a subset the long budgets are built for."""
DEMO = 20

ROW_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("instance_id", pa.string()),
        ("testbed", pa.string()),
        ("setting", pa.string()),
        ("budget", pa.int32()),
        ("sk_units", pa.list_(pa.int32())),
        ("text_units", pa.list_(pa.int32())),
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
nothing is shown or scored; `answerable`, a rejection context whose noise still holds a gold answer, not scored."""


def sample(instances: Iterable[Instance], size: int) -> list[Instance]:
    """Return a fixed sample of instances, in the order of hashes of their ids; a larger one contains a smaller one."""
    return sorted(instances, key=lambda i: hashlib.sha256(f"{SEED}|sample|{i.id}".encode()).digest())[:size]


def select(candidates: Candidates, config: Config, *, withheld: bool = False) -> tuple[Units, Units]:
    """Return the positives and the noise of a context: the positives first, then the noise that still fits.

    `withheld` leaves out the positives and every unit that states what they state. Positives that exceed the budget
    come back without noise; the caller marks them.
    """
    positives, noise = candidates.positives, candidates.noise
    if withheld:
        positives, noise = positives[:0], noise[~candidates.equivalent]
    if config.hops:
        noise = noise[(noise.hops >= config.hops[0]) & (noise.hops <= config.hops[1])]
    left = config.budget - candidates.header_tokens - int(positives.tokens.sum())
    return positives, noise.fitting(left)


def arrange(instance: Instance, positives: Units, noise: Units, config: Config) -> tuple[Units, Units]:
    """Return the structured and the text section of a context, each in its final order.

    Graph triples and passages have no order of their own: theirs is an order of hashes, another than the one by which
    noise was taken. `original` keeps table rows in the table's order, made rows after them. A depth puts the positives
    of each section together after that share of its noise.
    """
    if config.depth is not None:
        sk, text = (_at_depth(instance, positives, noise, config.depth, in_text=in_text) for in_text in (False, True))
        return sk, text
    placed, attempt = (positives + noise).shuffled(f"{instance.id}|place|0"), 0
    while _lead(positives, placed):
        attempt += 1  # hashes may happen to put all positives first; "random" must then differ from "prefix"
        placed = placed.shuffled(f"{instance.id}|place|{attempt}")
    sk = placed[~placed.in_text]
    if config.setting == "original":
        sk = sk[np.argsort(sk.numbers, kind="stable")]
    return sk, placed[placed.in_text]


def _lead(positives: Units, placed: Units) -> bool:
    """Say whether the positives come first wherever a section holds both them and noise, and one does."""
    leads = []
    for in_text in (False, True):
        wanted = positives.numbers[positives.in_text == in_text]
        numbers = placed.numbers[placed.in_text == in_text]
        if 0 < len(wanted) < len(numbers):
            leads.append(np.isin(numbers[: len(wanted)], wanted).all())
    return bool(leads) and all(leads)


def _at_depth(instance: Instance, positives: Units, noise: Units, depth: float, *, in_text: bool) -> Units:
    first, others = (units[units.in_text == in_text].shuffled(f"{instance.id}|place|0") for units in (positives, noise))
    if instance.is_table and not in_text:
        first, others = (units[np.argsort(units.numbers, kind="stable")] for units in (first, others))
    before = round(depth * len(others))
    return others[:before] + first + others[before:]


class Builder:
    """Builds the testbed rows of the instances of one subset."""

    def __init__(self, pool: Pool, count: Tokenizer) -> None:
        self._library = Library(pool, count)
        self._count = count

    def rows(self, instance: Instance, chosen: Sequence[Config]) -> dict[str, list[Row]]:
        """Return the rows of one instance by config; a control config has two, without and with the positives."""
        candidates = self._library.candidates(instance)
        renderer = Renderer(instance, self._library.pool)
        rows: dict[str, list[Row]] = {}
        for config in chosen:
            variants = {"rejection": (True,), "rejection_control": (True, False)}.get(config.testbed, (False,))
            rows[config.name] = [self._row(instance, candidates, renderer, config, withheld) for withheld in variants]
        return rows

    def _row(
        self, instance: Instance, candidates: Candidates, renderer: Renderer, config: Config, withheld: bool
    ) -> Row:
        positives, noise = select(candidates, config, withheld=withheld)
        endless = select(candidates, replace(config, budget=ENDLESS), withheld=withheld)[1]
        status = "ok" if len(noise) < len(endless) else "short"
        tokens = candidates.header_tokens + int(positives.tokens.sum() + noise.tokens.sum())
        while True:
            sk, text = arrange(instance, positives, noise, config)
            context = renderer.context(sk.numbers.tolist(), text.numbers.tolist())
            tokens = tokens if self._count.additive else self._count.count(context.all_text)
            if tokens <= config.budget:
                break
            if len(noise):  # only under a tokenizer whose counts do not add up
                noise = noise[: len(noise) - 1]
            else:
                status, positives = "over_budget", positives[:0]
                context, sk, text, tokens = Context("", [], [], [], []), positives, positives, 0
                break
        if withheld and set(renderer.execute(sk.numbers.tolist(), text.numbers.tolist()) or ()) & set(instance.answers):
            status = "answerable"
        return {
            "id": instance.id if withheld or config.testbed != "rejection_control" else f"{instance.id}:answerable",
            "instance_id": instance.id,
            "testbed": config.testbed,
            "setting": config.setting,
            "budget": config.budget,
            "sk_units": sk.numbers,
            "text_units": text.numbers,
            "n_required": len(candidates.positives),
            "answerable": not withheld,
            "removed": [],
            "kb_tokens": tokens,
            "status": status,
            "tokenizer": self._count.name,
            "context_sha256": hashlib.sha256(context.all_text.encode()).hexdigest()[:16],
        }


def build_testbeds(
    instances: Sequence[Instance],
    pools: Mapping[str, Pool],
    wanted: Sequence[str] | None = None,
    count: Tokenizer | None = None,
    advance: Callable[[], object] = lambda: None,
) -> dict[str, dict[str, pa.Table]]:
    """Return the testbeds of all instances: config -> split (`test`, and `demo`, 20 of its rows) -> table.

    Of the `wanted` configs, or of all of the subsets that have instances. `count` measures budgets, GPT-4o's tokenizer
    unless said otherwise; `advance` is called once for each instance, for a progress bar.

    Raises:
        UsageError: a config is unknown.
    """
    known = configs()
    for name in wanted or ():
        if name not in known:
            raise unknown_name("testbed config", name, known)
    count = count or tokenizer()
    tables: dict[str, dict[str, pa.Table]] = {}
    for subset in SUBSETS:
        members = sorted((i for i in instances if i.subset == subset), key=lambda i: i.id)
        chosen = [c for c in known.values() if c.subset == subset and (wanted is None or c.name in wanted)]
        if not members or not chosen:
            continue
        builder, rows = Builder(pools[subset], count), defaultdict[str, list[Row]](list)
        long = {i.id for i in sample(members, LONG_SAMPLE)}
        demo = {i.id for i in sample(members, DEMO)}
        for instance in members:
            for name, made in builder.rows(instance, [c for c in chosen if instance.id in long or not c.long]).items():
                rows[name] += made
            advance()
        for name, made in rows.items():
            splits = {"test": made, "demo": [row for row in made if row["instance_id"] in demo]}
            tables[name] = {split: pa.Table.from_pylist(part, ROW_SCHEMA) for split, part in splits.items()}
    return {name: tables[name] for name in known if name in tables}
