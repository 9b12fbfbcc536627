"""Knowledge benchmarks for the Hugging Face world: load, run, score, compare.

>>> import kbbench_hf
>>> kbbench_hf.benchmark("mini-text2kg").answer
'triples'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kbbench_hf.benchmarks import benchmark, benchmark_names
    from kbbench_hf.comparison import compare
    from kbbench_hf.errors import BusyError, DataError, KBBenchError, UsageError
    from kbbench_hf.knowledge_base.store import KnowledgeBase
    from kbbench_hf.scoring import Result, score

__version__ = "0.1.0"

_ADDRESSES = {
    "benchmark": "kbbench_hf.benchmarks",
    "benchmark_names": "kbbench_hf.benchmarks",
    "BusyError": "kbbench_hf.errors",
    "DataError": "kbbench_hf.errors",
    "KBBenchError": "kbbench_hf.errors",
    "UsageError": "kbbench_hf.errors",
    "KnowledgeBase": "kbbench_hf.knowledge_base.store",
    "Result": "kbbench_hf.scoring",
    "compare": "kbbench_hf.comparison",
    "score": "kbbench_hf.scoring",
}
__all__ = [
    "BusyError",
    "DataError",
    "KBBenchError",
    "KnowledgeBase",
    "Result",
    "UsageError",
    "benchmark",
    "benchmark_names",
    "compare",
    "score",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import kbbench_hf` stays instant."""
    if name in _ADDRESSES:
        return getattr(import_module(_ADDRESSES[name]), name)
    raise AttributeError(f"module 'kbbench_hf' has no attribute {name!r}")
