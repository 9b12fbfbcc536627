"""A retrieval run re-ranked by a served model: paired by candidate, failures alone, recall unchanged."""

import json
import re
from pathlib import Path
from typing import Any

from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.models.endpoint import Endpoint
from kbbench_hf.runners.rerank import n_unread, rerank_run
from kbbench_hf.runners.retrieval import knowledge_base, rank
from kbbench_hf.scoring.predictions import read_predictions
from kbbench_hf.scoring.score import load_examples, score_asked
from tests.servers.scripted import ScriptedServer

DEPTH = 20


def oracle(kb: KnowledgeBase, gold: dict[str, set[Any]]) -> Any:
    """A model that knows the answers, but writes nonsense about every seventh candidate."""
    names = dict(zip(kb.names(), kb.ids(), strict=True))

    def answer(payload: dict[str, Any]) -> str:
        text = payload["messages"][-1]["content"]
        found = re.search(r"^Query: (.*)\n\nCandidate:\n(.*)$", text, re.M)
        if found is None:
            return "the canary"
        query, node = found[1], names[found[2]]
        if node % 7 == 0:
            return "I cannot say."
        return "0.9" if node in gold[query] else "Score: 2/10"

    return answer


def test_an_oracle_lifts_hits_and_leaves_recall_at_the_depth(tmp_path: Path) -> None:
    asked = load_examples("mini-stark", limit=30)
    examples, kb = asked.examples, knowledge_base(asked)
    rank(asked, "bm25", tmp_path / "first", top_k=100, show=False)
    gold = {row["query"]: set(row["answer_ids"]) for row in examples.rows}
    with ScriptedServer(answer=oracle(kb, gold)) as server:
        done = rerank_run(examples, kb, tmp_path / "first", Endpoint(server.url, "scripted-model"), tmp_path / "again",
                      depth=DEPTH, show=False)  # fmt: skip
        sent = len(server.requests)
        rerank_run(examples, kb, tmp_path / "first", Endpoint(server.url, "scripted-model"), tmp_path / "again",
               depth=DEPTH, show=False)  # fmt: skip
        assert len(server.requests) <= sent + 2  # two canaries: nothing is asked twice
    assert sent >= 30 * DEPTH
    folders = (tmp_path / "first", tmp_path / "again")
    before, after = (score_asked(asked, read_predictions([each], asked.benchmark, examples)) for each in folders)
    assert after.scores["hit_at_1"].value > before.scores["hit_at_1"].value
    assert after.scores["recall_at_20"] == before.scores["recall_at_20"]
    assert n_unread(done) > 0 and done.summary.n_failed == 0
    lines = [json.loads(line) for line in (tmp_path / "again" / "predictions.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == [row["id"] for row in examples.rows]
