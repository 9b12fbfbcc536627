"""Training of dense retrievers (DPR, ANCE) and late interaction (ColBERT) by sentence-transformers' trainers.

Hard negatives of training pairs are mined by a retriever, drawn, and refreshed by the model itself (ANCE).

`training.train` calls `train_encoder`; the training of planners shares bar, checkpoints and arguments. The same spec
trains the same model, also after an interruption: order of draws, seeds and steps of checkpoints must not depend on a
restart.
"""

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sentence_transformers as st
import torch
from datasets import Dataset
from numpy.typing import NDArray
from sentence_transformers.base.modules import Dense, Router
from sentence_transformers.multi_vector_encoder import losses as late_losses
from sentence_transformers.sentence_transformer import losses as dense_losses
from torch import Tensor, cat, distributed, empty_like, from_numpy, nn
from transformers import PrinterCallback, TrainerCallback, set_seed

from kbbench_hf.errors import UsageError
from kbbench_hf.files.writing import write_text
from kbbench_hf.protocols import ProcessGroup
from kbbench_hf.retrieval.embedders import unloadable
from kbbench_hf.retrieval.late_interaction import load
from kbbench_hf.runners.process_group import check_same, group
from kbbench_hf.runners.progress import Advance, progress
from kbbench_hf.training.questions import SplitQuestions, TrainingData, rank_by_name
from kbbench_hf.training.scores import RetrievalScores, rank_texts
from kbbench_hf.training.spec import TrainingLog, TrainSpec

Rows = NDArray[np.int64]
NEGATIVES = "negatives.npz"
"""The file of a checkpoint with its negatives."""
_LOGGED = ("step", "version", "median_rank_before", "share_still_hard")


def rank_by_model(model: Any, data: TrainingData, top_k: int, batch: int = 64) -> Rows:
    """Return the best rows for each training question by a model in training, shape (questions, top_k).

    Rows are rows of the knowledge base, best first; with fewer candidates than `top_k` there are fewer columns.
    """
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


ITSELF = "itself"
"""The model before training, as the retriever of hard negatives."""
MINED = 200
"""Depth of the rankings from which negatives are drawn."""
TOKENS = {"module_input_name": "token_embeddings", "module_output_name": "token_embeddings"}
ROLES = {"anchor": "query", "positive": "document"}


class EncoderClasses(NamedTuple):
    """The classes of sentence-transformers for one kind of encoder."""

    build: Callable[[TrainSpec], Any]
    """Returns the model before training."""
    trainer: type
    arguments: type
    loss: type
    cached_loss: type
    by_question: bool
    """Whether the loss has the documents of the first question first, then those of the second."""


def train_encoder(spec: TrainSpec, data: TrainingData, folder: Path, checkpoints: Path, *, show: bool) -> TrainingLog:
    """Train a dense retriever (DPR, or with `refresh` ANCE) or late interaction (ColBERT); save the best step.

    The best step has the highest validation score.
    Sources: Karpukhin et al., EMNLP 2020; Xiong et al., ICLR 2021; Khattab and Zaharia, SIGIR 2020.
    Differs from upstream: no answer of a question is one of its negatives, anywhere in a batch; the tokens of late
    interaction are projected only where `dimension` is given.
    """
    kind = LATE if spec.method == "colbert" else DENSE
    set_seed(spec.seed)
    model = kind.build(spec)
    if (processes := group()).size > 1:
        check_same(processes, {"the hash of the weights before training": _weights_hash(model)})
    model.max_seq_length = spec.train_length
    model.model_card_data.generate_widget_examples = False
    pairs = TrainingPairs(data.train, data.texts, masked=spec.mask)

    def draw(wrong: Rows, version: int) -> Rows:
        return draw_negatives(wrong, pairs.question, spec.n_negatives, data.candidates, (spec.seed, version))

    def rank(current: Any) -> Rows:
        return rank_by_model(current, data, MINED)

    last = last_checkpoint(checkpoints, processes)
    if spec.n_negatives:
        if spec.negatives == ITSELF:
            first = rank(model)
        else:
            first = rank_by_name(spec.negatives, data, data.train.texts, MINED, progress).ids
        pairs.replace_negatives(draw(best_wrong(first, data.train.answers, spec.negatives_depth), 0), 0)
    bar = TrainingBar(data.task.benchmark.dataset, show=show)
    refresh = NegativeRefresh(pairs, rank, draw, spec.refresh, spec.negatives_depth) if spec.refresh else None
    if refresh and last:
        refresh.resume(last)
    evaluator = RetrievalScores(spec.benchmark, text=data.text, max_length=spec.length, batch_size=64)
    arguments = _arguments(kind, spec, checkpoints, evaluator.primary_metric, len(pairs))
    several = arguments.world_size > 1
    if spec.mini_batch is None:
        loss = kind.loss(model, gather_across_devices=several)
    else:
        loss = kind.cached_loss(model, mini_batch_size=spec.mini_batch, gather_across_devices=several)
    trainer: Any = kind.trainer(
        model,
        arguments,
        train_dataset=Dataset.from_dict({"label": list(range(len(pairs)))}).with_transform(pairs.render),
        loss=mask_answers(loss, pairs.known_answers, by_question=kind.by_question),
        evaluator=evaluator,
        callbacks=[bar, *([refresh] if refresh else []), CheckpointSeal()],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=str(last) if last else None)
    model.max_seq_length = spec.length
    if trainer.is_world_process_zero():
        model.save_pretrained(str(folder), create_model_card=False)
    return bar.log(trainer.state, refresh.log if refresh else [])


