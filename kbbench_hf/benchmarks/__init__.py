"""The registry: a table from a dataset's name to the address of its benchmark, imported on request."""

from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.registry import registered

BENCHMARKS = {
    "text2kg-wikidata-tekgen": "kbbench_hf.benchmarks.text2kgbench:WIKIDATA_TEKGEN",
    "text2kg-dbpedia-webnlg": "kbbench_hf.benchmarks.text2kgbench:DBPEDIA_WEBNLG",
    "mini-text2kg": "kbbench_hf.benchmarks.text2kgbench:MINI",
    "stark-amazon": "kbbench_hf.benchmarks.stark:AMAZON",
    "stark-mag": "kbbench_hf.benchmarks.stark:MAG",
    "stark-prime": "kbbench_hf.benchmarks.stark:PRIME",
    "mini-stark": "kbbench_hf.benchmarks.stark:MINI",
    "genres-corpora": "kbbench_hf.benchmarks.genres:CORPORA",
    "mini-genres": "kbbench_hf.benchmarks.genres:MINI",
    "ska-open": "kbbench_hf.benchmarks.ska_bench:SKA_OPEN",
    "ska-bench": "kbbench_hf.benchmarks.ska_bench:SKA_BENCH",
    "mini-ska": "kbbench_hf.benchmarks.ska_bench:MINI",
}


def benchmark_names() -> list[str]:
    """Return the names of all benchmarks, as `benchmark` takes them.

    >>> "stark-prime" in benchmark_names()
    True
    """
    return sorted(BENCHMARKS)


def benchmark(name: str) -> Benchmark:
    """Return the benchmark of a dataset's name, with or without `kbbench/` before it.

    Raises:
        UsageError: the name is not in the table; the message has the closest one.
    """
    found: Benchmark = registered("benchmark", name.removeprefix("kbbench/"), BENCHMARKS)
    return found
