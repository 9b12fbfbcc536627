"""The knowledge base against what it replaces: STaRK's own code, SQLite, a stable argsort, a plain loop.

Every comparison runs its contenders in turns in one process and prints CPU seconds (`time.process_time`, one thread) as
the median of a few rounds. The targets are for full size. Upstream's way is written out here from its published
behaviour: coordinate tensors for each relation, sliced for each look-up, coalesced for each answer.

Run: python benchmarks_speed/knowledge_base.py [--scale 0.02] [--rounds 3] [--only open,neighbors,...]
"""

import argparse
import gc
import json
import pickle
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from knowledge_base_data import Synthetic, mag, prime

from kbbench_hf.benchmarks.stark.documents import prime as prime_documents
from kbbench_hf.knowledge_base import Graph, KnowledgeBase
from kbbench_hf.knowledge_base.documents import nodes, render

torch.set_num_threads(1)
torch.sparse.check_sparse_tensor_invariants.disable()
Contender = Callable[[], Any]


def seconds(contenders: dict[str, Contender], rounds: int) -> dict[str, float]:
    """Return the median CPU seconds of each, run in turns."""
    spent: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, contender in contenders.items():
            gc.collect()
            start = time.process_time()
            contender()
            spent[name].append(time.process_time() - start)
    return {name: statistics.median(values) for name, values in spent.items()}


def report(title: str, ours: float, peers: dict[str, tuple[float, float]]) -> None:
    """Print ours in seconds, and for each peer its seconds, how many times ours that is, and the target."""
    print(f"\n{title}: {ours:.6g} s")
    for name, (spent, target) in peers.items():
        ratio = spent / ours
        print(
            f"  {name:<58}{spent:>12.6g} s {ratio:>10.1f}x  target {target:g}x  {'ok' if ratio >= target else 'MISSED'}"
        )


class Upstream:
    """The graph as STaRK keeps it: one sparse coordinate tensor for each relation."""

    def __init__(self, data: Synthetic) -> None:
        index = torch.from_numpy(np.stack([data.heads, data.tails]).astype(np.int64))
        types = torch.from_numpy(data.relation_ids.astype(np.int64))
        n = len(data.type_ids)
        self.types = torch.from_numpy(data.type_ids.astype(np.int64))
        self.by_relation = []
        for number in range(len(data.relations)):
            chosen = torch.arange(len(types))[types == number]
            self.by_relation.append(torch.sparse_coo_tensor(index[:, chosen], torch.ones(len(chosen)), (n, n)))

    def neighbors(self, node: int, relation: int) -> list[int]:
        """Return the neighbours of one node by one relation."""
        found: list[int] = self.by_relation[relation][node].coalesce().indices().view(-1).tolist()
        return found


def neighbors(data: Synthetic, graph: Graph, rounds: int) -> None:
    rng = np.random.default_rng(2)
    width = len(data.relations)
    pairs = rng.permutation(np.unique(data.heads.astype(np.int64) * width + data.relation_ids))[:50_000]
    heads, numbers = pairs // width, pairs % width
    nodes_asked, relations_asked = heads.tolist(), numbers.tolist()
    named = [(node, data.relations[relation]) for node, relation in zip(nodes_asked, relations_asked, strict=True)]
    connection = sqlite3.connect(":memory:")
    connection.execute("create table edges (head integer, relation integer, tail integer)")
    rows = zip(data.heads.tolist(), data.relation_ids.tolist(), data.tails.tolist(), strict=True)
    connection.executemany("insert into edges values (?, ?, ?)", rows)
    connection.execute("create index typed on edges (head, relation, tail)")
    upstream, few = Upstream(data), 60
    statement = "select tail from edges where head = ? and relation = ?"

    def ours() -> None:
        for node, relation in named:
            graph.neighbors(node, relation)

    def batch() -> None:
        for number, relation in enumerate(data.relations):
            graph.neighbors_of(heads[numbers == number], relation)

    def indexed() -> None:
        for node, relation in zip(nodes_asked, relations_asked, strict=True):
            connection.execute(statement, (node, relation)).fetchall()

    def sliced() -> None:
        for node, relation in zip(nodes_asked[:few], relations_asked[:few], strict=True):
            upstream.neighbors(node, relation)

    spent = seconds({"ours": ours, "batch": batch, "indexed": indexed, "sliced": sliced}, rounds)
    each = {name: value / (few if name == "sliced" else len(named)) for name, value in spent.items()}
    peers = {
        "upstream: slice and coalesce a sparse tensor": (each["sliced"], 500),
        "SQLite, index on (head, relation, tail)": (each["indexed"], 8),
    }
    report("Typed neighbours of one node, per look-up", each["ours"], peers)
    report("Typed neighbours of many nodes, per look-up", each["batch"], peers)


