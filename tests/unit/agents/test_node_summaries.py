"""What results say of nodes is the same whether it was kept or not, and what is kept is bounded."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from kbbench_hf.agents.tools import NodeSummaries
from kbbench_hf.knowledge_base import KnowledgeBase


def numbered(n: int, folder: Path) -> KnowledgeBase:
    nodes = pa.table(
        {
            "id": [f"n{row}" for row in range(n)],
            "type": ["even" if row % 2 == 0 else "odd" for row in range(n)],
            "name": [f"Node  {row}" for row in range(n)],
            "text": [f"text of {row} " * 40 for row in range(n)],
        }
    )
    return KnowledgeBase.build(nodes, pa.table({"head": ["n0"], "relation": ["r"], "tail": ["n1"]}), None, folder / "s")


def test_what_was_kept_is_said_again_in_the_order_that_is_asked(tmp_path: Path) -> None:
    kb = numbered(12, tmp_path)
    summaries, rng = NodeSummaries(kb, most=5), np.random.default_rng(0)
    for _ in range(50):
        rows = rng.permutation(12)[: rng.integers(0, 9)]
        said = summaries.of(rows)
        assert said == NodeSummaries(kb).of(rows)
        assert [each.id for each in said] == kb.ids(rows)
        assert [each.name for each in said] == [f"Node {row}" for row in rows]


def test_no_more_is_kept_than_is_allowed_or_asked_at_once(tmp_path: Path) -> None:
    kb = numbered(40, tmp_path)
    summaries = NodeSummaries(kb, most=10)
    for start in range(0, 40, 4):
        summaries.of(np.arange(start, start + 4))
        assert len(summaries._cache) <= 10
    assert len(summaries.of(np.arange(40))) == 40


def test_a_snippet_is_cut_at_a_word_below_its_bound(tmp_path: Path) -> None:
    (summary,) = NodeSummaries(numbered(2, tmp_path)).of(np.array([1]))
    assert summary.snippet.endswith(("text…", "of…", "1…"))
    assert len(summary.snippet) <= 300
