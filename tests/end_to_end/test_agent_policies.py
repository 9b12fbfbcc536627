"""Scripted models walk knowledge bases: what they select, how they end and what they are told follows exactly."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pytest

from kbbench_hf.agents.agent import Agent, AgentLimits
from kbbench_hf.agents.tools import AgentTools
from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.errors import KBBenchError
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.llm.endpoint import Endpoint
from kbbench_hf.retrieval.bm25 import BM25
from kbbench_hf.runners.agent import run_agent
from kbbench_hf.runners.ranking import RankedRun
from tests.puzzles import Puzzle, Puzzles, mini_stark, odd
from tests.servers.scripted import MODEL, TRANSIENT, Reply
from tests.servers.tool_caller import ToolCaller
from tests.servers.tool_policies import (
    DIALECTS,
    Case,
    in_json,
    malformed,
    noisy,
    oracle,
    oracle_steps,
    plain,
    policy,
    search_and_select,
    singly,
)

N_QUESTIONS = 3
TOP_K = 60


@dataclass(frozen=True)
class World:
    """A knowledge base with some of its questions, and the run of its base."""

    puzzles: Puzzles
    agent: Agent
    examples: Examples
    base: Path

    @property
    def questions(self) -> list[Puzzle]:
        asked = {row["id"] for row in self.examples.rows}
        return [each for each in self.puzzles.questions if each.id in asked]


def world(puzzles: Puzzles, folder: Path, n: int = N_QUESTIONS) -> World:
    tables = [pa.Table.from_pylist([row._asdict() for row in rows]) for rows in (puzzles.nodes, puzzles.edges)]
    kb = KnowledgeBase.build(tables[0], tables[1], None, folder / "store")
    search = BM25([f"{name} {text}" for name, text in zip(kb.names(), kb.texts(), strict=True)])
    step = max(1, len(puzzles.questions) // n)
    chosen = puzzles.questions[::step][:n]
    rows = [{"id": each.id, "query": each.query, "answer_ids": list(each.answers)} for each in chosen]
    found = search.search([each.query for each in chosen], TOP_K)
    base = folder / "base"
    base.mkdir()
    lines = [
        {"id": each.id, "ids": kb.ids(ids[ids >= 0]), "scores": scores[ids >= 0].tolist()}
        for each, ids, scores in zip(chosen, found.ids, found.scores, strict=True)
    ]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (base / "predictions.jsonl").write_text(text, encoding="utf-8")
    return World(puzzles, Agent(AgentTools(kb, search)), Examples(rows), base)


WORLDS: Mapping[str, Callable[[], Puzzles]] = {
    "mini": mini_stark,
    "strings": lambda: odd("strings"),
    "numbers": lambda: odd("numbers"),
}


@pytest.fixture(scope="module", params=WORLDS)
def here(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    return world(WORLDS[request.param](), tmp_path_factory.mktemp("world"))


class Served(Protocol):
    url: str


def walk(
    here: World, server: Served, folder: Path, *, agent: Agent | None = None, timeout_s: float = 30, **how: Any
) -> RankedRun:
    model = Endpoint(server.url, MODEL, timeout_s=timeout_s)
    options = {"top_k": TOP_K, "show": False, "canary": False, **how}
    return run_agent(here.examples, agent or here.agent, here.base, model, folder, **options)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]


def told(here: World) -> list[str]:
    """Return texts and names of nodes that stand in no question's words and no name of a type."""
    texts = {node.text for node in here.puzzles.nodes if len(node.text) > 20} | {
        node.name for node in here.puzzles.nodes if len(node.name) > 8
    }
    return sorted(texts)[:100]


def check(here: World, case: Case, walked: RankedRun, folder: Path) -> None:
    base = lines(here.base)
    for puzzle, trajectory, line, before in zip(here.questions, walked.trajectories, lines(folder), base, strict=True):
        wanted = list(case.selected(puzzle))
        assert trajectory.id == line["id"] == puzzle.id and trajectory.end == case.end
        assert trajectory.selected == wanted and list(map(type, trajectory.selected)) == list(map(type, wanted))
        assert trajectory.steps == case.n_steps(puzzle) or case.n_steps(puzzle) is None
        assert case.errors is None or trajectory.tool_errors == dict(case.errors)
        assert trajectory.backed_off is (not wanted)
        assert trajectory.answer_selected is bool(set(wanted) & set(puzzle.answers))
        shown = {each for call in trajectory.calls for each in call.shown}
        assert trajectory.seen == len(shown) and trajectory.answer_seen is bool(shown & set(puzzle.answers))
        if not wanted:
            assert line == before
            continue
        assert line["ids"] == [*wanted, *(each for each in before["ids"] if each not in wanted)][:TOP_K]
        assert line["scores"][: len(wanted)] == [2 - i / len(wanted) for i in range(len(wanted))][:TOP_K]
        assert line["scores"] == sorted(line["scores"], reverse=True)
        assert all(score < 1 for score in line["scores"][len(wanted) :])


