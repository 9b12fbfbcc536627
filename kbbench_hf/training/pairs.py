"""The rows that an encoder is trained on: a question, one of its answers, and hard negatives that may be drawn anew."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.training.questions import Questions

Rows = NDArray[np.int64]


class Pairs:
    """Every question with each of its answers, in the order of the questions.

    A label says which pair, and in which version of the negatives: a loader reads ahead, so that a batch of the last
    version can arrive after the negatives were drawn anew.

    Args:
        questions: the training questions.
        texts: the text of each node, by its row.
        masked: whether known answers are no negatives.
    """

    def __init__(self, questions: Questions, texts: Callable[[Rows], Sequence[str]], *, masked: bool = True) -> None:
        self.questions, self._texts, self._masked = questions, texts, masked
        counts = [len(answers) for answers in questions.answers]
        self.question = np.repeat(np.arange(len(counts)), counts)
        self.positive = np.concatenate([np.zeros(0, np.int64), *questions.answers])
        self.version = 0
        self._negatives: dict[int, Rows] = {0: np.zeros((len(self), 0), np.int64)}

    def __len__(self) -> int:
        """Return how many pairs there are."""
        return len(self.question)

    @property
    def negatives(self) -> Rows:
        """The hard negatives of each pair in the newest version, shape (pairs, n)."""
        return self._negatives[self.version]

    def renew(self, negatives: Rows, version: int | None = None) -> None:
        """Take new negatives, shape (pairs, n); those of the version before stay for batches under way."""
        last = self.version
        self.version = last + 1 if version is None else version
        self._negatives = {last: self._negatives[last], self.version: negatives}

    def rendered(self, batch: Mapping[str, Sequence[int]]) -> dict[str, list[Any]]:
        """Return a batch of pairs as texts, a column for each role: the transform of the training dataset."""
        rows = np.asarray(batch["label"], np.int64)
        nodes = np.column_stack([self.positive[rows], self.negatives[rows]])
        texts = [list(self._texts(column)) for column in nodes.T]
        return {
            "anchor": [self.questions.texts[each] for each in self.question[rows]],
            "positive": texts[0],
            **{f"negative_{number}": column for number, column in enumerate(texts[1:], start=1)},
            "label": (rows + self.version * len(self)).tolist(),
        }

    def known(self, labels: Rows) -> NDArray[np.bool_]:
        """Return what is to be masked in a batch of these labels: answers of a question that are not its own positive.

        Shape (questions, columns): the positives of all, then the first negatives of all, and so on.
        """
        versions, rows = np.divmod(labels, len(self))
        negatives = np.stack([self._negatives[v][row] for v, row in zip(versions.tolist(), rows, strict=True)])
        columns = np.concatenate([self.positive[rows], negatives.T.ravel()])
        if not self._masked:
            return np.zeros((len(rows), len(columns)), bool)
        found = self.questions.known_answers(self.question[rows], columns)
        np.fill_diagonal(found[:, : len(rows)], val=False)
        return found
