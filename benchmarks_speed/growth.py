"""Growth of time, memory and disk with the size of a knowledge base, from 100,000 to 10,000,000 nodes and beyond.

Knowledge bases are generated: 6 node types, string ids, names of 3 words, texts of 20 words on average (words by a
Zipf-Mandelbrot law over 2,000,000), 4 edges for each node, by 8 relations, with hubs. Vectors for dense search are
random, 384 numbers for each node. Each step runs in a process of its own:

    build        the tables (Parquet) to a dataset, as `kbbench build` does; then its store, made by the first opening
    open         the stored knowledge base, one name and the neighbors of one node
    metapaths    templates with 1, 2 and 3 relations and with a negation, random topics
    dense        exact search of one query, the vectors memory-mapped
    bm25, graph  `bm25` and `graph:bm25`: preparation, then one query at a time; in one process, as `graph:bm25` runs

CPU is user and system time of the step, without imports. Memory is the peak of resident memory within the step, less
the mapped files, which the kernel can drop. The exponent is the slope of log(CPU) over log(nodes) in all sizes; values
for 100,000,000 nodes follow the steeper of this slope and that of the two largest sizes, and for memory and disk the
line through the two largest sizes.

Run: OMP_NUM_THREADS=1 python benchmarks_speed/growth.py [--nodes 100000,1000000] [--steps build,...] [--results FILE]

Measurements are added to the file of results, and the table shows all in it, so that large sizes can run alone.
"""

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

SHARES = {"paper": 0.5, "person": 0.4, "organization": 0.04, "topic": 0.03, "venue": 0.02, "place": 0.01}
RELATIONS = [  # head type, relation, tail type, edges for each node of the knowledge base
    ("paper", "cites", "paper", 1.3),
    ("person", "writes", "paper", 1.0),
    ("paper", "has topic", "topic", 0.8),
    ("paper", "published in", "venue", 0.4),
    ("person", "works at", "organization", 0.3),
    ("organization", "located in", "place", 0.05),
    ("topic", "part of", "topic", 0.05),
    ("person", "edits", "venue", 0.1),
]
METAPATHS = (
    "person -[writes]-> paper",
    "organization -[^works at]-> person -[writes]-> paper",
    "place -[^located in]-> organization -[^works at]-> person -[edits]-> venue",
    "person -[writes]-> paper <-[!^has topic]- topic",
)
N_WORDS, WORDS_PER_TEXT, WORDS_PER_NAME, DIMENSION = 2_000_000, 20, 3, 384
PART, QUERIES, TOP_K = 100_000, 20, 100
AIM = 100_000_000
MACHINES = (24e9, 128e9)


def tables(n: int, folder: Path) -> None:
    """Write nodes and edges in parts, so that any size fits into memory."""
    rng = np.random.default_rng(n)
    sizes = {name: int(share * n) for name, share in SHARES.items()}
    sizes["paper"] += n - sum(sizes.values())
    starts = dict(zip(sizes, np.cumsum([0, *sizes.values()])[:-1].tolist(), strict=True))
    types = np.repeat(np.array(list(sizes)), list(sizes.values()))
    vocabulary = pa.array([f"w{number:x}" for number in range(N_WORDS)])
    law = np.cumsum(1 / (np.arange(N_WORDS) + 2.7) ** 1.07)

    def texts(lengths: NDArray[np.int64], numbers: NDArray[np.int64]) -> pa.Array:
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        return pc.binary_join(pa.ListArray.from_arrays(offsets, vocabulary.take(pa.array(numbers))), " ")

    def nodes(start: int, stop: int) -> pa.Table:
        lengths, named = rng.poisson(WORDS_PER_TEXT, stop - start), np.full(stop - start, WORDS_PER_NAME)
        drawn = np.searchsorted(law, law[-1] * rng.random(lengths.sum()))
        in_names = (N_WORDS * rng.random(named.sum()) ** 2).astype(np.int64)  # rarer words than those of texts
        ids = pa.array(map("Q{}".format, range(start, stop)), pa.string())
        columns = [ids, pa.array(types[start:stop]), texts(named, in_names), texts(lengths, drawn)]
        return pa.table(columns, ["id", "type", "name", "text"])

    def edges(head: str, relation: str, tail: str, size: int) -> pa.Table:
        # A power of a uniform number gives a few hubs and a long tail.
        ends = [(sizes[end] * rng.random(size) ** 1.6).astype(np.int64) + starts[end] for end in (head, tail)]
        named = [pa.array(map("Q{}".format, end.tolist()), pa.string()) for end in ends]
        return pa.table([named[0], pa.array([relation] * size), named[1]], ["head", "relation", "tail"])

    _write(folder / "nodes.parquet", (nodes(start, min(start + PART, n)) for start in range(0, n, PART)))
    _write(
        folder / "edges.parquet",
        (
            edges(head, relation, tail, min(PART, int(share * n) - start))
            for head, relation, tail, share in RELATIONS
            for start in range(0, int(share * n), PART)
        ),
    )


