"""Training of QA-GNN over a first stage (torch, Accelerate), and of its control of 0 layers.

`training.train` calls `train_qagnn`; `qagnn:FOLDER` reads the settings and weights that it writes. The same spec trains
the same networks, also after an interruption.
"""

import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch.utils.data import DataLoader
from transformers import get_linear_schedule_with_warmup, set_seed
from transformers.trainer_utils import get_last_checkpoint

from kbbench_hf.errors import DataError
from kbbench_hf.retrieval import qagnn
from kbbench_hf.retrieval.context import RetrieverContext
from kbbench_hf.retrieval.embedders import SentenceEmbedder
from kbbench_hf.retrieval.top_k import best
from kbbench_hf.runners.process_group import check_same, group, shared_cache
from kbbench_hf.runners.progress import progress
from kbbench_hf.runners.retrieval_run import default_cache
from kbbench_hf.training.questions import SplitQuestions, TrainingData, rank_by_name, reciprocal_rank
from kbbench_hf.training.spec import TrainingLog, TrainSpec

WEIGHT_DECAY = 0.01


class LabeledGraphs(NamedTuple):
    """The query graphs of a split, the vectors of the queries, and which candidates are answers."""

    graphs: Sequence[qagnn.QueryGraph]
    queries: NDArray[np.float32]
    right: Sequence[NDArray[np.bool_]]

    @property
    def ceiling(self) -> float:
        """The share of the questions with an answer in their graph."""
        return float(np.mean([each.any() for each in self.right])) if self.right else math.nan


Splits = tuple[LabeledGraphs, LabeledGraphs]
"""Training and validation."""


def train_qagnn(spec: TrainSpec, data: TrainingData, folder: Path, checkpoints: Path, *, show: bool) -> TrainingLog:
    """Train a graph network and one of 0 layers with the same budget, and save both in `folder`.

    The step of each with the best validation score is kept. The loss is listwise over the candidates of a graph;
    questions without an answer there are left out.

    Source: Yasunaga et al., NAACL 2021. Differs from upstream: see `retrieval.qagnn`.

    Raises:
        DataError: no training question has an answer in its graph.
    """
    graph = data.kb.graph
    own = ("text", "length", "first_stage", "candidates", "graph_size", "mode", "layers")
    config = qagnn.NetworkConfig(
        encoder=spec.base,
        revision=SentenceEmbedder(spec.base).name.rpartition("@")[2],
        **{name: getattr(spec, name) for name in own},
        node_types=list(graph.node_types),
        relations=list(graph.relations),
    )
    processes = group()
    check_same(processes, {"the encoder's revision": config.revision})
    cache = shared_cache(processes, default_cache(), checkpoints)
    context = RetrieverContext(
        data.kb, cache, candidates=data.candidates, processes=processes, progress=progress, forms=data.forms
    )
    features = qagnn.GraphFeatures(config, context)
    train = _labeled_graphs(spec, data, features, data.train, mask=spec.mask)
    validation = _labeled_graphs(spec, data, features, data.validation, mask=True)
    if not any(each.any() for each in train.right):
        raise DataError(
            f"No training question of {spec.benchmark} has an answer in its graph; expected some. Take a better first "
            "stage (--first-stage), or more of its nodes (--candidates, --graph-size)."
        )
    splits = (train, validation)
    learned = {
        layers: _train_network(spec, features, layers, splits, folder, checkpoints / f"{layers}-layers", show=show)
        for layers in dict.fromkeys((spec.layers, 0))
    }
    if processes.rank == 0:
        config.save(folder)
    ceilings = {"train": train.ceiling, "validation": validation.ceiling}
    return learned[spec.layers]._replace(ceilings=ceilings)


def _labeled_graphs(
    spec: TrainSpec, data: TrainingData, features: qagnn.GraphFeatures, of: SplitQuestions, *, mask: bool
) -> LabeledGraphs:
    """Return the labeled graphs of questions; without `mask` only the first answer of each is right."""
    ranking = rank_by_name(spec.first_stage, data, of.texts, qagnn.DEPTH, progress)
    graphs = features.graphs.build(of.texts, ranking)
    right = [
        np.isin(graph.rows[graph.scored], answers if mask else answers[:1])
        for graph, answers in zip(graphs, of.answers, strict=True)
    ]
    return LabeledGraphs(graphs, features.embedder.encode_queries(of.texts), right)


