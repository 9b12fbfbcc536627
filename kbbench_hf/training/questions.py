"""Training and validation questions of a benchmark, with answers as rows of its knowledge base.

All training reads its data here. Of the test split only a hash of ids leaves this module.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks import benchmark as benchmark_of
from kbbench_hf.benchmarks import find_dataset, name_of_path, task_key_of
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.datasets import Id
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.model_specs import parse
from kbbench_hf.protocols import Ranking
from kbbench_hf.retrieval.context import Forms, Progress, RetrieverContext, Text, render
from kbbench_hf.retrieval.retrievers import retriever
from kbbench_hf.runners.retrieval_run import default_cache
from kbbench_hf.scoring.eval_task import EvalTask, load_examples

TRAIN, VALIDATION, TEST = "train", "validation", "test"
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class SplitQuestions:
    """The questions of one split, and the rows of the answers of each, ascending."""

    texts: Sequence[str]
    answers: Sequence[Rows]
    plans: Sequence[str] = ()
    """The plan of each question; "" where the dataset has none."""

    def shuffle_answers(self, seed: int) -> "SplitQuestions":
        """Return the questions with answers permuted, so that none has its own: a control."""
        order = np.random.default_rng(seed).permutation(len(self.texts))
        others = np.empty_like(order)
        others[order] = np.roll(order, 1)
        return replace(self, answers=[self.answers[other] for other in others])

    def known_answers(self, questions: Rows, nodes: Rows) -> NDArray[np.bool_]:
        """Return whether each node answers each question, shape (questions, nodes).

        >>> asked = SplitQuestions(["", ""], [np.array([5]), np.array([5, 7])])
        >>> asked.known_answers(np.array([0, 1]), np.array([5, 6, 7])).tolist()
        [[True, False, False], [True, False, True]]
        """
        result = np.array([np.isin(nodes, self.answers[question]) for question in questions.tolist()])
        return result.reshape(len(questions), len(nodes))


@dataclass(frozen=True)
class TrainingData:
    """The data of a training: a knowledge base, training and validation questions."""

    task: EvalTask
    """The validation questions, as the benchmark has them."""
    kb: KnowledgeBase
    candidates: Rows
    """The rows of the candidates, ascending."""
    train: SplitQuestions
    validation: SplitQuestions
    hashes: dict[str, str]
    """Split -> a hash of its questions' ids; all that is known here of the test split."""
    text: Text
    """The form of the nodes' texts."""

    @property
    def forms(self) -> Forms:
        """The documents of the benchmark."""
        return Forms.of(self.task.benchmark)

    def texts(self, rows: Rows) -> list[str]:
        """Return the texts of nodes."""
        return render(self.kb, self.text, rows, self.forms)


def load_training_data(benchmark: str, text: str | None = None) -> TrainingData:
    """Return the training data of a benchmark; `text` is the form of texts, by default that of dense retrievers.

    Raises:
        UsageError: the benchmark is not answered by retrievers, or has no split to train or to choose by.
        DataError: a question stands in two splits.
    """
    benchmark = name_of_path(benchmark)
    known = benchmark_of(task_key_of(benchmark).benchmark).data.splits
    for split in (TRAIN, VALIDATION, TEST):
        if split not in known:
            raise UsageError(
                f"{benchmark} has the splits {', '.join(known)}, and no {split!r}; expected train to learn from, "
                "validation to choose by and test for the end. Give its questions a column `split`."
            )
    splits = {split: load_examples(benchmark, None, split) for split in (TRAIN, VALIDATION, TEST)}
    task = splits[VALIDATION]
    if task.benchmark.asking.prompts:
        raise UsageError(f"{benchmark!r} is answered by language models; expected one that retrievers answer.")
    ids = {split: [row["id"] for row in each.examples.rows] for split, each in splits.items()}
    for one, other in combinations(ids, 2):
        if both := set(ids[one]) & set(ids[other]):
            raise DataError(
                f"{len(both):,} questions of {benchmark} are in {one} and in {other}, such as {min(both, key=str)!r}; "
                "expected each in one split. Build the dataset with splits that do not overlap."
            )
    kb = KnowledgeBase.open(find_dataset(task.benchmark.dataset).path)
    questions = {
        split: SplitQuestions(
            [row["query"] for row in splits[split].examples.rows],
            [np.unique(kb.rows(row["answer_ids"])).astype(np.int64) for row in splits[split].examples.rows],
            [row.get("plan") or "" for row in splits[split].examples.rows],
        )
        for split in (TRAIN, VALIDATION)
    }
    candidates = np.sort(kb.rows(task.examples.context.candidates.ids)).astype(np.int64)
    hashes = {split: ids_hash(each) for split, each in ids.items()}
    context = RetrieverContext(kb, Path(), forms=Forms.of(task.benchmark))
    chosen = context.text({} if text is None else {"text": text}, relations=True)
    return TrainingData(task, kb, candidates, questions[TRAIN], questions[VALIDATION], hashes, chosen)


def ids_hash(ids: Iterable[Id]) -> str:
    """Return a hash of ids, whatever their order.

    >>> ids_hash([2, 10]) == ids_hash([10, 2]) != ids_hash([2])
    True
    """
    return hashlib.sha256("\n".join(sorted(map(str, ids))).encode()).hexdigest()[:16]


def reciprocal_rank(right: NDArray[np.bool_]) -> float:
    """Return 1 / rank of the first answer in a ranking, given which entries are answers; 0 without one.

    >>> reciprocal_rank(np.array([False, True, True])), reciprocal_rank(np.array([False]))
    (0.5, 0.0)
    """
    return 1 / (1 + int(np.argmax(right))) if right.any() else 0.0


def rank_by_name(name: str, data: TrainingData, questions: Sequence[str], top_k: int, progress: Progress) -> Ranking:
    """Return the best rows for each question by the retriever of a name."""
    context = RetrieverContext(
        data.kb, default_cache(), candidates=data.candidates, progress=progress, forms=data.forms
    )
    return retriever(parse(name), context).search(questions, top_k)
