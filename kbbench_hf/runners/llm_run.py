"""Runs of a language model on a benchmark: prompts, completions, predictions and result in one run folder.

`run`, testbeds and the tasks of other harnesses use it. `PromptedTask.settings` decide the default run folder and
whether a started run may be resumed: another key or value makes it another run.
"""

import glob
import hashlib
import json
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, Unpack

from kbbench_hf.benchmarks.base import Benchmark, PromptOptions
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import KBBenchError, UsageError, unknown_name
from kbbench_hf.files.datasets import read_json
from kbbench_hf.files.shards import end_shard
from kbbench_hf.protocols import LanguageModel
from kbbench_hf.runners.generate import generate
from kbbench_hf.runners.jobs import Prompts, Sampling
from kbbench_hf.runners.progress import say
from kbbench_hf.runners.run_folder import add_to_run, default_folder, open_run
from kbbench_hf.runners.run_options import RunOptions, given_options, prompt_options, sampling_of
from kbbench_hf.runners.run_status import has_open_prompts
from kbbench_hf.runners.run_summary import ALMOST_ALL, EQUAL, RunSummary
from kbbench_hf.scoring.eval_task import RUN, EvalTask
from kbbench_hf.scoring.options import ReadOptions
from kbbench_hf.scoring.result import Result, UsedPrompt
from kbbench_hf.scoring.score import own_predictions, repeat_files, score_with_annotations, with_repeats
from kbbench_hf.scoring.warnings import COPIED

N_HASHED_PROMPTS = 100
"""Prompts that `prompt_sha256` covers: enough to notice another wording, and fast."""


@dataclass(frozen=True)
class PromptedTask:
    """An evaluation task with one prompt: the prompts of its examples, and the settings of a run."""

    task: EvalTask
    prompt_name: str
    options: PromptOptions
    similar_by: str | None = None
    """The embedder that chose the demonstrations, with its revision; None for the dataset's own choice."""
    is_default: bool = False
    """Whether the prompt is the default: nobody chose it."""

    @cached_property
    def prompts(self) -> Prompts:
        """The prompts by example id, written when they are first needed."""
        write, examples = self.task.benchmark.asking.prompts[self.prompt_name], self.task.examples
        options = replace(self.options, mode=self.task.task_key.mode)
        return Prompts({row["id"]: partial(write, row, examples, options) for row in examples.rows})

    def settings(self, model: str, sampling: Sampling, repeats: int = 1, structured: bool = False) -> dict[str, Any]:
        """Return the settings that decide the results of a run of a model, as `run.json` has them."""
        return {
            **self.task.settings(),
            "n_examples": len(self.task.examples.rows),
            "model": model,
            "prompt": self.prompt_name,
            "prompt_sha256": self.prompt_sha256(),
            "prompt_options": self._options(),
            "similar_by": self.similar_by,
            "sampling": asdict(sampling),
            "repeats": repeats,
            "structured": structured,
        }

    def settings_of(self, model: str, options: RunOptions) -> dict[str, Any]:
        """Return the settings of a run of a model with these options."""
        chosen = given_options(options, "repeats", "structured")
        return self.settings(model, sampling_of(options), **chosen)

    def warnings(self) -> list[ScoreWarning]:
        """Return the warnings on these prompts, such as demonstrations that leak gold."""
        asking = self.task.benchmark.asking
        return asking.warn(self.task.examples, self.options) if asking.warn else []

    def _options(self) -> dict[str, Any]:
        """Return the prompt options as `run.json` has them.

        Benchmarks without a choice of demonstrations keep their first default, `similar`, so that their runs resume.
        """
        chosen = {name: value for name, value in asdict(self.options).items() if name != "mode"}
        if self.task.benchmark.asking.with_similar_ids is None and self.options.demonstrations == "leak-free":
            chosen["demonstrations"] = "similar"
        return chosen

    def prompt_sha256(self) -> str:
        """Return a hash of the first hundred prompts: it changes with the wording, the options and the data."""
        digest = hashlib.sha256()
        for prompt in islice(self.prompts.values(), N_HASHED_PROMPTS):
            digest.update(json.dumps(prompt.messages, sort_keys=True).encode() + b"\n")
        return digest.hexdigest()


def prompt_task(task: EvalTask, **options: Unpack[RunOptions]) -> PromptedTask:
    """Return the prompts of a run with these options.

    With `similar_by`, a sentence-transformers model selects the similar demonstrations again.

    Raises:
        UsageError: a name that does not exist, or a benchmark without prompts or without demonstrations to select.
    """
    name, asking = task.task_key.benchmark, task.benchmark.asking
    if not asking.prompts:
        raise UsageError(f"{name} is answered by retrievers; expected --model bm25, dense:..., graph:...")
    chosen, similar_by = options.get("prompt"), options.get("similar_by")
    prompt = chosen or next(iter(asking.prompts))
    if prompt not in asking.prompts:
        raise unknown_name(f"prompt of {name}", prompt, asking.prompts)
    if similar_by is not None:
        if asking.with_similar_ids is None:
            raise UsageError(f"{name} has no demonstrations to choose; leave --similar-by out.")
        from kbbench_hf.retrieval.embedders import SentenceEmbedder

        embedder = SentenceEmbedder(similar_by)
        task = task._replace(examples=asking.with_similar_ids(task.examples, embedder))
        similar_by = embedder.name
    return PromptedTask(task, prompt, prompt_options(options), similar_by, chosen is None)


