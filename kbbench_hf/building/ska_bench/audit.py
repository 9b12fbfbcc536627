"""Shortcut audit of a built ska-open, each score with its limit, and the items that reviewers judge.

`kbbench audit` and `kbbench review` call it, and `dataset.write_audit` after a build. The audit reads the built dataset
alone. The limits come from shortcuts of earlier data: a grep found the rows of 83 % of table questions, and overlap
with the question separated answerable twins from unanswerable ones in 91 %.

Cards waive scores by subset and name (`kg.grep_units`), so that names stay; findings can be added. What is scored, how
texts are compared, and the sample are parts of the published scores on the cards.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import chain
from math import fsum, isnan, log, nan

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import kstest, mannwhitneyu

from kbbench_hf.benchmarks.audits import ClosedBook, Finding
from kbbench_hf.benchmarks.reviews import ReviewItem
from kbbench_hf.benchmarks.ska_bench.testbeds import STANDARD
from kbbench_hf.benchmarks.ska_bench.token_counts import tokenizer
from kbbench_hf.benchmarks.ska_bench.units import (
    SUBSETS,
    UNKNOWN,
    Cells,
    Instance,
    UnitPool,
    write_passage,
    write_row,
    write_triple,
)
from kbbench_hf.building.ska_bench.name_matching import mentions
from kbbench_hf.building.ska_bench.noise import contradicts_needed_row, key_columns
from kbbench_hf.building.ska_bench.testbeds import sample
from kbbench_hf.building.ska_bench.unit_orders import seeded_hash
from kbbench_hf.errors import DataError, UsageError, unknown_name
from kbbench_hf.files.datasets import DatasetFolder
from kbbench_hf.metrics.answers import answer_scores, wtq_normal
from kbbench_hf.text.words import WORD

FOLDS = 5
Matrix = NDArray[np.float64]
_STOP = frozenset(
    "a an and are as at be been by did do does for from had has have he her his how in is it its of on or s she than "
    "that the their there they this to was were what when where which who whom whose why will with".split()
)


@lru_cache(maxsize=1 << 20)
def look_up_form(text: str) -> str:
    """Return a cell or question in normal form (`wtq_normal`), `_` as a blank: the form of all comparisons below."""
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
    """A row, a triple, or (title, text)."""
    in_text: bool
    is_positive: bool
    tokens: int
    """Of its line, with the line break."""

    @cached_property
    def words(self) -> frozenset[str]:
        """Its words."""
        return split_words(" ".join(self.cells))


@dataclass(frozen=True)
class AuditContext:
    """A question on one context, with what an audit knows besides: gold and positives."""

    instance: Instance
    header: Cells
    """The names of a table's columns; empty for a graph."""
    units: list[ContextUnit]
    """In the order of the context: rows or triples, then passages."""
    answerable: bool = True

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
        return fsum(self.quoted[cell] for cell in self.quotes(unit))  # the same in whatever order the set has

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
        return fsum(self.word_idf[word] for word in unit.words & self.question_words)

    def answer_of(self, unit: ContextUnit) -> str:
        """Return what a unit alone would answer: a row's cell under the likeliest header, a triple's unquoted end.

        A passage answers its title. Of a row that is the cell, not quoted in the question, whose header shares most
        words with it, the first of equal ones; its first cell where all are quoted or empty. Of a triple with both ends
        quoted, or neither, it is the tail.
        """
        if unit.in_text:
            return unit.cells[0]
        if not self.header:
            head, tail = unit.cells[0], unit.cells[2]
            return head if look_up_form(tail) in self.quoted and look_up_form(head) not in self.quoted else tail
        columns = [n for n, cell in enumerate(unit.cells) if cell and look_up_form(cell) not in self.quoted]
        best = max(columns, key=lambda n: len(split_words(self.header[n]) & self.question_words), default=0)
        return unit.cells[best]

    def options(self) -> list[str]:
        """Return the quoted cells on both sides of the first " or ", in normal form; none where it offers no choice."""
        middle = self.question.find(" or ")
        places = [(self.question.find(cell), cell) for cell in self.quoted]
        # the longest of those that begin at one place: "new york city" and not "new york"
        before = max((e for e in places if e[0] < middle), key=lambda e: (e[0] + len(e[1]), -e[0]), default=None)
        after = min((e for e in places if e[0] > middle), key=lambda e: (e[0], -len(e[1])), default=None)
        return [before[1], after[1]] if before and after else []


