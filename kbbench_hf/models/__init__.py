"""What answers: retrievers, embedders, language models and judges, each behind a Protocol of `kbbench_hf.protocols`.

The registry of retrievers is a table from a name to the address of what builds it, imported on request.
"""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.models.exact_search import Share
from kbbench_hf.models.renderings import render
from kbbench_hf.models.specs import Spec, parse
from kbbench_hf.protocols import Ranking, Retriever
from kbbench_hf.registry import registered

RETRIEVERS = {
    "bm25": "kbbench_hf.models.bm25:build",
    "dense": "kbbench_hf.models.dense:build",
    "multi": "kbbench_hf.models.multi_vector:build",
    "rrf": "kbbench_hf.models.fusion:build_reciprocal_rank",
    "weighted": "kbbench_hf.models.fusion:build_weighted",
    "graph": "kbbench_hf.models.graph_ranker:build",
    "knn": "kbbench_hf.models.nearest_questions:build",
}


def _no_bar(title: str, total: int | None, *, done: int = 0) -> AbstractContextManager[Callable[[int], None]]:
    return nullcontext(lambda steps: None)


@dataclass(frozen=True)
class Workplace:
    """What a retriever is built with: the knowledge base, and how its runner shares out and shows the work."""

    kb: KnowledgeBase
    cache: Path
    """Where embeddings are kept between runs."""
    candidates: NDArray[np.int64] | None = None
    """The rows to rank, ascending; all where None."""
    share: Share = field(default_factory=Share)
    progress: Callable[..., AbstractContextManager[Any]] = _no_bar
    """`progress(title, total, done=0)` opens a bar and gives the function that moves it on."""
    documents: str | None = None
    """The rendering that the benchmark's published figures used, where it has one of its own."""
    training: Sequence[tuple[str, Sequence[Any]]] | None = None
    """Training questions and the ids of their answers, for models that learn from them."""
    revisions: dict[str, str] = field(default_factory=dict)
    """Filled in as models are loaded: name -> revision."""

    @property
    def own_text(self) -> str:
        """The rendering that says what a node is, without its neighbours: the default for words."""
        return self.documents or "text"

    @property
    def full_text(self) -> str:
        """The rendering that says all there is: the default for embeddings."""
        return f"{self.documents}_relations" if self.documents else "named"

    def texts(self, rendering: str) -> list[str]:
        """Return the texts of the candidates, in the order of their rows."""
        return render(self.kb, rendering, self.candidates)

    @property
    def nodes(self) -> str:
        """What names the texts' owners: the hash of the knowledge base, and of the candidates where these are fewer."""
        if self.candidates is None:
            return self.kb.hash
        return f"{self.kb.hash}:{hashlib.sha256(self.candidates.tobytes()).hexdigest()}"


@dataclass(frozen=True)
class Among:
    """A retriever built on some nodes alone, answering with their rows in the knowledge base."""

    retriever: Retriever
    rows: NDArray[np.int64]

    def search(self, queries: Sequence[str], top_k: int) -> Ranking:
        """Return the `top_k` best of these nodes for every query."""
        found = self.retriever.search(queries, top_k)
        return Ranking(np.where(found.ids < 0, -1, self.rows[found.ids]), found.scores)


def retriever(model: str | Spec, place: Workplace) -> Retriever:
    """Build the retriever that a name such as `bm25` or `rrf(bm25,dense:org/model)` describes.

    Raises:
        UsageError: the name, a part of it or an option is not known.
    """
    spec = parse(model) if isinstance(model, str) else model
    built: Retriever = registered("retriever", spec.name, RETRIEVERS)(spec, place)
    answers_in_rows = spec.parts or spec.name == "knn"
    return built if answers_in_rows or place.candidates is None else Among(built, place.candidates)
