"""A conversation follows from the replies alone: what is sent next, how it ends, and which ranking comes of it."""

import json
from typing import Any

import pytest

from kbbench_hf.agents.agent import REMINDER, Agent, AgentLimits, Conversation, ranking
from kbbench_hf.agents.tools import AgentTools
from kbbench_hf.retrieval.bm25 import BM25
from tests.unit.retrieval.small_kb import small_kb


def conversation(**how: Any) -> Conversation:
    kb = small_kb()
    return Agent(AgentTools(kb, BM25(kb.names())), **how).conversation("Which metals does galena yield?")


def calls(*made: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"id": "x", "function": {"name": name, "arguments": json.dumps(given)}} for name, given in made]


def take(open_one: Conversation, *made: tuple[str, dict[str, Any]]) -> str | None:
    open_one.take("", calls(*made), 10, 1)
    return open_one.end


SEARCH = ("search_nodes", {"query": "galena"})
SELECT = ("select", {"node_ids": [7]})
WRONG = ("neighbors", {"node_id": 99})


def test_it_begins_with_the_schema_and_the_question_and_names_no_node() -> None:
    system, user = conversation().messages()
    assert "raw_ore - yields -> metal (3)" in system["content"]
    assert "Galena" not in system["content"]
    assert user == {"role": "user", "content": "Which metals does galena yield?"}


def test_each_call_is_answered_once_in_order_under_an_id_of_ours_and_thought_stays_behind() -> None:
    walk = conversation()
    walk.take("<think>Galena, then.</think>I search.", calls(SEARCH, SELECT), 10, 1)
    said, first, second = walk.messages()[2:]
    assert said["content"] == "I search."
    assert [each["id"] for each in said["tool_calls"]] == ["s1c0", "s1c1"]
    assert all(isinstance(each["function"]["arguments"], str) for each in said["tool_calls"])
    assert (first["role"], first["tool_call_id"], json.loads(first["content"])["nodes"][0]["id"]) == ("tool", "s1c0", 4)
    assert second == {"role": "tool", "tool_call_id": "s1c1", "content": '{"selected": 1, "ignored": []}'}


def test_broken_calls_go_back_as_what_every_server_takes() -> None:
    walk = conversation()
    walk.take("", [{"function": {"name": "look up!", "arguments": "{"}}], 10, 1)
    (call,) = walk.messages()[2]["tool_calls"]
    assert call["function"] == {"name": "look_up_", "arguments": "{}"}
    assert json.loads(walk.messages()[3]["content"])["error"]["code"] == "bad_arguments"


def test_finish_ends_it_after_the_other_calls_of_its_reply() -> None:
    walk = conversation()
    assert take(walk, ("finish", {}), SELECT) == "finished"
    assert walk.question.selected == [7]


def test_a_reply_without_a_call_is_reminded_once_and_the_second_in_a_row_ends_it() -> None:
    walk = conversation()
    walk.take("It is lead.", None, 10, 1)
    assert walk.messages()[2:] == [
        {"role": "assistant", "content": "It is lead."},
        {"role": "user", "content": REMINDER},
    ]
    assert take(walk, SEARCH) is None
    walk.take("", [], 10, 1)
    assert walk.end is None
    walk.take("Lead.", None, 10, 1)
    assert walk.end == "no_call"


def test_three_steps_of_errors_in_a_row_end_it_and_one_right_call_does_not_let_them() -> None:
    walk = conversation()
    ends = [take(walk, WRONG), take(walk, WRONG, SEARCH), take(walk, WRONG), take(walk, WRONG), take(walk, WRONG)]
    assert ends == [None, None, None, None, "stuck"]


def test_limits_bound_steps_calls_and_tokens() -> None:
    walk = conversation(limits=AgentLimits(max_steps=2))
    assert [take(walk, SEARCH), take(walk, SEARCH)] == [None, "step_limit"]
    walk = conversation(limits=AgentLimits(calls_a_step=2, calls=3))
    take(walk, SEARCH, SEARCH, SELECT)
    assert walk.question.selected == []
    take(walk, SEARCH, SELECT)
    assert walk.question.selected == []
    assert [outcome.error for step in walk.steps for outcome in step.outcomes] == [
        *(None, None, "too_many_calls"),
        *(None, "too_many_calls"),
    ]
    walk = conversation(limits=AgentLimits(tokens=21))
    assert [take(walk, SEARCH), take(walk, SEARCH)] == [None, "budget"]
    walk = conversation(limits=AgentLimits(tokens=100))
    walk.take("", calls(SEARCH))
    assert walk.end == "budget", "what nobody counts is estimated"


@pytest.mark.parametrize(
    ("error", "settled", "end"),
    [("context_length", True, "budget"), ("http_500", False, "failed"), ("content_filter", True, "no_call")],
)
def test_a_request_without_a_reply_ends_it(error: str, settled: bool, end: str) -> None:
    walk = conversation()
    take(walk, SELECT)
    walk.fail(error, settled=settled)
    assert (walk.end, walk.question.selected) == (end, [7])


def test_who_called_in_the_field_once_does_not_call_by_what_it_quotes() -> None:
    quoted = '<tool_call>{"name": "select", "arguments": {"node_ids": [8]}}</tool_call>'
    walk = conversation()
    take(walk, SEARCH)
    walk.take(f"The text says {quoted}", None, 10, 1)
    assert walk.question.selected == []
    walk = conversation()
    walk.take(quoted, None, 10, 1)
    assert walk.question.selected == [8], "a server without a parser"


def test_a_model_told_in_words_calls_by_one_object_and_gets_its_result_as_a_user_message() -> None:
    walk = conversation(protocol="json")
    assert '{"tool": NAME, "arguments": {...}}' in walk.messages()[0]["content"]
    one, two = ('{"tool": "search_nodes", "arguments": {"query": "galena"}}', '{"tool": "finish", "arguments": {}}')
    walk.take(f"{one}\nResult: ...\n{two}", None, 10, 1)
    said, result = walk.messages()[2:]
    assert said == {"role": "assistant", "content": one}
    assert result["role"] == "user"
    assert result["content"].startswith('Result: {"nodes": [{"id": 4,')
    assert walk.end is None, "what it made up after its first call is no call"
    walk.take(two, None, 10, 1)
    assert walk.end == "finished"


def test_compact_sends_older_results_without_their_texts_and_changes_no_other_thing() -> None:
    whole, compact = conversation(), conversation(compact=True)
    for each in (whole, compact):
        for _ in range(5):
            take(each, SEARCH)
    results = [json.loads(m["content"]) for m in compact.messages() if m["role"] == "tool"]
    assert ["snippet" in result["nodes"][0] for result in results] == [False, False, True, True, True]
    assert len(compact.messages()) == len(whole.messages())
    assert compact.question.selected == whole.question.selected


def test_the_ranking_repeats_when_it_is_sorted_by_score() -> None:
    base: list[tuple[int | str, float]] = [(5, 9.0), (1, 3.0), (2, 3.0), (7, 0.0), (8, -1.0)]
    made = ranking([7, 5], base, 5)
    assert [node_id for node_id, _ in made] == [7, 5, 1, 2, 8]
    assert [score for _, score in made[:2]] == [2.0, 1.5]
    assert all(score < 1 for _, score in made[2:])
    assert made[2][1] == made[3][1], "what was level in the base is level"
    assert sorted(made, key=lambda each: (-each[1], int(each[0]))) == made
    assert ranking([], base, 5) == base
    assert [node_id for node_id, _ in ranking([3, 4], base, 1)] == [3]
