"""Tasks of lm-evaluation-harness, one for each benchmark with prompts: this folder is its `--include_path`."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from logging import getLogger
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.task import Task
from lm_eval.config.task import TaskConfig
from lm_eval.filters import build_filter_ensemble

from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import Row
from kbbench_hf.runners.harness_tasks import COUNTERS, OPTIONS, harness_task
from kbbench_hf.runners.run_options import OPTIONS as RUN_OPTIONS
from kbbench_hf.scoring.result import Result


class ExampleValue(float):
    """The value of a metric for an example, with the prediction that it is of: aggregation scores all predictions."""

    prediction: Row

    def __new__(cls, value: float, prediction: Row | None = None) -> "ExampleValue":
        """Return a value; a copy of one in another process gets its prediction afterwards."""
        example_value = super().__new__(cls, value)
        example_value.prediction = prediction or {}
        return example_value


class BenchmarkTask(Task):  # type: ignore[misc]
    """A benchmark as a task: its prompts with the settings of their requests, its values and its scores.

    The metadata of the task has its options, see `harness_tasks.OPTIONS`.
    """

    OUTPUT_TYPE = "generate_until"

    def __init__(self, config: Mapping[str, Any]) -> None:
        metadata = config["metadata"]
        self._task = harness_task({name: metadata[name] for name in OPTIONS if name in metadata})
        eval_task = self._task.prompted.task
        self.VERSION = eval_task.version or eval_task.revision[:8]
        self._docs = [{"id": name, "gold": self._task.gold(name)} for name in self._task.rows]
        self._usual = self._request(self._docs[0])
        self._config = TaskConfig(
            task=config["task"], num_fewshot=0, generation_kwargs=dict(self._usual), metadata=metadata
        )
        self._filters = [build_filter_ensemble("none", [["take_first", None]])]
        self._scored: tuple[list[Row], Result] | None = None
        for warning in self._task.prompted.warnings():
            getLogger(__name__).warning("%s %s", warning.message, warning.remedy)

    def _request(self, doc: Row) -> dict[str, Any]:
        """Return the settings of a request, in the words of lm-evaluation-harness."""
        prompt = self._task.prompted.prompts[doc["id"]]
        temperature = RUN_OPTIONS["temperature"].default
        length = {"max_gen_toks": prompt.max_tokens}
        return {"until": list(prompt.stop), **length, "temperature": temperature, "do_sample": False}

    def has_training_docs(self) -> bool:
        """Return whether there are documents for demonstrations: prompts have their own."""
        return False

    has_validation_docs = has_training_docs

    def has_test_docs(self) -> bool:
        """Return whether there are documents to evaluate."""
        return True

    def test_docs(self) -> list[Row]:
        """Return the id and the gold of each example."""
        return self._docs

    def doc_to_text(self, doc: Row) -> str:
        """Return the last message of the prompt of an example."""
        return str(self._task.prompted.prompts[doc["id"]].messages[-1]["content"])

    def doc_to_target(self, doc: Row) -> list[str]:
        """Return the gold of an example."""
        return self._task.gold(doc["id"])

    def fewshot_context(
        self, doc: Row, *_: object, chat_template: Callable[..., str] | None = None, **given: object
    ) -> str:
        """Return the prompt of an example by the chat template of the model.

        Raises:
            UsageError: no chat template, or a system message of the user's.
        """
        if chat_template is None:
            raise UsageError(f"{self.config.task} has chat prompts; expected a chat model. Add --apply_chat_template.")
        if given.get("system_instruction"):
            raise UsageError(f"{self.config.task} has its own system message. Leave out --system_instruction.")
        return chat_template([dict(message) for message in self._task.prompted.prompts[doc["id"]].messages])

    def construct_requests(self, doc: Row, ctx: str, *, metadata: tuple[object, ...], **_: object) -> Instance:
        """Return the request of an example; `--gen_kwargs` replace the settings of its prompt."""
        changed = {key: value for key, value in self.config.generation_kwargs.items() if value != self._usual.get(key)}
        return Instance(self.OUTPUT_TYPE, doc, (ctx, self._request(doc) | changed), 0, metadata)

    def process_results(self, doc: Row, results: Sequence[str | None]) -> dict[str, ExampleValue]:
        """Return every metric of an example (NaN without a value), and whether its answer is missing or unparsable."""
        (text,) = results
        row = self._task.prediction(doc["id"], text or "", "no_content" if text is None else None)
        values = dict.fromkeys(self._task.metrics, math.nan) | self._task.values(row)
        failure = self._task.failure(row)
        counts = zip(COUNTERS, (failure not in ("", "unparsable"), failure == "unparsable"), strict=True)
        return {name: ExampleValue(value, row) for name, value in (values | dict(counts)).items()}

    def aggregation(self) -> dict[str, Callable[[Sequence[ExampleValue]], float]]:
        """Return metric -> the function from its values to the score."""
        return {name: partial(self._aggregate, name) for name in (*self._task.metrics, *COUNTERS)}

    def _aggregate(self, name: str, values: Sequence[ExampleValue]) -> float:
        predictions = [value.prediction for value in values]
        if self._scored is None or self._scored[0] != predictions:
            self._scored = predictions, self._task.result(predictions)
            for warning in self._scored[1].warnings:
                if warning.severity == "warning":
                    getLogger(__name__).warning("%s %s", warning.message, warning.remedy)
        result = self._scored[1]
        return result.counters[name] if name in COUNTERS else result.scores[name].value

    def higher_is_better(self) -> dict[str, bool]:
        """Return metric -> whether a higher value is better."""
        lower = self._task.prompted.task.benchmark.scoring.lower_is_better
        return {name: name not in {*lower, *COUNTERS} for name in (*self._task.metrics, *COUNTERS)}
