"""STaRK's official documents of nodes, byte for byte: the published scores were measured with them.

BM25 had documents without relations, the vector models and rerankers documents with relations. They reproduce
`get_doc_info` of snap-stanford/stark (MIT, at b246b94), quirks included; each module states where it differs.
"""

from functools import partial

from kbbench_hf.addresses import imported

_ADDRESSES = {"prime": "prime:RENDERING", "prime_first": "prime:FIRST", "mag": "mag:RENDERING"}
DOCUMENTS = {
    name: partial(imported, f"kbbench_hf.benchmarks.stark.documents.{address}")
    for name, address in {**_ADDRESSES, "amazon": "amazon:RENDERING"}.items()
}
"""Rendering name -> function that returns it."""
