"""Builders of `ska-open`, `ska-bench` and the private split: instances, pools and testbeds as one dataset with card.

`kbbench build` and `dataset_scripts/` call them. The columns are stored formats, and the rows of a revision stay the
same byte for byte; the text of a card may change.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa

from kbbench_hf.benchmarks.audits import refuse_unwaived, waived, write_into_card
from kbbench_hf.benchmarks.ska_bench.testbeds import (
    BUCKETS,
    NEWEST,
    REVISIONS,
    STANDARD,
    bucket,
    built_configs,
    configs,
)
from kbbench_hf.benchmarks.ska_bench.token_counts import tokenizer
from kbbench_hf.benchmarks.ska_bench.units import SUBSETS, Instance, InstanceSet
from kbbench_hf.building.ska_bench.audit import audit, distance_from_uniform
from kbbench_hf.building.ska_bench.emptied_rows import add_emptied_rows
from kbbench_hf.building.ska_bench.noise import looks_like_evidence
from kbbench_hf.building.ska_bench.official import read_official
from kbbench_hf.building.ska_bench.private import RENAMERS, rename_instances
from kbbench_hf.building.ska_bench.programs import alternatives
from kbbench_hf.building.ska_bench.public_files import download_sources
from kbbench_hf.building.ska_bench.sources import REMOVED, make_instances, sort_units
from kbbench_hf.building.ska_bench.testbeds import FILLED, SAME, Testbeds, build_testbeds, column_schema
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.files.datasets import DatasetFolder, Row, write_dataset
from kbbench_hf.files.writing import write_text

SPLITS = ("test", "demo", "unreviewed")
INSTANCES = column_schema(
    "text id subset question, texts answers, text answer_type, lists answer_aliases, text split split_key group"
    " title, numbers positive_sk positive_text withheld_sk, texts noise_groups, numbers own_text, texts topics"
    " decoys, text program method, number reviewed, text source source_id commit licence"
)
"""Columns of `instances_*`, as described in `units.Instance`, with a row for each instance by id."""
POOL = column_schema("text group section, number number, texts cells, numbers links, text source licence, flag made")
"""Columns of `pool_*`: one unit a row; `section` is `header`, `sk` or `text`."""


def build_open(source: Path | None, out: Path, wanted: Sequence[str] | None = None, revision: int = NEWEST) -> None:
    """Build `ska-open` in `out` from a folder of raw files (`sources.MAKERS`), with its audit where it is whole.

    Without a folder, one is made from the sources' public files at pinned commits. `wanted` are names of configs, or
    None for all. An earlier `revision` of the construction (`REVISIONS`) builds the dataset of that time, byte for
    byte; the card may differ.

    Raises:
        UsageError: an unknown config.
        DataError: a file is absent or malformed; nothing is written.
        KBBenchError: the audit has a score above its limit that the card does not waive; the dataset stays, with the
            audit on its card, for inspection and not for release.
    """
    subsets = _subsets(wanted, SUBSETS, revision)
    instances = make_instances(download_sources() if source is None else source, subsets, revision)
    build(_card("ska-open"), instances, out, wanted, revision=revision)
    write_text(out / REMOVED.name, REMOVED.read_text(encoding="utf-8"))
    if wanted is None:
        write_audit(DatasetFolder(out), revision)


def write_audit(folder: DatasetFolder, revision: int = NEWEST) -> None:
    """Write the audit of a whole build into its card.

    Raises:
        KBBenchError: a score is above its limit that the card does not waive, in the newest revision; an earlier one
            keeps the faults that a later audit finds.
    """
    findings = waived(folder, audit(folder))
    write_into_card(folder, findings)
    if revision == NEWEST:
        refuse_unwaived(findings)


def build_official(source: Path | None, out: Path, wanted: Sequence[str] | None = None) -> None:
    """Build `ska-bench` from the authors' files (`official`), which only the user can provide.

    Raises:
        UsageError: no source, or an unknown config.
        DataError: a file is corrupt or has fields that were not declared; nothing is written.
    """
    if source is None:
        raise UsageError(
            "ska-bench is built from the authors' files, which are not shipped here. Expected --source <their folder>."
        )
    build(_card("ska-bench"), read_official(source), out, wanted, every_budget=True)


def build_private(
    source: Path | None, out: Path, wanted: Sequence[str] | None, seed: str, revision: int = NEWEST
) -> None:
    """Build the private split of `ska-open` for a seed (`private`), from a folder as `build_open` takes it, or None.

    The seed itself is stored nowhere.

    Raises:
        UsageError: an empty seed, or a config of a hybrid subset.
        DataError: a file of the source is absent or malformed; nothing is written.
        KBBenchError: the audit has a score above its limit that the card does not waive; the dataset stays.
    """
    if not seed.strip():
        raise UsageError("The seed is empty; expected a secret that is hard to guess. Name one with --private.")
    known = configs()
    for name in wanted or ():
        if name in known and known[name].subset not in RENAMERS:
            raise UsageError(
                f"{name} is of a hybrid subset, which has no private split; expected configs of kg or table."
            )
    instances = make_instances(download_sources() if source is None else source, tuple(RENAMERS), revision)
    instances, left_out = rename_instances(instances, seed)
    counted = "".join(f"- {n:,} instances: {why}\n" for why, n in Counter(left_out.values()).most_common())
    build(_card("private").replace("LEFT OUT", counted or "- none\n"), instances, out, wanted, revision=revision)
    if wanted is None:
        write_audit(DatasetFolder(out), revision)


def build(
    card: str,
    release: InstanceSet,
    out: Path,
    wanted: Sequence[str] | None,
    *,
    every_budget: bool = False,
    revision: int = NEWEST,
) -> None:
    """Write a dataset of instances, pools and testbeds with its card, by a revision of the construction.

    Only `wanted` configs are written, if any are named, with the instances and pools of their subsets. Noise configs
    that distinct units do not fill are left out unless `every_budget` is set. `card` is Markdown with front matter, to
    which the report of the build is added.

    Raises:
        UsageError: an unknown config, or one of a subset without instances; nothing is written.
    """
    from rich.console import Console
    from rich.progress import Progress

    release = add_emptied_rows(sort_units(release))
    subsets = _subsets(wanted, sorted({instance.subset for instance in release.instances}, key=SUBSETS.index), revision)
    instances = [instance for instance in release.instances if instance.subset in subsets]
    testbeds = None if wanted is None else [name for name in wanted if name in configs()]
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("Build testbeds", total=len(instances))
        built = build_testbeds(instances, release.pools, testbeds, lambda: bar.advance(task), every_budget, revision)
    tables: dict[str, dict[str, pa.Table]] = {}
    for subset in subsets:
        members = [instance for instance in instances if instance.subset == subset]
        of_split = {split: [each.to_row() for each in members if each.split == split] for split in SPLITS}
        made = {split: pa.Table.from_pylist(rows, INSTANCES) for split, rows in of_split.items() if rows}
        tables[f"instances_{subset}"] = made
    for subset in subsets:
        tables[f"pool_{subset}"] = {"full": pa.Table.from_pylist(release.pools[subset].to_rows(), POOL)}
    report = write_report(release._replace(instances=instances), built)
    text = (
        f"{card.rstrip()}\n\n## This build\n\nBudgets are counted with `{tokenizer().name}`.\n{report}\n\n"
        f"Version {REVISIONS[revision]}, SHA-256 of instances and pools `{content_sha256(tables)}`.\n"
    )
    write_dataset(out, {**tables, **built.tables}, text, version=REVISIONS[revision])


def _card(dataset: str) -> str:
    return (Path(__file__).parent / "cards" / f"{dataset}.md").read_text(encoding="utf-8")


def _subsets(wanted: Sequence[str] | None, present: Sequence[str], revision: int) -> list[str]:
    """Return those of the present subsets that the wanted configs need, all where None are named.

    Raises:
        UsageError: an unknown config, or one of a subset that is not present.
    """
    known = {name: config.subset for name, config in built_configs(revision).items()}
    known |= {f"{kind}_{subset}": subset for subset in SUBSETS for kind in ("instances", "pool")}
    for name in wanted or ():
        if name not in known:
            raise unknown_name("config", name, known)
        if known[name] not in present:
            raise UsageError(
                f"The source has no {known[name]} instances, which {name!r} needs; it has {', '.join(present)}."
            )
    needed = set(present) if wanted is None else {known[name] for name in wanted}
    return [subset for subset in present if subset in needed]


PAPER = {
    "kg": (233, 4.25, 0, 1.96),
    "table": (295, 3.40, 0, 1.10),
    "kg_text": (195, 2.53, 1.92, 1.86),
    "table_text": (198, 1.17, 1.28, 1.01),
}
"""Subset -> instances, and means of structured units, texts and answers of a question.

