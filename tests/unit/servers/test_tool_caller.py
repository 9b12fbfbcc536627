"""The scripted model plays on from any point of a conversation, and finds what was changed on the way."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.puzzles import mini_stark, odd
from tests.servers.tool_caller import TOOLS, Call, Script, ToolCaller, Turn

Messages = list[dict[str, Any]]
START: Messages = [{"role": "system", "content": "Find nodes."}, {"role": "user", "content": "Which is it?"}]
OFFERED = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "What it does, in a sentence.",
            "parameters": {"type": "object", "properties": {}},
        },
    }
    for name in TOOLS
]


def script(question: str) -> Script:
    (found,) = yield Turn([Call("search_nodes", {"query": question})])
    yield Turn([Call("select", {"node_ids": [found["total"]]}), Call("finish")])


def ask(server: ToolCaller, messages: Messages, **fields: object) -> dict[str, Any]:
    body = {"model": "m", "tools": OFFERED, "messages": messages, **fields}
    request = urllib.request.Request(f"{server.url}/v1/chat/completions", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=10) as reply:
        said: dict[str, Any] = json.load(reply)["choices"][0]["message"]
        return said


def told(said: dict[str, Any], results: Sequence[object]) -> Messages:
    calls = said.get("tool_calls", [])
    answers = [
        {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)}
        for call, result in zip(calls, results, strict=False)
    ]
    return [said, *answers]


def test_a_policy_goes_on_from_what_the_results_say() -> None:
    with ToolCaller(policy=script) as server:
        messages = START + told(ask(server, START), [{"total": 7}])
        second = ask(server, messages)
        assert [call["function"]["arguments"] for call in second["tool_calls"]] == ['{"node_ids": [7]}', "{}"]
        assert ask(server, messages) == second  # nothing is kept between requests
        assert ask(server, messages + told(second, [{"selected": 1}, {"finished": True}]))["content"] == "Done."
        assert server.n_paid_twice == 1


def _lost(messages: Messages) -> Messages:
    return messages[:-1]


def _swapped(messages: Messages) -> Messages:
    return [*messages[:-2], messages[-1], messages[-2]]


def _said_otherwise(messages: Messages) -> Messages:
    text = json.dumps(messages).replace("Which is it?", "Which was it?", 1)
    changed: Messages = json.loads(text)
    return changed


def _object_arguments(messages: Messages) -> Messages:
    changed: Messages = json.loads(json.dumps(messages))
    changed[2]["tool_calls"][0]["function"]["arguments"] = {}
    return changed


def _thought(messages: Messages) -> Messages:
    return [*messages[:2], {**messages[2], "reasoning_content": "Hm."}, *messages[3:]]


@pytest.mark.parametrize("change", [_lost, _swapped, _said_otherwise, _object_arguments, _thought])
def test_a_conversation_that_was_changed_is_refused(change: Callable[[Messages], Messages]) -> None:
    with pytest.raises(AssertionError, match="1 violations"), ToolCaller(policy=script) as server:
        messages = START + told(ask(server, START), [{"total": 7}])
        messages += told(ask(server, messages), [{"selected": 1}, {"finished": True}])
        with pytest.raises(urllib.error.HTTPError, match="400"):
            ask(server, change(messages))


def test_a_node_text_outside_a_result_and_an_unknown_field_are_refused() -> None:
    with pytest.raises(AssertionError, match="2 violations"), ToolCaller(policy=script, node_texts=["nodes"]) as server:
        with pytest.raises(urllib.error.HTTPError):
            ask(server, START)
        server.node_texts = ()
        with pytest.raises(urllib.error.HTTPError):
            ask(server, START, tool_choice="auto")


@pytest.mark.parametrize("puzzles", [mini_stark(), odd("strings"), odd("numbers")], ids=["mini", "strings", "numbers"])
def test_every_question_has_answers_at_the_end_of_its_walk(puzzles: Any) -> None:
    for puzzle in puzzles.questions:
        assert puzzle.answers and puzzle.on_the_way[0] == (puzzle.topic.id,) and puzzles.of(puzzle.query) is puzzle