def with_started_prompt(
    prompted: PromptedTask, settings: dict[str, Any], folder: Path | None, *, show: bool = True
) -> tuple[PromptedTask, dict[str, Any], Path]:
    """Return the task, settings and folder of a run; a started run keeps the prompt that its folder records.

    A started run is one in `folder`, or, without `folder`, an unfinished one in a default folder, whose settings differ
    in the prompt only. It keeps its prompt where the user chose none, or chose its name and the wording has changed
    since; a message says so. The benchmark still has that wording, perhaps under another name.
    """
    place, model = prompted.task.task_key, settings["model"]
    default = folder or default_folder(place, model, settings)
    if folder is None and not (default / RUN).is_file():
        others = default.parent.glob(f"{glob.escape(default.name.rpartition('-')[0])}-????????/{RUN}")
        runs = {file.parent: read_json(file).get("summary") or {"stopped": "not started"} for file in sorted(others)}
        folders = [each for each, summary in runs.items() if has_open_prompts(summary)]
    else:
        folders = [default]
    for each in folders:
        before = read_json(each / RUN).get("settings") or {} if (each / RUN).is_file() else {}
        own = {name: before.get(name) for name in ("prompt", "prompt_sha256")}
        same = before == json.loads(json.dumps({**settings, **own})) and before != settings
        if not same or not (prompted.is_default or own["prompt"] == prompted.prompt_name):
            continue
        for name in prompted.task.benchmark.asking.prompts:
            kept = replace(prompted, prompt_name=name)
            if kept.prompt_sha256() == own["prompt_sha256"]:
                today = "" if name == own["prompt"] else f", which is {name!r} today,"
                say([f"{each} started with the prompt {own['prompt']!r}{today} and keeps it."], show=show)
                return kept, {**settings, **own}, each
    return prompted, settings, default


def run_language_model(
    prompted: PromptedTask,
    model: LanguageModel,
    model_name: str,
    folder: Path | None = None,
    *,
    sampling: Sampling | None = None,
    repeats: int = 1,
    structured: bool = False,
    parser: str | None = None,
    **how: Any,
) -> tuple[Path, RunSummary, Result, KBBenchError | None]:
    """Send all prompts to a model, store and score the responses; return folder, summary, result and early end.

    A run that cannot continue is scored as far as it came; then the last item is the error that stopped it, else None.

    The result is the first repeat's, with the scores of all repeats in `repeats`. The same call resumes an interrupted
    run. `how` has options that do not change the results: concurrency, budgets, attempts (see `generate`).

    Raises:
        UsageError: an unknown parser, or another run in the folder.
        ShardEnd: with a `shard`, it has ended.
    """
    benchmark, examples, place, *_ = prompted.task
    parsers = benchmark.asking.parsers
    parser_name = parser or next(iter(parsers))
    if parser_name not in parsers:  # before a request is sent, and perhaps paid for
        raise unknown_name(f"parser of {place.benchmark}", parser_name, parsers)
    rows = {row["id"]: row for row in examples.rows}
    parse = parsers[parser_name]
    sampling = sampling or Sampling()
    settings = prompted.settings(model_name, sampling, repeats, structured)
    first = not getattr(model, "rank", 0)
    prompted, settings, folder = with_started_prompt(prompted, settings, folder, show=first and how.get("show", True))
    of_prompts = prompted.warnings()
    if first:
        say(of_prompts, show=how.get("show", True))
        open_run(folder, settings, {"processes": getattr(model, "n_processes", 1)}, shard=how.get("shard"))
    generation = generate(
        prompted.prompts,
        model,
        folder,
        sampling=sampling,
        repeats=repeats,
        structured=structured,
        parse=lambda text, example_id: parse(text, rows[example_id]),
        answer=benchmark.scoring.answer.field,
        title=f"Running {place.benchmark}",
        partial=True,
        **how,
    )
    end_shard(how.get("shard"), folder, generation.summary.n_open)
    reading = ReadOptions(source="response" if parser else "answer", parser=parser)
    warnings = [*of_prompts, *generation.warnings]
    result, *others = (
        score_with_annotations(
            prompted.task, own_predictions(prompted.task, rows, file, reading, check=False), file, warnings, settings
        )
        for rows, file in zip(generation.predictions, repeat_files(folder, repeats), strict=True)
    )
    result = with_repeats(replace(result, prompt=UsedPrompt.of_run(settings)), others)
    if _is_right(benchmark, result):
        warnings, shown = ([each for each in some if each.code != EQUAL] for some in (warnings, result.warnings))
        result = replace(result, warnings=shown)
    warnings += [each for each in result.warnings if each.code == COPIED]
    if first:
        plain, summary = [warning.to_dict() for warning in warnings], generation.summary.to_json()
        add_to_run(folder, model=generation.summary.model, parser=parser_name, summary=summary, warnings=plain)
    return folder, generation.summary, result, generation.stopped


def _is_right(benchmark: Benchmark, result: Result) -> bool:
    """Say whether nearly all examples are answered well: equal replies are right where all golds are equal."""
    scored = [metric for metric, estimate in result.scores.items() if estimate.n_scored]
    others = benchmark.scoring.unbounded | benchmark.scoring.lower_is_better
    shares = [result.scores[metric].value for metric in benchmark.headline_metrics(scored) if metric not in others]
    return bool(shares) and min(shares) >= ALMOST_ALL
