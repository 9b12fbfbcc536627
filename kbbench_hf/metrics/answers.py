"""F1, exact match and hit@1 of answer lists, and rejection of unanswerable questions (SKA-Bench, WikiTableQuestions).

SKA-Bench reports macro-F1 "between the predicted answer list and the gold answer list" (arXiv 2507.17178, section 4.1)
without defining equal answers, and without released code. Therefore there are modes.
"""

import re
import string
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.errors import unknown_name
from kbbench_hf.metrics.aggregate import Estimate, estimate
from kbbench_hf.metrics.typed_answers import answer_types, match_answers
from kbbench_hf.text.folding import strip_accents
from kbbench_hf.text.name_variants import entity_key

ARTICLES = re.compile(r"\b(a|an|the)\b")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_CITATIONS = re.compile(r"(?:(?<!^)\[[^\]]*\]|\[\d+\]|[•♦†‡*#+])*$")
_DETAILS = re.compile(r"(?<!^)(?: \([^)]*\))*$")
_QUOTED = re.compile(r'^"([^"]*)"$')
_DASHES_AND_QUOTES = str.maketrans(
    {**dict.fromkeys("‘’´`", "'"), **dict.fromkeys("“”", '"'), **dict.fromkeys("‐‑‒–—−", "-")}
)
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class AnswerScores(NamedTuple):
    """The scores of one example."""

    answer_f1: float
    precision: float
    recall: float
    exact_match: float
    hit_at_1: float


