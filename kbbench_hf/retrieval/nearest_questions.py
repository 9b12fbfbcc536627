"""k-nearest-questions control (knn): ranks the answers of the most similar training questions, without documents.

Its score is what shared answers of training questions alone give on a benchmark.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.errors import UsageError
from kbbench_hf.model_specs import Spec, positive
from kbbench_hf.protocols import Ranking, Retriever
from kbbench_hf.retrieval.bm25 import BM25
from kbbench_hf.retrieval.context import RetrieverContext
from kbbench_hf.retrieval.dense import Dense
from kbbench_hf.retrieval.embedders import from_spec
from kbbench_hf.retrieval.top_k import best, pad


def build(spec: Spec, context: RetrieverContext) -> "NearestQuestions":
    """Build `knn@k=`, which compares questions by BM25, or `knn:<model>@k=`, which compares their embeddings."""
    if context.training is None:
        raise UsageError(f"{str(spec)!r} answers from training questions; this run has none. Choose another model.")
    questions = [question for question, _ in context.training]
    if not spec.model:
        k = spec.read(k=(positive, 10))["k"]
        nearest: Retriever = BM25(questions)
    else:
        embedder, options = from_spec(spec, k=(positive, 10))
        context.revisions[spec.model] = embedder.name
        nearest, k = Dense(embedder.encode_queries(questions), embedder), options["k"]
    return NearestQuestions(questions, [context.kb.rows(answers) for _, answers in context.training], nearest, k)


@dataclass(frozen=True)
class NearestQuestions:
    """Ranks nodes by the summed similarity of the `k` nearest training questions that they answer, and no others.

    A training question equal to the query is left out, so that training questions can be queries too.
    """

    questions: Sequence[str]
    """The training questions."""
    answers: Sequence[NDArray[np.int64]]
    """The rows of the answers of each."""
    nearest: Retriever
    """Ranks the training questions."""
    k: int = 10
    """How many of them to use."""

    def search(self, queries: Sequence[str], top_k: int) -> Ranking:
        """Return the `top_k` best nodes of every query."""
        ranking = self.nearest.search(queries, self.k + 1)
        rows = [self._rank(*one, top_k) for one in zip(queries, ranking.ids, ranking.scores, strict=True)]
        return pad(rows, top_k)

    def _rank(
        self, query: str, nearest: NDArray[np.int64], scores: NDArray[np.float64], top_k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        found = zip(nearest, scores, strict=True)
        near = [(row, score) for row, score in found if score > 0 and self.questions[row] != query]
        credit: dict[int, float] = {}
        for row, score in near[: self.k]:
            for answer in set(self.answers[row].tolist()):
                credit[answer] = credit.get(answer, 0.0) + float(score)
        nodes = np.array(sorted(credit), dtype=np.int64)
        totals = np.array([credit[node] for node in nodes.tolist()])
        chosen = best(totals, top_k)
        return nodes[chosen], totals[chosen]
