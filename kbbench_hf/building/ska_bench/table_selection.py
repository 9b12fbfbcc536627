"""Which questions on tables are taken: as many as keep every quota, so that no surface gives answers away."""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.ska_bench.mentions import mentions
from kbbench_hf.benchmarks.ska_bench.table_programs import alternatives, normal
from kbbench_hf.benchmarks.ska_bench.token_counts import tokenizer
from kbbench_hf.benchmarks.ska_bench.units import SEED, Cells, write_row
from kbbench_hf.building.ska_bench import tatqa
from kbbench_hf.building.ska_bench.table_questions import TableQuestion, Tables

STANDARD = 4 * 1024
"""The standard budget, in tokens."""
PER_TABLE = 4
"""The most questions on one table."""
MOST_ALIKE = 12
"""The most questions with one answer, so that a constant guess earns next to nothing."""
LENGTH_CUE = 0.585
"""How well the length of a row may tell positives from noise over the subset: the area under the ROC curve."""
_LONGEST, _USUAL = 160, 25
"""Lengths of rows in tokens: all from the first up count as one; rows longer than the second are long."""


class Candidate:
    """A question with the rows that it can be asked on, and what decides whether it is taken.

    Attributes:
        real: all rows but the positive ones that leave the answer as it is: of its own table, then of others.
        found_by_words: whether a search for the question's words finds just the positive rows.
    """

    def __init__(self, question: TableQuestion, source: Tables, real: list[Cells], found_by_words: bool) -> None:
        self.question, self.source, self.real, self.found_by_words = question, source, real, found_by_words
        rows = source.tables[question.table].rows
        self.positives = [rows[n] for n in question.positive]
        self.kind = str(question.program["type"])
        self.key = hashlib.sha256(f"{SEED}|table|{question.id}".encode()).hexdigest()
        length = tokens(self.positives) + 2 * tokens(real)
        self.fill = min(1.0, length / STANDARD)
        """How much of the standard budget its rows can fill, when at most half of the noise is made."""

    @cached_property
    def lengths(self) -> NDArray[np.float64]:
        """How many positive rows (first row) and noise rows of its standard context have each length."""
        found = np.array([_histogram(self.positives), _histogram(self.real)])
        mean = max(1.0, float(found[1] @ np.arange(_LONGEST)) / max(1.0, found[1].sum()))
        found[1] *= self.fill * STANDARD / mean / max(1.0, found[1].sum())
        return found

    @cached_property
    def first_option(self) -> int:
        """1 if its answer is the first of two options that it offers, -1 if the second; 0 if it offers none."""
        if self.kind != "compare":
            return 0
        asked, answer = normal(self.question.question), normal(self.question.answers[0])
        options = sorted(alternatives(self.question.program), key=lambda where: asked.find(str(where[0][-1])))
        return 1 if mentions(answer, str(options[0][0][-1])) else -1


class Quota(NamedTuple):
    """The largest share of the subset that may be as `counts` says; a fraction counts as that part of a question."""

    counts: Callable[[Candidate], float]
    share: float


QUOTAS = {
    "one row": Quota(lambda each: len(each.positives) == 1, 0.13),
    "lookup by one condition": Quota(
        lambda each: each.kind == "lookup" and len(each.question.program["where"]) == 1, 0.145
    ),
    "two rows compared": Quota(lambda each: each.kind in ("compare", "diff"), 0.395),
    "more than four rows": Quota(lambda each: len(each.positives) > 4, 0.27),
    "found by words": Quota(lambda each: each.found_by_words, 0.28),
    "budget left empty": Quota(lambda each: 1 - each.fill, 0.085),
    "TAT-QA": Quota(lambda each: each.source.source == tatqa.SOURCE, 0.3),
    "first option": Quota(lambda each: each.first_option, 0.01),
    "second option": Quota(lambda each: -each.first_option, 0.01),
}


