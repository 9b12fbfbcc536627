"""A generative benchmark run: examples to prompts, a model's answers, and their scores, all in one folder."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from kbbench_hf.benchmarks.base import Benchmark, Examples, Prompt, PromptFunction, PromptOptions
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.models.causal_lm import CausalLM
from kbbench_hf.models.embedders import SentenceEmbedder
from kbbench_hf.models.endpoint import Endpoint
from kbbench_hf.records import ReadOptions, read_predictions
from kbbench_hf.runners.cost import Price
from kbbench_hf.runners.generate import generate
from kbbench_hf.runners.jobs import Sampling
from kbbench_hf.runners.outcome import Summary
from kbbench_hf.runners.run_folder import add_to_run, default_folder, open_run
from kbbench_hf.scoring import Result, load_examples, score_examples, write_result

N_HASHED_PROMPTS = 100


@dataclass(frozen=True)
class Task:
    """What is asked: a benchmark's examples, put in the words of one prompt."""

    benchmark: Benchmark
    examples: Examples
    config: str
    split: str
    revision: str
    prompt_name: str
    options: PromptOptions
    similar_by: str | None = None
    """The embedder that chose the demonstrations, with its revision; None for the dataset's own choice."""

    def prompts(self) -> "Prompts":
        """Return the prompts by example id, rendered when they are asked for."""
        return Prompts(self.benchmark.prompts[self.prompt_name], self.examples, self.options)

    def settings(self, model: str, sampling: Sampling, repeats: int = 1, structured: bool = False) -> dict[str, Any]:
        """Return what decides the results of a run of a model."""
        return {
            "benchmark": self.benchmark.dataset,
            "config": self.config,
            "split": self.split,
            "dataset_revision": self.revision,
            "n_examples": len(self.examples.rows),
            "model": model,
            "prompt": self.prompt_name,
            "prompt_sha256": self.prompt_sha256(),
            "prompt_options": asdict(self.options),
            "similar_by": self.similar_by,
            "sampling": asdict(sampling),
            "repeats": repeats,
            "structured": structured,
        }

    def folder(self, model: str, settings: Mapping[str, Any]) -> Path:
        """Return where a run with these settings goes, if nothing else is said."""
        return default_folder(self.benchmark.dataset, self.config, self.split, model, settings)

    def prompt_sha256(self) -> str:
        """Return a hash of the first hundred prompts: it changes with the wording, the options and the data."""
        digest = hashlib.sha256()
        for example_id in self.examples.ids[:N_HASHED_PROMPTS]:
            digest.update(json.dumps(self.prompts()[example_id].messages, sort_keys=True).encode() + b"\n")
        return digest.hexdigest()


class Prompts(Mapping[Any, Prompt]):
    """Example id -> prompt, in the order of the dataset, rendered each time: contexts can be large."""

    def __init__(self, function: PromptFunction, examples: Examples, options: PromptOptions) -> None:
        self._function, self._examples, self._options = function, examples, options
        self._rows = {row["id"]: row for row in examples.rows}

    def __getitem__(self, example_id: Any) -> Prompt:
        """Render the prompt of an example."""
        return self._function(self._rows[example_id], self._examples, self._options)

    def __iter__(self) -> Iterator[Any]:
        """Yield the example ids."""
        return iter(self._rows)

    def __len__(self) -> int:
        """How many examples there are."""
        return len(self._rows)


def task(
    dataset: str,
    config: str | None = None,
    split: str | None = None,
    *,
    prompt: str | None = None,
    options: PromptOptions | None = None,
    limit: int | None = None,
    similar_by: str | None = None,
) -> Task:
    """Return what a run would ask; with `limit`, of the first examples only.

    With `similar_by`, a sentence-transformers model chooses the similar demonstrations anew.

    Raises:
        UsageError: a name that does not exist, or a benchmark that asks nothing of a language model, or has no
            demonstrations to choose.
    """
    benchmark, examples, revision = load_examples(dataset, config, split)
    if not benchmark.prompts:
        raise UsageError(f"{benchmark.dataset} is answered by retrievers; expected --model bm25, dense:..., graph:...")
    name = prompt or next(iter(benchmark.prompts))
    if name not in benchmark.prompts:
        raise unknown_name(f"prompt of {benchmark.dataset}", name, benchmark.prompts)
    chosen = Examples(examples.rows[:limit], examples.context)
    place = (config or benchmark.configs[0], split or benchmark.default_split)
    if similar_by is not None:
        if benchmark.with_similar_ids is None:
            raise UsageError(f"{benchmark.dataset} has no demonstrations to choose; leave --similar-by out.")
        embedder = SentenceEmbedder(similar_by)
        chosen, similar_by = benchmark.with_similar_ids(chosen, embedder), embedder.name
    return Task(benchmark, chosen, *place, revision, name, options or PromptOptions(), similar_by)


def run_generative(
    asked: Task,
    model: Endpoint | CausalLM,
    model_name: str,
    folder: Path | None = None,
    *,
    mode: str | None = None,
    sampling: Sampling | None = None,
    repeats: int = 1,
    structured: bool = False,
    parser: str | None = None,
    price: Price | None = None,
    **how: Any,
) -> tuple[Path, Summary, Result]:
    """Ask a model everything, keep every answer, score them; return the run's folder, its summary and its result.

    The result is the first repeat's, with the figures of all repeats in `repeats`. The same call goes on where an
    interrupted run stopped. `how` holds what does not change the results: concurrency, budgets, attempts (see
    `generate`).
    """
    mode, parser_name = mode or asked.benchmark.modes[0], parser or next(iter(asked.benchmark.parsers))
    for kind, name, known in (("mode", mode, asked.benchmark.modes), ("parser", parser_name, asked.benchmark.parsers)):
        if name not in known:  # said before anything is asked, and perhaps paid for
            raise unknown_name(f"{kind} of {asked.benchmark.dataset}", name, known)
    rows = {row["id"]: row for row in asked.examples.rows}
    parse = asked.benchmark.parsers[parser_name]
    sampling = sampling or Sampling()
    settings = asked.settings(model_name, sampling, repeats, structured)
    folder = folder or asked.folder(model_name, settings)
    processes = model.n_processes if isinstance(model, CausalLM) else 1
    first = not isinstance(model, CausalLM) or model.rank == 0
    if first:
        open_run(folder, settings, {"processes": processes})
    reading = ReadOptions(source="response" if parser else "answer", parser=parser)
    generation = generate(
        asked.prompts(),
        model,
        folder,
        sampling=sampling,
        repeats=repeats,
        structured=structured,
        parse=lambda text, example_id: parse(text, rows[example_id]),
        answer=asked.benchmark.answer,
        price=price,
        title=asked.benchmark.dataset,
        **how,
    )
    place = (asked.config, asked.split, mode, asked.revision)
    files = [folder / ("predictions.jsonl" if each == 0 else f"predictions.{each}.jsonl") for each in range(repeats)]
    result, *others = (
        score_examples(
            asked.benchmark, asked.examples, read_predictions([file], asked.benchmark, asked.examples, reading), *place
        )
        for file in files
    )
    if others:
        values = {metric: [each.scores[metric].value for each in (result, *others)] for metric in result.scores}
        result = replace(result, repeats=values)
    if first:
        write_result(result, folder)
        add_to_run(folder, model=model.name, summary=generation.summary.to_json())
    return folder, generation.summary, result