def _weights_hash(model: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, weights in model.state_dict().items():
        digest.update(name.encode() + weights.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _build_dense(spec: TrainSpec) -> st.SentenceTransformer:
    """Return one encoder for questions and nodes, or one for each (`towers`)."""
    try:
        model = st.SentenceTransformer(spec.base, device=_device())
    except (OSError, ValueError) as error:
        raise unloadable(spec.base, error) from error
    if spec.towers == 1:
        return model
    own = list(model)
    towers = Router.for_query_document([deepcopy(each) for each in own], own)
    return st.SentenceTransformer(modules=[towers], device=_device())


def _build_late(spec: TrainSpec) -> st.MultiVectorEncoder:
    """Return an encoder of tokens; with `dimension` it has a projection with random weights, by the seed."""
    if spec.towers != 1:
        raise UsageError("towers is 2; late interaction has one encoder for questions and nodes. Leave it out.")
    model = load(spec.base)
    if spec.dimension is not None:
        body, *others = list(model)
        size = body.get_embedding_dimension()
        project = Dense(size, spec.dimension, bias=False, activation_function=nn.Identity(), **TOKENS)
        model = st.MultiVectorEncoder(
            modules=[body, project, *(each for each in others if not isinstance(each, Dense))]
        )
    return model.to(_device() or model.device)


def _device() -> str | None:
    """Return the CPU where there is no GPU; sentence-transformers chooses otherwise."""
    return None if torch.cuda.is_available() else "cpu"


DENSE = EncoderClasses(
    _build_dense,
    st.SentenceTransformerTrainer,
    st.SentenceTransformerTrainingArguments,
    dense_losses.MultipleNegativesRankingLoss,
    dense_losses.CachedMultipleNegativesRankingLoss,
    by_question=False,
)
LATE = EncoderClasses(
    _build_late,
    st.MultiVectorEncoderTrainer,
    st.MultiVectorEncoderTrainingArguments,
    late_losses.MultiVectorMultipleNegativesRankingLoss,
    late_losses.CachedMultiVectorMultipleNegativesRankingLoss,
    by_question=True,
)


def common_arguments(spec: TrainSpec, checkpoints: Path) -> dict[str, Any]:
    """Return the arguments that all trainers of transformers get."""
    return {
        "output_dir": str(checkpoints),
        "per_device_train_batch_size": spec.batch,
        "gradient_accumulation_steps": spec.accumulate,
        "learning_rate": spec.learning_rate,
        "warmup_steps": spec.warmup,
        "seed": spec.seed,
        "data_seed": spec.seed,
        "bf16": spec.precision == "bf16",
        "use_cpu": not torch.cuda.is_available(),
        "save_total_limit": 2,
        "report_to": [],
        "disable_tqdm": True,
    }


def _arguments(kind: EncoderClasses, spec: TrainSpec, checkpoints: Path, metric: str, n_pairs: int) -> Any:
    arguments = kind.arguments(
        **common_arguments(spec, checkpoints),
        dataloader_num_workers=0,  # workers would keep a copy of the negatives
        eval_strategy="steps",
        save_strategy="steps",
        load_best_model_at_end=True,
        metric_for_best_model=f"eval_{metric}",
        greater_is_better=True,
        logging_steps=1,
        router_mapping={**ROLES, **{f"negative_{n + 1}": "document" for n in range(spec.n_negatives)}},
    )
    per_epoch = math.ceil(n_pairs / (spec.batch * spec.accumulate * arguments.world_size))
    every = math.ceil(spec.epochs * per_epoch / spec.evaluations)
    arguments.eval_steps = arguments.save_steps = every
    arguments.max_steps = every * spec.evaluations  # the last step is evaluated too
    return arguments


class TrainingBar(TrainerCallback):  # type: ignore[misc]
    """The progress bar of a training: loss, validation score and time left.

    Args:
        dataset: the name under which validation scores are logged.
        show: whether this process shows the bar.
    """

    def __init__(self, dataset: str, *, show: bool) -> None:
        self.metric, self._show = f"eval_{dataset}_mrr", show
        self._stack = ExitStack()
        self._advance: Advance
        self._loss, self._mrr = "", ""

    def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Open the bar at the current step."""
        bar = progress("Training", state.max_steps, done=state.global_step, show=self._show)
        self._advance = self._stack.enter_context(bar)

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Advance the bar."""
        self._advance(1, f"{self._loss}{self._mrr}")

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **others: Any) -> None:
        """Keep the loss to show."""
        if logs and "loss" in logs:
            self._loss = f"loss {logs['loss']:.3f}"

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: dict[str, float], **others: Any) -> None:
        """Keep the validation score to show."""
        if self.metric in metrics:
            self._mrr = f", validation MRR {metrics[self.metric]:.4f} at step {state.global_step:,}"

    def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Close the bar."""
        self._stack.close()

    def log(self, state: Any, refreshes: list[dict[str, float]]) -> TrainingLog:
        """Return the log of the finished training."""
        curve = [{"step": each["step"], "mrr": each[self.metric]} for each in state.log_history if self.metric in each]
        losses = [{"step": each["step"], "loss": each["loss"]} for each in state.log_history if "loss" in each]
        best = max(curve, key=lambda each: (each["mrr"], -each["step"]))["step"] if curve else state.global_step
        return TrainingLog(state.global_step, int(best), curve, losses, refreshes)


FILES = "files.json"
"""The file of a checkpoint that lists its files and their sizes, written last."""


class CheckpointSeal(TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """Marks each checkpoint as complete; the last callback, since others write files too."""

    def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Write the list of its files, in the first process, when all are done."""
        if distributed.is_initialized():
            distributed.barrier()
        if state.is_world_process_zero:
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            write_text(folder / FILES, json.dumps(_file_sizes(folder)))


