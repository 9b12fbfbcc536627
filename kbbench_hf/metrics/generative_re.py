"""GenRES scores of relation extraction: topical similarity, uniqueness, factualness, granularity, completeness.

Source: Jiang et al., "GenRES: Rethinking Evaluation for Generative Relation Extraction in the Era of Large Language
Models", NAACL 2024. Every function returns one value per document. Outputs of models (topics, vectors, verdicts,
splits) are arguments. Number and length of triples, and literal matches with gold, need no model. The words of topics
are at the end, with the diversity of words of any texts (entropy, type-token ratio). The benchmark GenRES, the judges
and the annotators use it; the diversity also describes questions.

There are three modes. `reference` is the behavior of the authors' release. `fixed` gives an empty answer zero on every
score, drops malformed and repeated triples, considers the direction of a relation, and measures completeness only if
there is gold. `fixed-2` also compares names by their letters and digits, because texts are tokenized and gold is not:
"Washington , DC" is "washington, dc" (`spelling_key`). Topics are those of `fixed`.
"""

import math
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.text.folding import fold
from kbbench_hf.text.porter import NltkVersion
from kbbench_hf.text.tokens import tokenize

MODES = ("reference", "fixed", "fixed-2")
TOPIC_MODES: Mapping[str, str] = {"reference": "reference", "fixed": "fixed", "fixed-2": "fixed"}
"""Mode -> the mode whose topics and prompt lists it uses."""
WORDS: Mapping[str, NltkVersion] = {"reference": "3.9", "fixed": "3.10", "fixed-2": "3.10"}
"""Mode -> version of the tokenizer. The authors' stored token counts and dictionaries are NLTK 3.9.2's."""

Floats = NDArray[np.float64]

_QUALITIES = "topical_similarity uniqueness factualness granularity completeness".split()
_OTHERS = "triples_per_document tokens_per_triple precision recall f1".split()
_FIXED = dict.fromkeys([*_QUALITIES, *_OTHERS], 0.0) | {"tokens_per_triple": math.nan}
_REFERENCE = dict.fromkeys(["factualness", "completeness", *_OTHERS], 0.0) | {"uniqueness": 1.0}
_REFERENCE |= dict.fromkeys("granularity precision recall f1".split(), math.nan)
EMPTY_SCORES: dict[str, Mapping[str, float]] = {"reference": _REFERENCE, "fixed": _FIXED, "fixed-2": _FIXED}
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
    """Return the share of pairs of different rows whose cosine is below the threshold; 1 for one row."""
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
    scores = np.full(len(verdicts), math.nan)
    for document, row in enumerate(verdicts):
        values = [value for value in row or () if value is not None]
        if values:
            scores[document] = sum(values) / len(values)
        elif row is not None and not row:
            scores[document] = empty
    return scores


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

    return factualness([None if row is None else [*map(score, row)] for row in splits], empty=empty)


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
    """Return lengths from their squares, 1 for zero vectors, whose cosines are then 0."""
    lengths: NDArray[np.floating] = np.sqrt(squares)
    lengths[lengths == 0] = 1
    return lengths


Triple = Sequence[object]
"""[head, relation, tail]; the output of a model may have other types and any number of elements."""
_BLANKS = re.compile(r"(?<!\d) +| +(?!\d| )|(?<= ) +")


def select_triples(answer: Sequence[Triple], mode: str) -> list[Triple]:
    """Return the triples of an answer that a mode scores.

    `reference` keeps the answer unchanged. Other modes keep lists of three elements, each a number or a string that is
    not blank. Strings are stripped, numbers become strings, and the first of equal triples is kept.

    >>> select_triples([["a", "r", "b"], [" a", "r", "b"], ["a", "r"], ["a", "r", None], ["b", "in", 1961]], "fixed")
    [('a', 'r', 'b'), ('b', 'in', '1961')]
    >>> select_triples([["a", "r", "b"], ["a", "r", "b"]], "reference")
    [['a', 'r', 'b'], ['a', 'r', 'b']]
    """
    if mode == "reference":
        return list(answer)
    return list(dict.fromkeys(keep_well_formed(answer)))