def overlap_features(context: AuditContext) -> list[float]:
    """Return eight features of the overlap of a question and its context, in this order.

    Share of the question's words that occur; most of them in one unit, and by idf; length of the longest quoted cell,
    number of quoted cells, most of them in one row or triple; number of units, and of their tokens.
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
    """Return eleven features of a question alone: characters, words, digits, and which of eight words begins it."""
    question, starts = context.question, ("what", "which", "who", "when", "where", "how many", "how", "is")
    counted = [len(question), len(context.question_words), sum(map(str.isdigit, question))]
    return [*counted, *(float(question.startswith(word)) for word in starts)]


def make_folds(instance_ids: Sequence[str]) -> NDArray[np.int64]:
    """Return the fold of each row, from 0 to `FOLDS` - 1; an instance's rows share one."""
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
        thresholds = [_threshold(column[fold != n], y[fold != n]) for n in range(FOLDS)]
        limits, signs = (np.array(values)[fold] for values in zip(*thresholds, strict=True))
        found.append(_balanced(signs * column > limits, y))
    return max(found)


def regression_accuracy(x: Matrix, y: NDArray[np.bool_], fold: NDArray[np.int64]) -> float:
    """Return the balanced accuracy, across folds, of a logistic regression on all features (L2 of 1, standardized)."""
    x = (x - x.mean(axis=0)) / np.where(x.std(axis=0) > 0, x.std(axis=0), 1)
    x, signs, predicted = np.column_stack([x, np.ones(len(x))]), np.where(y, 1.0, -1.0), np.zeros(len(y), dtype=bool)
    for n in range(FOLDS):
        predicted[fold == n] = x[fold == n] @ _fit(x[fold != n], signs[fold != n]) > 0
    return _balanced(predicted, y)


def _fit(x: Matrix, signs: Matrix) -> Matrix:
    """Return the weights of a logistic regression, the last one of the constant column, which is not penalized."""

    def loss(weights: Matrix) -> tuple[float, Matrix]:
        """Return the loss and its gradient."""
        margins, penalized = signs * (x @ weights), np.append(weights[:-1], 0)
        slopes = -signs / (1 + np.exp(np.clip(margins, -500, 500)))
        return float(np.logaddexp(0, -margins).sum() + (penalized**2).sum() / 2), x.T @ slopes + penalized

    weights: Matrix = minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B").x
    return weights


