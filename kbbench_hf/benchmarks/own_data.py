"""Benchmarks of a user's own data: a knowledge base with questions, or an ontology with sentences.

`benchmarks.benchmark` calls these for a user's dataset, whose name is no known benchmark's.
"""

from dataclasses import replace

from kbbench_hf.benchmarks.base import Benchmark, Data, Facts
from kbbench_hf.benchmarks.retrieval import WRITTEN, retrieval_benchmark
from kbbench_hf.benchmarks.stark.documents import DOCUMENTS
from kbbench_hf.benchmarks.text2kgbench import prompts
from kbbench_hf.benchmarks.text2kgbench.benchmark import AUDIT, MINI
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import DatasetFolder


def own_knowledge_base(name: str, folder: DatasetFolder) -> Benchmark:
    """Return the benchmark of a knowledge base that was built with questions."""
    splits = tuple(folder.configs().get("queries", ()))
    if not splits:
        raise UsageError(
            f"{name} is a knowledge base without questions, so that nothing can be scored on it; expected some. "
            f"Build it again: kbbench build {name} --nodes ... --queries ..."
        )
    default, several = "test" if "test" in splits else splits[0], len({*WRITTEN} & {*splits}) > 1
    facts = Facts(name, name)
    return retrieval_benchmark(
        facts, (*splits, "all") if several else splits, default_split=default, documents=DOCUMENTS
    )


def own_extraction(name: str, folder: DatasetFolder) -> Benchmark:
    """Return the benchmark of an ontology of one's own; not in mode `paper`, the rules of the published tables."""
    splits = tuple(folder.configs()["sentences"])
    default = next(split for split in ("test", splits[-1]) if split in splits)
    return Benchmark(
        Facts(name, name),
        Data(("sentences",), splits, default, MINI.data.load, audit=AUDIT),
        replace(MINI.scoring, modes=tuple(mode for mode in MINI.scoring.modes if mode != "paper")),
        replace(MINI.asking, prompts={**MINI.asking.prompts, "h2": prompts.h2}),
        MINI.showing,
    )
