"""What the dataset is like: Tables 1, 2 and 6 and Figure 4 of the paper (arXiv 2507.17178), counted on a built one."""

from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.util import find_spec

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kbbench_hf.benchmarks.figures import FigureTable, Panel, Panels, Point, Section, Shown
from kbbench_hf.benchmarks.ska_bench.configs import PAPER_BUDGETS, Config, configs
from kbbench_hf.benchmarks.ska_bench.construction.graphs import Graph
from kbbench_hf.benchmarks.ska_bench.construction.tokens import Tokenizer, tokenizer
from kbbench_hf.benchmarks.ska_bench.testbeds import TITLES
from kbbench_hf.benchmarks.ska_bench.units import SUBSETS, Instance, Pool, write_passage, write_row, write_triple
from kbbench_hf.files.datasets import DatasetFolder
from kbbench_hf.metrics.aggregate import estimate

STRUCTURED = {"kg": "triples", "table": "rows", "kg_text": "triples", "table_text": "rows"}
MOST = 8
"""In Figure 4 instances that need more units stand together."""
UNCOUNTED = "Tokens and hops are not counted: they need the extra 'text', pip install 'kbbench-hf[text]'."


def dataset_section(folder: DatasetFolder, split: str = "test") -> Section:
    """Return what the instances and contexts of a split are like; means, with intervals over instances."""
    count = tokenizer() if find_spec("tiktoken") and find_spec("toktok") else None
    about: dict[str, list[Shown | None]] = {}
    hops: dict[str, list[Shown | None]] = {}
    shares: list[Panel] = []
    for subset in SUBSETS:
        if split not in folder.configs().get(f"instances_{subset}", ()):
            continue
        instances = [Instance.from_row(row) for row in folder.rows(f"instances_{subset}", split)]
        pool = Pool.from_rows(folder.rows(f"pool_{subset}", "full"))
        about[TITLES[subset]] = _about(instances, pool, count)
        shares.append(_shares(subset, instances))
        if subset.startswith("kg") and count is not None:
            hops[TITLES[subset]] = _hops(instances, pool, count, folder, split)
    headings = (
        "question tokens",
        "answers",
        "structured",
        "text",
        "per structured",
        "per text",
        "structured ",
        "text ",
    )
    over = ("", "", "units needed", "units needed", "tokens of one", "tokens of one", "other units", "other units")
    columns = [*zip(over, headings, strict=True), ("", "instances")]
    tables = [FigureTable("table-1", "Instances of each subset (Table 1)", columns, about, "subset")]
    tables.append(_contexts(folder, split))
    if hops:
        columns = [("", name) for name in ("1 hop", "2 hops", "3 hops", "4 hops and more", "unreached")]
        title = "How far the triples of the largest contexts are from the topic (Table 6)"
        tables.append(FigureTable("table-6", title, columns, hops, "subset"))
    words = "Units needed, share of the instances (Figure 4)"
    ticks = {float(n): str(n) if n <= MOST else f">{MOST}" for n in range(MOST + 2)}
    picture = Panels(shares, "units needed", "share of the instances", ticks, words, bars=True, side_by_side=True)
    return Section("The data", tables, {"figure-4": picture}, [] if count else [UNCOUNTED])


def _about(instances: Sequence[Instance], pool: Pool, count: Tokenizer | None) -> list[Shown | None]:
    write = write_row if instances[0].is_table else write_triple

    def tokens(lines: Sequence[str]) -> Iterator[float]:
        return map(float, count.count_lines(lines)) if count else iter(())

    needed_text = any(instance.positive_text for instance in instances)
    structured = [write(pool.structured(i)[n]) for i in instances for n in i.positive_sk]
    passages = [write_passage(pool.text[n]) for i in instances for n in i.positive_text]
    others = [len(pool.structured(i)) - len(i.positive_sk) - len(i.withheld_sk) for i in instances]
    other_text = [len(i.own_text or pool.text) - len(i.positive_text) for i in instances]
    columns: list[Sequence[float]] = [
        [count.count(i.question) for i in instances] if count else [],
        [len(i.answers) for i in instances],
        [len(i.positive_sk) for i in instances],
        [len(i.positive_text) for i in instances] if needed_text else [],
        list(tokens(structured)),
        list(tokens(passages)),
        others,
        other_text if needed_text else [],
    ]
    return [*(_mean(column) for column in columns), Shown(len(instances), digits=0)]


def _mean(values: Sequence[float], digits: int = 2) -> Shown | None:
    if not len(values):
        return None
    found = estimate(values, bounded=False)
    spread = len(values) > 1 and found.ci95[0] < found.ci95[1]
    return Shown(found.value, found.ci95 if spread else None, digits, found.n_scored)


