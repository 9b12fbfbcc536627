"""A retrieval run as a program of its own, to be killed or to be run in a group: FOLDER CACHE PROCESSES."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.files.journal import Journal
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.retrieval import dense
from kbbench_hf.runners.ranking import Latency
from kbbench_hf.runners.retrieval_run import rank_nodes
from tests.unit.retrieval.hashing import HashingEmbedder

WORDS = "amber birch cedar dune ember fjord grove heath inlet jetty knoll lagoon".split()
N_NODES, N_QUESTIONS, BATCH = 300, 90, 4
KILLED_AFTER = "KBBENCH_TEST_KILLED_AFTER"
"""Names the number of records in the journal with which the program kills itself; 0 for never."""


def knowledge_base() -> KnowledgeBase:
    texts = [f"{WORDS[n % 12]} {WORDS[n % 7]} {WORDS[n % 5]} {n}" for n in range(N_NODES)]
    nodes = {"id": range(N_NODES), "type": ["place"] * N_NODES, "name": [f"Place {n}" for n in range(N_NODES)]}
    edges = {"head": range(N_NODES - 1), "relation": ["near"] * (N_NODES - 1), "tail": range(1, N_NODES)}
    columns = {name: list(values) for name, values in nodes.items()}
    return KnowledgeBase.from_arrow(
        pa.table({**columns, "text": texts}), pa.table({name: list(values) for name, values in edges.items()})
    )


def examples(n: int = N_QUESTIONS) -> Examples:
    return Examples([{"id": f"q{n}", "query": f"{WORDS[n % 12]} near {WORDS[n % 11]} {n}"} for n in range(n)])


def run(folder: Path, cache: Path, processes: int | None) -> Latency:
    def hashing(spec: object, context: object, **further: object) -> tuple[HashingEmbedder, dict[str, str]]:
        return HashingEmbedder(), {"text": "text", "index": "exact"}

    dense.from_spec = hashing  # type: ignore[assignment]
    return rank_nodes(
        examples(),
        knowledge_base(),
        "graph:rrf(bm25,dense:hashing)",
        folder,
        about={"benchmark": "places"},
        top_k=20,
        batch=BATCH,
        processes=processes,
        cache=cache,
        show=False,
    )


def kill_after(records: int) -> None:
    append = Journal.append

    def append_and_die(journal: Journal, record: Any) -> None:
        append(journal, record)
        if len(journal) == records:
            os.kill(os.getpid(), signal.SIGKILL)

    Journal.append = append_and_die  # type: ignore[method-assign]


if __name__ == "__main__":
    sys.modules.setdefault("numba", None)  # type: ignore[arg-type]  # as in the command
    if after := int(os.environ.get(KILLED_AFTER, "0")):
        kill_after(after)
    out, embeddings, size = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    if size == 1:
        run(out, embeddings, None)
    else:
        import bm25s  # noqa: F401  # before the processes part, so that none imports it for itself
        from accelerate import debug_launcher

        from kbbench_hf.retrieval.graph_ranker import ranker  # noqa: F401

        knowledge_base()
        debug_launcher(run, (out, embeddings, size), num_processes=size)
