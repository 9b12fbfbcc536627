"""The published templates as plans on knowledge bases of full size: seconds for one set of topics, and peak memory.

Topics are drawn as `kbbench synthesize` draws them, hubs less often; the slowest of all draws is what counts. The graph
is built in a process of its own, and opened as a user's is.

Run: python benchmarks_speed/metapaths.py [--scale 1.0] [--draws 50] [--only prime,mag,amazon]
"""

import argparse
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
from knowledge_base_data import amazon, mag, prime

from kbbench_hf.benchmarks.stark.benchmark import METAPATHS
from kbbench_hf.building.synthesis.instances import TopicDraws
from kbbench_hf.knowledge_base import KnowledgeBase
from kbbench_hf.knowledge_base.metapaths import Metapath
from kbbench_hf.knowledge_base.plans import Plan, execute

MADE = {"prime": prime, "mag": mag, "amazon": amazon}
MOST_SECONDS, MOST_BYTES = 1.0, 2e9
MOST_MEDIAN = {"prime": 0.005, "mag": 0.02, "amazon": 0.02}
"""Seconds that half of the executions stay below."""


def write(name: str, scale: float, folder: Path) -> None:
    """Build a knowledge base of a name's shape, without texts."""
    data = MADE[name](scale)
    n = len(data.type_ids)
    kinds = pa.DictionaryArray.from_arrays(data.type_ids.astype(np.int32), data.node_types)
    empty = pa.array([""] * n)
    nodes = pa.table({"id": np.arange(n), "type": kinds, "name": empty, "text": empty})
    relation = pa.DictionaryArray.from_arrays(data.relation_ids.astype(np.int32), data.relations)
    edges = pa.table({"head": data.heads.astype(np.int64), "relation": relation, "tail": data.tails.astype(np.int64)})
    rows = [("node_type", i, kind) for i, kind in enumerate(data.node_types)]
    rows += [("relation", i, kind) for i, kind in enumerate(data.relations)]
    schema = pa.Table.from_pylist([{"kind": kind, "id": i, "name": called} for kind, i, called in rows])
    KnowledgeBase.build(nodes, edges, schema, folder)


def measure(name: str, folder: Path, n_draws: int) -> None:
    """Print what each template takes, the slowest first, and what the process needed at most."""
    kb, rng, slowest, every = KnowledgeBase.open(folder), Random(0), [], []
    draws = TopicDraws(kb)
    for title, text in METAPATHS[name].items():
        path, spent, sizes = Metapath.parse(text), [], []
        for _ in range(n_draws):
            start = time.perf_counter()
            found = draws.draw(path, rng)
            drawn = time.perf_counter()
            if found is not None:
                rows = {topic: np.array([row]) for topic, row in zip(path.topics, found[0], strict=True)}
                plan = Plan.of(path, path.topics)
                starts = [None if walk.topic is None else rows[walk.topic] for walk in plan.walks]
                sizes.append(len(execute(plan, kb, starts).rows))
                spent.append((time.perf_counter() - drawn, drawn - start))
        if not spent:
            print(f"  {title}: no topics met")
            continue
        every += [each for each, _ in spent]
        slowest.append((max(spent)[0], float(np.median([each for each, _ in spent])), max(sizes), title))
    for most, median, size, title in sorted(slowest, reverse=True)[:5]:
        print(f"  {most * 1e3:9.2f} ms at most, {median * 1e3:7.2f} ms median, up to {size:,} answers: {title}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    worst = max(each[0] for each in slowest)
    half, most = float(np.median(every)), MOST_MEDIAN[name]
    verdict = "met" if worst < MOST_SECONDS and half < most and peak < MOST_BYTES else "MISSED"
    print(
        f"{name}: {len(kb):,} nodes, {len(kb.edges):,} edges, {len(slowest)} of {len(METAPATHS[name])} templates; "
        f"median {half * 1e3:.2f} ms, slowest {worst:.3f} s, peak memory {peak / 1e9:.2f} GB "
        f"(targets {most * 1e3:g} ms, 1 s, 2 GB): {verdict}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--only", default=",".join(MADE))
    options = parser.parse_args()
    processes = multiprocessing.get_context("spawn")
    for name in options.only.split(","):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "store"
            for step, given in ((write, (name, options.scale, folder)), (measure, (name, folder, options.draws))):
                child = processes.Process(target=step, args=given)
                child.start()
                child.join()
                if child.exitcode:
                    raise SystemExit(child.exitcode)


if __name__ == "__main__":
    main()
