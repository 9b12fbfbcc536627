"""Make ranking_torchmetrics.json: random runs and what torchmetrics 1.7.3 says of them. Needs that release.

pip install --target /tmp/torchmetrics --no-deps torchmetrics==1.7.3 lightning-utilities
PYTHONPATH=/tmp/torchmetrics python tests/golden/make_ranking_torchmetrics.py
"""

import json
from pathlib import Path

import numpy as np
import torch
import torchmetrics
from torchmetrics.functional import (
    retrieval_average_precision,
    retrieval_hit_rate,
    retrieval_normalized_dcg,
    retrieval_precision,
    retrieval_r_precision,
    retrieval_recall,
    retrieval_reciprocal_rank,
)

OUT = Path(__file__).with_name("ranking_torchmetrics.json")
FACTS = {
    "source": "torchmetrics 1.7.3 (PyPI), functional.retrieval_*, on scores spread over all candidates with "
    "the rest at min - 1, as stark_qa.Evaluator (snap-stanford/stark b246b94) calls them",
    "command": "python tests/golden/make_ranking_torchmetrics.py, float32",
    "note": "cases with ties hold nDCG only: the other functions order ties arbitrarily",
}
AT_K = {
    "hit": retrieval_hit_rate,
    "recall": retrieval_recall,
    "precision": retrieval_precision,
    "map": retrieval_average_precision,
}
WITHOUT_K = {"mrr": retrieval_reciprocal_rank, "map": retrieval_average_precision, "r_precision": retrieval_r_precision}
KS = (1, 5, 10)


def case(generator: np.random.Generator, tied: bool) -> dict:
    n = int(generator.integers(3, 40))
    ids = generator.permutation(n)[: generator.integers(1, n + 1) if tied else n]
    gold = sorted(generator.permutation(n)[: generator.integers(1, min(8, n) + 1)].tolist())
    scores = generator.integers(0, 4, len(ids)) if tied else generator.permutation(n) - n // 2
    dense = torch.full((n,), float(scores.min() - 1))
    dense[torch.tensor(ids)] = torch.tensor(scores).float()
    relevant = torch.zeros(n, dtype=torch.bool)
    relevant[torch.tensor(gold)] = True
    asked = {"ndcg": retrieval_normalized_dcg} | ({} if tied else WITHOUT_K)
    asked_at_k = {"ndcg": retrieval_normalized_dcg} | ({} if tied else AT_K)
    expected = {name: float(function(dense, relevant)) for name, function in asked.items()}
    for name, function in asked_at_k.items():
        expected |= {f"{name}_at_{k}": float(function(dense, relevant, top_k=k)) for k in KS if k <= n}
    return {"n_candidates": n, "ids": ids.tolist(), "scores": scores.tolist(), "gold": gold, "expected": expected}


if __name__ == "__main__":
    if torchmetrics.__version__ != "1.7.3":
        raise SystemExit(
            f"torchmetrics {torchmetrics.__version__}; expected 1.7.3, before scores of 0 changed meaning."
        )
    generator = np.random.default_rng(7)
    cases = [json.dumps(case(generator, bool(number % 2))) for number in range(40)]
    head = json.dumps(FACTS, indent=1).removesuffix("\n}")
    OUT.write_text(f'{head},\n "cases": [\n  ' + ",\n  ".join(cases) + "\n ]\n}\n", encoding="utf-8")
