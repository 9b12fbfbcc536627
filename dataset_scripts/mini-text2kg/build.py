"""Make kbbench_hf/benchmarks/text2kgbench/mini: the dataset from the sentences beside this file, and answers to it.

The output is what is shipped: a test compares the tables and the predictions.
"""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
from systems import copy, pattern

from kbbench_hf.building.text2kgbench.columns import (
    ONTOLOGIES,
    PROMPTS,
    SENTENCES,
    flag_across_rows,
    repair,
    with_mentions,
)
from kbbench_hf.building.text2kgbench.release import fold
from kbbench_hf.files.datasets import write_dataset

HERE = Path(__file__).parent
OUT = HERE.parents[1] / "kbbench_hf" / "benchmarks" / "text2kgbench" / "mini"


def read(split: str, ontology: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a split, numbered from 1 in the order of its file; ids and flags across rows are missing."""
    name = ontology["ontology_id"]
    identifiers = {each["label"]: each["pid"] for each in ontology["relations"]}
    rows = []
    for number, line in enumerate((HERE / f"{split}.jsonl").read_text(encoding="utf-8").splitlines(), start=1):
        written = json.loads(line)
        row = {
            "id": f"ont_{name}_{split}_{number}",
            "ontology_id": name,
            "split": split,
            "sentence": written["sentence"],
            "triples": [
                {"sub": sub, "rel": rel, "obj": obj, "sub_id": None, "rel_id": identifiers[rel], "obj_id": None}
                for sub, rel, obj in written["triples"]
            ],
            "repairs": [],
            "selected": False,
            "similar_ids": [],
        }
        repair(row, None, identifiers)
        rows.append(row)
    return rows


def similar(sentence: str, train: list[dict[str, Any]]) -> list[str]:
    """Return the five train rows that share most of their words with a sentence; ties keep the train order."""
    words = set(re.findall(r"\w+", sentence.lower()))

    def overlap(row: dict[str, Any]) -> float:
        others = set(re.findall(r"\w+", row["sentence"].lower()))
        return len(words & others) / len(words | others)

    return [row["id"] for row in sorted(train, key=overlap, reverse=True)[:5]]


def build(out: Path) -> None:
    """Write the dataset with its card, and the predictions of both systems."""
    ontology = json.loads((HERE / "ontology.json").read_text(encoding="utf-8"))
    splits = {split: read(split, ontology) for split in ("train", "test")}
    for row in splits["test"]:
        row["similar_ids"] = similar(row["sentence"], splits["train"])
    flag_across_rows(splits)
    folded = fold(splits)
    prompts = [
        {
            "id": row["id"],
            "ontology_id": row["ontology_id"],
            "template": "h1",
            "demonstration_id": row["similar_ids"][0],
        }
        for row in splits["test"]
    ]
    tables = {
        "sentences": {split: pa.Table.from_pylist(with_mentions(rows), SENTENCES) for split, rows in splits.items()},
        "sentences_folded": {
            split: pa.Table.from_pylist(with_mentions(rows), SENTENCES) for split, rows in folded.items()
        },
        "ontologies": {"full": pa.Table.from_pylist([ontology], ONTOLOGIES)},
        "prompts": {"test": pa.Table.from_pylist(prompts, PROMPTS)},
    }
    write_dataset(out, tables, (HERE / "README.md").read_text(encoding="utf-8"))

    train = {row["id"]: row for row in splits["train"]}
    (out / "predictions").mkdir()
    for name in ("pattern", "copy"):
        answers = [
            pattern(row["sentence"]) if name == "pattern" else copy(row["sentence"], train, row["similar_ids"])
            for row in splits["test"]
        ]
        lines = [
            json.dumps({"id": row["id"], "triples": answer})
            for row, answer in zip(splits["test"], answers, strict=True)
        ]
        (out / "predictions" / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    build(OUT)
