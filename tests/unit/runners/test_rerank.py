"""A retrieval run re-ranked by a served model: paired by candidate, failures alone, recall unchanged."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.llm.endpoint import Endpoint
from kbbench_hf.runners.generate import UnreadError
from kbbench_hf.runners.rerank import rerank
from kbbench_hf.runners.retrieval_run import knowledge_base, rank
from kbbench_hf.scoring.eval_task import load_examples
from kbbench_hf.scoring.predictions import read_predictions
from kbbench_hf.scoring.score import score_predictions
from tests.servers.scripted import ScriptedServer

DEPTH = 20


def oracle(kb: KnowledgeBase, gold: dict[str, set[Any]]) -> Any:
    """A model that knows the answers, but writes nonsense about one candidate in fifteen."""
    names = dict(zip(kb.names(), kb.ids(), strict=True))

    def answer(payload: dict[str, Any]) -> str:
        text = payload["messages"][-1]["content"]
        found = re.search(r"^Query: (.*)\n\nCandidate:\n(.*)$", text, re.M)
        if found is None:
            return "the canary"
        query, node = found[1], names[found[2]]
        if node % 15 == 0:
            return "I cannot say."
        return "0.9" if node in gold[query] else "Score: 2/10"

    return answer


def test_an_oracle_lifts_hits_and_leaves_recall_at_the_depth(tmp_path: Path) -> None:
    asked = load_examples("mini-stark", limit=30)
    examples, kb = asked.examples, knowledge_base(asked)
    rank(asked, "bm25", tmp_path / "first", top_k=100, show=False)
    gold = {row["query"]: set(row["answer_ids"]) for row in examples.rows}
    with ScriptedServer(answer=oracle(kb, gold)) as server:
        how: dict[str, Any] = {"name": "scripted-model", "folder": tmp_path / "again", "depth": DEPTH, "show": False}
        done = rerank(asked, tmp_path / "first", Endpoint(server.url, "scripted-model"), **how)
        sent = len(server.requests)
        rerank(asked, tmp_path / "first", Endpoint(server.url, "scripted-model"), **how)
        assert len(server.requests) <= sent + 2  # two canaries: nothing is asked twice
    assert sent >= 30 * DEPTH
    folders = (tmp_path / "first", tmp_path / "again")
    before, after = (score_predictions(asked, read_predictions([each], asked.benchmark, examples)) for each in folders)
    assert after.scores["hit_at_1"].value > before.scores["hit_at_1"].value
    assert after.scores["recall_at_20"] == before.scores["recall_at_20"]
    assert done.n_unread and done.summary and done.summary.n_failed == 0 and done.warnings == []
    lines = [json.loads(line) for line in (tmp_path / "again" / "predictions.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == [row["id"] for row in examples.rows]


def test_a_run_of_which_too_much_is_unread_has_no_ranking_and_keeps_its_answers(tmp_path: Path) -> None:
    asked = load_examples("mini-stark", limit=3)
    rank(asked, "bm25", tmp_path / "first", top_k=20, show=False)
    with ScriptedServer(answer=lambda payload: "<think>The query asks for 0.9 of") as server:
        model = Endpoint(server.url, "scripted-model")
        for _ in range(2):
            with pytest.raises(UnreadError, match="30 of 30 responses have no readable score"):
                rerank(asked, tmp_path / "first", model, "m", folder=tmp_path / "again", depth=10, show=False)
        assert len(server.requests) <= 30 + 4  # with canaries: nothing is asked twice
    assert not (tmp_path / "again" / "predictions.jsonl").exists()


def test_a_run_whose_candidates_all_get_one_score_warns_that_the_ranking_is_the_first(tmp_path: Path) -> None:
    asked = load_examples("mini-stark", limit=6)
    rank(asked, "bm25", tmp_path / "first", top_k=20, show=False)
    replies = {True: '{"score": 0.0}', False: '{\n  "score": 0.0\n}'}  # one score in two forms
    answer = lambda payload: replies[len(str(payload)) % 2 == 0]  # noqa: E731
    with ScriptedServer(answer=answer) as server:
        how: dict[str, Any] = {"name": "scripted-model", "depth": 4, "show": False}
        stage = rerank(asked, tmp_path / "first", Endpoint(server.url, "scripted-model"), **how)
    (warning,) = json.loads((stage.folder / "run.json").read_text())["warnings"]
    assert warning["code"] == "equal_replies" and warning["message"].startswith("6 of 6 queries keep the first ranking")
    firsts = [json.loads(line)["ids"] for line in (tmp_path / "first" / "predictions.jsonl").read_text().splitlines()]
    assert [row["ids"] for row in stage.rows] == firsts


def test_upstream_asks_three_times_and_keeps_the_first_ranking_of_a_query_with_one_failure(tmp_path: Path) -> None:
    asked = load_examples("mini-stark", limit=20)
    kb = knowledge_base(asked)
    rank(asked, "bm25", tmp_path / "first", top_k=20, show=False)
    firsts = [json.loads(line) for line in (tmp_path / "first" / "predictions.jsonl").read_text().splitlines()]
    names = dict(zip(kb.ids(), kb.names(), strict=True))
    hopeless, slow = names[firsts[0]["ids"][3]], names[firsts[1]["ids"][2]]
    met: Counter[str] = Counter()
    sent: list[dict[str, Any]] = []

    def answer(payload: dict[str, Any]) -> str:
        text = payload["messages"][-1]["content"]
        met[text] += 1
        sent.extend([payload] if payload["max_tokens"] == 5 else [])
        if "The query:" in text and asked.examples.rows[0]["query"] in text and f"\n{hopeless}" in text:
            return "1"  # upstream's parser takes 0.x and 1.0 alone
        if "The query:" in text and asked.examples.rows[1]["query"] in text and f"\n{slow}" in text:
            return "1" if met[text] < 3 else "1.0"
        return "0.5"

    with ScriptedServer(answer=answer) as server:
        model = Endpoint(server.url, "scripted-model")
        how: dict[str, Any] = {"wording": "reference", "folder": tmp_path / "again", "depth": 10, "show": False}
        done = rerank(asked, tmp_path / "first", model, "scripted-model", **how)
    assert done.n_unread == 1
    assert sent and all(request["temperature"] == 1.0 and "response_format" not in request for request in sent)
    lines = [json.loads(line)["ids"] for line in (tmp_path / "again" / "predictions.jsonl").read_text().splitlines()]
    assert lines[0] == firsts[0]["ids"]  # one of its candidates was never read
    assert lines[1][0] == firsts[1]["ids"][2]  # read at the third try
