"""The paper's evaluation of several systems as data: all tables and figures of arXiv 2507.17178 that have results.

Beyond the paper: intervals, the answerable control beside rejection, depths, and what a budget or a run lacks. What
describes the dataset alone is in `statistics`, what changes with budget and order in `over_settings`.
"""

from collections.abc import Sequence
from pathlib import Path

from kbbench_hf.benchmarks.base import ScoredConfig, Systems
from kbbench_hf.benchmarks.figures import FigureTable, Section, Shown
from kbbench_hf.benchmarks.published import read_published
from kbbench_hf.benchmarks.ska_bench.cells import (
    F1,
    Cells,
    average,
    combined,
    figures_of,
    of_configs,
    over_configs,
    present,
    shown,
    with_figures,
)
from kbbench_hf.benchmarks.ska_bench.configs import BUCKETS, STANDARD, bucket, configs, configs_of
from kbbench_hf.benchmarks.ska_bench.over_settings import AVERAGE, NOISE, ORDER, over_settings
from kbbench_hf.benchmarks.ska_bench.statistics import dataset_section, fill_notes
from kbbench_hf.benchmarks.ska_bench.testbeds import (
    TITLES,
    bucket_panels,
    depth_panels,
    hardness_configs,
    hardness_panels,
    rejection_panels,
)
from kbbench_hf.benchmarks.ska_bench.units import SUBSETS
from kbbench_hf.files.datasets import DatasetFolder
from kbbench_hf.metrics.robustness import Column, population_std, std_interval

REJECTION = {"rejection_rate": "rejected", "acceptance_rate": "accepted", "balanced_accuracy": "balanced"}


