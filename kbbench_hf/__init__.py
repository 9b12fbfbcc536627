"""Knowledge benchmarks for the Hugging Face world: load, run, score, compare, build.

The public names are in `_NAMES`; each is imported when it is first used. Plug-ins and notebooks import from here, so
that a name may be added, and none removed or renamed.

>>> import kbbench_hf
>>> kbbench_hf.benchmark("mini-stark").scoring.answer.field
'ids'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kbbench_hf.moved import install as _find_moved_modules

if TYPE_CHECKING:
    from kbbench_hf.benchmarks import benchmark as benchmark
    from kbbench_hf.benchmarks import benchmark_names as benchmark_names
    from kbbench_hf.benchmarks.answers import ANSWERS as ANSWERS
    from kbbench_hf.benchmarks.answers import IDS as IDS
    from kbbench_hf.benchmarks.answers import TRIPLES as TRIPLES
    from kbbench_hf.benchmarks.answers import AnswerKind as AnswerKind
    from kbbench_hf.benchmarks.base import Asking as Asking
    from kbbench_hf.benchmarks.base import Benchmark as Benchmark
    from kbbench_hf.benchmarks.base import Data as Data
    from kbbench_hf.benchmarks.base import Example as Example
    from kbbench_hf.benchmarks.base import Examples as Examples
    from kbbench_hf.benchmarks.base import Explanation as Explanation
    from kbbench_hf.benchmarks.base import Facts as Facts
    from kbbench_hf.benchmarks.base import Metric as Metric
    from kbbench_hf.benchmarks.base import Prompt as Prompt
    from kbbench_hf.benchmarks.base import PromptOptions as PromptOptions
    from kbbench_hf.benchmarks.base import Scores as Scores
    from kbbench_hf.benchmarks.base import Scoring as Scoring
    from kbbench_hf.benchmarks.base import Showing as Showing
    from kbbench_hf.benchmarks.base import of_text as of_text
    from kbbench_hf.benchmarks.load import load as load
    from kbbench_hf.benchmarks.warnings import ScoreWarning as ScoreWarning
    from kbbench_hf.building.build import BuildOptions as BuildOptions
    from kbbench_hf.building.build import build as build
    from kbbench_hf.building.synthesis.synthesize import synthesize as synthesize
    from kbbench_hf.errors import BusyError as BusyError
    from kbbench_hf.errors import DataError as DataError
    from kbbench_hf.errors import KBBenchError as KBBenchError
    from kbbench_hf.errors import UsageError as UsageError
    from kbbench_hf.files.datasets import DatasetFolder as DatasetFolder
    from kbbench_hf.files.datasets import write_dataset as write_dataset
    from kbbench_hf.knowledge_base.store import KnowledgeBase as KnowledgeBase
    from kbbench_hf.parsing.parsed_reply import ParsedReply as ParsedReply
    from kbbench_hf.parsing.parsed_reply import ParseError as ParseError
    from kbbench_hf.retrieval.ir_tools import ir_dataset as ir_dataset
    from kbbench_hf.retrieval.ir_tools import mteb_task as mteb_task
    from kbbench_hf.runners.run import run as run
    from kbbench_hf.runners.run_options import RunOptions as RunOptions
    from kbbench_hf.scoring.comparison import Comparison as Comparison
    from kbbench_hf.scoring.comparison import compare as compare
    from kbbench_hf.scoring.evaluate_modules import trainer_metrics as trainer_metrics
    from kbbench_hf.scoring.result import Result as Result
    from kbbench_hf.scoring.score import score as score
    from kbbench_hf.training.train import train as train

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
__all__ = sorted(_ADDRESSES)  # noqa: PLE0605

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
