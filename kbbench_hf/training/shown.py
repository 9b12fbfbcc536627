"""What is seen of a training: one bar with loss, validation and time left, and what is known of it at the end."""

from contextlib import ExitStack
from typing import Any, NamedTuple

from transformers import TrainerCallback

from kbbench_hf.runners.progress import Advance, progress


class Learned(NamedTuple):
    """What a training did."""

    steps: int
    chosen_step: int
    """The step whose weights rank the validation questions best; they are the trained model."""
    curve: list[dict[str, float]]
    """Validation figures by step."""
    losses: list[dict[str, float]]
    """Mean training losses by step."""
    refreshes: list[dict[str, float]]
    """How hard negatives moved, where they were mined anew."""
    ceilings: dict[str, float] | None = None
    """Split -> the share of its questions with an answer in their graph, for what ranks the nodes of graphs."""


class Shown(TrainerCallback):  # type: ignore[misc]
    """The bar of a training.

    Args:
        dataset: what validation figures are logged under.
        show: whether this process shows anything.
    """

    def __init__(self, dataset: str, *, show: bool) -> None:
        self.metric, self._show = f"eval_{dataset}_mrr", show
        self._stack = ExitStack()
        self._advance: Advance | None = None
        self._loss, self._mrr = "", ""

    def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Open the bar where an earlier run left it."""
        bar = progress("Training", state.max_steps, done=state.global_step, show=self._show)
        self._advance = self._stack.enter_context(bar)

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Move on."""
        if self._advance is not None:
            self._advance(1, f"{self._loss}{self._mrr}")

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **others: Any) -> None:
        """Note the loss."""
        if logs and "loss" in logs:
            self._loss = f"loss {logs['loss']:.3f}"

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: dict[str, float], **others: Any) -> None:
        """Note the validation figure."""
        if self.metric in metrics:
            self._mrr = f", validation MRR {metrics[self.metric]:.4f} at step {state.global_step:,}"

    def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Close the bar."""
        self._stack.close()

    def learned(self, state: Any, refreshes: list[dict[str, float]]) -> Learned:
        """Return what is known at the end."""
        curve = [{"step": each["step"], "mrr": each[self.metric]} for each in state.log_history if self.metric in each]
        losses = [{"step": each["step"], "loss": each["loss"]} for each in state.log_history if "loss" in each]
        best = max(curve, key=lambda each: (each["mrr"], -each["step"]))["step"] if curve else state.global_step
        return Learned(state.global_step, int(best), curve, losses, refreshes)
