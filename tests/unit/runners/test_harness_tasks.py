"""Our benchmarks as tasks of inspect_ai and lm-evaluation-harness: the prompts, predictions and scores of `run`."""

import gc
import json
import math
import pickle
import re
import tomllib
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import inspect_ai
import numpy as np
import pytest
from click import ClickException
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import ContentReasoning, ContentText, ModelOutput, ModelUsage, get_model
from lm_eval.api.model import LM
from lm_eval.evaluator import simple_evaluate
from lm_eval.tasks import TaskManager

from kbbench_hf import run, score
from kbbench_hf.benchmarks import OURS, benchmark
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.errors import UsageError
from kbbench_hf.protocols import Completion
from kbbench_hf.runners import inspect_tasks, lm_eval_tasks
from kbbench_hf.runners.harness_tasks import COUNTERS, harness_task
from kbbench_hf.scoring.result import Result
from kbbench_hf.scoring.results_table import results_table
from tests.servers.mixed_replies import key_of, mixed_replies

FOLDER = Path(lm_eval_tasks.__file__).parent
PLACES = ("mini-text2kg", "mini-ska", "mini-genres", "mini-ska/rejection_control_kg")


class Scripted:
    """A model of ours with fixed replies; it keeps the parameters of its requests."""

    name = "scripted"

    def __init__(self, replies: Mapping[str, Any]) -> None:
        self.replies = replies
        self.parameters: list[dict[str, Any]] = []

    def generate(self, prompts: Any, max_tokens: int, parameters: Any, seed: int) -> list[Any]:
        self.parameters += parameters
        return [self.replies[key_of(prompt)] for prompt in prompts]


def benchmark_of(name: str) -> Benchmark:
    return benchmark(name.partition("/")[0])


def expected(result: Result, metrics: Sequence[str]) -> dict[str, float]:
    """Return what a harness must show of a result: scores that have a value, and two counters."""
    scores = {name: result.scores[name].value for name in metrics}
    counts = {name: float(result.counters[name]) for name in COUNTERS}
    return {name: value for name, value in scores.items() if not math.isnan(value)} | counts


def example_values(result: Result, metrics: Sequence[str]) -> dict[Any, dict[str, float]]:
    """Return example -> metric -> value, without those that have none."""
    return {
        example: {m: float(result.values[m][n]) for m in metrics if not math.isnan(result.values[m][n])}
        for n, example in enumerate(result.ids)
    }


def inspect_eval(
    name: str, reply: Callable[[str], ModelOutput], folder: Path, options: Mapping[str, Any] = {}, **how: Any
) -> tuple[EvalLog, list[Any]]:
    """Return the log of a benchmark with a mock model, and the settings of its requests."""
    settings = []

    def outputs(messages: Any, tools: Any, choice: Any, config: Any) -> ModelOutput:
        settings.append(config)
        output = reply(key_of([{"role": each.role, "content": each.content} for each in messages]))
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)  # else a tokenizer is downloaded
        return output

    model = get_model("mockllm/model", custom_outputs=outputs, memoize=False)
    task = inspect_tasks.benchmark_task({**options, "benchmark": name})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it uses what is deprecated, and leaves streams to the garbage collector
        (log,) = inspect_ai.eval(task, model=model, log_dir=str(folder), display="none", **how)
        gc.collect()
    return read_eval_log(log.location), settings


def shown(log: EvalLog) -> dict[str, float]:
    assert log.results is not None
    (scores,) = log.results.scores
    return {name: each.value for name, each in scores.metrics.items()}


@pytest.mark.parametrize("name", PLACES)
def test_inspect_ai_has_our_prompts_settings_predictions_and_scores(name: str, tmp_path: Path) -> None:
    replies, metrics = mixed_replies(name), harness_task({"benchmark": name}).metrics
    model = Scripted(replies)
    ours = run(name, model, out=tmp_path / "run", show=False)
    log, settings = inspect_eval(name, lambda key: ModelOutput.from_content("mock", replies[key]), tmp_path / "logs")
    assert shown(log) == expected(ours, metrics)
    assert next(iter(shown(log))) == benchmark_of(name).headline_metrics(metrics)[0]
    values = {each.id: each.scores["kbbench"].value for each in log.samples or []}
    assert values == example_values(ours, metrics)
    parameters = {"temperature": settings[0].temperature, "max_tokens": settings[0].max_tokens}
    assert all(each == parameters for each in model.parameters)
    assert settings[0].stop_seqs is None
    reasons = [each.scores["kbbench"].reason for each in log.samples or []]
    assert reasons.count("invalid_response_format") == ours.counters["n_parse_failures"] > 0
    again = score(Path(log.location))
    assert again.scores == ours.scores
    assert again.predictions_sha256 == ours.predictions_sha256
    (block,) = results_table([log.location, tmp_path / "run"])
    assert [each.name for each in block.systems] == ["mockllm/model", "scripted"]
    assert [block.systems[0].figure(m) for m in block.metrics] == [block.systems[1].figure(m) for m in block.metrics]


