"""What is trained, from what, and how: all that decides a trained model beside the data."""

from dataclasses import asdict, dataclass
from typing import Any

from kbbench_hf.errors import UsageError

PRECISIONS = ("fp32", "bf16")
MODES = ("joint", "choices")


@dataclass(frozen=True)
class TrainSpec:
    """How a retriever is trained; it is saved with the model, and the same spec trains the same model again.

    Lengths are tokens, `learning_rate` is that of AdamW's first step after the warm-up, from where it falls to 0.
    """

    benchmark: str
    """The dataset's name; its training questions teach, its validation questions choose."""
    method: str
    """dpr, ance, colbert, qagnn or fuse."""
    base: str
    """What training starts from: an encoder on the Hub or in a folder; to fuse, `weighted(a,b,...)`."""
    seed: int = 0
    epochs: int = 3
    """How often every question and answer is seen."""
    batch: int = 32
    """Questions for one step of each process."""
    accumulate: int = 1
    """Batches whose gradients make one step."""
    mini_batch: int | None = None
    """Texts that are in memory at a time, where a batch is larger than memory (GradCache); a whole batch where None."""
    learning_rate: float = 5e-5
    warmup: float = 0.1
    """The share of the steps in which the learning rate rises."""
    precision: str = "fp32"
    """fp32, or bf16 by autocast."""
    text: str | None = None
    """What stands for a node; what the trained retriever reads by default where None."""
    train_length: int = 64
    """Where texts are cut in training."""
    length: int = 128
    """Where the trained model cuts them."""
    towers: int = 1
    """2 gives questions an encoder of their own."""
    dimension: int | None = None
    """Late interaction: numbers for a token, by a projection that is learned; those of the encoder where None."""
    negatives: str = "bm25"
    """The retriever whose best wrong nodes are hard negatives; `itself` is the model as it is at the beginning."""
    n_negatives: int = 1
    """Hard negatives beside each answer."""
    negatives_depth: int = 20
    """They are drawn from so many of the best wrong nodes of a question."""
    refresh: int | None = None
    """ANCE: the model mines anew after so many steps."""
    mask: bool = True
    """Whether all known answers of a question are kept from being its negatives."""
    shuffle: bool = False
    """A control: each question is taught another one's answers."""
    first_stage: str = "bm25"
    """QAGNN: the retriever whose best nodes are in the graph of a question."""
    candidates: int = 100
    """QAGNN: how many of these."""
    graph_size: int = 200
    """QAGNN: nodes of a graph, with the question, what it names, and what joins all these."""
    mode: str = "joint"
    """QAGNN: `joint` scores all candidates in one graph, `choices` each in a graph of its own."""
    layers: int = 2
    """QAGNN: how often messages are passed; beside it one of 0 layers is trained."""
    evaluations: int = 3
    """How often the validation questions are ranked; the best of them is kept."""

    def __post_init__(self) -> None:
        """Refuse what cannot be trained.

        Raises:
            UsageError: a number or a word that is out of bounds; the message names it.
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
        if self.towers not in (1, 2):
            raise UsageError(f"towers is {self.towers}; expected 1, or 2 for an encoder of questions of their own.")
        if not 0 <= self.n_negatives <= self.negatives_depth:
            raise UsageError(f"n_negatives is {self.n_negatives}; expected 0 to {self.negatives_depth}.")

    def to_dict(self) -> dict[str, Any]:
        """Return the spec as JSON has it."""
        return asdict(self)
