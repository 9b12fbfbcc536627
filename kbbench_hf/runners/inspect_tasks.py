"""Tasks of inspect_ai, one for each benchmark with prompts: `inspect eval kbbench/NAME`.

inspect_ai finds this module by the entry point `kbbench` and may import it in any of its commands, so that benchmarks
are imported when a task is created.
"""

import math
from collections.abc import Callable, Mapping
from logging import getLogger
from typing import Any, TypeVar

from click import ClickException
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageSystem, ChatMessageUser, GenerateConfig
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, Value, metric, scorer
from inspect_ai.solver import TaskState

from kbbench_hf.benchmarks import benchmark_names, own_names
from kbbench_hf.errors import KBBenchError
from kbbench_hf.files.datasets import NAMESPACE, Id
from kbbench_hf.files.harness import SETTINGS, find_inspect_failure
from kbbench_hf.runners.harness_tasks import COUNTERS, HarnessTask, harness_task
from kbbench_hf.runners.run_options import OPTIONS

_MESSAGES: Mapping[str, Callable[..., ChatMessage]] = {
    "system": ChatMessageSystem,
    "user": ChatMessageUser,
    "assistant": ChatMessageAssistant,
}
_REASONS = {"refusal": "refusal", "content_filter": "refusal", "unparsable": "invalid_response_format"}
"""Why there is no answer -> the word of inspect_ai; "no_response" for other reasons."""
Function = TypeVar("Function", bound=Callable[..., Any])


def _in_namespace(function: Function) -> Function:
    """Return a function that inspect_ai registers under the very name given, installed or not."""
    function.__module__ = NAMESPACE  # else the name of the Python package comes before it
    return function


@metric(name=f"{NAMESPACE}/scores", scores="unreduced")
@_in_namespace
def benchmark_scores(**options: Any) -> Metric:
    """Return the metric of a benchmark: all its scores, and the numbers of missing and unparsable answers.

    With several epochs, the scores are those of each example's mean. Scores without a value are left out.
    """

    def aggregate(scores: list[SampleScore]) -> Value:
        if not scores:
            return {}
        bench = harness_task(options)
        result = bench.result(each.score.metadata["prediction"] for each in scores if each.score.metadata)
        values = {name: result.scores[name].value for name in bench.metrics if name in result.scores}
        counts = {name: float(result.counters[name]) for name in COUNTERS}
        return {name: value for name, value in values.items() if not math.isnan(value)} | counts

    return aggregate


@scorer(metrics=[], name=f"{NAMESPACE}/kbbench")
@_in_namespace
def benchmark_scorer(**options: Any) -> Scorer:
    """Return the scorer of a benchmark: the values of an example, its answer, and the verdict on each part of it."""

    async def score(state: TaskState, target: Target) -> Score:
        bench, output = harness_task(options), state.output
        error = find_inspect_failure(output.model_dump()) if output.choices else "no_choices"  # the request failed
        row = bench.prediction(state.sample_id, output.completion, error)
        explained, failure = bench.explanation(row), bench.failure(row)
        return Score(
            value=bench.values(row),
            answer="\n".join(part for part, _ in explained.answer),
            explanation=failure or "\n".join(f"{verdict}: {part}" for part, verdict in explained.answer),
            reason=_REASONS.get(failure, "no_response") if failure else None,
            metadata={"prediction": row},
        )

    return score


def benchmark_task(options: Mapping[str, Any]) -> Task:
    """Return a benchmark as a task: its prompts with the settings of their requests, its scorer and its metric.

    A request that fails counts as a missing answer, as in `run`. The token limit is the largest of all prompts.

    Raises:
        ClickException: an unknown name or option, or a benchmark without prompts; `inspect` shows the message alone.
    """
    try:
        bench = harness_task(options)
    except KBBenchError as error:
        raise ClickException(str(error)) from error
    prompts, eval_task = bench.prompted.prompts, bench.prompted.task
    for warning in bench.prompted.warnings():
        getLogger(__name__).warning("%s %s", warning.message, warning.remedy)
    return Task(
        dataset=MemoryDataset([_sample(bench, example) for example in prompts], name=eval_task.benchmark.dataset),
        scorer=benchmark_scorer(**options),
        metrics=[benchmark_scores(**options)],
        config=GenerateConfig(
            temperature=OPTIONS["temperature"].default,
            max_tokens=max(prompt.max_tokens for prompt in prompts.values()),
            stop_seqs=list(next(iter(prompts.values())).stop) or None,
        ),
        score_on_error=True,
        version=eval_task.version or 0,
        metadata={SETTINGS: {**bench.settings(), "parser": bench.parser, "mode": eval_task.task_key.mode}},
    )


def _sample(bench: HarnessTask, example: Id) -> Sample:
    messages = [_MESSAGES[each["role"]](content=each["content"]) for each in bench.prompted.prompts[example].messages]
    return Sample(messages, target=bench.gold(example) or "", id=example)


def _register(name: str) -> None:
    """Register a benchmark under its name, with underscores."""

    @task(name=f"{NAMESPACE}/{name.replace('-', '_')}")
    @_in_namespace
    def create(**options: Any) -> Task:
        return benchmark_task({**options, "benchmark": name})


@task(name=f"{NAMESPACE}/benchmark")
@_in_namespace
def create_task(benchmark: str, **options: Any) -> Task:
    """Return the task of a benchmark by its name, or by the folder of its dataset."""
    return benchmark_task({**options, "benchmark": benchmark})


for _name in (*benchmark_names(), *own_names()):
    _register(_name)
