"""How long SKA-Bench's testbeds take to build, and how small they are: python benchmarks_speed/ska.py <instances>.

Targets: the whole suite in 10 minutes on two cores; a table context of a million tokens in 10 seconds; stored in a
tenth of the rendered text.
"""

import sys
import tempfile
import time
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.configs import configs
from kbbench_hf.benchmarks.ska_bench.construction.datasets import build_open
from kbbench_hf.benchmarks.ska_bench.construction.testbeds import Builder, sample
from kbbench_hf.benchmarks.ska_bench.construction.tokens import tokenizer
from kbbench_hf.benchmarks.ska_bench.contexts import Renderer
from kbbench_hf.benchmarks.ska_bench.release.instances import read
from kbbench_hf.benchmarks.ska_bench.units import SUBSETS, Instance, Pool
from kbbench_hf.files.datasets import DatasetFolder


def longest_context(source: Path) -> float:
    """Return the slowest CPU seconds of ten table contexts of a million tokens, the first row to the last token."""
    release, slowest = read(source), 0.0
    builder, config = Builder(release.pools["table"], tokenizer()), configs()["noise_table_1m"]
    for instance in sample([each for each in release.instances if each.subset == "table"], 10):
        start = time.process_time()
        builder.rows(instance, [config])
        slowest = max(slowest, time.process_time() - start)
    return slowest


def rendered_bytes(folder: DatasetFolder, every: int = 7) -> int:
    """Return the size of all contexts as text, from every seventh row of each testbed."""
    total = 0
    present = folder.configs()
    for subset in SUBSETS:
        if f"pool_{subset}" not in present:
            continue
        pool = Pool.from_rows(folder.rows(f"pool_{subset}", "full"))
        instances = {row["id"]: Instance.from_row(row) for row in folder.rows(f"instances_{subset}", "test")}
        for name in present:
            if name in configs() and configs()[name].subset == subset:
                rows = folder.rows(name, "test")
                for row in rows[::every]:
                    renderer = Renderer(instances[row["instance_id"]], pool)
                    text = renderer.context(row["sk_units"], row["text_units"]).all_text
                    total += len(text.encode()) * len(rows) // len(rows[::every])
    return total


def main(source: Path) -> None:
    slowest = longest_context(source)
    print(f"a table context of 1,048,576 tokens: {slowest:.2f} s of CPU, the slowest of 10 (target 10)")
    with tempfile.TemporaryDirectory() as place:
        start, cpu = time.perf_counter(), time.process_time()
        build_open(source, Path(place) / "ska-open")
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
        print(f"the whole suite, {len(configs())} testbeds: {cpu:.0f} s of CPU, {wall:.0f} s by the clock (target 600)")
        folder = DatasetFolder(Path(place) / "ska-open")
        stored = sum(file.stat().st_size for file in folder.path.rglob("*") if file.is_file())
        rendered = rendered_bytes(folder)
        print(
            f"stored {stored / 1e6:.1f} MB for {rendered / 1e6:,.0f} MB of text: "
            f"1 / {rendered / stored:.0f} (target 1 / 10)"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
