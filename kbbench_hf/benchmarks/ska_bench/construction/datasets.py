"""`kbbench build ska-open` and `ska-bench`: instances, pools and testbeds as one dataset, with its card."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from kbbench_hf.benchmarks.audits import refuse_unwaived, waived, write_into_card
from kbbench_hf.benchmarks.ska_bench.audit import audit
from kbbench_hf.benchmarks.ska_bench.configs import configs
from kbbench_hf.benchmarks.ska_bench.construction import release as makers
from kbbench_hf.benchmarks.ska_bench.construction.card import VERSION, content_sha256, facts
from kbbench_hf.benchmarks.ska_bench.construction.emptied_rows import with_emptied_rows
from kbbench_hf.benchmarks.ska_bench.construction.public_files import download
from kbbench_hf.benchmarks.ska_bench.construction.testbeds import build_testbeds
from kbbench_hf.benchmarks.ska_bench.construction.tokens import Tokenizer, tokenizer
from kbbench_hf.benchmarks.ska_bench.release import official
from kbbench_hf.benchmarks.ska_bench.units import SUBSETS, Instance, Pool, Release
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.files.datasets import DatasetFolder, write_dataset
from kbbench_hf.files.writing import write_text

SPLITS = ("test", "demo", "unreviewed")
_STRINGS, _NUMBERS = pa.list_(pa.string()), pa.list_(pa.int32())
INSTANCES = pa.schema(
    [
        ("id", pa.string()),
        ("subset", pa.string()),
        ("question", pa.string()),
        ("answers", _STRINGS),
        ("answer_type", pa.string()),
        ("answer_aliases", pa.list_(_STRINGS)),
        ("split", pa.string()),
        ("split_key", pa.string()),
        ("group", pa.string()),
        ("title", pa.string()),
        ("positive_sk", _NUMBERS),
        ("positive_text", _NUMBERS),
        ("withheld_sk", _NUMBERS),
        ("noise_groups", _STRINGS),
        ("own_text", _NUMBERS),
        ("topics", _STRINGS),
        ("decoys", _STRINGS),
        ("program", pa.string()),
        ("method", pa.string()),
        ("reviewed", pa.int32()),
        ("source", pa.string()),
        ("source_id", pa.string()),
        ("commit", pa.string()),
        ("licence", pa.string()),
    ]
)
"""Columns of `instances_*`; `units.Instance` says what they hold."""
POOL = pa.schema(
    [
        ("group", pa.string()),
        ("section", pa.string()),
        ("number", pa.int32()),
        ("cells", _STRINGS),
        ("links", _NUMBERS),
        ("source", pa.string()),
        ("licence", pa.string()),
        ("made", pa.bool_()),
    ]
)
"""Columns of `pool_*`: one unit a row; `section` is `header`, `sk` or `text`."""


def build_open(source: Path | None, out: Path, wanted: Sequence[str] | None = None) -> None:
    """Build `ska-open` from a folder of raw files, whose layout the makers of `release.MAKERS` say.

    Where None is given, the folder is made from the sources' public files at pinned commits (`public_files.download`).

    Raises:
        UsageError: an unknown config.
        DataError: a file is absent or malformed; nothing is written.
        KBBenchError: the audit has a figure above its limit that the card does not waive; the dataset stands, with the
            audit on its card, to be looked at and not to be released.
    """
    subsets = _subsets(wanted, SUBSETS)
    build(_card("ska-open"), makers.make(download() if source is None else source, subsets), out, wanted)
    write_text(out / makers.REMOVED.name, makers.REMOVED.read_text(encoding="utf-8"))
    if wanted is None:
        write_audit(DatasetFolder(out))


def write_audit(folder: DatasetFolder) -> None:
    """Write the audit of a whole build into its card.

    Raises:
        KBBenchError: a figure is above its limit that the card does not waive.
    """
    findings = waived(folder, audit(folder))
    write_into_card(folder, findings)
    refuse_unwaived(findings)


def build_official(source: Path | None, out: Path, wanted: Sequence[str] | None = None) -> None:
    """Build `ska-bench` from the authors' files (`release.official`), which only the user can provide.

    Raises:
        UsageError: no source, or an unknown config.
        DataError: a file is corrupt or has fields that were not declared; nothing is written.
    """
    if source is None:
        raise UsageError(
            "ska-bench is built from the authors' files, which are not shipped here. Expected --source <their folder>."
        )
    build(_card("ska-bench"), official.read(source), out, wanted, every_budget=True)


def build(
    card: str,
    release: Release,
    out: Path,
    wanted: Sequence[str] | None,
    count: Tokenizer | None = None,
    *,
    every_budget: bool = False,
) -> None:
    """Write a dataset of instances, pools and testbeds with its card.

    Of `wanted` configs, with the instances and pools that they need. Noise configs that distinct units do not fill are
    left out unless `every_budget` is wanted.
    """
    from rich.console import Console
    from rich.progress import Progress

    release = with_emptied_rows(makers.in_hash_order(release))
    subsets = _subsets(wanted, sorted({instance.subset for instance in release.instances}, key=SUBSETS.index))
    instances = [instance for instance in release.instances if instance.subset in subsets]
    testbeds = None if wanted is None else [name for name in wanted if name in configs()]
    count = count or tokenizer()
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("Build testbeds", total=len(instances))
        built = build_testbeds(instances, release.pools, testbeds, count, lambda: bar.advance(task), every_budget)
    tables: dict[str, dict[str, pa.Table]] = {
        f"instances_{subset}": _instances_table(instances, subset) for subset in subsets
    }
    tables |= {f"pool_{subset}": _pool_table(release.pools[subset]) for subset in subsets}
    said = facts(release._replace(instances=instances), built, count.name)
    version = f"Version {VERSION}, SHA-256 of instances and pools `{content_sha256(tables)}`."
    text = f"{card.rstrip()}\n\n{said}\n{version}\n"
    write_dataset(out, {**tables, **built.tables}, text, version=VERSION)


def _card(dataset: str) -> str:
    return (Path(__file__).parents[1] / "cards" / f"{dataset}.md").read_text(encoding="utf-8")


def _subsets(wanted: Sequence[str] | None, present: Sequence[str]) -> list[str]:
    known = {name: config.subset for name, config in configs().items()}
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


def _instances_table(instances: Sequence[Instance], subset: str) -> dict[str, pa.Table]:
    members = [instance for instance in instances if instance.subset == subset]
    splits = {split: [each.to_row() for each in members if each.split == split] for split in SPLITS}
    return {split: pa.Table.from_pylist(rows, INSTANCES) for split, rows in splits.items() if rows}


def _pool_table(pool: Pool) -> dict[str, pa.Table]:
    return {"full": pa.Table.from_pylist(pool.to_rows(), POOL)}
