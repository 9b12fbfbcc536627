"""Registry of retrievers: name -> address of the function that builds it, imported on first use.

`runners` and `training` build retrievers by `retriever`, and wrap them: runs need ids, agents need matches. Names are
written in runs and leaderboards: they stay.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.addresses import registered
from kbbench_hf.errors import UsageError
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.model_specs import KINDS, Spec, did_you_mean, parse
from kbbench_hf.protocols import Matches, Ranking, RankingExplanation, Retriever, Searcher, matched
from kbbench_hf.retrieval.context import RetrieverContext

RETRIEVERS = {
    "bm25": "kbbench_hf.retrieval.bm25:build",
    "dense": "kbbench_hf.retrieval.dense:build",
    "multi": "kbbench_hf.retrieval.dense:build_multi",
    "late": "kbbench_hf.retrieval.late_interaction:build",
    "vss": "kbbench_hf.retrieval.vss:build",
    "multi_vss": "kbbench_hf.retrieval.vss:build_multi",
    "rrf": "kbbench_hf.retrieval.fusion:build_reciprocal_rank",
    "weighted": "kbbench_hf.retrieval.fusion:build_weighted",
    "fuse": "kbbench_hf.retrieval.fusion:build_learned",
    "graph": "kbbench_hf.retrieval.graph_ranker.ranker:build",
    "plan": "kbbench_hf.retrieval.plan_ranker:build",
    "qagnn": "kbbench_hf.retrieval.qagnn:build",
    "knn": "kbbench_hf.retrieval.dense:build_nearest_questions",
    "search": "kbbench_hf.retrieval.search_server:build",
}


@dataclass(frozen=True)
class CandidateRetriever:
    """A retriever over the candidates alone, that returns their rows in the knowledge base."""

    retriever: Retriever
    rows: NDArray[np.int64]

    def search(self, queries: Sequence[str], top_k: int) -> Ranking:
        """Return the `top_k` best of these nodes for every query."""
        ranking = self.retriever.search(queries, top_k)
        return Ranking(np.where(ranking.ids < 0, -1, self.rows[ranking.ids]), ranking.scores)

    def matched(self, queries: Sequence[str]) -> NDArray[np.bool_]:
        """Return whether each query matches any of these nodes."""
        return matched(self.retriever, queries)


@dataclass(frozen=True)
class NodeSearch:
    """A searcher, by rows or by ids, as the search of an agent's tools: all nodes in its ranking match."""

    searcher: Retriever | Searcher
    kb: KnowledgeBase

    def matches(self, query: str) -> Matches:
        """Return the nodes that the searcher finds, rows ascending, and their scores; unknown ids are left out.

        Where a searcher gives ids alone, scores fall by 1 with each rank.
        """
        ranking = self.searcher.search([query], len(self.kb))
        if isinstance(ranking, Ranking):
            rows, scores = ranking.ids[0], ranking.scores[0]
        else:
            listed = enumerate(ranking[0])
            pairs = [each if isinstance(each, tuple) else (each, -float(position)) for position, each in listed]
            known = [self.kb.row_of(name) for name, _ in pairs]
            rows = np.array([-1 if row is None else row for row in known], np.int64)
            scores = np.array([score for _, score in pairs], np.float64)
        keep = np.flatnonzero(rows >= 0)
        keep = keep[np.argsort(rows[keep])]
        return Matches(rows[keep], scores[keep])


@dataclass(frozen=True)
class IdRetriever:
    """A retriever that returns the ids of nodes instead of their rows, as a run needs."""

    retriever: Retriever
    kb: KnowledgeBase

    def search(self, queries: Sequence[str], top_k: int) -> list[list[tuple[str | int, float]]]:
        """Return the `top_k` best nodes of every query, as pairs of id and score."""
        ranking = self.retriever.search(queries, top_k)
        return [
            list(zip(self.kb.ids(rows[rows >= 0]), scores[rows >= 0].tolist(), strict=True))
            for rows, scores in zip(ranking.ids, ranking.scores, strict=True)
        ]

    def matched(self, queries: Sequence[str]) -> NDArray[np.bool_]:
        """Return whether each query matches any node."""
        return matched(self.retriever, queries)

    def explain(self, query: str, gold: Sequence[str | int]) -> RankingExplanation | None:
        """Return the scores of the best node and of the gold nodes by signal; None where the retriever has none.

        Gold nodes that the knowledge base lacks are skipped.
        """
        explain = getattr(self.retriever, "explain", None)
        if explain is None:
            return None
        rows = [row for each in gold if (row := self.kb.row_of(each)) is not None]
        explanation: RankingExplanation = explain(query, np.array(rows, np.int64))
        return explanation


def retriever(model: str | Spec, context: RetrieverContext) -> Retriever:
    """Build the retriever that a name such as `bm25` or `rrf(bm25,dense:org/model)` describes.

    Its rankings are of rows of the knowledge base, also where only some nodes are candidates.

    Raises:
        UsageError: the name, a part of it or an option is not known.
    """
    spec = parse(model) if isinstance(model, str) else model
    context = replace(context, build=retriever, model=str(spec))
    if spec.name not in RETRIEVERS and (suggestion := did_you_mean(str(spec))):
        raise UsageError(f"Unknown retriever {str(spec)!r}.{suggestion} Retrievers: {KINDS}.")
    built: Retriever = registered("retriever", spec.name, RETRIEVERS)(spec, context)
    # The others know the candidates alone, by their places; these get rows from their parts or from training.
    answers_in_rows = spec.parts or spec.name in ("knn", "qagnn", "fuse", "plan")
    return built if answers_in_rows or context.candidates is None else CandidateRetriever(built, context.candidates)