def adjacency(data: Synthetic, rounds: int) -> None:
    n, width = len(data.type_ids), len(data.relations)

    def ours() -> None:
        Graph.from_edges(data.node_types, data.relations, data.type_ids, data.heads, data.relation_ids, data.tails)

    def sorted_direction(heads: Any, tails: Any) -> None:
        keys = heads.astype(np.int64) * width + data.relation_ids
        order = np.argsort(keys * n + tails, kind="stable")
        np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=n * width))])
        tails[order]

    def argsorted() -> None:
        sorted_direction(data.heads, data.tails)
        sorted_direction(data.tails, data.heads)

    spent = seconds({"ours": ours, "argsorted": argsorted}, rounds)
    report(
        f"Adjacency of {len(data.heads):,} edges, both directions, neighbours ascending",
        spent["ours"],
        {"the same by a stable argsort for each direction": (spent["argsorted"], 3)},
    )


def documents(data: Synthetic, kb: KnowledgeBase, rounds: int) -> None:
    graph, few = kb.graph, 2
    upstream = Upstream(data)
    names, types = kb.names(), graph.type_ids.tolist()

    def body_of(row: int, node: Any) -> str:
        return prime_documents.RENDERING.body(node)

    def text(row: int, found: Callable[[int, int], list[int]]) -> str:
        parts = []
        for number, relation in enumerate(data.relations):
            neighbors = found(row, number)
            if not neighbors:
                continue
            parts.append(f"\n  {relation.replace(' ', '_')}: {{")
            by_type: dict[int, list[str]] = {}
            for neighbor in neighbors:
                by_type.setdefault(types[neighbor], []).append(names[neighbor])
            for number_of_type in set(by_type):
                parts.append(f"{data.node_types[number_of_type]}: ({', '.join(by_type[number_of_type])}),")
            parts.append("}")
        return "- relations:" + "".join(parts) if parts else ""

    indptr, indices, width = graph.out.indptr, graph.out.indices, graph.out.n_relations

    def of_arrays(row: int, relation: int) -> list[int]:
        key = row * width + relation
        found: list[int] = indices[indptr[key] : indptr[key + 1]].tolist()
        return found

    def loop() -> list[str]:
        every = nodes(kb, np.arange(len(kb)))
        return [body_of(row, node) + text(row, of_arrays) for row, node in enumerate(every)]

    rng = np.random.default_rng(3)
    sample = rng.integers(0, len(kb), few).tolist()

    def sliced() -> None:
        for row in sample:
            text(row, upstream.neighbors)

    def ours() -> Any:
        return render(kb, prime_documents.RENDERING)

    same = loop() == ours().to_pylist()
    spent = seconds({"ours": ours, "loop": loop, "sliced": sliced}, rounds)
    report(
        f"All {len(kb):,} documents with all relations (equal to the loop's: {same})",
        spent["ours"],
        {
            f"upstream: sparse slices for each relation ({few} documents, scaled)": (
                spent["sliced"] / few * len(kb),
                200,
            ),
            "a plain loop over the same arrays": (spent["loop"], 4),
        },
    )


