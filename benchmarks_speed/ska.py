"""How long SKA-Bench's testbeds take to build, and how small they are: python benchmarks_speed/ska.py <source>.

Targets: the whole suite in 5 minutes on two cores, stored in a thirtieth of the rendered text.
"""

import sys
import tempfile
import time
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.testbeds import configs
from kbbench_hf.benchmarks.ska_bench.units import SUBSETS, Instance, UnitPool, render_context
from kbbench_hf.building.ska_bench.dataset import build_open
from kbbench_hf.files.datasets import DatasetFolder


def rendered_bytes(folder: DatasetFolder, every: int = 7) -> int:
    """Return the size of all contexts as text, from every seventh row of each testbed."""
    total = 0
    present = folder.configs()
    for subset in SUBSETS:
        if f"pool_{subset}" not in present:
            continue
        pool = UnitPool.from_rows(folder.rows(f"pool_{subset}", "full"))
        asked = f"instances_{subset}"
        members = [row for split in present[asked] for row in folder.rows(asked, split)]
        instances = {row["id"]: Instance.from_row(row) for row in members}
        for name in present:
            if name in configs() and configs()[name].subset == subset:
                rows = folder.rows(name, "test")
                for row in rows[::every]:
                    instance = instances[row["instance_id"]]
                    text = render_context(instance, pool, row["sk_units"], row["text_units"]).all_text
                    total += len(text.encode()) * len(rows) // len(rows[::every])
    return total


def main(source: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        start, cpu = time.perf_counter(), time.process_time()
        build_open(source, Path(place) / "ska-open")
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
        print(f"the whole suite, {len(configs())} testbeds: {cpu:.0f} s of CPU, {wall:.0f} s by the clock (target 300)")
        folder = DatasetFolder(Path(place) / "ska-open")
        stored = sum(file.stat().st_size for file in folder.path.rglob("*") if file.is_file())
        rendered = rendered_bytes(folder)
        print(
            f"stored {stored / 1e6:.1f} MB for {rendered / 1e6:,.0f} MB of text: "
            f"1 / {rendered / stored:.0f} (target 1 / 30)"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
