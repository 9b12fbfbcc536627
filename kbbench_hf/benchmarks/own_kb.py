"""The benchmark of a user's own knowledge base."""

from kbbench_hf.benchmarks.base import Benchmark, Facts
from kbbench_hf.benchmarks.retrieval import WRITTEN, retrieval_benchmark
from kbbench_hf.benchmarks.stark.documents import DOCUMENTS
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
