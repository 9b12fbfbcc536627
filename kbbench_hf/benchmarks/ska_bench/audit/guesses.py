"""Ways of answering without understanding, and what they reach: a figure per question, NaN where none can be tried."""

from collections import Counter
from collections.abc import Callable, Sequence
from math import nan

import numpy as np

from kbbench_hf.benchmarks.ska_bench.audit.seen import Seen, Unit, normal
from kbbench_hf.benchmarks.ska_bench.mentions import mentions
from kbbench_hf.metrics.answers import answer_scores


def f1(seen: Seen, answers: Sequence[str]) -> float:
    """Return the F1 of some answers, compared as ska-open compares them."""
    gold = seen.instance
    return answer_scores(answers, gold.answers, "typed", gold.answer_type, gold.answer_aliases).answer_f1


def _grepped(seen: Seen) -> list[Unit]:
    """Return the rows or triples whose quoted cells are the rarest in sum; none where the question quotes none."""
    scores = [seen.quoted_idf(unit) for unit in seen.structured]
    best = max(scores, default=0.0)
    return [unit for unit, score in zip(seen.structured, scores, strict=True) if best and score > best - 1e-9]


def grep_units(seen: Seen) -> float:
    """Return whether the rows or triples whose quoted cells are the rarest are the positive ones, exactly."""
    wanted = [unit for unit in seen.structured if unit.is_positive]
    return float(bool(wanted) and [id(unit) for unit in _grepped(seen)] == [id(unit) for unit in wanted])


def grep_answer(seen: Seen) -> float:
    """Return what those rows or triples answer; their number where the question asks how many."""
    found = _grepped(seen)
    if seen.header and "how many" in seen.question:
        return f1(seen, [str(len(found))])
    return f1(seen, list(dict.fromkeys(map(seen.answer_of, found))))


def best_overlap(seen: Seen) -> float:
    """Return what the unit answers that shares the most words with the question, the first of them."""
    return f1(seen, [seen.answer_of(max(seen.units, key=seen.overlap))]) if seen.units else nan


def first_unit(seen: Seen) -> float:
    """Return what the first row or triple answers."""
    return f1(seen, [seen.answer_of(seen.structured[0])]) if seen.structured else nan


def last_unit(seen: Seen) -> float:
    """Return what the last row or triple answers."""
    return f1(seen, [seen.answer_of(seen.structured[-1])]) if seen.structured else nan


def frequent_cell(seen: Seen) -> float:
    """Return what the most frequent cell answers that the question does not quote; relations are no cells here."""
    cells = Counter(
        cell
        for unit in seen.structured
        for n, cell in enumerate(unit.cells)
        if cell and (seen.header or n != 1) and normal(cell) not in seen.quoted
    )
    return f1(seen, [cells.most_common(1)[0][0]]) if cells else nan


def gold_in_question(seen: Seen) -> float:
    """Return whether the question holds a gold answer though it offers none to choose from."""
    if " or " in seen.question:
        return 0.0
    return float(any(mentions(seen.question, normal(answer)) for answer in seen.instance.answers if answer))


def best_constant(sample: Sequence[Seen]) -> float:
    """Return what the one answer reaches that is right most often."""
    often = Counter(answer for seen in sample for answer in set(seen.instance.answers)).most_common(20)
    return max((float(np.mean([f1(seen, [answer]) for seen in sample])) for answer, _ in often), default=nan)


def option_guess(sample: Sequence[Seen]) -> tuple[float, int]:
    """Return what always taking the first, or always the last, of two options reaches, and on how many questions."""
    offered = [(seen, options) for seen in sample if len(options := [cell for _, cell in seen.options()]) == 2]
    offered = [(seen, options) for seen, options in offered if any(f1(seen, [option]) for option in options)]
    if not offered:
        return nan, 0
    return max(float(np.mean([f1(seen, [options[n]]) for seen, options in offered])) for n in (0, 1)), len(offered)


GUESSES: dict[str, tuple[str, float, Callable[[Seen], float]]] = {
    "grep_units": ("the rows or triples with the rarest quoted cells are the positives", 0.35, grep_units),
    "grep_answer": ("what those answer: F1", 0.30, grep_answer),
    "best_overlap": ("what the unit answers that shares most words with the question: F1", 0.30, best_overlap),
    "first_unit": ("what the first row or triple answers: F1", 0.10, first_unit),
    "last_unit": ("what the last row or triple answers: F1", 0.10, last_unit),
    "frequent_cell": ("the most frequent cell: F1", 0.10, frequent_cell),
    "gold_in_question": ("the question holds a gold answer and offers no choice", 0.05, gold_in_question),
}
"""Name -> title, limit, what it reaches on one question."""