def test_inspect_ai_counts_what_is_no_answer_as_a_run_does(tmp_path: Path) -> None:
    name = "mini-text2kg"
    replies = dict.fromkeys(mixed_replies(name), '{"triples": []}')
    first, second, third, fourth = list(replies)[:4]
    outputs = {
        first: ModelOutput.from_content("mock", "", stop_reason="content_filter"),
        second: ModelOutput.from_content("mock", [ContentText(text="I cannot help with that.", refusal=True)]),
        third: ModelOutput.from_content("mock", [ContentReasoning(reasoning="Well")], stop_reason="max_tokens"),
    }
    errors = {first: "content_filter", second: "refusal", third: "reasoning_only", fourth: "connection_broken"}
    ours = run(
        name,
        Scripted({key: Completion("", "", 1, 1, 0.1, error=errors.get(key)) if key in errors else text
                  for key, text in replies.items()}),
        out=tmp_path / "run",
        show=False,
    )  # fmt: skip

    def reply(key: str) -> ModelOutput:
        if key == fourth:
            raise ConnectionError("broken")
        return outputs.get(key) or ModelOutput.from_content("mock", replies[key])

    log, _ = inspect_eval(name, reply, tmp_path / "logs", fail_on_error=False)
    assert shown(log) == expected(ours, harness_task({"benchmark": name}).metrics)
    assert shown(log)["n_missing"] == ours.counters["n_missing"] == 4
    reasons = {each.id: each.scores["kbbench"].reason for each in log.samples or []}
    assert [reasons[each] for each in ours.ids[:5]] == ["refusal", "refusal", "no_response", "no_response", None]
    assert score(Path(log.location)).scores == ours.scores


def test_inspect_ai_scores_epochs_of_some_samples_with_other_options(tmp_path: Path) -> None:
    options = {"mode": "paper", "prompt": "short", "parser": None}
    task = harness_task({"benchmark": "mini-text2kg", **options})
    replies, seen = mixed_replies("mini-text2kg", "short"), set[str]()

    def reply(key: str) -> ModelOutput:
        text = '{"triples": []}' if key in seen else replies[key]
        seen.add(key)
        return ModelOutput.from_content("mock", text)

    log, _ = inspect_eval("mini-text2kg", reply, tmp_path, options, limit=3, epochs=2)
    samples = log.samples or []
    epochs = [[task.prediction(each.id, each.output.completion) for each in samples if each.epoch == n] for n in (1, 2)]
    first, second = map(task.result, epochs)
    assert shown(log) == expected(task.result([*epochs[0], *epochs[1]]), task.metrics)
    assert shown(log)["f1"] == pytest.approx(np.mean([first.values["f1"], second.values["f1"]]))
    assert first.scores["f1"].value != second.scores["f1"].value


@pytest.mark.parametrize("name", PLACES)
def test_values_of_an_example_alone_are_those_among_all(name: str) -> None:
    for mode in benchmark_of(name).scoring.modes:
        task = harness_task({"benchmark": name, "mode": mode})
        replies = mixed_replies(name)
        rows = [task.prediction(example, text) for example, text in zip(task.rows, replies.values(), strict=True)]
        rows[3] = {"id": rows[3]["id"], "error": "refusal"}
        for row in rows[4:] if "triples" in rows[0] else ():  # with an entity that only another example has in its gold
            (sub, rel, obj), *_ = rows[0]["triples"]
            row["triples"] = [[sub, rel, obj], [obj, rel, sub]]
        assert {row["id"]: task.values(row) for row in rows} == example_values(task.result(rows), task.metrics), mode


class FixedReplies(LM):
    """A model of lm-evaluation-harness with fixed replies; it keeps the requests."""

    def __init__(self, replies: Mapping[str, str]) -> None:
        super().__init__()
        self.replies = replies
        self.settings: list[Any] = []

    def apply_chat_template(self, chat_history: Any, add_generation_prompt: bool = True) -> str:
        return json.dumps(chat_history)

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
        self.settings += [each.args[1] for each in requests]
        return [self.replies[key_of(json.loads(each.args[0]))] for each in requests]

    def loglikelihood(self, requests: Any) -> Any:
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood

    def chat_template(self, chat_template: bool | str = False) -> str:
        return ""

    tokenizer_name = ""


