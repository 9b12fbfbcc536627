"""The benchmark of a user's own ontology: prompts, scoring and reports of Text2KGBench."""

from dataclasses import replace

from kbbench_hf.benchmarks import base
from kbbench_hf.benchmarks.text2kgbench import prompts
from kbbench_hf.benchmarks.text2kgbench.benchmark import AUDIT, MINI
from kbbench_hf.files.datasets import DatasetFolder

MODES = tuple(mode for mode in MINI.scoring.modes if mode != "paper")
"""Not `paper`: its rules are those of the published tables."""


def own_extraction(name: str, folder: DatasetFolder) -> base.Benchmark:
    """Return the benchmark of an ontology of one's own."""
    splits = tuple(folder.configs()["sentences"])
    default = next(split for split in ("test", splits[-1]) if split in splits)
    return base.Benchmark(
        base.Facts(name, name),
        base.Data(("sentences",), splits, default, MINI.data.load, audit=AUDIT),
        replace(MINI.scoring, modes=MODES),
        replace(MINI.asking, prompts={**MINI.asking.prompts, "h2": prompts.h2}),
        MINI.showing,
    )
