"""Training pairs and their hard negatives: mining by a retriever, drawing, and refresh by the model itself (ANCE)."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import TrainerCallback

from kbbench_hf.model_specs import parse
from kbbench_hf.protocols import Ranking
from kbbench_hf.retrieval.context import Progress, RetrieverContext
from kbbench_hf.retrieval.retrievers import retriever
from kbbench_hf.runners.retrieval_run import default_cache
from kbbench_hf.training.questions import SplitQuestions, TrainingData
from kbbench_hf.training.scores import rank_texts

Rows = NDArray[np.int64]
NEGATIVES = "negatives.npz"
"""The file of a checkpoint with its negatives."""
_LOGGED = ("step", "version", "median_rank_before", "share_still_hard")


def rank_by_name(name: str, data: TrainingData, questions: Sequence[str], top_k: int, progress: Progress) -> Ranking:
    """Return the best rows for each question by the retriever of a name."""
    context = RetrieverContext(
        data.kb, default_cache(), candidates=data.candidates, progress=progress, forms=data.forms
    )
    return retriever(parse(name), context).search(questions, top_k)


def rank_by_model(model: Any, data: TrainingData, top_k: int, batch: int = 64) -> Rows:
    """Return the best rows for each training question by a model in training, shape (questions, top_k)."""
    options = {"batch_size": batch, "normalize_embeddings": True, "show_progress_bar": False}
    was_training = model.training
    model.eval()
    try:
        n = min(top_k, len(data.candidates))
        ranking = rank_texts(model, data.texts(data.candidates), data.train.texts, n, **options)
    finally:
        model.train(was_training)
    return np.where(ranking.ids < 0, -1, data.candidates[ranking.ids])


def best_wrong(ranked: Rows, answers: Sequence[Rows], n: int) -> Rows:
    """Return the first `n` nodes of each ranking that are no answers, shape (questions, n), padded with -1.

    Args:
        ranked: the ranking of each question, best first, shape (questions, k), padded with -1.
        answers: all known answers of each question.
        n: nodes per question.

    >>> best_wrong(np.array([[4, 2, 9], [1, 4, -1]]), [np.array([4]), np.array([2])], 2).tolist()
    [[2, 9], [1, 4]]
    """
    result = np.full((len(ranked), n), -1, np.int64)
    for position, (row, right) in enumerate(zip(ranked, answers, strict=True)):
        wrong = row[(row >= 0) & ~np.isin(row, right)][:n]
        result[position, : len(wrong)] = wrong
    return result


def draw_negatives(wrong: Rows, questions: Rows, n: int, nodes: Rows, seed: Sequence[int]) -> Rows:
    """Return `n` negatives for each of these questions, drawn without replacement from its wrong nodes.

    Where a question has too few, the others are drawn from `nodes`.

    Args:
        wrong: the result of `best_wrong`.
        questions: a row of `wrong` for each row of the result, shape (m,).
        n: negatives per row.
        nodes: all possible negatives, with at least one that is no answer.
        seed: the seed of the draw.

    >>> draw_negatives(np.array([[4, 2, 9]]), np.array([0, 0]), 3, np.arange(10), [0]).tolist()
    [[9, 4, 2], [9, 2, 4]]
    """
    order = np.random.default_rng(seed)
    result = np.empty((len(questions), n), np.int64)
    for position, question in enumerate(questions.tolist()):
        own = wrong[question][wrong[question] >= 0]
        keep = order.permutation(own)[:n]
        result[position] = np.concatenate([keep, order.choice(nodes, n - len(keep))])
    return result


class TrainingPairs:
    """The training rows of an encoder: every question with each of its answers and with hard negatives.

    A label is the number of a pair and of the version of the negatives. A loader reads ahead, so that a batch of the
    last version can arrive after the negatives are drawn again.

    Args:
        questions: the training questions.
        texts: the text of each node, by its row.
        masked: whether known answers are kept from being negatives.
    """

    def __init__(
        self, questions: SplitQuestions, texts: Callable[[Rows], Sequence[str]], *, masked: bool = True
    ) -> None:
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

    def replace_negatives(self, negatives: Rows, version: int | None = None) -> None:
        """Replace the negatives, shape (pairs, n); those of the last version stay for batches under way."""
        last = self.version
        self.version = last + 1 if version is None else version
        self._negatives = {last: self._negatives[last], self.version: negatives}

    def render(self, batch: Mapping[str, Sequence[int]]) -> dict[str, list[Any]]:
        """Return a batch of pairs as texts, a column per role: the transform of the training dataset."""
        rows = np.asarray(batch["label"], np.int64)
        nodes = np.column_stack([self.positive[rows], self.negatives[rows]])
        texts = [list(self._texts(column)) for column in nodes.T]
        return {
            "anchor": [self.questions.texts[each] for each in self.question[rows]],
            "positive": texts[0],
            **{f"negative_{number}": column for number, column in enumerate(texts[1:], start=1)},
            "label": (rows + self.version * len(self)).tolist(),
        }

    def known_answers(self, labels: Rows) -> NDArray[np.bool_]:
        """Return the mask of a batch of these labels: answers of a question other than its own positive.

        Shape (questions, columns): the positives of all, then the first negatives of all, and so on.
        """
        versions, rows = np.divmod(labels, len(self))
        negatives = np.stack([self._negatives[v][row] for v, row in zip(versions.tolist(), rows, strict=True)])
        columns = np.concatenate([self.positive[rows], negatives.T.ravel()])
        if not self._masked:
            return np.zeros((len(rows), len(columns)), bool)
        known = self.questions.known_answers(self.question[rows], columns)
        np.fill_diagonal(known[:, : len(rows)], val=False)
        return known


class NegativeRefresh(TrainerCallback):  # type: ignore[misc]
    """Mines hard negatives by the model every `every` steps (ANCE), logs them, and stores them in the checkpoints.

    Source: Xiong et al., ICLR 2021. A refresh on the step of a checkpoint waits for the next step: the loader reads one
    batch ahead, so that the batch after a refresh has the negatives from before it, which a resumed run lacks.

    Args:
        pairs: the training pairs, whose negatives are replaced.
        rank: returns the best nodes of each training question by the current model, best first.
        draw: returns the negatives of each pair from the best wrong nodes of its question, and a version.
        every: steps between two refreshes.
        depth: how many of the best wrong nodes to draw from.
    """

    def __init__(
        self,
        pairs: TrainingPairs,
        rank: Callable[[Any], Rows],
        draw: Callable[[Rows, int], Rows],
        every: int,
        depth: int,
    ) -> None:
        self.pairs, self.rank, self.draw, self.every, self.depth = pairs, rank, draw, every, depth
        self.log: list[dict[str, float]] = []
        """For each refresh: step, version, median rank of the last negatives in the new ranking, and their share among
        the `depth` best wrong nodes."""
        self._due = every

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **others: Any) -> None:
        """Mine where a refresh is due."""
        if state.global_step < self._due or state.global_step % int(args.save_steps) == 0:
            return
        self._due = state.global_step + self.every
        ranked = self.rank(model)
        before = list(zip(self.pairs.question.tolist(), self.pairs.negatives, strict=True))
        wrong = best_wrong(ranked, self.pairs.questions.answers, self.depth)
        ranks = np.array([_ranks(ranked[question], nodes) for question, nodes in before]).ravel()
        keep = np.array([np.isin(nodes, wrong[question]) for question, nodes in before])
        self.pairs.replace_negatives(self.draw(wrong, self.pairs.version + 1))
        median = float(np.median(ranks)) if len(ranks) else float("nan")
        share = float(keep.mean()) if keep.size else float("nan")
        self.log.append(dict(zip(_LOGGED, (state.global_step, self.pairs.version, median, share), strict=True)))

    def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Write the negatives into the checkpoint, in the first process."""
        if state.is_world_process_zero:
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            log = np.array([list(each.values()) for each in self.log]).reshape(-1, 4)
            own: dict[str, Any] = {"negatives": self.pairs.negatives, "version": self.pairs.version, "due": self._due}
            np.savez(folder / NEGATIVES, log=log, **own)

    def resume(self, checkpoint: Path) -> None:
        """Load the negatives of a checkpoint."""
        with np.load(checkpoint / NEGATIVES) as stored:
            self.pairs.replace_negatives(stored["negatives"], int(stored["version"]))
            self._due = int(stored["due"])
            self.log = [dict(zip(_LOGGED, row, strict=True)) for row in stored["log"].tolist()]


def _ranks(ranking: Rows, nodes: Rows) -> Rows:
    """Return the rank of each node, from 1; one behind the last where it is absent."""
    place = {node: rank for rank, node in enumerate(ranking.tolist(), start=1)}
    return np.array([place.get(node, len(ranking) + 1) for node in nodes.tolist()], np.int64)