def lm_eval(name: str, model: LM, metadata: Mapping[str, Any] = {}, **how: Any) -> Any:
    manager = TaskManager(include_path=FOLDER, include_defaults=False, metadata=dict(metadata))
    return simple_evaluate(model, tasks=[name], task_manager=manager, **{"apply_chat_template": True, **how})


@pytest.mark.parametrize("name", PLACES)
def test_lm_evaluation_harness_has_our_prompts_settings_predictions_and_scores(name: str, tmp_path: Path) -> None:
    replies, metrics = mixed_replies(name), harness_task({"benchmark": name}).metrics
    ours = run(name, Scripted(replies), out=tmp_path / "run", show=False)
    model, task = FixedReplies(replies), "kbbench" if "/" in name else f"kbbench_{name.replace('-', '_')}"
    found = lm_eval(task, model, {"benchmark": name})
    results = {
        key.removesuffix(",none"): value for key, value in found["results"][task].items() if key.endswith(",none")
    }
    values = {key: value for key, value in results.items() if not key.endswith("_stderr")}
    assert values == expected(ours, metrics)
    samples = found["samples"][task]
    of_examples = {each["doc"]["id"]: {m: each[m] for m in metrics if not math.isnan(each[m])} for each in samples}
    assert of_examples == example_values(ours, metrics)
    prompts = harness_task({"benchmark": name}).prompted.prompts.values()
    wanted = [
        {"until": [], "max_gen_toks": each.max_tokens, "temperature": 0.0, "do_sample": False} for each in prompts
    ]
    assert model.settings == wanted
    lower = benchmark_of(name).scoring.lower_is_better
    assert found["higher_is_better"][task] == {each: each not in {*lower, *COUNTERS} for each in (*metrics, *COUNTERS)}
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(each) + "\n" for each in samples))
    assert score(tmp_path / "samples.jsonl", name).scores == ours.scores


def test_lm_evaluation_harness_takes_options_and_refuses_what_changes_prompts() -> None:
    replies = mixed_replies("mini-text2kg", "short")
    model = FixedReplies(replies)
    found = lm_eval(
        "kbbench", model, {"benchmark": "mini-text2kg", "prompt": "short"}, limit=10, gen_kwargs={"max_gen_toks": 7}
    )
    assert found["n-samples"]["kbbench"] == {"original": 48, "effective": 10}
    assert {each["max_gen_toks"] for each in model.settings} == {7}
    task = harness_task({"benchmark": "mini-text2kg", "prompt": "short"})
    rows = [task.prediction(i, text) for i, text in list(zip(task.rows, replies.values(), strict=True))[:10]]
    assert (
        found["results"]["kbbench"]["domain_conformance,none"] == task.result(rows).scores["domain_conformance"].value
    )
    for how, wanted in (
        ({"apply_chat_template": False}, "Add --apply_chat_template"),
        ({"system_instruction": "Be brief."}, "Leave out --system_instruction"),
    ):
        with pytest.raises(UsageError, match=wanted):
            lm_eval("kbbench_mini_text2kg", model, **how)
    with pytest.raises(UsageError, match="benchmark=NAME"):
        lm_eval("kbbench", model)


def test_values_keep_their_predictions_on_the_way_between_processes() -> None:
    value = lm_eval_tasks.ExampleValue(0.5, {"id": "q1", "answers": ["a"]})
    copied = pickle.loads(pickle.dumps(value))
    assert (copied, copied.prediction, json.dumps(copied)) == (0.5, {"id": "q1", "answers": ["a"]}, "0.5")


def test_every_benchmark_with_prompts_is_a_task_and_others_say_what_to_type() -> None:
    asked = [name for name in OURS if benchmark(name).asking.prompts]
    names = [f"kbbench_{name.replace('-', '_')}" for name in asked]
    tasks = TaskManager(include_path=FOLDER, include_defaults=False).all_tasks
    assert sorted(tasks) == sorted([*names, "kbbench"])
    for name in OURS:
        assert inspect_ai._util.registry.registry_lookup("task", f"kbbench/{name.replace('-', '_')}")
    with pytest.raises(ClickException, match="kbbench run mini-stark --model bm25"):
        inspect_tasks.benchmark_task({"benchmark": "mini-stark"})
    for option, value, wanted in (
        ("promt", "short", "Did you mean 'prompt'"),
        ("prompt", "shrt", "Did you mean 'short'"),
        ("parser", "x", "Unknown parser"),
        ("config", "x", "Unknown config"),
        ("demonstrations", "randm", "Did you mean 'random'"),
    ):
        with pytest.raises(UsageError, match=re.escape(wanted)):
            harness_task({"benchmark": "mini-text2kg", option: value})
    root = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    assert root["project"]["entry-points"]["inspect_ai"] == {"kbbench": inspect_tasks.__name__}
