import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kbbench_hf.agents.tools import AgentTools
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.retrieval.bm25 import BM25
from kbbench_hf.runners.agent_sessions import LONGEST_ARGUMENTS, AgentSessions
from kbbench_hf.scoring.trajectories import read_trajectories

IDS = ["ä", "07", "x/y", "~ "]
ROWS = [{"id": name, "query": f"Which is {name}?", "answer_ids": [name], "split": "test"} for name in ("q/1", 1, "1")]


@pytest.fixture
def tools() -> AgentTools:
    nodes = pa.table({"id": IDS, "type": ["t"] * 4, "name": ["salt", "stone", "sea", "sand"], "text": [""] * 4})
    edges = pa.table({"head": ["ä"], "relation": ["r"], "tail": ["07"]})
    kb = KnowledgeBase.from_arrow(nodes, edges)
    return AgentTools(kb, BM25(kb.names()))


@pytest.fixture
def sessions(tools: AgentTools, tmp_path: Path) -> Iterator[AgentSessions]:
    with served(tools, tmp_path) as opened:
        yield opened


def served(tools: AgentTools, folder: Path) -> AgentSessions:
    return AgentSessions(
        ROWS, tools, lambda place: {"id": ROWS[place]["id"], "ids": IDS, "scores": [4.0, 3.0, 2.0, 1.0]}, folder
    )


def predictions(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "predictions.jsonl").read_text("utf-8").split("\n")[:-1]]


def circle() -> list[object]:
    found: list[object] = []
    found.append(found)
    return found


def test_what_no_json_can_hold_is_answered_and_kept_in_words(sessions: AgentSessions, tmp_path: Path) -> None:
    session, _ = sessions.start(1)
    assert session is not None
    hostile = [
        {"query": float("nan")}, {"node_ids": {1, 2}}, circle(), {"limit": 10**5000}, "\ud800", b"x",
        {"query": "x" * (LONGEST_ARGUMENTS + 1)}, {(1, 2): 3},
    ]  # fmt: skip
    for each in hostile:
        sessions.call(session.handle, "search_nodes", each)
    sessions.call(session.handle, "x" * 10_000, {})
    sessions.write()
    (walk,) = read_trajectories(tmp_path)
    assert len(walk.calls) == len(hostile) + 1
    assert all(len(json.dumps(call)) < 500 for call in walk.calls)
    assert "NaN" in str(walk.calls[0].arguments)


def test_a_selection_stands_before_the_base_and_an_unstarted_question_is_missing(
    sessions: AgentSessions, tmp_path: Path
) -> None:
    session, told = sessions.start("q/1")
    assert session is not None
    assert told.result == {"id": "q/1", "question": "Which is q/1?", "session": session.handle, "left": 2}
    sessions.call(session.handle, "select", {"node_ids": ["x/y"]})
    sessions.call(session.handle, "search_nodes", {"query": "salt"})
    sessions.call(session.handle, "select", {"node_ids": ["07", "x/y"]})
    sessions.write()
    (line,) = predictions(tmp_path)
    assert (line["id"], line["ids"]) == ("q/1", ["x/y", "07", "ä", "~ "])
    assert line["scores"] == sorted(line["scores"], reverse=True)
    (walk,) = read_trajectories(tmp_path)
    assert (walk.end, walk.seen, walk.answer_seen) == ("no_call", 1, False)


def test_ids_that_look_alike_are_different_questions(sessions: AgentSessions) -> None:
    assert [sessions.start(name)[1].result["id"] for name in (1, "1")] == [1, "1"]
    assert sessions.start()[1].result["id"] == "q/1"
    assert sessions.start()[1].error == "no_question"


def test_another_start_takes_up_everything_and_leaves_the_files_as_they_were(tools: AgentTools, tmp_path: Path) -> None:
    with served(tools, tmp_path) as first:
        for name in ("q/1", 1):
            session, _ = first.start(name)
            assert session is not None
            first.call(session.handle, "select", {"node_ids": ["~ ", "07"]})
            first.call(session.handle, "select", {"node_ids": ["ä"]})
        first.call(session.handle, "finish", None)
    before = [(tmp_path / name).read_bytes() for name in ("predictions.jsonl", "trajectories.jsonl")]
    with served(tools, tmp_path) as second:
        assert (second.n_started, second.n_finished) == (2, 1)
        assert second.start(1)[1].error == "already_answered"
    assert [(tmp_path / name).read_bytes() for name in ("predictions.jsonl", "trajectories.jsonl")] == before


def test_the_time_of_a_question_goes_on_after_another_start(tools: AgentTools, tmp_path: Path) -> None:
    with served(tools, tmp_path) as first:
        session, _ = first.start()
        assert session is not None
        session.began -= 50
        first.call(session.handle, "select", {"node_ids": ["ä"]})
    with served(tools, tmp_path) as second:
        second.call(session.handle, "finish", None)
    (walk,) = read_trajectories(tmp_path)
    assert walk.seconds is not None and 50 <= walk.seconds < 100 and walk.end == "finished"


def test_threads_share_the_sessions(sessions: AgentSessions, tmp_path: Path) -> None:
    def work() -> None:
        session, _ = sessions.start()
        assert session is not None
        for _ in range(30):
            sessions.call(session.handle, "select", {"node_ids": IDS})

    threads = [threading.Thread(target=work) for _ in ROWS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sessions.write()
    assert [len(walk.calls) for walk in read_trajectories(tmp_path)] == [30] * 3
    assert all(walk.selected == IDS for walk in read_trajectories(tmp_path))
