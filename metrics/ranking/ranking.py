"""Ranking measures, with STaRK's definitions or trec_eval's."""

import datasets
import evaluate
import numpy as np

from kbbench_hf.benchmarks.warnings import ScoreWarning, empty_warning
from kbbench_hf.metrics.aggregate import estimate
from kbbench_hf.metrics.id_lists import number_ids
from kbbench_hf.metrics.ranking import DEFAULT_KS, measure, metric_names
from kbbench_hf.metrics.ranks import locate, rank

_DESCRIPTION = """\
Hit@k, Recall@k, Precision@k, MRR, MAP, nDCG and R-precision of ranked candidates. Scores become ranks once (score
descending, then id ascending); every measure reads the same ranks. Mode `reference` has the definitions behind the
published figures of STaRK, mode `standard` those of trec_eval, ties apart.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions: for each query, the retrieved ids (strings or integers), best first; or a list of
        {"id": ..., "score": ...}, in any order.
    references: for each query, the ids of the relevant candidates.
    ks: the cutoffs of the measures that have one.
    mode: "reference" (STaRK's evaluator with torchmetrics before 1.7.4; the default) or "standard" (trec_eval's
        definitions; among equal scores the lowest id is first, where trec_eval takes the last in the alphabet).
    missing: where relevant candidates stand that were not retrieved. "zero": nowhere, they contribute nothing. "tail":
        behind the ranking, which is the head of a ranking of all `n_candidates`; a value that depends on their order
        there is not determined. By default "tail" in mode `reference` if `n_candidates` is given, else "zero".
    n_candidates: how many candidates there are to rank.
    return_ci: whether to add a 95 % confidence interval, `<metric>_ci95`, to every metric.
    return_warnings: whether to add `warnings`, what a reader should know before believing the figures: a list of
        {"code", "severity", "message", "remedy", "n_examples", "effect"}.
Returns:
    The mean over queries of every metric, as fractions: hit_at_k, recall_at_k, precision_at_k, ndcg_at_k, map_at_k for
    every k, mrr, map, ndcg and r_precision; NaN where a query's value is not determined. And counts: n_scored,
    n_not_determined (queries with a value that is not), n_empty_gold (queries without relevant candidates, which score
    0), n_gold_in_ties (relevant candidates that share their score with another candidate).
Examples:
    >>> ranking = evaluate.load("metrics/ranking")
    >>> results = ranking.compute(predictions=[["a", "b", "c"], ["x", "y"]], references=[["b"], ["z"]], ks=(1, 2))
    >>> results["mrr"], results["hit_at_1"], results["hit_at_2"]  # 1/2 and 0 over 2 queries
    (0.25, 0.0, 0.5)
    >>> scored = [[{"id": 7, "score": 0.1}, {"id": 3, "score": 0.9}]]
    >>> ranking.compute(predictions=scored, references=[[7]])["mrr"]
    0.5
"""

_CITATION = """\
@inproceedings{wu2024stark,
  title = {STaRK: Benchmarking LLM Retrieval on Textual and Relational Knowledge Bases},
  author = {Wu, Shirley and Zhao, Shiyu and Yasunaga, Michihiro and Huang, Kexin and Cao, Kaidi and Huang, Qian and
    Ioannidis, Vassilis N. and Subbian, Karthik and Zou, James and Leskovec, Jure},
  booktitle = {NeurIPS Datasets and Benchmarks Track},
  year = {2024}
}
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class Ranking(evaluate.Metric):
    def _info(self) -> evaluate.MetricInfo:
        def lists(value: str, scored: bool) -> datasets.Features:
            entry = (
                {"id": datasets.Value(value), "score": datasets.Value("float64")} if scored else datasets.Value(value)
            )
            return datasets.Features(
                {"predictions": datasets.List(entry), "references": datasets.List(datasets.Value(value))}
            )

        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=[lists(value, scored) for scored in (True, False) for value in ("string", "int64")],
            reference_urls=["https://stark.stanford.edu", "https://github.com/usnistgov/trec_eval"],
        )

    def _infer_feature_from_batch(self, batch):
        # `evaluate` looks at the first example only, where an empty ranking does not show what it would hold, and it
        # takes lists but no arrays there.
        return self._infer_feature_from_example(
            {
                name: next((np.asarray(each).tolist() for each in column if len(each)), [])
                for name, column in batch.items()
            }
        )

    def _compute(
        self,
        predictions,
        references,
        ks=DEFAULT_KS,
        mode="reference",
        missing=None,
        n_candidates=None,
        return_ci=False,
        return_warnings=False,
    ):
        scored = any(ranking and isinstance(ranking[0], dict) for ranking in predictions)
        ids = [[entry["id"] for entry in ranking] for ranking in predictions] if scored else predictions
        scores = np.array([entry["score"] for ranking in predictions for entry in ranking]) if scored else None
        ranked, gold = number_ids(ids, references)
        rule = missing or ("tail" if n_candidates is not None and mode == "reference" else "zero")
        ranks = locate(rank(ranked, scores), gold, missing=rule, n_candidates=n_candidates)
        values = measure(ranks, metric_names(ks), mode)
        results = {}
        for name, column in values.items():
            mean = estimate(column) if not np.isnan(column).any() else estimate([])
            results[name] = mean.value
            if return_ci:
                results[f"{name}_ci95"] = list(mean.ci95)
        if return_warnings:
            found = [
                *empty_warning(sum(len(each) == 0 for each in predictions), len(predictions)),
                *_warnings(ids, ranks, ks),
            ]
            results["warnings"] = [each.to_dict() for each in found]
        open_queries = np.isnan(list(values.values())).any(axis=0)
        return {
            **results,
            "n_scored": int((~open_queries).sum()),
            "n_not_determined": int(open_queries.sum()),
            "n_empty_gold": int((ranks.n_gold == 0).sum()),
            "n_gold_in_ties": ranks.n_tied,
        }


def _warnings(ids, ranks, ks):
    depth = max(ks, default=0)
    shallow = sum(0 < len(each) < depth for each in ids)
    found = []
    if shallow:
        message = f"{shallow:,} of {len(ids):,} rankings end before rank {depth}; what would come later is not found."
        found.append(ScoreWarning("shallow_rankings", message, f"Rank at least {depth} candidates.", shallow))
    if ranks.n_tied:
        message = f"{ranks.n_tied:,} gold ids share their score with others; ties go to the smaller id."
        found.append(ScoreWarning("ties", message, "Break ties before, if another order is meant.", ranks.n_tied))
    return found
