"""Settings of a training, all that decides a trained model besides the data; and the log of a finished one.

`kbbench train` makes its options from `TrainSpec`. Both are written to `training.json`, by which a training is resumed:
fields and defaults stay.
"""

from dataclasses import asdict, dataclass
from typing import Annotated, Any, NamedTuple

from kbbench_hf.errors import UsageError

PRECISIONS = ("fp32", "bf16")
MODES = ("joint", "choices")
UNPLANNED = "graph:bm25"
"""What a planner's ranking is without plans."""
_COMMON = ("seed", "epochs", "batch", "accumulate", "learning_rate", "warmup", "precision", "shuffle", "evaluations")
_OF_ENCODERS = (
    *("mini_batch", "text", "train_length", "length", "towers", "negatives", "n_negatives", "negatives_depth"),
    *("refresh", "mask"),
)
_OF_GRAPHS = ("candidates", "graph_size", "layers")
OPTIONS_READ = {
    "dpr": (*_COMMON, *_OF_ENCODERS),
    "ance": (*_COMMON, *_OF_ENCODERS),
    "colbert": (*_COMMON, *_OF_ENCODERS, "dimension"),
    "qagnn": (*_COMMON, "text", "length", "mask", "first_stage", "mode", *_OF_GRAPHS),
    "fuse": ("seed",),
    "plan": (*_COMMON, "held_out"),
}
"""Method -> the settings that it reads; others than their defaults are refused."""


@dataclass(frozen=True)
class TrainSpec:
    """The settings of a training, saved with the model; the same spec trains the same model again.

    `kbbench train` has the annotated ones, as `--name-with-hyphens`. Lengths are in tokens. `learning_rate` is that
    after the warm-up of AdamW, and falls to 0.
    """

    benchmark: str
    """The dataset's name; the validation questions choose the step."""
    method: str
    """dpr, ance, colbert, qagnn, fuse or plan."""
    base: str
    """The base model: an encoder on the Hub or in a folder; to fuse, `weighted(a,b,...)`; for plans, a causal
    language model, or `tiny`, a new one."""
    seed: Annotated[int, "Random seed."] = 0
    epochs: Annotated[int, "Number of epochs."] = 3
    batch: Annotated[int, "Questions per batch and process."] = 32
    accumulate: Annotated[int, "Gradient accumulation steps."] = 1
    mini_batch: Annotated[int | None, "Texts in memory at a time, for larger batches (GradCache)."] = None
    learning_rate: Annotated[float, "Peak learning rate."] = 5e-5
    warmup: Annotated[float, "Warmup ratio."] = 0.1
    precision: Annotated[str, "Precision of training; bf16 (autocast) is for GPUs."] = PRECISIONS[0]
    text: Annotated[str | None, "Text of a node, as in dense:MODEL@text=.  [default: as there]"] = None
    train_length: Annotated[int, "Maximum tokens of a text in training."] = 64
    length: Annotated[int, "Maximum tokens of a text for the trained model."] = 128
    towers: Annotated[int, "2: a separate encoder for questions."] = 1
    dimension: Annotated[int | None, "colbert: token embedding dimension."] = None
    """Of a learned projection; none where None."""
    negatives: Annotated[str, "Retriever that finds hard negatives: bm25, or itself."] = "bm25"
    n_negatives: Annotated[int, "Hard negatives per positive."] = 1
    negatives_depth: Annotated[int, "Sample negatives from the top wrong results, this many."] = 20
    refresh: Annotated[int | None, "Mine negatives again after this number of steps.  [default: 20 for ance]"] = None
    mask: Annotated[bool, "Exclude known answers from the negatives.  [default: mask]"] = True
    shuffle: Annotated[bool, "Baseline: train with the answers, or plans, shuffled between questions."] = False
    first_stage: Annotated[str, "qagnn: retriever of the candidate nodes."] = "bm25"
    candidates: Annotated[int, "qagnn: number of candidate nodes."] = 100
    graph_size: Annotated[int, "qagnn: maximum nodes of a graph."] = 200
    """Of question, candidates, linked entities, and nodes between."""
    mode: Annotated[str, "qagnn: one graph for all, or for each candidate."] = MODES[0]
    layers: Annotated[int, "qagnn: message-passing layers; 0 is the baseline without edges."] = 2
    held_out: Annotated[float, "plan: share of the shapes of several hops to leave out of training."] = 0.2
    evaluations: Annotated[int, "Number of validation runs."] = 3

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: a value is out of bounds; the message names it.
        """
        counts = ("epochs", "batch", "accumulate", "train_length", "length", "negatives_depth", "evaluations")
        checks = [
            *((name, getattr(self, name) >= 1, "a whole number from 1 up") for name in (*counts, *_OF_GRAPHS)),
            ("precision", self.precision in PRECISIONS, " or ".join(PRECISIONS)),
            ("mode", self.mode in MODES, " or ".join(MODES)),
            ("graph_size", self.graph_size > self.candidates, f"more than candidates, {self.candidates}"),
            ("held_out", 0 <= self.held_out < 1, "a share from 0 to below 1"),
            ("towers", self.towers in (1, 2), "1, or 2 for an encoder of questions of their own"),
            ("n_negatives", 0 <= self.n_negatives <= self.negatives_depth, f"0 to {self.negatives_depth}"),
        ]
        for name, is_right, expected in checks:
            if not is_right:
                raise UsageError(f"{name} is {getattr(self, name)!r}; expected {expected}.")

    def to_dict(self) -> dict[str, Any]:
        """Return the spec as in JSON: field -> value, in the order of the fields."""
        return asdict(self)


class TrainingLog(NamedTuple):
    """The curves of a finished training."""

    steps: int
    chosen_step: int
    """The step with the best validation score, whose weights are the trained model."""
    curve: list[dict[str, float]]
    """Validation scores by step."""
    losses: list[dict[str, float]]
    """Mean training losses by step."""
    refreshes: list[dict[str, float]]
    """The log of `NegativeRefresh`."""
    ceilings: dict[str, float] | None = None
    """QA-GNN: split -> the share of its questions with an answer in their graph."""
    exact_match: dict[str, float] | None = None
    """Planner: part of the validation questions -> the share whose best plan is the gold plan."""
