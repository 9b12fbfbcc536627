"""The columns of the configs that Text2KGBench's datasets have."""

import pyarrow as pa


def _strings(*names: str) -> list[tuple[str, pa.DataType]]:
    return [(name, pa.string()) for name in names]


_TRIPLES = pa.list_(pa.struct(_strings("sub", "rel", "obj", "sub_id", "rel_id", "obj_id")))
_MENTION = [
    field for end in ("subject", "object") for field in ((f"{end}_mentioned", pa.bool_()), (f"{end}_form", pa.string()))
]
SENTENCES = pa.schema(
    [
        *_strings("id", "ontology_id", "split", "sentence"),
        ("triples", _TRIPLES),
        ("triples_repaired", _TRIPLES),
        ("mentions", pa.list_(pa.struct(_MENTION))),
        ("repairs", pa.list_(pa.struct(_strings("kind", "detail")))),
        ("selected", pa.bool_()),
        ("similar_ids", pa.list_(pa.string())),
    ]
)
"""Columns of `sentences` and `sentences_folded`, in every split."""
_CONCEPT = [*_strings("qid", "label"), ("subclass_of", pa.list_(pa.string())), *_strings("source")]
_RELATION = _strings("pid", "label", "domain", "range", "source")
ONTOLOGIES = pa.schema(
    [
        *_strings("ontology_id", "title"),
        ("concepts", pa.list_(pa.struct(_CONCEPT))),
        ("relations", pa.list_(pa.struct(_RELATION))),
    ]
)
PROMPTS = pa.schema(_strings("id", "ontology_id", "template", "demonstration_id"))
"""Columns of `prompts`: what, beside its row of `sentences`, the published prompt of a test sentence was made of."""