def _train_network(
    spec: TrainSpec,
    features: qagnn.GraphFeatures,
    layers: int,
    splits: Splits,
    folder: Path,
    checkpoints: Path,
    *,
    show: bool,
) -> TrainingLog:
    """Train one network, from its last checkpoint on, and save the weights of its best step in `folder`."""
    train, validation = splits
    set_seed(spec.seed)
    accelerator = Accelerator(
        cpu=not torch.cuda.is_available(),
        mixed_precision="bf16" if spec.precision == "bf16" else "no",
        gradient_accumulation_steps=spec.accumulate,
        dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True, data_seed=spec.seed),
    )
    network = features.network(layers)
    optimizer = torch.optim.AdamW(network.parameters(), lr=spec.learning_rate, weight_decay=WEIGHT_DECAY)
    teaching = [number for number, right in enumerate(train.right) if right.any()]

    def collated(numbers: Sequence[int]) -> tuple[qagnn.Batch, torch.Tensor]:
        graphs = [train.graphs[number] for number in numbers]
        batch = features.batch(graphs, train.queries[list(numbers)])
        return batch, torch.from_numpy(np.concatenate([train.right[number] for number in numbers]))

    loader = DataLoader(teaching, spec.batch, shuffle=True, collate_fn=collated)
    network, optimizer, loader = accelerator.prepare(network, optimizer, loader)
    per_epoch = math.ceil(len(loader) / spec.accumulate)
    steps = spec.epochs * per_epoch
    schedule = get_linear_schedule_with_warmup(optimizer, round(spec.warmup * steps), steps)
    accelerator.register_for_checkpointing(schedule)
    state = _TrainingState()
    accelerator.register_for_checkpointing(state)
    if last := get_last_checkpoint(str(checkpoints)) if checkpoints.is_dir() else None:
        accelerator.load_state(last)
    every = math.ceil(spec.epochs / spec.evaluations)
    with progress(f"Training, {layers} layers", steps, done=state.epoch * per_epoch, show=show) as advance:
        while state.epoch < spec.epochs:
            loader.set_epoch(state.epoch)
            network.train()
            losses = []
            for batch, right in loader:
                with accelerator.accumulate(network):
                    loss = listwise_loss(network(batch), right, batch.questions)
                    accelerator.backward(loss)
                    optimizer.step()
                    if accelerator.sync_gradients:
                        schedule.step()
                        advance(1, state.describe(loss.item()))
                    optimizer.zero_grad()
                losses.append(loss.item())
            state.epoch += 1
            state.losses.append({"step": state.epoch * per_epoch, "loss": float(np.mean(losses))})
            if state.epoch % every == 0 or state.epoch == spec.epochs:
                unwrapped = accelerator.unwrap_model(network)
                state.add_score(state.epoch * per_epoch, _mrr(unwrapped, features, validation), unwrapped)
                _save_checkpoint(accelerator, checkpoints, state.epoch)
    if accelerator.is_main_process:
        save_file(state.weights, folder / qagnn.weights_file(layers))
    accelerator.wait_for_everyone()
    accelerator.free_memory()
    best_step = max(state.curve, key=lambda each: (each["mrr"], -each["step"]))["step"]
    return TrainingLog(steps, int(best_step), state.curve, state.losses, [])


def listwise_loss(scores: torch.Tensor, right: torch.Tensor, questions: torch.Tensor) -> torch.Tensor:
    """Return the mean over questions of - log of the softmax over a question's candidates that its answers have.

    >>> scores, questions = torch.tensor([0.0, 0.0, 1.0]), torch.tensor([0, 0, 1])
    >>> round(float(listwise_loss(scores, torch.tensor([True, False, True]), questions)), 4)  # log(2) / 2
    0.3466
    """
    n = int(questions[-1]) + 1
    shares = qagnn.softmax_by(scores.float(), questions, n)
    return -qagnn.summed_by(shares * right, questions, n).clamp_min(1e-12).log().mean()


class _TrainingState:
    """The state of a training in a checkpoint, beside that of Accelerate."""

    def __init__(self) -> None:
        self.epoch = 0
        self.curve: list[dict[str, float]] = []
        self.losses: list[dict[str, float]] = []
        self.weights: dict[str, torch.Tensor] = {}
        """Those of the step with the best validation score."""

    def add_score(self, step: int, mrr: float, network: qagnn.GraphNetwork) -> None:
        """Add a validation score, and keep the weights if it is the best."""
        if not self.curve or mrr > max(each["mrr"] for each in self.curve):
            self.weights = {name: value.detach().cpu().clone() for name, value in network.state_dict().items()}
        self.curve.append({"step": step, "mrr": mrr})

    def describe(self, loss: float) -> str:
        """Return the text of the bar."""
        last = f", validation MRR {self.curve[-1]['mrr']:.4f} at step {self.curve[-1]['step']:,}" if self.curve else ""
        return f"loss {loss:.3f}{last}"

    def state_dict(self) -> dict[str, Any]:
        """Return the state."""
        return dict(vars(self))

    def load_state_dict(self, stored: dict[str, Any]) -> None:
        """Restore a state."""
        vars(self).update(stored)


def _save_checkpoint(accelerator: Accelerator, checkpoints: Path, epoch: int) -> None:
    """Write a checkpoint, whole or not at all, and remove the one before it."""
    last, partial = checkpoints / f"checkpoint-{epoch}", checkpoints / "partial"
    if accelerator.is_main_process:
        shutil.rmtree(partial, ignore_errors=True)
    accelerator.wait_for_everyone()
    accelerator.save_state(str(partial), safe_serialization=True)
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        partial.rename(last)
        for older in checkpoints.glob("checkpoint-*"):
            if older != last:
                shutil.rmtree(older)
    accelerator.wait_for_everyone()


def _mrr(network: qagnn.GraphNetwork, features: qagnn.GraphFeatures, of: LabeledGraphs) -> float:
    """Return the mean reciprocal rank of the first answer among each graph's candidates; processes share the work."""
    network.eval()
    own = group().shard(range(len(of.graphs)))
    results: list[float] = []
    for start in range(own.start, own.stop, qagnn.BATCH):
        part = slice(start, min(start + qagnn.BATCH, own.stop))
        scores = qagnn.score_graphs(network, features, of.graphs[part], of.queries[part])
        pairs = zip(scores, of.right[part], strict=True)
        results += [reciprocal_rank(right[best(each, len(each))]) for each, right in pairs]
    return float(np.mean([value for part in group().gather(results) for value in part]))