@pytest.mark.parametrize("cases", [plain, noisy, malformed])
def test_every_policy_comes_to_what_it_must(
    here: World, cases: Callable[[Puzzles], dict[str, Case]], tmp_path: Path
) -> None:
    for name, case in cases(here.puzzles).items():
        folder = tmp_path / name.replace(" ", "-")
        with ToolCaller(policy=policy(here.puzzles, case.play), node_texts=told(here)) as server:
            walked = walk(here, server, folder)
            assert server.n_paid_twice == 0
        try:
            check(here, case, walked, folder)
        except AssertionError as error:
            raise AssertionError(f"the policy {name!r}") from error
        assert len(server.times) == n_requests(walked)


def test_who_selects_what_the_search_found_has_the_base_in_front(here: World, tmp_path: Path) -> None:
    with ToolCaller(policy=policy(here.puzzles, search_and_select)) as server:
        walk(here, server, tmp_path)
    for line, before in zip(lines(tmp_path), lines(here.base), strict=True):
        matched = sum(score > 0 for score in before["scores"][:20])
        assert line["ids"][:matched] == before["ids"][:matched]


def test_the_oracle_is_right_whatever_the_order_and_the_faults(here: World, tmp_path: Path) -> None:
    """At 1 and at 32 requests at a time, undisturbed, and with two of five replies spoilt."""
    kinds = tuple(kind for kind in TRANSIENT if kind not in ("length", "hang"))
    written = []
    for name, rate, concurrency in (("one", 0.0, 1), ("many", 0.0, 32), ("faults", 0.4, 32)):
        faults = {"fault_rate": rate, "kinds": kinds, "retry_after_s": 0.01}
        with ToolCaller(policy=policy(here.puzzles, oracle), **faults) as server:  # type: ignore[arg-type]
            walked = walk(here, server, tmp_path / name, concurrency=concurrency)
            assert server.n_paid_twice == 0
        assert [each.steps for each in walked.trajectories] == [oracle_steps(each) for each in here.questions]
        written.append((tmp_path / name / "predictions.jsonl").read_bytes())
        for puzzle, line in zip(here.questions, lines(tmp_path / name), strict=True):
            assert tuple(line["ids"][: len(puzzle.answers)]) == puzzle.answers  # Hit@1 and MRR are 1
    assert len(set(written)) == 1


def test_a_run_that_stops_between_any_two_steps_goes_on_there(here: World, tmp_path: Path) -> None:
    cases = plain(here.puzzles) | noisy(here.puzzles)
    for name in ("oracle", "unknown", "stuck"):
        with ToolCaller(policy=policy(here.puzzles, cases[name].play)) as server:
            whole = walk(here, server, tmp_path / name)
        with ToolCaller(policy=policy(here.puzzles, cases[name].play)) as server:
            for most in range(1, n_requests(whole), 6):
                with pytest.raises(KBBenchError, match="max-requests"):
                    walk(here, server, tmp_path / f"{name}, stopped", max_requests=most, concurrency=4)
            walked = walk(here, server, tmp_path / f"{name}, stopped")
            assert server.n_paid_twice == 0 and len(server.times) == n_requests(whole)
        check(here, cases[name], walked, tmp_path / f"{name}, stopped")
        for file in ("predictions.jsonl", "trajectories.jsonl"):
            first, second = (untimed(tmp_path / each / file) for each in (name, f"{name}, stopped"))
            assert first == second


def n_requests(walked: RankedRun) -> int:
    return sum(each.steps for each in walked.trajectories)


