"""STaRK benchmarks: retrieval of knowledge base nodes for a question (Wu et al., NeurIPS 2024)."""

from functools import partial
from pathlib import Path

from kbbench_hf.addresses import on_request
from kbbench_hf.benchmarks.base import Benchmark, Facts
from kbbench_hf.benchmarks.retrieval import WRITTEN, retrieval_benchmark
from kbbench_hf.benchmarks.stark.documents import DOCUMENTS

HERE = Path(__file__).parent


def _released(name: str, title: str, known: range, candidate_type: str = "") -> Benchmark:
    """Return the benchmark of one of the three releases; all nodes are candidates without `candidate_type`."""
    facts = Facts(
        f"stark-{name}",
        f"STaRK-{title}",
        family="STaRK",
        paper="https://arxiv.org/abs/2404.13207",
        homepage="https://stark.stanford.edu",
        license="cc-by-4.0 (questions)",
        citation=(HERE / "citation.bib").read_text(encoding="utf-8"),
    )
    return retrieval_benchmark(
        facts,
        (*WRITTEN, "test_0_1", "human", "all"),
        known=known,
        candidate_types=frozenset({candidate_type}) if candidate_type else None,
        documents=DOCUMENTS,
        own_documents=name,
        published=HERE / "published.csv",
        build=on_request(f"kbbench_hf.building.stark.release:build_{name}"),
        build_archive=on_request(f"kbbench_hf.building.stark.release:build_{name}_archive"),
        construction=partial(on_request("kbbench_hf.benchmarks.stark.metapaths:construction"), name),
    )


AMAZON = _released("amazon", "Amazon: product search", range(957_192), "product")
MAG = _released("mag", "MAG: academic paper search", range(1_172_724, 1_872_968), "paper")
PRIME = _released("prime", "Prime: precision medicine inquiries", range(129_375))
MINI = retrieval_benchmark(
    Facts("mini-stark", "STaRK, mini", "Mini", license="apache-2.0"),
    ("test",),
    shipped=HERE / "mini",
    documents=DOCUMENTS,
)
