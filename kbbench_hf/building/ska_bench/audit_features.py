"""Audit features: a question on its context without understanding, in words, cells and frequencies, and classifiers."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import log

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from kbbench_hf.benchmarks.ska_bench.units import (
    Cells,
    ContextRenderer,
    Instance,
    UnitPool,
    write_passage,
    write_row,
    write_triple,
)
from kbbench_hf.building.ska_bench.name_matching import mentions
from kbbench_hf.building.ska_bench.unit_orders import seeded_hash
from kbbench_hf.files.datasets import Row
from kbbench_hf.metrics.answers import wtq_normal
from kbbench_hf.text.words import WORD

FOLDS = 5
Matrix = NDArray[np.float64]
_STOP = frozenset(
    "a an and are as at be been by did do does for from had has have he her his how in is it its of on or s she than "
    "that the their there they this to was were what when where which who whom whose why will with".split()
)


@lru_cache(maxsize=1 << 20)
def look_up_form(text: str) -> str:
    """Return a cell or question in normal form, `_` as a blank."""
    return wtq_normal(text.replace("_", " "))


@lru_cache(maxsize=1 << 18)
def split_words(text: str) -> frozenset[str]:
    """Return the words of a text in normal form, without function words.

    >>> sorted(split_words("What is the name of the Café?"))
    ['cafe', 'name']
    """
    return frozenset(WORD.findall(look_up_form(text))) - _STOP


@dataclass(frozen=True)
class ContextUnit:
    """A unit of a context."""

    cells: Cells
    in_text: bool
    is_positive: bool
    line: str
    tokens: int

    @cached_property
    def words(self) -> frozenset[str]:
        """Its words."""
        return split_words(" ".join(self.cells))


@dataclass(frozen=True)
class AuditContext:
    """A question on one context, with what an audit knows besides: gold and positives."""

    instance: Instance
    header: Cells
    units: list[ContextUnit]
    answerable: bool = True

    @classmethod
    def from_row(cls, row: Row, instance: Instance, pool: UnitPool, count: Callable[[str], int]) -> "AuditContext":
        """Return what a row of a testbed shows; `count` gives the tokens of a line."""
        cells, write = ContextRenderer(instance, pool).units, write_row if instance.is_table else write_triple
        sections = (
            (False, cells, write, row["sk_units"], set(instance.positive_sk)),
            (True, pool.text, write_passage, row["text_units"], set(instance.positive_text)),
        )
        units = [
            ContextUnit(some[n], in_text, n in positive, line := writer(some[n]), count(line))
            for in_text, some, writer, numbers, positive in sections
            for n in numbers
        ]
        return cls(instance, pool.headers[instance.group] if instance.is_table else (), units, bool(row["answerable"]))

    @cached_property
    def question(self) -> str:
        """The question in normal form."""
        return look_up_form(self.instance.question)

    @cached_property
    def question_words(self) -> frozenset[str]:
        """The words of the question."""
        return split_words(self.instance.question)

    @cached_property
    def structured(self) -> list[ContextUnit]:
        """The rows or triples."""
        return [unit for unit in self.units if not unit.in_text]

    @cached_property
    def quoted(self) -> dict[str, float]:
        """Cell in normal form that the question quotes -> its inverse document frequency over rows or triples."""
        counts = Counter(cell for unit in self.structured for cell in set(map(look_up_form, unit.cells)))
        return {
            cell: log(1 + len(self.structured) / n)
            for cell, n in counts.items()
            if cell and cell in self.question and mentions(self.question, cell)
        }

    def quotes(self, unit: ContextUnit) -> set[str]:
        """Return the cells of a row or triple that the question quotes."""
        return {form for cell in unit.cells if (form := look_up_form(cell)) in self.quoted}

    def quoted_idf(self, unit: ContextUnit) -> float:
        """Return the summed idf of the quoted cells of a row or triple."""
        return sum(self.quoted[cell] for cell in self.quotes(unit))

    @cached_property
    def word_idf(self) -> dict[str, float]:
        """Word of question and context -> its inverse document frequency over all units."""
        counts = Counter(word for unit in self.units for word in unit.words & self.question_words)
        return {word: log(1 + len(self.units) / n) for word, n in counts.items()}

    def overlap(self, unit: ContextUnit) -> int:
        """Return how many words of the question a unit has."""
        return len(unit.words & self.question_words)

    def overlap_idf(self, unit: ContextUnit) -> float:
        """Return the summed idf of the words that a unit shares with the question."""
        return sum(self.word_idf[word] for word in unit.words & self.question_words)

    def answer_of(self, unit: ContextUnit) -> str:
        """Return what a unit alone would answer: a row's cell under the likeliest header, a triple's unquoted end.

        A passage answers its title.
        """
        if unit.in_text:
            return unit.cells[0]
        if not self.header:
            head, tail = unit.cells[0], unit.cells[2]
            return head if look_up_form(tail) in self.quoted and look_up_form(head) not in self.quoted else tail
        columns = [n for n, cell in enumerate(unit.cells) if cell and look_up_form(cell) not in self.quoted]
        best = max(columns, key=lambda n: len(split_words(self.header[n]) & self.question_words), default=0)
        return unit.cells[best]

    def options(self) -> Iterator[tuple[int, str]]:
        """Yield the cells that the question offers to choose from, each with its place in the question."""
        middle = self.question.find(" or ")
        if middle < 0:
            return
        places = [(self.question.find(cell), cell) for cell in self.quoted]
        # the longest of those that begin at one place: "new york city" and not "new york"
        before = max((e for e in places if e[0] < middle), key=lambda e: (e[0] + len(e[1]), -e[0]), default=None)
        after = min((e for e in places if e[0] > middle), key=lambda e: (e[0], -len(e[1])), default=None)
        if before and after:
            yield from (before, after)


def overlap_features(context: AuditContext) -> list[float]:
    """Return eight features of the overlap of a question and its context.

    Share of the question's words; most and rarest of them in a unit; longest quoted cell, quoted cells, most of them in
    a unit; units and tokens.
    """
    return [
        len(context.word_idf) / max(1, len(context.question_words)),
        max(map(context.overlap, context.units), default=0),
        max(map(context.overlap_idf, context.units), default=0.0),
        max(map(len, context.quoted), default=0),
        len(context.quoted),
        max((len(context.quotes(unit)) for unit in context.structured), default=0),
        len(context.units),
        sum(unit.tokens for unit in context.units),
    ]


def question_features(context: AuditContext) -> list[float]:
    """Return features of a question without any context."""
    question = context.question
    starts = [question.startswith(word) for word in ("what", "which", "who", "when", "where", "how many", "how", "is")]
    return [len(question), len(context.question_words), sum(map(str.isdigit, question)), *map(float, starts)]


def make_folds(instance_ids: Sequence[str]) -> NDArray[np.int64]:
    """Return the fold of each row; an instance's rows share one."""
    order = sorted(set(instance_ids), key=lambda each: seeded_hash(f"fold|{each}"))
    place = {each: n % FOLDS for n, each in enumerate(order)}
    return np.array([place[each] for each in instance_ids], dtype=np.int64)


