"""Tables and figures of the paper (arXiv 2507.17178) for results of several systems, and statistics of the dataset.

Beyond the paper: intervals, the answerable control of rejection, depths, and notes on absent budgets and runs. Tables
and figures over budgets and orders are in `over_settings`. `kbbench report` shows the sections; the names of tables are
those of files that users keep.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kbbench_hf.benchmarks.base import ScoredConfig, Systems
from kbbench_hf.benchmarks.charts import ChartPanel, Panels, Point, ScoreTable, Section, ShownScore
from kbbench_hf.benchmarks.published import read_published
from kbbench_hf.benchmarks.ska_bench.over_settings import AVERAGE, NOISE, ORDER, over_settings
from kbbench_hf.benchmarks.ska_bench.testbeds import (
    BUCKETS,
    F1,
    PAPER_BUDGETS,
    STANDARD,
    TITLES,
    Config,
    ScoreCells,
    bucket,
    bucket_panels,
    combined_cell,
    config_rows,
    configs,
    configs_of,
    depth_panels,
    drop_empty_rows,
    hardness_configs,
    hardness_panels,
    present_configs,
    rejection_panels,
    score_cell,
    scores_by_system,
    statistic_cell,
)
from kbbench_hf.benchmarks.ska_bench.token_counts import Tokenizer, tokenizer
from kbbench_hf.benchmarks.ska_bench.units import (
    SUBSETS,
    UNREACHED,
    Instance,
    TripleGraph,
    UnitPool,
    write_passage,
    write_row,
    write_triple,
)
from kbbench_hf.files.datasets import DatasetFolder
from kbbench_hf.metrics.aggregate import estimate
from kbbench_hf.metrics.robustness import Column, population_std, std_interval

REJECTED = {
    "rejection": ("table-5", "Unanswerable questions rejected (Table 5)"),
    "rejection_noise": ("rejection-noise", "Questions on noise alone rejected"),
}
"""Testbed -> its table of rejection rates, and the title."""
REJECTION = {"rejection_rate": "rejected", "acceptance_rate": "accepted", "balanced_accuracy": "balanced"}


def evaluation(systems: Systems, folder: DatasetFolder | None = None, split: str = "test") -> list[Section]:
    """Return a section for each testbed with results of some system, then one for the data.

    Tables 1, 2 and 6, Figure 4 and short contexts need the dataset's folder and are left out without it.
    """
    sections = [
        over_settings(systems, NOISE, fill_notes(folder, split) if folder else ()),
        over_settings(systems, ORDER),
        _integration(systems, folder, split),
        _rejection(systems),
        _hardness(systems),
        _depth(systems),
        dataset_section(folder, split) if folder else None,
    ]
    return [section for section in sections if section]


def published_evaluation(file: Path) -> list[Section]:
    """Return the evaluation of the paper's models on its own data; its scores have no intervals."""
    systems: dict[str, dict[str, ScoredConfig]] = {}
    for place, rows in read_published(file).items():
        for name, row in rows.items():
            scores = {
                metric: {"value": each.value, "ci95": (None, None), "n_scored": 0, "digits": each.digits}
                for metric, each in row.figures.items()
            }
            if scores.keys() & {F1, "rejection_rate"} and place.config in configs():
                systems.setdefault(name, {})[place.config] = ScoredConfig({"scores": scores, "slices": {}}, {})
    return evaluation(systems)


