"""Predicted triples with a name that only the demonstrations of their prompt contain: the model copied it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from math import isfinite
from typing import Any

from kbbench_hf.benchmarks.answers import TRIPLES, Answer
from kbbench_hf.benchmarks.base import Prompt, PromptOptions
from kbbench_hf.benchmarks.warnings import ScoreWarning, Severity
from kbbench_hf.metrics.triples import name_key
from kbbench_hf.scoring.eval_task import EvalTask

_WORD = re.compile(r"[^\W_]+")
COPIED = "copied_triples"
"""The code of the warning."""
FEW_COPIED = 0.02
"""Up to this share of copied triples a note is enough: they move no score by much more than it."""


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
    n, n_copied = (sum(len(each or ()) for each in some) for some in (answers, changed))
    n_copied = n - n_copied
    if not n_copied:
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
    """Return what the headline metric and the hallucination metrics gain without the copied triples, also in words."""
    bench, mode = task.benchmark, task.task_key.mode
    before, after = (
        bench.scoring.summarise(bench.scoring.score(task.examples, some, mode), mode) for some in (answers, changed)
    )
    headline = bench.headline_metrics(before)
    shown = [metric for metric in headline if metric == bench.headline or "hallucination" in metric]
    gains = {metric: after[metric].value - before[metric].value for metric in shown}
    effect = {metric: gain for metric, gain in gains.items() if isfinite(gain) and abs(gain) >= 0.00005}
    values = ", ".join(
        f"{bench.metrics[metric]} {after[metric].value:.4f} ({gain:+.4f})" for metric, gain in effect.items()
    )
    return effect, f" Without them: {values}." if values else ""