def keep_well_formed(answer: Sequence[object]) -> list[tuple[str, str, str]]:
    """Return the triples of three strings or numbers, as stripped strings, repeated ones included.

    >>> keep_well_formed([["a", "r", "b"], ["a", "r", "b "], ["a", "", "b"], "a r b"])
    [('a', 'r', 'b'), ('a', 'r', 'b')]
    """
    kept = []
    for triple in answer:
        if isinstance(triple, str) or not isinstance(triple, Sequence) or len(triple) != 3:
            continue
        head, relation, tail = (_to_text(element) for element in triple)
        if head and relation and tail:
            kept.append((head, relation, tail))
    return kept


def triples_per_document(answers: Sequence[Sequence[object]]) -> Floats:
    """Return the number of triples of each document, repeated ones included.

    >>> triples_per_document([[["a", "r", "b"]], []])
    array([1., 0.])
    """
    return np.array([len(answer) for answer in answers], dtype=np.float64)


def tokens_per_triple(answers: Sequence[Sequence[Triple]], count: Callable[[str], int], *, empty: float) -> Floats:
    """Return the mean number of tokens of each document's triples.

    A triple with an element that is no string has no tokens.

    Args:
        answers: the triples of each document.
        count: the tokens of a string.
        empty: the value of a document without triples.

    >>> tokens_per_triple([[["New York", "in", "USA"], ["a", "r", 1]]], lambda text: len(text.split()), empty=0.0)
    array([2.])
    """
    texts = [[triple for triple in answer if _all_strings(triple)] for answer in answers]
    totals = [sum(sum(map(count, triple)) for triple in of) for of in texts]
    pairs = zip(totals, answers, strict=True)
    return np.array([n / len(answer) if answer else empty for n, answer in pairs], dtype=np.float64)


def hard_match(
    answers: Sequence[Sequence[Triple]], gold: Sequence[Sequence[Triple]], *, empty: float, mode: str = "reference"
) -> Floats:
    """Return precision, recall and F1 of literally equal triples per document, shape (3, documents).

    Case is ignored, and `_` is a space. Precision counts every predicted triple, repeated ones included; recall counts
    every gold triple. In mode `fixed-2` triples are equal by `spelling_key`, and equal ones count once.

    Args:
        answers: the predicted triples of each document.
        gold: its gold triples. A document without gold is not scored.
        empty: the three values of a document without predicted triples.
        mode: `reference`, `fixed` or `fixed-2`.

    >>> hard_match([[["A", "is_in", "B"], ["b", "in", "a"]]], [[["a", "is in", "b"]]], empty=0.0).ravel()
    array([0.5       , 1.        , 0.66666667])
    >>> hard_match([[["Salem , MA", "in", "USA"]]], [[["salem, ma", "in", "usa"]]], empty=0.0, mode="fixed-2").ravel()
    array([1., 1., 1.])
    """
    scores = np.full((3, len(answers)), math.nan)
    for document, (predicted, expected) in enumerate(zip(answers, gold, strict=True)):
        if not expected:
            continue
        if not predicted:
            scores[:, document] = empty
            continue
        predicted_text, expected_text = ([match_key(t, mode) for t in triples] for triples in (predicted, expected))
        if mode == "fixed-2":
            predicted_text, expected_text = [*dict.fromkeys(predicted_text)], [*dict.fromkeys(expected_text)]
        precision = sum(text in expected_text for text in predicted_text) / len(predicted_text)
        recall = sum(text in predicted_text for text in expected_text) / len(expected_text)
        f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        scores[:, document] = precision, recall, f1
    return scores


def _to_text(element: object) -> str:
    """Return a string stripped, a number as text, and "" for anything else."""
    if isinstance(element, str):
        return element.strip()
    return str(element) if isinstance(element, int | float) and not isinstance(element, bool) else ""


def _all_strings(triple: Triple) -> TypeGuard[Sequence[str]]:
    return not isinstance(triple, str) and all(isinstance(element, str) for element in triple)


def match_key(triple: Triple, mode: str = "reference") -> str:
    """Return a triple as hard match compares it, without case and with spaces for underscores; see `spelling_key`.

    >>> match_key(["Bergen", "located_in", "Norway"]), match_key(["St. Ives", "located_in", "UK"], "fixed-2")
    ("['bergen', 'located in', 'norway']", "['stives', 'locatedin', 'uk']")
    """
    if mode == "fixed-2":
        return str([spelling_key(str(element)) for element in triple])
    return str(list(triple)).lower().replace("_", " ")


