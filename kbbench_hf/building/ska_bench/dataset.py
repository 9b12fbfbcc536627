"""Builders of `ska-open`, `ska-bench` and the private split: instances, pools and testbeds as one dataset with card."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from kbbench_hf.benchmarks.audits import refuse_unwaived, waived, write_into_card
from kbbench_hf.benchmarks.ska_bench.testbeds import NEWEST, REVISIONS, built_configs, configs
from kbbench_hf.benchmarks.ska_bench.token_counts import Tokenizer, tokenizer
from kbbench_hf.benchmarks.ska_bench.units import SUBSETS, InstanceSet
from kbbench_hf.building.ska_bench.audit import audit
from kbbench_hf.building.ska_bench.card import write_card
from kbbench_hf.building.ska_bench.emptied_rows import add_emptied_rows
from kbbench_hf.building.ska_bench.official import read_official
from kbbench_hf.building.ska_bench.private import RENAMERS, rename_instances
from kbbench_hf.building.ska_bench.public_files import download_sources
from kbbench_hf.building.ska_bench.sources import REMOVED, make_instances, sort_units
from kbbench_hf.building.ska_bench.testbeds import build_testbeds
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
