"""Training of retrievers, and scores of a benchmark during any training.

>>> from kbbench_hf.training import TrainSpec
>>> TrainSpec("mini-stark", "dpr", "org/model").learning_rate
5e-05
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kbbench_hf.training.scores import GenerationScores, RetrievalScores
    from kbbench_hf.training.spec import TrainSpec

__all__ = ["GenerationScores", "RetrievalScores", "TrainSpec"]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: the hooks need transformers, a spec does not."""
    if name not in __all__:
        raise AttributeError(f"module 'kbbench_hf.training' has no attribute {name!r}")
    return getattr(import_module(f"kbbench_hf.training.{'spec' if name == 'TrainSpec' else 'scores'}"), name)
