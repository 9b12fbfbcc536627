"""Benchmarks of a user's own data: a knowledge base with questions, or an ontology with sentences."""

from dataclasses import replace

from kbbench_hf.benchmarks import base
from kbbench_hf.benchmarks.base import Benchmark, Facts
from kbbench_hf.benchmarks.retrieval import WRITTEN, retrieval_benchmark
from kbbench_hf.benchmarks.stark.documents import DOCUMENTS
from kbbench_hf.benchmarks.text2kgbench import prompts
from kbbench_hf.benchmarks.text2kgbench.benchmark import AUDIT, MINI
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import DatasetFolder, built


def is_knowledge_base(folder: DatasetFolder) -> bool:
    """Say whether a dataset is a knowledge base: it has nodes and edges."""
    return {"nodes", "edges"} <= folder.configs().keys()


def has_questions(name: str) -> bool:
    """Say whether a dataset has questions to score; only a knowledge base of one's own can be built without."""
    folder = built(name)
    return folder is None or not is_knowledge_base(folder) or "queries" in folder.configs()


def own_knowledge_base(name: str, folder: DatasetFolder) -> Benchmark:
    """Return the benchmark of a knowledge base that was built with questions.

    Raises:
        UsageError: it was built without questions.
    """
    splits = folder.configs().get("queries", [])
    if not splits:
        raise UsageError(
            f"{name} is a knowledge base without questions, so that nothing can be scored on it; expected some. "
            f"Build it again: kbbench build {name} --nodes ... --queries ..."
        )
    shared_out = [split for split in WRITTEN if split in splits]
    return retrieval_benchmark(
        Facts(name, name),
        (*splits, "all") if len(shared_out) > 1 else tuple(splits),
        default_split="test" if "test" in splits else splits[0],
        documents=DOCUMENTS,
    )


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
