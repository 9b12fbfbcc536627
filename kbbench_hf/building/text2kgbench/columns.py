"""Arrow schemas of Text2KGBench's configs, and the rows of `mentions` and `prompts`."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from kbbench_hf.files.datasets import Row
from kbbench_hf.metrics.triple_values import find_gold_mentions
from kbbench_hf.text.words import separate_units


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


def sentence_tables(
    splits: Mapping[str, Sequence[Row]], schema: pa.Schema = SENTENCES, version: int = 2
) -> dict[str, pa.Table]:
    """Return the table of each split of `sentences`, with the column `mentions` filled in."""
    return {split: pa.Table.from_pylist(with_mentions(rows, version), schema) for split, rows in splits.items()}


def with_mentions(rows: Sequence[Row], version: int = 2) -> list[Row]:
    """Return rows of `sentences` with `mentions`: one entry for each of `triples_repaired`, in order.

    The forms are those of `metrics.mention_forms`, by the rules of mode `repaired-2` or `repaired-3` (`version`). The
    modes find them anew.

    >>> triples = [{"sub": "Heat", "rel": "director", "obj": "Michael Mann"}]
    >>> with_mentions([{"sentence": "Heat is by Mann.", "triples_repaired": triples}])[0]["mentions"]
    ... # doctest: +NORMALIZE_WHITESPACE
    [{'subject_mentioned': True, 'subject_form': 'verbatim', 'object_mentioned': True, 'object_form': 'short'}]
    """
    return [row | {"mentions": _mentions(row, version)} for row in rows]


def _mentions(row: Row, version: int) -> list[Row]:
    triples = row["triples_repaired"]
    gold = [(separate_units(each["sub"]), each["rel"], separate_units(each["obj"])) for each in triples]
    found = find_gold_mentions(separate_units(row["sentence"]), gold, version=version)
    return [dict(zip(_MENTION_NAMES, (sub.found, sub.form, obj.found, obj.form), strict=True)) for _, sub, obj in found]


_MENTION_NAMES = [name for name, _ in _MENTION]


def prompt_row(row: Row, template: str) -> Row:
    """Return the row of `prompts` of a sentence; its demonstration is the most similar train row, if there is one."""
    similar = row["similar_ids"]
    shown = {"template": template, "demonstration_id": similar[0] if similar else None}
    return {"id": row["id"], "ontology_id": row["ontology_id"]} | shown
