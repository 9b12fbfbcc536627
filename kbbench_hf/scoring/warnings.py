"""Warnings on the scores of a result: incomplete predictions, other data, predictions that are gold, copied triples.

`score` adds them to results, and boards show them. Codes are stored in results and used by programs; messages name the
metric and the effect on it.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from itertools import permutations
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks import TaskKey
from kbbench_hf.benchmarks.answers import TRIPLES, Answer, AnswerKind, ShapeError
from kbbench_hf.benchmarks.base import Benchmark, Example, Examples, Prompt, PromptOptions, Scores
from kbbench_hf.benchmarks.warnings import (
    PlainWarning,
    ScoreWarning,
    Severity,
    equals_gold_warning,
    unread_warning,
    unscored_warning,
)
from kbbench_hf.metrics.aggregate import SMALL_N, Estimate
from kbbench_hf.metrics.triples import name_key
from kbbench_hf.scoring.eval_task import EvalTask
from kbbench_hf.scoring.result import Predictions

LEAST_REORDERED = 5
"""Fewer triples may match the gold in another order by chance."""
_TRIPLE = (0, 1, 2)


def gold_answers(example: Example, kind: AnswerKind) -> list[Answer]:
    """Return the gold answers of an example in the form that is scored, one per column; empty ones are left out.

    The columns are `kind.gold`, and those whose names begin with it (`triples_repaired`).
    """
    name = kind.gold or kind.field
    columns = [column for column in example if column == name or column.startswith(f"{name}_")]
    results = []
    for value in (example[column] for column in columns if isinstance(example[column], list) and example[column]):
        with suppress(ShapeError):
            results.append(kind.read({kind.field: value}))
    return results


def gold_warnings(benchmark: Benchmark, examples: Examples, predictions: Predictions) -> list[ScoreWarning]:
    """Return the warnings from a comparison of the answers with the gold: equal ones, a gold column, order of parts.

    Answers that equal the gold are a warning if their file says that they may be the gold, else a note: the gold may
    be scored on purpose, to see its scores.
    """
    kind, answers, column = benchmark.scoring.answer, predictions.answers, predictions.gold_column
    golds = [gold_answers(row, kind) for row in examples.rows]
    remedy = "See which column was read, and name the one with the predictions: --map."
    warnings = equals_gold_warning(
        answers, golds, kind, remedy, "warning" if column or predictions.with_texts else "note"
    )
    if column and not warnings:
        message = f"The answers were read from {column!r}, which is a name of a gold column."
        remedy = "Name the column with the predictions: --map."
        warnings = [ScoreWarning("gold_column", message, remedy)]
    return [*warnings, *(_order_warning(answers, golds) if kind.parts else ())]


def _order_warning(answers: Sequence[Answer | None], golds: Sequence[Sequence[Answer]]) -> list[ScoreWarning]:
    """Return a warning if the triples match the gold only in another order of their parts; else nothing."""
    right: Counter[tuple[int, ...]] = Counter()
    n = 0
    for answer, of_example in zip(answers, golds, strict=True):
        gold = {tuple(map(_folded, triple)) for each in of_example for triple in each}
        for parts in ([*map(_folded, triple)] for triple in answer or () if len(triple) == len(_TRIPLE)):
            n += 1
            right.update(order for order in permutations(_TRIPLE) if tuple(parts[k] for k in order) in gold)
    moved = [order for order in right if order != _TRIPLE and (order[1] != 1 or 2 * right[order] > n)]
    best = max(moved, key=lambda order: right[order], default=_TRIPLE)
    if right[best] < max(LEAST_REORDERED, n / 4) or right[best] <= 3 * right[_TRIPLE]:
        return []
    names = ("subject", "relation", "object")
    found = ", ".join(names[best.index(place)] for place in _TRIPLE)
    message = (
        f"The triples seem to be written as {found}: read so, {right[best]:,} of {n:,} equal the gold, and as "
        f"{', '.join(names)} {right[_TRIPLE]:,}."
    )
    return [ScoreWarning("part_order", message, "Write each triple as [subject, relation, object].", n)]


def _folded(part: object) -> str:
    """Return a part of a triple without differences of case, blanks and underscores."""
    return " ".join(str(part).replace("_", " ").casefold().split())


def completeness_warnings(
    task: EvalTask, predictions: Predictions, scores: Scores, figures: Mapping[str, Estimate]
) -> list[ScoreWarning]:
    """Return the warnings on missing, failed, unparsable and repeated predictions, few examples, unscored metrics."""
    benchmark, failed = task.benchmark, {*predictions.parse_failures}
    missing = np.array([answer is None for answer in predictions.answers])
    unparsed = np.array([example_id in failed for example_id in task.examples.ids])
    n, warnings = len(missing), []
    if missing.any():
        effect, gain = _headline_gain(task, scores, figures, missing)
        errors, remedy = "", "Complete the file, or resume the run."
        if predictions.n_errors:
            errors = f" ({predictions.n_errors:,} failed with an error)"
            remedy = "Resume the run: it sends again what failed, unless it was refused or too long."
        message = f"{int(missing.sum()):,} of {n:,} examples have no prediction{errors} and count as wrong.{gain}"
        warnings.append(ScoreWarning("missing", message, remedy, int(missing.sum()), effect))
    if unparsed.any():
        effect, gain = _headline_gain(task, scores, figures, unparsed)
        remedy = "Read some of them, and choose another parser with --parser."
        if 2 * unparsed.sum() > n:
            again = "run the model again with another --prompt or, where it was off, with --structured."
            remedy = f"Read some of them; choose another --parser, or {again}"
        (warning,) = unread_warning(int(unparsed.sum()), n, remedy, gain)
        warnings.append(replace(warning, effect=effect))
    if doubled := predictions.n_duplicates:
        message = f"{doubled:,} duplicates: lines that repeat an id. The last line of each id counts."
        warnings.append(ScoreWarning("duplicates", message, "Write one line per id.", doubled))
    headline = next((estimate for estimate in figures.values() if estimate.n_scored), None)
    warnings += small_warning(headline.n_scored) if headline else []
    annotated = benchmark.scoring.annotations.metrics if benchmark.scoring.annotations else ()
    labels = {metric: label for metric, label in benchmark.metrics.items() if metric in annotated}
    remedy = "Make them with kbbench annotate, or run with --annotate."
    return [*warnings, *unscored_warning(labels, figures, remedy, severity="note")]


def small_warning(n: int, of: str = "") -> list[ScoreWarning]:
    """Return a note if few examples, or clusters of them, were scored; `of` is added to the number."""
    message = f"n = {n:,}{of} < {SMALL_N}: the interval is unreliable and only large differences are detectable."
    return [ScoreWarning("small_n", message, "Score more examples.", severity="note")] if n < SMALL_N else []


def limit_warning(n_examples: int, n_available: int) -> list[ScoreWarning]:
    """Return a warning if only the first examples of a split were scored."""
    if n_examples >= n_available:
        return []
    message = f"Partial run: {n_examples:,} of {n_available:,} examples. Do not report it as the score of the split."
    remedy = "Run without --limit; what a subset can show: kbbench power."
    return [ScoreWarning("limit", message, remedy, n_available - n_examples)]


def revision_warning(made_on: str, scored_on: str) -> list[ScoreWarning]:
    """Return a warning if predictions were made on another revision of the data; an empty one is unknown."""
    if made_on in ("", scored_on):
        return []
    message = f"The predictions were made on data revision {made_on[:8]} and are scored on revision {scored_on[:8]}."
    return [ScoreWarning("revision", message, "Run the model again on the data that is installed.")]


def place_warning(run_on: TaskKey, scored_on: TaskKey) -> list[ScoreWarning]:
    """Return a warning if predictions were made on another benchmark, config or split."""
    if run_on[:3] == scored_on[:3]:
        return []
    message = f"The predictions were made on {'/'.join(run_on[:3])} and are scored on {'/'.join(scored_on[:3])}."
    return [ScoreWarning("place", message, "Score them with the config and split they were made on.")]


def stored_warnings(plain: Sequence[PlainWarning]) -> list[ScoreWarning]:
    """Return the warnings of a run from the key `warnings` of its `run.json`."""
    return [ScoreWarning.of(each) for each in plain]


def _headline_gain(
    task: EvalTask, scores: Scores, figures: Mapping[str, Estimate], left_out: NDArray[np.bool_]
) -> tuple[dict[str, float], str]:
    """Return metric -> gain of the headline metric without some examples, and a sentence; empty if none remain."""
    headline = task.benchmark.headline
    if left_out.all() or headline not in figures:
        return {}, ""
    value = figures[headline].value
    gain = task.benchmark.scoring.summarise(scores.of(~left_out), task.task_key.mode)[headline].value - value
    if not isfinite(gain):
        return {}, ""
    return {headline: gain}, f" {task.benchmark.metrics[headline]} without them: {value + gain:.4f} ({gain:+.4f})."


_WORD = re.compile(r"[^\W_]+")
COPIED = "copied_triples"
"""The code of the warning on triples copied from demonstrations."""
FEW_COPIED = 0.02
"""Up to this share of copied triples it is a note: scores change by little more than it."""


def copied_triple_warnings(
    task: EvalTask, answers: Sequence[Answer | None], run: Mapping[str, Any]
) -> list[ScoreWarning]:
    """Return a warning with the number of copied triples, their share, and the scores without them.

    A triple is copied where its subject or object is in the prompt, but not in the same prompt without demonstrations:
    neither in its input nor in its instructions, in any form that `find_mention` knows. A repeated triple counts as
    often as it is predicted.

    Args:
        task: the examples, as they were prompted.
        answers: the answer to each example, None where it is missing.
        run: the settings of the run, as `run.json` has them; without a prompt of the benchmark there is no warning.
    """
    scoring, write = task.benchmark.scoring, task.benchmark.asking.prompts.get(run.get("prompt", ""))
    if scoring.answer.field != TRIPLES.field or write is None:
        return []
    known = {field.name for field in fields(PromptOptions)}
    chosen = {name: value for name, value in run.get("prompt_options", {}).items() if name in known}
    options = replace(PromptOptions(mode=task.task_key.mode), **chosen)
    changed: list[Answer | None] = []
    for example, answer in zip(task.examples.rows, answers, strict=True):
        if answer:
            whole = write(example, task.examples, options)
            bare = write(example, task.examples, replace(options, demonstrations="none"))
            answer = _without_copied(answer, whole, bare)
        changed.append(answer)
    n, n_left = (sum(len(each or ()) for each in some) for some in (answers, changed))
    if not (n_copied := n - n_left):
        return []
    n_examples = sum(len(old or ()) != len(new or ()) for old, new in zip(answers, changed, strict=True))
    effect, without = _effect(task, answers, changed)
    message = (
        f"{n_copied:,} of {n:,} predicted triples ({n_copied / n:.1%}) have a subject or object that is in the "
        f"demonstrations of their prompt and nowhere else in it: the model copied them.{without}"
    )
    none = "--demonstrations none" if run.get("structured") else "--demonstrations none --structured"
    without_any = f"{none}, " if task.benchmark.asking.with_similar_ids else ""
    remedy = f"Run again with {without_any}another --prompt or a larger model."
    severity: Severity = "note" if n_copied <= FEW_COPIED * n else "warning"
    return [ScoreWarning(COPIED, message, remedy, n_examples, effect, severity=severity)]


def _without_copied(triples: Answer, whole: Prompt, bare: Prompt) -> Answer:
    """Return triples without those that have a name which `whole` contains and `bare`, its prompt, does not."""
    if whole.messages == bare.messages:
        return triples
    from kbbench_hf.metrics.mention_forms import find_mention

    shown, rest = (" ".join(str(each["content"]) for each in prompt.messages) for prompt in (whole, bare))
    words, key, question = _words(shown), name_key(rest), str(bare.messages[-1]["content"])

    def is_copied(name: str) -> bool:
        there = bool(name_key(name)) and _words(name) in words and name_key(name) not in key
        return there and not find_mention(question, name).found

    return [triple for triple in triples if not (is_copied(triple[0]) or is_copied(triple[2]))]


def _words(text: str) -> str:
    """Return the words of a text in lower case with a blank before and after each: a name is not found in a word."""
    return f" {' '.join(_WORD.findall(text.lower()))} "


def _effect(
    task: EvalTask, answers: Sequence[Answer | None], changed: Sequence[Answer | None]
) -> tuple[dict[str, float], str]:
    """Return metric -> gain of the headline and hallucination metrics without the copied triples, and a sentence.

    Gains that round to 0.0000 are left out.
    """
    bench, mode = task.benchmark, task.task_key.mode
    before, after = (
        bench.scoring.summarise(bench.scoring.score(task.examples, some, mode), mode) for some in (answers, changed)
    )
    headline = bench.headline_metrics(before)
    shown = [metric for metric in headline if metric == bench.headline or "hallucination" in metric]
    gains = {metric: after[metric].value - before[metric].value for metric in shown}
    effect = {metric: gain for metric, gain in gains.items() if isfinite(gain) and abs(gain) >= 0.00005}
    texts = (f"{bench.metrics[name]} {after[name].value:.4f} ({gain:+.4f})" for name, gain in effect.items())
    values = ", ".join(texts)
    return effect, f" Without them: {values}." if values else ""
