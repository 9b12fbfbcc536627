"""The shortcut audit: what can be had from a built dataset without understanding, each figure with its limit.

It reads the built dataset alone. What a limit is for, and how large it is, comes from what earlier data gave away: a
grep found the rows of 83 % of table questions, and overlap with the question told answerable twins from others in 91 %.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import isnan, nan

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.audits import ClosedBook, Finding
from kbbench_hf.benchmarks.ska_bench.configs import STANDARD
from kbbench_hf.benchmarks.ska_bench.mentions import mentions
from kbbench_hf.benchmarks.ska_bench.token_counts import tokenizer
from kbbench_hf.benchmarks.ska_bench.units import SUBSETS, Instance, Pool
from kbbench_hf.building.ska_bench.audit import rejection
from kbbench_hf.building.ska_bench.audit.seen import Seen, Unit, normal
from kbbench_hf.building.ska_bench.testbeds import sample
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.datasets import DatasetFolder
from kbbench_hf.metrics.answers import answer_scores

SAMPLE = 120
"""How many instances of a subset are looked at."""
SHOWN = ("ok", "short")


def audit(folder: DatasetFolder, closed_book: ClosedBook | None = None, size: int = SAMPLE) -> list[Finding]:
    """Return every figure of every subset of a built dataset.

    Args:
        folder: the built dataset.
        closed_book: instance id -> the answers of a model that saw the questions alone.
        size: how many instances of a subset to look at.

    Raises:
        UsageError: the dataset has no subset whole: instances, pool and standard config.
        DataError: the model's answers are about no instance of the dataset.
    """
    configs, findings, known = folder.configs(), list[Finding](), set[str]()
    count = lru_cache(maxsize=None)(lambda line: tokenizer().count(f"{line}\n"))  # contexts share most lines
    for subset in SUBSETS:
        standard = f"noise_{subset}_{STANDARD[subset]}"
        if not {f"instances_{subset}", f"pool_{subset}", standard} <= configs.keys():
            continue
        instances = {row["id"]: Instance.from_row(row) for row in folder.rows(f"instances_{subset}", "test")}
        pool = Pool.from_rows(folder.rows(f"pool_{subset}", "full"))
        chosen = {each.id for each in sample(instances.values(), size)}
        known |= instances.keys()
        shown = {
            config: seen(folder, config, "test", {each: instances[each] for each in chosen}, pool, count)
            for config in (standard, f"noise_{subset}_12k", f"rejection_control_{subset}")
            if config in configs
        }
        findings += _of_subset(subset, shown)
        if closed_book is not None:
            findings.append(_closed_book(subset, instances, closed_book))
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


def seen(
    folder: DatasetFolder,
    config: str,
    split: str,
    instances: Mapping[str, Instance],
    pool: Pool,
    count: Callable[[str], int],
) -> list[Seen]:
    """Return the contexts of a config that some instances have, in the order of the config."""
    rows = folder.rows(config, split)
    return [
        Seen.of(row, instances[row["instance_id"]], pool, count)
        for row in rows
        if row["instance_id"] in instances and row["status"] in SHOWN
    ]


def _of_subset(subset: str, shown: Mapping[str, Sequence[Seen]]) -> list[Finding]:
    standard = shown[f"noise_{subset}_{STANDARD[subset]}"]
    findings = []
    for name, (title, limit, guess) in GUESSES.items():
        values = np.array([guess(each) for each in standard])
        value = float(np.nanmean(values)) if np.isfinite(values).any() else nan
        findings.append(Finding(subset, name, title, value, limit, len(values)))
    constant = best_constant(standard)
    findings.append(Finding(subset, "best_constant", "the best constant answer: F1", constant, 0.10, len(standard)))
    guessed, n = option_guess(standard)
    findings.append(Finding(subset, "option_guess", "always the first, or the last, of two options", guessed, 0.60, n))
    findings += _places(subset, shown)
    findings += _lengths(subset, standard)
    return findings + _rejection(subset, shown.get(f"rejection_control_{subset}", ()))


def _places(subset: str, shown: Mapping[str, Sequence[Seen]]) -> list[Finding]:
    """Return how often all positives stand at the beginning, and how far their places are from even ones."""
    standard = shown[f"noise_{subset}_{STANDARD[subset]}"]
    first = [_tokens_to_last_positive(each) <= 1 << 10 for each in standard]
    title = "all positives in the first 1k tokens of the standard config"
    findings = [Finding(subset, "in_first_1k", title, float(np.mean(first)), 0.15, len(first))]
    if long := shown.get(f"noise_{subset}_12k"):
        first = [_tokens_to_last_positive(each) <= 4 << 10 for each in long]
        title = "all positives in the first 4k tokens at 12k"
        findings.append(Finding(subset, "in_first_4k", title, float(np.mean(first)), 0.40, len(first)))
    places = np.sort(np.concatenate([_places_in_sections(each) for each in standard]))
    even = np.arange(len(places)) / max(1, len(places))
    distance = float(np.maximum(places - even, even + 1 / max(1, len(places)) - places).max()) if len(places) else nan
    title = "places of positives: Kolmogorov-Smirnov distance from even"
    return [*findings, Finding(subset, "places", title, distance, 0.10, len(places))]


def _tokens_to_last_positive(each: Seen) -> int:
    last = max((n for n, unit in enumerate(each.units) if unit.is_positive), default=-1)
    return sum(unit.tokens for unit in each.units[: last + 1])


def _places_in_sections(each: Seen) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the place of every positive in its section, from 0 to 1, the middle of its line."""
    places = [
        (n + 0.5) / len(section)
        for section in (each.structured, each.units[len(each.structured) :])
        for n, unit in enumerate(section)
        if unit.is_positive
    ]
    return np.array(places)


