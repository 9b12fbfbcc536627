"""A run is one function: a benchmark, a model, a folder in which it can be stopped and resumed, a result."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Unpack, cast

from kbbench_hf.benchmarks import name_of_path
from kbbench_hf.benchmarks.base import Prompt
from kbbench_hf.errors import InterruptedRunError, KBBenchError, UsageError
from kbbench_hf.files.datasets import read_json
from kbbench_hf.protocols import LanguageModel, Searcher, name_of
from kbbench_hf.runners.process_group import launch_warnings
from kbbench_hf.runners.progress import say
from kbbench_hf.runners.run_folder import default_folder, second_stage_folders
from kbbench_hf.runners.run_options import (
    AGENT,
    ANNOTATION,
    BY_NAME,
    LANGUAGE_MODEL,
    OPTIONS,
    REQUEST,
    RERANK,
    RETRIEVER,
    RunOptions,
    asking_options,
    check_names,
    language_model,
    plugged_model,
    price_of,
    prompt_options,
    refuse_options,
    sampling_of,
)
from kbbench_hf.scoring.asked import RUN, Asked, load_examples
from kbbench_hf.scoring.result import Result, write_result
from kbbench_hf.scoring.score import own_predictions, repeat_files, score, score_asked
from kbbench_hf.scoring.warnings import stored_warnings

if TYPE_CHECKING:
    from kbbench_hf.runners.annotators import Annotators
    from kbbench_hf.runners.cost import CostEstimate
    from kbbench_hf.runners.ranking import Latency
    from kbbench_hf.runners.retrieval_run import RankedRun, SecondStage
    from kbbench_hf.runners.run_summary import Summary
    from kbbench_hf.scoring.trajectories import Trajectory

Model = str | Searcher | LanguageModel


@dataclass(frozen=True)
class Run:
    """A finished run, and what it took."""

    asked: Asked
    folder: Path
    result: Result
    summary: "Summary | None" = None
    """What became of the prompts, where a language model answered some."""
    latency: "Latency | None" = None
    n_unread: int | None = None
    """Responses of a re-ranking model without a score."""
    stopped: KBBenchError | None = None
    """Why it could not go on, where it could not; what was answered is scored."""

    def words(self) -> str:
        """Return the counts, cost and latency of the run in words."""
        if self.summary is None:
            return str(self.latency or "")
        unread = "" if self.n_unread is None else f"\n{self.n_unread:,} responses without a score"
        return f"{self.summary}{unread}"


def run(benchmark: str, model: Model, **how: Unpack[RunOptions]) -> Result:
    """Run a model on a benchmark and return its result; the same call goes on where an interrupted run stopped.

    Args:
        benchmark: the dataset's name, or with its config, `genres-corpora/docred`.
        model: a name as on the command line, or any object with `search(queries, top_k)` (per query the dataset's ids,
            best first, or pairs of id and score), `generate(prompts, max_tokens)` (texts) or `async
            complete(messages, max_tokens)` (a text); see `kbbench_hf.protocols`.
        how: see `RunOptions`; what only another kind of model takes is refused.

    Raises:
        UsageError: a name or an option that does not exist, or another run in the folder.
        KBBenchError: the run could not go on; its folder holds the score of what was answered.
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
        done = finished_run(benchmark, model, **how)
    except InterruptedRunError as error:
        # Python exits with 130 after a KeyboardInterrupt, and with 1 after an error of a subclass.
        raise KeyboardInterrupt(*error.args) from None
    if done.stopped is not None:
        raise done.stopped
    return done.result


