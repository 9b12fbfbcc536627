"""Queries with relevance judgments: the columns that datasets store."""

import pyarrow as pa

from kbbench_hf.files.arrow import arrow_array
from kbbench_hf.files.datasets import RELEVANCE
from kbbench_hf.files.qrels import Judgments

_SHOWN = 10


def with_judgments(table: pa.Table, judged: Judgments, left_out: list[str]) -> pa.Table:
    """Return the queries that have judgments, with the columns `answer_ids` and `relevance`."""
    ids = [str(each) for each in table["id"].to_pylist()]
    found = pa.array([each in judged for each in ids], pa.bool_())
    if n_without := sum(each not in judged for each in ids):
        left_out.append(f"{n_without:,} of {len(ids):,} queries, which have no judgment.")
    if strange := [each for each in judged if each not in set(ids)]:
        left_out.append(f"Judgments of {len(strange):,} queries that are not given: {', '.join(strange[:_SHOWN])}.")
    golds = [judged[each] for each in ids if each in judged]
    table = table.filter(found)
    table = table.drop_columns([each for each in table.column_names if each in ("answer_ids", RELEVANCE)])
    table = table.append_column("answer_ids", arrow_array([[*gold] for gold in golds], pa.list_(pa.string())))
    return table.append_column(RELEVANCE, arrow_array([[*gold.values()] for gold in golds], pa.list_(pa.int64())))
