"""Six ranking measures for 11,204 queries x top 100 of 129,375 candidates, against pytrec_eval, ranx and STaRK's way.

CPU seconds of one thread, all contenders interleaved in one run, inputs ready for each in its own form; the median of
the rounds. Run it: OMP_NUM_THREADS=1 python benchmarks_speed/ranking.py

STaRK's way is written anew from its description: per query, spread the scores over all candidates, then let each
measure sort them for itself, as torchmetrics' retrieval functions do. It is timed on a few queries and scaled.
"""

import time
from collections.abc import Callable
from statistics import median

import numpy as np
import torch

from kbbench_hf.metrics.ranking import measure
from kbbench_hf.metrics.ranks import IdLists, locate, rank

N_QUERIES, TOP, N_CANDIDATES = 11_204, 100, 129_375
ROUNDS, UPSTREAM_QUERIES = 7, 12
METRICS = ["hit_at_1", "hit_at_5", "recall_at_20", "mrr", "map", "ndcg_at_10"]


def make_input() -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    generator = np.random.default_rng(0)
    ids = np.stack([generator.choice(N_CANDIDATES, TOP, replace=False) for _ in range(N_QUERIES)])
    scores = -np.sort(-generator.random((N_QUERIES, TOP)), axis=1)
    gold = [
        np.unique(np.append(generator.choice(ids[query], 1), generator.integers(0, N_CANDIDATES, size)))
        for query, size in enumerate(generator.integers(0, 5, N_QUERIES))
    ]
    return ids, scores, gold


def upstream(run: dict[int, float], gold: list[int], candidates: list[int]) -> list[float]:
    """One query: dense scores over all candidates, one sort per measure."""
    filler = min(run.values()) - 1
    dense = torch.full((max(candidates) + 1,), filler)
    dense[torch.tensor(list(run))] = torch.tensor(list(run.values()))
    scores = dense[candidates]
    relevant = torch.zeros(max(candidates) + 1, dtype=torch.bool)
    relevant[torch.tensor(gold)] = True
    target = relevant[candidates]
    values = []
    for k in (1, 5):
        values.append(float(target[torch.argsort(scores, descending=True)][:k].any()))
    values.append(float(target[torch.argsort(scores, descending=True)][:20].sum() / target.sum()))
    order = scores.topk(len(scores)).indices
    values.append(float(1 / (torch.nonzero(target[order])[0] + 1)))
    order = scores.topk(len(scores)).indices
    found = torch.nonzero(target[order]).flatten() + 1
    values.append(float((torch.arange(1, len(found) + 1) / found).mean()))
    order = torch.argsort(scores, descending=True)
    discounts = 1 / torch.log2(torch.arange(2, len(scores) + 2))
    discounts[10:] = 0
    ideal = (torch.sort(target.float(), descending=True).values * discounts).sum()
    _, inverse, counts = torch.unique(-scores, return_inverse=True, return_counts=True)
    ranked = torch.zeros(len(counts)).scatter_add_(0, inverse, target.float()) / counts
    ends = counts.cumsum(0) - 1
    sums = discounts.cumsum(0)[ends]
    sums[1:] -= sums[:-1].clone()
    values.append(float((ranked * sums).sum() / ideal))
    return values


def pytrec_contender(ids: np.ndarray, scores: np.ndarray, gold: list[np.ndarray]) -> Callable[[], object]:
    import pytrec_eval

    qrels = {str(query): {str(c): 1 for c in each} for query, each in enumerate(gold)}
    run = {
        str(query): dict(zip(map(str, ids[query].tolist()), scores[query].tolist(), strict=True))
        for query in range(N_QUERIES)
    }
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"success.1,5", "recall.20", "recip_rank", "map", "ndcg_cut.10"})
    return lambda: evaluator.evaluate(run)


def ranx_contender(ids: np.ndarray, scores: np.ndarray, gold: list[np.ndarray]) -> Callable[[], object]:
    from ranx import Qrels, Run, evaluate

    qrels = Qrels({str(query): {str(c): 1 for c in each} for query, each in enumerate(gold)})
    run = Run(
        {
            str(query): dict(zip(map(str, ids[query].tolist()), scores[query].tolist(), strict=True))
            for query in range(N_QUERIES)
        }
    )
    metrics = ["hit_rate@1", "hit_rate@5", "recall@20", "mrr", "map", "ndcg@10"]
    call = lambda: evaluate(qrels, run, metrics, return_mean=False)  # noqa: E731
    call()
    return call


def main() -> None:
    torch.set_num_threads(1)
    ids, scores, gold = make_input()
    lists, gold_lists, flat = IdLists.of(ids), IdLists.of(gold), scores.ravel()
    ranked = rank(lists, flat)
    candidates = list(range(N_CANDIDATES))
    runs = [dict(zip(ids[q].tolist(), scores[q].tolist(), strict=True)) for q in range(UPSTREAM_QUERIES)]
    contenders: dict[str, Callable[[], object]] = {
        "ours": lambda: measure(locate(ranked, gold_lists), METRICS),
        "ours, scores unchecked and unranked": lambda: measure(locate(rank(lists, flat), gold_lists), METRICS),
        "one read of the input": lambda: (lists.ids.sum(), flat.sum()),
        "pytrec_eval": pytrec_contender(ids, scores, gold),
        "STaRK's way": lambda: [upstream(run, gold[q].tolist(), candidates) for q, run in enumerate(runs)],
    }
    try:
        contenders["ranx"] = ranx_contender(ids, scores, gold)
    except ImportError:
        print("ranx is not installed: left out")
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, call in contenders.items():
            start = time.process_time()
            call()
            times[name].append(time.process_time() - start)
    seconds = {name: median(each) for name, each in times.items()}
    seconds["STaRK's way"] *= N_QUERIES / UPSTREAM_QUERIES
    print(f"{'contender':38}{'CPU s':>10}{'x ours':>10}   target")
    targets = {"pytrec_eval": ">= 10", "ranx": ">= 10", "STaRK's way": ">= 5,000", "one read of the input": ">= 1/50"}
    for name, taken in sorted(seconds.items(), key=lambda item: item[1]):
        print(f"{name:38}{taken:10.4f}{taken / seconds['ours']:10.3g}   {targets.get(name, '')}")


if __name__ == "__main__":
    main()
