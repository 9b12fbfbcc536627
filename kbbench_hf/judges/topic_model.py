"""The topic models behind topical similarity: gensim's LDA, trained once per corpus and seed, pinned and hashed.

A trained model is one `.npz` file of plain arrays (nothing in it is executed when it is read) and is known by the hash
of these arrays. The level of TS depends on the corpus, so figures made with different models must not be compared.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.errors import missing_extra
from kbbench_hf.files.writing import whole_file
from kbbench_hf.metrics.generative_re import WORDS
from kbbench_hf.metrics.topics import content_words

SEEDS = (0, 1, 2, 3, 4)
"""Of the models that TS is the mean of. The release pins no seed, and one alone says little: on CDR a system's TS lies
within 1.9 points of its mean over seeds (one standard deviation), within .4 on Wiki20m. The first ones, not the best:
choosing those nearest to the published figures would tune on the answer."""
Lda = Any
"""gensim's `LdaModel`, which has no types."""


@dataclass(frozen=True)
class LdaSettings:
    """How a model is trained and asked. `passes` and `iterations` of `reference` are gensim's defaults, as released."""

    n_topics: int
    mode: str
    seed: int = 0

    @property
    def passes(self) -> int:
        """How often training reads the corpus."""
        return 1 if self.mode == "reference" else 10

    @property
    def iterations(self) -> int:
        """How often training and inference refine a document's topics, at most."""
        return 50 if self.mode == "reference" else 200


class TopicModel:
    """A trained LDA model.

    Args:
        vocabulary: the word of each column.
        weights: exp(E[log beta]), shape (topics, words).
        settings: how it was trained.
        corpus_sha256: the hash of the corpus.
    """

    def __init__(
        self, vocabulary: Sequence[str], weights: NDArray[np.float32], settings: LdaSettings, corpus_sha256: str
    ) -> None:
        self._ids = {word: column for column, word in enumerate(vocabulary)}
        self._weights = weights
        self.settings = settings
        self.corpus_sha256 = corpus_sha256
        self._lda: Lda = None

    @classmethod
    def train(cls, corpus: Sequence[str], settings: LdaSettings) -> "TopicModel":
        """Train on a corpus of texts. The same corpus and seed give the same model."""
        documents = [content_words(text, settings.mode) for text in corpus]
        vocabulary = list(dict.fromkeys(word for document in documents for word in sorted(set(document))))
        ids = {word: column for column, word in enumerate(vocabulary)}
        lda = _gensim_lda(vocabulary, settings, [_bag(document, ids) for document in documents])
        return cls(vocabulary, lda.expElogbeta.astype(np.float32), settings, corpus_hash(corpus))

    @property
    def identity(self) -> dict[str, object]:
        """What topic shares depend on besides the text."""
        words = WORDS[self.settings.mode]
        return {
            **asdict(self.settings),
            **({} if words == "3.10" else {"nltk": words}),  # annotations made before this was recorded are of 3.10
            "passes": self.settings.passes,
            "iterations": self.settings.iterations,
            "corpus_sha256": self.corpus_sha256,
            "model_sha256": sha256(self._weights.tobytes() + "\n".join(self._ids).encode("utf-8")).hexdigest(),
        }

    def shares(self, documents: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        """Return the topic shares of documents given as content words, shape (documents, topics); rows sum to 1.

        A document without a known word has equal shares. In `reference` inference starts at a random point, as in the
        release, here drawn from the document itself: its shares depend on nothing else. In `fixed` it starts flat.
        """
        if not documents:
            return np.zeros((0, self.settings.n_topics))
        if self._lda is None:
            self._lda = _gensim_lda(list(self._ids), self.settings, None)
            self._lda.expElogbeta = self._weights
        self._lda.random_state = _Start(self.settings, documents)
        gamma, _ = self._lda.inference([_bag(document, self._ids) for document in documents])
        weights = np.asarray(gamma, dtype=np.float64)
        shares: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
        return shares

    def save(self, file: Path) -> None:
        """Write the model, whole or not at all."""
        about = json.dumps({"settings": asdict(self.settings), "corpus_sha256": self.corpus_sha256})
        file.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(file) as sink:
            vocabulary = np.frombuffer(json.dumps(list(self._ids)).encode("ascii"), dtype=np.uint8)
            np.savez(sink, weights=self._weights, vocabulary=vocabulary, about=np.array(about))

    @classmethod
    def load(cls, file: Path) -> "TopicModel":
        """Read a saved model."""
        with np.load(file, allow_pickle=False) as arrays:
            about = json.loads(str(arrays["about"]))
            vocabulary = json.loads(arrays["vocabulary"].tobytes())
            return cls(vocabulary, arrays["weights"], LdaSettings(**about["settings"]), about["corpus_sha256"])


def corpus_hash(corpus: Sequence[str]) -> str:
    """Return the hash of a corpus of texts, in their order.

    >>> corpus_hash(["a b", "c"])[:12]
    '24b366cf6891'
    """
    return sha256("\n".join(corpus).encode("utf-8", "surrogatepass")).hexdigest()


class _Start:
    """Stands in for gensim's random state at inference: where the search for each document's topics starts."""

    def __init__(self, settings: LdaSettings, documents: Sequence[Sequence[str]]) -> None:
        self._settings, self._documents = settings, documents

    def gamma(self, shape: float, scale: float, size: tuple[int, int]) -> NDArray[np.float64]:
        if self._settings.mode != "reference":
            return np.ones(size)
        digests = (sha256(f"{self._settings.seed} {' '.join(words)}".encode()).digest() for words in self._documents)
        return np.stack([np.random.default_rng(list(each)).gamma(shape, scale, size[1]) for each in digests])


def _gensim_lda(vocabulary: list[str], settings: LdaSettings, corpus: list[list[tuple[int, int]]] | None) -> Lda:
    try:
        from gensim.models import LdaModel
    except ImportError:
        raise missing_extra("gensim", "text") from None
    return LdaModel(
        corpus,
        num_topics=settings.n_topics,
        id2word=dict(enumerate(vocabulary)),
        passes=settings.passes,
        iterations=settings.iterations,
        random_state=settings.seed,
    )


def _bag(document: Sequence[str], ids: dict[str, int]) -> list[tuple[int, int]]:
    """Return how often each known word occurs, in the order of the columns."""
    return sorted(Counter(ids[word] for word in document if word in ids).items())
