"""Take the released rows' triples and sentences apart, align them again, and report precision and recall.

python tests/endurance/realignment.py SHARED/data/text2kgbench [ONTOLOGY ...]
"""

import json
import sys
import time
from collections import Counter
from pathlib import Path

from kbbench_hf.benchmarks.text2kgbench.construction.alignment import GRADES, align
from kbbench_hf.metrics.triples import fold


def rows_of(half: Path, name: str):
    if half.name == "wikidata_tekgen":
        files = [half / f"{split}/ont_{name}_{split}.jsonl" for split in ("train", "validation")]
    else:
        files = [half / f"train/ont_{name}_train.jsonl"]
    for file in [*files, half / f"ground_truth/ont_{name}_ground_truth.jsonl"]:
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            triples = row.get("triples") or (
                [{p: row[f"{p}_label"] for p in ("sub", "rel", "obj")}] if "sub_label" in row else []
            )
            yield row["sent"], triples


def key(triple) -> tuple[str, ...]:
    return tuple(fold(triple[part]) for part in ("sub", "rel", "obj"))


def main() -> None:
    folder, wanted = Path(sys.argv[1]), sys.argv[2:]
    total = {half: Counter() for half in ("wikidata_tekgen", "dbpedia_webnlg")}
    for half in map(folder.joinpath, total):
        for file in sorted((half / "ontologies").glob("*.json"), key=lambda f: int(f.name.split("_")[0])):
            name = file.name.removesuffix("_ontology.json")
            if wanted and name not in wanted:
                continue
            gold: dict[str, set] = {}
            triples: dict[tuple, dict] = {}
            for sentence, stated in rows_of(half, name):
                gold.setdefault(sentence, set()).update(map(key, stated))
                for each in stated:
                    triples.setdefault(key(each), each)
            sentences, table = list(gold), list(triples.values())
            start = time.monotonic()
            found = align(sentences, table)
            took = time.monotonic() - start
            count = Counter(gold=sum(map(len, gold.values())))
            for sentence, aligned in zip(sentences, found, strict=True):
                for each in aligned:
                    for grade in GRADES[: GRADES.index(each.grade) + 1]:
                        count[grade] += 1
                        count[grade, "right"] += key(table[each.triple]) in gold[sentence]
            total[half.name] += count
            show(name, len(sentences), len(table), count, took)
        if not wanted:
            show(half.name, 0, 0, total[half.name], 0)


def show(name, n_sentences, n_triples, count, took) -> None:
    cells = [
        f"{grade}: P {count[grade, 'right'] / max(count[grade], 1):.3f} R {count[grade, 'right'] / count['gold']:.3f}"
        for grade in GRADES[:3]
    ]
    sizes = f"{n_sentences:5} sentences {n_triples:5} triples {took:5.1f}s"
    print(f"{name:24} {sizes}  {'  '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
