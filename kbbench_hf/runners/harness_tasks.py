"""A benchmark as a task of another evaluation harness: the prompts, the parser and the scores of `run`.

`inspect_tasks` and `lm_eval_tasks` use it. The same replies must have the same scores as in `run`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np

from kbbench_hf.benchmarks import name_of_path
from kbbench_hf.benchmarks.answers import Answer
from kbbench_hf.benchmarks.base import Explanation, ParseFunction, PromptOptions, Scores
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.files.datasets import Id, Row
from kbbench_hf.runners.jobs import Sampling
from kbbench_hf.runners.llm_run import PromptedTask, prompt_task
from kbbench_hf.runners.run_options import RunOptions
from kbbench_hf.runners.run_summary import prediction
from kbbench_hf.scoring.eval_task import load_examples
from kbbench_hf.scoring.result import Result
from kbbench_hf.scoring.score import own_predictions, score_predictions, with_repeats

OPTIONS = ("benchmark", "config", "split", "mode", "prompt", "parser", "shots", "demonstrations")
"""What a harness can choose; the defaults are those of `run`."""
COUNTERS = ("n_missing", "n_parse_failures")
"""Counters of a result that harnesses show with the scores."""


@dataclass(frozen=True)
class HarnessTask:
    """The prompts of a benchmark, and the parser and scores of the replies that a harness gets to them."""

    prompted: PromptedTask
    parser: str

    def settings(self) -> dict[str, Any]:
        """Return the settings of a run with these prompts, as `run.json` has them, without those of the model."""
        settings = self.prompted.settings("", Sampling())
        return {name: settings[name] for name in settings if name not in ("model", "sampling", "repeats", "structured")}

    @cached_property
    def rows(self) -> dict[Id, Row]:
        """The examples by id."""
        return {row["id"]: row for row in self.prompted.task.examples.rows}

    @cached_property
    def _parse(self) -> ParseFunction:
        return self.prompted.task.benchmark.asking.parsers[self.parser]

    def prediction(self, example: Id, text: str, error: str | None = None) -> Row:
        """Return the prediction in a reply: `id`, and the answer or the `error`; neither if the reply has no answer."""
        field = self.prompted.task.benchmark.scoring.answer.field
        record = {"id": example, "response": text, "error": error}
        return prediction(record, lambda reply, of: self._parse(reply, self.rows[of]), field).row

    def answer(self, row: Row) -> Answer | None:
        """Return the answer of a prediction: empty if the reply has none, None if there was no reply."""
        kind = self.prompted.task.benchmark.scoring.answer
        return kind.read(row) if kind.field in row else None if "error" in row else []

    def failure(self, row: Row) -> str:
        """Return why a prediction has no answer: "unparsable", or the error of the request; empty if it has one."""
        has_answer = self.prompted.task.benchmark.scoring.answer.field in row
        return "" if has_answer else str(row.get("error", "unparsable"))

    @cached_property
    def _unanswered(self) -> Scores:
        """The scores without a prediction, which have the metrics of the mode and the slices."""
        task = self.prompted.task
        return task.benchmark.scoring.score(task.examples, [None] * len(self.rows), task.task_key.mode)

    @cached_property
    def _groups(self) -> dict[Id, list[Row]]:
        """The examples with which each example is scored: those of its group, if scores are means over groups.

        The values of an example may depend on the gold of its group (the types of an ontology's entities, for example).
        """
        group_by, groups = self.prompted.task.benchmark.scoring.group_by, dict[str, list[Row]]()
        keys = self._unanswered.slices[group_by] if group_by else map(str, range(len(self.rows)))
        keyed = list(zip(keys, self.rows.values(), strict=True))
        for key, row in keyed:
            groups.setdefault(key, []).append(row)
        return {row["id"]: groups[key] for key, row in keyed}

    def values(self, row: Row) -> dict[str, float]:
        """Return metric -> value of one prediction, without the metrics that have no value for it."""
        task, group = self.prompted.task, self._groups[row["id"]]
        answers = [self.answer(row) if each["id"] == row["id"] else None for each in group]
        examples = replace(task.examples, rows=group)
        scores = task.benchmark.scoring.score(examples, answers, task.task_key.mode)
        place = next(place for place, each in enumerate(group) if each["id"] == row["id"])
        values = {metric: float(scores.values[metric][place]) for metric in self.metrics}
        return {metric: value for metric, value in values.items() if not np.isnan(value)}

    @cached_property
    def metrics(self) -> Sequence[str]:
        """The metrics of the config and mode, without those that need annotations; the headline metric first."""
        benchmark, config = self.prompted.task.benchmark, self.prompted.task.task_key.config
        rules = benchmark.scoring.annotations
        annotated = {metric for metrics in (rules.needs.values() if rules else ()) for metric in metrics}
        scored = self._unanswered.values.keys() - annotated
        metrics = [metric for metric in benchmark.metrics_of(config) if metric in scored]
        return sorted(metrics, key=lambda metric: metric not in benchmark.headline_metrics(metrics)[:1])

    def result(self, predictions: Iterable[Row]) -> Result:
        """Return the score of predictions on the examples that have one; with repeats of an example that of the means.

        The predictions of an example are in the order of its repeats; as many repeats are scored as every example has.
        """
        by_example: dict[Id, list[Row]] = {}
        for row in predictions:
            by_example.setdefault(row["id"], []).append(row)
        task = self.prompted.task
        chosen = [row for row in task.examples.rows if row["id"] in by_example]
        task = task._replace(examples=replace(task.examples, rows=chosen))
        results = [
            score_predictions(task, own_predictions(task, rows, Path("predictions.jsonl"), check=False))
            for rows in zip(*by_example.values(), strict=False)
        ]
        result = with_repeats(results[0], results[1:])
        return result.averaged or result

    def gold(self, example: Id) -> list[str]:
        """Return the gold of an example as texts; empty if the benchmark has no explanations."""
        return self.explanation({"id": example, "error": ""}).gold

    def explanation(self, row: Row) -> Explanation:
        """Return the gold of an example, and the verdict on each part of a prediction.

        All parts are empty if the benchmark has no explanations.
        """
        task = self.prompted.task
        if task.benchmark.showing.explain is None:
            return Explanation([], [], [])
        return task.benchmark.showing.explain(task.examples, self.rows[row["id"]], self.answer(row) or [])


def harness_task(options: Mapping[str, Any]) -> HarnessTask:
    """Return the task of a benchmark with these options, see `OPTIONS`; the same object for the same options.

    Raises:
        UsageError: an unknown name, or a benchmark without prompts.

    >>> task = harness_task({"benchmark": "mini-text2kg"})
    >>> task.prediction("ont_1_isles_test_1", "captain(Heron's Luck, Agnes Morrow)")["triples"]
    [["Heron's Luck", 'captain', 'Agnes Morrow']]
    """
    for name in options:
        if name not in OPTIONS:
            raise unknown_name("option", name, OPTIONS)
    if "benchmark" not in options:
        raise UsageError("No benchmark is named; expected its name, or the folder of its dataset. Add benchmark=NAME.")
    return _harness_task(**{name: value for name, value in options.items() if value is not None})


@cache
def _harness_task(
    benchmark: str,
    config: str | None = None,
    split: str | None = None,
    mode: str | None = None,
    parser: str | None = None,
    **options: Any,
) -> HarnessTask:
    task = load_examples(name_of_path(benchmark), config, split, mode)
    name, parsers = task.task_key.benchmark, task.benchmark.asking.parsers
    if not task.benchmark.asking.prompts:
        raise UsageError(
            f"{name} is answered by rankings and has no prompts; expected a benchmark with prompts. Run it with: "
            f"kbbench run {name} --model bm25, or with --agent llm:MODEL --base-url URL."
        )
    if parser is not None and parser not in parsers:
        raise unknown_name(f"parser of {name}", parser, parsers)
    chosen = options.get("demonstrations", PromptOptions().demonstrations)
    known = get_args(get_args(RunOptions.__annotations__["demonstrations"])[0])
    if chosen not in known:
        raise unknown_name("choice of demonstrations", chosen, known)
    return HarnessTask(prompt_task(task, **options), parser or next(iter(parsers)))
