"""`run`: evaluate a model on a benchmark in a resumable run folder, and estimate the cost of a run.

`kbbench run`, the public `run` and testbeds use it. It imports the kinds of runs only when one is started, so that a
retriever loads no client of language models. A wrong option is refused before a request is sent, and perhaps paid for.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Unpack, cast

from kbbench_hf.benchmarks import find_dataset, name_of_path, rows_of_code
from kbbench_hf.benchmarks.base import Prompt
from kbbench_hf.errors import BusyError, InterruptedRunError, KBBenchError, UsageError, unknown_name
from kbbench_hf.files.datasets import read_json
from kbbench_hf.files.heartbeat import CONTROL
from kbbench_hf.files.shards import ARRAY, COLLECT, LATE_S, Shard, ShardEnd
from kbbench_hf.model_specs import parse, positive
from kbbench_hf.protocols import LanguageModel, Searcher, name_of
from kbbench_hf.runners.process_group import launch_warnings
from kbbench_hf.runners.progress import say
from kbbench_hf.runners.run_folder import add_to_run, default_folder, open_run, second_stage_folders
from kbbench_hf.runners.run_options import (
    ANNOTATION,
    CROSS_ENCODER,
    OPTIONS,
    RunOptions,
    asking_options,
    check_names,
    cross_encoder,
    given_options,
    language_model,
    plugged_model,
    price_of,
    refuse_unused,
    sampling_of,
    served_completions,
    served_embedder,
    shard_of,
)
from kbbench_hf.runners.tracking import check_tracker, log_result
from kbbench_hf.scoring.eval_task import RUN, EvalTask, load_examples
from kbbench_hf.scoring.result import Result, UsedPrompt, write_result
from kbbench_hf.scoring.score import own_predictions, repeat_files, score, score_predictions
from kbbench_hf.scoring.warnings import stored_warnings

if TYPE_CHECKING:
    from kbbench_hf.runners.annotators import Annotators
    from kbbench_hf.runners.cost import CostEstimate
    from kbbench_hf.runners.ranking import Latency, RankedRun
    from kbbench_hf.runners.run_summary import RunSummary

Model = str | Searcher | LanguageModel


@dataclass(frozen=True)
class FinishedRun:
    """A finished run: its result, and the counts, cost and latency."""

    task: EvalTask
    folder: Path
    result: Result
    summary: "RunSummary | None" = None
    """The summary of the prompts, if a language model answered some."""
    latency: "Latency | None" = None
    n_unread: int | None = None
    """Responses of a re-ranking model without a score."""
    stopped: KBBenchError | None = None
    """The error that stopped the run early; the responses until then are scored."""

    def words(self) -> str:
        """Return the counts, cost and latency of the run in words."""
        if self.summary is None:
            return str(self.latency or "")
        unread = "" if self.n_unread is None else f"\n{self.n_unread:,} responses without a score"
        return f"{self.summary}{unread}"


def run(benchmark: str, model: Model, **options: Unpack[RunOptions]) -> Result:
    """Run a model on a benchmark and return its result; the same call resumes an interrupted run.

    Args:
        benchmark: the dataset's name, or with its config, `genres-corpora/docred`.
        model: a name as on the command line, or any object with `search(queries, top_k)` (per query the dataset's ids,
            best first, or pairs of id and score), `generate(prompts, max_tokens)` (texts) or `async
            complete(messages, max_tokens)` (a text); see `kbbench_hf.protocols`.
        options: see `RunOptions`; what only another kind of model takes is refused.

    Raises:
        UsageError: a name or an option that does not exist, or another run in the folder.
        KBBenchError: the run could not go on; its folder holds the score of what was answered.
        ShardEnd: with `shard`, it has ended, and others have not: the run has no result yet.
        KeyboardInterrupt: SIGINT came (or SIGTERM, with a served model); what was answered is kept.

    >>> import tempfile
    >>> class First:
    ...     def search(self, queries, top_k):
    ...         return [list(range(top_k)) for _ in queries]
    >>> result = run("mini-stark", First(), out=Path(tempfile.mkdtemp()) / "run", top_k=5, show=False)
    >>> round(result.scores["hit_at_5"].value, 4)
    0.0808
    """
    try:
        done = finished_run(benchmark, model, **options)
    except InterruptedRunError as error:
        # Python exits with 130 after a KeyboardInterrupt, and with 1 after an error of a subclass.
        raise KeyboardInterrupt(*error.args) from None
    if done.stopped is not None:
        raise done.stopped
    return done.result


def finished_run(benchmark: str, model: Model, **options: Unpack[RunOptions]) -> FinishedRun:
    """Return the result of `run` with the counts, cost and latency; the last shard to end collects the run.

    An early end is in `stopped`, and not raised.
    """
    check_names(options)
    if shard_of(options) is None:
        if (n_tasks := os.environ.get(f"{ARRAY}COUNT", "1")) != "1":
            say(
                [f"This is one of {n_tasks} tasks of a Slurm array, and runs everything; --shard slurm runs its share."]
            )
        return _finish_run(benchmark, model, options)
    try:
        return _finish_run(benchmark, model, options)
    except ShardEnd as end:
        if not end.is_last:
            raise
    collecting: RunOptions = {**options, "shard": None, "collect": True}
    return _finish_run(benchmark, model, collecting)


def _finish_run(benchmark: str, model: Model, options: RunOptions) -> FinishedRun:
    check_tracker(options.get("log_to"))
    say(launch_warnings(), show=options.get("show", True))
    task = load_task(name_of_path(benchmark), None, options)
    if isinstance(model, str) and (plugged := plugged_model(model, options)) is not None:
        options, model = {"name": model, **options}, cast("Searcher | LanguageModel", plugged)
    _check_model(model, task)
    annotators = _load_annotators(task, options)  # a wrong name is an error before a request is sent
    after = options.get("rerank") or options.get("agent")
    has_prompts = bool(task.benchmark.asking.prompts)
    is_named = isinstance(model, str) or isinstance(after, str)
    refuse_unused(options, task.task_key.benchmark, has_prompts=has_prompts, is_named=is_named)
    if has_prompts:
        done = _run_language_model(task, cast("str | LanguageModel", model), options)
    else:
        done = _run_retriever(task, cast("str | Searcher", model), options)
    if not getattr(model, "rank", 0):
        write_result(done.result, done.folder)
        if rows_of_code(task.task_key.benchmark) is None:
            add_to_run(
                done.folder, tables=find_dataset(task.task_key.benchmark, whole=False).n_rows(task.task_key.split)
            )
        if annotators is not None and done.stopped is None:
            done = _annotate_run(done, annotators, show=options.get("show", True))
        if (tracker := options.get("log_to")) is not None and done.stopped is None:
            log_result(tracker, done.result, done.folder)
        for file in (done.folder / CONTROL, *done.folder.glob("progress.*.json")):  # the latter of a larger group
            file.unlink(missing_ok=True)
    return replace(done, result=replace(done.result, folder=done.folder))


def load_task(benchmark: str, config: str | None, options: RunOptions) -> EvalTask:
    """Return the examples that a run with these options evaluates."""
    return load_examples(benchmark, config, options.get("split"), options.get("mode"), options.get("limit"))


def estimate_run(benchmark: str, model: str, **options: Unpack[RunOptions]) -> "tuple[Prompt, CostEstimate]":
    """Return the first prompt of a run, and the estimated cost and time of the run.

    With a `base_url`, one request is sent to measure the latency; its reply is not stored.
    """
    from kbbench_hf.runners.cost import estimate
    from kbbench_hf.runners.llm_run import prompt_task

    check_names(options)
    task = load_task(name_of_path(benchmark), None, options)
    by_id = prompt_task(task, **options).prompts
    prompts = list(by_id.values()) * options.get("repeats", OPTIONS["repeats"].default)
    price = price_of(model, options)
    measured, sent = _measure_request(by_id, model, options) if options.get("base_url") else (None, "Nothing was sent.")
    found = estimate(
        [prompt.messages for prompt in prompts],
        [options.get("max_tokens") or prompt.max_tokens for prompt in prompts],
        price=price,
        concurrency=options.get("concurrency", OPTIONS["concurrency"].default),
        measured=measured,
        sent=sent,
    )
    return prompts[0], found


def check_started(folder: Path, benchmark: str, model: str, **options: Unpack[RunOptions]) -> None:
    """Check that the run in a folder, if any, has the settings of this call, as far as they are known without models.

    `kbbench run --slurm` calls it before it submits jobs.

    Raises:
        UsageError: one differs; the message names it.
    """
    from kbbench_hf.runners.llm_run import prompt_task, with_started_prompt

    started = read_json(folder / RUN).get("settings") if (folder / RUN).is_file() else None
    if not started:
        return
    task = load_task(name_of_path(benchmark), None, options)
    if task.benchmark.asking.prompts:
        prompted = prompt_task(task, **options)
        _, settings, _ = with_started_prompt(prompted, prompted.settings_of(model, options), folder)
    else:
        stages = {stage: str(options.get(stage) or "").removeprefix("llm:") or None for stage in ("agent", "rerank")}
        given = {name: value for name, value in options.items() if name in started}
        of_task = {**task.settings(), "n_examples": len(task.examples.rows), "model": str(parse(model))}
        settings = {**started, **given, **of_task, **stages}
    open_run(folder, settings, {})


def _measure_request(prompts: Mapping[Any, Prompt], name: str, options: RunOptions) -> tuple[float | None, str]:
    """Return the latency in seconds of the prompt of median length, None without a reply, and a sentence on it."""
    from kbbench_hf.runners.generate import generate

    lengths = {key: sum(len(message["content"]) for message in prompt.messages) for key, prompt in prompts.items()}
    middle = sorted(lengths, key=lambda key: lengths[key])[len(lengths) // 2]
    settings: dict[str, Any] = {"canary": False, "attempts": 1, "concurrency": 1, "show": False}
    settings |= {"sampling": sampling_of(options), "structured": options.get("structured", False)}
    where = f"the server at {options['base_url']}"
    with TemporaryDirectory() as folder:
        try:
            done = generate({middle: prompts[middle]}, language_model(name, options), Path(folder), **settings)
        except KBBenchError as error:
            return None, f"The time is not measured, no request was answered: {error}"
        (record,) = done.records()
    if record["error"] is not None:
        why = f"{record['error']}: {record['detail'] or 'no detail'}"
        return None, f"The time is not measured: one request was sent to {where} and not answered ({why})."
    tokens = f"{record['prompt_tokens'] or '?'} tokens in, {record['completion_tokens'] or '?'} out"
    sent = f"One request was sent to {where} to measure the time: example {middle!r}, {tokens}, "
    return record["latency_s"], f"{sent}{record['latency_s']:.2f} s. Its reply is thrown away."


def _run_language_model(task: EvalTask, model: str | LanguageModel, options: RunOptions) -> FinishedRun:
    from kbbench_hf.runners.llm_run import prompt_task, run_language_model

    question = prompt_task(task, **options)
    name = model if isinstance(model, str) else options.get("name") or name_of(model)
    answering = language_model(name, options) if isinstance(model, str) else model
    folder, summary, result, stopped = run_language_model(
        question,
        answering,
        name,
        options.get("out"),
        sampling=sampling_of(options),
        **given_options(options, "repeats", "structured", "parser"),
        **asking_options(name, answering, options),
    )
    return FinishedRun(task, folder, result, summary, stopped=stopped)


def _load_annotators(task: EvalTask, options: RunOptions) -> "Annotators | None":
    given = [option for option in options if option in ANNOTATION]
    if not given:
        return None
    from kbbench_hf.runners.annotators import annotation_rules, parse_annotators

    annotation_rules(task)
    if not (names := options.get("annotate")):
        raise UsageError(f"{given[0]} needs --annotate JUDGE,EMBEDDER. Add it, or leave {given[0]} out.")
    judging: RunOptions = {"base_url": options.get("judge_base_url"), "api_key_env": options.get("judge_api_key_env")}
    return parse_annotators(names, thresholds=options.get("thresholds"), judging=judging)


def _annotate_run(done: FinishedRun, annotators: "Annotators", *, show: bool) -> FinishedRun:
    """Annotate the predictions of a finished run, of each repeat, and return it scored with the annotations.

    `stopped` is an error if requests of the judge failed.
    """
    from kbbench_hf.files import annotations_folder
    from kbbench_hf.runners.annotators import annotate_predictions, n_failed
    from kbbench_hf.scoring.predictions import read_predictions

    task, settings = done.task, read_json(done.folder / RUN)
    n_open = 0
    for file in repeat_files(done.folder, settings["settings"]["repeats"]):
        answers = read_predictions([file], task.benchmark, task.examples).answers
        made = annotate_predictions(task, answers, annotations_folder(file), annotators, show=show)
        n_open += n_failed(made)
    result = score(done.folder, mode=task.task_key.mode)
    write_result(result, done.folder)
    stopped = KBBenchError(f"{n_open:,} items have no verdict because requests failed. Run the same command again.")
    return replace(done, result=result, stopped=stopped if n_open else None)


def _run_retriever(task: EvalTask, model: str | Searcher, options: RunOptions) -> FinishedRun:
    second = _second_stage(task, model, options)
    out, requested = options.get("out"), None
    if second is not None and out is not None:
        out, requested = second_stage_folders(out)
    chosen = given_options(options, "top_k", "batch", "processes", "show")
    if isinstance(model, str):
        from kbbench_hf.runners.retrieval_run import rank

        chosen["embedder"] = served_embedder(model, options, second_stage=second is not None)
        chosen["complete"] = partial(served_completions, options) if options.get("base_url") else None
        run_stage = partial(rank, task, model, out, **chosen)
    else:
        run_stage = partial(_run_searcher, task, model, {**options, "out": out}, chosen)
    shard = shard_of(options)
    if second is not None and shard is not None and shard.number:
        first = _run_once(run_stage, show=options.get("show", True))
    else:
        first = run_stage(shard=shard)
    done = first if second is None else second(first.folder, requested)
    predictions = own_predictions(task, done.rows, done.folder / "predictions.jsonl")
    run = read_json(done.folder / RUN)
    result = score_predictions(task, predictions, stored_warnings(run.get("warnings", [])), done.trajectories)
    result = replace(result, texts=run.get("texts", {}), prompt=UsedPrompt.of_run(run["settings"]))
    return FinishedRun(task, done.folder, result, done.summary, first.latency, done.n_unread)


def _run_once(run_stage: "Callable[..., RankedRun]", *, show: bool) -> "RankedRun":
    """Return the base run of a second stage in shards: the first shard to start makes it, and the others wait."""
    is_announced = False
    while True:
        try:
            run_stage(shard=Shard(1, 1))
        except ShardEnd:
            return run_stage(shard=COLLECT)
        except BusyError as error:
            say([f"The base run is under way. This shard waits for it. {error}"], show=show and not is_announced)
            is_announced = True
            time.sleep(LATE_S[-1])


def _second_stage(
    task: EvalTask, base: str | Searcher, options: RunOptions
) -> "Callable[[Path, Path | None], RankedRun] | None":
    """Return the function that re-ranks or lets an agent search, given a base run; check its options before that run.

    The function takes the folder of the base run and the folder to write (None: named after the base run).
    """
    reranker, agent = options.get("rerank"), options.get("agent")
    if reranker is not None and agent is not None:
        raise UsageError("--rerank and --agent both follow the model; expected one of them.")
    if reranker is not None:
        return _rerank_stage(task, reranker, options)
    return None if agent is None else _agent_stage(task, base, agent, options)


def _rerank_stage(
    task: EvalTask, given: str | LanguageModel, options: RunOptions
) -> "Callable[[Path, Path | None], RankedRun]":
    """Return the function that re-ranks a base run with a language model or a cross-encoder."""
    from kbbench_hf.retrieval.reranker import BY_CROSS_ENCODER, RERANK_METHODS
    from kbbench_hf.runners.rerank import rerank

    how: dict[str, Any] = given_options(options, "depth") | {"weight": options.get("rerank_weight")}
    if isinstance(given, str) and given.partition(":")[0] == CROSS_ENCODER:
        spec = parse(given)
        batch = spec.read(batch=(positive, BY_CROSS_ENCODER.batch))["batch"]
        name, model = str(spec), cross_encoder(spec, options)
        how |= asking_options(given, model, options) | {"structured": False, "canary": False}
        how |= {"method": replace(BY_CROSS_ENCODER, batch=batch), "sampling": sampling_of(options)}
    else:
        name, model = _named_model(given, options)
        wording = options.get("rerank_prompt", OPTIONS["rerank_prompt"].default)
        if wording not in RERANK_METHODS:
            raise unknown_name("re-ranking prompt", wording, RERANK_METHODS)
        sampling = sampling_of({"temperature": RERANK_METHODS[wording].temperature, **options})
        how |= asking_options(name, model, options) | {"structured": options.get("structured")}
        how |= {"wording": wording, "sampling": sampling}
    return lambda first, folder: rerank(task, first, model, name, folder=folder, **how)


def _agent_stage(
    task: EvalTask, base: str | Searcher, given: str | LanguageModel, options: RunOptions
) -> "Callable[[Path, Path | None], RankedRun]":
    """Return the function that lets an agent search, given a base run."""
    from kbbench_hf.agents.agent import AgentLimits
    from kbbench_hf.runners.agent import chosen_protocol, search_with_agent

    name, model = _named_model(given, options)
    structured, steps = options.get("structured"), given_options(options, "max_steps")
    how = asking_options(name, model, options) | given_options(options, "compact", "keep_texts", "tool_choice")
    how |= {
        "structured": structured,
        "protocol": chosen_protocol(model, options.get("protocol"), structured=structured),
        "limits": AgentLimits(**steps, tokens=options.get("question_tokens", OPTIONS["question_tokens"].default)),
        "sampling": sampling_of(options),
    }
    if isinstance(base, str):
        how["embedder"] = served_embedder(base, options, second_stage=True)
    return lambda first, folder: search_with_agent(task, first, base, model, name, folder=folder, **how)


def _named_model(given: str | LanguageModel, options: RunOptions) -> tuple[str, LanguageModel]:
    """Return the name of a model that re-ranks or searches, and the model."""
    if isinstance(given, str):
        name = given.removeprefix("llm:")
        return name, language_model(name, options)
    return name_of(given), given


def _run_searcher(
    task: EvalTask, model: Searcher, options: RunOptions, chosen: dict[str, Any], shard: Shard | None
) -> "RankedRun":
    """Let the user's object search; its latency is not measured, since its searches may have a cost."""
    from kbbench_hf.runners.ranking import retrieve

    name = options.get("name") or name_of(model)
    settings = {**task.settings(), "model": name}
    chosen["top_k"] = chosen.get("top_k") or 100
    folder = options.get("out") or default_folder(task.task_key, name, {**settings, "top_k": chosen["top_k"]})
    return retrieve(task.examples, lambda _: model, folder, settings, timed=False, shard=shard, **chosen)


def _check_model(model: Model, task: EvalTask) -> None:
    """Refuse an object without the methods that a benchmark calls.

    Raises:
        UsageError: it has none of them.
    """
    answered, methods = "retrievers", ["search"]
    if task.benchmark.asking.prompts:
        answered, methods = "language models", ["generate", "complete"]
    if not isinstance(model, str) and not any(hasattr(model, each) for each in methods):
        raise UsageError(
            f"{task.task_key.benchmark} evaluates {answered}; expected a name or an object with "
            f"{' or '.join(methods)}, not {type(model).__name__}."
        )
