"""ANCE: hard negatives that are mined anew by the model as it learns. Source: Xiong et al., ICLR 2021."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import TrainerCallback

from kbbench_hf.retrieval.hard_negatives import best_wrong
from kbbench_hf.training.pairs import Pairs

Rows = NDArray[np.int64]
NEGATIVES = "negatives.npz"


class Refresh(TrainerCallback):  # type: ignore[misc]
    """Mines after every `every` steps, logs how the negatives moved, and keeps them in the checkpoints.

    A refresh that falls on a step at which a checkpoint is written waits for the next step: the loader reads one batch
    ahead, so that the batch after a refresh has the negatives from before it, which a resumed run would not know.

    Args:
        pairs: what is trained on; its negatives are replaced.
        rank: returns the best nodes of each training question by the model as it is now, best first.
        draw: returns the negatives of each pair from the best wrong nodes of its question, and a version.
        every: steps between two refreshes.
        depth: so many of the best wrong nodes are drawn from.
    """

    def __init__(
        self, pairs: Pairs, rank: Callable[[Any], Rows], draw: Callable[[Rows, int], Rows], every: int, depth: int
    ) -> None:
        self.pairs, self.rank, self.draw, self.every, self.depth = pairs, rank, draw, every, depth
        self.log: list[dict[str, float]] = []
        """For each refresh: step, version of the index, the median rank of the negatives before it in the new ranking,
        and the share of these that are among the `depth` best wrong nodes still."""
        self._due = every

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **others: Any) -> None:
        """Mine, where it is time."""
        if state.global_step < self._due or state.global_step % int(args.save_steps) == 0:
            return
        self._due = state.global_step + self.every
        ranked = self.rank(model)
        before, rows = self.pairs.negatives, self.pairs.question
        wrong = best_wrong(ranked, self.pairs.questions.answers, self.depth)
        ranks = np.array(
            [_ranks(ranked[question], own) for question, own in zip(rows.tolist(), before, strict=True)]
        ).ravel()
        kept = np.array([np.isin(own, wrong[question]) for question, own in zip(rows.tolist(), before, strict=True)])
        self.pairs.renew(self.draw(wrong, self.pairs.version + 1))
        self.log.append(
            {
                "step": state.global_step,
                "version": self.pairs.version,
                "median_rank_before": float(np.median(ranks)) if len(ranks) else float("nan"),
                "share_still_hard": float(kept.mean()) if kept.size else float("nan"),
            }
        )

    def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Write the negatives beside the weights; the first process does."""
        if state.is_world_process_zero:
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            log = np.array([list(each.values()) for each in self.log]).reshape(-1, 4)
            own: dict[str, Any] = {"negatives": self.pairs.negatives, "version": self.pairs.version, "due": self._due}
            np.savez(folder / NEGATIVES, log=log, **own)

    def resume(self, checkpoint: Path) -> None:
        """Take up the negatives of a checkpoint."""
        with np.load(checkpoint / NEGATIVES) as stored:
            self.pairs.renew(stored["negatives"], int(stored["version"]))
            self._due = int(stored["due"])
            names = ("step", "version", "median_rank_before", "share_still_hard")
            self.log = [dict(zip(names, row, strict=True)) for row in stored["log"].tolist()]


def _ranks(ranking: Rows, nodes: Rows) -> Rows:
    """Return the rank of each node, from 1; one behind the last where it is not there."""
    place = {node: rank for rank, node in enumerate(ranking.tolist(), start=1)}
    return np.array([place.get(node, len(ranking) + 1) for node in nodes.tolist()], np.int64)
