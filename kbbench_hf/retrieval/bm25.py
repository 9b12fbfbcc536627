"""BM25 retriever over the texts of nodes (bm25s).

`retrieval.retrievers` builds it as `bm25`; it also searches training questions (`knn`), and for the tools of agents.
Published rankings use it: words, stop words, variants and float32 scores stay equal to those of bm25s.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.knowledge_base.graph import index_type, transposed
from kbbench_hf.model_specs import Spec, one_of
from kbbench_hf.protocols import Matches, Ranking
from kbbench_hf.retrieval.context import PART, TEXT, RetrieverContext
from kbbench_hf.retrieval.top_k import best_of_rows
from kbbench_hf.text.words import TERM, break_words

DELTA = 0.5
"""The least gain of a word in bm25l and bm25+, as bm25s has it."""
_Gain = Callable[[Any, Any, float], Any]
_Odds = Callable[[int, int], float]
METHODS: Mapping[str, tuple[_Gain, _Odds]] = {
    "lucene": (lambda tf, norm, k1: tf / (k1 * norm + tf), lambda n, df: 1 + (n - df + 0.5) / (df + 0.5)),
    "robertson": (lambda tf, norm, k1: tf / (k1 * norm + tf), lambda n, df: max((n - df + 0.5) / (df + 0.5), 1)),
    "atire": (lambda tf, norm, k1: tf * (k1 + 1) / (tf + k1 * norm), lambda n, df: n / df),
    "bm25l": (
        lambda tf, norm, k1: (k1 + 1) * (tf / norm + DELTA) / (k1 + tf / norm + DELTA),
        lambda n, df: (n + 1) / (df + 0.5),
    ),
    "bm25+": (lambda tf, norm, k1: (k1 + 1) * tf / (k1 * norm + tf) + DELTA, lambda n, df: (n + 1) / df),
}
"""The variants by their names in bm25s, whose scores are the same to the last bit: two functions each.

The gain of a word that occurs `tf` times in a text with this length norm; and the odds from the number `n` of texts and
the number `df` of those with the word. The logarithm of the odds is the weight of the word.
"""


def build(spec: Spec, context: RetrieverContext) -> "BM25":
    """Build `bm25@text=,relations=,k1=,b=,method=`."""
    options = spec.read(k1=(float, 1.5), b=(float, 0.75), method=(one_of(*METHODS), "lucene"), **TEXT)
    return BM25(context.each_text(context.text(options, relations=False)), **options)


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

    def __init__(self, texts: Iterable[str], k1: float = 1.5, b: float = 0.75, method: str = "lucene") -> None:
        import bm25s

        counts = _count_words(texts)
        self._n = len(counts.lengths)
        self._index = bm25s.BM25(method=method, k1=k1, b=b)
        self._index.vocab_dict = counts.vocabulary
        if counts.vocabulary:
            self._index.scores, self._index.nonoccurrence_array = _score(counts, *METHODS[method], k1, b)

    def matches(self, query: str) -> Matches:
        """Return the nodes that share a word with a query, rows ascending, and their scores; empty without a word."""
        (known,) = self._token_ids([query])
        shared = np.zeros(self._n, dtype=bool)
        for word in known:
            start, stop = self._index.scores["indptr"][word : word + 2]
            shared[self._index.scores["indices"][start:stop]] = True
        rows = np.flatnonzero(shared)
        return Matches(rows, self._scores(known)[rows])

    def search(self, queries: Sequence[str], top_k: int) -> Ranking:
        """Return the `top_k` best nodes of every query; equal scores in the order of the rows, score 0 included."""
        return best_of_rows(map(self._scores, self._token_ids(queries)), top_k)

    def _scores(self, known: list[int]) -> Any:
        return self._index.get_scores_from_ids(known) if known else np.zeros(self._n, dtype=np.float32)

    def matched(self, queries: Sequence[str]) -> NDArray[np.bool_]:
        """Return whether each query shares a word with any node; the ranking of others is the order of the rows."""
        return np.array([bool(known) for known in self._token_ids(queries)], dtype=bool)

    def _token_ids(self, queries: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each query: of words that occur in a text, once for each time in the query."""
        known = self._index.vocab_dict
        return [[known[word] for word in _terms(query) if word in known] for query in queries]


