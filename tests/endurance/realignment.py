"""The 29 released ontologies through the door of one's own: the rows that come back, and how well triples are aligned.

Every ontology's rows are built with their pairs and splits given, and compared; then sentences and triples are taken
apart and aligned again, and what is found is held against the released gold (train, validation and test together).
A wrong pair is one that the release does not have: it may be true all the same.

    KBBENCH_SHARED=... python -m tests.endurance.realignment [ONTOLOGY ...]
"""

import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kbbench_hf.building.own_extraction.alignment import GRADES, align
from kbbench_hf.metrics.triples import name_key
from tests.unit.building.own_extraction.test_construction import came_back, jsonl

HALVES = ("wikidata_tekgen", "dbpedia_webnlg")


def rows_of(half: Path, name: str) -> Iterator[tuple[str, list[dict]]]:
    """Yield each sentence of an ontology with its triples."""
    files = [half / f"{split}/ont_{name}_{split}.jsonl" for split in ("train", "validation")]
    for file in [*filter(Path.is_file, files), half / f"ground_truth/ont_{name}_ground_truth.jsonl"]:
        for row in jsonl(file):
            one = {part: row.get(f"{part}_label") for part in ("sub", "rel", "obj")}
            yield row["sent"], row.get("triples", [one])


def key(triple: dict) -> tuple[str, ...]:
    return tuple(name_key(triple[part]) for part in ("sub", "rel", "obj"))


def realigned(half: Path, name: str) -> Counter:
    """Return how many pairs the release has, and of each grade how many were found, and how many of these it has."""
    gold: dict[str, set[tuple[str, ...]]] = {}
    triples: dict[tuple[str, ...], dict] = {}
    for sentence, stated in rows_of(half, name):
        gold.setdefault(sentence, set()).update(map(key, stated))
        for each in stated:
            triples.setdefault(key(each), each)
    sentences, table = list(gold), list(triples.values())
    count = Counter(gold=sum(map(len, gold.values())))
    for sentence, aligned in zip(sentences, align(sentences, table), strict=True):
        for each in aligned:
            for grade in GRADES[: GRADES.index(each.grade) + 1]:
                count[grade] += 1
                count[grade, "right"] += key(table[each.triple]) in gold[sentence]
    return count


def show(name: str, differing: list[str], count: Counter, seconds: float) -> None:
    cells = [
        f"{grade}: P {count[grade, 'right'] / max(count[grade], 1):.3f} R {count[grade, 'right'] / count['gold']:.3f}"
        for grade in GRADES[:3]
    ]
    print(f"{name:24} {len(differing):3} rows differ  {seconds:5.1f}s  {'  '.join(cells)}", *differing[:5], flush=True)


def main() -> None:
    release, wanted = Path(os.environ["KBBENCH_SHARED"]) / "data/text2kgbench", sys.argv[1:]
    for half in map(release.joinpath, HALVES):
        total, lost = Counter(), []
        for file in sorted((half / "ontologies").glob("*.json"), key=lambda file: int(file.name.split("_")[0])):
            name = file.name.removesuffix("_ontology.json")
            if not wanted or name in wanted:
                start = time.monotonic()
                with tempfile.TemporaryDirectory() as place:
                    differing = came_back(release, name, Path(place))
                count = realigned(half, name)
                show(name, differing, count, time.monotonic() - start)
                total, lost = total + count, lost + differing
        if total and not wanted:
            show(half.name, lost, total, 0)


if __name__ == "__main__":
    main()
