"""What a model must answer. Whatever has these methods is one; nothing needs to be inherited."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Ranking(NamedTuple):
    """The best candidates of each query: ids and scores, both of shape (queries, k), best first.

    Rows shorter than k are padded with id -1 and score -inf.
    """

    ids: NDArray[np.int64]
    scores: NDArray[np.float64]


class Retriever(Protocol):
    """Ranks the nodes of the knowledge base it was built on."""

    def search(self, queries: Sequence[str], top_k: int) -> Ranking:
        """Return the `top_k` best node positions of every query: score descending, then id ascending."""
        ...


class Embedder(Protocol):
    """Turns texts into vectors; `name` says which model and revision, because thresholds belong to it."""

    name: str

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row per text, shape (n, dimension)."""
        ...


class Completion(NamedTuple):
    """What a language model answered to one prompt; `error` names what went wrong, else it is None."""

    text: str
    finish_reason: str
    prompt_tokens: int | None
    completion_tokens: int | None
    latency_s: float
    error: str | None = None


class Generator(Protocol):
    """A language model; `name` is the model and its revision or server fingerprint."""

    name: str

    def generate(self, prompts: Sequence[Sequence[dict[str, str]]], max_tokens: int) -> list[Completion]:
        """Return one completion per chat prompt, in order."""
        ...


class Verdict(NamedTuple):
    """One judgement: `value` is None where `status` is not "ok"; `raw` keeps the reply as it came."""

    value: float | None
    status: str
    raw: str


class Judge(Protocol):
    """Judges items of text; `name` carries model, revision and prompt hash."""

    name: str

    def judge(self, items: Sequence[tuple[str, str]]) -> list[Verdict]:
        """Return one verdict per (text, claim), in order."""
        ...
