"""The instances of mini-ska as a source folder, from the data beside its build script."""

import json
import random
import runpy
from pathlib import Path
from typing import Any

WORLD = Path(__file__).parents[4] / "dataset_scripts" / "mini-ska" / "world.py"


def lines() -> dict[str, list[dict[str, Any]]]:
    """Return file name -> its lines."""
    return {name: list(made()) for name, made in runpy.run_path(str(WORLD))["FILES"].items()}


def write(folder: Path, files: dict[str, list[dict[str, Any]]], shuffle: int | None = None) -> Path:
    """Write lines as a source folder; `shuffle` seeds another order of lines and another of fields."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, records in files.items():
        records = [dict(record) for record in records]
        if shuffle is not None:
            order = random.Random(shuffle)
            order.shuffle(records)
            records = [dict(sorted(record.items(), key=lambda item: order.random())) for record in records]
            for record in records:
                order.shuffle(record.get("sk_units", []))
                order.shuffle(record.get("text_units", []))
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return folder
