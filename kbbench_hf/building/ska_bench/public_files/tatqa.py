"""TAT-QA's test documents with gold, as they are released: one list."""

import json
from pathlib import Path

from kbbench_hf.building.ska_bench.raw_files import write_json_lines
from kbbench_hf.building.ska_bench.tatqa import FILE


def write(checkout: Path, folder: Path) -> None:
    """Write the documents one a line."""
    documents = json.loads((checkout / "dataset_raw" / "tatqa_dataset_test_gold.json").read_text(encoding="utf-8"))
    write_json_lines(folder / FILE, documents)