@lru_cache(maxsize=1 << 16)
def spelling_key(name: str) -> str:
    """Return a name's letters and digits, by which spellings of one name are equal.

    Case, accents, blanks and marks are left out; a mark between two digits is a blank, so that 1.5 is not 15. A name
    without a letter or digit keeps its marks.

    >>> [spelling_key(name) for name in ("Al - Hilal", "Al-Hilal", "Québec .|", "1 , 500", "1500", "!!!")]
    ['alhilal', 'alhilal', 'quebec', '1 500', '1500', '!!!']
    """
    folded = fold(name)
    kept = "".join(each if unicodedata.category(each)[0] in "LMN" else " " for each in folded)
    return _BLANKS.sub("", kept) if kept.strip() else "".join(folded.split())


STOP_WORDS = frozenset(
    """a about above after again against ain all am an and any are aren as at be because been before being below between
    both but by can couldn d did didn do does doesn doing don down during each few for from further had hadn has hasn
    have haven having he her here hers herself him himself his how i if in into is isn it its itself just ll m ma me
    mightn more most mustn my myself needn no nor not now o of off on once only or other our ours ourselves out over own
    re s same shan she should shouldn so some such t than that the their theirs them themselves then there these they
    this those through to too under until up ve very was wasn we were weren what when where which while who whom why
    will with won wouldn y you your yours yourself yourselves""".split()
)
"""NLTK's English stop words (from the Snowball stemmer's list, BSD) that are alphanumeric, as words are here. Compared
with case, as in the release: "The" stays."""


def content_words(text: str, mode: str) -> list[str]:
    """Return the alphanumeric tokens of a text without stop words; `WORDS` has the tokenizer of each mode.

    >>> content_words("The effects of 5 - HT on rats .", "reference")
    ['The', 'effects', '5', 'HT', 'rats']
    """
    return [token for token in tokenize(text, WORDS[mode]) if token.isalnum() and token not in STOP_WORDS]


def join_triples(triples: Iterable[Triple], mode: str) -> str:
    """Return triples as one text, each "head relation tail .".

    The release joins them without a space. ".Head" is no word, so the first word of every head but the first is lost.
    `fixed` adds the space.

    >>> join_triples([["a", "r", "b"], ["c", "r", "d"]], "reference")
    'a r b .c r d .'
    >>> join_triples([["a", "r", "b"], ["c", "r", "d"]], "fixed")
    'a r b . c r d .'
    """
    whole = (triple for triple in triples if not isinstance(triple, str) and len(triple) == 3)
    return ("" if mode == "reference" else " ").join(f"{head} {relation} {tail} ." for head, relation, tail in whole)


_CONTRACTIONS = frozenset(
    """aren't couldn't didn't doesn't don't hadn't hasn't haven't isn't it's mightn't mustn't needn't shan't she's
    should've shouldn't that'll wasn't weren't won't wouldn't you'd you'll you're you've""".split()
)


def shannon_entropy(texts: Iterable[str]) -> float:
    """Return the entropy of the distribution of words, in bits; NaN without words.

    Words are separated by white space and keep case and punctuation: this gives STaRK's published values to two
    decimals (10.39, 10.25, 9.63).

    >>> shannon_entropy(["a b", "a c"])  # 1/2 * 1 + 2 * 1/4 * 2
    1.5
    """
    counts = Counter(word for text in texts for word in text.split())
    n = counts.total()
    return -sum(count / n * math.log2(count / n) for count in counts.values()) if n else math.nan


def type_token_ratio(texts: Iterable[str]) -> float:
    """Return the share of distinct words among all words but stop words; NaN without words.

    A word is compared with NLTK's 179 English stop words in lower case and without punctuation at its ends. Published:
    0.179, 0.180 and 0.143; this gives 0.1788, 0.1796 and 0.1406 (no definition tried gives all three).

    >>> type_token_ratio(["The cat saw the cat."])  # cat, saw, cat.: all three differ
    1.0
    """
    words = [word for text in texts for word in text.split() if not _is_stop_word(word)]
    return len(set(words)) / len(words) if words else math.nan


def _is_stop_word(word: str) -> bool:
    plain = word.lower().strip(string.punctuation)
    return plain in STOP_WORDS or plain in _CONTRACTIONS
