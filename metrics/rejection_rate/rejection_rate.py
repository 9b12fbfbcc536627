"""How often an unanswerable question is rejected, and what that is worth."""

import json

import datasets
import evaluate

from kbbench_hf.benchmarks.answers import ShapeError
from kbbench_hf.benchmarks.warnings import unread_warning
from kbbench_hf.metrics.aggregate import estimate
from kbbench_hf.metrics.answers import balanced_accuracy, question_kinds, score_rejections
from kbbench_hf.parsing.parsed_reply import ParseError
from kbbench_hf.parsing.verdicts import parse_answerable
from kbbench_hf.scoring.evaluate_modules import decode, module_result, reads

_DESCRIPTION = """\
The share of unanswerable questions that a model says cannot be answered (SKA-Bench's rejection rate), and beside it the
share of answerable ones that it accepts. Always saying "no" has a rejection rate of 1; the balanced accuracy, the mean
of the two shares, is then 0.5.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions: for each question, "yes" (it can be answered) or "no", or a model's text with {"answer": "yes"} or
        {"answer": "no"} in it, or this dictionary. Another text is neither, wrong, and counted.
    references: for each question, whether it can be answered: "yes" or "no".
    return_ci: whether to add the ends of a 95 % confidence interval to every metric, `<metric>_ci95_low` and
        `<metric>_ci95_high`.
    return_warnings: whether to add `warnings`, what a reader should know before believing the scores: a list of
        {"code", "severity", "message", "remedy", "n_examples", "effect"}. They are logged by `datasets` in any case.
Returns:
    rejection_rate, acceptance_rate, balanced_accuracy and parse_failure_rate, as fractions; NaN for a share of nothing,
    and for the balanced accuracy without questions of both kinds. And counts: n_unanswerable, n_answerable,
    n_parse_failures. Every value is a float; the keys depend on the options alone.
Examples:
    >>> rejection_rate = evaluate.load("metrics/rejection_rate")
    >>> results = rejection_rate.compute(predictions=["no", "no", "yes"], references=["no", "yes", "yes"])
    >>> results["rejection_rate"], results["acceptance_rate"], results["balanced_accuracy"]  # 1/1, 1/2, their mean
    (1.0, 0.5, 0.75)
    >>> results = rejection_rate.compute(predictions=['{"answer": "no"}', "Perhaps."], references=["no", "no"])
    >>> results["rejection_rate"], results["n_parse_failures"]
    (0.5, 1.0)
"""

_CITATION = """\
@misc{skabench2025,
  title = {{SKA-Bench}: A Fine-Grained Benchmark for Evaluating Structured Knowledge Understanding of {LLMs}},
  year = {2025},
  eprint = {2507.17178},
  archiveprefix = {arXiv}
}
"""


def _read_prediction(entry):
    if isinstance(entry, dict):
        return json.dumps(entry)
    if not isinstance(entry, str):
        raise ShapeError("expected 'yes' (it can be answered), 'no', or a model's text")
    return entry


def _read_reference(entry):
    if entry not in ("yes", "no"):
        raise ShapeError("expected 'yes' (it can be answered) or 'no'")
    return entry


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
@reads(predictions=_read_prediction, references=_read_reference)
class RejectionRate(evaluate.Metric):
    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features({"predictions": text, "references": text}),
            reference_urls=["https://arxiv.org/abs/2507.17178"],
        )

    def _compute(self, predictions, references, return_ci=False, return_warnings=False):
        predictions, references = decode(predictions, references)
        answerable = [reference == "yes" for reference in references]
        verdicts = [_verdict(each) for each in predictions]
        values = score_rejections(verdicts, answerable)
        estimates = {name: estimate(column) for name, column in values.items()}
        estimates["balanced_accuracy"] = balanced_accuracy(values["balanced_accuracy"], question_kinds(answerable))
        counts = {
            "n_unanswerable": answerable.count(False),
            "n_answerable": answerable.count(True),
            "n_parse_failures": verdicts.count(None),
        }
        warnings = unread_warning(verdicts.count(None), len(verdicts), "Read some of them, and give 'yes' or 'no'.")
        return module_result(
            estimates, counts, warnings, n=len(verdicts), return_ci=return_ci, return_warnings=return_warnings
        )


def _verdict(text):
    try:
        return parse_answerable(text).answer
    except ParseError:
        return None