def evaluation(systems: Systems, folder: DatasetFolder | None = None, split: str = "test") -> list[Section]:
    """Return a section for each testbed of which some system has results, then one for the data.

    Without the dataset's folder, what needs it is left out: Tables 1, 2 and 6, Figure 4, short contexts.
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
    """Return the same of the models that the paper evaluates, on its own data; its figures have no intervals."""
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
    """Return F1 by the units needed, and its deviation over them where the dataset says what each question needs."""
    panels = bucket_panels(systems)
    if not panels.panels:
        return None
    columns: list[tuple[str, str]] = []
    subsets: list[str] = []
    rows: dict[str, Cells] = {system: [] for system in systems}
    deviations: dict[str, Cells] = {system: [] for system in systems}
    for subset in SUBSETS:
        config = f"noise_{subset}_{STANDARD[subset]}"
        runs = {system: of[config] for system, of in systems.items() if config in of}
        slices = {system: run.result["slices"].get("n_required", {}) for system, run in runs.items()}
        there = [each for each in BUCKETS if any(each in found for found in slices.values())]
        needed = _needed(folder, config, split) if there and folder else {}
        columns += [(TITLES[subset], each) for each in there]
        subsets += [subset] if needed else []
        for system in systems:
            found, run = slices.get(system, {}), runs.get(system)
            cells = [shown(found[each][F1], run) if each in found else None for each in there]
            rows[system] += cells
            if needed:
                values = run.values.get(F1, {}) if run else {}
                by_bucket = [{e: value for e, value in values.items() if needed.get(e) == each} for each in there]
                deviations[system].append(_deviation(cells, by_bucket))
    title = "F1 by units needed (Figure 9)"
    tables = [FigureTable("figure-9", title, columns, with_figures(rows), best="highest")]
    if subsets:
        title = "Standard deviation of F1 over units needed (Figure 9)"
        columns = [("", TITLES[subset]) for subset in subsets]
        tables.append(FigureTable("figure-9-deviation", title, columns, with_figures(deviations), best="lowest"))
    note = "At each subset's standard budget, 4k or with text 12k. The paper leaves out questions that need one unit."
    return Section("Information integration", tables, {"figure-9": panels}, [note])


def _deviation(cells: Sequence[Shown | None], by_bucket: Sequence[Column]) -> Shown | None:
    """Return the deviation over buckets, each of its own examples; None where one was not scored."""
    there = [each for each in cells if each]
    if len(there) < len(cells):
        return None
    value = population_std([each.value for each in there])
    return combined(value, [by_bucket], std_interval, weak=any(each.weak for each in there))


def _needed(folder: DatasetFolder, config: str, split: str) -> dict[int | str, str]:
    """Return the bucket of each example of a config."""
    if split not in folder.configs().get(config, ()):
        return {}
    table = folder.table(config, split)
    return dict(zip(table["id"].to_pylist(), map(bucket, table["n_required"].to_pylist()), strict=True))


def _rejection(systems: Systems) -> Section | None:
    """Return what was rejected, as the paper has it, and beside it the control: who always says no accepts nothing."""
    plain, control = (present(systems, configs_of(each)) for each in ("rejection", "rejection_control"))
    tables, notes = [], []
    if plain:
        rows = with_figures(of_configs(systems, plain, "rejection_rate"))
        for system, row in rows.items():
            row.append(average(row, _columns(systems, system, plain, ["rejection_rate"])))
        columns = [("", TITLES[configs()[name].subset]) for name in plain] + [("", AVERAGE)]
        tables.append(
            FigureTable("table-5", "Unanswerable questions rejected (Table 5)", columns, rows, best="highest")
        )
    if control:
        by_metric = [of_configs(systems, control, metric) for metric in REJECTION]
        rows = with_figures(
            {system: [of[system][place] for place in range(len(control)) for of in by_metric] for system in systems}
        )
        for system, row in rows.items():
            row.append(average(row[2::3], _columns(systems, system, control, ["rejection_rate", "acceptance_rate"])))
        columns = [(TITLES[configs()[name].subset], words) for name in control for words in REJECTION.values()]
        title = "Abstention: unanswerable questions rejected, answerable questions accepted, and their mean"
        columns.append((AVERAGE, "balanced"))
        tables.append(FigureTable("rejection-control", title, columns, rows, best="highest"))
    elif plain:
        notes.append(
            "Without the answerable control, a system that always answers no is best: run --testbed rejection_control."
        )
    panels = rejection_panels(figures_of(systems))
    pictures = {"rejection": panels} if panels.panels else {}
    return Section("Negative rejection", tables, pictures, notes) if tables else None


def _columns(systems: Systems, system: str, names: Sequence[str], metrics: Sequence[str]) -> list[list[Column]]:
    runs = [systems[system][name] for name in names if name in systems[system]]
    return [[run.values.get(metric, {})] for run in runs for metric in metrics]


def _hardness(systems: Systems) -> Section | None:
    subsets = [each for each in ("kg", "kg_text") if present(systems, hardness_configs(each)[::2])]
    if not subsets:
        return None
    columns: list[tuple[str, str]] = []
    rows: dict[str, Cells] = {
        name: [] for name, of in systems.items() if any(config.startswith("hardness") for config in of)
    }
    for subset in subsets:
        names = hardness_configs(subset)
        columns += [(TITLES[subset], words) for words in ("hard", "mixed", "easy", "deviation")]
        cells = of_configs(systems, names)
        for system, row in rows.items():
            row += [*cells[system], over_configs(systems[system], names, population_std, std_interval)]
    table = FigureTable("table-7", "F1 by distance of the noise (Table 7)", columns, with_figures(rows))
    note = (
        "Hard noise is within 2 hops of the topic, easy noise 4 hops or more from it; mixed is the noise testbed's 4k, "
        "whose contexts may have another length."
    )
    return Section("Noise hardness", [table], {"hardness": hardness_panels(figures_of(systems))}, [note])


def _depth(systems: Systems) -> Section | None:
    names = present(systems, configs_of("depth"))
    if not names:
        return None
    columns = [(TITLES[configs()[name].subset], f"{100 * (configs()[name].depth or 0):.0f} %") for name in names]
    title = "F1 by the share of noise before the needed units"
    table = FigureTable("depth", title, columns, with_figures(of_configs(systems, names)), best="highest")
    return Section("Depth", [table], {"depth": depth_panels(figures_of(systems))}, ["Not in the paper."])
