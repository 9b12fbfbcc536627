"""How alike two names of capitals are."""

import datasets
import evaluate
from kbbench_capitals import similarity

_DESCRIPTION = "The share of characters that a name has in common with the capital's, without case; the mean of all."
_KWARGS_DESCRIPTION = """
Args:
    predictions: names.
    references: the capitals' names.
Returns:
    similarity: from 0 to 1, more is better.
Examples:
    >>> metric.compute(predictions=["paris"], references=["Paris"])
    {'similarity': 1.0}
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class CapitalSimilarity(evaluate.Metric):
    """The metric."""

    def _info(self):
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation="",
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features({"predictions": text, "references": text}),
        )

    def _compute(self, predictions, references):
        values = [similarity(*each) for each in zip(predictions, references, strict=True)]
        return {"similarity": sum(values) / len(values)}
