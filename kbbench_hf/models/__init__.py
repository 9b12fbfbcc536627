"""What answers: retrievers, embedders, language models and judges, each behind a Protocol of `kbbench_hf.protocols`.

The registry of retrievers is a table from a name to the address of what builds it, imported on request.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from kbbench_hf.errors import unknown_name
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.models.exact_search import Share
from kbbench_hf.models.specs import Spec, parse
from kbbench_hf.protocols import Retriever

RETRIEVERS = {
    "bm25": "kbbench_hf.models.bm25:build",
    "dense": "kbbench_hf.models.dense:build",
    "multi": "kbbench_hf.models.multi_vector:build",
    "rrf": "kbbench_hf.models.fusion:build_reciprocal_rank",
    "weighted": "kbbench_hf.models.fusion:build_weighted",
    "graph": "kbbench_hf.models.graph_ranker:build",
}


def _no_bar(title: str, total: int | None, *, done: int = 0) -> AbstractContextManager[Callable[[int], None]]:
    return nullcontext(lambda steps: None)


@dataclass(frozen=True)
class Workplace:
    """What a retriever is built with: the knowledge base, and how its runner shares out and shows the work."""

    kb: KnowledgeBase
    cache: Path
    """Where embeddings are kept between runs."""
    share: Share = field(default_factory=Share)
    progress: Callable[..., AbstractContextManager[Any]] = _no_bar
    """`progress(title, total, done=0)` opens a bar and gives the function that moves it on."""


def retriever(model: str | Spec, place: Workplace) -> Retriever:
    """Build the retriever that a name such as `bm25` or `rrf(bm25,dense:org/model)` describes.

    Raises:
        UsageError: the name, a part of it or an option is not known.
    """
    spec = parse(model) if isinstance(model, str) else model
    address = RETRIEVERS.get(spec.name)
    if address is None:
        raise unknown_name("retriever", spec.name, RETRIEVERS)
    module, _, attribute = address.partition(":")
    built: Retriever = getattr(import_module(module), attribute)(spec, place)
    return built
