"""F1, exact match and hit@1 of answer lists, and rejection of unanswerable questions (SKA-Bench, WikiTableQuestions).

SKA-Bench reports macro-F1 "between the predicted answer list and the gold answer list" (arXiv 2507.17178, section 4.1)
without defining equal answers, and without released code. Therefore there are modes.

Text measures merge different answers (`10.0` and `100` without punctuation) and separate equal ones (`November 30,
1955` and `1955-11-30`). In mode `typed` answers are parsed by their type. An answer that does not parse as its type is
compared as an entity, so that every gold answer equals itself. The benchmark, the modules `answer_f1` and
`rejection_rate`, and the construction of SKA-Bench in `building` use it: what is equal also decides the built data.
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
from kbbench_hf.text.dates import parse_date
from kbbench_hf.text.folding import fold_typography, strip_accents
from kbbench_hf.text.name_variants import entity_key, strip_qualifier
from kbbench_hf.text.quantities import parse_number, spell_magnitudes

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
    """The scores of one example, fractions; NaN without gold. In mode `rog` F1 and precision can exceed 1."""

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
`typed`, ours, compares entities, numbers and dates by value (`is_same_answer`)."""


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
    """Return the scores of a set of predictions, of which some are found in a set of gold answers."""
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


def score_rejections(verdicts: Sequence[str | None], answerable: Sequence[bool]) -> dict[str, NDArray[np.float64]]:
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


_SPAN = re.compile(r"(\d{4})\s*[-/]\s*(\d{4}|\d{2})(?: season)?")
_MONTH_AND_YEAR = re.compile(r"^(\d{1,2})/(\d{4})$")
_JOINED = re.compile(r"(?<=\d)-(?=[a-z])|(?<=[a-z])-(?=\d)")
_METRES = re.compile(r"\d\s?m\b")
_ERA = re.compile(r"(?:ad )?(\d{1,4})(?: (bce?|ad|ce))?")


def is_same_answer(prediction: str, gold: str, *, type: str = "entity", aliases: Sequence[str] = ()) -> bool:
    """Return whether a prediction is the gold answer or one of its aliases.

    *entity*: case, accents, kinds of quotes and dashes, apostrophes, punctuation and blanks are ignored, but `+` and
    `#` in a word are not, and `&` is "and". Initials are joined. A leading article and a trailing ` (...)` may be
    omitted, the latter only if not both have one. A part of a name is not the name.

    *number*: sign, decimal point and magnitude matter. Thousands separators, and a unit or currency that only one of
    them has, are ignored. A percent sign may be omitted, but not added. Two numbers are no answer.

    *date*: a day, month, year or season, equally precise. A date in digits must have the year first (ISO) or only one
    possible order of day and month.

    >>> is_same_answer("j. r. r. tolkien", "J.R.R. Tolkien"), is_same_answer("Paris, Texas", "Paris")
    (True, False)
    >>> [is_same_answer(answer, "1,200,000", type="number") for answer in ("$1.2 million", "120000.0")]
    [True, False]
    >>> [is_same_answer(answer, "November 30, 1955", type="date") for answer in ("1955-11-30", "November 1955")]
    [True, False]
    >>> is_same_answer("NYC", "New York City", aliases=["NYC"]), is_same_answer("", "The The")
    (True, False)

    Raises:
        UsageError: an unknown type.
    """
    if type not in TYPES:
        raise unknown_name("answer type", type, TYPES)
    names = [gold, *aliases]
    if type == "number" and not any(_METRES.search(each) for each in names):
        prediction, *names = map(spell_magnitudes, (prediction, *names))
    return any(_same(prediction, each, type) for each in names)


def answer_type(answer: str) -> str:
    """Return the type of an answer by its form: a date, season or year in four digits, a number, else an entity.

    >>> [answer_type(each) for each in ("1994-95", "1955", "12,467", "-3.5%", "3 goals", "3 Ninjas", "Halo 3", "147")]
    ['date', 'date', 'number', 'number', 'number', 'entity', 'entity', 'number']
    """
    if parse_answer_dates(answer) and (not answer.isdecimal() or 1000 <= int(answer) < 2100):
        return "date"
    is_name = re.search(r"\w\s+\W*[A-Z]", answer)  # "7 Days in Havana"
    return "number" if parse_number(strip_qualifier(answer)) and not is_name else "entity"


def answer_types(answer: str) -> tuple[str, ...]:
    """Return the types that an answer without a given type may have: four digits are a year or a number.

    >>> answer_types("1500"), answer_types("2500"), answer_types("May 1500")
    (('date', 'number'), ('number',), ('date',))
    """
    type = answer_type(answer)
    return (type, "number") if type == "date" and answer.strip().isdigit() else (type,)


