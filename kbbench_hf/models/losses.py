"""Contrastive losses of sentence-transformers in which no known answer of a question is its negative.

In a batch, what answers one question is a negative of all others. Where questions share answers, many of these are
wrong: a batch sampler that looks for equal texts keeps the same document out, never another one that answers too.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, cat, distributed, empty_like, from_numpy, nn

Known = Callable[[NDArray[np.int64]], NDArray[np.bool_]]
"""Takes the labels of a batch, and returns whether the document of each column is a further answer of each question:
shape (questions, columns), where the columns are all positives, then all first negatives, and so on."""


class MaskedSimilarity:
    """A similarity that is minus infinity between a question and documents that answer it beside its own.

    The losses ask for it some questions at a time, in order, always with all documents; `begin` says of which batch.
    """

    def __init__(
        self, similarity: Callable[..., Tensor], known: Known, *, by_question: bool = False, gather: bool = False
    ) -> None:
        self.similarity, self.known, self.by_question, self.gather = similarity, known, by_question, gather
        self.__name__ = f"masked {getattr(similarity, '__name__', type(similarity).__name__)}"
        self._mask: NDArray[np.bool_] = np.zeros((0, 0), bool)
        self._asked = 0

    def begin(self, labels: Tensor, n_columns: int) -> None:
        """Take the labels of the batch that comes; `n_columns` documents stand beside each question."""
        of_all, first = _of_all(labels) if self.gather else (labels, 0)
        self._mask = self.known(of_all.cpu().numpy())[first : first + len(labels)]
        if self.by_question:  # all documents of the first question, then of the second
            n = self._mask.shape[1] // n_columns
            self._mask = self._mask[:, np.arange(n_columns * n).reshape(n_columns, n).T.ravel()]
        self._asked = 0

    def __call__(self, queries: Tensor, documents: Tensor, **masks: Tensor) -> Tensor:
        """Return the similarities, shape (queries, documents)."""
        scores = self.similarity(queries, documents, **masks)
        rows = self._mask[self._asked : self._asked + len(scores)]
        self._asked += len(scores)
        return scores.masked_fill(from_numpy(rows).to(scores.device), float("-inf"))


def masked(loss: nn.Module, known: Known, *, by_question: bool = False) -> nn.Module:
    """Make a loss of sentence-transformers leave out what answers a question too, and return it.

    Args:
        loss: one that has a `similarity_fct`, and sees in `labels` which training rows a batch holds.
        known: says what answers what.
        by_question: whether the loss has documents question by question, as that of late interaction.

    Differs from upstream: with nothing to mask it is the loss as it was.
    """
    gather = bool(getattr(loss, "gather_across_devices", False))
    similarity = MaskedSimilarity(loss.similarity_fct, known, by_question=by_question, gather=gather)
    loss.similarity_fct = similarity
    forward = loss.forward

    def with_labels(sentence_features: Iterable[dict[str, Tensor]], labels: Tensor) -> Any:
        features = list(sentence_features)
        similarity.begin(labels, len(features) - 1)
        return forward(features, labels)

    loss.forward = with_labels
    return loss


def _of_all(labels: Tensor) -> tuple[Tensor, int]:
    """Return the labels of all processes, in order of rank, and where this one's begin."""
    if not distributed.is_initialized():
        return labels, 0
    parts = [empty_like(labels) for _ in range(distributed.get_world_size())]
    distributed.all_gather(parts, labels.contiguous())
    return cat(parts), distributed.get_rank() * len(labels)
