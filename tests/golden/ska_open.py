"""What slices of the real sources become in each revision of ska-open: `python -m tests.golden.ska_open --write`.

It writes `ska_open.csv` from the sources at `$KBBENCH_SHARED/data`: a line for each instance, with digests of the
instance, its needed units and its noise rows, and of its contexts. A line that changes means that ska-open is no longer
built byte for byte; only a new revision may bring other lines. `tests/endurance/ska_rebuild.py` builds all of it.
"""

import csv
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from unittest import mock

from kbbench_hf.benchmarks.ska_bench.testbeds import REVISIONS, STANDARD, built_configs
from kbbench_hf.benchmarks.ska_bench.units import SUBSETS, InstanceSet
from kbbench_hf.building.ska_bench import hybridqa, metaqa, table, tatqa, tekgen, wikitablequestions
from kbbench_hf.building.ska_bench.emptied_rows import add_emptied_rows
from kbbench_hf.building.ska_bench.noise import NoiseLibrary
from kbbench_hf.building.ska_bench.source_files import lines_of, write_lines
from kbbench_hf.building.ska_bench.sources import make_instances, sort_units
from kbbench_hf.building.ska_bench.testbeds import RowMaker

FILE = Path(__file__).with_name("ska_open.csv")
COLUMNS = ("revision", "subset", "id", "split", "instance", "contexts")
ONTOLOGY = "ont_7_"
"""What the files of a small ontology of Wikidata-TekGen begin with."""
WITH_CONTEXTS = 5
"""Of how many instances of a subset the contexts are made."""
TESTBEDS = ("order", "depth", "rejection_control", "rejection_noise", "hardness")


def write_slice(data: Path, folder: Path) -> None:
    """Write a source folder with a part of each source: every so manieth table, document or question."""
    raw = data / "ska_open_v1"
    for tables, questions, step in (
        (wikitablequestions.TABLES, wikitablequestions.QUESTIONS, 30),
        (hybridqa.TABLES, hybridqa.QUESTIONS, 24),
    ):
        lines = [*lines_of(raw / tables)][::step]
        names = {json.loads(line)["table"] for line in lines}
        write_lines(folder / tables, lines)
        asked = (line for line in lines_of(raw / questions) if json.loads(line)["table"] in names)
        write_lines(folder / questions, asked)
    write_lines(folder / tatqa.FILE, [*lines_of(raw / tatqa.FILE)][::5])
    lines = [*lines_of(raw / metaqa.QUESTIONS)][::40]
    positive = [triple for line in lines for triple in json.loads(line)["positive"]]
    names = {head for head, _, _ in positive} | {json.loads(line)["topic"] for line in lines}
    triples = (line for line in lines_of(raw / metaqa.TRIPLES) if not names.isdisjoint(line.split("\t")))
    write_lines(folder / metaqa.TRIPLES, triples)
    write_lines(folder / metaqa.QUESTIONS, lines)
    for file in sorted((data / tekgen.FOLDER).glob("*/*.jsonl")):
        if file.parent.name in ("train", "validation", "ground_truth") and file.name.startswith(ONTOLOGY):
            (folder / tekgen.FOLDER / file.parent.name).mkdir(parents=True, exist_ok=True)
            (folder / tekgen.FOLDER / file.parent.name / file.name).write_bytes(file.read_bytes())


def lines(source: Path) -> Iterator[dict[str, str]]:
    """Yield the lines of the file, from a source folder of `write_slice`."""
    for revision in REVISIONS:
        # the quotas would leave nothing of so few questions
        some = mock.patch.object(table, "select_candidates", lambda candidates, revision: candidates[::2])
        for subset in SUBSETS:
            with some:
                made = make_instances(source, [subset], revision)
            release = add_emptied_rows(sort_units(made))
            contexts = dict(_contexts(release, subset, revision))
            for each in release.instances:
                pool = release.pools[subset]
                needed = [pool.structured(each)[n] for n in each.positive_sk] + [
                    pool.text[n] for n in each.positive_text
                ]
                instance = _digest([each.to_row(), needed, [pool.sk[group] for group in each.noise_groups]])
                row = (str(revision), subset, each.id, each.split, instance, contexts.get(each.id, ""))
                yield dict(zip(COLUMNS, row, strict=True))


def _contexts(release: InstanceSet, subset: str, revision: int) -> Iterator[tuple[str, str]]:
    """Yield the ids of some instances with a digest of their contexts in each kind of testbed."""
    library = NoiseLibrary(release.pools[subset], revision)
    known = built_configs(revision)
    names = [f"noise_{subset}_{STANDARD[subset]}"]
    names += [name for name, each in known.items() if each.subset == subset and each.testbed in TESTBEDS]
    for each in release.instances[:: max(1, len(release.instances) // WITH_CONTEXTS)]:
        maker = RowMaker(each, library)
        rows = [row for name in names for row in maker.rows(known[name])]
        yield each.id, _digest((row["id"], row["removed"], row["status"], row["context_sha256"]) for row in rows)


def _digest(values: Iterable[object]) -> str:
    text = json.dumps([*values], ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def stored_lines() -> list[dict[str, str]]:
    """Return the lines of the stored file."""
    with FILE.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def main() -> None:
    """Print the lines; with --write, write them."""
    data = Path(os.environ.get("KBBENCH_SHARED", Path(__file__).parents[3] / "shared")) / "data"
    with tempfile.TemporaryDirectory() as folder:
        write_slice(data, Path(folder))
        found = list(lines(Path(folder)))
    with FILE.open("w", encoding="utf-8", newline="") if "--write" in sys.argv else sys.stdout as stream:
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)


if __name__ == "__main__":
    main()
