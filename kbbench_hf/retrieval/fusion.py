"""Fusion of rankings: reciprocal rank fusion (rrf), weighted scores, learned weights.

`retrieval.retrievers` builds them as `rrf`, `weighted` and `fuse`. `training.fusion` learns weights for `min_max` at
`DEPTH`, and writes them into the `fusion.json` that `fuse` reads: these three go together.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.errors import UsageError
from kbbench_hf.files import file_sha256
from kbbench_hf.model_specs import Spec, parse, positive
from kbbench_hf.protocols import Ranking, Retriever, matched
from kbbench_hf.retrieval.context import RetrieverContext
from kbbench_hf.retrieval.top_k import top_k_by_query
from kbbench_hf.retrieval.trained_folder import FUSION, record, trained_folder

DEPTH = 10_000
"""Depth of each ranking, so deep that the cut does not affect the scaling of scores."""

Credit = Callable[[Ranking], NDArray[np.float64]]
"""Ranking -> the contribution of each entry to its candidate's score, shape (queries, k)."""


def build_reciprocal_rank(spec: Spec, context: RetrieverContext) -> "Fusion":
    """Build `rrf(a,b,...)@k=,depth=`."""
    options = spec.read(k=(positive, 60), depth=(positive, DEPTH))
    return Fusion(_parts(spec, context), lambda ranking: reciprocal_rank(ranking, options["k"]), depth=options["depth"])


def build_weighted(spec: Spec, context: RetrieverContext) -> "Fusion":
    """Build `weighted(a,b,...)@weights=0.3/0.7,depth=`; equal weights where none are given."""
    options = spec.read(weights=(_parse_weights, None), depth=(positive, DEPTH))
    weights = options["weights"]
    if weights is not None and len(weights) != len(spec.parts):
        raise UsageError(f"{len(weights)} weights for {len(spec.parts)} models in {spec}; expected one each.")
    return Fusion(_parts(spec, context), min_max, weights, options["depth"])


def build_learned(spec: Spec, context: RetrieverContext) -> "Fusion":
    """Build `fuse:<model>`, a folder or a name on the Hub: `weighted` with its models and weights."""
    spec.read()
    folder = trained_folder(spec.model, FUSION, "fuse")
    context.revisions[spec.model] = file_sha256(folder / FUSION)
    learned = record(folder, FUSION)
    return Fusion([context.part(parse(part)) for part in learned["parts"]], min_max, learned["weights"])


@dataclass(frozen=True)
class Fusion:
    """Ranks candidates by the sum of their credits in the rankings; 0 in a ranking without them."""

    retrievers: Sequence[Retriever]
    """Two or more."""
    credit: Credit
    """`reciprocal_rank` or `min_max`."""
    weights: Sequence[float] | None = None
    """One per retriever; equal where None."""
    depth: int = DEPTH
    """The depth of each ranking."""

    def search(self, queries: Sequence[str], top_k: int) -> Ranking:
        """Return the `top_k` best nodes of every query, of those in any ranking; equal scores in order of the rows."""
        depth = max(top_k, self.depth)
        found = []
        for retriever, weight in zip(self.retrievers, self.weights or repeat(1.0), strict=False):
            ranking = retriever.search(queries, depth)
            row, column = np.nonzero(ranking.ids >= 0)
            found.append((row, ranking.ids[row, column], weight * self.credit(ranking)[row, column]))
        query, nodes, credits = map(np.concatenate, zip(*found, strict=True))
        width = int(nodes.max(initial=0)) + 1  # a pair of query and node is one number: query * width + node
        pairs, position = np.unique(query * width + nodes, return_inverse=True)
        totals = np.bincount(position, credits, len(pairs)).astype(np.float64)
        return top_k_by_query(pairs // width, pairs % width, totals, len(queries), top_k)

    def matched(self, queries: Sequence[str]) -> NDArray[np.bool_]:
        """Return whether any retriever matches each query."""
        result: NDArray[np.bool_] = np.any([matched(each, queries) for each in self.retrievers], axis=0)
        return result


def reciprocal_rank(ranking: Ranking, k: int = 60) -> NDArray[np.float64]:
    """Return 1 / (k + rank) with ranks from 1. Source: Cormack, Clarke and Buettcher, SIGIR 2009.

    >>> reciprocal_rank(Ranking(np.array([[7, 3]]), np.array([[0.9, 0.1]]))).round(4).tolist()
    [[0.0164, 0.0161]]
    """
    return np.broadcast_to(1.0 / (k + 1.0 + np.arange(ranking.ids.shape[1])), ranking.ids.shape)


def min_max(ranking: Ranking) -> NDArray[np.float64]:
    """Return the scores of each row scaled to 0 ... 1, padding 0; all 0 where they are equal or there are none.

    >>> min_max(Ranking(np.array([[4, 9, 2]]), np.array([[3.0, 2.0, 1.0]]))).tolist()
    [[1.0, 0.5, 0.0]]
    """
    ranked = ranking.ids >= 0
    scores = np.where(ranked, ranking.scores, 0.0)
    low = np.min(scores, axis=1, where=ranked, initial=np.inf, keepdims=True)
    high = np.max(scores, axis=1, where=ranked, initial=-np.inf, keepdims=True)
    span = np.where(high > low, high - low, 1.0)
    scaled: NDArray[np.float64] = np.where(ranked & (high > low), (scores - low) / span, 0.0)
    return scaled


def _parts(spec: Spec, context: RetrieverContext) -> list[Retriever]:
    if len(spec.parts) < 2:
        raise UsageError(f"{str(spec)!r} fuses {len(spec.parts)} models; expected two or more: {spec.name}(bm25,...).")
    return [context.part(part) for part in spec.parts]


def _parse_weights(value: str) -> list[float]:
    weights = [float(weight) for weight in value.split("/")]
    if any(not 0 <= weight < float("inf") for weight in weights) or not sum(weights):
        raise ValueError("expected numbers from 0 up, not all 0, such as 0.3/0.7")
    return weights