def match_answers(
    predicted: Sequence[str], gold: Sequence[str], type: str | Sequence[str], aliases: Sequence[Sequence[str]]
) -> list[int]:
    """Return for each prediction the index of the gold answer that it equals; -1 if there is none.

    The matching is a largest one: each prediction stands for one gold answer at most. A second prediction of a gold
    answer, under any name, has the index of that answer too.

    Args:
        predicted: the predicted answers.
        gold: the gold answers.
        type: the type of all answers; of several types, equality in one is enough.
        aliases: the other names of each gold answer; empty if there are none.

    >>> match_answers(["NYC", "Mercury", "new york", "Oslo"], ["Mercury (planet)", "New York"], "entity", [[], ["NYC"]])
    [1, 0, 1, -1]
    """
    others, types = aliases or [()] * len(gold), (type,) if isinstance(type, str) else type
    fits = np.array(
        [
            [any(is_same_answer(answer, each, type=type, aliases=names) for type in types) for answer in predicted]
            for each, names in zip(gold, others, strict=True)
        ]
    )
    found = _matching(fits)
    numbers: list[int] = np.where(found >= 0, found, np.where(fits.any(axis=0), fits.argmax(axis=0), -1)).tolist()
    return numbers


def _matching(fits: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return for each column the index of its row in a largest matching; -1 if it has none."""
    if fits.ndim == 2 and fits.size and fits.sum(axis=0).max() <= 1 and fits.sum(axis=1).max() <= 1:
        return np.where(fits.any(axis=0), fits.argmax(axis=0), -1)  # unique; the import below takes 0.3 s
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    return np.asarray(maximum_bipartite_matching(csr_array(fits), perm_type="row"))


def _same(prediction: str, gold: str, type: str) -> bool:
    """Return whether two answers are equal, without parentheses at their ends where not both have some."""
    ours, theirs = strip_qualifier(prediction), strip_qualifier(gold)
    if ours != fold_typography(prediction) and theirs != fold_typography(gold):  # two qualifiers: they must agree
        ours, theirs = fold_typography(prediction), fold_typography(gold)
    return TYPES[type](ours, theirs)


def _same_entity(prediction: str, gold: str) -> bool:
    return bool(prediction) and entity_key(prediction) == entity_key(gold)


def _same_number(prediction: str, gold: str) -> bool:
    ours, theirs = parse_number(prediction), parse_number(gold)
    if theirs is None:
        return _same_entity(prediction, gold)
    if ours is None or ours.value != theirs.value:
        return False
    return ours.unit == theirs.unit or (not theirs.unit and ours.unit != "%") or not ours.unit


def _same_date(prediction: str, gold: str) -> bool:
    theirs = parse_answer_dates(gold)
    return bool(theirs & parse_answer_dates(prediction)) if theirs else _same_entity(prediction, gold)


TYPES: dict[str, Callable[[str, str], bool]] = {"entity": _same_entity, "number": _same_number, "date": _same_date}
"""Answer type -> whether two answers with folded typography are equal."""


@lru_cache(maxsize=1 << 18)
def parse_answer_dates(text: str) -> frozenset[tuple[int, ...]]:
    """Return the dates that an answer may be: one, none, or two as of `2010-11`, a month and a season.

    A date is (year, month, day), with 0 for unknown parts; a season or span of years is (first year, last year). A year
    before Christ is negative. Digits that could be two dates are none.

    >>> parse_answer_dates("Nov. 30, 1955"), parse_answer_dates("10/08/1991"), sorted(parse_answer_dates("2010-11"))
    (frozenset({(1955, 11, 30)}), frozenset(), [(2010, 11, 0), (2010, 2011)])
    >>> sorted(parse_answer_dates("24 July") | parse_answer_dates("44 BC"))
    [(-44, 0, 0), (0, 7, 24)]
    """
    written = _JOINED.sub(" ", fold_typography(text)).rstrip(".").replace("the year ", "")
    written = _MONTH_AND_YEAR.sub(lambda found: f"{found[2]}-{found[1]:0>2}", written)
    found: set[tuple[int, ...]] = set()
    if span := _SPAN.fullmatch(written):
        first, last = int(span[1]), int(span[2])
        last += 0 if last > 99 else first // 100 * 100 + 100 * (last <= first % 100)
        if last == first + 1 or (first < last and int(span[2]) > 12):
            found.add((first, last))
    if (era := _ERA.fullmatch(written)) and (era[2] or era[0].startswith("ad")):
        found.add((-int(era[1]) if (era[2] or "").startswith("b") else int(era[1]), 0, 0))
    if dates := parse_date(written):
        precise = [date for date in dates if date.precision == max(each.precision for each in dates)]
        found |= {tuple(precise[0])} if len(precise) == 1 else set()
    elif not found and (dates := parse_date(f"{written} 2000")) and dates[0].month:  # in a leap year: February 29
        found.add((0, *dates[0][1:]))
    return frozenset(found)
