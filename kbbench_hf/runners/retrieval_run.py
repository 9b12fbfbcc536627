"""Retrievers by name on a benchmark's knowledge base, and the tools of an agent that searches with one.

`run`, agents, re-rankers and training use it. The settings of a run (`about`, `top_k`, the model's name) decide its
default folder: with another default, the same command starts a new run.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbbench_hf.benchmarks import find_dataset
from kbbench_hf.benchmarks.base import Asking, Examples
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.model_specs import KINDS, Spec, did_you_mean, parse
from kbbench_hf.protocols import Searcher
from kbbench_hf.retrieval.context import Complete, Forms, RetrieverContext, RunQuery, candidate_rows
from kbbench_hf.retrieval.retrievers import RETRIEVERS, IdRetriever, NodeSearch, retriever
from kbbench_hf.runners.process_group import shared_cache
from kbbench_hf.runners.ranking import RankedRun, Site, retrieve
from kbbench_hf.runners.run_folder import default_folder
from kbbench_hf.scoring.eval_task import EvalTask, load_examples

if TYPE_CHECKING:
    from kbbench_hf.agents.tools import AgentTools, Search

TOP_K = 100
TRAINING = "train"
"""The split that models which learn from questions may see."""
MOST_RANKED = 3_000_000
"""All candidates are ranked for all queries if these are at most so many entries, about 80 MB.

Then the rank of each gold node is known, and MRR and MAP are those of whole rankings.
"""


def rank(task: EvalTask, model: str, folder: Path | None = None, *, top_k: int | None = None, **how: Any) -> RankedRun:
    """Rank the candidates of every query of a task; the same call resumes an interrupted run.

    `top_k` is by default the number of candidates if `MOST_RANKED` allows it, else 100. `folder` is by default
    one below `./kbbench-runs`. `how` goes to `rank_nodes`.

    Raises:
        UsageError: an unknown retriever, or `knn` for a benchmark without training questions.
    """
    for name in (each.name for each in parse(model).with_parts()):
        if name not in RETRIEVERS:
            if meant := did_you_mean(model):
                raise UsageError(f"Unknown retriever {name!r}.{meant} Retrievers: {KINDS}.")
            raise unknown_name("retriever", name, RETRIEVERS)
    kb = knowledge_base(task)
    if top_k is None:
        n_candidates = len(task.examples.context.candidates.ids)
        top_k = n_candidates if n_candidates * len(task.examples.rows) <= MOST_RANKED else TOP_K
    place = task.settings()
    if folder is None:
        chosen = {**place, "top_k": top_k, "n_examples": len(task.examples.rows)}
        folder = default_folder(task.task_key, model, chosen)
    how |= {"asking": task.benchmark.asking, "top_k": top_k, "training": _training(task, parse(model))}
    return rank_nodes(task.examples, kb, model, folder, about=place, **how)


def rank_nodes(
    examples: Examples,
    kb: KnowledgeBase,
    model: str,
    folder: Path,
    *,
    about: Mapping[str, Any],
    asking: Asking | None = None,
    training: Examples | None = None,
    cache: Path | None = None,
    embedder: Callable[..., Any] | None = None,
    complete: Callable[[str, Path], Complete] | None = None,
    **how: Any,
) -> RankedRun:
    """Rank the nodes of a knowledge base for every example, without a benchmark.

    Examples are rows with `id` and `query`; `context.candidates.ids`, if present, are the nodes that may be ranked.
    `model` is spelled as in `model_specs`; only `knn` sees the `training` split. `about` (benchmark, config, split and
    dataset revision) goes into `run.json`, `how` to `retrieve`. Embeddings are cached in `cache`, see `default_cache`;
    `embedder` creates the embedders of served models, `complete` the sampler of a served planner.
    """
    spec = parse(model)
    general = _context(examples, kb, asking or Asking(), training, cache)

    def build(site: Site) -> IdRetriever:
        shared = shared_cache(site.share, general.cache, folder)
        create = None if embedder is None else partial(embedder, warnings=site.warnings)
        place = replace(general, cache=shared, candidates=candidate_rows(examples, kb), embedder=create)
        notes: dict[str, Any] = {"revisions": site.revisions, "texts_read": site.texts, "warnings": site.warnings}
        place = replace(place, processes=site.share, progress=site.progress, complete=complete, **notes)
        return IdRetriever(retriever(spec, place), kb)

    return retrieve(examples, build, folder, {**about, "model": str(spec), "knowledge_base": kb.hash}, **how)


def _context(
    examples: Examples, kb: KnowledgeBase, asking: Asking, training: Examples | None, cache: Path | None = None
) -> RetrieverContext:
    return RetrieverContext(
        kb,
        cache or default_cache(),
        forms=Forms(asking.documents, asking.own_documents),
        training=None if training is None else [(row["query"], row["answer_ids"]) for row in training.rows],
        questions=[RunQuery(row["query"], row["id"], row.get("split", "")) for row in examples.rows],
    )


def agent_tools(task: EvalTask, base: "str | Searcher", embedder: Callable[..., Any] | None = None) -> "AgentTools":
    """Return the tools on a benchmark's knowledge base; they search with `base`, but all nodes and not only candidates.

    An agent searches for names: where a model reads the column `text` by default, it reads the whole record of a node.
    """
    from kbbench_hf.agents.tools import AgentTools

    kb = knowledge_base(task)
    found: Any = base
    if isinstance(base, str):
        spec = parse(base)
        place = _context(task.examples, kb, task.benchmark.asking, _training(task, spec))
        found = retriever(spec, replace(place, plain="clean", embedder=embedder))
    search: Search = found if isinstance(base, str) and hasattr(found, "matches") else NodeSearch(found, kb)
    return AgentTools(kb, search, candidate_rows(task.examples, kb))


def knowledge_base(task: EvalTask) -> KnowledgeBase:
    """Return the knowledge base of a benchmark."""
    return KnowledgeBase.open(find_dataset(task.task_key.benchmark).path)


def default_cache() -> Path:
    """Return the folder of cached embeddings: below `$XDG_CACHE_HOME`, by default `~/.cache`."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "kbbench-hf" / "embeddings"


def _training(task: EvalTask, spec: Spec) -> Examples | None:
    """Return the training questions for `knn`; None for other models.

    Raises:
        UsageError: the benchmark has none.
    """
    if all(each.name != "knn" for each in spec.with_parts()):
        return None
    if TRAINING not in task.benchmark.data.splits:
        raise UsageError(
            f"knn answers from training questions; {task.task_key.benchmark} has no split {TRAINING!r}. "
            "Take another model."
        )
    return load_examples(task.task_key.benchmark, task.task_key.config, TRAINING).examples
