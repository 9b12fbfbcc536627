"""STaRK's three official documents, byte for byte: what its published figures were measured on.

BM25 read documents without relations, the vector models and rerankers read them with relations. They reproduce
`get_doc_info` of snap-stanford/stark (MIT, at b246b94), quirks included; each module states where it differs.
"""

from functools import partial

from kbbench_hf.addresses import imported

DOCUMENTS = {
    name: partial(imported, f"kbbench_hf.benchmarks.stark.documents.{address}")
    for name, address in (
        ("prime", "prime:RENDERING"),
        ("prime_first", "prime:FIRST"),
        ("mag", "mag:RENDERING"),
        ("amazon", "amazon:RENDERING"),
    )
}
"""Rendering name -> what gives it."""