def untimed(file: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [{key: value for key, value in each.items() if key != "seconds"} for each in found]


def test_the_limits_are_what_the_options_say(here: World, tmp_path: Path) -> None:
    cases = plain(here.puzzles)
    agent = Agent(here.agent.tools, AgentLimits(max_steps=3))
    with ToolCaller(policy=policy(here.puzzles, cases["endless, selecting"].play)) as server:
        walked = walk(here, server, tmp_path / "steps", agent=agent)
    assert {each.steps for each in walked.trajectories} == {3}
    agent = Agent(here.agent.tools, AgentLimits(tokens=3_000))
    with ToolCaller(policy=policy(here.puzzles, cases["endless, selecting"].play)) as server:
        walked = walk(here, server, tmp_path / "tokens", agent=agent)
        last = max(payload_tokens(each) for each in server.payloads)
    for each in walked.trajectories:
        assert each.end == "budget" and each.selected
        spent = (each.prompt_tokens or 0) + (each.completion_tokens or 0)
        assert 3_000 <= spent < 3_000 + last + 500
    with ToolCaller(policy=policy(here.puzzles, cases["endless, selecting"].play)) as server:
        agent = Agent(here.agent.tools, AgentLimits(calls=4))
        walked = walk(here, server, tmp_path / "calls", agent=agent)
    for each in walked.trajectories:
        assert (each.end, each.steps, each.tool_errors) == ("stuck", 7, {"too_many_calls": 3})


def payload_tokens(payload: Mapping[str, Any]) -> int:
    return len(json.dumps(payload["messages"])) // 4


def test_a_model_that_thinks_is_not_told_its_thoughts(here: World, tmp_path: Path) -> None:
    with ToolCaller(policy=policy(here.puzzles, oracle), reasons=True) as server:
        walked = walk(here, server, tmp_path)
    assert all(each.end == "finished" for each in walked.trajectories)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_calls_are_read_however_a_model_writes_them(here: World, tmp_path: Path, dialect: str) -> None:
    case = plain(here.puzzles)["oracle"]
    with ToolCaller(policy=policy(here.puzzles, oracle), dialect=DIALECTS[dialect]) as server:
        check(here, case, walk(here, server, tmp_path), tmp_path)


@pytest.mark.parametrize("name", ["oracle", "search only", "silent", "endless", "stuck", "reminded"])
def test_a_model_that_is_told_of_the_tools_in_words_does_as_well_a_call_at_a_time(
    here: World, tmp_path: Path, name: str
) -> None:
    limits = AgentLimits(max_steps=40, calls=200, tokens=10**8)
    agent = Agent(here.agent.tools, limits, protocol="json")
    case = plain(here.puzzles)[name]
    server = ToolCaller(
        policy=policy(here.puzzles, singly(case.play)),
        dialect=in_json,
        told_in_words=True,
        extra_fields=frozenset({"response_format"}),
        node_texts=told(here),
    )
    with server:
        walked = walk(here, server, tmp_path, agent=agent)
    check(here, replace(case, steps=None), walked, tmp_path)


def too_long(payload: dict[str, Any]) -> Reply | None:
    """Refuse conversations of more than two steps as servers do whose window is full."""
    words = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."
    body = {"error": {"message": words, "type": "invalid_request_error", "code": "context_length_exceeded"}}
    steps = sum(message["role"] == "assistant" for message in payload["messages"])
    return Reply(400, json.dumps(body).encode()) if steps > 2 else None


def test_a_full_window_ends_a_question_with_what_was_selected(here: World, tmp_path: Path) -> None:
    play = plain(here.puzzles)["endless, selecting"].play
    with ToolCaller(policy=policy(here.puzzles, play)) as server:
        server.reply = too_long
        walked = walk(here, server, tmp_path)
    for puzzle, each in zip(here.questions, walked.trajectories, strict=True):
        assert (each.end, each.steps, each.selected) == ("budget", 3, list(puzzle.answers[:1]))


def test_a_question_whose_server_gives_up_is_asked_on_when_the_run_starts_again(here: World, tmp_path: Path) -> None:
    case, hopeless = plain(here.puzzles)["oracle"], here.questions[1]

    def broken(payload: dict[str, Any]) -> Reply | None:
        asked = here.puzzles.of(payload["messages"][1]["content"]) is hopeless
        return Reply(500, b"{}") if asked and len(payload["messages"]) > 3 else None

    with ToolCaller(policy=policy(here.puzzles, oracle)) as server:
        server.reply, strict = broken, server.reply
        walked = walk(here, server, tmp_path, attempts=2)
        ends = [each.end for each in walked.trajectories]
        assert ends.count("failed") == 1 and ends[1] == "failed" and walked.trajectories[1].steps == 1
        assert lines(tmp_path)[1] == lines(here.base)[1]
        server.reply = strict
        asked = len(server.times)
        walked = walk(here, server, tmp_path)
        assert len(server.times) - asked == oracle_steps(hopeless) - 1 and server.n_paid_twice == 0
    check(here, case, walked, tmp_path)


def test_compact_conversations_leave_out_old_texts_and_nothing_else(here: World, tmp_path: Path) -> None:
    play = plain(here.puzzles)["nearly stuck"]
    sent = []
    for compact in (False, True):
        agent = Agent(here.agent.tools, compact=compact)
        with ToolCaller(policy=policy(here.puzzles, play.play)) as server:
            check(here, play, walk(here, server, tmp_path / str(compact), agent=agent), tmp_path / str(compact))
            sent.append(max(payload_tokens(each) for each in server.payloads))
    assert sent[1] < sent[0]