OPENED = """
import json, resource, sys, time
{imports}
def resident():
    with open('/proc/self/statm') as status: return int(status.read().split()[1]) * resource.getpagesize()
before, cpu, wall = resident(), time.process_time(), time.perf_counter()
{body}
print(json.dumps([time.process_time() - cpu, time.perf_counter() - wall, resident() - before]))
"""
OURS = (
    "from kbbench_hf.knowledge_base import KnowledgeBase",
    "kb = KnowledgeBase.open({folder!r})\nkb.neighbors(7, 'ppi')",
)
THEIRS = (
    "import pickle, torch; torch.set_num_threads(1); torch.sparse.check_sparse_tensor_invariants.disable()",
    """
info = pickle.load(open({folder!r} + '/node_info.pkl', 'rb'))
index, types, kinds = (torch.load({folder!r} + '/' + name) for name in ('index.pt', 'types.pt', 'kinds.pt'))
n, e = len(kinds), index.shape[1]
there, back = (torch.sort(index[i] * n + index[1 - i]).values for i in (0, 1))  # is_undirected
assert torch.equal(there, back); del there, back
whole = torch.sparse_coo_tensor(index, torch.ones(e), (n, n))
typed = []
for number in range(int(types.max()) + 1):
    chosen = torch.arange(e)[types == number]
    typed.append(torch.sparse_coo_tensor(index[:, chosen], torch.ones(len(chosen)), (n, n)))
""",
)


def opening(data: Synthetic, kb: KnowledgeBase, folder: Path, rounds: int) -> None:
    records = [{"id": i, "name": name, **kb.details(i)} for i, name in enumerate(kb.names())]
    (folder / "node_info.pkl").write_bytes(pickle.dumps(dict(enumerate(records))))
    torch.save(torch.from_numpy(np.stack([data.heads, data.tails]).astype(np.int64)), folder / "index.pt")
    torch.save(torch.from_numpy(data.relation_ids.astype(np.int64)), folder / "types.pt")
    torch.save(torch.from_numpy(data.type_ids.astype(np.int64)), folder / "kinds.pt")
    measured: dict[str, list[list[float]]] = {"ours": [], "theirs": []}
    for _ in range(rounds):
        for name, (imports, body) in {"ours": OURS, "theirs": THEIRS}.items():
            where = str(folder / "store") if name == "ours" else str(folder)
            script = OPENED.format(imports=imports, body=body.format(folder=where))
            run = subprocess.run(
                [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=600
            )
            measured[name].append(json.loads(run.stdout))
    ours, theirs = (np.median(np.array(measured[name]), axis=0) for name in ("ours", "theirs"))
    report("Open, CPU", ours[0], {"upstream: unpickle, load tensors, check symmetry, sparse tensors": (theirs[0], 100)})
    print(f"  wall clock: ours {ours[1] * 1000:.1f} ms (target below 50 ms)")
    print(f"  resident memory: ours {ours[2] / 2**20:.1f} MiB, upstream {theirs[2] / 2**20:.1f} MiB (target a tenth)")


def growth(scale: float) -> None:
    """Build and ask graphs of MAG's shape with 129 k, 500 k and 1.87 M nodes."""
    print("\nGrowth (MAG's shape; target: adjacency of the largest below 10 s)")
    for share in (0.069, 0.267, 1.0):
        data = mag(share * scale)
        start = time.process_time()
        graph = Graph.from_edges(
            data.node_types, data.relations, data.type_ids, data.heads, data.relation_ids, data.tails
        )
        built = time.process_time()
        for node in data.heads[:100_000].tolist():
            graph.neighbors(node, "paper___cites___paper")
        asked = (time.process_time() - built) / 100_000
        print(
            f"  {graph.n_nodes:>9,} nodes {len(data.heads):>11,} edges: adjacency {built - start:5.2f} s, "
            f"typed neighbours {asked * 1e6:.2f} us"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="size of the knowledge bases, 1 = Prime's and MAG's")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="open,neighbors,adjacency,documents,growth")
    options = parser.parse_args()
    chosen = options.only.split(",")
    data = prime(options.scale)
    print(f"{len(data.type_ids):,} nodes, {len(data.heads):,} directed typed edges")
    with tempfile.TemporaryDirectory() as folder:
        kb = KnowledgeBase.build(*data.tables(), Path(folder) / "store")
        if "open" in chosen:
            opening(data, kb, Path(folder), options.rounds)
        if "neighbors" in chosen:
            neighbors(data, kb.graph, options.rounds)
        if "adjacency" in chosen:
            adjacency(data, options.rounds)
        if "documents" in chosen:
            documents(data, kb, options.rounds)
    if "growth" in chosen:
        growth(options.scale)


if __name__ == "__main__":
    main()
