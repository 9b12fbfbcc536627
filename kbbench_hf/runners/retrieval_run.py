"""Retrievers by name on a benchmark's knowledge base, with an optional second stage: reranker or agent."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kbbench_hf.benchmarks import find_dataset
from kbbench_hf.benchmarks.base import Asking, Examples
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.files.datasets import Row, read_json
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.model_specs import KINDS, Spec, did_you_mean, parse
from kbbench_hf.protocols import LanguageModel, Searcher
from kbbench_hf.retrieval.context import Complete, Forms, RetrieverContext, RunQuery, Text, candidate_rows
from kbbench_hf.retrieval.retrievers import RETRIEVERS, IdRetriever, NodeSearch, retriever
from kbbench_hf.runners.process_group import shared_cache
from kbbench_hf.runners.progress import say
from kbbench_hf.runners.ranking import Latency, Retrieved, Site, retrieve
from kbbench_hf.runners.run_folder import add_to_run, default_folder, open_run
from kbbench_hf.scoring.eval_task import RUN, EvalTask, load_examples

if TYPE_CHECKING:
    from kbbench_hf.agents.tools import AgentTools, Search
    from kbbench_hf.retrieval.reranker import RerankMethod
    from kbbench_hf.runners.run_summary import RunSummary
    from kbbench_hf.scoring.trajectories import Trajectory

TOP_K = 100
TRAINING = "train"
"""The split that models which learn from questions may see."""
MOST_RANKED = 3_000_000
"""All candidates are ranked for all questions where that makes at most so many entries, about 80 MB: then no answer's
rank is left open, and MRR and MAP are those of whole rankings."""


class RankedRun(NamedTuple):
    """A finished run of a retriever."""

    folder: Path
    latency: Latency
    rows: list[Row] | None
    """Its predictions, in the first process."""


class SecondStage(NamedTuple):
    """A finished run of a re-ranker or an agent over a first run."""

    folder: Path
    summary: "RunSummary"
    rows: list[Row]
    """Its predictions."""
    n_unread: int | None = None
    """Responses of a re-ranker without a score."""
    trajectories: "Sequence[Trajectory]" = ()
    """How an agent came to its answers."""


def rank(task: EvalTask, model: str, folder: Path | None = None, *, top_k: int | None = None, **how: Any) -> RankedRun:
    """Rank the candidates of every question; the same call goes on where an interrupted run stopped.

    `top_k` is by default the number of candidates where `MOST_RANKED` allows it, else 100. `how` goes to `rank_nodes`.
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
    return RankedRun(folder, *rank_nodes(task.examples, kb, model, folder, about=place, **how))


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
) -> Retrieved:
    """Rank the nodes of a knowledge base for every example; what `rank` does, without a benchmark.

    Examples are rows with `id` and `query`; `context.candidates.ids`, where there, says which nodes may be ranked.
    `model` is spelled as in `model_specs`; only `knn` sees the `training` split. `about` (benchmark, config, split and
    dataset revision) goes into `run.json`, `how` to `retrieve`. Embeddings are kept in `cache`, see `default_cache`;
    `embedder` creates the embedders of served models, `complete` what samples responses of a served planner.
    """
    spec = parse(model)
    general = _context(examples, kb, asking or Asking(), training, cache)

    def build(site: Site) -> IdRetriever:
        place = replace(
            general,
            cache=shared_cache(site.share, general.cache, folder),
            candidates=candidate_rows(examples, kb),
            processes=site.share,
            progress=site.progress,
            revisions=site.revisions,
            texts_read=site.texts,
            warnings=site.warnings,
            embedder=None if embedder is None else partial(embedder, warnings=site.warnings),
            complete=complete,
        )
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
    """Return the tools on a benchmark's knowledge base, which search as `base` does, but all nodes.

    What an agent walks over need not be a candidate, and it searches for names: where a model would read the column
    `text` by default, it reads all that is known of a node.
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


def rerank(
    task: EvalTask,
    first: Path,
    model: LanguageModel,
    name: str,
    *,
    folder: Path | None = None,
    depth: int = 20,
    weight: float | None = None,
    wording: str = "clean",
    method: "RerankMethod | None" = None,
    **how: Any,
) -> SecondStage:
    """Re-rank the run in `first` by the prompt named `wording`, or by a `method` without a prompt.

    `folder` is by default next to `first`, with its name, the model and the settings that are not the defaults.

    Raises:
        UnreadError: more than a tenth of the answers hold no score.
    """
    from kbbench_hf.retrieval.reranker import RANK_WEIGHT, RERANK_METHODS
    from kbbench_hf.runners.rerank import rerank_run

    usual_weight = RANK_WEIGHT if method is None else method.weight
    weight = usual_weight if weight is None else weight
    asking = task.benchmark.asking
    of_first = read_json(first / RUN)
    before = of_first["settings"]
    documents = Text(asking.own_documents or "clean", relations=True)
    own: dict[str, Any] = {"wording": wording, "weight": weight} if method is None else {"weight": weight}
    usual = {"wording": "clean", "weight": usual_weight}
    ways = "".join(f"-{key}-{value}" for key, value in own.items() if value != usual[key])
    folder = folder or first.with_name(f"{first.name}-{folder_part(name)}-{depth}{ways}")
    prompted = method is None
    method = method or RERANK_METHODS[wording]
    started = read_json(folder / RUN)["settings"] if (folder / RUN).is_file() else {"prompt_sha256": ""}
    if prompted and "prompt_sha256" in started:
        own["prompt_sha256"] = method.prompt_sha256
    elif prompted and started.get("wording") == wording == "clean":  # an earlier version started it
        method = RERANK_METHODS["clean-1"]
        say([f"{folder} started with the re-ranking prompt 'clean', which is 'clean-1' today, and keeps it."])
    settings = {**before, "rerank": name, "depth": depth, "documents": str(documents), **own}
    open_run(folder, settings, {}, shard=how.get("shard"))
    how |= {
        "depth": depth,
        "weight": weight,
        "asking": method,
        "rendering": documents,
        "forms": Forms(asking.documents),
    }
    done = rerank_run(task.examples, knowledge_base(task), first, model, folder, **how)
    summary, warnings = done.generation.summary, [warning.to_dict() for warning in done.warnings]
    facts = {"n_unread": done.n_unread, "structured": done.structured, **base_facts(of_first, warnings)}
    add_to_run(folder, model=summary.model, summary=summary.to_json(), **facts)
    return SecondStage(folder, summary, done.rows, done.n_unread)


def base_facts(run: Mapping[str, Any], warnings: Sequence[Any]) -> dict[str, Any]:
    """Return what a second stage takes over from the run before it: the texts read, and its warnings before its own."""
    return {"texts": run.get("texts", {}), "warnings": [*run.get("warnings", []), *warnings]}


def default_cache() -> Path:
    """Return where embeddings are kept: under `$XDG_CACHE_HOME`, by default `~/.cache`."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "kbbench-hf" / "embeddings"


def folder_part(model: str) -> str:
    """Return what of a model's name can stand in a folder's."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", model)


def _training(task: EvalTask, spec: Spec) -> Examples | None:
    """Return the training questions, for a model that answers from them.

    Raises:
        UsageError: there are none.
    """
    if all(each.name != "knn" for each in spec.with_parts()):
        return None
    if TRAINING not in task.benchmark.data.splits:
        raise UsageError(
            f"knn answers from training questions; {task.task_key.benchmark} has no split {TRAINING!r}. "
            "Take another model."
        )
    return load_examples(task.task_key.benchmark, task.task_key.config, TRAINING).examples
