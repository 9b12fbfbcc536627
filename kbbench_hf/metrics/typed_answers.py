"""Equality of answers by type: entities, numbers and dates (SKA-Bench, mode `typed`).

Text measures merge different answers (`10.0` and `100` without punctuation) and separate equal ones (`November 30,
1955` and `1955-11-30`). Here answers are parsed by their type. An answer that does not parse as its type is compared as
an entity, so that every gold answer equals itself.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.errors import unknown_name
from kbbench_hf.text.dates import parse_date
from kbbench_hf.text.folding import fold_typography
from kbbench_hf.text.name_variants import entity_key, strip_qualifier
from kbbench_hf.text.quantities import parse_number, spell_magnitudes

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
    if parse_answer_dates(answer) and (not answer.isdigit() or 1000 <= int(answer) < 2100):
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
