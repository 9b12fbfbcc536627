"""Knowledge benchmarks for the Hugging Face world: load, run, score, compare.

>>> import kbbench_hf
>>> kbbench_hf.benchmark("mini-stark").scoring.answer.field
'ids'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kbbench_hf.moved import install as _find_moved_modules

if TYPE_CHECKING:
    from kbbench_hf.benchmarks import benchmark, benchmark_names
    from kbbench_hf.benchmarks.base import Benchmark
    from kbbench_hf.benchmarks.load import KnowledgeBase, load
    from kbbench_hf.errors import BusyError, DataError, KBBenchError, UsageError
    from kbbench_hf.runners.run import run
    from kbbench_hf.scoring.comparison import Comparison, compare
    from kbbench_hf.scoring.evaluate_modules import trainer_metrics
    from kbbench_hf.scoring.result import Result
    from kbbench_hf.scoring.score import score
    from kbbench_hf.training.train import train

_ADDRESSES = {
    "load": "kbbench_hf.benchmarks.load",
    "benchmark": "kbbench_hf.benchmarks",
    "benchmark_names": "kbbench_hf.benchmarks",
    "run": "kbbench_hf.runners.run",
    "score": "kbbench_hf.scoring.score",
    "train": "kbbench_hf.training.train",
    "compare": "kbbench_hf.scoring.comparison",
    "KnowledgeBase": "kbbench_hf.benchmarks.load",
    "Benchmark": "kbbench_hf.benchmarks.base",
    "Result": "kbbench_hf.scoring.result",
    "trainer_metrics": "kbbench_hf.scoring.evaluate_modules",
    "Comparison": "kbbench_hf.scoring.comparison",
    "KBBenchError": "kbbench_hf.errors",
    "UsageError": "kbbench_hf.errors",
    "DataError": "kbbench_hf.errors",
    "BusyError": "kbbench_hf.errors",
}
"""Public name -> the module that has it."""
__all__ = [
    "Benchmark",
    "BusyError",
    "Comparison",
    "DataError",
    "KBBenchError",
    "KnowledgeBase",
    "Result",
    "UsageError",
    "benchmark",
    "benchmark_names",
    "compare",
    "load",
    "run",
    "score",
    "train",
    "trainer_metrics",
]

_find_moved_modules()


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import kbbench_hf` stays instant."""
    if name == "__version__":
        return import_module("importlib.metadata").version("kbbench-hf")
    if name in _ADDRESSES:
        return getattr(import_module(_ADDRESSES[name]), name)
    raise AttributeError(f"module 'kbbench_hf' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Name what can be used."""
    return sorted([*__all__, "__version__"])