def _integration(systems: Systems, folder: DatasetFolder | None, split: str) -> Section | None:
    """Return F1 by the units needed, and its deviation over them where the dataset's folder is given."""
    panels = bucket_panels(systems)
    if not panels.panels:
        return None
    columns, deviation_columns = list[tuple[str, str]](), list[tuple[str, str]]()
    rows: dict[str, ScoreCells] = {system: [] for system in systems}
    deviations: dict[str, ScoreCells] = {system: [] for system in systems}
    for subset in SUBSETS:
        config = f"noise_{subset}_{STANDARD[subset]}"
        runs = {system: of[config] for system, of in systems.items() if config in of}
        slices = {system: run.result["slices"].get("n_required", {}) for system, run in runs.items()}
        there = [each for each in BUCKETS if any(each in found for found in slices.values())]
        needed = _buckets_of(folder, config, split) if there and folder else {}
        columns += [(TITLES[subset], each) for each in there]
        deviation_columns += [("", TITLES[subset])] if needed else []
        for system in systems:
            found, run = slices.get(system, {}), runs.get(system)
            cells = [score_cell(found[each][F1], run) if each in found else None for each in there]
            rows[system] += cells
            if needed:
                values = run.values.get(F1, {}) if run else {}
                by_bucket = [{e: value for e, value in values.items() if needed.get(e) == each} for each in there]
                deviations[system].append(combined_cell(cells, [by_bucket], std_interval, population_std))
    title = "F1 by units needed (Figure 9)"
    tables = [ScoreTable("figure-9", title, columns, drop_empty_rows(rows), best="highest")]
    if deviation_columns:
        title, found = "Standard deviation of F1 over units needed (Figure 9)", drop_empty_rows(deviations)
        tables.append(ScoreTable("figure-9-deviation", title, deviation_columns, found, best="lowest"))
    note = "At each subset's standard budget, 4k or with text 12k. The paper leaves out questions that need one unit."
    return Section("Information integration", tables, {"figure-9": panels}, [note])


def _buckets_of(folder: DatasetFolder, config: str, split: str) -> dict[int | str, str]:
    """Return the bucket of each example of a config."""
    if split not in folder.configs().get(config, ()):
        return {}
    table = folder.table(config, split)
    return dict(zip(table["id"].to_pylist(), map(bucket, table["n_required"].to_pylist()), strict=True))


def _rejection(systems: Systems) -> Section | None:
    """Return the rejection rates of the paper, and the answerable control: always "no" accepts nothing."""
    control = present_configs(systems, configs_of("rejection_control"))
    tables, notes = [], []
    for testbed, (table, title) in REJECTED.items():
        if not (plain := present_configs(systems, configs_of(testbed))):
            continue
        rows = drop_empty_rows(config_rows(systems, plain, "rejection_rate"))
        for system, row in rows.items():
            row.append(combined_cell(row, _value_columns(systems[system], plain, ["rejection_rate"])))
        columns = [("", TITLES[configs()[name].subset]) for name in plain] + [("", AVERAGE)]
        tables.append(ScoreTable(table, title, columns, rows, best="highest"))
    if control:
        by_metric = [config_rows(systems, control, metric) for metric in REJECTION]
        rows = drop_empty_rows(
            {system: [of[system][place] for place in range(len(control)) for of in by_metric] for system in systems}
        )
        for system, row in rows.items():
            row.append(combined_cell(row[2::3], _value_columns(systems[system], control, [*REJECTION][:2])))
        columns = [(TITLES[configs()[name].subset], words) for name in control for words in REJECTION.values()]
        title = "Abstention: unanswerable questions rejected, answerable questions accepted, and their mean"
        columns.append((AVERAGE, "balanced"))
        tables.append(ScoreTable("rejection-control", title, columns, rows, best="highest"))
    elif tables:
        notes.append(
            "Without the answerable control, a system that always answers no is best: run --testbed rejection_control."
        )
    panels = rejection_panels(scores_by_system(systems))
    pictures = {"rejection": panels} if panels.panels else {}
    return Section("Negative rejection", tables, pictures, notes) if tables else None


def _value_columns(of: Mapping[str, ScoredConfig], names: Sequence[str], metrics: Sequence[str]) -> list[list[Column]]:
    return [[of[name].values.get(metric, {})] for name in names if name in of for metric in metrics]


def _hardness(systems: Systems) -> Section | None:
    """Return F1 on hard, mixed and easy noise; None where no system ran hard or easy noise."""
    subsets = [each for each in ("kg", "kg_text") if present_configs(systems, hardness_configs(each)[::2])]
    if not subsets:
        return None
    columns: list[tuple[str, str]] = []
    rows: dict[str, ScoreCells] = {
        name: [] for name, of in systems.items() if any(config.startswith("hardness") for config in of)
    }
    for subset in subsets:
        names = hardness_configs(subset)
        columns += [(TITLES[subset], words) for words in ("hard", "mixed", "easy", "deviation")]
        cells = config_rows(systems, names)
        for system, row in rows.items():
            row += [*cells[system], statistic_cell(systems[system], names, population_std, std_interval)]
    table = ScoreTable("table-7", "F1 by distance of the noise (Table 7)", columns, drop_empty_rows(rows))
    note = (
        "Hard noise is within 2 hops of the topic, easy noise 4 hops or more from it; mixed is the noise testbed's 4k, "
        "whose contexts may have another length."
    )
    return Section("Noise hardness", [table], {"hardness": hardness_panels(scores_by_system(systems))}, [note])


