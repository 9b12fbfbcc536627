"""Settings of a training, all that decides a trained model besides the data; and the log of a finished one."""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

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
OPTIONS_READ = {
    "dpr": (*_COMMON, *_OF_ENCODERS),
    "ance": (*_COMMON, *_OF_ENCODERS),
    "colbert": (*_COMMON, *_OF_ENCODERS, "dimension"),
    "qagnn": (*_COMMON, "text", "length", "mask", "first_stage", "candidates", "graph_size", "mode", "layers"),
    "fuse": ("seed",),
    "plan": (*_COMMON, "held_out"),
}
"""Method -> the settings that it reads; others than their defaults are refused."""


@dataclass(frozen=True)
class TrainSpec:
    """The settings of a training, saved with the model; the same spec trains the same model again.

    Lengths are in tokens. `learning_rate` is that after the warm-up of AdamW, and falls to 0.
    """

    benchmark: str
    """The dataset's name; the validation questions choose the step."""
    method: str
    """dpr, ance, colbert, qagnn, fuse or plan."""
    base: str
    """The base model: an encoder on the Hub or in a folder; to fuse, `weighted(a,b,...)`; for plans, a causal
    language model, or `tiny`, a new one."""
    seed: int = 0
    epochs: int = 3
    """Passes over all questions and answers."""
    batch: int = 32
    """Questions per step and process."""
    accumulate: int = 1
    """Batches per step (gradient accumulation)."""
    mini_batch: int | None = None
    """Texts in memory at a time (GradCache); the whole batch where None."""
    learning_rate: float = 5e-5
    warmup: float = 0.1
    """The share of the steps in which the learning rate rises."""
    precision: str = "fp32"
    """fp32, or bf16 by autocast."""
    text: str | None = None
    """The form of the nodes' texts; the retriever's default where None."""
    train_length: int = 64
    """Tokens after which texts are cut in training."""
    length: int = 128
    """Tokens after which the trained model cuts texts."""
    towers: int = 1
    """2 gives questions an encoder of their own."""
    dimension: int | None = None
    """Late interaction: dimension of a learned projection; none where None."""
    negatives: str = "bm25"
    """The retriever whose best wrong nodes are hard negatives; `itself` is the model before training."""
    n_negatives: int = 1
    """Hard negatives per answer."""
    negatives_depth: int = 20
    """How many of the best wrong nodes of a question they are drawn from."""
    refresh: int | None = None
    """ANCE: steps between two refreshes of the negatives."""
    mask: bool = True
    """Whether known answers of a question are masked as negatives."""
    shuffle: bool = False
    """A control: each question is trained with the answers of another."""
    first_stage: str = "bm25"
    """QA-GNN: the retriever whose best nodes are candidates."""
    candidates: int = 100
    """QA-GNN: candidates per question."""
    graph_size: int = 200
    """QA-GNN: nodes of a graph: question, candidates, linked entities, nodes between."""
    mode: str = "joint"
    """QA-GNN: `joint` scores all candidates in one graph, `choices` each in its own."""
    layers: int = 2
    """QA-GNN: rounds of message passing; a control of 0 layers is trained too."""
    held_out: float = 0.2
    """Planner: share of the path shapes of several hops that is not trained, to measure unseen combinations."""
    evaluations: int = 3
    """Evaluations on the validation questions, of which the best step is kept."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: a value is out of bounds; the message names it.
        """
        counts = ("epochs", "batch", "accumulate", "train_length", "length", "negatives_depth", "evaluations")
        for name in (*counts, "candidates", "graph_size", "layers"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}; expected a whole number from 1 up.")
        if self.precision not in PRECISIONS:
            raise UsageError(f"precision is {self.precision!r}; expected {' or '.join(PRECISIONS)}.")
        if self.mode not in MODES:
            raise UsageError(f"mode is {self.mode!r}; expected {' or '.join(MODES)}.")
        if self.graph_size <= self.candidates:
            raise UsageError(
                f"graph_size is {self.graph_size}, and candidates {self.candidates}; expected room for what joins them."
            )
        if not 0 <= self.held_out < 1:
            raise UsageError(f"held_out is {self.held_out}; expected a share from 0 to below 1.")
        if self.towers not in (1, 2):
            raise UsageError(f"towers is {self.towers}; expected 1, or 2 for an encoder of questions of their own.")
        if not 0 <= self.n_negatives <= self.negatives_depth:
            raise UsageError(f"n_negatives is {self.n_negatives}; expected 0 to {self.negatives_depth}.")

    def to_dict(self) -> dict[str, Any]:
        """Return the spec as in JSON."""
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
