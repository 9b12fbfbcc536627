"""Writer of a dataset of synthesized questions: the knowledge base, sorted by node ids, with `queries`."""

import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kbbench_hf.building.synthesis.card import write_card
from kbbench_hf.building.synthesis.questions import QuestionSet, SyntheticQuestion, make_questions
from kbbench_hf.building.synthesis.spec import SynthesisSpec
from kbbench_hf.files.datasets import DatasetFolder, write_dataset
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.knowledge_base.tables import schema_table

ByModels = Callable[[KnowledgeBase], tuple[QuestionSet, list[str]]]
"""A knowledge base -> its questions, and the card's section on the models that made them."""
Tables = dict[str, dict[str, pa.Table]]


def build_questions(
    folder: DatasetFolder,
    source: str,
    out: Path,
    spec: SynthesisSpec,
    count: int,
    seed: str,
    advance: Callable[[], object],
    by_models: ByModels | None = None,
    *,
    spec_name: str = "",
) -> QuestionSet:
    """Make questions for the knowledge base in `folder`, write both as a dataset, and return the questions.

    The same tables, spec and seed give the same bytes, for any order of the tables' rows; with `by_models`, which uses
    models, if their responses are the same. `spec_name` is the name of the spec on the card.

    Raises:
        DataError: no question can be made; the message says why.
    """
    tables = ordered_tables(folder)
    kb = KnowledgeBase.from_arrow(tables["nodes"]["full"], tables["edges"]["full"])
    built, lines = by_models(kb) if by_models else (make_questions(kb, spec, count, seed, advance), [])
    card = write_card(out.name, source, built, of_models=lines, spec_name=spec_name)
    write_dataset(out, {"queries": query_tables(built), **tables}, card, left_out=folder.left_out)
    return built


def ordered_tables(folder: DatasetFolder) -> Tables:
    """Return nodes, edges and schema of a dataset, sorted by ids, so that the order of their rows has no effect."""
    nodes = folder.table("nodes", "full").sort_by("id")
    edges = folder.table("edges", "full")
    ends = ["head", "relation", "tail"]
    others = [field.name for field in edges.schema if field.name not in ends and not pa.types.is_nested(field.type)]
    keys = [(name, "ascending") for name in (*ends, *sorted(others))]
    edges = edges.take(pc.sort_indices(_without_dictionaries(edges), keys))
    kb = KnowledgeBase.from_arrow(nodes, edges)
    schema = schema_table(nodes, edges, kb.graph.node_types, kb.graph.relations)
    return {"nodes": {"full": nodes}, "edges": {"full": edges}, "schema": {"full": schema}}


def _without_dictionaries(table: pa.Table) -> pa.Table:
    """Return a table with its dictionary columns decoded."""
    for place, column in enumerate(table.schema):
        if pa.types.is_dictionary(column.type):
            table = table.set_column(place, column.name, table[column.name].cast(column.type.value_type))
    return table


def query_tables(built: QuestionSet) -> dict[str, pa.Table]:
    """Return the tables of the questions by split, with their provenance."""
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
    usual = ("train", "validation", "test")
    order = [*(name for name in usual if name in rows), *sorted(rows.keys() - set(usual))]
    return {split: pa.Table.from_pylist(rows[split], schema) for split in order}


def _row(built: QuestionSet, number: int, question: SyntheticQuestion) -> dict[str, Any]:
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