def _depth(systems: Systems) -> Section | None:
    """Return F1 by the depth of the needed units; None where no system ran the testbed."""
    names = present_configs(systems, configs_of("depth"))
    if not names:
        return None
    columns = [(TITLES[configs()[name].subset], f"{100 * (configs()[name].depth or 0):.0f} %") for name in names]
    title = "F1 by the share of noise before the needed units"
    table = ScoreTable("depth", title, columns, drop_empty_rows(config_rows(systems, names)), best="highest")
    return Section("Depth", [table], {"depth": depth_panels(scores_by_system(systems))}, ["Not in the paper."])


STRUCTURED = {"kg": "triples", "table": "rows", "kg_text": "triples", "table_text": "rows"}
MOST = 8
"""Figure 4 groups instances that need more units."""
UNCOUNTED = "Tokens and hops are not counted: they need the extra 'text', pip install 'kbbench-hf[text]'."


def dataset_section(folder: DatasetFolder, split: str = "test") -> Section:
    """Return statistics of the instances and contexts of a split: means, with intervals over instances."""
    count = tokenizer() if find_spec("tiktoken") and find_spec("toktok") else None
    about, hops, shares = dict[str, ScoreCells](), dict[str, ScoreCells](), list[ChartPanel]()
    for subset in SUBSETS:
        if split not in folder.configs().get(f"instances_{subset}", ()):
            continue
        instances = [Instance.from_row(row) for row in folder.rows(f"instances_{subset}", split)]
        pool = UnitPool.from_rows(folder.rows(f"pool_{subset}", "full"))
        about[TITLES[subset]] = _instance_cells(instances, pool, count)
        shares.append(_units_panel(subset, instances))
        if subset.startswith("kg") and count is not None:
            hops[TITLES[subset]] = _hop_cells(instances, pool, count, folder, split)
    columns = [("", "question tokens"), ("", "answers"), ("units needed", "structured"), ("units needed", "text")]
    columns += [("tokens of one", "per structured"), ("tokens of one", "per text")]
    columns += [("other units", "structured "), ("other units", "text "), ("", "instances")]
    tables = [ScoreTable("table-1", "Instances of each subset (Table 1)", columns, about, "subset")]
    tables.append(_contexts_table(folder, split))
    if hops:
        columns = [("", name) for name in ("1 hop", "2 hops", "3 hops", "4 hops and more", "unreached")]
        title = "How far the triples of the largest contexts are from the topic (Table 6)"
        tables.append(ScoreTable("table-6", title, columns, hops, "subset"))
    words = "Units needed, share of the instances (Figure 4)"
    ticks = {float(n): str(n) if n <= MOST else f">{MOST}" for n in range(MOST + 2)}
    picture = Panels(shares, "units needed", "share of the instances", ticks, words, bars=True, side_by_side=True)
    return Section("The data", tables, {"figure-4": picture}, [] if count else [UNCOUNTED])


def _instance_cells(instances: Sequence[Instance], pool: UnitPool, count: Tokenizer | None) -> list[ShownScore | None]:
    """Return a row of Table 1: means over a subset's instances, no counts of tokens without a tokenizer."""
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
    return [*(_mean(column) for column in columns), ShownScore(len(instances), digits=0)]


def _mean(values: Sequence[float], digits: int = 2) -> ShownScore | None:
    """Return a mean as a cell; None without values, and no interval where all are equal."""
    if not len(values):
        return None
    found = estimate(values, bounded=False)
    spread = len(values) > 1 and found.ci95[0] < found.ci95[1]
    return ShownScore(found.value, found.ci95 if spread else None, digits, found.n_scored)


