"""The columns of the configs that Text2KGBench's datasets have."""

import pyarrow as pa

_TRIPLES = pa.list_(pa.struct([(name, pa.string()) for name in ("sub", "rel", "obj", "sub_id", "rel_id", "obj_id")]))
SENTENCES = pa.schema(
    [
        ("id", pa.string()),
        ("ontology_id", pa.string()),
        ("split", pa.string()),
        ("sentence", pa.string()),
        ("triples", _TRIPLES),
        ("triples_repaired", _TRIPLES),
        ("repairs", pa.list_(pa.struct([("kind", pa.string()), ("detail", pa.string())]))),
        ("selected", pa.bool_()),
        ("similar_ids", pa.list_(pa.string())),
    ]
)
"""Columns of `sentences` and `sentences_folded`, in every split."""
ONTOLOGIES = pa.schema(
    [
        ("ontology_id", pa.string()),
        ("title", pa.string()),
        (
            "concepts",
            pa.list_(
                pa.struct(
                    [
                        ("qid", pa.string()),
                        ("label", pa.string()),
                        ("subclass_of", pa.list_(pa.string())),
                        ("source", pa.string()),
                    ]
                )
            ),
        ),
        (
            "relations",
            pa.list_(pa.struct([(name, pa.string()) for name in ("pid", "label", "domain", "range", "source")])),
        ),
    ]
)
PROMPTS = pa.schema(
    [
        ("id", pa.string()),
        ("ontology_id", pa.string()),
        ("template", pa.string()),
        ("demonstration_id", pa.string()),
    ]
)
"""Columns of `prompts`: what, beside its row of `sentences`, the published prompt of a test sentence was made of."""
