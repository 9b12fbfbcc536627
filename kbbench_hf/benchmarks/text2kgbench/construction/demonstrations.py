"""The train sentences that are most like a sentence and do not show its answer."""

import re
from collections import Counter
from collections.abc import Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.files.datasets import Row
from kbbench_hf.metrics.names import fold as fold_word
from kbbench_hf.metrics.triples import fold, triple_key
from kbbench_hf.protocols import Embedder

COUNT = 5
"""How many similar train sentences a row names."""
_WORD = re.compile(r"[^\W_]+")
_PLACES = 4096


class TokenOverlap:
    """Texts as vectors of their words, of which a rare one in `texts` counts more; no model."""

    name = "token overlap"

    def __init__(self, texts: Sequence[str]) -> None:
        self._counts = Counter(word for text in texts for word in _words(text))
        self._n = len(texts)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row per text, shape (n, 4096): a word's place is a hash of it."""
        vectors = np.zeros((len(texts), _PLACES), np.float32)
        for row, text in enumerate(texts):
            for word in sorted(_words(text)):
                vectors[row, crc32(word.encode()) % _PLACES] += np.log((2 + self._n) / (1 + self._counts[word]))
        return vectors


def _words(text: str) -> set[str]:
    return {fold_word(word) for word in _WORD.findall(text)}


def add_similar_ids(rows: Sequence[Row], train: Sequence[Row], embedder: Embedder, count: int = COUNT) -> None:
    """Fill in `similar_ids` of rows: the train rows of the highest cosine, best first; ties keep the train order.

    Never one with an equal sentence, or with a gold triple of the row.
    """
    if not rows or not train:
        return
    shown, asked = (_unit(embedder.encode([row["sentence"] for row in part])) for part in (train, rows))
    said = [_said(row) for row in train]
    for row, vector in zip(rows, asked, strict=True):
        own, similar = _said(row), []
        for position in np.argsort(-(shown @ vector), kind="stable").tolist():
            if own.isdisjoint(said[position]) and train[position]["id"] != row["id"]:
                similar.append(train[position]["id"])
                if len(similar) == count:
                    break
        row["similar_ids"] = similar


def _said(row: Row) -> set[tuple[str, ...]]:
    triples = {("triple", triple_key((each["sub"], each["rel"], each["obj"]))) for each in row["triples"]}
    return {("sentence", fold(row["sentence"])), *triples}


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[np.float32] = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return unit