def _terms(text: str) -> list[str]:
    """Return the words of a text in the order of the text."""
    return re.findall(TERM, break_words(text).lower())


class _WordCounts(NamedTuple):
    """The words of all texts, without stop words, numbered in the order in which they occur first."""

    vocabulary: dict[str, int]
    lengths: NDArray[np.int64]
    """The number of words of each text."""
    sizes: NDArray[np.int64]
    """The number of different words of each text."""
    parts: list[tuple[NDArray[np.int32], NDArray[np.float32]]]
    """For each block of `PART` texts: their different words, text by text, and how often each occurs there."""


def _count_words(texts: Iterable[str]) -> _WordCounts:
    """Return the words of texts and their counts; stop words are numbered first, so that they are easy to leave out."""
    from bm25s.stopwords import STOPWORDS_EN

    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__  # the next number for a new word
    n_stop = len([numbers[word] for word in sorted(STOPWORDS_EN)])
    texts = iter(texts)
    lengths, sizes, parts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], []
    while some := list(islice(texts, PART)):  # bm25s counts text by text, which takes twice the time
        of_texts = [list(map(numbers.__getitem__, _terms(text))) for text in some]
        owners = np.repeat(np.arange(len(some)), list(map(len, of_texts)))
        words = np.fromiter(chain.from_iterable(of_texts), np.int64, len(owners))
        owners, words = owners[words >= n_stop], words[words >= n_stop] - n_stop
        pairs, times = np.unique(owners * len(numbers) + words, return_counts=True)
        lengths.append(np.bincount(owners, minlength=len(some)))
        sizes.append(np.bincount(pairs // len(numbers), minlength=len(some)))
        parts.append(((pairs % len(numbers)).astype(np.int32), times.astype(np.float32)))
    vocabulary = {word: number - n_stop for word, number in islice(numbers.items(), n_stop, None)}
    return _WordCounts(vocabulary, np.concatenate(lengths), np.concatenate(sizes), parts)


def _score(counts: _WordCounts, gain: _Gain, odds: _Odds, k1: float, b: float) -> tuple[dict[str, Any], Any]:
    """Return the index of bm25s: the score of each word in each text, word by word; and scores of absent words.

    Scores are relative to those of absent words, which are None where all are 0. The counts in `counts.parts` are
    overwritten, to save memory.
    """
    n, mean = len(counts.lengths), counts.lengths.mean()
    frequencies = sum(np.bincount(words, minlength=len(counts.vocabulary)) for words, _ in counts.parts)
    known, place = np.unique(frequencies, return_inverse=True)
    weights = np.array([math.log(odds(n, df)) for df in known.tolist()])[place]
    absent = (weights * gain(0, 1 - b + b * mean / mean, k1)).astype(np.float32)
    weights, norms = weights.astype(np.float32), 1 - b + b * counts.lengths / mean
    for number, (words, scores) in enumerate(counts.parts):  # one at a time: float64 of all would fill the memory
        some = slice(number * PART, (number + 1) * PART)
        own = np.repeat(norms[some], counts.sizes[some])
        scores[:] = weights[words] * gain(scores, own, k1) - absent[words]
    words, scores = (np.concatenate(column) for column in zip(*counts.parts, strict=True))
    counts.parts.clear()
    starts = np.concatenate([[0], np.cumsum(counts.sizes)]).astype(index_type(len(words)))
    by_word = transposed(scores, words, starts, (n, len(counts.vocabulary)))
    texts, starts = by_word.indices.astype(np.int32, copy=False), by_word.indptr.astype(np.int64)
    return {"data": by_word.data, "indices": texts, "indptr": starts, "num_docs": n}, absent if absent.any() else None