def squad_normal(answer: str) -> str:
    """Return an answer as SQuAD's script compares it: lower case, no punctuation, no articles, single blanks.

    >>> squad_normal("The  Beatles!")
    'beatles'
    """
    return " ".join(ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


@lru_cache(maxsize=1 << 20)
def wtq_normal(answer: str) -> str:
    """Return an answer as WikiTableQuestions' evaluator compares it, before it looks for numbers.

    Accents are removed, and typographic quotes and dashes replaced. Trailing citations, footnote marks, parentheses and
    outer quotes are stripped until nothing changes, then one final full stop. White space is folded; lower case.

    >>> wtq_normal("“Café  Müller”[3] (live)")
    'cafe muller'
    """
    text, before = strip_accents(answer).translate(_DASHES_AND_QUOTES), None
    while text != before:
        before = text
        for pattern, kept in ((_CITATIONS, ""), (_DETAILS, ""), (_QUOTED, r"\1")):
            text = pattern.sub(kept, text.strip(), count=1)
    return " ".join(text.removesuffix(".").split()).lower()


def wtq_number(answer: str) -> float | None:
    """Return the number that an answer is, without thousands separators, `$` and `%`; None if it is not one.

    >>> wtq_number("$12,467"), wtq_number("12 apples")
    (12467.0, None)
    """
    text = wtq_normal(answer).translate({ord(c): None for c in ",$%"})
    return float(text) if _NUMBER.fullmatch(text) else None


def _wtq_key(answer: str) -> Hashable:
    number = wtq_number(answer)
    return wtq_normal(answer) if number is None else number


KEYS: dict[str, Callable[[str], Hashable]] = {"squad": squad_normal, "exact": str.strip, "wtq": _wtq_key}
"""Mode -> the form in which two answers must be equal."""

MODES = (*KEYS, "rog", "typed")
"""`squad` (default), `exact` and `wtq` compare sets of normalized answers. `rog` is the metric of reasoning-on-graphs.
`typed`, ours, compares entities, numbers and dates by value (`typed_answers`)."""


def answer_scores(
    predicted: Sequence[str],
    gold: Sequence[str],
    mode: str = "squad",
    type: str | None = None,
    aliases: Sequence[Sequence[str]] = (),
) -> AnswerScores:
    """Return F1, precision, recall, exact match and hit@1 of one predicted answer list.

    `squad`, `exact`, `wtq`: set measures over normalized answers; a repeated answer counts once. Hit@1 is 1 if the
    first predicted answer is a gold one. `rog`: a gold answer is found if its normal form is a substring of the joined
    predictions; precision = found / number of predictions. One long prediction with several gold answers therefore has
    a precision, and an F1, above 1, as upstream. `typed`: predictions are matched one to one to gold answers and their
    aliases; an answer that is repeated, under any name, counts once. An empty prediction scores 0; without gold answers
    nothing is scored (NaN).

    Source: arXiv 2507.17178, section 4.1 (macro-F1); reasoning-on-graphs' `eval_f1` (arXiv 2310.01061) for `rog`.

    >>> answer_scores(["The Beatles", "Oasis"], ["beatles"])  # one of two right, all found: F1 = 2 * 0.5 * 1 / 1.5
    AnswerScores(answer_f1=0.6666666666666666, precision=0.5, recall=1.0, exact_match=0.0, hit_at_1=1.0)
    >>> answer_scores(["beatles and oasis"], ["Beatles", "Oasis"], mode="rog").precision  # 2 found / 1 predicted
    2.0
    >>> answer_scores(["1955-11-30", "n/a"], ["November 30, 1955"], mode="typed").precision
    0.5

    Args:
        predicted: the predicted answers.
        gold: the gold answers.
        mode: one of `MODES`.
        type: `entity`, `number` or `date`, for `typed` only; if None, the type of the first gold answer by its form
            (four digits: a year or a number).
        aliases: the other names of each gold answer, for `typed` only; empty if there are none.

    Raises:
        UsageError: an unknown mode or type.
    """
    if mode not in MODES:
        raise unknown_name("mode", mode, MODES)
    if not gold:
        return AnswerScores(*[np.nan] * 5)
    if not predicted:
        return AnswerScores(0.0, 0.0, 0.0, 0.0, 0.0)
    if mode == "rog":
        return _rog_scores(predicted, gold)
    if mode == "typed":
        return _typed_scores(predicted, gold, type or answer_types(gold[0]), aliases)
    key = KEYS[mode]
    answers, wanted = {key(answer) for answer in predicted}, {key(answer) for answer in gold}
    return _set_scores(len(answers & wanted), len(answers), len(wanted), key(predicted[0]) in wanted)


def _set_scores(n_found: int, n_predicted: int, n_gold: int, hit: bool) -> AnswerScores:
    exact = n_found == n_predicted == n_gold
    f1 = 2 * n_found / (n_predicted + n_gold)
    return AnswerScores(f1, n_found / n_predicted, n_found / n_gold, float(exact), float(hit))


def _rog_scores(predicted: Sequence[str], gold: Sequence[str]) -> AnswerScores:
    joined, first = squad_normal(" ".join(predicted)), squad_normal(predicted[0])
    found = sum(squad_normal(answer) in joined for answer in gold)
    precision, recall = found / len(predicted), found / len(gold)
    f1 = 2 * precision * recall / (precision + recall) if found else 0.0
    hit = any(squad_normal(answer) in first for answer in gold)
    return AnswerScores(f1, precision, recall, float(precision == recall == 1.0), float(hit))


def _typed_scores(
    predicted: Sequence[str], gold: Sequence[str], type: str | Sequence[str], aliases: Sequence[Sequence[str]]
) -> AnswerScores:
    numbers = match_answers(predicted, gold, type, aliases)
    n_found = len(set(numbers) - {-1})
    n_wrong = len({entity_key(answer) for answer, number in zip(predicted, numbers, strict=True) if number < 0})
    return _set_scores(n_found, n_found + n_wrong, len(gold), numbers[0] >= 0)


def score_answers(
    predictions: Sequence[Sequence[str] | None],
    golds: Sequence[Sequence[str]],
    mode: str = "squad",
    types: Sequence[str | None] | None = None,
    aliases: Sequence[Sequence[Sequence[str]]] | None = None,
) -> dict[str, NDArray[np.float64]]:
    """Return one value per example for each measure of `AnswerScores`, and `parse_failure_rate`.

    None is a response without a parsed answer: it scores 0, is a parse failure, and stays in the denominator. `types`
    and `aliases` are for the mode `typed`: per example, those of `answer_scores`.

    >>> score_answers([["x"], None], [["x"], ["y"]])["answer_f1"].tolist()
    [1.0, 0.0]
    """
    each = zip(predictions, golds, types or [None] * len(golds), aliases or [()] * len(golds), strict=True)
    scores = [answer_scores(answers or (), gold, mode, type, names) for answers, gold, type, names in each]
    columns = np.array(scores, dtype=np.float64).reshape(-1, len(AnswerScores._fields)).T
    values = dict(zip(AnswerScores._fields, columns, strict=True))
    values["parse_failure_rate"] = np.array([answers is None for answers in predictions], dtype=np.float64)
    return values


def score_rejections(
    verdicts: Sequence[str | None],
    answerable: Sequence[bool],
) -> dict[str, NDArray[np.float64]]:
    """Return per example whether an unanswerable question was rejected, and whether the verdict was right.

    `rejection_rate`: 1 if the question is unanswerable and the verdict is "no", NaN if it is answerable.
    `acceptance_rate`: the same of answerable questions and "yes". `balanced_accuracy`: 1 if the verdict is right;
    aggregate it with `balanced_accuracy`. None, an unparsed verdict, is neither "yes" nor "no" and always wrong.

    Source: arXiv 2507.17178, table 5 (count of "no" / n). Always saying "no" has a rejection rate of 1 there; the
    balanced accuracy, ours, is then 1/2.

    >>> values = score_rejections(["no", "no", "yes", None], [False, True, True, False])
    >>> values["rejection_rate"].tolist(), values["balanced_accuracy"].tolist()
    ([1.0, nan, nan, 0.0], [1.0, 0.0, 1.0, 0.0])
    """
    can = np.array(answerable, dtype=bool)
    said_no = np.array([verdict == "no" for verdict in verdicts], dtype=np.float64)
    said_yes = np.array([verdict == "yes" for verdict in verdicts], dtype=np.float64)
    return {
        "rejection_rate": np.where(can, np.nan, said_no),
        "acceptance_rate": np.where(can, said_yes, np.nan),
        "balanced_accuracy": np.where(can, said_yes, said_no),
        "parse_failure_rate": np.array([verdict is None for verdict in verdicts], dtype=np.float64),
    }


def balanced_accuracy(right: NDArray[np.float64], groups: Sequence[str]) -> Estimate:
    """Return the mean of the accuracies on answerable and unanswerable questions.

    Not scored without questions of both kinds: a constant verdict would be right.

    Args:
        right: 1 if the verdict on a question is right, else 0.
        groups: the kind of each question, from `question_kinds`.

    >>> balanced_accuracy(np.array([1.0, 1.0, 0.0]), question_kinds([False, False, True])).value
    0.5
    >>> balanced_accuracy(np.array([1.0, 1.0]), question_kinds([False, False])).n_unscored
    2
    """
    return estimate(right if len(set(groups)) == 2 else np.full(len(right), np.nan), groups)


def question_kinds(answerable: Sequence[bool]) -> list[str]:
    """Return the kind of each question: answerable or unanswerable.

    >>> question_kinds([True, False])
    ['answerable', 'unanswerable']
    """
    return ["answerable" if can else "unanswerable" for can in answerable]
