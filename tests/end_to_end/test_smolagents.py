"""smolagents with our tools answers as its model's replies say, and as our own loop does."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("smolagents")

from smolagents import ChatMessage, ChatMessageToolCall, MessageRole, Model
from smolagents.models import ChatMessageToolCallFunction

import kbbench_hf
from kbbench_hf.runners.agent_sessions import open_sessions
from kbbench_hf.scoring.trajectories import read_trajectories
from tests.puzzles import Puzzles, mini_stark
from tests.servers.tool_caller import Call, ToolCaller
from tests.servers.tool_policies import Case, noisy, plain, policy

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from smolagents_agent import answer_all

N = 20
SCRIPTS = ("oracle", "search only", "lazy", "wrong first", "only wrong", "twice", "one by one")
END = Call("final_answer", {"answer": "done"})


class ScriptedModel(Model):
    """Plays the script of the question that it reads; it ends alone, as smolagents wants it."""

    def __init__(self, puzzles: Puzzles, cases: Sequence[Case]) -> None:
        super().__init__(model_id="scripted")
        self.puzzles, self.cases = puzzles, cases

    def generate(self, messages: list[Any], **_: Any) -> ChatMessage:
        """Return the next calls after what was observed."""
        texts = [part["text"] for message in messages for part in message.content]
        (task,) = [each for each in texts if "Question: " in each and "Observation" not in each]
        observed = [each.partition("Observation:\n")[2].splitlines() for each in texts if "Observation:\n" in each]
        results = [json.loads(line) for lines in observed for line in lines]
        puzzle = self.puzzles.of(task.rpartition("Question: ")[2])
        place = [each.id for each in self.puzzles.questions].index(puzzle.id)
        calls = self._next(self.cases[place % len(self.cases)].play(puzzle), results)
        listed = [
            ChatMessageToolCall(
                ChatMessageToolCallFunction(name=name, arguments=json.dumps(given)), f"c{number}", "function"
            )
            for number, (name, given) in enumerate(calls)
        ]
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=listed)

    def _next(self, script: Any, results: list[Any]) -> Sequence[Call]:
        turn = next(script)
        while True:
            calls = [each for each in turn.calls if each.name != "finish"]
            if len(results) < len(calls):
                return calls
            if len(calls) < len(turn.calls):
                return [END]
            turn, results = script.send(results[: len(calls)]), results[len(calls) :]


def test_an_agent_of_another_framework_selects_what_its_model_says(in_tmp: Path) -> None:
    puzzles = mini_stark()
    known = {**plain(puzzles), **noisy(puzzles)}
    cases = [known[name] for name in SCRIPTS]
    with open_sessions("mini-stark", name="smolagents", limit=N, show=False) as sessions:
        answer_all(sessions, ScriptedModel(puzzles, cases))
    task_key_of = {puzzle.id: place for place, puzzle in enumerate(puzzles.questions)}
    play = policy(puzzles, lambda puzzle: cases[task_key_of[puzzle.id] % len(cases)].play(puzzle))
    with ToolCaller(policy=play) as server:
        ours = kbbench_hf.run("mini-stark", "bm25", agent="llm:m", base_url=f"{server.url}/v1", limit=N, show=False)
    assert ours.folder is not None
    written = [(folder / "predictions.jsonl").read_bytes() for folder in (sessions.folder, ours.folder)]
    assert written[0] == written[1]
    walks = read_trajectories(sessions.folder)
    assert len(walks) == N
    for place, (walk, puzzle) in enumerate(zip(walks, puzzles.questions, strict=False)):
        assert list(walk.selected) == list(cases[place % len(cases)].selected(puzzle)), place
        assert (walk.end, walk.tool_errors) == ("finished", {})