def select(found: Iterable[Candidate]) -> list[Candidate]:
    """Return as many candidates as keep every quota and the length cue, in the order of their ids.

    One after another goes that breaks most, until nothing is broken: a quota weighs by how many must go for it, and
    while lengths tell, so do long positive rows and short noise.
    """
    kept = _capped(found)
    lengths = np.sum([each.lengths for each in kept], axis=0) if kept else np.zeros((2, _LONGEST))
    while kept:
        over = [(q, sum(map(q.counts, kept)) - q.share * len(kept)) for q in QUOTAS.values()]
        broken = [(quota, min(1.0, excess)) for quota, excess in over if excess > 0]
        tells = length_cue(lengths) > LENGTH_CUE
        if not broken and not tells:
            break
        beyond = (np.arange(_LONGEST) - _USUAL).clip(-_USUAL, _USUAL)
        weights = 8 * np.array([beyond, -beyond]) / lengths.sum(axis=1, keepdims=True)

        def harm(
            each: Candidate,
            broken: Sequence[tuple[Quota, float]] = broken,
            weights: NDArray[np.float64] = weights * tells,
        ) -> tuple[float, str]:
            quotas = sum(quota.counts(each) * weight for quota, weight in broken)
            return float(quotas + (each.lengths * weights).sum()), each.key

        out = max(kept, key=harm)
        kept.remove(out)
        lengths -= out.lengths
    return sorted(kept, key=lambda each: each.question.id)


def length_cue(lengths: NDArray[np.float64]) -> float:
    """Return the chance that a positive row is longer than a noise row, of their numbers by length.

    >>> length_cue(np.array([[0.0, 0.0, 1.0], [1.0, 1.0, 2.0]]))  # longer than 2 of 4, as long as the other 2
    0.75
    """
    positive, noise = lengths
    return float((positive * (np.cumsum(noise) - noise / 2)).sum() / max(1e-9, positive.sum() * noise.sum()))


def found_by_words(question: str, positives: Sequence[Cells], noise: Iterable[Cells]) -> bool:
    """Say whether the rows whose named cells weigh most, a rare one more than a frequent one, are the positive ones.

    That is what a reader finds who only searches for the question's words: no knowledge of the table is tested. The
    weight of a row is the sum of its cells' or the largest of them; one of the two is enough.

    >>> found_by_words("how old is ann?", [("Ann", "12")], [("Bo", "11"), ("Cy", "10")])
    True
    >>> found_by_words("how many are over 10?", [("Ann", "12"), ("Bo", "11")], [("Cy", "10")])
    False
    """
    asked = normal(question)
    rows = [*dict.fromkeys(positives), *dict.fromkeys(row for row in noise if row not in positives)]
    named = [{cell for cell in map(normal, row) if len(cell) > 1 and mentions(asked, cell)} for row in rows]
    frequency = Counter(cell for cells in named for cell in cells)
    weights = {cell: math.log((1 + len(rows)) / n) for cell, n in frequency.items()}
    for weigh in (sum, max):
        scores = [weigh([weights[cell] for cell in cells] or [0.0]) for cells in named]
        best = {n for n, score in enumerate(scores) if score >= max(scores) - 1e-9}
        if max(scores) > 0 and best == set(range(len(positives))):
            return True
    return False


def tokens(rows: Iterable[Cells]) -> int:
    """Return how many tokens rows have, each with the end of its line."""
    return sum(map(_row_tokens, rows))


def _capped(found: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates without those too many on one table, of one wording, or with one answer."""
    tables: Counter[str] = Counter()
    answers: Counter[Cells] = Counter()
    wordings: set[tuple[str, str]] = set()
    kept = []
    for each in sorted(found, key=lambda each: (each.found_by_words, -round(each.fill, 1), each.key)):
        question = each.question
        wording = (question.table, normal(question.question))
        if tables[question.table] < PER_TABLE and answers[question.answers] < MOST_ALIKE and wording not in wordings:
            wordings.add(wording)
            tables[question.table] += 1
            answers[question.answers] += 1
            kept.append(each)
    return kept


def _histogram(rows: Sequence[Cells]) -> NDArray[np.float64]:
    lengths = [min(_LONGEST - 1, _row_tokens(row)) for row in rows]
    return np.bincount(np.array(lengths, dtype=np.int64), minlength=_LONGEST).astype(np.float64)


@lru_cache(maxsize=1 << 18)
def _row_tokens(row: Cells) -> int:
    return tokenizer().count(f"{write_row(row)}\n")
