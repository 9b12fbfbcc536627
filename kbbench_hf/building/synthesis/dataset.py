"""The dataset of made questions: an ordinary knowledge base with `queries`, in the order of the nodes' ids."""

import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kbbench_hf.building.synthesis.card import write_card
from kbbench_hf.building.synthesis.questions import Built, Question, make_questions
from kbbench_hf.building.synthesis.spec import Spec
from kbbench_hf.files.datasets import DatasetFolder, write_dataset
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.knowledge_base.tables import schema_table

ByModels = Callable[[KnowledgeBase], tuple[Built, list[str]]]
"""A knowledge base -> its questions, and the lines of the card that say how models made them."""
Tables = dict[str, dict[str, pa.Table]]


def build_questions(
    folder: DatasetFolder,
    source: str,
    out: Path,
    spec: Spec,
    count: int,
    seed: str,
    advance: Callable[[], object],
    by_models: ByModels | None = None,
    *,
    spec_name: str = "",
) -> Built:
    """Make questions for the knowledge base in `folder`, write both as a dataset, and return the questions.

    The same tables, spec and seed give the same bytes, in whatever order the tables' rows stand; with `by_models` that
    writes them, if the models say the same. `spec_name` is what the card calls the spec, if anything.

    Raises:
        DataError: no question can be made; the message says why.
    """
    tables = ordered_tables(folder)
    kb = KnowledgeBase.from_arrow(tables["nodes"]["full"], tables["edges"]["full"])
    built, lines = by_models(kb) if by_models else (make_questions(kb, spec, count, seed, advance), [])
    card = write_card(out.name, source, built, of_models=lines, spec_name=spec_name)
    write_dataset(out, {"queries": query_tables(built), **tables}, card)
    return built


def ordered_tables(folder: DatasetFolder) -> Tables:
    """Return nodes, edges and schema of a dataset, rows in order of their ids: the order they came in has no effect."""
    nodes = folder.table("nodes", "full").sort_by("id")
    edges = folder.table("edges", "full")
    edges = edges.take(pc.sort_indices(_plain(edges), [(name, "ascending") for name in _ordered_by(edges)]))
    kb = KnowledgeBase.from_arrow(nodes, edges)
    schema = schema_table(nodes, edges, kb.graph.node_types, kb.graph.relations)
    return {"nodes": {"full": nodes}, "edges": {"full": edges}, "schema": {"full": schema}}


def _plain(table: pa.Table) -> pa.Table:
    """Return the table with texts in place of dictionaries."""
    for place, column in enumerate(table.schema):
        if pa.types.is_dictionary(column.type):
            table = table.set_column(place, column.name, table[column.name].cast(column.type.value_type))
    return table


def _ordered_by(edges: pa.Table) -> list[str]:
    """Return the columns that decide the order of edges: their ends and relation, then whatever else has an order."""
    ends = ["head", "relation", "tail"]
    others = [field.name for field in edges.schema if field.name not in ends and not pa.types.is_nested(field.type)]
    return [*ends, *sorted(others)]


def query_tables(built: Built) -> dict[str, pa.Table]:
    """Return the questions by split, with where each comes from."""
    kind = pa.int64() if pa.types.is_int64(built.kb.nodes["id"].type) else pa.string()
    schema = pa.schema(
        {
            "id": pa.int64(),
            "query": pa.string(),
            "answer_ids": pa.list_(kind),
            "template": pa.string(),
            "hops": pa.string(),
            "topic_ids": pa.list_(kind),
            "requirements": pa.string(),
            "gold_id": kind,
            "n_candidates": pa.int64(),
            "difficulty": pa.string(),
            "provenance": pa.string(),
        }
    )
    rows: dict[str, list[dict[str, Any]]] = {}
    for number, (question, split) in enumerate(zip(built.questions, built.splits, strict=True)):
        rows.setdefault(split, []).append(_row(built, number, question))
    order = [name for name in ("train", "validation", "test") if name in rows]
    return {split: pa.Table.from_pylist(rows[split], schema) for split in [*order, *sorted(rows.keys() - set(order))]}


def _row(built: Built, number: int, question: Question) -> dict[str, Any]:
    kb = built.kb
    provenance = {
        "mode": "grammar",
        "seed": built.account.seed,
        "attempt": question.attempt,
        "knowledge_base": kb.hash,
        "version": version("kbbench-hf"),
        "words": {"relational": question.n_relational, "textual": question.n_textual},
        **(question.made_by or {}),
    }
    return {
        "id": number,
        "query": question.text,
        "answer_ids": kb.ids(list(question.answers)),
        "template": question.template.template.metapath,
        "hops": str(question.hops),
        "topic_ids": kb.ids(list(question.topics)),
        "requirements": json.dumps(question.requirements, ensure_ascii=False),
        "gold_id": kb.ids([question.gold])[0],
        "n_candidates": question.n_candidates,
        "difficulty": built.difficulties[number],
        "provenance": json.dumps(provenance, ensure_ascii=False),
    }
