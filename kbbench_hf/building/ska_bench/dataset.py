"""Builders of `ska-open`, `ska-bench` and the private split: instances, pools and testbeds as one dataset with card."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from kbbench_hf.benchmarks.ska_bench.token_counts import Tokenizer, tokenizer
from kbbench_hf.benchmarks.ska_bench.units import SUBSETS, Instance, InstanceSet, UnitPool
from kbbench_hf.building.ska_bench.audit import audit, distance_from_uniform
from kbbench_hf.building.ska_bench.emptied_rows import add_emptied_rows
from kbbench_hf.building.ska_bench.noise import looks_like_evidence
from kbbench_hf.building.ska_bench.official import read_official
from kbbench_hf.building.ska_bench.private import RENAMERS, rename_instances
from kbbench_hf.building.ska_bench.programs import alternatives
from kbbench_hf.building.ska_bench.public_files import download_sources
from kbbench_hf.building.ska_bench.sources import REMOVED, make_instances, sort_units
from kbbench_hf.building.ska_bench.testbeds import FILLED, SAME, Testbeds, build_testbeds
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.files.datasets import DatasetFolder, write_dataset
from kbbench_hf.files.writing import write_text

SPLITS = ("test", "demo", "unreviewed")
_COLUMN_TYPES = {
    "text": pa.string(),
    "number": pa.int32(),
    "flag": pa.bool_(),
    "texts": pa.list_(pa.string()),
    "numbers": pa.list_(pa.int32()),
    "lists": pa.list_(pa.list_(pa.string())),
}


def _schema(*columns: tuple[str, str]) -> pa.Schema:
    """Return a schema of columns, given as (type, names)."""
    return pa.schema([(name, _COLUMN_TYPES[kind]) for kind, names in columns for name in names.split()])


INSTANCES = _schema(
    ("text", "id subset question"),
    ("texts", "answers"),
    ("text", "answer_type"),
    ("lists", "answer_aliases"),
    ("text", "split split_key group title"),
    ("numbers", "positive_sk positive_text withheld_sk"),
    ("texts", "noise_groups"),
    ("numbers", "own_text"),
    ("texts", "topics decoys"),
    ("text", "program method"),
    ("number", "reviewed"),
    ("text", "source source_id commit licence"),
)
"""Columns of `instances_*`, as described in `units.Instance`."""
POOL = _schema(
    ("text", "group section"),
    ("number", "number"),
    ("texts", "cells"),
    ("numbers", "links"),
    ("text", "source licence"),
    ("flag", "made"),
)
"""Columns of `pool_*`: one unit a row; `section` is `header`, `sk` or `text`."""


def build_open(source: Path | None, out: Path, wanted: Sequence[str] | None = None, revision: int = NEWEST) -> None:
    """Build `ska-open` from a folder of raw files (`sources.MAKERS`).

    Where None is given, the folder is made from the sources' public files at pinned commits. An earlier `revision` of
    the construction (`REVISIONS`) builds the dataset of that time, byte for byte; the card may differ.

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
    count: Tokenizer | None = None,
    *,
    every_budget: bool = False,
    revision: int = NEWEST,
) -> None:
    """Write a dataset of instances, pools and testbeds with its card, by a revision of the construction.

    Of `wanted` configs, with the instances and pools that they need. Noise configs that distinct units do not fill are
    left out unless `every_budget` is set.
    """
    from rich.console import Console
    from rich.progress import Progress

    release = add_emptied_rows(sort_units(release))
    subsets = _subsets(wanted, sorted({instance.subset for instance in release.instances}, key=SUBSETS.index), revision)
    instances = [instance for instance in release.instances if instance.subset in subsets]
    testbeds = None if wanted is None else [name for name in wanted if name in configs()]
    count = count or tokenizer()
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("Build testbeds", total=len(instances))
        built = build_testbeds(
            instances, release.pools, testbeds, count, lambda: bar.advance(task), every_budget, revision
        )
    tables: dict[str, dict[str, pa.Table]] = {}
    for subset in subsets:
        members = [instance for instance in instances if instance.subset == subset]
        rows = {split: [each.to_row() for each in members if each.split == split] for split in SPLITS}
        tables[f"instances_{subset}"] = {
            split: pa.Table.from_pylist(of_split, INSTANCES) for split, of_split in rows.items() if of_split
        }
    for subset in subsets:
        tables[f"pool_{subset}"] = {"full": pa.Table.from_pylist(release.pools[subset].to_rows(), POOL)}
    text = write_card(card, release._replace(instances=instances), built, count.name, tables, revision)
    write_dataset(out, {**tables, **built.tables}, text, version=REVISIONS[revision])