def _units_panel(subset: str, instances: Sequence[Instance]) -> ChartPanel:
    """Return the distribution of the units needed: triples or rows, passages, and both together."""
    counted = {STRUCTURED[subset]: [len(i.positive_sk) for i in instances]}
    if subset.endswith("_text"):
        counted["passages"] = [len(i.positive_text) for i in instances]
        counted["both"] = [len(i.positive_sk) + len(i.positive_text) for i in instances]
    series = {}
    for name, numbers in counted.items():
        found = Counter(min(n, MOST + 1) for n in numbers)
        series[name] = [Point(n, found[n] / len(numbers), (0.0, 0.0)) for n in sorted(found)]
    return ChartPanel(TITLES[subset], series)


def _contexts_table(folder: DatasetFolder, split: str) -> ScoreTable:
    """Return Table 2: sizes of the contexts of the noise testbed."""
    rows: dict[str, list[ShownScore | None]] = {}
    for config in _noise_configs(folder, split):
        table = folder.table(config.name, split)
        table = table.filter(pc.is_in(table["status"], value_set=pa.array(["ok", "short"])))
        units, texts = (pc.list_value_length(table[name]).to_numpy() for name in ("sk_units", "text_units"))
        tokens = table["kb_tokens"].to_numpy()
        texts_needed = texts if config.subset.endswith("_text") else []
        means = [_mean(units), _mean(texts_needed), _mean(tokens)]
        name = f"{TITLES[config.subset]} {config.name.rpartition('_')[2]}"
        rows[name] = [*means, _mean(tokens / config.budget, 3), ShownScore(len(tokens), digits=0)]
    columns = [("units", "structured"), ("units", "text"), ("", "tokens"), ("", "of the budget"), ("", "contexts")]
    return ScoreTable("table-2", "Contexts of each budget (Table 2)", columns, rows, "contexts")


def _noise_configs(folder: DatasetFolder, split: str) -> list[Config]:
    """Return the configs of the noise testbed that a dataset has."""
    built = folder.configs()
    return [c for c in configs().values() if c.testbed == "noise" and split in built.get(c.name, ())]


def fill_notes(folder: DatasetFolder, split: str = "test") -> list[str]:
    """Return sentences on absent budgets of the noise testbed, and on contexts that are short of their budget."""
    present = [config.name for config in _noise_configs(folder, split)]
    statuses = {name: folder.table(name, split)["status"].to_pylist() for name in present}
    short = [f"{name} {of.count('short'):,} of {len(of):,}" for name, of in statuses.items() if "short" in of]
    absent, notes = dict[str, list[str]](), list[str]()
    for subset in SUBSETS:
        missing = [name for name in configs_of("noise", [subset]) if name not in present]
        if missing and len(missing) < len(configs_of("noise", [subset])):
            budgets = ", ".join(name.rpartition("_")[2] for name in missing)
            absent.setdefault(budgets, []).append(TITLES[subset])
    if absent:
        lacks = "; ".join(f"{budgets} ({', '.join(subsets)})" for budgets, subsets in absent.items())
        notes.append(f"Budgets that this dataset does not have: {lacks}.")
    if short:
        notes.append(f"Contexts that are short of their budget, for want of other units: {'; '.join(short)}.")
    return notes


def _hop_cells(
    instances: Sequence[Instance], pool: UnitPool, count: Tokenizer, folder: DatasetFolder, split: str
) -> list[ShownScore | None]:
    """Return the shares of triples 1, 2, 3, and 4 hops or more from the topic, and of unreached ones."""
    subset, budgets = instances[0].subset, PAPER_BUDGETS.values()
    within = [each for each in _noise_configs(folder, split) if each.subset == subset and each.budget in budgets]
    if not within:
        return [None] * 5
    table = folder.table(max(within, key=lambda config: config.budget).name, split)
    shown = dict(zip(table["instance_id"].to_pylist(), table["sk_units"], strict=True))
    graph_of, totals = cache(lambda group: TripleGraph(pool.sk[group])), np.zeros(5)
    for instance in instances:
        if instance.id in shown:
            hops = graph_of(instance.group).hops(instance.topics)[shown[instance.id].values.to_numpy()]
            totals += np.histogram(hops, bins=[1, 2, 3, 4, UNREACHED, UNREACHED + 1])[0]
    return [ShownScore(float(share), digits=4) for share in totals / max(1.0, totals.sum())]
