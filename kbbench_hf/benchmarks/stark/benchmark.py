"""STaRK: rank the nodes of a semi-structured knowledge base for a question (Wu et al., NeurIPS 2024)."""

from functools import partial
from pathlib import Path

from kbbench_hf.addresses import on_request
from kbbench_hf.benchmarks.base import Facts
from kbbench_hf.benchmarks.retrieval import WRITTEN, retrieval_benchmark
from kbbench_hf.benchmarks.stark.documents import DOCUMENTS

HERE = Path(__file__).parent
_FACTS = partial(
    Facts,
    family="STaRK",
    paper="https://arxiv.org/abs/2404.13207",
    homepage="https://stark.stanford.edu",
    license="cc-by-4.0 (questions)",
    citation=(HERE / "citation.bib").read_text(encoding="utf-8"),
)
_released = partial(
    retrieval_benchmark,
    splits=(*WRITTEN, "test_0_1", "human", "all"),
    documents=DOCUMENTS,
    published=HERE / "published.csv",
)

AMAZON = _released(
    _FACTS("stark-amazon", "STaRK-Amazon: product search"),
    known=range(957_192),
    candidate_types=frozenset({"product"}),
    build=on_request("kbbench_hf.building.stark.release:build_amazon"),
    build_archive=on_request("kbbench_hf.building.stark.release:build_amazon_archive"),
    construction=partial(on_request("kbbench_hf.benchmarks.stark.metapaths:construction"), "amazon"),
    own_documents="amazon",
)
MAG = _released(
    _FACTS("stark-mag", "STaRK-MAG: academic paper search"),
    known=range(1_172_724, 1_872_968),
    candidate_types=frozenset({"paper"}),
    build=on_request("kbbench_hf.building.stark.release:build_mag"),
    build_archive=on_request("kbbench_hf.building.stark.release:build_mag_archive"),
    construction=partial(on_request("kbbench_hf.benchmarks.stark.metapaths:construction"), "mag"),
    own_documents="mag",
)
PRIME = _released(
    _FACTS("stark-prime", "STaRK-Prime: precision medicine inquiries"),
    known=range(129_375),
    build=on_request("kbbench_hf.building.stark.release:build_prime"),
    build_archive=on_request("kbbench_hf.building.stark.release:build_prime_archive"),
    construction=partial(on_request("kbbench_hf.benchmarks.stark.metapaths:construction"), "prime"),
    own_documents="prime",
)
MINI = retrieval_benchmark(
    Facts("mini-stark", "STaRK, mini", "Mini", license="apache-2.0"),
    ("test",),
    shipped=HERE / "mini",
    documents=DOCUMENTS,
)