def _card(dataset: str) -> str:
    return (Path(__file__).parent / "cards" / f"{dataset}.md").read_text(encoding="utf-8")


def _subsets(wanted: Sequence[str] | None, present: Sequence[str], revision: int) -> list[str]:
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
LIKE_EVIDENCE = {"noise_table_1k": 3, "noise_table_4k": 5}
"""Config -> how many rows that look like evidence are enough."""


def write_card(
    card: str,
    release: InstanceSet,
    built: Testbeds,
    tokenizer: str,
    tables: Mapping[str, Mapping[str, pa.Table]],
    revision: int,
) -> str:
    """Return a card with the report of a build, in Markdown, and with version and hash of instances and pools."""
    instances, pools = release.instances, release.pools
    subsets = [subset for subset in SUBSETS if any(each.subset == subset for each in instances)]
    parts = [
        _sizes(instances, subsets),
        _steps([each for each in release.counts if each.subset in subsets]),
        _sources(instances, pools, subsets),
        _budgets(built),
        _positions(instances, built, subsets),
        _noise_like_evidence(release, built),
        _left_out(built),
    ]
    lines = ["## This build", "", f"Budgets are counted with `{tokenizer}`."]
    for part in map(list, parts):
        lines += ["", *part] if part else []
    version = f"Version {REVISIONS[revision]}, SHA-256 of instances and pools `{content_sha256(tables)}`."
    return f"{card.rstrip()}\n\n" + "\n".join(lines) + f"\n\n{version}\n"


def content_sha256(tables: Mapping[str, Mapping[str, pa.Table]]) -> str:
    """Return the SHA-256 of all rows of instances and pools, in order, as JSON: what a version identifies."""
    digest = hashlib.sha256()
    for config in sorted(name for name in tables if name.startswith(("instances_", "pool_"))):
        for split, table in sorted(tables[config].items()):
            digest.update(f"{config}/{split}\n".encode())
            for row in table.to_pylist():
                digest.update(json.dumps(row, ensure_ascii=False, sort_keys=True).encode() + b"\n")
    return digest.hexdigest()


def _sizes(instances: Sequence[Instance], subsets: Sequence[str]) -> Iterator[str]:
    yield "The first three columns count questions; the next three are means per test question, of the needed"
    yield "units and of the gold answers; the last are shares of questions by their number of needed units. In"
    yield "brackets: SKA-Bench."
    yield ""
    head = ["subset", "test", "demo", "unreviewed", "triples or rows", "texts", "answers"]
    rows = []
    for subset in subsets:
        of_split = Counter(each.split for each in instances if each.subset == subset)
        test = [each for each in instances if (each.subset, each.split) == (subset, "test")]
        n, *means = PAPER[subset]
        counted = ("positive_sk", "positive_text", "answers")
        columns = [[len(getattr(each, name)) for each in test] for name in counted]
        share = Counter(bucket(len(each.positive_sk) + len(each.positive_text)) for each in test)
        rows.append(
            [
                subset,
                f"{of_split['test']} ({n})",
                of_split["demo"],
                of_split["unreviewed"],
                *(f"{_mean(own)} ({mean:.2f})" for own, mean in zip(columns, means, strict=True)),
                *(f"{share[each] / max(1, len(test)):.0%}" for each in BUCKETS),
            ]
        )
    yield from _table([*head, *(f"needs {each}" for each in BUCKETS)], rows)


def _steps(counts: Sequence[Sequence[object]]) -> Iterator[str]:
    if counts:
        yield "Number of questions that remain after each step, including those of `demo`. For a quota: its"
        yield "share of the questions before the selection, and of the selected questions."
        yield ""
        yield from _table(["subset", "source", "step", "left"], counts)