def finished_run(benchmark: str, model: Model, **how: Unpack[RunOptions]) -> Run:
    """Return what `run` does, with what the run took."""
    check_names(how)
    say(launch_warnings(), show=how.get("show", True))
    asked = load_examples(name_of_path(benchmark), None, how.get("split"), how.get("mode"), how.get("limit"))
    if isinstance(model, str) and (plugged := plugged_model(model, how)) is not None:
        how, model = {"name": model, **how}, cast("Searcher | LanguageModel", plugged)
    _check_model(model, asked)
    annotators = _annotators(asked, how)  # a wrong name is said before anything is asked, and perhaps paid for
    after = how.get("rerank") or how.get("agent")
    if not isinstance(model, str) and not isinstance(after, str):
        refuse_options(how, BY_NAME, "is for models that are named", asked.place.benchmark)
    if not asked.benchmark.asking.prompts:
        refuse_options(
            how,
            LANGUAGE_MODEL - (REQUEST if after else frozenset()),
            "is for language models",
            asked.place.benchmark,
        )
        done = _retrieved(asked, cast("str | Searcher", model), how)
    else:
        refuse_options(how, RETRIEVER, "is for retrievers", asked.place.benchmark)
        done = _answered(asked, cast("str | LanguageModel", model), how)
    if not getattr(model, "rank", 0):
        write_result(done.result, done.folder)
        if annotators is not None and done.stopped is None:
            done = _annotated(done, annotators, show=how.get("show", True))
    return replace(done, result=replace(done.result, folder=done.folder))


def estimate_run(benchmark: str, model: str, **how: Unpack[RunOptions]) -> "tuple[Prompt, CostEstimate]":
    """Return the first prompt of a run, and what the run would take.

    Where `base_url` names a server, one request is sent to measure its latency; its reply is thrown away.
    """
    from kbbench_hf.runners.cost import estimate
    from kbbench_hf.runners.llm_run import task

    check_names(how)
    asked = load_examples(name_of_path(benchmark), None, how.get("split"), how.get("mode"), how.get("limit"))
    question = task(asked, prompt=how.get("prompt"), options=prompt_options(how), similar_by=how.get("similar_by"))
    by_id = question.prompts
    prompts = list(by_id.values()) * how.get("repeats", OPTIONS["repeats"].default)
    price = price_of(model, how)
    measured, sent = _measure_request(by_id, model, how) if how.get("base_url") else (None, "Nothing was sent.")
    found = estimate(
        [prompt.messages for prompt in prompts],
        [how.get("max_tokens") or prompt.max_tokens for prompt in prompts],
        price=price,
        concurrency=how.get("concurrency", OPTIONS["concurrency"].default),
        measured=measured,
        sent=sent,
    )
    return prompts[0], found


