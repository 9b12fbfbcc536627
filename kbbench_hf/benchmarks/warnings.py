"""Warnings and notes on scores, as values that every table, file and page shows with the scores.

Benchmarks, `scoring` and `runners` make them; `result.json` stores them, so that the codes and the keys of
`PlainWarning` must stay.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import factorial, log2
from typing import Literal, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.answers import Answer, AnswerKind
from kbbench_hf.metrics.aggregate import Estimate

Severity = Literal["note", "warning"]
LEAST_EQUAL = 10
"""Fewer answers that equal the gold may just be right."""
CHANCE_BITS = 20
"""Gold ranked first is found by luck in the gold's order with a probability of 2 to the minus this, at most."""


class PlainWarning(TypedDict):
    """A warning as `result.json` has it."""

    code: str
    severity: Literal["note", "warning"]
    message: str
    remedy: str
    n_examples: int
    effect: dict[str, float]
    beside: NotRequired[dict[str, float]]
    system: NotRequired[str]


@dataclass(frozen=True)
class ScoreWarning:
    """One warning or note on scores.

    >>> print(ScoreWarning("missing", "45 of 99 examples have no prediction.", "Send the whole file."))
    45 of 99 examples have no prediction. Send the whole file.
    """

    code: str
    """Its identifier, `near_miss_relations` say."""
    message: str
    """What was found, in sentences, with its measured effect."""
    remedy: str = ""
    """What to do about it."""
    n_examples: int = 0
    """Number of examples that it is about; 0 where it is not about single ones."""
    effect: Mapping[str, float] = field(default_factory=dict)
    """Metric -> what its score would gain without this, where that was measured."""
    beside: Mapping[str, float] = field(default_factory=dict)
    """Metric -> a score to compare its own with, such as that of a baseline that reads nothing."""
    severity: Literal["note", "warning"] = "warning"
    """A note says what is not there; a warning, what may mislead."""
    system: str = ""
    """In a comparison: whose it is, A or B; empty where it is about both."""

    @property
    def inseparable(self) -> bool:
        """Whether it stands beside the scores even where notes are left out, in tables and on the board."""
        return self.severity == "warning" or bool(self.beside) or self.code in ("equals_gold", "left_out", "repeats")

    def __str__(self) -> str:
        """Return what was found and what to do."""
        prefix = f"{self.system}: " if self.system else ""
        return f"{prefix}{self.message} {self.remedy}".rstrip()

    def to_dict(self) -> PlainWarning:
        """Return plain values, as `result.json` and `--json` have them."""
        plain = PlainWarning(
            code=self.code,
            severity=self.severity,
            message=self.message,
            remedy=self.remedy,
            n_examples=self.n_examples,
            effect=dict(self.effect),
        )
        if self.beside:
            plain["beside"] = dict(self.beside)
        if self.system:
            plain["system"] = self.system
        return plain

    @classmethod
    def of(cls, plain: PlainWarning) -> "ScoreWarning":
        """Return the warning that `to_dict` wrote."""
        return cls(**plain)


def unread_warning(n_unread: int, n: int, remedy: str, said: str = "") -> list[ScoreWarning]:
    """Return a warning where responses held no answer that the parser can read."""
    message = f"{n_unread:,} of {n:,} responses could not be parsed and count as empty predictions."
    return [ScoreWarning("parse_failures", message + said, remedy, n_unread)] if n_unread else []


FEW_UNMATCHED = 0.02
"""Up to this share of unmatched queries a note is enough: they move no score by more than it."""


def unmatched_warning(n_unmatched: int, n: int) -> list[ScoreWarning]:
    """Return a warning where a retriever matched queries with nothing and ranked the nodes all the same.

    >>> [unmatched_warning(n, 100)[0].severity for n in (2, 3)]
    ['note', 'warning']
    """
    message = (
        f"{n_unmatched:,} of {n:,} queries match no text of a node, or all nodes equally; their rankings follow the "
        "ids, types or degrees of the nodes."
    )
    remedy = "Index more text of the nodes (bm25@text=clean), or use dense:MODEL."
    severity: Severity = "note" if n_unmatched <= FEW_UNMATCHED * n else "warning"
    return [ScoreWarning("unmatched_queries", message, remedy, n_unmatched, severity=severity)] if n_unmatched else []


