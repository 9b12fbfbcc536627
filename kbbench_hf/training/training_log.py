"""Log of a training (loss and validation curves), and its progress bar."""

from contextlib import ExitStack
from typing import Any, NamedTuple

from transformers import TrainerCallback

from kbbench_hf.runners.progress import Advance, progress


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


class TrainingBar(TrainerCallback):  # type: ignore[misc]
    """The progress bar of a training: loss, validation score and time left.

    Args:
        dataset: the name under which validation scores are logged.
        show: whether this process shows the bar.
    """

    def __init__(self, dataset: str, *, show: bool) -> None:
        self.metric, self._show = f"eval_{dataset}_mrr", show
        self._stack = ExitStack()
        self._advance: Advance | None = None
        self._loss, self._mrr = "", ""

    def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Open the bar at the current step."""
        bar = progress("Training", state.max_steps, done=state.global_step, show=self._show)
        self._advance = self._stack.enter_context(bar)

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Advance the bar."""
        if self._advance is not None:
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