def _shares(subset: str, instances: Sequence[Instance]) -> Panel:
    """Return the distribution of the units needed: of triples or rows, of passages, and of both together."""
    counted = {STRUCTURED[subset]: [len(i.positive_sk) for i in instances]}
    if subset.endswith("_text"):
        counted["passages"] = [len(i.positive_text) for i in instances]
        counted["both"] = [len(i.positive_sk) + len(i.positive_text) for i in instances]
    series = {}
    for name, numbers in counted.items():
        found = Counter(min(n, MOST + 1) for n in numbers)
        series[name] = [Point(n, found[n] / len(numbers), (0.0, 0.0)) for n in sorted(found)]
    return Panel(TITLES[subset], series)


def _contexts(folder: DatasetFolder, split: str) -> FigureTable:
    """Return Table 2: what the contexts of the noise testbed hold."""
    rows: dict[str, list[Shown | None]] = {}
    for config in _noise(folder, split):
        table = folder.table(config.name, split)
        table = table.filter(pc.is_in(table["status"], value_set=pa.array(["ok", "short"])))
        units, texts = (pc.list_value_length(table[name]).to_numpy() for name in ("sk_units", "text_units"))
        tokens = table["kb_tokens"].to_numpy()
        texts_needed = texts if config.subset.endswith("_text") else []
        means = [_mean(units), _mean(texts_needed), _mean(tokens)]
        name = f"{TITLES[config.subset]} {config.name.rpartition('_')[2]}"
        rows[name] = [*means, _mean(tokens / config.budget, 3), Shown(len(tokens), digits=0)]
    columns = [("units", "structured"), ("units", "text"), ("", "tokens"), ("", "of the budget"), ("", "contexts")]
    return FigureTable("table-2", "Contexts of each budget (Table 2)", columns, rows, "contexts")


def _noise(folder: DatasetFolder, split: str) -> list[Config]:
    built = folder.configs()
    return [c for c in configs().values() if c.testbed == "noise" and split in built.get(c.name, ())]


def fill_notes(folder: DatasetFolder, split: str = "test") -> list[str]:
    """Return sentences on what the noise testbed lacks: budgets that are absent, contexts that are short of theirs."""
    present = {config.name for config in _noise(folder, split)}
    absent: dict[str, list[str]] = {}
    short = []
    for subset in SUBSETS:
        of_subset = [c for c in configs().values() if (c.testbed, c.subset) == ("noise", subset)]
        missing = [c.name.rpartition("_")[2] for c in of_subset if c.name not in present]
        if missing and len(missing) < len(of_subset):
            absent.setdefault(", ".join(missing), []).append(TITLES[subset])
        for config in of_subset:
            if config.name in present:
                found = Counter(folder.table(config.name, split)["status"].to_pylist())
                if found["short"]:
                    short.append(f"{config.name} {found['short']:,} of {sum(found.values()):,}")
    notes = []
    if absent:
        lacks = "; ".join(f"{budgets} ({', '.join(subsets)})" for budgets, subsets in absent.items())
        notes.append(f"Budgets that this dataset does not have: {lacks}.")
    if short:
        notes.append(f"Contexts that are short of their budget, for want of other units: {'; '.join(short)}.")
    return notes


def _hops(
    instances: Sequence[Instance], pool: Pool, count: Tokenizer, folder: DatasetFolder, split: str
) -> list[Shown | None]:
    """Return the shares of triples 1, 2, 3, and 4 hops or more from the topic, and of those that no path reaches."""
    within = [
        c for c in _noise(folder, split) if c.subset == instances[0].subset and c.budget in PAPER_BUDGETS.values()
    ]
    if not within:
        return [None] * 5
    table = folder.table(max(within, key=lambda config: config.budget).name, split)
    shown = dict(zip(table["instance_id"].to_pylist(), table["sk_units"], strict=True))
    graphs: dict[str, Graph] = {}
    totals = np.zeros(5)
    for instance in instances:
        graph = graphs.get(instance.group) or Graph(pool.sk[instance.group], count)
        graphs[instance.group] = graph
        if instance.id in shown:
            hops = graph.hops(instance.topics)[shown[instance.id].values.to_numpy()]
            totals += [*((hops == n).sum() for n in (1, 2, 3)), ((hops >= 4) & (hops < 255)).sum(), (hops == 255).sum()]
    return [Shown(float(share), digits=4) for share in totals / max(1.0, totals.sum())]