def last_checkpoint(folder: Path, processes: ProcessGroup) -> Path | None:
    """Return the newest complete checkpoint, None where there is none; the first process removes the incomplete."""
    for each in folder.glob("checkpoint-*") if processes.rank == 0 else ():
        if not _is_complete(each):
            shutil.rmtree(each)
    processes.gather(None)
    return max(folder.glob("checkpoint-*"), key=lambda each: int(each.name.rpartition("-")[2]), default=None)


def _is_complete(checkpoint: Path) -> bool:
    try:
        stated = json.loads((checkpoint / FILES).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    sizes = _file_sizes(checkpoint)
    return all(sizes.get(name) == size for name, size in stated.items())


def _file_sizes(folder: Path) -> dict[str, int]:
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return {file.relative_to(folder).as_posix(): file.stat().st_size for file in files}


Known = Callable[[NDArray[np.int64]], NDArray[np.bool_]]
"""Labels of a batch -> whether the document of each column is another answer of each question, shape (questions,
columns); the columns are all positives, then all first negatives, and so on."""


class MaskedSimilarity:
    """A similarity that is minus infinity between a question and its other answers.

    Losses call it for some questions at a time, in order, with all documents; `begin` sets the batch.
    """

    def __init__(
        self, similarity: Callable[..., Tensor], known: Known, *, by_question: bool = False, gather: bool = False
    ) -> None:
        self.similarity, self.known, self.by_question, self.gather = similarity, known, by_question, gather
        self.__name__ = f"masked {getattr(similarity, '__name__', type(similarity).__name__)}"
        self._mask: NDArray[np.bool_] = np.zeros((0, 0), bool)
        self._n_seen = 0

    def begin(self, labels: Tensor, n_columns: int) -> None:
        """Set the labels of the next batch, which has `n_columns` documents per question."""
        of_all, first = _gather_labels(labels) if self.gather else (labels, 0)
        self._mask = self.known(of_all.cpu().numpy())[first : first + len(labels)]
        if self.by_question:  # all documents of the first question, then of the second
            n = self._mask.shape[1] // n_columns
            self._mask = self._mask[:, np.arange(n_columns * n).reshape(n_columns, n).T.ravel()]
        self._n_seen = 0

    def __call__(self, queries: Tensor, documents: Tensor, **masks: Tensor) -> Tensor:
        """Return the similarities, shape (queries, documents)."""
        scores = self.similarity(queries, documents, **masks)
        rows = self._mask[self._n_seen : self._n_seen + len(scores)]
        self._n_seen += len(scores)
        return scores.masked_fill(from_numpy(rows).to(scores.device), float("-inf"))


def mask_answers(loss: nn.Module, known: Known, *, by_question: bool = False) -> nn.Module:
    """Make a loss of sentence-transformers ignore other answers of a question, and return it.

    Args:
        loss: has a `similarity_fct`; its `labels` are the training rows of a batch.
        known: returns the other answers in a batch.
        by_question: as in `EncoderClasses`.

    Differs from upstream: only where there is something to mask.
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


def _gather_labels(labels: Tensor) -> tuple[Tensor, int]:
    """Return the labels of all processes, in order of rank, and the first place of this one's."""
    if not distributed.is_initialized():
        return labels, 0
    parts = [empty_like(labels) for _ in range(distributed.get_world_size())]
    distributed.all_gather(parts, labels.contiguous())
    return cat(parts), distributed.get_rank() * len(labels)