def empty_warning(n_empty: int, n: int) -> list[ScoreWarning]:
    """Return a warning where predictions are empty, as those of half a file are."""
    message = f"{n_empty:,} of {n:,} predictions are empty and count as wrong."
    remedy = "Check that the model was prompted and that its responses were parsed."
    return [ScoreWarning("empty_predictions", message, remedy, n_empty)] if n_empty else []


def unscored_warning(
    labels: Mapping[str, str], estimates: Mapping[str, Estimate], remedy: str, severity: Severity = "warning"
) -> list[ScoreWarning]:
    """Return a warning where metrics (metric -> label) have no scored example, because nothing was annotated."""
    unscored = [label for metric, label in labels.items() if metric in estimates and not estimates[metric].n_scored]
    message = f"Not scored: {', '.join(unscored)}."
    return [ScoreWarning("not_scored", message, remedy, severity=severity)] if unscored else []


def above_one_warning(precision: NDArray[np.float64]) -> list[ScoreWarning]:
    """Return a warning where precisions exceed 1, which mode `rog` of answer lists allows, as its source does."""
    n = int((precision > 1).sum())
    message = (
        f"{n:,} of {len(precision):,} questions have a precision above 1: mode rog finds several gold answers in one "
        "predicted string, and counts that string once. Precision and F1 can exceed 1."
    )
    remedy = "Give one answer per string, or score with another mode."
    return [ScoreWarning("precision_above_one", message, remedy, n)] if n else []


def equals_gold_warning(
    answers: Sequence[Answer | None],
    golds: Sequence[Sequence[Answer]],
    kind: AnswerKind,
    remedy: str = "See where the predictions come from.",
    severity: Severity = "note",
) -> list[ScoreWarning]:
    """Return a warning where nearly every answer equals the gold in its order; case and underscores aside.

    The gold has one or more forms for each example, and none where it is empty. A ranking also counts where it only
    begins with the gold, if that has several candidates in so many examples that their order is no chance.

    >>> answers = [[["Ada", "born_in", "Oslo"]]] * 10
    >>> [each.code for kind in [AnswerKind("triples", list, "", list)]
    ...  for each in equals_gold_warning(answers, [[each] for each in answers], kind)]
    ['equals_gold']
    """
    n = n_equal = n_first = 0
    bits = 0.0
    for answer, forms in zip(answers, golds, strict=True):
        if answer is None or not any(forms):
            continue
        n += 1
        if is_gold(answer, forms):
            n_equal += 1
        elif kind.ranked and (first := next((gold for gold in forms if answer[: len(gold)] == gold), None)):
            n_first += 1
            bits += log2(factorial(len(first)))
    n_alike = n_equal + (n_first if bits >= CHANCE_BITS else 0)
    if n < LEAST_EQUAL or not is_nearly_all(n_alike, n, kind):
        return []
    how = "begin with" if n_alike > n_equal else "equal"
    message = f"{n_alike:,} of {n:,} predictions {how} the gold, in its order. Are these gold answers by mistake?"
    remedy = f"{remedy} A perfect system gives this note too."
    return [ScoreWarning("equals_gold", message, remedy, n_alike, severity=severity)]


def is_gold(answer: Answer, forms: Sequence[Answer]) -> bool:
    """Return whether an answer equals one of the forms of the gold, without case, underscores and spaces."""
    return answer in forms or any(len(form) == len(answer) and _folded(form) == _folded(answer) for form in forms)


def _folded(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_folded(each) for each in value]
    return " ".join(value.replace("_", " ").casefold().split()) if isinstance(value, str) else value


def is_nearly_all(n_equal: int, n: int, kind: AnswerKind) -> bool:
    """Return whether so many answers equal the gold that they are the gold.

    At most 5 % may differ, and 1 % of short answers, which are often just right.
    """
    short = kind.separable and not kind.ranked
    return n - n_equal <= n // (100 if short else 20)
