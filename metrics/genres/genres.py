"""Triples written by a generative model, by GenRES's measures."""

from pathlib import Path

import datasets
import evaluate

from kbbench_hf.benchmarks.annotation_warnings import annotation_warnings
from kbbench_hf.benchmarks.annotations import Annotations
from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.benchmarks.genres.benchmark import CORPORA, Context, score, warn
from kbbench_hf.benchmarks.genres.release import text_id
from kbbench_hf.benchmarks.warnings import empty_warning
from kbbench_hf.errors import DataError, UsageError, unknown_name
from kbbench_hf.metrics.aggregate import means
from kbbench_hf.metrics.generative_re import MODES

_DESCRIPTION = """\
Topical similarity, uniqueness, factualness, granularity and completeness of extracted triples, as GenRES defines them,
with their number, their length, and the literal match as a baseline. Mode `reference` gives the figures of the
authors' release; `fixed` does without its accidents.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions: for each document, a list of triples [head, relation, tail].
    references: for each document, its list of gold triples; empty where there is none.
    texts: the documents. Needed with annotations, which know a document by the hash of its text.
    annotations: the folder that `kbbench annotate` wrote for these predictions. What it lacks is not scored: the five
        qualities need topics, embeddings, verdicts and splits; the rest needs nothing.
    mode: "reference" (the authors' release; the default) or "fixed".
    return_ci: whether to add a 95 % confidence interval, `<metric>_ci95`, to every metric.
    return_warnings: whether to add `warnings`, what a reader should know before believing the figures: a list of
        {"code", "severity", "message", "remedy", "n_examples", "effect"}.
Returns:
    The means over documents: completeness, topical_similarity, uniqueness, factualness, granularity, precision, recall,
    f1 as fractions (more is better); triples_per_document and tokens_per_triple. NaN where nothing was scored. And
    counts: n_empty, n_empty_gold, n_malformed_triples, n_duplicate_triples and, for each metric, `<metric>_n_scored`.
Examples:
    >>> genres = evaluate.load("metrics/genres")
    >>> predictions = [[["Paris", "Capital_of", "France"], ["Paris", "on", "Seine"]], []]
    >>> references = [[["paris", "capital of", "france"]], [["Rome", "capital of", "Italy"]]]
    >>> results = genres.compute(predictions=predictions, references=references)
    >>> results["precision"], results["recall"], results["precision_n_scored"]  # silence is skipped, as released
    (0.5, 1.0, 1)
    >>> genres.compute(predictions=predictions, references=references, mode="fixed")["recall"]  # silence is wrong
    0.5
"""

_CITATION = """\
@inproceedings{genres,
  title = {{GenRES}: Rethinking Evaluation for Generative Relation Extraction in the Era of Large Language Models},
  author = {Jiang, Pengcheng and Lin, Jiacheng and Wang, Zifeng and Sun, Jimeng and Han, Jiawei},
  booktitle = {Proceedings of NAACL},
  year = {2024}
}
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class Genres(evaluate.Metric):
    def _info(self) -> evaluate.MetricInfo:
        # Json keeps an element that is no string; a list of strings would make JSON text of every string beside it.
        predicted, gold = datasets.List(datasets.Json()), datasets.List(datasets.List(datasets.Value("string")))
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features({"predictions": predicted, "references": gold}),
            reference_urls=["https://github.com/pat-jj/GenRES", "https://arxiv.org/abs/2402.10744"],
        )

    def _compute(
        self,
        predictions,
        references,
        texts=None,
        annotations=None,
        mode="reference",
        return_ci=False,
        return_warnings=False,
    ):
        if mode not in MODES:
            raise unknown_name("mode of genres", mode, MODES)
        if annotations is not None and texts is None:
            raise UsageError("annotations without texts; expected the text of each document. Give texts as well.")
        if texts is not None and len(texts) != len(predictions):
            raise UsageError(f"{len(texts)} texts for {len(predictions)} predictions; expected one for each.")
        rows = []
        for place, triples in enumerate(references):
            if wrong := [triple for triple in triples if len(triple) != 3]:
                raise DataError(f"Gold triple {wrong[0]!r} of document {place}; expected [head, relation, tail].")
            gold = [dict(zip(("sub", "rel", "obj"), triple, strict=True)) for triple in triples]
            name = str(place) if texts is None else text_id(texts[place])
            rows.append({"id": name, "triples": gold, "triples_stated": gold})
        found = Annotations(Path(annotations)) if annotations is not None else None
        examples = Examples(rows, Context("own", ()), found)
        scores = score(examples, predictions, mode)
        results = {}
        for metric, mean in means(scores.values, scores.draws).items():
            results[metric] = mean.value
            results[f"{metric}_n_scored"] = mean.n_scored
            if return_ci:
                results[f"{metric}_ci95"] = list(mean.ci95)
        if return_warnings:
            empty = empty_warning(sum(not each for each in predictions), len(predictions))
            of_annotations = annotation_warnings(CORPORA, examples, predictions)
            found_wanting = (*empty, *of_annotations, *warn(CORPORA, examples, predictions, mode))
            results["warnings"] = [each.to_dict() for each in found_wanting]
        return {**results, **scores.counters}