def best_single(x: Matrix, y: NDArray[np.bool_], fold: NDArray[np.int64]) -> float:
    """Return the balanced accuracy, across folds, of the best feature under a threshold learned on the other folds.

    >>> x = np.array([[0.0], [1.0]] * 10)
    >>> best_single(x, x[:, 0] > 0, np.arange(20) // 2 % FOLDS)
    1.0
    """
    found = []
    for column in x.T:
        predicted = np.zeros(len(y), dtype=bool)
        for n in range(FOLDS):
            threshold, sign = _threshold(column[fold != n], y[fold != n])
            predicted[fold == n] = sign * column[fold == n] > threshold
        found.append(_balanced(predicted, y))
    return max(found)


def regression_accuracy(x: Matrix, y: NDArray[np.bool_], fold: NDArray[np.int64]) -> float:
    """Return the balanced accuracy, across folds, of a logistic regression on all features (L2 of 1, standardized)."""
    x = (x - x.mean(axis=0)) / np.where(x.std(axis=0) > 0, x.std(axis=0), 1)
    x, signs, predicted = np.column_stack([x, np.ones(len(x))]), np.where(y, 1.0, -1.0), np.zeros(len(y), dtype=bool)
    for n in range(FOLDS):
        predicted[fold == n] = x[fold == n] @ _fit(x[fold != n], signs[fold != n]) > 0
    return _balanced(predicted, y)


def _fit(x: Matrix, signs: Matrix) -> Matrix:
    def loss(weights: Matrix) -> tuple[float, Matrix]:
        margins, penalized = signs * (x @ weights), np.append(weights[:-1], 0)
        slopes = -signs / (1 + np.exp(np.clip(margins, -500, 500)))
        return float(np.logaddexp(0, -margins).sum() + (penalized**2).sum() / 2), x.T @ slopes + penalized

    weights: Matrix = minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B").x
    return weights


def _threshold(column: Matrix, y: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the threshold and direction with the best balanced accuracy; where all values are one, all say no."""
    best = (0.5, float("inf"), 1.0)
    for sign in (1.0, -1.0):
        values = np.unique(sign * column)
        for threshold in (values[:-1] + values[1:]) / 2:
            best = max(best, (_balanced(sign * column > threshold, y), float(threshold), sign))
    return best[1], best[2]


def _balanced(predicted: NDArray[np.bool_], y: NDArray[np.bool_]) -> float:
    return float((predicted[y].mean() + (~predicted[~y]).mean()) / 2)
