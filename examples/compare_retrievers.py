"""Compare two retrievers on a knowledge base in CSV files, with a significance test.

    python examples/compare_retrievers.py [NODES EDGES QUERIES [MODEL MODEL]]

NODES has the columns id, type, name and text, EDGES head, relation and tail, QUERIES id, query and answer_ids. Without
them, the tables of mini-stark are written to CSV files first. MODEL is a name as in `kbbench run --model`; the default
is `bm25` and `graph:bm25`, which also uses the edges. All output is in the current folder.
"""

import csv
import json
import sys
from pathlib import Path

import kbbench_hf
from kbbench_hf.building.own_kb import build_own_knowledge_base

NAME = "my-kb"


def write_tables() -> list[Path]:
    """Write the three tables of mini-stark, and return the files."""
    files = {"nodes": ("nodes", "full"), "edges": ("edges", "full"), "queries": ("queries", "test")}
    for name, (config, split) in files.items():
        rows = kbbench_hf.load(f"mini-stark/{config}", split=split).to_list()
        with Path(f"{name}.csv").open("w", encoding="utf-8", newline="") as sink:
            table = csv.DictWriter(sink, rows[0])
            table.writeheader()
            table.writerows(
                {**row, "answer_ids": json.dumps(row["answer_ids"])} if "answer_ids" in row else row for row in rows
            )
    return [Path(f"{name}.csv") for name in files]


def main() -> None:
    """Build the knowledge base, run both retrievers, and print their scores and the difference."""
    nodes, edges, queries = [Path(each) for each in sys.argv[1:4]] or write_tables()
    first, second = sys.argv[4:6] or ("bm25", "graph:bm25")
    build_own_knowledge_base(NAME, nodes, edges, queries, Path("kbbench", NAME))
    results = {model: kbbench_hf.run(NAME, model, show=False) for model in (first, second)}
    for model, result in results.items():
        mrr = result.scores["mrr"]
        print(f"{mrr.value:.3f} [{mrr.ci95[0]:.3f}, {mrr.ci95[1]:.3f}]  MRR of {model}")
    test = kbbench_hf.compare(results[second], results[first]).tests["mrr"]
    low, high = test.ci95
    print(f"{test.difference:+.3f} [{low:+.3f}, {high:+.3f}]  the second minus the first, p = {test.p_value:.4f}")


if __name__ == "__main__":
    main()