def _measure_request(prompts: Mapping[Any, Prompt], name: str, how: RunOptions) -> tuple[float | None, str]:
    """Return the latency of the prompt of median length, in seconds, and what was sent."""
    from kbbench_hf.runners.generate import generate

    lengths = {key: sum(len(message["content"]) for message in prompt.messages) for key, prompt in prompts.items()}
    middle = sorted(lengths, key=lambda key: lengths[key])[len(lengths) // 2]
    settings: dict[str, Any] = {"canary": False, "attempts": 1, "concurrency": 1, "show": False}
    settings |= {"sampling": sampling_of(how), "structured": how.get("structured", False)}
    where = f"the server at {how['base_url']}"
    with TemporaryDirectory() as folder:
        try:
            done = generate({middle: prompts[middle]}, language_model(name, how), Path(folder), **settings)
        except KBBenchError as error:
            return None, f"The time is not measured, no request was answered: {error}"
        (record,) = done.records()
    if record["error"] is not None:
        why = f"{record['error']}: {record['detail'] or 'no detail'}"
        return None, f"The time is not measured: one request was sent to {where} and not answered ({why})."
    tokens = f"{record['prompt_tokens'] or '?'} tokens in, {record['completion_tokens'] or '?'} out"
    sent = f"One request was sent to {where} to measure the time: example {middle!r}, {tokens}, "
    return record["latency_s"], f"{sent}{record['latency_s']:.2f} s. Its reply is thrown away."


def _answered(asked: Asked, model: str | LanguageModel, how: RunOptions) -> Run:
    from kbbench_hf.runners.llm_run import answer, task

    question = task(asked, prompt=how.get("prompt"), options=prompt_options(how), similar_by=how.get("similar_by"))
    name = model if isinstance(model, str) else how.get("name") or name_of(model)
    answering = language_model(name, how) if isinstance(model, str) else model
    stopped: list[KBBenchError] = []
    folder, summary, result = answer(
        question,
        answering,
        name,
        how.get("out"),
        sampling=sampling_of(how),
        repeats=how.get("repeats", OPTIONS["repeats"].default),
        structured=how.get("structured", False),
        parser=how.get("parser"),
        on_stop=stopped.append,
        **asking_options(name, answering, how),
    )
    return Run(asked, folder, result, summary, stopped=stopped[0] if stopped else None)


def _annotators(asked: Asked, how: RunOptions) -> "Annotators | None":
    given = [option for option in how if option in ANNOTATION]
    if not given:
        return None
    from kbbench_hf.runners.annotators import annotation_rules, annotators_of

    annotation_rules(asked)
    if not (names := how.get("annotate")):
        raise UsageError(f"{given[0]} needs --annotate JUDGE,EMBEDDER. Add it, or leave {given[0]} out.")
    judging = {"base_url": how.get("judge_base_url"), "api_key_env": how.get("judge_api_key_env")}
    return annotators_of(
        names, thresholds=how.get("thresholds"), judging={name: value for name, value in judging.items() if value}
    )


def _annotated(done: Run, annotators: "Annotators", *, show: bool) -> Run:
    """Annotate the answers of a finished run, of each repeat, and score them with what was said of them."""
    from kbbench_hf.files import annotations_folder
    from kbbench_hf.runners.annotators import annotate_predictions, n_failed
    from kbbench_hf.scoring.predictions import read_predictions

    asked, settings = done.asked, read_json(done.folder / RUN)
    n_open = 0
    for file in repeat_files(done.folder, settings["settings"]["repeats"]):
        answers = read_predictions([file], asked.benchmark, asked.examples).answers
        made = annotate_predictions(asked, answers, annotations_folder(file), annotators, show=show)
        n_open += n_failed(made)
    result = score(done.folder, mode=asked.place.mode)
    write_result(result, done.folder)
    stopped = KBBenchError(f"{n_open:,} items have no verdict because requests failed. Run the same command again.")
    return replace(done, result=result, stopped=stopped if n_open else None)


def _retrieved(asked: Asked, model: str | Searcher, how: RunOptions) -> Run:
    second = _second(asked, model, how)
    out, requested = how.get("out"), None
    if second is not None and out is not None:
        out, requested = second_stage_folders(out)
    chosen: dict[str, Any] = {k: how[k] for k in ("top_k", "batch", "processes", "show") if k in how}
    if isinstance(model, str):
        from kbbench_hf.runners.retrieval_run import rank

        folder, latency, rows = rank(asked, model, out, **chosen)
    else:
        folder, latency, rows = _searched(asked, model, {**how, "out": out}, chosen)
    summary = unread = None
    trajectories: Sequence[Trajectory] = ()
    if second is not None:
        folder, summary, rows, unread, trajectories = second(folder, requested)
    predictions = own_predictions(asked, rows, folder / "predictions.jsonl")
    run = read_json(folder / RUN)
    result = score_asked(asked, predictions, stored_warnings(run.get("warnings", [])), trajectories)
    result = replace(result, texts=run.get("texts", {}))
    return Run(asked, folder, result, summary, latency, unread)


def _second(asked: Asked, base: str | Searcher, how: RunOptions) -> "Callable[[Path, Path | None], SecondStage] | None":
    """Return the function that re-ranks or lets an agent search, given a base run; check its options before that run.

    The function takes the folder of the base run and the folder to write (None: named after the base run).
    """
    rerank, agent = how.get("rerank"), how.get("agent")
    if rerank is not None and agent is not None:
        raise UsageError("--rerank and --agent both follow the model; expected one of them.")
    if agent is None:
        refuse_options(how, AGENT, "is for agents (--agent)", asked.place.benchmark)
    if rerank is None:
        refuse_options(how, RERANK, "is for models that re-rank (--rerank)", asked.place.benchmark)
    given = rerank if agent is None else agent
    if given is None:
        return None
    name = given.removeprefix("llm:") if isinstance(given, str) else name_of(given)
    model = language_model(name, how) if isinstance(given, str) else given
    options = {"structured": how.get("structured"), **asking_options(name, model, how)}
    if agent is None:
        return partial(_re_ranked, asked, model=model, name=name, options=options, how=how)
    from kbbench_hf.runners.agent import chosen_protocol

    options["protocol"] = chosen_protocol(model, how.get("protocol"), structured=how.get("structured"))
    return partial(_walked, asked, base=base, model=model, name=name, options=options, how=how)


def _re_ranked(
    asked: Asked,
    first: Path,
    folder: Path | None,
    *,
    model: LanguageModel,
    name: str,
    options: dict[str, Any],
    how: RunOptions,
) -> "SecondStage":
    from kbbench_hf.runners.retrieval_run import rerank

    wording = how.get("rerank_prompt", OPTIONS["rerank_prompt"].default)
    options |= {"sampling": sampling_of({**_usual_sampling(wording), **how})}
    options |= {
        "depth": how.get("depth", OPTIONS["depth"].default),
        "weight": how.get("rerank_weight"),
        "wording": wording,
    }
    return rerank(asked, first, model, name, folder=folder, **options)


def _walked(
    asked: Asked,
    first: Path,
    folder: Path | None,
    *,
    base: str | Searcher,
    model: LanguageModel,
    name: str,
    options: dict[str, Any],
    how: RunOptions,
) -> "SecondStage":
    from kbbench_hf.agents.agent import Limits
    from kbbench_hf.runners.retrieval_run import walk

    limits = Limits(
        max_steps=how.get("max_steps", OPTIONS["max_steps"].default),
        tokens=how.get("question_tokens", OPTIONS["question_tokens"].default),
    )
    for each in ("compact", "keep_texts", "tool_choice"):
        if each in how:
            options[each] = how[each]
    options |= {"limits": limits, "sampling": sampling_of(how), "folder": folder}
    return walk(asked, first, base, model, name, **options)


def _usual_sampling(wording: str) -> RunOptions:
    """Return how a re-ranking prompt is sampled where the caller does not say."""
    from kbbench_hf.retrieval.reranker import ASKING

    return {"temperature": ASKING[wording].temperature} if wording in ASKING else {}


def _searched(asked: Asked, model: Searcher, how: RunOptions, chosen: dict[str, Any]) -> "RankedRun":
    """Let an object search; it is not asked again to measure latency, since nobody knows what a search of it costs."""
    from kbbench_hf.runners.ranking import retrieve
    from kbbench_hf.runners.retrieval_run import RankedRun

    name = how.get("name") or name_of(model)
    settings = {**asked.settings(), "model": name}
    chosen["top_k"] = chosen.get("top_k") or 100
    folder = how.get("out") or default_folder(asked.place, name, {**settings, "top_k": chosen["top_k"]})
    return RankedRun(folder, *retrieve(asked.examples, lambda _: model, folder, settings, timed=False, **chosen))


def _check_model(model: Model, asked: Asked) -> None:
    """Refuse an object that cannot answer what is asked."""
    answered, methods = "retrievers", ["search"]
    if asked.benchmark.asking.prompts:
        answered, methods = "language models", ["generate", "complete"]
    if not isinstance(model, str) and not any(hasattr(model, each) for each in methods):
        raise UsageError(
            f"{asked.place.benchmark} evaluates {answered}; expected a name or an object with "
            f"{' or '.join(methods)}, not {type(model).__name__}."
        )
