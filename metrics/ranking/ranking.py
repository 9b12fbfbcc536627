"""Ranking measures, with STaRK's definitions or trec_eval's."""

import datasets
import evaluate
import numpy as np

from kbbench_hf.benchmarks.answers import IDS, ShapeError
from kbbench_hf.benchmarks.warnings import ScoreWarning, empty_warning, equals_gold_warning
from kbbench_hf.errors import DataError
from kbbench_hf.metrics.aggregate import estimate
from kbbench_hf.metrics.ranking import DEFAULT_KS, measure, metric_names
from kbbench_hf.metrics.ranks import locate, number_ids, rank
from kbbench_hf.scoring.evaluate_modules import Unordered, decode, module_result, read_list, reads

_DESCRIPTION = """\
Hit@k, Recall@k, Precision@k, MRR, MAP, nDCG and R-precision of ranked candidates. Scores become ranks once (score
descending, then id ascending); every measure reads the same ranks. Mode `reference` has the definitions behind the
published figures of STaRK, mode `standard` those of trec_eval, ties apart.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions: for each query, the retrieved ids (strings or integers), best first; or a list of
        {"id": ..., "score": ...} (or "corpus_id"), in any order; or a dictionary from id to score.
    references: for each query, the ids of the relevant candidates, as a list or a set.
    ks: the cutoffs of the measures that have one.
    mode: "reference" (STaRK's evaluator with torchmetrics before 1.7.4; the default) or "standard" (trec_eval's
        definitions; among equal scores the lowest id is first, where trec_eval takes the last in the alphabet).
    missing: where relevant candidates stand that were not retrieved. "zero": nowhere, they contribute nothing. "tail":
        behind the ranking, which is the head of a ranking of all `n_candidates`; a value that depends on their order
        there is not determined. By default "tail" in mode `reference` if `n_candidates` is given, else "zero".
    n_candidates: how many candidates there are to rank.
    return_ci: whether to add the ends of a 95 % confidence interval to every metric, `<metric>_ci95_low` and
        `<metric>_ci95_high`.
    return_warnings: whether to add `warnings`, what a reader should know before believing the scores: a list of
        {"code", "severity", "message", "remedy", "n_examples", "effect"}. They are logged by `datasets` in any case.
Returns:
    The mean over queries of every metric, as fractions: hit_at_k, recall_at_k, precision_at_k, ndcg_at_k, map_at_k for
    every k, mrr, map, ndcg and r_precision; NaN where a query's value is not determined. And counts: n_scored,
    n_not_determined (queries with a value that is not), n_empty_gold (queries without relevant candidates, which score
    0), n_gold_in_ties (relevant candidates that share their score with another candidate). Every value is a float; the
    keys depend on the options alone.
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


def _read_prediction(entry):
    """Return ids, best first, or [id, score] pairs."""
    if isinstance(entry, Unordered) and len(entry) > 1:
        raise ShapeError("a set has no order; expected a list, best first")
    if isinstance(entry, dict) and not entry.keys() & {"ids", "id", "corpus_id", "score"}:
        entry = [{"id": name, "score": score} for name, score in entry.items()]
    if not isinstance(entry, list) or not any(isinstance(each, dict) for each in entry):
        return _read_ids(entry)
    pairs = [_pair(each) for each in entry]
    return [list(pair) for pair in zip(_read_ids([name for name, _ in pairs]), (s for _, s in pairs), strict=True)]


def _pair(entry):
    names = [name for name in ("id", "corpus_id") if isinstance(entry, dict) and name in entry]
    score = entry.get("score") if isinstance(entry, dict) else None
    if len(names) != 1 or isinstance(score, bool) or not isinstance(score, (int, float)):
        raise ShapeError(f"{entry!r} is no {{'id': ..., 'score': number}}, as the others are")
    return entry[names[0]], score


def _read_ids(entry):
    """Return ids; whole numbers that an array made floats of are integers again."""
    if isinstance(entry, list):
        entry = [int(each) if isinstance(each, float) and each.is_integer() else each for each in entry]
    return read_list(IDS)(entry)


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
@reads(predictions=_read_prediction, references=_read_ids, arrays=True)
class Ranking(evaluate.Metric):
    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features({"predictions": text, "references": text}),
            reference_urls=["https://stark.stanford.edu", "https://github.com/usnistgov/trec_eval"],
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
        predictions, references = decode(predictions, references)
        scored = {isinstance(ranking[0], list) for ranking in predictions if ranking}
        if len(scored) > 1:
            raise DataError("Some rankings have scores, and others have none; expected one kind. Convert one of them.")
        ids = [[name for name, _ in ranking] for ranking in predictions] if True in scored else predictions
        scores = np.array([score for ranking in predictions for _, score in ranking]) if True in scored else None
        ranked, gold = number_ids(ids, references)
        rule = missing or ("tail" if n_candidates is not None and mode == "reference" else "zero")
        ranks = locate(rank(ranked, scores), gold, missing=rule, n_candidates=n_candidates)
        values = measure(ranks, metric_names(ks), mode)
        # A mean over the queries whose value is determined is not that of the system.
        estimates = {
            name: estimate(column) if not np.isnan(column).any() else estimate([]) for name, column in values.items()
        }
        open_queries = np.isnan(list(values.values())).any(axis=0)
        counts = {
            "n_scored": (~open_queries).sum(),
            "n_not_determined": open_queries.sum(),
            "n_empty_gold": (ranks.n_gold == 0).sum(),
            "n_gold_in_ties": ranks.n_tied,
        }
        warnings = [
            *empty_warning(ids.count([]), len(ids)),
            *(equals_gold_warning(ids, [[each] for each in references], IDS) if scores is None else ()),
            *_warnings(ids, ranks, ks),
        ]
        return module_result(
            estimates, counts, warnings, n=len(ids), return_ci=return_ci, return_warnings=return_warnings
        )


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
