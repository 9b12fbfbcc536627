"""STaRK benchmarks: retrieval of knowledge base nodes for a question (Wu et al., NeurIPS 2024).

Source of the templates: Wu et al., "STaRK: Benchmarking LLM Retrieval on Textual and Relational Knowledge Bases",
section 3 and appendix A: 28 templates of Prime, 7 of MAG; for Amazon, one or more relations of a product. The names are
ours, each after what the template answers. The notation is that of `kbbench_hf.knowledge_base.metapaths`.
The registry imports the four benchmarks; `benchmarks.retrieval` makes them.
"""

import tomllib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from kbbench_hf.addresses import on_request
from kbbench_hf.benchmarks.base import Benchmark, Facts
from kbbench_hf.benchmarks.retrieval import WRITTEN, retrieval_benchmark
from kbbench_hf.benchmarks.stark.documents import DOCUMENTS

HERE = Path(__file__).parent
METAPATHS: Mapping[str, Mapping[str, str]] = tomllib.loads((HERE / "metapaths.toml").read_text(encoding="utf-8"))
"""Knowledge base -> name -> template from which its questions were made."""


def construction(knowledge_base: str) -> Mapping[str, Any]:
    """Return the spec for synthesizing more questions of a knowledge base: the paper's templates, our words."""
    words = tomllib.loads((HERE / "construction.toml").read_text(encoding="utf-8"))
    templates = [{"metapath": path, "name": name} for name, path in METAPATHS[knowledge_base].items()]
    return {"templates": templates, "words": words[knowledge_base], "skip_absent": True}


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
        construction=partial(construction, name),
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