Source: SKA-Bench (arXiv 2507.17178), section 3 and table 1."""
Section = tuple[str, str, Sequence[Sequence[object]]]
"""A paragraph, which may be empty, and its table: the names of columns, separated by bars, and the rows."""
LIKE_EVIDENCE = {"noise_table_1k": 3, "noise_table_4k": 5}
"""Config -> how many rows that look like evidence are enough."""


def write_report(release: InstanceSet, built: Testbeds) -> str:
    """Return the report of a build in Markdown: paragraphs with tables, without those whose table is empty."""
    subsets = [subset for subset in SUBSETS if any(each.subset == subset for each in release.instances)]
    left_out = (
        "Test questions that a config leaves out. `rejection`: questions without twins (see above).\n"
        "`hardness`: questions with too little noise of one of the two levels for 1k tokens."
    )
    steps = (
        "Number of questions that remain after each step, including those of `demo`. For a quota: its\n"
        "share of the questions before the selection, and of the selected questions."
    )
    sections: list[Section] = [
        _sizes(release.instances, subsets),
        (steps, "subset | source | step | left", [each for each in release.counts if each.subset in subsets]),
        *_sources(release, subsets),
        _budgets(built),
        _positions(release.instances, built, subsets),
        _noise_like_evidence(release, built),
        (left_out, "config | instances", sorted(built.left_out.items())),
    ]
    lines: list[str] = []
    for text, head, rows in sections:
        if rows:
            separator = "---|" * len(head.split(" | "))
            lines += ["", *([text, ""] if text else []), f"| {head} |", f"|{separator}"]
            lines += [f"| {' | '.join(map(str, row))} |" for row in rows]
    return "\n".join(lines)


def content_sha256(tables: Mapping[str, Mapping[str, pa.Table]]) -> str:
    """Return the SHA-256 of all rows of instances and pools, in order, as JSON: what a version identifies.

    Published cards state it; testbeds follow from these rows and the construction, and are not part of it.
    """
    digest = hashlib.sha256()
    for config in sorted(name for name in tables if name.startswith(("instances_", "pool_"))):
        for split, table in sorted(tables[config].items()):
            digest.update(f"{config}/{split}\n".encode())
            for row in table.to_pylist():
                digest.update(json.dumps(row, ensure_ascii=False, sort_keys=True).encode() + b"\n")
    return digest.hexdigest()


def _sizes(instances: Sequence[Instance], subsets: Sequence[str]) -> Section:
    text = (
        "The first three columns count questions; the next three are means per test question, of the needed\n"
        "units and of the gold answers; the last are shares of questions by their number of needed units. In\n"
        "brackets: SKA-Bench."
    )
    rows = []
    for subset in subsets:
        of_split = Counter(each.split for each in instances if each.subset == subset)
        test = [each for each in instances if (each.subset, each.split) == (subset, "test")]
        n, *of_paper = PAPER[subset]
        n_units = [(len(each.positive_sk), len(each.positive_text), len(each.answers)) for each in test]
        means = [f"{np.mean(values):.2f}" for values in zip(*n_units, strict=True)] or ["-"] * 3
        share = Counter(bucket(len(each.positive_sk) + len(each.positive_text)) for each in test)
        cells = [subset, f"{of_split['test']} ({n})", of_split["demo"], of_split["unreviewed"]]
        cells += [f"{own} ({mean:.2f})" for own, mean in zip(means, of_paper, strict=True)]
        rows.append([*cells, *(f"{share[each] / max(1, len(test)):.0%}" for each in BUCKETS)])
    head = "subset | test | demo | unreviewed | triples or rows | texts | answers"
    return text, " | ".join([head, *(f"needs {each}" for each in BUCKETS)]), rows


def _sources(release: InstanceSet, subsets: Sequence[str]) -> Iterator[Section]:
    questions = Counter((each.subset, each.source, each.licence) for each in release.instances)
    yield "", "subset | questions from | license | instances", [(*of, n) for of, n in sorted(questions.items())]
    units = Counter(
        (subset, row["source"], row["licence"], "made" if row["made"] else "real")
        for subset in subsets
        for row in release.pools[subset].to_rows()
        if row["section"] != "header"
    )
    yield "", "subset | units from | license |  | units", [(*of, f"{n:,}") for of, n in sorted(units.items())]


def _budgets(built: Testbeds) -> Section:
    text = (
        f"A config is built for a budget if its contexts fill {FILLED:.0%} of it on average, and if under\n"
        f"{SAME:.0%} of them are the same as for the next smaller budget."
    )
    rows = [
        (name, each.n, f"{each.fill:.1%}", f"{each.same:.1%}", "yes" if name in built.tables else "no")
        for name, each in built.budgets.items()
    ]
    return text, "config | test rows | filled to | same as smaller budget | built", rows


def _positions(instances: Sequence[Instance], built: Testbeds, subsets: Sequence[str]) -> Section:
    text = (
        "Positions of the needed units in their section, at the standard budget: the share in each tenth of\n"
        "the section, and the Kolmogorov-Smirnov distance from uniform (target: 0.10 or less)."
    )
    positive = {i.id: {"sk_units": i.positive_sk, "text_units": i.positive_text} for i in instances}
    rows = []
    for subset, units in product(subsets, ("sk_units", "text_units")):
        depths = [
            (place + 0.5) / len(row[units])
            for row in _test_rows(built, f"noise_{subset}_{STANDARD[subset]}")
            for place, number in enumerate(row[units])
            if number in positive[row["instance_id"]][units]
        ]
        if depths:
            tenths = np.histogram(depths, bins=10, range=(0, 1))[0] / len(depths)
            rows.append([subset, units, *(f"{share:.0%}" for share in tenths), f"{distance_from_uniform(depths):.3f}"])
    return text, " | ".join(["subset | section", *(f"{n}0 %" for n in range(1, 11)), "distance"]), rows


def _test_rows(built: Testbeds, config: str) -> list[Row]:
    return built.tables[config]["test"].to_pylist() if config in built.tables else []


def _noise_like_evidence(release: InstanceSet, built: Testbeds) -> Section:
    """Return the share of table contexts with enough noise rows that resemble evidence."""
    text = (
        "Noise rows that resemble evidence meet some but not all conditions of a question. If the\n"
        "question has one condition, they have its value in another column. The table has the share of\n"
        "contexts with enough such rows. A question with one condition has none if no other column has\n"
        "such a value (most names, and bounds)."
    )
    by_id = {each.id: each for each in release.instances if each.subset == "table"}
    rows = []
    for config, enough in LIKE_EVIDENCE.items():
        found: dict[str, list[bool]] = {"several": [], "one": []}
        for row in _test_rows(built, config):
            instance = by_id[row["instance_id"]]
            if instance.program and row["status"] != "over_budget":
                cells, program = release.pools["table"].structured(instance), instance.program
                alike = [looks_like_evidence(program, cells[n]) for n in {*row["sk_units"]} - {*instance.positive_sk}]
                kind = "several" if max(map(len, alternatives(program))) > 1 else "one"
                found[kind].append(sum(alike) >= enough)
        rows += [(config, kind, len(of), enough, f"{np.mean(of):.0%}") for kind, of in found.items() if of]
    return text, "config | conditions | test rows | minimum | with enough", rows
