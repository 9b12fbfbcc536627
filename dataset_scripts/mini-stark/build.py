"""Make kbbench_hf/benchmarks/stark/mini from the invented kitchen, as a user makes a knowledge base of their own.

The output is what is shipped, byte for byte: a test compares them.
"""

import csv
import tempfile
from pathlib import Path

from kitchen import kitchen

from kbbench_hf.building.own_kb import build_own_knowledge_base
from kbbench_hf.files.datasets import DatasetFolder, write_dataset

NAME = "kitchen"
OUT = Path(__file__).parents[2] / "kbbench_hf" / "benchmarks" / "stark" / "mini"
CARD = Path(__file__).with_name("README.md")


def main(out: Path = OUT) -> None:
    """Write the dataset with its card to `out`, and print its revision."""
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for name, rows in kitchen()._asdict().items():
            files[name] = Path(folder) / f"{name}.csv"
            with files[name].open("w", encoding="utf-8", newline="") as sink:
                writer = csv.DictWriter(sink, rows[0])
                writer.writeheader()
                writer.writerows(rows)
        built = Path(folder) / NAME
        build_own_knowledge_base(NAME, files["nodes"], files["edges"], files["queries"], built)
        tables = {
            config: {split: DatasetFolder(built).table(config, split) for split in splits}
            for config, splits in DatasetFolder(built).configs().items()
        }
        print(write_dataset(out, tables, CARD.read_text(encoding="utf-8")).revision)


if __name__ == "__main__":
    main()
