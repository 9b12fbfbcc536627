"""`kbbench build ska-open` and `ska-bench`: instances, pools and testbeds as one dataset, with its card."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kbbench_hf.benchmarks.audits import refuse_unwaived, waived, write_into_card
from kbbench_hf.benchmarks.ska_bench.configs import STANDARD, bucket, configs
from kbbench_hf.benchmarks.ska_bench.table_programs import alternatives
from kbbench_hf.benchmarks.ska_bench.token_counts import Tokenizer, tokenizer
from kbbench_hf.benchmarks.ska_bench.units import SUBSETS, Count, Instance, Pool, Release
from kbbench_hf.building.ska_bench import official
from kbbench_hf.building.ska_bench import sources as makers
from kbbench_hf.building.ska_bench.audit import audit
from kbbench_hf.building.ska_bench.emptied_rows import with_emptied_rows
from kbbench_hf.building.ska_bench.near_rows import looks_like_evidence
from kbbench_hf.building.ska_bench.public_files import download
from kbbench_hf.building.ska_bench.testbeds import FILLED, SAME, Testbeds, build_testbeds
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
    return (Path(__file__).parent / "cards" / f"{dataset}.md").read_text(encoding="utf-8")


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


VERSION = "1.0.0"
"""Of ska-open. A patch changes what is said about it, a minor version adds instances, a major one changes gold answers
or contexts; figures of different majors never stand in one table."""
BUCKETS = ("1", "2", "3", "4", ">4")


class OfPaper(NamedTuple):
    """A subset of SKA-Bench: instances, units (structured and text) and answers of a question, on average."""

    n: int
    sk: float
    text: float
    answers: float


PAPER = {
    "kg": OfPaper(233, 4.25, 0, 1.96),
    "table": OfPaper(295, 3.40, 0, 1.10),
    "kg_text": OfPaper(195, 2.53, 1.92, 1.86),
    "table_text": OfPaper(198, 1.17, 1.28, 1.01),
}
"""Source: SKA-Bench (arXiv 2507.17178), section 3 and table 1."""


def content_sha256(tables: Mapping[str, Mapping[str, pa.Table]]) -> str:
    """Return the SHA-256 of all rows of instances and pools, in order, as JSON: what a version stands for."""
    digest = hashlib.sha256()
    for config in sorted(name for name in tables if name.startswith(("instances_", "pool_"))):
        for split, table in sorted(tables[config].items()):
            digest.update(f"{config}/{split}\n".encode())
            for row in table.to_pylist():
                digest.update(json.dumps(row, ensure_ascii=False, sort_keys=True).encode() + b"\n")
    return digest.hexdigest()


def facts(release: Release, built: Testbeds, tokenizer: str) -> str:
    """Return what a build says of itself, in Markdown."""
    instances, pools = release.instances, release.pools
    subsets = [subset for subset in SUBSETS if any(each.subset == subset for each in instances)]
    parts: list[Iterable[str]] = [
        _beside_the_paper(instances, subsets),
        _carried([each for each in release.counts if each.subset in subsets]),
        _sources(instances, pools, subsets),
        _budgets(built),
        _positions(instances, built, subsets),
        _noise_like_evidence(release, built),
        _left_out(built),
    ]
    lines = ["## This build", "", f"Budgets are counted with `{tokenizer}`."]
    said = [part for each in parts if (part := list(each))]
    return "\n".join([*lines, *(line for part in said for line in ("", *part))]) + "\n"


def _beside_the_paper(instances: Sequence[Instance], subsets: Sequence[str]) -> Iterator[str]:
    yield "The first three columns count questions; the next three are means per test question, of the needed"
    yield "units and of the gold answers; the last are shares of questions by their number of needed units. In"
    yield "brackets: SKA-Bench."
    yield ""
    head = ["subset", "test", "demo", "unreviewed", "triples or rows", "texts", "answers"]
    rows = []
    for subset in subsets:
        of_split = Counter(each.split for each in instances if each.subset == subset)
        test, paper = [each for each in instances if (each.subset, each.split) == (subset, "test")], PAPER[subset]
        share = Counter(bucket(len(each.positive_sk) + len(each.positive_text)) for each in test)
        rows.append(
            [
                subset,
                f"{of_split['test']} ({paper.n})",
                of_split["demo"],
                of_split["unreviewed"],
                f"{_mean(len(each.positive_sk) for each in test)} ({paper.sk:.2f})",
                f"{_mean(len(each.positive_text) for each in test)} ({paper.text:.2f})",
                f"{_mean(len(each.answers) for each in test)} ({paper.answers:.2f})",
                *(f"{share[each] / max(1, len(test)):.0%}" for each in BUCKETS),
            ]
        )
    yield from _table([*head, *(f"needs {each}" for each in BUCKETS)], rows)


def _carried(counts: Sequence[Count]) -> Iterator[str]:
    if counts:
        yield "Number of questions that remain after each step, including those of `demo`. For a quota: its"
        yield "share of the questions before the selection, and of the selected questions."
        yield ""
        yield from _table(["subset", "source", "step", "left"], counts)


def _sources(instances: Sequence[Instance], pools: Mapping[str, Pool], subsets: Sequence[str]) -> Iterator[str]:
    asked = Counter((each.subset, each.source, each.licence) for each in instances)
    yield from _table(
        ["subset", "questions from", "license", "instances"], [(*of, n) for of, n in sorted(asked.items())]
    )
    yield ""
    units: Counter[tuple[str, str, str, str]] = Counter()
    for subset in subsets:
        for row in pools[subset].to_rows():
            if row["section"] != "header":
                units[subset, row["source"], row["licence"], "made" if row["made"] else "real"] += 1
    yield from _table(
        ["subset", "units from", "license", "", "units"], [(*of, f"{n:,}") for of, n in sorted(units.items())]
    )
    if unlicensed := sorted({source for _, source, licence in asked if "none stated" in licence}):
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
                tenths = np.histogram(depths, bins=10, range=(0, 1))[0] / len(depths)
                rows.append(
                    [subset, units, *(f"{share:.0%}" for share in tenths), f"{distance_from_uniform(depths):.3f}"]
                )
    yield from _table(["subset", "section", *(f"{n}0 %" for n in range(1, 11)), "distance"], rows)


def distance_from_uniform(values: Sequence[float]) -> float:
    """Return the Kolmogorov-Smirnov distance of values in [0, 1] from the uniform distribution.

    >>> distance_from_uniform([0.25, 0.75])
    0.25
    """
    ordered = np.sort(np.asarray(values))
    steps = np.arange(len(ordered) + 1) / len(ordered)
    return float(np.max(np.maximum(steps[1:] - ordered, ordered - steps[:-1])))


def _noise_like_evidence(release: Release, built: Testbeds) -> Iterator[str]:
    """Yield the share of table contexts with enough noise rows that resemble evidence."""
    asked = {each.id: each for each in release.instances if each.subset == "table" and each.program}
    enough = {"noise_table_1k": 3, "noise_table_4k": 5}
    rows = []
    for config, least in enough.items():
        found: dict[bool, list[bool]] = {True: [], False: []}
        for row in built.tables[config]["test"].to_pylist() if config in built.tables else ():
            instance = asked.get(row["instance_id"])
            if instance is None or instance.program is None or row["status"] == "over_budget":
                continue
            cells, program = release.pools["table"].structured(instance), instance.program
            noise = (cells[n] for n in row["sk_units"] if n not in instance.positive_sk)
            is_several = max(map(len, alternatives(program))) > 1
            found[is_several].append(sum(looks_like_evidence(program, each) for each in noise) >= least)
        for is_several, holds in found.items():
            if holds:
                rows.append((config, "several" if is_several else "one", len(holds), least, f"{np.mean(holds):.0%}"))
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