def _write(file: Path, parts: Iterator[pa.Table]) -> None:
    first = next(parts)
    with pq.ParquetWriter(file, first.schema) as writer:
        writer.write_table(first)
        for part in parts:
            writer.write_table(part)


def vectors(n: int, folder: Path) -> None:
    """Write n random unit vectors."""
    rng = np.random.default_rng(0)
    out = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float32, (n, DIMENSION))
    for start in range(0, n, PART):
        block = rng.standard_normal((min(PART, n - start), DIMENSION), dtype=np.float32)
        out[start : start + len(block)] = block / np.linalg.norm(block, axis=1, keepdims=True)
    out.flush()


def status(field: str) -> int:
    """Return a number of /proc/self/status in bytes."""
    return int(Path("/proc/self/status").read_text().split(f"{field}:")[1].split()[0]) * 1024


@contextmanager
def measured(step: str, repeated: int = 1) -> Iterator[None]:
    """Print the CPU seconds, wall seconds and peak memory of a block, the first two for each of its repetitions."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
    cpu, wall = time.process_time(), time.perf_counter()
    yield
    spent = {"cpu": (time.process_time() - cpu) / repeated, "wall": (time.perf_counter() - wall) / repeated}
    print(json.dumps({"step": step, **spent, "memory": status("VmHWM") - status("RssFile")}), flush=True)


def disk(folder: Path) -> int:
    """Return the bytes of a file, or of all files below a folder."""
    return sum(file.stat().st_size for file in [folder, *folder.rglob("*")] if file.is_file())


def build(folder: Path) -> None:
    from kbbench_hf.building.own_kb import build_own_knowledge_base
    from kbbench_hf.knowledge_base import KnowledgeBase

    with measured("build: tables to dataset"):
        build_own_knowledge_base("generated", folder / "nodes.parquet", folder / "edges.parquet", None, folder / "kb")
    with measured("build: dataset to store"):
        KnowledgeBase.open(folder / "kb")


def open_store(folder: Path) -> None:
    from kbbench_hf.knowledge_base import KnowledgeBase

    with measured("open", QUERIES):
        for _ in range(QUERIES):
            kb = KnowledgeBase.open(folder / "kb")
            kb.names([len(kb) // 2])
            kb.neighbors(len(kb) // 2)


def metapaths(folder: Path) -> None:
    from kbbench_hf.knowledge_base import KnowledgeBase
    from kbbench_hf.knowledge_base.metapaths import Metapath

    kb, rng = KnowledgeBase.open(folder / "kb"), np.random.default_rng(0)
    paths = [Metapath.parse(text) for text in METAPATHS]
    draws = [
        (path, [int(rng.choice(kb.of_type(topic))) for topic in path.topics]) for path in paths for _ in range(QUERIES)
    ]
    with measured("metapaths: one query", len(draws)):
        for path, topics in draws:
            path.answers(kb.graph, *topics)


def dense(folder: Path) -> None:
    from kbbench_hf.retrieval.top_k import search

    every = np.asarray(np.load(folder / "vectors.npy", mmap_mode="c"))
    queries = np.random.default_rng(1).standard_normal((3, DIMENSION), dtype=np.float32)
    search(every[:1000], queries[:1], TOP_K)  # imports
    with measured("dense: one query", len(queries)):
        for row in range(len(queries)):
            search(every, queries[row : row + 1], TOP_K)


def bm25_and_graph(folder: Path) -> None:
    from kbbench_hf.knowledge_base import KnowledgeBase
    from kbbench_hf.retrieval.bm25 import BM25
    from kbbench_hf.retrieval.context import render
    from kbbench_hf.retrieval.graph_ranker.ranker import GraphRanker

    BM25(["some words"]).search(["words"], 1)  # imports
    kb = KnowledgeBase.open(folder / "kb")
    queries = list(questions(kb))
    with measured("bm25: index"):
        bm25 = BM25(render(kb, "text"))
    with measured("bm25: one query", len(queries)):
        for query in queries:
            bm25.search([query], TOP_K)
    with measured("graph:bm25: prepare"):
        graph = GraphRanker(kb, bm25)
    with measured("graph:bm25: one query", len(queries)):
        for query in queries:
            graph.search([query], TOP_K)


def questions(kb: Any) -> Iterator[str]:
    """Yield questions that name a type, a relation, a node and six words of a text."""
    rng = np.random.default_rng(1)
    for row in rng.integers(0, len(kb), QUERIES).tolist():
        node_type, relation = rng.choice(kb.graph.node_types), rng.choice(kb.graph.relations)
        words = " ".join(rng.choice(kb.texts([row])[0].split() or ["nothing"], 6))
        yield f"Which {node_type} {relation} {kb.names([row])[0]} and has {words}?"


STEPS: dict[str, Callable[[Path], None]] = {
    "build": build,
    "open": open_store,
    "metapaths": metapaths,
    "dense": dense,
    "bm25": bm25_and_graph,
}
DISK = {"build: tables to dataset": "kb/data", "build: dataset to store": "kb/.knowledge_base", "dense": "vectors.npy"}


def child(*arguments: object) -> str:
    """Return what this script prints with these arguments in a process of its own."""
    command = [sys.executable, __file__, *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def measure(n: int, steps: Sequence[str], folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the measurements of all steps at one size."""
    if set(steps) - {"dense"}:
        child("--step", "tables", "--folder", folder, "--nodes", n)
    for step in steps if "build" in steps or steps == ["dense"] else ["build", *steps]:
        if step == "dense":
            child("--step", "vectors", "--folder", folder, "--nodes", n)
        for line in child("--step", step, "--folder", folder, "--nodes", n).splitlines():
            found = json.loads(line)
            stored = next((path for name, path in DISK.items() if found["step"].startswith(name)), None)
            yield {"nodes": n, **found, "disk": disk(folder / stored) if stored else 0}
        if step == "dense":
            (folder / "vectors.npy").unlink()


def slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Return the exponent of growth: the slope of the line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(np.maximum(values, 1e-9)), 1)[0])


def line_at(sizes: Sequence[float], values: Sequence[float], aim: float) -> float:
    """Return the value at `aim` on the line through the last two points."""
    per_node = (values[-1] - values[-2]) / (sizes[-1] - sizes[-2])
    return values[-1] + max(per_node, 0.0) * (aim - sizes[-1])


def seconds(value: float) -> str:
    return f"{value:,.0f} s" if value >= 10 else f"{value:.2f} s" if value >= 0.1 else f"{value * 1e3:.1f} ms"


def size(value: float) -> str:
    return f"{value / 1e9:,.1f} GB" if value >= 1e8 else f"{value / 1e6:,.0f} MB"


def nodes_within(limit: float, sizes: Sequence[float], values: Sequence[float]) -> str:
    """Return how many nodes need at most `limit` bytes."""
    per_node = (values[-1] - values[-2]) / (sizes[-1] - sizes[-2])
    most = sizes[-1] + (limit - values[-1]) / max(per_node, 1e-9)
    return f"{most / 1e6:,.0f} M" if most < 1e10 else "any"


def report(found: Sequence[dict[str, Any]]) -> None:
    """Print CPU, memory and disk of each step by size, and what follows for 1e8 nodes."""
    latest = {(each["step"], each["nodes"]): each for each in found}
    steps, sizes = list(dict.fromkeys(each["step"] for each in found)), sorted({n for _, n in latest})

    def table(key: str, shown: Callable[[float], str], more: Sequence[str], ends: Callable[..., list[str]]) -> None:
        columns = [key, *(f"{n:,}" for n in sizes), *(more if len(sizes) > 1 else ())]
        print(f"\n| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
        for step in steps:
            values = {n: latest[step, n][key] for n in sizes if (step, n) in latest and latest[step, n][key]}
            cells = [shown(values[n]) if n in values else "" for n in sizes]
            cells += ends(list(values), list(values.values())) if len(values) > 1 else []
            if values:
                print(f"| {step} | {' | '.join(cells)} |")

    def growth(nodes: list[float], values: list[float]) -> list[str]:
        exponent, last = slope(nodes, values), slope(nodes[-2:], values[-2:])
        later = values[-1] * (AIM / nodes[-1]) ** max(exponent, last)
        return [f"{exponent:.2f}", f"{last:.2f}", seconds(later)]

    def limits(nodes: list[float], values: list[float]) -> list[str]:
        return [size(line_at(nodes, values, AIM)), *(nodes_within(each, nodes, values) for each in MACHINES)]

    table("cpu", seconds, ["exponent", "of the last two", f"{AIM:,}"], growth)
    table("wall", seconds, [], lambda *_: [])
    ends = [f"{limit / 1e9:.0f} GB hold" for limit in MACHINES]
    table("memory", size, [f"{AIM:,}", *ends], limits)
    table("disk", size, [f"{AIM:,}"], lambda *known: limits(*known)[:1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="100000,1000000", help="sizes, with commas between them")
    parser.add_argument("--steps", default=",".join(STEPS))
    parser.add_argument("--results", type=Path, help="a JSON Lines file that measurements are added to")
    parser.add_argument("--scratch", type=Path, help="where knowledge bases are generated; about 3 kB for each node")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step in ("tables", "vectors"):
        {"tables": tables, "vectors": vectors}[options.step](int(options.nodes), options.folder)
        return
    if options.step:
        STEPS[options.step](options.folder)
        return
    found = []
    if options.results and options.results.is_file():
        found = [json.loads(line) for line in options.results.read_text().splitlines()]
    for n in [int(float(each)) for each in options.nodes.split(",") if each]:
        with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
            for each in measure(n, options.steps.split(","), Path(folder)):
                print(json.dumps(each), file=sys.stderr, flush=True)
                found.append(each)
                if options.results:
                    with options.results.open("a") as out:
                        print(json.dumps(each), file=out)
    report(found)


if __name__ == "__main__":
    main()
