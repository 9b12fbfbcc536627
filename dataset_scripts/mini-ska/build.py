"""Make kbbench_hf/benchmarks/ska_bench/mini: testbeds over the archipelago beside this file, two systems' answers."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from world import release

from kbbench_hf.benchmarks.ska_bench.benchmark import MINI
from kbbench_hf.building.ska_bench.dataset import build
from kbbench_hf.files.datasets import DatasetFolder

CARD = Path(__file__).with_name("README.md")
OUT = Path(__file__).parents[2] / "kbbench_hf" / "benchmarks" / "ska_bench" / "mini"


def overlap(question: str, units: Sequence[str]) -> list[str]:
    """Answer with the last term of the line that shares most words with the question; the first such line."""
    words = set(re.findall(r"\w+", question.lower()))
    best = max(units, key=lambda unit: len(words & set(re.findall(r"\w+", unit.lower()))))
    return [best.strip("()|").replace("|", ", ").split(", ")[-1]]


def first(question: str, units: Sequence[str]) -> list[str]:
    """Answer with the last term of the first line, whatever the question."""
    return overlap("", units[:1])


def main(out: Path = OUT) -> None:
    """Write the dataset with its card, and the predictions of both systems."""
    build(CARD.read_text(encoding="utf-8"), release(), out, MINI.data.configs, revision=1)
    (out / "predictions").mkdir()
    examples = MINI.data.load(DatasetFolder(out), MINI.data.configs[0], "test")
    for system in (overlap, first):
        with (out / "predictions" / f"{system.__name__}.jsonl").open("w", encoding="utf-8") as sink:
            for row in examples.rows:
                answers = system(row["question"], examples.context.context(row).sk)
                sink.write(json.dumps({"id": row["id"], "answers": answers}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