def _lengths(subset: str, standard: Sequence[Seen]) -> list[Finding]:
    findings = []
    for section, in_text in (("sk", False), ("text", True)):
        units = [unit for each in standard for unit in each.units if unit.in_text == in_text]
        tokens = np.array([unit.tokens for unit in units], dtype=np.int64)
        positive = np.array([unit.is_positive for unit in units], dtype=bool)
        if positive.any():
            what = "passages" if in_text else "rows or triples"
            title = f"length tells positive {what} from noise: area under the ROC curve"
            value = separation(tokens[positive], tokens[~positive])
            findings.append(Finding(subset, f"length_{section}", title, value, 0.60, int(positive.sum())))
            areas = [area for each in standard if not isnan(area := _area_within(each, in_text=in_text))]
            within, title = (float(np.mean(areas)) if areas else nan), f"the same within each context: {what}"
            findings.append(
                Finding(subset, f"length_{section}_within", title, max(within, 1 - within), 0.60, len(areas))
            )
    return findings


def _area_within(each: Seen, *, in_text: bool) -> float:
    """Return the chance that a positive of a section is longer than a noise unit of it, ties counting half."""
    units = [unit for unit in each.units if unit.in_text == in_text]
    positive, noise = (np.array([unit.tokens for unit in units if unit.is_positive == yes]) for yes in (True, False))
    return (
        float(((positive[:, None] > noise) + (positive[:, None] == noise) / 2).mean())
        if len(positive) and len(noise)
        else nan
    )


def _rejection(subset: str, twins: Sequence[Seen]) -> list[Finding]:
    """Return how well overlap tells which of two twins can be answered; questions with one twin are left out."""
    pairs = Counter(each.instance.id for each in twins)
    twins = [each for each in twins if pairs[each.instance.id] == 2]
    if len(twins) < 4 * rejection.FOLDS:
        return []
    y = np.array([each.answerable for each in twins])
    fold = rejection.folds([each.instance.id for each in twins])
    x = np.array([rejection.features(each) for each in twins], dtype=np.float64)
    asked = np.array([rejection.question_features(each) for each in twins], dtype=np.float64)
    title = "rejection told by {}: balanced accuracy"
    return [
        Finding(subset, f"rejection_{name}", title.format(words), value, limit, len(twins))
        for name, words, value, limit in (
            ("single", "the best single feature", rejection.best_single(x, y, fold), 0.60),
            ("all", "eight features of overlap", rejection.logistic(x, y, fold), 0.65),
            ("question", "the question alone", rejection.logistic(asked, y, fold), 0.55),
        )
    ]


def _closed_book(subset: str, instances: Mapping[str, Instance], answers: ClosedBook) -> Finding:
    asked = [Seen(instance, (), []) for instance in instances.values() if instance.id in answers]
    values = [f1(each, answers[each.instance.id]) for each in asked]
    title = "a model that sees the question alone: F1"
    return Finding(subset, "closed_book", title, float(np.mean(values)) if values else nan, 0.25, len(values))


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


def separation(positives: NDArray[np.int64], noise: NDArray[np.int64]) -> float:
    """Return the area under the ROC curve of the best classifier that sees a unit's length alone, at least 0.5.

    It is the chance that a positive is longer (or, if that is rarer, shorter) than a noise unit, ties counting half.
    NaN where one side is empty.

    >>> separation(np.array([5, 5]), np.array([5, 3]))  # of 4 pairs 2 longer, 2 ties: (2 + 1) / 4
    0.75
    """
    if not len(positives) or not len(noise):
        return float("nan")
    ordered = np.sort(noise)
    below, up_to = (np.searchsorted(ordered, positives, side=side).sum() for side in ("left", "right"))
    area = float(below + up_to) / 2 / (len(positives) * len(noise))
    return max(area, 1 - area)
