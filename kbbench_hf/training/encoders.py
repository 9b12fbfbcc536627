"""Dense retrievers and late interaction, trained by sentence-transformers' own trainers."""

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from datasets import Dataset
from numpy.typing import NDArray
from sentence_transformers import (
    MultiVectorEncoder,
    MultiVectorEncoderTrainer,
    MultiVectorEncoderTrainingArguments,
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.base.modules import Dense, Router
from sentence_transformers.multi_vector_encoder.losses import (
    CachedMultiVectorMultipleNegativesRankingLoss,
    MultiVectorMultipleNegativesRankingLoss,
)
from sentence_transformers.sentence_transformer.losses import (
    CachedMultipleNegativesRankingLoss,
    MultipleNegativesRankingLoss,
)
from torch import Tensor, cat, distributed, empty_like, from_numpy, nn
from transformers import PrinterCallback, TrainerCallback, set_seed

from kbbench_hf.errors import UsageError
from kbbench_hf.files.writing import write_text
from kbbench_hf.retrieval.embedders import unloadable
from kbbench_hf.retrieval.hard_negatives import best_wrong, drawn
from kbbench_hf.retrieval.late_interaction import load
from kbbench_hf.runners.process_group import check_same, group
from kbbench_hf.runners.progress import progress
from kbbench_hf.training.mining import ranked_by, ranked_by_model
from kbbench_hf.training.pairs import Pairs
from kbbench_hf.training.questions import TrainingData
from kbbench_hf.training.refresh import Refresh
from kbbench_hf.training.scores import RetrievalScores
from kbbench_hf.training.shown import Learned, Shown
from kbbench_hf.training.spec import TrainSpec

Rows = NDArray[np.int64]
ITSELF = "itself"
"""The model as it is at the beginning, as the retriever whose mistakes are hard negatives."""
MINED = 200
"""How deep the rankings are from which negatives come: so far down their ranks are known."""
TOKENS = {"module_input_name": "token_embeddings", "module_output_name": "token_embeddings"}
ROLES = {"anchor": "query", "positive": "document"}


class Kind(NamedTuple):
    """What sentence-transformers has for one kind of encoder."""

    build: Callable[[TrainSpec], Any]
    """Returns the model to begin with."""
    trainer: type
    arguments: type
    loss: type
    cached_loss: type
    by_question: bool
    """Whether the loss has documents question by question."""


def train_dense(spec: TrainSpec, data: TrainingData, folder: Path, checkpoints: Path, *, show: bool) -> Learned:
    """Train a dense retriever (DPR, or with `refresh` ANCE), and save in `folder` the step that ranks validation best.

    Sources: Karpukhin et al., EMNLP 2020; Xiong et al., ICLR 2021.
    Differs from upstream: what answers a question is none of its negatives, wherever it stands in a batch.
    """
    return _train(DENSE, spec, data, folder, checkpoints, show=show)


def train_late(spec: TrainSpec, data: TrainingData, folder: Path, checkpoints: Path, *, show: bool) -> Learned:
    """Train late interaction (ColBERT), and save in `folder` the step that ranks validation best.

    Source: Khattab and Zaharia, SIGIR 2020. Differs from upstream: as `train_dense` does; tokens are projected where
    `dimension` says so, and have the encoder's own numbers otherwise.
    """
    return _train(LATE, spec, data, folder, checkpoints, show=show)


def _train(kind: Kind, spec: TrainSpec, data: TrainingData, folder: Path, checkpoints: Path, *, show: bool) -> Learned:
    set_seed(spec.seed)
    model = kind.build(spec)
    if (processes := group()).size > 1:
        check_same(processes, {"the hash of the weights before training": _hash(model)})
    model.max_seq_length = spec.train_length
    model.model_card_data.generate_widget_examples = False
    pairs = Pairs(data.train, data.texts, masked=spec.mask)

    def draw(wrong: Rows, version: int) -> Rows:
        return drawn(wrong, pairs.question, spec.n_negatives, data.candidates, (spec.seed, version))

    def rank(current: Any) -> Rows:
        return ranked_by_model(current, data, MINED)

    if processes.rank == 0:
        remove_torn(checkpoints)
    processes.gather(None)
    last = last_checkpoint(checkpoints)
    if spec.n_negatives:
        first = (
            rank(model)
            if spec.negatives == ITSELF
            else ranked_by(spec.negatives, data, data.train.texts, MINED, progress).ids
        )
        pairs.renew(draw(best_wrong(first, data.train.answers, spec.negatives_depth), 0), 0)
    shown = Shown(data.task.benchmark.dataset, show=show)
    refresh = Refresh(pairs, rank, draw, spec.refresh, spec.negatives_depth) if spec.refresh else None
    if refresh and last:
        refresh.resume(last)
    trainer = _trainer(kind, spec, data, model, pairs, checkpoints, [shown, *([refresh] if refresh else []), Sealed()])
    trainer.train(resume_from_checkpoint=str(last) if last else None)
    model.max_seq_length = spec.length
    if trainer.is_world_process_zero():
        model.save_pretrained(str(folder), create_model_card=False)
    return shown.learned(trainer.state, refresh.log if refresh else [])


def _hash(model: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, weights in model.state_dict().items():
        digest.update(name.encode() + weights.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _dense(spec: TrainSpec) -> SentenceTransformer:
    """Return one encoder for questions and nodes, or one for each."""
    try:
        model = SentenceTransformer(spec.base, device=_device())
    except (OSError, ValueError) as error:
        raise unloadable(spec.base, error) from error
    if spec.towers == 1:
        return model
    own = list(model)
    towers = Router.for_query_document([deepcopy(each) for each in own], own)
    return SentenceTransformer(modules=[towers], device=_device())


def _late(spec: TrainSpec) -> MultiVectorEncoder:
    """Return an encoder of tokens; `dimension` gives it a projection, whose weights are drawn by the seed."""
    if spec.towers != 1:
        raise UsageError("towers is 2; late interaction has one encoder for questions and nodes. Leave it out.")
    model = load(spec.base)
    if spec.dimension is not None:
        body, *others = list(model)
        size = body.get_embedding_dimension()
        project = Dense(size, spec.dimension, bias=False, activation_function=nn.Identity(), **TOKENS)
        model = MultiVectorEncoder(modules=[body, project, *(each for each in others if not isinstance(each, Dense))])
    return model.to(_device() or model.device)


def _device() -> str | None:
    """Return the processor where there is no accelerator; sentence-transformers chooses otherwise."""
    return None if torch.cuda.is_available() else "cpu"


DENSE = Kind(
    _dense,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
    MultipleNegativesRankingLoss,
    CachedMultipleNegativesRankingLoss,
    by_question=False,
)
LATE = Kind(
    _late,
    MultiVectorEncoderTrainer,
    MultiVectorEncoderTrainingArguments,
    MultiVectorMultipleNegativesRankingLoss,
    CachedMultiVectorMultipleNegativesRankingLoss,
    by_question=True,
)


def _trainer(
    kind: Kind,
    spec: TrainSpec,
    data: TrainingData,
    model: Any,
    pairs: Pairs,
    checkpoints: Path,
    callbacks: Sequence[TrainerCallback],
) -> Any:
    evaluator = RetrievalScores(spec.benchmark, text=data.text, max_length=spec.length, batch_size=64)
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
        dataloader_num_workers=0,  # workers would keep a copy of the negatives and never see others
        eval_strategy="steps",
        save_strategy="steps",
        save_total_limit=2,
        load_best_model_at_end=True,
        metric_for_best_model=f"eval_{evaluator.primary_metric}",
        greater_is_better=True,
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
        router_mapping={**ROLES, **{f"negative_{n + 1}": "document" for n in range(spec.n_negatives)}},
    )
    per_epoch = math.ceil(len(pairs) / (spec.batch * spec.accumulate * arguments.world_size))
    every = math.ceil(spec.epochs * per_epoch / spec.evaluations)
    arguments.eval_steps = arguments.save_steps = every
    arguments.max_steps = every * spec.evaluations  # the last step is looked at too
    several = arguments.world_size > 1
    if spec.mini_batch is None:
        loss = kind.loss(model, gather_across_devices=several)
    else:
        loss = kind.cached_loss(model, mini_batch_size=spec.mini_batch, gather_across_devices=several)
    dataset = Dataset.from_dict({"label": list(range(len(pairs)))}).with_transform(pairs.rendered)
    trainer = kind.trainer(
        model,
        arguments,
        train_dataset=dataset,
        loss=masked(loss, pairs.known, by_question=kind.by_question),
        evaluator=evaluator,
        callbacks=list(callbacks),
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


FILES = "files.json"
"""What a checkpoint holds: its files and their sizes, written when all of them are there."""


class Sealed(TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """Seals each checkpoint; the last of the callbacks, since others write files too."""

    def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Write the list of its files; the first process does, when all are done."""
        if distributed.is_initialized():
            distributed.barrier()
        if state.is_world_process_zero:
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            write_text(folder / FILES, json.dumps(_sizes(folder)))


def last_checkpoint(folder: Path) -> Path | None:
    """Return the newest checkpoint that is whole; None where there is none."""
    return max((each for each in folder.glob("checkpoint-*") if _is_whole(each)), key=_step, default=None)


def remove_torn(folder: Path) -> None:
    """Remove checkpoints that are not whole."""
    for each in folder.glob("checkpoint-*"):
        if not _is_whole(each):
            shutil.rmtree(each)


def _is_whole(checkpoint: Path) -> bool:
    try:
        stated = json.loads((checkpoint / FILES).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    there = _sizes(checkpoint)
    return bool(all(there.get(name) == size for name, size in stated.items()))


def _sizes(folder: Path) -> dict[str, int]:
    return {
        file.relative_to(folder).as_posix(): file.stat().st_size for file in sorted(folder.rglob("*")) if file.is_file()
    }


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


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
