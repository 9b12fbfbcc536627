"""GenRES scores of relation extraction: topical similarity, uniqueness, factualness, granularity, completeness.

Source: Jiang et al., "GenRES: Rethinking Evaluation for Generative Relation Extraction in the Era of Large Language
Models", NAACL 2024. Every function returns one value per document. Outputs of models (topics, vectors, verdicts,
splits) are arguments.

There are three modes. `reference` is the behavior of the authors' release. `fixed` gives an empty answer zero on every
score, drops malformed and repeated triples, considers the direction of a relation, and measures completeness only if
there is gold. `fixed-2` also compares names by their letters and digits, because texts are tokenized and gold is not:
"Washington , DC" is "washington, dc" (`triple_lists.spelling_key`). Topics are those of `fixed`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.text.porter import NltkVersion

MODES = ("reference", "fixed", "fixed-2")
TOPIC_MODES: Mapping[str, str] = {"reference": "reference", "fixed": "fixed", "fixed-2": "fixed"}
"""Mode -> the mode whose topics and prompt lists it uses."""
WORDS: Mapping[str, NltkVersion] = {"reference": "3.9", "fixed": "3.10", "fixed-2": "3.10"}
"""Mode -> version of the tokenizer. The authors' stored token counts and dictionaries are NLTK 3.9.2's."""

Floats = NDArray[np.float64]

EMPTY_SCORES: dict[str, Mapping[str, float]] = {
    "reference": {"uniqueness": 1.0}
    | dict.fromkeys("factualness completeness triples_per_document tokens_per_triple".split(), 0.0)
    | dict.fromkeys("granularity precision recall f1".split(), math.nan),
    "fixed": dict.fromkeys(
        """topical_similarity uniqueness factualness granularity completeness triples_per_document tokens_per_triple
        precision recall f1""".split(),
        0.0,
    )
    | {"tokens_per_triple": math.nan},
}
EMPTY_SCORES |= {"fixed-2": EMPTY_SCORES["fixed"]}
"""Scores of a document without predicted triples. In `reference` its topical similarity comes from the topic model,
which gives an empty text equal shares. The last five are descriptions or the hard-match baseline."""


def topical_similarity(source: Floats, triples: Floats) -> Floats:
    """Return TS per document: exp(-KL(source || triples)) of two topic distributions.

    Args:
        source: topic shares of the source texts, shape (documents, topics).
        triples: topic shares of the predicted triples read as one text, same shape. Rows of NaN give NaN.

    >>> topical_similarity(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([[0.5, 0.5], [0.5, 0.5]]))
    array([1. , 0.5])
    """
    if not len(source):
        return np.empty(0)
    p = source / source.sum(axis=1, keepdims=True)
    q = triples / triples.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        divergence = np.where(p == 0, 0.0, p * np.log(p / q)).sum(axis=1)
    unscored = np.isnan(source).any(axis=1) | np.isnan(triples).any(axis=1)
    return np.where(unscored, math.nan, np.exp(-divergence))


def uniqueness(vectors: Iterable[NDArray[np.floating] | None], threshold: float, *, empty: float) -> Floats:
    """Return US per document: the share of pairs of triples whose cosine is below the threshold.

    A single triple has no pair and scores 1.

    Args:
        vectors: per document, one row per triple (the sum of its elements' vectors), shape (triples, dimension); None
            if the document is not scored. A generator, they need not fit into memory together.
        threshold: the cosine from which two triples are equivalent. It depends on the embedder.
        empty: the value of a document without triples.

    >>> a, b = [1.0, 0.0], [0.0, 1.0]
    >>> uniqueness([np.array([a, a, b]), np.array([a]), np.zeros((0, 2))], 0.9, empty=0.0)  # pairs: aa, ab, ab
    array([0.66666667, 1.        , 0.        ])
    """
    scores = (math.nan if rows is None else _uniqueness(rows, threshold, empty) for rows in vectors)
    return np.fromiter(scores, np.float64)


def _uniqueness(rows: NDArray[np.floating], threshold: float, empty: float) -> float:
    n = len(rows)
    if n < 2:
        return 1.0 if n else empty
    cosines = rows @ rows.T
    lengths = _lengths(cosines.diagonal())
    cosines /= lengths[:, None]
    cosines /= lengths
    np.fill_diagonal(cosines, math.inf)
    return np.count_nonzero(cosines < threshold) / (n * (n - 1))


def factualness(verdicts: Sequence[Sequence[float | None] | None], *, empty: float) -> Floats:
    """Return FS per document: the mean verdict on its triples, 1 for a fact that the text supports.

    A triple without a verdict (None: the judge failed) is not in the mean; a document without verdicts is not scored.

    Args:
        verdicts: per document, one verdict per triple; None if the document is not scored.
        empty: the value of a document without triples.

    >>> factualness([[1, 0, None], [], [None]], empty=0.0)
    array([0.5, 0. , nan])
    """
    return _means(verdicts, empty)


def granularity(splits: Sequence[Sequence[int | None] | None], *, empty: float) -> Floats:
    """Return GS per document: the mean of exp(-n), n the number of sub-triples that a triple splits into.

    A single sub-triple counts as no split. A triple without a count (None) is not in the mean.

    Args:
        splits: per document, one number of sub-triples per triple; None if the document is not scored.
        empty: the value of a document without triples.

    >>> granularity([[0, 1, 2]], empty=0.0)  # (1 + 1 + exp(-2)) / 3
    array([0.71177843])
    """

    def score(n: int | None) -> float | None:
        return None if n is None else math.exp(-n if n > 1 else 0)

    return _means([None if row is None else [*map(score, row)] for row in splits], empty)


def count_pairs(reply: str) -> int:
    """Return the number of sub-triples in a judge's response as the release counts it: its pairs of brackets.

    A bracket inside an entity counts too.

    >>> count_pairs('["a", "r", "b"] ["a", "r", "[SOD1]"] Granularity: 2')
    3
    """
    return min(reply.count("["), reply.count("]"))


def completeness(similarities: Iterable[NDArray[np.floating] | None], threshold: float) -> Floats:
    """Return CS per document: the share of gold triples with a predicted triple at or above the threshold.

    Args:
        similarities: per document, the cosines of gold (rows) and predicted triples (columns); None if the document
            is not scored. A document without predicted triples has rows and no columns and scores 0; one without gold
            is not scored.
        threshold: the cosine from which two triples are equivalent. It depends on the embedder.

    Differs from upstream: there, a gold list that is present but empty scores 1; the release has none.

    >>> completeness([np.array([[0.2, 0.99], [0.5, 0.1]]), np.zeros((2, 0)), np.zeros((0, 3))], 0.95)
    array([0.5, 0. , nan])
    """
    scores = (
        math.nan if cosines is None or not len(cosines) else (cosines >= threshold).any(axis=1).mean()
        for cosines in similarities
    )
    return np.fromiter(scores, np.float64)


def all_cosines(gold: NDArray[np.floating], predicted: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the cosines of gold (rows) and predicted triples (columns); 0 for a vector of length 0.

    >>> all_cosines(np.array([[1.0, 0.0]]), np.array([[2.0, 0.0], [0.0, 1.0], [0.0, 0.0]]))
    array([[1., 0., 0.]])
    """
    cosines: NDArray[np.floating] = gold @ predicted.T
    cosines /= _lengths(np.einsum("ij,ij->i", gold, gold))[:, None]
    cosines /= _lengths(np.einsum("ij,ij->i", predicted, predicted))
    return cosines


def find_reversed(gold: NDArray[np.floating], predicted: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Return which predicted triples (columns) are closer to which gold triples (rows) with head and tail exchanged.

    A triple's vector is the sum of its elements', which has no direction: those of [a, r, b] and [b, r, a] are equal.

    Args:
        gold: element vectors, shape (gold triples, 3, dimension): head, relation, tail.
        predicted: the same of the predicted triples.

    >>> a, r, b = np.eye(3)
    >>> find_reversed(np.array([[a, r, b]]), np.array([[a, r, b], [b, r, a]]))
    array([[False,  True]])
    """
    heads, tails = all_cosines(gold[:, 0], predicted[:, 0]), all_cosines(gold[:, 2], predicted[:, 2])
    crossed = all_cosines(gold[:, 0], predicted[:, 2]) + all_cosines(gold[:, 2], predicted[:, 0])
    turned: NDArray[np.bool_] = crossed > heads + tails
    return turned


def _lengths(squares: NDArray[np.floating]) -> NDArray[np.floating]:
    lengths: NDArray[np.floating] = np.sqrt(squares)
    lengths[lengths == 0] = 1
    return lengths


def _means(rows: Sequence[Sequence[float | None] | None], empty: float) -> Floats:
    """Return the mean of each row without None: `empty` of an empty row, NaN of no row or no value."""
    scores = np.full(len(rows), math.nan)
    for document, row in enumerate(rows):
        values = [value for value in row or () if value is not None]
        if values:
            scores[document] = sum(values) / len(values)
        elif row is not None and not row:
            scores[document] = empty
    return scores
