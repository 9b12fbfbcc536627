"""Training of dense retrievers (DPR, ANCE) and late interaction (ColBERT) by sentence-transformers' trainers."""

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Iterable
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
from kbbench_hf.retrieval.embedders import unloadable
from kbbench_hf.retrieval.late_interaction import load
from kbbench_hf.runners.process_group import check_same, group
from kbbench_hf.runners.progress import progress
from kbbench_hf.training.negatives import (
    NegativeRefresh,
    TrainingPairs,
    best_wrong,
    draw_negatives,
    rank_by_model,
    rank_by_name,
)
from kbbench_hf.training.questions import TrainingData
from kbbench_hf.training.scores import RetrievalScores
from kbbench_hf.training.spec import TrainSpec
from kbbench_hf.training.training_log import TrainingBar, TrainingLog

Rows = NDArray[np.int64]
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

    if processes.rank == 0:
        remove_incomplete(checkpoints)
    processes.gather(None)
    last = last_checkpoint(checkpoints)
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


def _arguments(kind: EncoderClasses, spec: TrainSpec, checkpoints: Path, metric: str, n_pairs: int) -> Any:
    arguments = kind.arguments(
        str(checkpoints),
        per_device_train_batch_size=spec.batch,
        gradient_accumulation_steps=spec.accumulate,
        learning_rate=spec.learning_rate,
        warmup_steps=spec.warmup,
        seed=spec.seed,
        data_seed=spec.seed,
        bf16=spec.precision == "bf16",
        use_cpu=not torch.cuda.is_available(),
        dataloader_num_workers=0,  # workers would keep a copy of the negatives
        eval_strategy="steps",
        save_strategy="steps",
        save_total_limit=2,
        load_best_model_at_end=True,
        metric_for_best_model=f"eval_{metric}",
        greater_is_better=True,
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
        router_mapping={**ROLES, **{f"negative_{n + 1}": "document" for n in range(spec.n_negatives)}},
    )
    per_epoch = math.ceil(n_pairs / (spec.batch * spec.accumulate * arguments.world_size))
    every = math.ceil(spec.epochs * per_epoch / spec.evaluations)
    arguments.eval_steps = arguments.save_steps = every
    arguments.max_steps = every * spec.evaluations  # the last step is evaluated too
    return arguments


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


def last_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint; None where there is none."""
    complete = (each for each in folder.glob("checkpoint-*") if _is_complete(each))
    return max(complete, key=lambda each: int(each.name.rpartition("-")[2]), default=None)


def remove_incomplete(folder: Path) -> None:
    """Remove incomplete checkpoints."""
    for each in folder.glob("checkpoint-*"):
        if not _is_complete(each):
            shutil.rmtree(each)


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
