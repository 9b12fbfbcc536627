"""Triples written by a generative model, by GenRES's measures."""

import math
from pathlib import Path

import datasets
import evaluate

from kbbench_hf.benchmarks.annotations import Annotations
from kbbench_hf.benchmarks.answers import ANY_TRIPLES, ShapeError
from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.benchmarks.genres.benchmark import CORPORA, CorpusContext, score
from kbbench_hf.benchmarks.genres.warnings import warnings as warn
from kbbench_hf.benchmarks.judge_agreement import annotation_warnings
from kbbench_hf.benchmarks.warnings import empty_warning, equals_gold_warning, unscored_warning
from kbbench_hf.building.genres.release import text_id
from kbbench_hf.errors import DataError, UsageError, unknown_name
from kbbench_hf.metrics.aggregate import means
from kbbench_hf.metrics.generative_re import MODES
from kbbench_hf.scoring.evaluate_modules import decode, module_result, read_list, reads

_DESCRIPTION = """\
Topical similarity, uniqueness, factualness, granularity and completeness of extracted triples, as GenRES defines them,
with their number, their length, and the literal match as a baseline. Mode `reference` gives the figures of the
authors' release; `fixed` does without its accidents; `fixed-2` also compares names by letters and digits.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions: for each document, a list of triples [head, relation, tail], or of dictionaries such as {"head",
        "relation", "tail"}. Another item of such a list is a malformed triple, and counted.
    references: for each document, its list of gold triples; empty where there is none.
    texts: the documents. Needed with annotations, which know a document by the hash of its text.
    annotations: the folder that `kbbench annotate` wrote for these predictions. What it lacks is not scored: the five
        qualities need topics, embeddings, verdicts and splits; the rest needs nothing.
    mode: "reference" (the authors' release; the default), "fixed" or "fixed-2".
    return_ci: whether to add the ends of a 95 % confidence interval to every metric, `<metric>_ci95_low` and
        `<metric>_ci95_high`.
    return_warnings: whether to add `warnings`, what a reader should know before believing the scores: a list of
        {"code", "severity", "message", "remedy", "n_examples", "effect"}. They are logged by `datasets` in any case.
Returns:
    The means over documents: completeness, topical_similarity, uniqueness, factualness, granularity, precision, recall,
    f1 as fractions (more is better); triples_per_document and tokens_per_triple. And counts: n_empty, n_empty_gold,
    n_malformed_triples, n_duplicate_triples, n_factualness_failures and n_granularity_failures (verdicts that a judge
    did not give; NaN without such annotations) and, for each metric, `<metric>_n_scored`. Every value is a float, NaN
    where nothing was scored; the keys depend on the options alone.
Examples:
    >>> genres = evaluate.load("metrics/genres")
    >>> predictions = [[["Paris", "Capital_of", "France"], ["Paris", "on", "Seine"]], []]
    >>> references = [[["paris", "capital of", "france"]], [["Rome", "capital of", "Italy"]]]
    >>> results = genres.compute(predictions=predictions, references=references)
    >>> results["precision"], results["recall"], results["precision_n_scored"]  # silence is skipped, as released
    (0.5, 1.0, 1.0)
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


def _read_prediction(entry):
    if isinstance(entry, list) and len(entry) == 3 and all(isinstance(each, str) for each in entry):
        raise ShapeError(f"three texts; expected a list of triples, [{entry!r}] if it is one")
    return read_list(ANY_TRIPLES)(entry)


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
@reads(predictions=_read_prediction, references=read_list(ANY_TRIPLES))
class Genres(evaluate.Metric):
    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features({"predictions": text, "references": text}),
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
        predictions, references = decode(predictions, references)
        if mode not in MODES:
            raise unknown_name("mode of genres", mode, MODES)
        if annotations is not None and texts is None:
            raise UsageError("annotations without texts; expected the text of each document. Give texts as well.")
        if texts is not None and len(texts) != len(predictions):
            raise UsageError(f"{len(texts)} texts for {len(predictions)} predictions; expected one for each.")
        rows = []
        for place, triples in enumerate(references):
            gold = [_gold_triple(triple, place) for triple in triples]
            name = str(place) if texts is None else text_id(texts[place])
            rows.append({"id": name, "triples": gold, "triples_stated": gold})
        found = Annotations(Path(annotations)) if annotations is not None else None
        examples = Examples(rows, CorpusContext("own", ()), found)
        scores = score(examples, predictions, mode)
        estimates = means(scores.values, scores.draws)
        counts = dict.fromkeys(("n_factualness_failures", "n_granularity_failures"), math.nan) | scores.counters
        counts |= {f"{metric}_n_scored": mean.n_scored for metric, mean in estimates.items()}
        annotated = CORPORA.scoring.annotations.metrics
        labels = {metric: label for metric, label in CORPORA.metrics.items() if metric in annotated}
        warnings = [
            *empty_warning(sum(not each for each in predictions), len(predictions)),
            *equals_gold_warning(predictions, [[each] for each in references], ANY_TRIPLES),
            *(unscored_warning(labels, estimates, "Run 'kbbench annotate' and give `annotations`.") if rows else ()),
            *annotation_warnings(CORPORA, examples, predictions),
            *warn(CORPORA, examples, predictions, mode),
        ]
        return module_result(
            estimates, counts, warnings, n=len(predictions), return_ci=return_ci, return_warnings=return_warnings
        )


def _gold_triple(triple, place):
    if not (isinstance(triple, list) and len(triple) == 3 and all(isinstance(part, str) for part in triple)):
        raise DataError(
            f"Gold triple {triple!r} of document {place}; expected [head, relation, tail], three strings. Correct it."
        )
    return dict(zip(("sub", "rel", "obj"), triple, strict=True))
