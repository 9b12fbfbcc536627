"""BM25 retriever over the texts of nodes (bm25s)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.model_specs import Spec, one_of
from kbbench_hf.protocols import Matches, Ranking
from kbbench_hf.retrieval.context import TEXT, RetrieverContext
from kbbench_hf.retrieval.top_k import best, pad
from kbbench_hf.text.words import TERM, break_words

METHODS = ("lucene", "robertson", "atire", "bm25l", "bm25+")


def build(spec: Spec, context: RetrieverContext) -> "BM25":
    """Build `bm25@text=,relations=,k1=,b=,method=`."""
    options = spec.read(k1=(float, 1.5), b=(float, 0.75), method=(one_of(*METHODS), METHODS[0]), **TEXT)
    return BM25(context.texts(context.text(options, relations=False)), **options)


class BM25:
    """BM25 in Lucene's variant with the settings of published rankings: bm25s's own, English stop words, no stemming.

    A node without a word of the query has score 0 and is ranked too, so that a ranking can cover all candidates;
    `matched` tells which queries share a word with a node. Scripts without blanks are cut by `break_words`.

    Differs from upstream: the released code looks up the node of a text by the text. That merges nodes of equal text
    and fails with a `KeyError` since bm25s 0.2.

    Args:
        texts: one per node, in the order of the knowledge base.
        k1: saturation of the term frequency.
        b: normalization by text length.
        method: the variant, by its name in bm25s: lucene, robertson, atire, bm25l or bm25+.

    >>> BM25(["red apple", "green pear", "red pear"]).search(["red pears and a red pear"], 2).ids.tolist()
    [[2, 0]]
    """

    def __init__(self, texts: Sequence[str], k1: float = 1.5, b: float = 0.75, method: str = "lucene") -> None:
        import bm25s

        self._n = len(texts)
        self._index = bm25s.BM25(method=method, k1=k1, b=b)
        words = _tokenize(texts)
        if any(words.ids):
            self._index.index(words, show_progress=False)
        else:
            self._index.vocab_dict = {}

    def matches(self, query: str) -> Matches:
        """Return the nodes that share a word with a query, and their scores."""
        (known,) = self._known([query])
        shared = np.zeros(self._n, dtype=bool)
        if not known:
            return Matches(np.flatnonzero(shared), np.zeros(0, np.float32))
        postings, starts = self._index.scores["indices"], self._index.scores["indptr"]
        for word in known:
            shared[postings[starts[word] : starts[word + 1]]] = True
        rows = np.flatnonzero(shared)
        return Matches(rows, self._index.get_scores_from_ids(known)[rows])

    def search(self, queries: Sequence[str], top_k: int) -> Ranking:
        """Return the `top_k` best nodes of every query."""
        rows = []
        for known in self._known(queries):
            scores = self._index.get_scores_from_ids(known) if known else np.zeros(self._n, dtype=np.float32)
            positions = best(scores, top_k)
            rows.append((positions, scores[positions]))
        return pad(rows, top_k)

    def matched(self, queries: Sequence[str]) -> NDArray[np.bool_]:
        """Return whether each query shares a word with any node; its ranking is else in the order of the ids."""
        return np.array([bool(known) for known in self._known(queries)], dtype=bool)

    def _known(self, queries: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each query, of words that occur in a text."""
        return [self._index.get_tokens_ids(words) for words in _tokenize(queries, return_ids=False)]


def _tokenize(texts: Sequence[str], **options: Any) -> Any:
    import bm25s

    broken = [break_words(text) for text in texts]
    return bm25s.tokenize(broken, token_pattern=TERM, stopwords="en", show_progress=False, **options)
