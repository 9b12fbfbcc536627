"""Make kbbench_hf/mini/mini-ska: testbeds over the invented archipelago beside this file, and two systems' answers."""

import json
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from world import FILES

from kbbench_hf.benchmarks.ska_bench import MINI
from kbbench_hf.construction.ska_datasets import build
from kbbench_hf.dataset_folder import DatasetFolder
from kbbench_hf.releases.ska_open import read

OUT = Path(__file__).parents[2] / "kbbench_hf" / "mini" / "mini-ska"


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
        build("mini-ska", read(Path(folder)), out, MINI.configs)
    (out / "predictions").mkdir()
    examples = MINI.load(DatasetFolder(out), MINI.configs[0], "test")
    for system in (overlap, first):
        with (out / "predictions" / f"{system.__name__}.jsonl").open("w", encoding="utf-8") as sink:
            for row in examples.rows:
                answers = system(row["question"], examples.context.context(row).sk)
                sink.write(json.dumps({"id": row["id"], "answers": answers}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
