"""A retrieval benchmark run: rank, perhaps re-rank, and score, all in one folder."""

import re
from pathlib import Path
from typing import Any, NamedTuple

from kbbench_hf.benchmarks.base import Benchmark, Examples
from kbbench_hf.dataset_folder import read_json
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.hub.load import find_dataset
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.models import RETRIEVERS
from kbbench_hf.models.causal_lm import CausalLM
from kbbench_hf.models.endpoint import Endpoint
from kbbench_hf.models.specs import Spec, parse
from kbbench_hf.records import read_predictions
from kbbench_hf.runners.outcome import Summary
from kbbench_hf.runners.rerank import n_unread, rerank
from kbbench_hf.runners.retrieve import DOCUMENTS, Latency, Retrieval, retrieve
from kbbench_hf.runners.run_folder import RUN, add_to_run, default_folder, open_run
from kbbench_hf.scoring import Result, load_examples, score_examples, write_result

TOP_K = 100
TRAINING = "train"
"""The split that models which learn from questions may see."""
SMALL = 1000
"""All candidates of a knowledge base this small are ranked: then no answer's rank is left open."""


class Questions(NamedTuple):
    """The questions of one split, and the knowledge base that answers them."""

    benchmark: Benchmark
    examples: Examples
    place: dict[str, str]
    """Benchmark, config, split and dataset revision."""
    kb: KnowledgeBase


def questions(dataset: str, config: str | None = None, split: str | None = None, limit: int | None = None) -> Questions:
    """Return the questions of a split, with `limit` the first ones only."""
    benchmark, examples, revision = load_examples(dataset, config, split)
    place = {
        "benchmark": benchmark.dataset,
        "config": config or benchmark.configs[0],
        "split": split or benchmark.default_split,
        "dataset_revision": revision,
    }
    kb = KnowledgeBase.open(find_dataset(benchmark.dataset).path)
    return Questions(benchmark, Examples(examples.rows[:limit], examples.context), place, kb)


def run_retrieval(
    asked: Questions, model: str, folder: Path | None = None, *, top_k: int | None = None, **how: Any
) -> Retrieval:
    """Rank the candidates of every question; the same call goes on where an interrupted run stopped.

    `top_k` is 100 by default, and all candidates of a small knowledge base. `how` goes to `retrieve`.
    """
    names = _names(parse(model))
    for name in names:
        if name not in RETRIEVERS:
            raise unknown_name("retriever", name, RETRIEVERS)
    if top_k is None:
        top_k = len(asked.kb) if len(asked.kb) <= SMALL else TOP_K
    place = asked.place
    settings = {**place, "top_k": top_k, "n_examples": len(asked.examples.rows)}
    folder = folder or default_folder(place["benchmark"], place["config"], place["split"], model, settings)
    if "knn" in names:
        if TRAINING not in asked.benchmark.splits:
            raise UsageError(
                f"knn answers from training questions; {place['benchmark']} has no split {TRAINING!r}. "
                "Take another model."
            )
        how["training"] = load_examples(place["benchmark"], place["config"], TRAINING)[1]
    return retrieve(asked.examples, asked.kb, model, folder, about=place, top_k=top_k, **how)


def _names(spec: Spec) -> list[str]:
    """Return what a model is made of: its own name and its parts'."""
    return [spec.name, *(name for part in spec.parts for name in _names(part))]


def run_reranking(
    asked: Questions, first: Path, model: Endpoint | CausalLM, name: str, *, depth: int = 20, **how: Any
) -> tuple[Path, Summary, int]:
    """Re-rank the run in `first`; return the new run's folder, its summary, and how many answers held no score."""
    before = read_json(first / RUN)["settings"]
    documents = f"{DOCUMENTS.get(before['benchmark'], 'clean')}_relations"
    folder = first.with_name(f"{first.name}-{re.sub(r'[^A-Za-z0-9_.]+', '-', name)}-{depth}")
    open_run(folder, {**before, "rerank": name, "depth": depth, "documents": documents}, {})
    done = rerank(asked.examples, asked.kb, first, model, folder, depth=depth, rendering=documents, **how)
    unread = n_unread(done)
    add_to_run(folder, model=model.name, summary=done.summary.to_json(), n_unread=unread)
    return folder, done.summary, unread


def score_run(asked: Questions, folder: Path, mode: str | None = None) -> Result:
    """Score a finished run, and write its `result.json` and `scores.jsonl`."""
    predictions = read_predictions([folder / "predictions.jsonl"], asked.benchmark, asked.examples)
    place = asked.place
    result = score_examples(
        asked.benchmark,
        asked.examples,
        predictions,
        place["config"],
        place["split"],
        mode or asked.benchmark.modes[0],
        place["dataset_revision"],
    )
    write_result(result, folder)
    return result


def latency_text(latency: Latency) -> str:
    """Return a latency in words; nothing where none was measured."""
    if latency.latency_p50_s is None or latency.latency_p95_s is None:
        return ""
    p50, p95 = 1000 * latency.latency_p50_s, 1000 * latency.latency_p95_s
    return f"latency of one question: p50 {p50:.1f} ms, p95 {p95:.1f} ms (over {latency.n_timed})"
