"""Answer-list F1 and its company, in five ways of comparing two answers."""

import json
import math

import datasets
import evaluate

from kbbench_hf.benchmarks.answers import ANSWERS, ShapeError
from kbbench_hf.benchmarks.warnings import above_one_warning, empty_warning, equals_gold_warning, unread_warning
from kbbench_hf.errors import UsageError
from kbbench_hf.metrics.aggregate import estimate
from kbbench_hf.metrics.answers import score_answers
from kbbench_hf.parsing.answers import parse_answers
from kbbench_hf.parsing.parsed_reply import ParseError
from kbbench_hf.scoring.evaluate_modules import Unordered, decode, module_result, read_list, reads

_DESCRIPTION = """\
Macro-F1 between predicted and gold answer lists, with precision, recall, exact match and hit@1. Of a model's text the
last JSON object with the key "answer" is read; a text without one scores 0, is counted, and stays in the denominator.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions: for each question, a list of answers (strings or numbers); or for every question a model's text. A
        dictionary is read as the JSON object of such a text: {"answer": ["Paris"]}.
    references: for each question, the list of gold answers; a set is accepted.
    mode: how two answers are compared: "squad" (lower case, no punctuation, no articles; the default), "exact", "wtq"
        (WikiTableQuestions' normal form and numbers), "rog" (reasoning-on-graphs: gold as a substring of the
        predictions; precision and F1 can exceed 1, as upstream), "typed" (entities, numbers and dates, each as what it
        is).
    types: for each question, "entity", "number" or "date", for the mode "typed"; what the first gold answer looks like
        where it is not given: four digits such as "1955" are a year or a number.
    aliases: for each question, the list of other names of each gold answer, for the mode "typed".
    return_ci: whether to add the ends of a 95 % confidence interval to every metric, `<metric>_ci95_low` and
        `<metric>_ci95_high`.
    return_warnings: whether to add `warnings`, what a reader should know before believing the scores: a list of
        {"code", "severity", "message", "remedy", "n_examples", "effect"}. They are logged by `datasets` in any case.
Returns:
    The mean over questions of answer_f1, precision, recall, exact_match, hit_at_1 and parse_failure_rate, as fractions;
    and counts: n_scored, n_parse_failures, n_empty (answer lists without an answer). Every value is a float, NaN where
    nothing was scored; the keys depend on the options alone.
Examples:
    >>> answer_f1 = evaluate.load("metrics/answer_f1")
    >>> answers = [["The Beatles", "Oasis"], ["Navy"]]
    >>> results = answer_f1.compute(predictions=answers, references=[["beatles"], ["navy"]])
    >>> results["precision"], results["recall"], results["exact_match"]  # (1/2 + 1) / 2, 1, 1 of 2
    (0.75, 1.0, 0.5)
    >>> results = answer_f1.compute(predictions=['So {"answer": ["12"]}', "Perhaps 7."], references=[["12"], ["7"]])
    >>> results["answer_f1"], results["n_parse_failures"]
    (0.5, 1.0)
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


def _read_prediction(entry):
    """Return the answers of a prediction, in order; a text as it is."""
    if isinstance(entry, str):
        return entry
    if isinstance(entry, dict):
        try:
            return list(parse_answers(json.dumps(entry)).answer)
        except ParseError:
            raise ShapeError("a dictionary without 'answer'; expected a list of answers or {'answer': [...]}") from None
    if isinstance(entry, Unordered) and len(entry) > 1:
        raise ShapeError("a set has no first answer, which hit_at_1 needs; expected a list")
    return _read_reference(entry)


def _read_reference(entry):
    """Return answers as strings; whole numbers lose their decimal point, since "12.0" is "120" without punctuation."""
    if isinstance(entry, (str, int, float)):
        raise ShapeError(f"expected a list of answers, [{entry!r}] if it is one")
    if isinstance(entry, list):
        numbers = [each for each in entry if isinstance(each, float)]
        if not all(map(math.isfinite, numbers)):
            raise ShapeError("NaN or an infinite number is no answer; leave missing values out")
        entry = [int(each) if isinstance(each, float) and each.is_integer() else each for each in entry]
    return read_list(ANSWERS)(entry)


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
@reads(predictions=_read_prediction, references=_read_reference)
class AnswerF1(evaluate.Metric):
    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features({"predictions": text, "references": text}),
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
        predictions, references = decode(predictions, references)
        for name, given in (("types", types), ("aliases", aliases)):
            if given is not None and len(given) != len(predictions):
                raise UsageError(f"{len(given)} {name} for {len(predictions)} predictions; expected one for each.")
        answers = [_read_text(each) if isinstance(each, str) else each for each in predictions]
        values = score_answers(answers, references, mode, types, aliases)
        estimates = {name: estimate(column, bounded=mode != "rog") for name, column in values.items()}
        counts = {
            "n_scored": estimates["answer_f1"].n_scored,
            "n_parse_failures": answers.count(None),
            "n_empty": answers.count([]),
        }
        warnings = [
            *unread_warning(answers.count(None), len(answers), "Read some of them, and give lists of answers."),
            *empty_warning(answers.count([]), len(answers)),
            *equals_gold_warning(answers, [[each] for each in references], ANSWERS),
            *above_one_warning(values["precision"]),
        ]
        return module_result(
            estimates, counts, warnings, n=len(answers), return_ci=return_ci, return_warnings=return_warnings
        )


def _read_text(text):
    try:
        return list(parse_answers(text).answer)
    except ParseError:
        return None