def _sources(instances: Sequence[Instance], pools: Mapping[str, UnitPool], subsets: Sequence[str]) -> Iterator[str]:
    questions = Counter((each.subset, each.source, each.licence) for each in instances)
    head = ["subset", "questions from", "license", "instances"]
    yield from _table(head, [(*of, n) for of, n in sorted(questions.items())])
    yield ""
    units: Counter[tuple[str, str, str, str]] = Counter()
    for subset in subsets:
        for row in pools[subset].to_rows():
            if row["section"] != "header":
                units[subset, row["source"], row["licence"], "made" if row["made"] else "real"] += 1
    head = ["subset", "units from", "license", "", "units"]
    yield from _table(head, [(*of, f"{n:,}") for of, n in sorted(units.items())])
    if unlicensed := sorted({source for _, source, licence in questions if "none stated" in licence}):
        yield ""
        yield f"**Not to be published**: {', '.join(unlicensed)} states no license. Build without it to share."


def _budgets(built: Testbeds) -> Iterator[str]:
    yield f"A config is built for a budget if its contexts fill {FILLED:.0%} of it on average, and if under"
    yield f"{SAME:.0%} of them are the same as for the next smaller budget."
    yield ""
    rows = [
        (name, each.n, f"{each.fill:.1%}", f"{each.same:.1%}", "yes" if name in built.tables else "no")
        for name, each in built.budgets.items()
    ]
    yield from _table(["config", "test rows", "filled to", "same as smaller budget", "built"], rows)


def _positions(instances: Sequence[Instance], built: Testbeds, subsets: Sequence[str]) -> Iterator[str]:
    yield "Positions of the needed units in their section, at the standard budget: the share in each tenth of"
    yield "the section, and the Kolmogorov-Smirnov distance from uniform (target: 0.10 or less)."
    yield ""
    positive = {each.id: (each.positive_sk, each.positive_text) for each in instances}
    rows = []
    for subset in subsets:
        config = f"noise_{subset}_{STANDARD[subset]}"
        shown = built.tables[config]["test"].to_pylist() if config in built.tables else []
        for section, units in enumerate(("sk_units", "text_units")):
            depths = [
                (place + 0.5) / len(row[units])
                for row in shown
                for place, number in enumerate(row[units])
                if number in positive[row["instance_id"]][section]
            ]
            if depths:
                shares = np.histogram(depths, bins=10, range=(0, 1))[0] / len(depths)
                tenths = [f"{share:.0%}" for share in shares]
                rows.append([subset, units, *tenths, f"{distance_from_uniform(depths):.3f}"])
    yield from _table(["subset", "section", *(f"{n}0 %" for n in range(1, 11)), "distance"], rows)


def _noise_like_evidence(release: InstanceSet, built: Testbeds) -> Iterator[str]:
    """Yield the share of table contexts with enough noise rows that resemble evidence."""
    by_id = {each.id: each for each in release.instances if each.subset == "table" and each.program}
    rows = []
    for config, enough in LIKE_EVIDENCE.items():
        found: dict[bool, list[bool]] = {True: [], False: []}
        for row in built.tables[config]["test"].to_pylist() if config in built.tables else ():
            instance = by_id.get(row["instance_id"])
            if instance is None or instance.program is None or row["status"] == "over_budget":
                continue
            cells, program = release.pools["table"].structured(instance), instance.program
            noise = (cells[n] for n in row["sk_units"] if n not in instance.positive_sk)
            is_several = max(map(len, alternatives(program))) > 1
            found[is_several].append(sum(looks_like_evidence(program, each) for each in noise) >= enough)
        for is_several, holds in found.items():
            if holds:
                kind = "several" if is_several else "one"
                rows.append((config, kind, len(holds), enough, f"{np.mean(holds):.0%}"))
    if rows:
        yield "Noise rows that resemble evidence meet some but not all conditions of a question. If the"
        yield "question has one condition, they have its value in another column. The table has the share of"
        yield "contexts with enough such rows. A question with one condition has none if no other column has"
        yield "such a value (most names, and bounds)."
        yield ""
        yield from _table(["config", "conditions", "test rows", "minimum", "with enough"], rows)


def _left_out(built: Testbeds) -> Iterator[str]:
    yield "Test questions that a config leaves out. `rejection`: questions without twins (see above)."
    yield "`hardness`: questions with too little noise of one of the two levels for 1k tokens."
    yield ""
    yield from _table(["config", "instances"], sorted(built.left_out.items()))


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"


def _mean(values: Iterable[float]) -> str:
    found = list(values)
    return f"{np.mean(found):.2f}" if found else "-"
