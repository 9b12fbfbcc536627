"""Answer-list F1 and its company, in five ways of comparing two answers."""

import datasets
import evaluate

from kbbench_hf.benchmarks.warnings import empty_warning, unread_warning
from kbbench_hf.metrics.aggregate import estimate
from kbbench_hf.metrics.answers import score_answers
from kbbench_hf.replies.answers import read_answers
from kbbench_hf.replies.reading import ParseError

_DESCRIPTION = """\
Macro-F1 between predicted and gold answer lists, with precision, recall, exact match and hit@1. Of a model's text the
last JSON object with the key "answer" is read; a text without one scores 0, is counted, and stays in the denominator.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions: for each question, a list of answers, or a model's text.
    references: for each question, the list of gold answers.
    mode: how two answers are compared: "squad" (lower case, no punctuation, no articles; the default), "exact", "wtq"
        (WikiTableQuestions' normal form and numbers), "rog" (reasoning-on-graphs: gold as a substring of the
        predictions, whose precision can exceed 1), "typed" (entities, numbers and dates, each as what it is).
    types: for each question, "entity", "number" or "date", for the mode "typed"; what the first gold answer looks like
        where it is not given.
    aliases: for each question, the list of other names of each gold answer, for the mode "typed".
    return_ci: whether to add a 95 % confidence interval, `<metric>_ci95`, to every metric.
    return_warnings: whether to add `warnings`, what a reader should know before believing the figures: a list of
        {"code", "severity", "message", "remedy", "n_examples", "effect"}.
Returns:
    The mean over questions of answer_f1, precision, recall, exact_match, hit_at_1 and parse_failure_rate, as fractions;
    and counts: n_scored, n_parse_failures, n_empty (answer lists without an answer).
Examples:
    >>> answer_f1 = evaluate.load("metrics/answer_f1")
    >>> answers = [["The Beatles", "Oasis"], ["Navy"]]
    >>> results = answer_f1.compute(predictions=answers, references=[["beatles"], ["navy"]])
    >>> results["precision"], results["recall"], results["exact_match"]  # (1/2 + 1) / 2, 1, 1 of 2
    (0.75, 1.0, 0.5)
    >>> results = answer_f1.compute(predictions=['So {"answer": ["12"]}', "Perhaps 7."], references=[["12"], ["7"]])
    >>> results["answer_f1"], results["n_parse_failures"]
    (0.5, 1)
    >>> answers = [["1955-11-30"], ["NYC", "New York"]]
    >>> references = [["November 30, 1955"], ["New York City"]]
    >>> aliases = [[[]], [["NYC", "New York"]]]
    >>> answer_f1.compute(predictions=answers, references=references, mode="typed", aliases=aliases)["answer_f1"]
    1.0
"""

_CITATION = """\
@misc{skabench2025,
  title = {{SKA-Bench}: A Fine-Grained Benchmark for Evaluating Structured Knowledge Understanding of {LLMs}},
  year = {2025},
  eprint = {2507.17178},
  archiveprefix = {arXiv}
}
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class AnswerF1(evaluate.Metric):
    def _info(self) -> evaluate.MetricInfo:
        # Json keeps a number among answers; a list of strings would make JSON text of every string beside it.
        answers, text = datasets.List(datasets.Json()), datasets.Value("string")
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=[
                datasets.Features({"predictions": each, "references": datasets.List(text)}) for each in (answers, text)
            ],
            reference_urls=["https://arxiv.org/abs/2507.17178", "https://arxiv.org/abs/2310.01061"],
        )

    def _compute(
        self,
        predictions,
        references,
        mode="squad",
        types=None,
        aliases=None,
        return_ci=False,
        return_warnings=False,
    ):
        answers = [_read(each) if isinstance(each, str) else [str(item) for item in each] for each in predictions]
        values = score_answers(answers, references, mode, types, aliases)
        results = {}
        for name, column in values.items():
            mean = estimate(column, bounded=mode != "rog")
            results[name] = mean.value
            if return_ci:
                results[f"{name}_ci95"] = list(mean.ci95)
        if return_warnings:
            found = [
                *unread_warning(answers.count(None), len(answers), "Read some of them, and give lists of answers."),
                *empty_warning(answers.count([]), len(answers)),
            ]
            results["warnings"] = [each.to_dict() for each in found]
        return {
            **results,
            "n_scored": estimate(values["answer_f1"]).n_scored,
            "n_parse_failures": int(values["parse_failure_rate"].sum()),
            "n_empty": sum(each == [] for each in answers),
        }


def _read(text):
    try:
        return list(read_answers(text).answer)
    except ParseError:
        return None
