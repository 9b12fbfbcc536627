"""Make kbbench_hf/benchmarks/ska_bench/mini: testbeds over the archipelago beside this file, two systems' answers."""

import json
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from world import FILES

from kbbench_hf.benchmarks.ska_bench.benchmark import MINI
from kbbench_hf.benchmarks.ska_bench.construction.datasets import build
from kbbench_hf.benchmarks.ska_bench.release.instances import read
from kbbench_hf.files.datasets import DatasetFolder

CARD = Path(__file__).with_name("README.md")
OUT = Path(__file__).parents[2] / "kbbench_hf" / "benchmarks" / "ska_bench" / "mini"


def write_instances(folder: Path) -> None:
    for name, lines in FILES.items():
        text = "".join(json.dumps(line, ensure_ascii=False, sort_keys=True) + "\n" for line in lines())
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")


def overlap(question: str, units: Sequence[str]) -> list[str]:
    """Answer with the last term of the line that shares most words with the question; the first such line."""
    words = set(re.findall(r"\w+", question.lower()))
    best = max(units, key=lambda unit: len(words & set(re.findall(r"\w+", unit.lower()))))
    return [best.strip("()|").replace("|", ", ").split(", ")[-1]]


def first(question: str, units: Sequence[str]) -> list[str]:
    """Answer with the last term of the first line, whatever the question."""
    return overlap("", units[:1])


def main(out: Path = OUT) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_instances(Path(folder))
        build(CARD.read_text(encoding="utf-8"), read(Path(folder)), out, MINI.data.configs, demo=False)
    (out / "predictions").mkdir()
    examples = MINI.data.load(DatasetFolder(out), MINI.data.configs[0], "test")
    for system in (overlap, first):
        with (out / "predictions" / f"{system.__name__}.jsonl").open("w", encoding="utf-8") as sink:
            for row in examples.rows:
                answers = system(row["question"], examples.context.context(row).sk)
                sink.write(json.dumps({"id": row["id"], "answers": answers}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
