"""Knowledge benchmarks for the Hugging Face world: load, run, score, compare, build.

>>> import kbbench_hf
>>> kbbench_hf.benchmark("mini-stark").scoring.answer.field
'ids'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kbbench_hf.moved import install as _find_moved_modules

if TYPE_CHECKING:
    from kbbench_hf.benchmarks import benchmark, benchmark_names
    from kbbench_hf.benchmarks.answers import ANSWERS, IDS, TRIPLES, AnswerKind
    from kbbench_hf.benchmarks.base import (
        Asking,
        Benchmark,
        Data,
        Example,
        Examples,
        Explanation,
        Facts,
        Metric,
        Prompt,
        PromptOptions,
        Scores,
        Scoring,
        Showing,
        of_text,
    )
    from kbbench_hf.benchmarks.load import load
    from kbbench_hf.benchmarks.warnings import ScoreWarning
    from kbbench_hf.building.build import BuildOptions, build
    from kbbench_hf.building.synthesis.synthesize import synthesize
    from kbbench_hf.errors import BusyError, DataError, KBBenchError, UsageError
    from kbbench_hf.files.datasets import DatasetFolder, write_dataset
    from kbbench_hf.knowledge_base.store import KnowledgeBase
    from kbbench_hf.parsing.parsed_reply import ParsedReply, ParseError
    from kbbench_hf.retrieval.ir_tools import ir_dataset, mteb_task
    from kbbench_hf.runners.run import run
    from kbbench_hf.runners.run_options import RunOptions
    from kbbench_hf.scoring.comparison import Comparison, compare
    from kbbench_hf.scoring.evaluate_modules import trainer_metrics
    from kbbench_hf.scoring.result import Result
    from kbbench_hf.scoring.score import score
    from kbbench_hf.training.train import train

_NAMES = {
    "benchmarks": "benchmark benchmark_names",
    "benchmarks.answers": "ANSWERS IDS TRIPLES AnswerKind",
    "benchmarks.base": "Asking Benchmark Data Example Examples Explanation Facts Prompt PromptOptions Scores Scoring "
    "Metric Showing of_text",
    "benchmarks.load": "load",
    "benchmarks.warnings": "ScoreWarning",
    "building.build": "BuildOptions build",
    "building.synthesis.synthesize": "synthesize",
    "errors": "BusyError DataError KBBenchError UsageError",
    "files.datasets": "DatasetFolder write_dataset",
    "knowledge_base.store": "KnowledgeBase",
    "parsing.parsed_reply": "ParsedReply ParseError",
    "retrieval.ir_tools": "ir_dataset mteb_task",
    "runners.run": "run",
    "runners.run_options": "RunOptions",
    "scoring.comparison": "Comparison compare",
    "scoring.evaluate_modules": "trainer_metrics",
    "scoring.result": "Result",
    "scoring.score": "score",
    "training.train": "train",
}
"""Module -> its public names. A plug-in needs no other ones."""
_ADDRESSES = {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names.split()}
__all__ = [
    "ANSWERS",
    "IDS",
    "TRIPLES",
    "AnswerKind",
    "Asking",
    "Benchmark",
    "BuildOptions",
    "BusyError",
    "Comparison",
    "Data",
    "DataError",
    "DatasetFolder",
    "Example",
    "Examples",
    "Explanation",
    "Facts",
    "KBBenchError",
    "KnowledgeBase",
    "Metric",
    "ParseError",
    "ParsedReply",
    "Prompt",
    "PromptOptions",
    "Result",
    "RunOptions",
    "ScoreWarning",
    "Scores",
    "Scoring",
    "Showing",
    "UsageError",
    "benchmark",
    "benchmark_names",
    "build",
    "compare",
    "ir_dataset",
    "load",
    "mteb_task",
    "of_text",
    "run",
    "score",
    "synthesize",
    "train",
    "trainer_metrics",
    "write_dataset",
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