def _threshold(column: Matrix, y: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the threshold and direction (1 or -1) with the best balanced accuracy.

    Where all values are equal the threshold is infinite, and nothing is predicted positive.
    """
    best = (0.5, float("inf"), 1.0)
    for sign in (1.0, -1.0):
        values = np.unique(sign * column)
        for threshold in (values[:-1] + values[1:]) / 2:
            best = max(best, (_balanced(sign * column > threshold, y), float(threshold), sign))
    return best[1], best[2]


def _balanced(predicted: NDArray[np.bool_], y: NDArray[np.bool_]) -> float:
    """Return the balanced accuracy: the mean of both classes' recalls; NaN where one is absent."""
    return float((predicted[y].mean() + (~predicted[~y]).mean()) / 2)


SAMPLE = 120
"""How many instances of a subset are audited."""
SHOWN = ("ok", "short")
"""The statuses of rows whose context shows units; `over_budget` shows nothing."""
NOISE_SHOWN = 5
"""How many noise units a reviewer is shown."""


def audit(folder: DatasetFolder, closed_book: ClosedBook | None = None, size: int = SAMPLE) -> list[Finding]:
    """Return the scores of a built dataset, in the order of `SUBSETS`; subsets that are not whole are skipped.

    A score that cannot be tried is NaN. The rejection twins of a subset are scored from 20 contexts on.

    Args:
        folder: the built dataset.
        closed_book: instance id -> the answers of a model that saw the questions alone.
        size: how many instances of a subset to audit.

    Raises:
        UsageError: the dataset has no subset whole: instances, pool and standard config.
        DataError: the model's answers are about no instance of the dataset.
    """
    findings, known = list[Finding](), set[str]()
    for subset in filter(partial(_is_whole, folder), SUBSETS):
        instances = {row["id"]: Instance.from_row(row) for row in folder.rows(f"instances_{subset}", "test")}
        known |= instances.keys()
        findings += _audit_subset(folder, subset, {i.id: i for i in sample(instances.values(), size)})
        if closed_book is not None:
            unseen = [AuditContext(each, (), []) for each in instances.values() if each.id in closed_book]
            value = _mean(f1(each, closed_book[each.instance.id]) for each in unseen)
            title = "a model that sees the question alone: F1"
            findings.append(Finding(subset, "closed_book", title, value, 0.25, len(unseen)))
    if not findings:
        raise UsageError(
            f"{folder.path} holds no subset with its instances, pool and standard config. Build it whole, without "
            "--configs."
        )
    if closed_book is not None and not closed_book.keys() & known:
        raise DataError(
            f"None of the {len(closed_book):,} closed-book answers is about an instance of {folder.path}; the first is "
            f"{next(iter(closed_book), '')!r}. Expected the ids of instances_*."
        )
    return findings


def _standard(subset: str) -> str:
    return f"noise_{subset}_{STANDARD[subset]}"


def _is_whole(folder: DatasetFolder, subset: str) -> bool:
    return {f"instances_{subset}", f"pool_{subset}", _standard(subset)} <= folder.configs().keys()


def _audit_subset(folder: DatasetFolder, subset: str, instances: Mapping[str, Instance]) -> Iterator[Finding]:
    pool = UnitPool.from_rows(folder.rows(f"pool_{subset}", "full"))
    configs = (_standard(subset), f"noise_{subset}_12k", f"rejection_control_{subset}")
    contexts, long, twins = (read_contexts(folder, each, instances, pool) for each in configs)
    yield from _guesses(subset, contexts)
    yield from _places(subset, contexts, long)
    yield from _lengths(subset, contexts)
    yield from _rejection(subset, twins)
    if subset == "table":
        title = "contexts with a made row that keeps a needed row's key with another value"
        share = _mean(_is_contradicted(each, pool) for each in contexts)
        yield Finding(subset, "contradictions", title, share, 0.0, len(contexts))


@lru_cache(maxsize=1 << 20)  # contexts share most lines
def _count_tokens(line: str) -> int:
    return tokenizer().count(f"{line}\n")


def read_contexts(
    folder: DatasetFolder, config: str, instances: Mapping[str, Instance], pool: UnitPool
) -> list[AuditContext]:
    """Return the test contexts of these instances in a config, in its order; none where the dataset lacks the config.

    Contexts that show nothing (`over_budget`) are left out.
    """
    contexts = []
    for row in folder.rows(config, "test") if config in folder.configs() else ():
        if (instance := instances.get(row["instance_id"])) and row["status"] in SHOWN:
            cells, write = pool.structured(instance), write_row if instance.is_table else write_triple
            sections = (
                (False, cells, write, row["sk_units"], set(instance.positive_sk)),
                (True, pool.text, write_passage, row["text_units"], set(instance.positive_text)),
            )
            units = [
                ContextUnit(some[n], in_text, n in positive, _count_tokens(writer(some[n])))
                for in_text, some, writer, numbers, positive in sections
                for n in numbers
            ]
            header = pool.headers[instance.group] if instance.is_table else ()
            contexts.append(AuditContext(instance, header, units, bool(row["answerable"])))
    return contexts


def _mean(values: Iterable[float]) -> float:
    """Return the mean of the values that are not NaN; NaN where there are none."""
    known = [value for value in values if not isnan(value)]
    return float(np.mean(known)) if known else nan


def _guesses(subset: str, contexts: Sequence[AuditContext]) -> list[Finding]:
    n, (option, n_options) = len(contexts), option_guess(contexts)
    return [
        *(Finding(subset, k, title, _mean(map(f, contexts)), most, n) for k, (title, most, f) in GUESSES.items()),
        Finding(subset, "best_constant", "the best constant answer: F1", best_constant(contexts), 0.10, n),
        Finding(subset, "option_guess", "always the first, or the last, of two options", option, 0.60, n_options),
    ]


def _places(subset: str, contexts: Sequence[AuditContext], long: Sequence[AuditContext]) -> Iterator[Finding]:
    """Yield how often all positives are at the beginning, and how far their places are from uniform."""
    title = "all positives in the first 1k tokens of the standard config"
    share = _mean(_tokens_to_last_positive(each) <= 1 << 10 for each in contexts)
    yield Finding(subset, "in_first_1k", title, share, 0.15, len(contexts))
    if long:
        title = "all positives in the first 4k tokens at 12k"
        share = _mean(_tokens_to_last_positive(each) <= 4 << 10 for each in long)
        yield Finding(subset, "in_first_4k", title, share, 0.40, len(long))
    places = [place for each in contexts for place in _places_in_sections(each)]
    title = "places of positives: Kolmogorov-Smirnov distance from even"
    yield Finding(subset, "places", title, distance_from_uniform(places), 0.10, len(places))


def distance_from_uniform(values: Sequence[float]) -> float:
    """Return the Kolmogorov-Smirnov distance of values in [0, 1] from the uniform distribution; NaN for none.

    >>> distance_from_uniform([0.25, 0.75])
    0.25
    """
    return float(kstest(values, "uniform", method="asymp").statistic) if values else nan


def _tokens_to_last_positive(each: AuditContext) -> int:
    """Return the tokens up to the end of the last positive unit; 0 where the context shows none."""
    last = max((n for n, unit in enumerate(each.units) if unit.is_positive), default=-1)
    return sum(unit.tokens for unit in each.units[: last + 1])


def _places_in_sections(each: AuditContext) -> list[float]:
    """Return the place of every positive in its section, from 0 to 1, the middle of its line."""
    return [
        (n + 0.5) / len(section)
        for section in (each.structured, each.units[len(each.structured) :])
        for n, unit in enumerate(section)
        if unit.is_positive
    ]


def _lengths(subset: str, contexts: Sequence[AuditContext]) -> list[Finding]:
    findings = []
    for section, in_text, what in (("sk", False, "rows or triples"), ("text", True, "passages")):
        of_each = [[unit for unit in each.units if unit.in_text == in_text] for each in contexts]
        if n := sum(unit.is_positive for unit in chain(*of_each)):
            area, areas = _length_area(chain(*of_each)), [*map(_length_area, of_each)]
            within, n_within = _mean(areas), len(areas) - sum(map(isnan, areas))
            name, title = f"length_{section}", f"length tells positive {what} from noise: area under the ROC curve"
            findings.append(Finding(subset, name, title, max(area, 1 - area), 0.60, n))
            title = f"the same within each context: {what}"
            findings.append(Finding(subset, f"{name}_within", title, max(within, 1 - within), 0.60, n_within))
    return findings


def _length_area(units: Iterable[ContextUnit]) -> float:
    """Return the chance that a positive is longer than a noise unit, ties counting half; NaN where one is absent."""
    tokens = sorted((unit.is_positive, unit.tokens) for unit in units)
    noise, positive = ([n for is_positive, n in tokens if is_positive == side] for side in (False, True))
    if not noise or not positive:
        return nan
    return float(mannwhitneyu(positive, noise, method="asymptotic").statistic) / (len(positive) * len(noise))


def _rejection(subset: str, twins: Sequence[AuditContext]) -> list[Finding]:
    """Return how well overlap tells which of two twins can be answered; questions with one twin are left out."""
    pairs = Counter(each.instance.id for each in twins)
    twins = [each for each in twins if pairs[each.instance.id] == 2]
    if len(twins) < 4 * FOLDS:
        return []
    y: NDArray[np.bool_] = np.array([each.answerable for each in twins])
    fold = make_folds([each.instance.id for each in twins])
    x = np.array([overlap_features(each) for each in twins], dtype=np.float64)
    questions = np.array([question_features(each) for each in twins], dtype=np.float64)
    title = "rejection told by {}: balanced accuracy"
    return [
        Finding(subset, f"rejection_{name}", title.format(words), value, limit, len(twins))
        for name, words, value, limit in (
            ("single", "the best single feature", best_single(x, y, fold), 0.60),
            ("all", "eight features of overlap", regression_accuracy(x, y, fold), 0.65),
            ("question", "the question alone", regression_accuracy(questions, y, fold), 0.55),
        )
    ]


def _is_contradicted(context: AuditContext, pool: UnitPool) -> bool:
    """Return whether a made row of a table context contradicts one of the needed rows."""
    instance = context.instance
    real_groups = (each for each in instance.noise_groups if not pool.origins.get(each, UNKNOWN).made)
    real = {row for each in (instance.group, *real_groups) for row in pool.sk.get(each, ())}
    keys = key_columns(pool.sk[instance.group])
    made = [unit.cells for unit in context.structured if unit.cells not in real]
    needed = [unit.cells for unit in context.structured if unit.is_positive]
    return any(contradicts_needed_row(row, other, keys) for row in made for other in needed)


def f1(context: AuditContext, answers: Sequence[str]) -> float:
    """Return the F1 of some answers, compared as ska-open compares them."""
    gold = context.instance
    return answer_scores(answers, gold.answers, "typed", gold.answer_type, gold.answer_aliases).answer_f1


def _rarest_quoted(context: AuditContext) -> list[ContextUnit]:
    """Return the rows or triples whose quoted cells are the rarest in sum; none where the question quotes none."""
    scores = [context.quoted_idf(unit) for unit in context.structured]
    best = max(scores, default=0.0)
    return [unit for unit, score in zip(context.structured, scores, strict=True) if best and score > best - 1e-9]


def grep_units(context: AuditContext) -> float:
    """Return 1 if the rows or triples whose quoted cells are the rarest are exactly the positive ones, 0 otherwise."""
    wanted = [unit for unit in context.structured if unit.is_positive]
    # by identity: a context may show two rows with equal cells, one of them positive
    return float(bool(wanted) and [id(unit) for unit in _rarest_quoted(context)] == [id(unit) for unit in wanted])


def grep_answer(context: AuditContext) -> float:
    """Return the F1 of what those rows or triples answer; of their number where a question on a table asks how many."""
    found = _rarest_quoted(context)
    if context.header and "how many" in context.question:
        return f1(context, [str(len(found))])
    return f1(context, list(dict.fromkeys(map(context.answer_of, found))))


def best_overlap(context: AuditContext) -> float:
    """Return the F1 of what the unit answers that shares the most words with the question, the first of equal ones.

    NaN where the context shows nothing.
    """
    return f1(context, [context.answer_of(max(context.units, key=context.overlap))]) if context.units else nan


def unit_answer(context: AuditContext, place: int) -> float:
    """Return the F1 of what the row or triple at a place answers; NaN where the context shows none."""
    return f1(context, [context.answer_of(context.structured[place])]) if context.structured else nan


first_unit, last_unit = partial(unit_answer, place=0), partial(unit_answer, place=-1)


def frequent_cell(context: AuditContext) -> float:
    """Return the F1 of the most frequent cell that the question does not quote, the first of equal ones; NaN for none.

    Relations are no cells here.
    """
    cells = Counter(
        cell
        for unit in context.structured
        for n, cell in enumerate(unit.cells)
        if cell and (context.header or n != 1) and look_up_form(cell) not in context.quoted
    )
    return f1(context, [cells.most_common(1)[0][0]]) if cells else nan


def gold_in_question(context: AuditContext) -> float:
    """Return 1 if the question holds a gold answer though it offers no choice, 0 otherwise."""
    if " or " in context.question:
        return 0.0
    answers = (look_up_form(answer) for answer in context.instance.answers if answer)
    return float(any(mentions(context.question, answer) for answer in answers))


def best_constant(contexts: Sequence[AuditContext]) -> float:
    """Return the best F1 of one answer to all questions, of the 20 most frequent gold answers; NaN for no questions."""
    often = Counter(answer for each in contexts for answer in set(each.instance.answers)).most_common(20)
    return max((_mean(f1(each, [answer]) for each in contexts) for answer, _ in often), default=nan)


def option_guess(contexts: Sequence[AuditContext]) -> tuple[float, int]:
    """Return the F1 of always taking the first, or always the last, of two options, and on how many questions.

    It is NaN where no question offers two options of which one is right.
    """
    scores = [[f1(each, [option]) for option in each.options()] for each in contexts]
    scores = [both for both in scores if any(both)]  # where neither option is right, "or" offers something else
    return max(_mean(both[n] for both in scores) for n in (0, 1)), len(scores)


GUESSES: dict[str, tuple[str, float, Callable[[AuditContext], float]]] = {
    "grep_units": ("the rows or triples with the rarest quoted cells are the positives", 0.35, grep_units),
    "grep_answer": ("what those answer: F1", 0.30, grep_answer),
    "best_overlap": ("what the unit answers that shares most words with the question: F1", 0.30, best_overlap),
    "first_unit": ("what the first row or triple answers: F1", 0.10, first_unit),
    "last_unit": ("what the last row or triple answers: F1", 0.10, last_unit),
    "frequent_cell": ("the most frequent cell: F1", 0.10, frequent_cell),
    "gold_in_question": ("the question holds a gold answer and offers no choice", 0.05, gold_in_question),
}
"""Name -> title, limit, and its score on one context: NaN where it cannot be tried."""


def review_items(folder: DatasetFolder, subset: str, size: int) -> list[ReviewItem]:
    """Return what reviewers are shown of a subset: all instances that wait for review, then a fixed sample of others.

    An item is a question, its gold, its positive units, and the `NOISE_SHOWN` units of noise that are most like them.
    Instances of which the dataset has no context are left out.

    Raises:
        UsageError: an unknown subset, or one that the dataset has not whole.
    """
    if subset not in SUBSETS:
        raise unknown_name("subset", subset, SUBSETS)
    configs, standard = folder.configs(), _standard(subset)
    if not _is_whole(folder, subset):
        raise UsageError(f"{folder.path} has no {subset} with instances, pool and {standard}. Build it whole.")
    pool = UnitPool.from_rows(folder.rows(f"pool_{subset}", "full"))
    items: list[ReviewItem] = []
    for config, split in ((f"unreviewed_{subset}", "unreviewed"), (standard, "test")):
        if config in configs and split in configs[f"instances_{subset}"]:
            instances = [Instance.from_row(row) for row in folder.rows(f"instances_{subset}", split)]
            chosen = {each.id: each for each in (instances if split != "test" else sample(instances, size))}
            by_id = {each.instance.id: each for each in read_contexts(folder, config, chosen, pool)}
            items += [_review_item(by_id[name]) for name in chosen if name in by_id]
    return items


def _review_item(context: AuditContext) -> ReviewItem:
    instance = context.instance
    needed = {word for unit in context.units if unit.is_positive for word in unit.words}

    def likeness(unit: ContextUnit) -> tuple[float, int]:
        return context.overlap_idf(unit) + context.quoted_idf(unit), len(unit.words & needed)

    noise = sorted((unit for unit in context.units if not unit.is_positive), key=likeness, reverse=True)
    aliases = instance.answer_aliases or ((),) * len(instance.answers)
    about = {"table": instance.title, "source": instance.source, "method": instance.method}
    return ReviewItem(
        instance.id,
        instance.question,
        [(answer, *names) for answer, names in zip(instance.answers, aliases, strict=True)],
        [unit.cells for unit in context.units if unit.is_positive],
        [unit.cells for unit in noise[:NOISE_SHOWN]],
        context.header,
        {name: value for name, value in about.items() if value},
    )
